//! What a stream of a steady rate will demand, for capacity questions without a title. Pure.

use crate::demand::{Loss, Shown, Sum};
use crate::limits::{SEND_LEAD_NS, STEADY_ROUNDS, STEADY_SEGMENT_S, STEADY_STRIPES_MAX};
use reel_cache::Depth;
use reel_qos::Demand;
use reel_qos::limits::ROUND_NS;
use reel_volume::Geometry;

/// The demand of two hours of a steady rate in segments of a steady length, from an object in
/// consecutive slots. Capacity questions (`capacity`) use it. It is counted segment by segment as a
/// title's demand is, since borders cost: a stripe on which a segment ends is read for both
/// segments.
///
/// At rates beyond all disks the demand is shorter by the factor by which its segments are larger.
pub fn steady_demand(geometry: &Geometry, depth: Depth, rate_bps: u64, loss: Loss) -> Demand {
    let segment_ns = STEADY_SEGMENT_S * ROUND_NS;
    let upto = |segment: u64| (u128::from(rate_bps) * u128::from(segment * STEADY_SEGMENT_S) / 8) as u64;
    let stripes_of_segment = upto(1) / geometry.stripe_bytes() as u64 + 1;
    let most = STEADY_ROUNDS as u64 / STEADY_SEGMENT_S;
    let segments = (STEADY_STRIPES_MAX / stripes_of_segment).clamp(2, most);
    let mut sum = Sum::new(geometry.members(), depth, loss);
    for segment in (0..segments).filter(|&segment| upto(segment) < upto(segment + 1)) {
        // A segment may be read while the segment before it is shown. The reads of a start are not
        // included, since they use interactive time.
        let stretch = Shown {
            range: upto(segment)..upto(segment + 1),
            from_ns: segment * segment_ns,
            due_ns: (segment + 1) * segment_ns - SEND_LEAD_NS,
            duration_ns: segment_ns,
            sent_ns: segment * segment_ns..(segment + 1) * segment_ns,
            with_parity: false,
        };
        sum.add(geometry, &stretch, |stripe, position| geometry.place(stripe, position).member);
    }
    sum.demand_of_rounds((segments * STEADY_SEGMENT_S) as usize)
}
