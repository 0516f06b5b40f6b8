//! One class: where its requests wait, and what it may claim.

use super::super::ids::ById;
use super::queue::Queue;
use super::turns::{Sweep, Turns};
use super::{BucketOrder, Filed, QueuePosition};
use reel_qos::limits::{CLASSES_MAX, ROUND_NS, SUB_PERIOD_NS};
use reel_qos::{DiskPrice, Kind};
use std::collections::BTreeMap;

use crate::limits::{BUCKET_TOKENS_SUB_PERIODS, CARRY_ROUNDS};

/// One class.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) kind: Kind,
    /// Device time in a round.
    pub(super) quantum_ns: i64,
    /// Device time that it may still claim in this round; negative after a request that was larger
    /// than the rest.
    pub(super) left_ns: i64,
    /// Interactive: the leaky bucket of requests that break the order. It fills at the rate of the
    /// share.
    pub(super) tokens_ns: i64,
    /// Number of waiting requests.
    pub(super) len: usize,
    /// Rounds in which it waited, had a claim, and got nothing.
    pub(super) passed_over: u32,
    /// Whether it was given anything in this round.
    pub(super) served: bool,
    /// Periodic, due after the end of this round or later: (rounds that end before, place in the
    /// order, id).
    pub(super) buckets: Queue,
    /// Periodic, due before the end of this round or late: (group of deadlines, place in the order,
    /// id). Interactive: (deadline, arrival, id).
    pub(super) due: Queue,
    /// Periodic and interactive reads of a rotational disk that wait: where each ends, by (offset,
    /// id).
    ends_by_offset: BTreeMap<(u64, u64), u64>,
    /// Aperiodic: the requesters and their turns.
    pub(super) turns: Turns,
    /// Aperiodic, chosen for this sweep: (0, place in the order, id).
    pub(super) batch: Queue,
    /// What it was given of this round, by what its requests took.
    given_ns: u64,
    /// Aperiodic: device time of a sweep.
    sweep_ns: u64,
}

impl Lane {
    pub(super) fn new(kind: Kind, quantum_ns: u64) -> Self {
        let quantum_ns = quantum_ns as i64;
        Self {
            kind,
            quantum_ns,
            left_ns: quantum_ns,
            tokens_ns: 0,
            len: 0,
            passed_over: 0,
            served: false,
            buckets: Queue::default(),
            due: Queue::default(),
            ends_by_offset: BTreeMap::new(),
            turns: Turns::default(),
            batch: Queue::default(),
            given_ns: 0,
            sweep_ns: quantum_ns as u64,
        }
    }

    /// Puts a request where `position` says. The caller has counted it.
    pub(super) fn insert(&mut self, id: u64, filed: &Filed) {
        self.len += 1;
        if filed.placed {
            self.ends_by_offset.insert((filed.request.offset, id), filed.request.end());
        }
        match filed.position {
            QueuePosition::Due(first) | QueuePosition::Wanted(first) => {
                self.due.insert((first, filed.rank, id))
            }
            QueuePosition::Bucket(end) => self.buckets.insert((end, filed.rank, id)),
            QueuePosition::Line => self.turns.push(&filed.request, filed.arrival),
            QueuePosition::Batch => self.batch.insert((0, filed.rank, id)),
        }
    }

    pub(super) fn remove(&mut self, id: u64, filed: &Filed) {
        self.len -= 1;
        if filed.placed {
            self.ends_by_offset.remove(&(filed.request.offset, id));
        }
        match filed.position {
            QueuePosition::Due(first) | QueuePosition::Wanted(first) => {
                self.due.remove((first, filed.rank, id))
            }
            QueuePosition::Bucket(end) => self.buckets.remove((end, filed.rank, id)),
            // Found to be gone when its turn comes.
            QueuePosition::Line => {}
            QueuePosition::Batch => self.batch.remove((0, filed.rank, id)),
        }
    }

    /// The end of the waiting read just before `offset`, if reading on from there over `gap_bytes`
    /// at most is cheaper than a seek.
    pub(super) fn neighbour_before(&self, offset: u64, gap_bytes: u64) -> Option<u64> {
        let (_, &end) = self.ends_by_offset.range(..(offset, 0)).next_back()?;
        (end..=end.saturating_add(gap_bytes)).contains(&offset).then_some(end)
    }

    /// The read that waits just behind `end`, `gap_bytes` away at most: where it is, and its id.
    pub(super) fn neighbour_behind(&self, end: u64, gap_bytes: u64) -> Option<(u64, u64)> {
        // Without an upper border, or that would be searched for, too.
        let (&key, _) = self.ends_by_offset.range((end, 0)..).next()?;
        (key.0 <= end.saturating_add(gap_bytes)).then_some(key)
    }

