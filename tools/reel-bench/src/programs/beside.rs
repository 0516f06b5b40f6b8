//! Programs beside as many viewers as are admitted: nothing is late.

use super::run::{Case, PROMPT_MS, Pace, Place, Way, run};
use super::site::{NETWORK_BPS, RATE_BPS, Site};
use super::{PER_S, ROW_BYTES};
use crate::api;
use anyhow::{Context, Result};
use reel_load::{ArrivalShape, Arrivals, Fleet, Hls, Outcome, Plan, Viewing};
use reel_report::{Claim, Report};
use std::thread::sleep;
use std::time::{Duration, Instant};

const CASE: &str = "beside viewers";
/// Viewers that come: more than the network carries.
const VIEWERS: usize = 50;
/// Players keep two segments.
const BUFFER: Duration = Duration::from_secs(8);
/// What is paced, and how many readers it has.
const PACED: [(Case, usize); 3] = [(Case::Pour, 1), (Case::Mixer, 3), (Case::Tee, 4)];
/// 20 ms of one channel, 48 kHz, 16 bits.
const BYTES: usize = 1920;
/// How long programs do one thing as fast as they can.
const FAST_MS: u64 = 300;
/// In this time what is paced has begun.
const BEGIN: Duration = Duration::from_secs(5);
/// Bytes of poured streams that were sent after they were due, as the server counts them; also of
/// streams that are promised nothing.
const LATE: &str = "reel_pour_late_bytes_total";
/// Readers of poured streams.
const READERS: &str = "reel_pour_viewers";

/// Runs it. Paced programs are admitted first; then viewers come until some are refused, while
/// other programs take what is left.
pub(super) fn measure(quick: bool, site: &mut Site, report: &mut Report) -> Result<()> {
    let (arrive, stay) = if quick { (2, 3) } else { (10, 30) };
    let (arrive, stay) = (Duration::from_secs(arrive), Duration::from_secs(stay));
    report.note(format!(
        "{CASE}: {VIEWERS} viewers of 5 Mb/s come over {} s, the network is set to {} Mb/s; before them come a pour, a mixer and a tee of {BYTES} B {PER_S} \
         times a second; in the meantime programs of class aperiodic read a film, pour, mix and tee as fast as they can",
        arrive.as_secs(),
        NETWORK_BPS / 1_000_000
    ));
    let plan = Plan {
        arrivals: Arrivals { over: arrive, shape: ArrivalShape::Uniform },
        duration: Some(arrive + stay),
        viewing: Viewing::Hls(Hls { buffer: BUFFER, ..Hls::default() }),
        ..Plan::players(site.playing.playlists(&site.films), VIEWERS)
    };
    let late_before = metric(site, LATE)?;
    let lasts_ms = (arrive + stay + BEGIN).as_millis() as u64;
    let (outcome, paced, fast) = std::thread::scope(|scope| -> Result<(Outcome, Vec<u64>, u64)> {
        let paced: Vec<_> = PACED
            .into_iter()
            .map(|(case, _)| {
                let mut place = site.place.another(case.name());
                let pace = Pace { bytes: BYTES, per_s: PER_S, lasts_ms };
                scope.spawn(move || run(case, Way::Reel { prompt: true }, &pace, &mut place))
            })
            .collect();
        let readers: usize = PACED.iter().map(|(_, readers)| readers).sum();
        let begun = Instant::now();
        while metric(site, READERS)? < readers as f64 && begun.elapsed() < BEGIN {
            sleep(Duration::from_millis(50));
        }
        let fleet = Fleet::start(plan)?;
        let fleet = scope.spawn(|| fleet.wait(|_| {}));
        let mut fast: Result<u64> = Ok(0);
        while !fleet.is_finished() && fast.is_ok() {
            fast = fast.and_then(|sum| Ok(sum + fast_turn(&mut site.place)?));
        }
        let outcome = fleet.join().expect("the fleet does not panic")?;
        let mut delays_ns = Vec::new();
        for paced in paced {
            delays_ns.extend(paced.join().expect("a run does not panic")?.delays_ns);
        }
        Ok((outcome, delays_ns, fast?))
    })?;
    let late_poured_bytes = metric(site, LATE)? - late_before;
    row(&outcome, paced, (fast, late_poured_bytes), report);
    Ok(())
}

/// Each case once as fast as messages go through.
fn fast_turn(place: &mut Place) -> Result<u64> {
    let mut messages = 0;
    for (case, bytes) in [
        (Case::Tap, ROW_BYTES),
        (Case::Pour, BYTES),
        (Case::Mixer, BYTES),
        (Case::Tee, BYTES),
        (Case::Pour, ROW_BYTES),
    ] {
        let pace = Pace { bytes, per_s: 0, lasts_ms: FAST_MS };
        messages += run(case, Way::Reel { prompt: case != Case::Tap }, &pace, place)?.messages;
    }
    Ok(messages)
}

fn row(
    outcome: &Outcome,
    mut paced_ns: Vec<u64>,
    (fast, late_poured_bytes): (u64, f64),
    report: &mut Report,
) {
    let viewers = &outcome.viewers;
    paced_ns.sort_unstable();
    let late = paced_ns.iter().filter(|delay_ns| **delay_ns > PROMPT_MS * 1_000_000).count() as f64;
    let at = |permille: usize| {
        let place = paced_ns.len().saturating_sub(1) * permille / 1000;
        paced_ns.get(place).copied().unwrap_or(0) as f64 / 1e6
    };
    let values = [
        ("admitted", viewers.admitted as f64),
        ("refused", viewers.refused as f64),
        ("failed", viewers.failed as f64),
        ("segments", viewers.segments as f64),
        ("late_segments", viewers.late_segments as f64),
        ("late_bytes", viewers.late_bytes as f64),
        ("late_poured_bytes", late_poured_bytes),
        ("messages_paced", paced_ns.len() as f64),
        ("messages_paced_late", late),
        ("p50_ms", at(500)),
        ("p99_ms", at(990)),
        ("largest_ms", at(1000)),
        ("messages_fast", fast as f64),
        ("client_p99_ms", outcome.client.tick_late_ms.p99),
    ];
    report.row(CASE, "reel", RATE_BPS as f64, 0, &values);
    let claims = [
        Claim::at_most(format!("{CASE}: late bytes of viewers"), viewers.late_bytes as f64, 0.0),
        Claim::at_most(format!("{CASE}: paced messages that came after they were due"), late, 0.0),
        Claim::at_least(format!("{CASE}: viewers refused, so all was promised"), viewers.refused as f64, 1.0),
        Claim::at_least(format!("{CASE}: paced messages"), paced_ns.len() as f64, 1.0),
    ];
    claims.into_iter().for_each(|claim| report.claim(claim));
}

/// The value of a metric without labels.
fn metric(site: &Site, name: &str) -> Result<f64> {
    let page = api::text(site.playing.server.address, "/metrics")?;
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.with_context(|| format!("the server tells no {name}"))?.trim().parse().context("a number")
}
