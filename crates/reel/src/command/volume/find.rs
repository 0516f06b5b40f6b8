//! `reel volume find`: lists members without `volume.toml`, and writes that file from them.

use reel_volume::{FoundMember, VolumeId, find_members, list_members};
use serde_json::{Value, json};

use crate::args::FindArguments;
use crate::failure::{Exit, Failure};
use crate::output::print;
use crate::size::Size;

/// `reel volume find`.
pub(super) fn run(arguments: &FindArguments, quiet: bool) -> Result<Exit, Failure> {
    let found = find_members(&arguments.dir, &arguments.devices).map_err(Failure::volume)?;
    let wanted = arguments.volume.as_deref().map(volume_id).transpose()?;
    if arguments.json {
        let written = write_if_wanted(arguments, &found, wanted)?;
        print(&as_json(&found, written).to_string())?;
        return Ok(exit(&found));
    }
    if !quiet || !arguments.write {
        let lines: Vec<String> = found.iter().map(line).collect();
        print(&if lines.is_empty() { "no member was found".to_owned() } else { lines.join("\n") })?;
    }
    let dir = arguments.dir.display();
    match write_if_wanted(arguments, &found, wanted)? {
        Some(_) if !quiet => {
            print(&format!("wrote {dir}/volume.toml; `reel volume check {dir}` verifies everything"))?;
        }
        _ => {}
    }
    Ok(exit(&found))
}

fn volume_id(text: &str) -> Result<VolumeId, Failure> {
    VolumeId::parse(text).ok_or_else(|| {
        Failure::usage(format!("{text} is not the id of a volume"))
            .help("`reel volume find DIR` shows the ids of the volumes: 32 hexadecimal digits")
    })
}

fn write_if_wanted(
    arguments: &FindArguments,
    found: &[FoundMember],
    wanted: Option<VolumeId>,
) -> Result<Option<VolumeId>, Failure> {
    let write = || list_members(&arguments.dir, found, wanted).map_err(Failure::volume);
    arguments.write.then(write).transpose()
}

fn exit(found: &[FoundMember]) -> Exit {
    if found.is_empty() { Exit::NotFound } else { Exit::Done }
}

fn line(member: &FoundMember) -> String {
    format!(
        "member {} of {} of the volume {} ({}): {}: {}",
        member.member,
        member.members,
        member.volume,
        member.path.display(),
        Size(member.bytes),
        member.text
    )
}

fn as_json(found: &[FoundMember], written: Option<VolumeId>) -> Value {
    let members = found.iter().map(|member| {
        json!({
            "volume": member.volume.to_string(),
            "member": member.member,
            "members": member.members,
            "path": member.path.display().to_string(),
            "bytes": member.bytes,
            "whole": member.is_whole,
            "in_use_by": member.in_use_by,
            "text": member.text,
        })
    });
    json!({
        "members": members.collect::<Vec<_>>(),
        "written": written.map(|volume| volume.to_string()),
    })
}
