//! Streams held with ten downloads and ten browsers beside (Prism figure 5).

use super::{BESIDE, RATE_BPS, Set};
use crate::fleet::{Mix, paced};
use crate::reel::Settings;
use crate::rival::Rival;
use crate::search::{FINENESS, Search, doubled};
use crate::testbed::{Films, Playing, Testbed, Tuning};
use anyhow::Result;
use reel_load::Outcome;
use reel_report::{Claim, Report, spread};
use std::collections::BTreeMap;

/// A number of streams is held if not more than so many of their reads are late (Prism figure 5).
const LATE_PERCENT: f64 = 12.0;
const CASE: &str = "streams held";
/// Thousandths of the disks' time for streams, people and downloads: of a machine that is there for
/// its streams. The rival has no such setting.
pub(super) const SHARES: [u32; 3] = [900, 50, 50];

/// How many streams each server held, run by run.
#[derive(Default)]
pub(super) struct Found(BTreeMap<String, Vec<f64>>);

impl Found {
    fn add(&mut self, system: &str, streams: usize) {
        self.0.entry(system.to_owned()).or_default().push(streams as f64);
    }

    /// Ratios of the medians.
    pub(super) fn claim(&self, rival: Rival, report: &mut Report) {
        let median = |system: &str| self.0.get(system).map_or(0.0, |runs| spread(&mut runs.clone()).1);
        for (how, bar) in [("shipped", 3.0), ("tuned", 1.5)] {
            let rival = format!("{} {how}", rival.name());
            let (ours, theirs) = (median("reel"), median(&rival));
            let ratio = ours / theirs.max(1.0);
            let claim = format!("streams at {LATE_PERCENT} % late reads, reel {ours} / {rival} {theirs}");
            report.claim(Claim::at_least(claim, ratio, bar));
        }
    }
}

/// Reel, without admission until too much is late.
pub(super) fn reel(
    set: &Set,
    testbed: &Testbed,
    films: &Films,
    report: &mut Report,
    found: &mut Found,
) -> Result<()> {
    report.note(format!(
        "Reel's shares of streams, people and downloads, in thousandths, where streams are held: {SHARES:?}"
    ));
    for run in 0..set.runs {
        let streams = search(set, |streams| {
            let playing = testbed.start_reel(&Settings::without_admission().shared(SHARES))?;
            is_held(set, (testbed, &playing), films, report, "reel", streams, run)
        })?;
        found.add("reel", streams);
    }
    Ok(())
}

/// The rival, set up in one way.
pub(super) fn rival(
    set: &Set,
    testbed: &Testbed,
    films: &Films,
    report: &mut Report,
    (system, tuning): (&str, Tuning),
    found: &mut Found,
) -> Result<()> {
    report.note(format!("{system}: {tuning}"));
    for run in 0..set.runs {
        let streams = search(set, |streams| {
            let playing = testbed.start_rival(tuning)?;
            is_held(set, (testbed, &playing), films, report, system, streams, run)
        })?;
        found.add(system, streams);
    }
    Ok(())
}

/// Whether so many streams are held.
fn is_held(
    set: &Set,
    (testbed, playing): (&Testbed, &Playing),
    films: &Films,
    report: &mut Report,
    system: &str,
    streams: usize,
    run: usize,
) -> Result<bool> {
    let mix =
        Mix { streams, aperiodic: BESIDE, interactive: BESIDE, rate_bps: RATE_BPS, seconds: set.seconds };
    let (outcome, disks) = testbed.disk_set.watched(|| paced(playing, films, mix))?;
    report.row(CASE, system, streams as f64, run, &[values(&outcome), disks].concat());
    Ok(late_percent(&outcome) <= LATE_PERCENT)
}

/// What is told of every mixed run.
pub(super) fn values(outcome: &Outcome) -> Vec<(&'static str, f64)> {
    let mut values =
        vec![("late_percent", late_percent(outcome)), ("client_p99_ms", outcome.client.tick_late_ms.p99)];
    if let Some(paced) = &outcome.paced {
        values.push(("late_bytes_percent", paced.late_bytes_percent));
        values.push(("reads", paced.reads as f64));
    }
    if let Some(downloads) = &outcome.downloads {
        values.push(("download_mbit_per_s", downloads.mbit_per_s));
        values.push(("downloads_failed", downloads.failed as f64));
    }
    if let Some(browsers) = &outcome.browsers {
        values.push(("interactive_p50_ms", browsers.response_ms.p50));
        values.push(("interactive_p99_ms", browsers.response_ms.p99));
        values.push(("interactive_failed", browsers.failed as f64));
    }
    values.push(("admitted", outcome.viewers.admitted as f64));
    values.push(("refused", outcome.viewers.refused as f64));
    values.push(("failed", outcome.viewers.failed as f64));
    values
}

fn late_percent(outcome: &Outcome) -> f64 {
    outcome.paced.as_ref().map_or(0.0, |paced| paced.late_reads_percent)
}

/// The greatest number of streams that is held; in a quick run, whether the first one is.
pub(super) fn search(set: &Set, mut is_held: impl FnMut(usize) -> Result<bool>) -> Result<usize> {
    let mut search = Search::new(set.streams_from, set.streams_max, FINENESS, doubled);
    while let Some(streams) = search.next() {
        search.report(streams, is_held(streams)?.then_some(streams));
        if set.quick {
            break;
        }
    }
    Ok(search.carried)
}
