//! Turns of requesters without deadlines: deficit round robin (MARS, disk queues) between
//! requesters, in device time.

use super::super::ids::ById;
use super::queue::Queue;
use super::{Filed, QueuePosition, Queued};
use crate::request::Requester;
use reel_qos::DiskPrice;
use reel_qos::limits::{ROUND_NS, RUN_SEEKS};
use std::collections::{HashMap, VecDeque};

use crate::limits::{REQUEST_NS_MAX, TURN_DEBTS, TURN_SEEKS};

/// The requesters of one class, and the waiting requests of each in the order of arrival.
///
/// Maintenance has every second turn, so a rebuild continues however many clients download. A
/// requester is known while a request of it waits, or while it has a debt from the last turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    requesters: HashMap<Requester, Line>,
    /// All of these, the next one first: others, and those for maintenance.
    rings: [VecDeque<Requester>; 2],
    /// What others were given beyond what maintenance was, since one of the two last had nothing
    /// waiting.
    lead_ns: i64,
    /// The length of a turn, when the last one was given.
    turn_ns: i64,
    /// The largest request since the first of the known requesters came.
    largest_bytes: u64,
    /// Numbers of chosen requests, in the order in which they were chosen.
    chosen: u64,
}

/// One requester.
#[derive(Debug, Default)]
struct Line {
    /// (arrival, id). What was promoted leaves its entry behind.
    waiting: VecDeque<(u64, u64)>,
    /// Device time that it may be given; below zero when it was given more.
    balance_ns: i64,
}

/// How much is chosen, and by what price.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sweep {
    pub(super) price: DiskPrice,
    /// Chosen requests are served by place, in a sweep. Otherwise in the order in which they were
    /// chosen.
    pub(super) by_offset: bool,
    /// Device time of a sweep; what is not swept over is chosen a turn at a time.
    pub(super) worth_ns: u64,
}

impl Turns {
    /// A request has come.
    pub(super) fn push(&mut self, request: &Queued, arrival: u64) {
        let (requester, rings) = (request.requester, &mut self.rings);
        let line = self.requesters.entry(requester).or_insert_with(|| {
            rings[usize::from(requester.is_maintenance())].push_back(requester);
            Line::default()
        });
        line.waiting.push_back((arrival, request.id));
        self.largest_bytes = self.largest_bytes.max(request.bytes as u64);
    }

    /// Moves a sweep's worth of waiting requests to `batch`, one turn after another.
    ///
    /// A request that continues a chosen one costs its transfer and belongs to the same turn. A run
    /// is cut only when it has taken twice its turn; what was too much is subtracted from the next
    /// turn.
    pub(super) fn choose(&mut self, sweep: Sweep, waiting: &mut ById<Filed>, batch: &mut Queue) {
        self.turn_ns = sweep.turn_ns(self.requesters.len(), self.largest_bytes) as i64;
        // One turn each: a requester with few requests then waits for a turn of each other.
        let most_ns = sweep.worth_ns.min((self.turn_ns as u64).saturating_mul(self.requesters.len() as u64));
        let mut chosen_ns = 0_u64;
        while (batch.is_empty() || chosen_ns < most_ns)
            && let Some(ring) = self.next_ring()
            && let Some(requester) = self.rings[ring].pop_front()
        {
            let Some(line) = self.requesters.get_mut(&requester) else { continue };
            let before_ns = line.balance_ns.max(-TURN_DEBTS * self.turn_ns);
            line.balance_ns = (before_ns + self.turn_ns).min(2 * self.turn_ns);
            let given_ns = line.take_turn(self.turn_ns, &mut self.chosen, sweep, waiting, batch);
            if line.waiting.is_empty() && line.balance_ns >= 0 {
                self.requesters.remove(&requester);
            } else {
                self.rings[ring].push_back(requester);
            }
            chosen_ns = chosen_ns.saturating_add(given_ns);
            self.note_lead(ring, given_ns);
        }
        if self.requesters.is_empty() {
            self.largest_bytes = 0;
        }
    }

