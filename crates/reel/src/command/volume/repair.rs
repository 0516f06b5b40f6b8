//! `reel volume scrub`, `rebuild` and `replace`: repair a volume.

use std::path::Path;
use std::time::Instant;

use reel_library::Library;
use reel_volume::{
    CheckProgress, CheckReport, Finding, MemberState, OpenOptions, RebuildReport, RepairOptions, Replacement,
    Volume, VolumeError,
};
use serde_json::{Value, json};
use std::sync::Arc;

use super::check;
use crate::args::{RebuildArguments, ReplaceArguments, ScrubArguments};
use crate::failure::{Exit, Failure};
use crate::output::print;
use crate::progress::{Meter, Unit, rate_text};
use crate::size::Size;

/// `reel volume scrub`.
pub(super) fn scrub(arguments: &ScrubArguments, quiet: bool) -> Result<Exit, Failure> {
    let library = open(&arguments.volume, "scrub")?;
    let begun = Instant::now();
    let mut meter = Meter::new("scrubbing", Unit::Bytes, quiet || arguments.json);
    let report = library
        .volume()
        .scrub(options(arguments.rate), &mut |progress| {
            meter.set(progress.bytes_done, progress.bytes_total);
            true
        })
        .map_err(Failure::volume)?;
    meter.finish(&format!("read {}", rate_text(report.bytes_read, begun.elapsed())));
    let repaired_rows: u64 = report.members.iter().map(|member| member.repaired_rows).sum();
    let sound = is_sound(&report);
    if arguments.json {
        let mut result = check::as_json(&report);
        result["sound"] = json!(sound);
        result["repaired_rows"] = json!(repaired_rows);
        print(&result.to_string())?;
    } else {
        print(&scrub_text(&report, repaired_rows))?;
    }
    Ok(if sound { Exit::Done } else { Exit::Damaged })
}

/// `reel volume rebuild`.
pub(super) fn rebuild(arguments: &RebuildArguments, quiet: bool) -> Result<Exit, Failure> {
    let library = open(&arguments.volume, "rebuild")?;
    let volume = library.volume();
    let member = match arguments.member {
        Some(member) => member,
        None => the_one_to_rebuild(volume)?,
    };
    let begun = Instant::now();
    let mut meter = Meter::new(format!("rebuilding member {member}"), Unit::Bytes, quiet || arguments.json);
    let mut show = |progress: CheckProgress| {
        meter.set(progress.bytes_done, progress.bytes_total);
        true
    };
    let options = options(arguments.rate);
    let report = match arguments.verify {
        true => volume.rebuild(member, options, &mut show),
        false => volume.catch_up(member, options, &mut show),
    }
    .map_err(Failure::volume)?;
    meter.finish(&format!("filled {}", rate_text(report.good_bytes + report.written_bytes, begun.elapsed())));
    if arguments.json {
        print(&rebuild_json(&report).to_string())?;
    } else if !quiet || report.lost_rows > 0 {
        let lost = match report.lost_rows {
            0 => String::new(),
            rows => format!("; {rows} rows are LOST: `reel volume check` names their titles"),
        };
        print(&format!(
            "member {member} is in use: {} written, {} unchanged{lost}",
            Size(report.written_bytes),
            Size(report.good_bytes + report.unchanged_bytes)
        ))?;
    }
    Ok(if report.lost_rows == 0 { Exit::Done } else { Exit::Damaged })
}

/// `reel volume replace`.
pub(super) fn replace(arguments: &ReplaceArguments, quiet: bool) -> Result<Exit, Failure> {
    let library = open(&arguments.volume, "replace")?;
    let replacement = Replacement {
        create: arguments.create,
        force: arguments.force,
        overwrite_volume: arguments.overwrite_volume,
        replace_healthy: arguments.replace_healthy,
        ..Replacement::new(arguments.member, arguments.path.clone())
    };
    let finding = library.volume().replace(&replacement).map_err(Failure::volume)?;
    if arguments.json {
        let result = json!({
            "member": finding.member,
            "path": finding.path,
            "state": finding.state.name(),
            "text": finding.text,
        });
        print(&result.to_string())?;
    } else if !quiet {
        print(&format!(
            "member {} is now {}; fill it with `reel volume rebuild {}`",
            finding.member,
            finding.path.display(),
            arguments.volume.display()
        ))?;
    }
    Ok(Exit::Done)
}

/// Opens the volume for writing. A server that has it open can do the same work.
fn open(dir: &Path, what: &str) -> Result<Library, Failure> {
    match Volume::open(dir, OpenOptions::default()) {
        Ok(volume) => Ok(Library::new(Arc::new(volume))),
        Err(error @ VolumeError::Locked { .. }) => Err(Failure::volume(error).help(format!(
            "if that is a server, send it POST /api/v1/volume/{what}, which does this while it serves"
        ))),
        Err(error) => Err(Failure::volume(error)),
    }
}

fn options(rate: Option<Size>) -> RepairOptions {
    RepairOptions { bytes_per_s: rate.map(Size::bytes) }
}

/// The member that is new, or was missing.
fn the_one_to_rebuild(volume: &Volume) -> Result<usize, Failure> {
    let members = volume.status().members;
    let in_state = |wanted: MemberState| members.iter().find(|member| member.state == wanted);
    match in_state(MemberState::Rebuilding).or_else(|| in_state(MemberState::Stale)) {
        Some(member) => Ok(member.member),
        None => match members.iter().find(|member| !member.state.in_use()) {
            Some(Finding { member, path, state, .. }) => Err(Failure::usage(format!(
                "there is no disk to rebuild on: member {member} ({}) is {state}",
                path.display()
            ))
            .help(match state {
                MemberState::Denied => {
                    "give this user permission to access it, or mount its file system for writing"
                }
                _ => "bring the right disk back, or replace it with `reel volume replace`",
            })),
            None => Err(Failure::usage("every member is in use")
                .help("`reel volume scrub` verifies and repairs them; what it cannot repair is replaced by `reel volume replace --replace-healthy`")),
        },
    }
}

/// Whether nothing is wrong any more.
fn is_sound(report: &CheckReport) -> bool {
    report.is_clean()
        || report.is_repaired() && report.members.iter().all(|member| member.finding.state.in_use())
}

fn scrub_text(report: &CheckReport, repaired_rows: u64) -> String {
    let mut lines = check::lines(report);
    lines.push(if report.is_clean() {
        "sound: every row is as it was written".into()
    } else if is_sound(report) {
        format!("repaired: {repaired_rows} rows were rewritten, and every row is as it was written")
    } else if report.nothing_lost()
        && let Some(member) =
            report.members.iter().find(|member| member.finding.state == MemberState::Failed)
    {
        let member = member.finding.member;
        format!(
            "{repaired_rows} rows were repaired, and member {member} failed meanwhile: replace it with \
             `reel volume replace --replace-healthy`"
        )
    } else if report.nothing_lost() {
        format!(
            "{repaired_rows} rows were repaired; others need a member that is not in use: rebuild or replace it"
        )
    } else {
        format!("{repaired_rows} rows were repaired, and bytes are lost: see the titles above")
    });
    lines.join("\n")
}

fn rebuild_json(report: &RebuildReport) -> Value {
    json!({
        "member": report.member,
        "complete": report.complete,
        "unchanged_bytes": report.unchanged_bytes,
        "good_bytes": report.good_bytes,
        "written_bytes": report.written_bytes,
        "lost_rows": report.lost_rows,
        "ended_unix_s": report.ended_unix_s,
    })
}
