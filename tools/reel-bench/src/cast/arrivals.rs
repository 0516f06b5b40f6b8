//! Ten thousand clients of a broadcast that join at random times, simulated: how long each waits
//! for its first picture, and whether a segment is late to it.

use super::Size;
use super::times::percentile;
use anyhow::Result;
use reel_broadcast::limits::JOIN_NS;
use reel_broadcast::{Plan, Scheme, Stream, Visit};
use reel_report::{Claim, Report};
use reel_testkit::Rng;

const CASE: &str = "10,000 arrivals, simulated";
const ARRIVALS: u64 = 10_000;
/// A film of two hours, and the longest wait that is asked for.
const DURATION_NS: u64 = 7_200_000_000_000;
const RATE_BPS: u64 = 5_000_000;
const WAIT_NS: u64 = 30_000_000_000;
const SCHEMES: [&str; 5] = ["staggered", "fast", "skyscraper-12", "skyscraper-52", "rfs"];
/// Arrivals are spread over so many slots.
const SLOTS: u64 = 1_000_000;
const SEED: u64 = 31;

/// Runs it.
pub(super) fn run(size: &Size, report: &mut Report) -> Result<()> {
    let arrivals = if size.quick { ARRIVALS / 100 } else { ARRIVALS };
    report.note(format!(
        "{CASE}: of a film of two hours, at random moments of {SLOTS} slots; a client joins half a second before a slot, and plays one slot \
         later, as `reel receive` does"
    ));
    for name in SCHEMES {
        let plan =
            Plan::for_receivers(name.parse::<Scheme>()?, Stream::new(DURATION_NS, RATE_BPS)?, WAIT_NS)?;
        let mut rng = Rng::new(SEED).part(name.len() as u64);
        let slot_ns = plan.slot_ns();
        let (mut waits_s, mut late) = (Vec::new(), 0);
        for _ in 0..arrivals {
            let at_ns = rng.below(SLOTS * slot_ns);
            let visit = Visit::new(&plan.schedule, (at_ns + JOIN_NS).div_ceil(slot_ns));
            late += u64::from(visit.late().is_some());
            waits_s.push(((visit.arrival_slot + 1) * slot_ns - at_ns) as f64 / 1e9);
        }
        let bound_s = plan.receivers_wait_ns() as f64 / 1e9;
        let max_s = percentile(&mut waits_s, 100.0).unwrap_or(f64::NAN);
        let values = [
            ("wait_mean_s", waits_s.iter().sum::<f64>() / waits_s.len() as f64),
            ("wait_p99_s", percentile(&mut waits_s, 99.0).unwrap_or(f64::NAN)),
            ("wait_max_s", max_s),
            ("bound_s", bound_s),
            ("clients_with_late_segments", late as f64),
        ];
        report.row(CASE, name, plan.schedule.channels().len() as f64, 0, &values);
        let longest = if late > 0 { f64::INFINITY } else { max_s / bound_s };
        report.claim(Claim::at_most(format!("{CASE}, {name}: longest wait / bound"), longest, 1.0));
    }
    Ok(())
}
