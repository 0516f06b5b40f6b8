//! `reel volume check`: reads and verifies everything, and reports damage.

use std::time::Instant;

use reel_volume::{CheckReport, MemberReport, TitleReport};
use serde_json::{Value, json};

use crate::args::VolumeArguments;
use crate::command::{Access, open_library};
use crate::failure::{Exit, Failure};
use crate::output::print;
use crate::progress::{Meter, Unit, rate_text};

/// `reel volume check`.
pub(super) fn run(arguments: &VolumeArguments, quiet: bool) -> Result<Exit, Failure> {
    let library = open_library(&arguments.volume, Access::Read)?;
    let begun = Instant::now();
    let mut meter = Meter::new("checking", Unit::Bytes, quiet || arguments.json);
    let report = library.volume().check(&mut |progress| {
        meter.set(progress.bytes_done, progress.bytes_total);
        true
    });
    meter.finish(&format!("read {}", rate_text(report.bytes_read, begun.elapsed())));
    if arguments.json {
        print(&as_json(&report).to_string())?;
    } else {
        print(&text(&report))?;
    }
    Ok(if report.is_clean() { Exit::Done } else { Exit::Damaged })
}

fn text(report: &CheckReport) -> String {
    let mut lines = lines(report);
    lines.push(if report.is_clean() {
        "sound: every row is as it was written".into()
    } else if report.nothing_lost() {
        "damaged, but nothing is lost: every title still plays and exports".into()
    } else {
        "damaged, and bytes are lost: see the titles above".into()
    });
    lines.join("\n")
}

/// The damage, by member and title.
pub(super) fn lines(report: &CheckReport) -> Vec<String> {
    let members = report.members.iter().map(member_text);
    members.chain(report.titles.iter().map(title_text)).collect()
}

fn member_text(member: &MemberReport) -> String {
    let mut faults = Vec::new();
    let mut count = |rows: u64, what: &str| {
        if rows > 0 {
            faults.push(format!("{rows} rows {what}"));
        }
    };
    count(member.bad_rows, "wrong");
    count(member.unreadable_rows, "unreadable");
    count(member.missing_rows, "missing");
    count(member.repaired_rows, "repaired");
    if faults.is_empty() {
        return member.finding.to_string();
    }
    let offsets: Vec<String> = member.first_bad_offsets.iter().take(4).map(u64::to_string).collect();
    let first =
        if offsets.is_empty() { String::new() } else { format!(", first at byte {}", offsets.join(", ")) };
    format!("{}; {}{first}", member.finding, faults.join(", "))
}

fn title_text(title: &TitleReport) -> String {
    let mut faults = Vec::new();
    if title.recoverable_rows > 0 {
        faults.push(format!("{} rows are computed from the others", title.recoverable_rows));
    }
    if title.parity_mismatches > 0 {
        faults.push(format!("{} parity rows do not match their data", title.parity_mismatches));
    }
    if title.lost_rows > 0 {
        faults.push(format!("{} rows are LOST", title.lost_rows));
    }
    if !title.unknown_objects.is_empty() {
        faults.push(format!("the checksums of {} cannot be read", title.unknown_objects.join(", ")));
    }
    format!("title {}: {}", title.id, faults.join(", "))
}

pub(super) fn as_json(report: &CheckReport) -> Value {
    let members = report.members.iter().map(|member| {
        json!({
            "member": member.finding.member,
            "path": member.finding.path.display().to_string(),
            "state": member.finding.state.name(),
            "text": member.finding.text,
            "bad_rows": member.bad_rows,
            "unreadable_rows": member.unreadable_rows,
            "missing_rows": member.missing_rows,
            "repaired_rows": member.repaired_rows,
            "first_bad_offsets": member.first_bad_offsets,
        })
    });
    let titles = report.titles.iter().map(|title| {
        json!({
            "id": title.id,
            "recoverable_rows": title.recoverable_rows,
            "lost_rows": title.lost_rows,
            "parity_mismatches": title.parity_mismatches,
            "unknown_objects": title.unknown_objects,
        })
    });
    json!({
        "sound": report.is_clean(),
        "nothing_lost": report.nothing_lost(),
        "bytes_read": report.bytes_read,
        "members": members.collect::<Vec<_>>(),
        "damaged_titles": titles.collect::<Vec<_>>(),
    })
}
