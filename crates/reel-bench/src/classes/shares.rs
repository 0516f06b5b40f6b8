//! Shares of device time under scarcity, and what becomes of a share that nobody uses (Prism figure 9).

use super::{RATE_BPS, Set};
use crate::fleet::{pace, run};
use crate::load::{Outcome, Plan, Reading};
use crate::reel::{Settings, device_ms};
use crate::report::Claim;
use crate::sheet::Sheet;
use crate::stage::{Films, Playing, Stage};
use anyhow::{Context, Result};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Bulk classes and their shares in thousandths; with the two of every server that makes 1000.
const BULK: [(&str, u32); 3] = [("gold", 400), ("silver", 200), ("bronze", 100)];
/// Clients of each bulk class: enough that each always has something waiting on every member.
const CLIENTS: usize = 12;
/// Streams beside them.
const STREAMS: usize = 4;

/// Reel: three bulk classes that want all they can get, beside a few streams; then one alone.
pub(super) fn reel(set: &Set, stage: &Stage, films: &Films, sheet: &mut Sheet) -> Result<()> {
    let mut classes = vec![
        "periodic = { kind = \"periodic\", share_permille = 200 }".to_owned(),
        "interactive = { kind = \"interactive\", share_permille = 50 }".to_owned(),
        "aperiodic = { kind = \"aperiodic\", share_permille = 50 }".to_owned(),
    ];
    classes.extend(
        BULK.map(|(name, share)| format!("{name} = {{ kind = \"aperiodic\", share_permille = {share} }}")),
    );
    let playing = stage.start_reel(&Settings { admission: false, classes })?;
    let before = device_ms(&playing.server)?;
    let outcome = std::thread::scope(|scope| -> Result<Outcome> {
        // A fleet for each class: the clients of one fleet take turns on all its films.
        let mut fleets = Vec::new();
        for (number, (name, _)) in BULK.into_iter().enumerate() {
            let plan = bulk(&playing, films, set, (name, number))?;
            fleets.push(scope.spawn(move || run(&plan)));
        }
        let streams = playing.streams(films, STREAMS);
        let mut plan = bulk(&playing, films, set, (BULK[0].0, 0))?;
        (plan.viewers, plan.urls, plan.downloads) = (STREAMS, streams, Reading::default());
        let outcome = run(&plan);
        for fleet in fleets {
            fleet.join().expect("a fleet panicked")?;
        }
        outcome
    })?;
    let after = device_ms(&playing.server)?;
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
        sheet.row("shares", name, f64::from(share), 0, &values);
        sheet.claim(Claim::within(format!("share of class {name}"), got, configured, 0.05));
    }
    let late = outcome.paced.as_ref().map_or(100.0, |paced| paced.late_reads_percent);
    sheet.claim(Claim::at_most("per cent of reads late beside them, 4 streams".into(), late, 0.1));
    drop(playing);
    lent(set, stage, films, sheet)
}

/// One class alone: how much of the disks' time it gets.
fn lent(set: &Set, stage: &Stage, films: &Films, sheet: &mut Sheet) -> Result<()> {
    let playing = stage.start_reel(&Settings::promised())?;
    let mut plan = bulk(&playing, films, set, ("aperiodic", 0))?;
    plan.duration = Some(Duration::from_secs(set.seconds + 2));
    let busy = std::thread::scope(|scope| -> Result<f64> {
        let fleet = scope.spawn(|| run(&plan));
        // Not the first second: clients come one after the other.
        sleep(Duration::from_secs(1));
        let (begun, before) = (Instant::now(), stage.bay.counts()?);
        sleep(Duration::from_secs(set.seconds));
        let (took, after) = (begun.elapsed(), stage.bay.counts()?);
        fleet.join().expect("the fleet panicked")?;
        let members = stage.bay.devices.len();
        let busy_ns: u64 = after
            .iter()
            .zip(&before)
            .take(members)
            .map(|(after, before)| after.busy_ns - before.busy_ns)
            .sum();
        Ok(busy_ns as f64 / took.as_nanos() as f64 / members as f64)
    })?;
    sheet.row("idle shares", "aperiodic alone", CLIENTS as f64, 0, &[("busy", busy)]);
    sheet.claim(Claim::at_least("share of the disks' time that one class alone gets".into(), busy, 0.95));
    Ok(())
}

/// Clients that read a third of the bulk films as fast as they come, in sessions of a class: what one class has read must not
/// be in memory for another.
fn bulk(playing: &Playing, films: &Films, set: &Set, (class, third): (&str, usize)) -> Result<Plan> {
    let share = (films.bulk.len() / BULK.len()).max(1);
    let urls = playing.sessions(films, third * share..(third + 1) * share, class)?;
    Ok(Plan {
        viewing: pace(RATE_BPS),
        downloads: Reading { clients: CLIENTS, urls, ..Reading::default() },
        duration: Some(Duration::from_secs(set.seconds)),
        threads: 1,
        ..Plan::players(playing.streams(films, 1), 0)
    })
}
