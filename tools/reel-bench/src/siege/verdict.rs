//! What a siege shows: notes, rows and claims.

use super::attack::{Attack, Attacked};
use super::ending::Ended;
use super::site::SiteSpec;
use super::watch::Printed;
use super::{RATE_BPS, Scale, Seen, SiegeArguments};
use anyhow::Result;
use reel_report::{Claim, Report};
use std::thread::available_parallelism;

/// An answer about health takes at most this.
const HEALTH_MAX_S: f64 = 1.0;
/// Everything is closed so long after SIGTERM.
const END_MAX_S: f64 = 15.0;

/// How it is done.
pub(super) fn describe(report: &mut Report, arguments: &SiegeArguments, scale: &Scale, spec: &SiteSpec) {
    let attacks: Vec<_> = arguments.attacks.iter().map(|attack| attack.name()).collect();
    report.note(format!(
        "{} ordinary viewers of {} titles at {} kb/s, over veth, each from its own address; the network carries {} Mb/s{}; \
         a newcomer every 3 s, which stays {} s; {} s of siege, of which the last {} s with a frozen member",
        scale.viewers,
        scale.titles,
        RATE_BPS / 1000,
        spec.network_bps / 1_000_000,
        if spec.is_told { "" } else { ", which the server is not told" },
        scale.stay.as_secs(),
        scale.siege.as_secs(),
        if spec.freezes { scale.frozen.as_secs() } else { 0 }
    ));
    report.note(format!(
        "attacks: {}; attackers have {} % of one of {} processors{}",
        attacks.join(", "),
        arguments.quota,
        available_parallelism().map_or(1, usize::from),
        if arguments.busy { "; a busy loop on each processor" } else { "" }
    ));
    if !arguments.attacks.contains(&Attack::Frozen) {
        report.note("no member is frozen: it was not asked for");
    }
}

/// What viewers, newcomers and the watcher saw.
pub(super) fn kept(report: &mut Report, seen: &Seen) -> Result<()> {
    let Seen { outcome, newcomers, health, memory_bytes, carries, log } = seen;
    let printed = Printed::of(log)?;
    let viewers = &outcome.viewers;
    report.row(
        "siege",
        "reel",
        viewers.came as f64,
        0,
        &[
            ("admitted", viewers.admitted as f64),
            ("refused", viewers.refused as f64),
            ("failed", viewers.failed as f64),
            ("segments", viewers.segments as f64),
            ("late_segments", viewers.late_segments as f64),
            ("latest_s", viewers.latest_s),
            ("mbit_per_s", viewers.mbit_per_s),
            ("client_p99_ms", outcome.client.tick_late_ms.p99),
            ("client_max_ms", outcome.client.tick_late_ms.max),
            ("server_carries", *carries as f64),
            ("newcomers", newcomers.came as f64),
            ("newcomers_in_time", newcomers.in_time as f64),
            ("newcomers_longest_start_s", newcomers.longest_start_s),
            ("newcomers_longest_told_s", newcomers.longest_told_s),
            ("health_answers", health.answers as f64),
            ("health_longest_s", health.longest_s),
            ("health_not_ready", health.not_ready as f64),
            ("memory_mb", *memory_bytes as f64 / 1e6),
            ("media_memory_mb", printed.media_bytes as f64 / 1e6),
            ("printed_mb", printed.most_bytes as f64 / 1e6),
            ("log_lines", log.lines().count() as f64),
        ],
    );
    reasons(report, seen);
    claims(report, seen, printed);
    Ok(())
}

/// Why something did not succeed.
fn reasons(report: &mut Report, seen: &Seen) {
    let Seen { outcome, newcomers, health, .. } = seen;
    let viewers = &outcome.viewers;
    for reason in viewers.refusals.iter().chain(&viewers.failures) {
        report.note(format!("ordinary viewers: {} x {}", reason.count, reason.reason));
    }
    for (reason, count) in &newcomers.reasons {
        report.note(format!("newcomers: {count} x {reason}"));
    }
    if let Some(failure) = &health.failure {
        report.note(format!("health: {} failed, first {failure}", health.failed));
    }
}

fn claims(report: &mut Report, seen: &Seen, printed: Printed) {
    let Seen { outcome, newcomers, health, memory_bytes, .. } = seen;
    let viewers = &outcome.viewers;
    let missing = viewers.came - viewers.admitted.min(viewers.came);
    report.claim(Claim::at_most("ordinary viewers that were not admitted".into(), missing as f64, 0.0));
    let late = viewers.late_segments + newcomers.late_segments + viewers.failed;
    report.claim(Claim::at_most(
        format!("late segments of {}, and viewers that failed", viewers.segments),
        late as f64,
        0.0,
    ));
    report.claim(Claim::at_most(
        format!("newcomers of {} without a picture within the time that each was told", newcomers.came),
        (newcomers.came - newcomers.in_time) as f64,
        0.0,
    ));
    report.claim(Claim::at_most(
        format!("longest of {} answers about health, s", health.answers),
        if health.failed > 0 { f64::INFINITY } else { health.longest_s },
        HEALTH_MAX_S,
    ));
    report.claim(Claim::at_most(
        "memory at its highest / the sum that the log prints".into(),
        *memory_bytes as f64 / printed.most_bytes as f64,
        1.0,
    ));
}

/// What the attackers did, and what it cost them.
pub(super) fn attacked(report: &mut Report, arguments: &SiegeArguments, attacked: &Attacked) {
    report.note(format!(
        "attackers used {:.1} s of processor time (quota {} %)",
        attacked.processor_s, arguments.quota
    ));
    for attack in &arguments.attacks {
        let own = attacked.counts.iter().filter_map(|(what, count)| {
            let what = what.strip_prefix(attack.name())?.strip_prefix(' ')?;
            Some(format!("{what}: {count}"))
        });
        let own: Vec<_> = own.collect();
        if !own.is_empty() {
            report.note(format!("{attack}: {}", own.join(", ")));
        }
    }
}

/// How the server ended.
pub(super) fn ended(report: &mut Report, ended: &Ended, another: Result<()>, log: &str) {
    let Ended { connections, closed_s, ports_free_s, exit_s, is_kept } = ended;
    report.row(
        "end",
        "reel",
        *connections as f64,
        0,
        &[("closed_s", *closed_s), ("ports_free_s", *ports_free_s), ("exit_s", *exit_s)],
    );
    if *is_kept {
        let says = log.contains("has not answered writes");
        let words = if says { "the log says so" } else { "the log does not say so" };
        report.note(format!("the kernel kept the process in a frozen write; {words}"));
    }
    for (what, at_s) in [
        (format!("{connections} connections shut down after SIGTERM, s"), *closed_s),
        ("both ports free after SIGTERM, s".to_owned(), *ports_free_s),
        ("exit called after SIGTERM, s".to_owned(), *exit_s),
    ] {
        report.claim(Claim::at_most(what, at_s, END_MAX_S));
    }
    if let Err(error) = &another {
        report.note(format!("another server did not start: {error:#}"));
    }
    let failed = f64::from(u8::from(another.is_err()));
    report.claim(Claim::at_most("another server that did not start on the same ports".into(), failed, 0.0));
}