    /// Chooses the next batch when the last one is done. New requests wait for the next batch, so a
    /// reader that keeps just ahead of the sweep blocks no other. A batch takes as long as what the
    /// class is given in a round, so a request waits for about a round, however little that is.
    pub(super) fn fill_batch(&mut self, waiting: &mut ById<Filed>, price: DiskPrice, order: BucketOrder) {
        if self.kind == Kind::Aperiodic && self.batch.is_empty() {
            let by_offset = order == BucketOrder::Scan;
            let sweep = Sweep { price, by_offset, worth_ns: if by_offset { self.sweep_ns } else { 0 } };
            self.turns.choose(sweep, waiting, &mut self.batch);
        }
    }

    /// The place of the first periodic request: due, or in the earliest bucket.
    pub(super) fn first_end(&self) -> Option<u64> {
        if self.due.is_empty() { self.buckets.first().map(|(end, ..)| end) } else { Some(0) }
    }

    /// Charges device time. `false` if it was lent: a class that has nothing left is not charged.
    pub(super) fn charge(&mut self, cost_ns: u64) -> bool {
        self.served = true;
        self.passed_over = 0;
        let own = self.left_ns > 0;
        if own {
            self.left_ns -= cost_ns.min(i64::MAX as u64) as i64;
        }
        own
    }

    /// A request has taken this much of the device.
    pub(super) fn note_given(&mut self, took_ns: u64) {
        self.given_ns = self.given_ns.saturating_add(took_ns);
    }

    /// What was charged for a request becomes what it took. A debt is at most a quantum or the
    /// request itself: a stall of the device must not block a class for as many rounds.
    pub(super) fn correct(&mut self, charged_ns: u64, took_ns: u64) {
        let by_ns = took_ns as i64 - charged_ns as i64;
        let least_ns = -self.quantum_ns.max(charged_ns as i64);
        self.left_ns = (self.left_ns - by_ns).max(least_ns.min(self.left_ns));
    }

    /// Begins a round. Reservations are per round: a periodic class gets its quantum again, and
    /// loses what it did not use.
    pub(super) fn begin_round(&mut self, round: u64) {
        let is_periodic = self.kind == Kind::Periodic;
        let had_claim = self.len > 0 && (!is_periodic || self.first_end() <= Some(round));
        self.passed_over =
            if had_claim && !self.served && self.left_ns >= 0 { self.passed_over + 1 } else { 0 };
        self.served = false;
        let least_ns = (self.quantum_ns as u64).min(ROUND_NS);
        self.sweep_ns = std::mem::take(&mut self.given_ns).clamp(least_ns, ROUND_NS);
        if is_periodic {
            self.left_ns = self.quantum_ns + self.left_ns.min(0);
        }
    }

    /// Portions of its quantum until it may claim again.
    pub(super) fn portions_to_a_claim(&self) -> i64 {
        if self.left_ns > 0 { 0 } else { 1 - self.left_ns / portion_ns(self.quantum_ns) }
    }

    /// More portions within the round: all classes that wait have used up what they had.
    pub(super) fn refill(&mut self, portions: i64) {
        let more_ns = portion_ns(self.quantum_ns).saturating_mul(portions);
        self.left_ns = self.left_ns.saturating_add(more_ns).min(self.quantum_ns.max(self.left_ns));
    }

    /// Time has passed. Classes that are not periodic get their quantum as time passes. Otherwise
    /// an interactive request whose class had used up its quantum early would wait for the end of
    /// the round. A class that waits may save up more than one that does not. The leaky bucket
    /// fills at the same rate.
    pub(super) fn elapse(&mut self, since_ns: u64) {
        let share = self.quantum_ns as f64 / ROUND_NS as f64;
        let more_ns = (since_ns as f64 * share) as i64;
        let most_ns = (SUB_PERIOD_NS as f64 * share) as i64 * BUCKET_TOKENS_SUB_PERIODS;
        self.tokens_ns = self.tokens_ns.saturating_add(more_ns).min(most_ns.max(1));
        if self.kind != Kind::Periodic {
            let saved = if self.len > 0 { CARRY_ROUNDS } else { 0 };
            let most_ns = self.quantum_ns * (1 + saved);
            self.left_ns = self.left_ns.saturating_add(more_ns).min(most_ns.max(self.left_ns));
        }
    }
}

/// A set of places in the table of classes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LaneSet(u32);

const _: () = assert!(CLASSES_MAX <= u32::BITS as usize);

impl LaneSet {
    pub(super) fn insert(&mut self, lane: usize) {
        self.0 |= 1 << lane;
    }

    pub(super) fn remove(&mut self, lane: usize) {
        self.0 &= !(1 << lane);
    }
}

/// In order.
impl Iterator for LaneSet {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let lane = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (lane < u32::BITS).then_some(lane as usize)
    }
}

/// What a class with this quantum is given at once when the quanta of the round are used up: its
/// share of a sub-period. With whole quanta, an interactive request could wait for a download for a
/// quarter of a second.
pub(super) fn portion_ns(quantum_ns: i64) -> i64 {
    (quantum_ns / (ROUND_NS / SUB_PERIOD_NS) as i64).max(1)
}
