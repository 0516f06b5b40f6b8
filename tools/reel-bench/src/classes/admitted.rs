//! No late byte at full admission, for ten minutes, beside ten downloads and ten browsers.

use super::{BESIDE, DISKS, RATE_BPS, Set};
use crate::disk_set::{DiskSet, Kind};
use crate::film;
use crate::fleet::{Mix, players};
use crate::reel::{Settings, capacity};
use crate::testbed::{Films, Testbed};
use anyhow::Result;
use reel_report::{Claim, Report};
use std::fs;
use std::path::Path;

/// Titles, and their length: more than viewers, so that no viewer finds in memory what another has
/// read; a viewer that has seen one takes the next, and is admitted again.
const TITLES: usize = 150;
const TITLE_S: u64 = 60;
const BULK: usize = 40;

/// More players of films of varying rate than can be reserved: the admitted ones must not miss a
/// byte.
pub(super) fn run(set: &Set, dir: &Path, kind: Kind, report: &mut Report) -> Result<()> {
    let (titles, bulk, length_s) = if set.quick { (6, 4, 10) } else { (TITLES, BULK, TITLE_S) };
    let film = film::varying(dir, length_s, RATE_BPS)?;
    let bytes = fs::metadata(&film)?.len() * (titles + bulk) as u64;
    let disk_set = DiskSet::make(dir, kind, DISKS, Films::disk_bytes(bytes, DISKS))?;
    let films = Films::make(&disk_set.dir().join("films"), (&film, titles), (&film, bulk))?;
    let testbed = Testbed::reel(&set.reel, disk_set, &films)?;
    testbed.probe(set.probe_seconds())?;
    let playing = testbed.start_reel(&Settings::with_admission())?;
    let (can, stopped_by) = capacity(&playing.server, RATE_BPS)?;
    report.note(format!(
        "at a constant {RATE_BPS} b/s Reel promises {can} viewers; then {stopped_by} is used up. A quarter more come, to films of {length_s} s \
         that vary around this rate"
    ));
    let streams = (can as usize).saturating_mul(5) / 4 + 2;
    let mix = Mix {
        streams: streams.min(if set.quick { 4 } else { 2000 }),
        aperiodic: BESIDE,
        interactive: BESIDE,
        rate_bps: RATE_BPS,
        seconds: set.admitted_seconds,
    };
    let (outcome, disks) = testbed.disk_set.watched(|| players(&playing, &films, mix))?;
    let viewers = &outcome.viewers;
    let playing_most = outcome.samples.iter().map(|sample| sample.playing).max().unwrap_or(0);
    let mut values = vec![
        ("admitted", viewers.admitted as f64),
        ("refused", viewers.refused as f64),
        ("failed", viewers.failed as f64),
        ("playing_most", playing_most as f64),
        ("stalls", viewers.stalls as f64),
        ("late_bytes", viewers.late_bytes as f64),
        ("late_segments", viewers.late_segments as f64),
        ("segments", viewers.segments as f64),
        ("played_s", viewers.played_s),
        ("mbit_per_s", viewers.mbit_per_s),
        ("client_p99_ms", outcome.client.tick_late_ms.p99),
    ];
    values.extend(disks);
    report.row("full admission", "reel", mix.streams as f64, 0, &values);
    let claim = format!(
        "late segments of {} in {} s at full admission ({} sessions admitted, {} refused, {playing_most} at once)",
        viewers.segments, mix.seconds, viewers.admitted, viewers.refused
    );
    report.claim(Claim::at_most(claim, viewers.late_segments as f64, 0.0));
    for failure in &viewers.failures {
        report.note(format!(
            "{} of the admitted viewers did not see the end: {}",
            failure.count, failure.reason
        ));
    }
    report.claim(Claim::at_most(
        "admitted viewers that did not see the end".into(),
        viewers.failed as f64,
        0.0,
    ));
    Ok(())
}
