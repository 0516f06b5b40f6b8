//! Shares of device time under scarcity, and what becomes of an unused share (Prism figure 9).

use super::{RATE_BPS, Set};
use crate::fleet::pace;
use crate::reel::{Settings, device_ms};
use crate::testbed::{Films, Playing, Testbed};
use anyhow::{Context, Result};
use reel_load::{Fleet, Plan, Reading};
use reel_report::{Claim, Report};
use std::ops::Range;
use std::thread::sleep;
use std::time::Duration;

/// Bulk classes and their shares in thousandths; with the two of every server that makes 1000.
const BULK: [(&str, u32); 3] = [("gold", 400), ("silver", 200), ("bronze", 100)];
/// Clients of each bulk class: a share is only scarce while its class has a round of work waiting
/// on every member.
const CLIENTS: usize = 80;
/// Memory of the server: for all clients' readers, and for little of what a class reads, or it
/// would read that from there.
const MEMORY_BYTES: u64 = 1280 << 20;
/// Before anything is measured, all have begun.
const SETTLED: Duration = Duration::from_secs(3);
/// Streams beside them.
const STREAMS: usize = 4;

/// Reel: three bulk classes that want all they can get, beside a few streams; then one alone.
pub(super) fn reel(set: &Set, testbed: &Testbed, films: &Films, report: &mut Report) -> Result<()> {
    let mut classes = vec![
        "periodic = { kind = \"periodic\", share_permille = 200 }".to_owned(),
        "interactive = { kind = \"interactive\", share_permille = 50 }".to_owned(),
        "aperiodic = { kind = \"aperiodic\", share_permille = 50 }".to_owned(),
    ];
    classes.extend(
        BULK.map(|(name, share)| format!("{name} = {{ kind = \"aperiodic\", share_permille = {share} }}")),
    );
    let playing =
        testbed.start_reel(&Settings { classes, ..Settings::without_admission().in_memory(MEMORY_BYTES) })?;
    // A fleet for each class: the clients of one fleet take turns on all its titles. Sessions are
    // opened before any client reads.
    let mut plans = Vec::new();
    let third = (films.bulk.len() / BULK.len()).max(1);
    for (number, (name, _)) in BULK.into_iter().enumerate() {
        // What one class has read must not be in memory for another.
        plans.push(bulk(&playing, films, name, number * third..(number + 1) * third)?);
    }
    let streams = playing.streams(films, STREAMS);
    let beside = Plan { viewers: STREAMS, urls: streams, downloads: Reading::default(), ..plans[0].clone() };
    let fleets = plans.into_iter().map(Fleet::start).collect::<Result<Vec<_>>>()?;
    let beside = Fleet::start(beside)?;
    sleep(SETTLED);
    let before = device_ms(&playing.server)?;
    sleep(Duration::from_secs(set.seconds));
    let after = device_ms(&playing.server)?;
    drop(fleets);
    beside.stopper().stop();
    let outcome = beside.wait(|_| {})?;
    let used = |name: &str| -> Result<f64> {
        let of = |all: &[(String, f64)]| all.iter().find(|(known, _)| known == name).map(|(_, ms)| *ms);
        Ok(of(&after).with_context(|| format!("the dashboard has no class {name}"))?
            - of(&before).unwrap_or(0.0))
    };
    let mut all_ms = 0.0;
    for (name, _) in BULK {
        all_ms += used(name)?;
    }
    let all_shares: f64 = BULK.iter().map(|(_, share)| f64::from(*share)).sum();
    for (name, share) in BULK {
        let (got, configured) = (used(name)? / all_ms.max(1e-9), f64::from(share) / all_shares);
        let values = [("share", got), ("configured", configured), ("device_ms", used(name)?)];
        report.row("shares", name, f64::from(share), 0, &values);
        report.claim(Claim::within(format!("share of class {name}"), got, configured, 0.05));
    }
    let late = outcome.paced.as_ref().map_or(100.0, |paced| paced.late_reads_percent);
    report.claim(Claim::at_most("per cent of reads late beside them, 4 streams".into(), late, 0.1));
    drop(playing);
    lent(set, testbed, films, report)
}

/// One class alone: how much of the disks' time it gets.
fn lent(set: &Set, testbed: &Testbed, films: &Films, report: &mut Report) -> Result<()> {
    let playing = testbed.start_reel(&Settings::with_admission().in_memory(MEMORY_BYTES))?;
    let plan = bulk(&playing, films, "aperiodic", 0..films.bulk.len())?;
    let fleet = Fleet::start(plan)?;
    sleep(SETTLED);
    let (_, disks) = testbed.disk_set.watched(|| {
        sleep(Duration::from_secs(set.seconds));
        Ok(())
    })?;
    drop(fleet);
    let busy = disks.iter().find(|(name, _)| *name == "disks_busy").map_or(0.0, |(_, busy)| *busy);
    report.row("idle shares", "aperiodic alone", CLIENTS as f64, 0, &disks);
    report.claim(Claim::at_least("share of the disks' time that one class alone gets".into(), busy, 0.95));
    Ok(())
}

/// Clients that read these of the bulk films as fast as they come, in sessions of a class.
fn bulk(playing: &Playing, films: &Films, class: &str, which: Range<usize>) -> Result<Plan> {
    let urls = playing.sessions(films, which, class)?;
    Ok(Plan {
        viewing: pace(RATE_BPS),
        downloads: Reading { clients: CLIENTS, urls, ..Reading::default() },
        // It is ended when all is measured.
        duration: Some(Duration::from_secs(3600)),
        threads: 1,
        ..Plan::players(playing.streams(films, 1), 0)
    })
}
