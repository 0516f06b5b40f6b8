//! `reel volume`: creates, inspects and repairs volumes.

mod check;
mod repair;
mod status;

use std::path::PathBuf;

use reel_code::Code;
use reel_volume::{Members, Volume, VolumeOptions};
use serde_json::json;

use crate::args::{CodeName, CreateArguments, VolumeCommand};
use crate::failure::{Exit, Failure};
use crate::output::print;
use crate::size::Size;

/// `reel volume ...`.
pub(super) fn run(command: &VolumeCommand, quiet: bool) -> Result<Exit, Failure> {
    match command {
        VolumeCommand::Create(arguments) => create(arguments, quiet),
        VolumeCommand::Status(arguments) => status::run(arguments),
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
        symbol_bytes: arguments.symbol_bytes,
        row_symbols: arguments.row_symbols,
        unit_rows: arguments.unit_rows,
        data_rows: arguments.data_rows,
        catalogue_bytes: arguments.catalogue.map(Size::bytes),
        force: arguments.force,
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
    Ok(Exit::Done)
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
