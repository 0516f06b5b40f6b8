//! What viewers are promised: the real ledger, and the schedule by which segments are due (`docs/design/promise.md`).

use crate::limits::{LATE_TOLERATED_NS, PAUSE_GRACE_NS, SEGMENT_NS, SEND_LEAD_NS};
use crate::scale::{OBJECT_SCALE, UNIT_BYTES};
use crate::shelf::{Shelf, Title};
use reel_qos::limits::ROUND_NS;
use reel_qos::{AdmitError, Capacities, Class, Demand, DiskDemand, Ledger, ReservationId, ResourceUsage};
use std::sync::Arc;

/// The ledger, and the demand of every title.
pub(crate) struct Promises {
    ledger: Ledger,
    demands: Vec<Arc<Demand>>,
}

/// What one viewer was promised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    reservation: ReservationId,
    /// Clock time less media time, at the border of a round.
    epoch_ns: i128,
}

/// Rounds that can be promised ahead.
const ROUNDS: usize = 4 * 3600;

/// Segments that a viewer may hold in memory.
const HELD_SEGMENTS: u64 = 3;

impl Promises {
    pub(crate) fn new(capacities: Capacities, shelf: &Shelf) -> Promises {
        let demands = shelf.titles().iter().map(|title| Arc::new(demand(title))).collect();
        Promises { ledger: Ledger::new(capacities, ROUNDS), demands }
    }

    /// Promises a title from a segment on; media time begins there at the border of the round that is now.
    pub(crate) fn admit(
        &mut self,
        title: &Title,
        segment: usize,
        now_ns: u64,
    ) -> Result<Promise, AdmitError> {
        self.ledger.advance(now_ns / ROUND_NS);
        let (demand, from_round) = (&self.demands[title.number], rounds_before(segment));
        let label = title.map.name();
        let reservation = self.ledger.admit(Class::PERIODIC, demand, from_round, now_ns / ROUND_NS, label)?;
        Ok(Promise { reservation, epoch_ns: epoch_ns(segment, now_ns) })
    }

    /// The viewer goes on at another segment, or at another time. Refused, the old promise stays.
    pub(crate) fn change(
        &mut self,
        promise: &mut Promise,
        title: &Title,
        segment: usize,
        now_ns: u64,
    ) -> Result<(), AdmitError> {
        self.ledger.advance(now_ns / ROUND_NS);
        let (demand, from_round) = (&self.demands[title.number], rounds_before(segment));
        match self.ledger.change(promise.reservation, demand, from_round, now_ns / ROUND_NS) {
            // Over while the viewer was paused near the end.
            Err(AdmitError::Ended(_)) => *promise = self.admit(title, segment, now_ns)?,
            decision => decision?,
        }
        promise.epoch_ns = epoch_ns(segment, now_ns);
        Ok(())
    }

    pub(crate) fn release(&mut self, promise: Promise) {
        self.ledger.release(promise.reservation);
    }

    pub(crate) fn usage(&mut self, now_ns: u64) -> Vec<ResourceUsage> {
        self.ledger.advance(now_ns / ROUND_NS);
        self.ledger.usage(now_ns / ROUND_NS)
    }

    /// Whether every account is the sum of what was promised, and none is above what there is.
    pub(crate) fn adds_up(&mut self, now_ns: u64) -> Result<(), String> {
        self.ledger.advance(now_ns / ROUND_NS);
        if !self.ledger.adds_up() {
            return Err("the ledger is not the sum of its reservations".to_owned());
        }
        match self.ledger.over_committed().first() {
            Some(over) => Err(format!("more is promised than there is: {over:?}")),
            None => Ok(()),
        }
    }
}

impl Promise {
    /// Whether a viewer that asks for this segment only now was paused: it should have been shown long ago.
    pub(crate) fn is_behind(&self, segment: usize, now_ns: u64) -> bool {
        let shown_ns = i128::from(now_ns) - self.epoch_ns;
        shown_ns > i128::from(segment as u64 * SEGMENT_NS + LATE_TOLERATED_NS)
    }

    /// Whether the viewer has been silent for so long that others may have what was promised to it.
    pub(crate) fn is_dry(&self, next_segment: usize, now_ns: u64) -> bool {
        let shown_ns = i128::from(now_ns) - self.epoch_ns;
        shown_ns > i128::from(next_segment as u64 * SEGMENT_NS + PAUSE_GRACE_NS)
    }

    /// When a segment must be in memory.
    pub(crate) fn due_ns(&self, segment: usize, now_ns: u64) -> u64 {
        let due_ns = self.epoch_ns + i128::from(segment as u64 * SEGMENT_NS) - i128::from(SEND_LEAD_NS);
        u64::try_from(due_ns).unwrap_or(0).max(now_ns)
    }
}

fn epoch_ns(segment: usize, now_ns: u64) -> i128 {
    i128::from(now_ns / ROUND_NS * ROUND_NS) - i128::from(segment as u64 * SEGMENT_NS)
}

fn rounds_before(segment: usize) -> usize {
    segment * (SEGMENT_NS / ROUND_NS) as usize
}

/// What a title asks, round by round: the reads of a segment lie in the rounds in which the one before it is shown. Every stripe that is
/// touched costs one read on each of its members, for any one of them may be lost.
fn demand(title: &Title) -> Demand {
    let geometry = title.map.geometry();
    let per_segment = (SEGMENT_NS / ROUND_NS) as usize;
    let rounds = title.segments() * per_segment;
    let mut members = vec![vec![DiskDemand::default(); rounds]; geometry.members()];
    let mut sent_bytes = vec![0; rounds];
    let mut units_most = 0;
    let stripe_bytes = geometry.stripe_bytes() as u64;
    for number in 0..title.segments() {
        let range = title.segment(number);
        // The last round before it is shown is for sending.
        let (first, count) = if number == 0 { (0, 1) } else { ((number - 1) * per_segment, per_segment - 1) };
        let stripes = range.start / stripe_bytes..range.end.div_ceil(stripe_bytes);
        let touched = stripes.end - stripes.start;
        units_most = units_most.max(touched * geometry.width() as u64);
        for stripe in stripes.clone() {
            let round = first + ((stripe - stripes.start) as usize * count / touched as usize);
            for position in 0..geometry.width() {
                let at = &mut members[title.map.unit_at(stripe, position).0][round];
                at.reads += 1;
                at.bytes += UNIT_BYTES as u64;
            }
        }
        for round in 0..count {
            sent_bytes[first + round] += (range.end - range.start) * OBJECT_SCALE / count as u64;
        }
    }
    Demand::new(members, sent_bytes, units_most * UNIT_BYTES as u64 * HELD_SEGMENTS)
}