    /// The requests that a requester was charged for took another time. A stall of the device costs
    /// it some turns, not the whole time of the stall.
    pub(super) fn correct(&mut self, requester: Requester, expected_ns: u64, took_ns: u64) {
        if let Some(line) = self.requesters.get_mut(&requester) {
            let by_ns = expected_ns as i64 - took_ns as i64;
            let balance_ns = line.balance_ns + by_ns;
            line.balance_ns = balance_ns.clamp(-TURN_DEBTS * self.turn_ns, 2 * self.turn_ns);
        }
    }

    fn next_ring(&self) -> Option<usize> {
        match [self.rings[0].is_empty(), self.rings[1].is_empty()] {
            [true, true] => None,
            [false, false] => Some(usize::from(self.lead_ns > 0)),
            [_, others] => Some(usize::from(!others)),
        }
    }

    /// Counts which side was given more while both have something waiting: what one leaves is lent
    /// to the other.
    fn note_lead(&mut self, ring: usize, given_ns: u64) {
        if self.rings.iter().any(VecDeque::is_empty) {
            self.lead_ns = 0;
            return;
        }
        let given_ns = given_ns as i64;
        let lead_ns = self.lead_ns + if ring == 0 { given_ns } else { -given_ns };
        self.lead_ns = lead_ns.clamp(-2 * self.turn_ns, 2 * self.turn_ns);
    }
}

impl Line {
    /// As much as its balance allows; what that is expected to take.
    fn take_turn(
        &mut self,
        turn_ns: i64,
        chosen: &mut u64,
        sweep: Sweep,
        waiting: &mut ById<Filed>,
        batch: &mut Queue,
    ) -> u64 {
        let mut given_ns = 0_u64;
        while let Some(&(arrival, id)) = self.waiting.front() {
            let first = waiting
                .get(&id)
                .filter(|filed| filed.arrival == arrival && filed.position == QueuePosition::Line);
            let Some(filed) = first else {
                self.waiting.pop_front();
                continue;
            };
            let behind = sweep.neighbour_cost_ns(filed, waiting, batch);
            let may = self.balance_ns > 0 || behind.is_some() && self.balance_ns > -turn_ns;
            if !may {
                break;
            }
            let cost_ns = behind.unwrap_or(filed.cost_ns);
            self.waiting.pop_front();
            let Some(filed) = waiting.get_mut(&id) else { continue };
            if !sweep.by_offset {
                filed.rank = *chosen;
            }
            *chosen += 1;
            (filed.position, filed.turn_ns) = (QueuePosition::Batch, cost_ns);
            batch.insert((0, filed.rank, id));
            self.balance_ns = (self.balance_ns - cost_ns as i64).max(-TURN_DEBTS * turn_ns);
            given_ns = given_ns.saturating_add(cost_ns);
        }
        given_ns
    }
}

impl Sweep {
    /// A round is divided among the requesters. But a turn is worth its seek, and none is longer
    /// than the sweep or than a useful run.
    fn turn_ns(&self, requesters: usize, largest_bytes: u64) -> u64 {
        let request_ns = self.price.read_ns(largest_bytes).max(self.price.write_ns(largest_bytes));
        let seeks_ns = self.price.read_request_ns.saturating_mul(TURN_SEEKS);
        let least_ns = request_ns.max(seeks_ns).clamp(1, REQUEST_NS_MAX);
        let most_ns = self.price.read_request_ns.saturating_mul(RUN_SEEKS).min(self.worth_ns);
        let part_ns = ROUND_NS / requesters.max(1) as u64;
        if self.by_offset { part_ns.min(most_ns).max(least_ns) } else { least_ns }
    }

    /// What a request costs behind the one that was chosen before it in the sweep, if reading on
    /// from there is cheaper than a seek.
    fn neighbour_cost_ns(&self, filed: &Filed, waiting: &ById<Filed>, batch: &Queue) -> Option<u64> {
        if !self.by_offset {
            return None;
        }
        let offset = filed.request.offset;
        let (.., id) = batch.last_before(0, offset)?;
        let end = waiting.get(&id)?.request.end();
        let is_near = (end..=end.saturating_add(self.price.passed_bytes())).contains(&offset);
        let passed_bytes = filed.request.end() - end.min(filed.request.end());
        let cost_ns = if filed.request.write {
            self.price.write_ns(passed_bytes) - self.price.write_ns(0)
        } else {
            self.price.transfer_ns(passed_bytes)
        };
        is_near.then_some(cost_ns.clamp(1, REQUEST_NS_MAX))
    }
}
