//! `reel volume`: creates, inspects and repairs volumes.

mod check;
mod find;
mod repair;
mod status;

use std::path::PathBuf;

use reel_code::Code;
use reel_library::StreamPlaces;
use reel_volume::{Geometry, GeometryPreset, Members, Volume, VolumeOptions};
use serde_json::json;

use crate::args::{CodeName, CreateArguments, FormName, VolumeCommand};
use crate::failure::{Exit, Failure};
use crate::output::print;
use crate::size::Size;

/// `reel volume ...`.
pub(super) fn run(command: &VolumeCommand, quiet: bool) -> Result<Exit, Failure> {
    match command {
        VolumeCommand::Create(arguments) => create(arguments, quiet),
        VolumeCommand::Status(arguments) => status::run(arguments),
        VolumeCommand::Find(arguments) => find::run(arguments, quiet),
        VolumeCommand::Check(arguments) => check::run(arguments, quiet),
        VolumeCommand::Scrub(arguments) => repair::scrub(arguments, quiet),
        VolumeCommand::Rebuild(arguments) => repair::rebuild(arguments, quiet),
        VolumeCommand::Replace(arguments) => repair::replace(arguments, quiet),
    }
}

fn create(arguments: &CreateArguments, quiet: bool) -> Result<Exit, Failure> {
    let options = VolumeOptions {
        members: members(&arguments.members)?,
        parity: arguments.parity,
        code: match arguments.code {
            CodeName::Xor => Code::Xor,
        },
        size_bytes: arguments.size.bytes(),
        preset: match arguments.geometry {
            FormName::Cmaf => GeometryPreset::Cmaf,
            FormName::Ts => GeometryPreset::Ts,
        },
        symbol_bytes: arguments.symbol_bytes,
        row_symbols: arguments.row_symbols,
        unit_rows: arguments.unit_rows,
        data_rows: arguments.data_rows,
        catalogue_bytes: arguments.catalogue.map(Size::bytes),
        force: arguments.force,
        overwrite_volume: arguments.overwrite_volume,
        sparse: false,
    };
    let made = Volume::create(&arguments.dir, options).map_err(Failure::volume)?;
    let geometry = made.geometry;
    if arguments.json {
        let result = json!({
            "volume": made.volume.to_string(),
            "members": made.members,
            "member_bytes": made.member_bytes,
            "capacity_bytes": made.capacity_bytes,
            "geometry": {
                "symbol_bytes": geometry.symbol_bytes(),
                "row_symbols": geometry.row_symbols(),
                "unit_rows": geometry.unit_rows(),
                "data_rows": geometry.data_rows(),
                "parity_rows": geometry.parity_rows(),
                "members": geometry.members(),
                "allows_st_2022_1": sends_parity(&geometry),
            },
        });
        print(&result.to_string())?;
        return Ok(Exit::Done);
    }
    if quiet {
        return Ok(Exit::Done);
    }
    print(&format!(
        "created volume {} in {}: {} members of {}, space for {} of titles; {} of them may be lost",
        made.volume,
        arguments.dir.display(),
        made.members.len(),
        Size(made.member_bytes),
        Size(made.capacity_bytes),
        geometry.parity_rows(),
    ))?;
    print(&network_use(&geometry))?;
    Ok(Exit::Done)
}

/// Whether parity rows of the form `ts` are column FEC of SMPTE ST 2022-1.
pub(super) fn sends_parity(geometry: &Geometry) -> bool {
    holds_streams(geometry) && geometry.allows_st_2022_1()
}

fn holds_streams(geometry: &Geometry) -> bool {
    StreamPlaces::new(*geometry).is_some()
}

/// What the geometry can do on the network.
pub(super) fn network_use(geometry: &Geometry) -> String {
    let (row_symbols, data_rows) = (geometry.row_symbols(), geometry.data_rows());
    let matrix = format!("L = {row_symbols}, D = {data_rows}");
    if sends_parity(geometry) {
        format!("form ts: its parity rows are column FEC of SMPTE ST 2022-1 with {matrix}")
    } else if holds_streams(geometry) {
        format!(
            "form ts: its parity rows are no column FEC of SMPTE ST 2022-1, which needs L <= 20, 4 <= D <= 20 and \
             L x D <= 100 ({matrix}): GStreamer repairs with them, other receivers refuse them; `--geometry ts` \
             and five or more members conform"
        )
    } else {
        "form ts: not possible, because symbols have fewer than 1316 bytes".to_owned()
    }
}

/// One number is a count; anything else is a list of paths.
fn members(words: &[String]) -> Result<Members, Failure> {
    match words {
        [word] if word.parse::<usize>().is_ok() => Ok(Members::Count(word.parse().unwrap_or(0))),
        // `volume create --members 5 DIR` is parsed as two members and no directory.
        [first, ..] if first.parse::<usize>().is_ok() => {
            Err(Failure::usage(format!("--members takes a count or paths, not {}", words.join(" ")))
                .help("put the directory first: reel volume create DIR --members 5"))
        }
        paths => {
            let twice = paths.iter().enumerate().find(|&(index, path)| paths[..index].contains(path));
            match twice {
                Some((_, path)) => Err(Failure::usage(format!("the member {path} is listed twice"))
                    .help("every member must be a different disk or file")),
                None => Ok(Members::Paths(paths.iter().map(PathBuf::from).collect())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Result<Members, Failure> {
        members(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_number_is_a_count() {
        assert_eq!(of(&["5"]).unwrap(), Members::Count(5));
        assert_eq!(of(&["./5"]).unwrap(), Members::Paths(vec!["./5".into()]));
        assert_eq!(of(&["/a", "/b"]).unwrap(), Members::Paths(vec!["/a".into(), "/b".into()]));
        assert_eq!(of(&["5", "dir"]).unwrap_err().exit, Exit::Usage);
    }
}
