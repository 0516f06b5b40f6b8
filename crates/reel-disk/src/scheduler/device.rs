//! What is in the device, and whether it may have more.

use crate::limits::{DEVICE_BYTES_MAX, DEVICE_NS_MAX, DEVICE_REQUESTS_MAX};
use crate::request::Requester;

/// How much may be in the device's own queue, where requests can no longer be ordered. All three
/// bounds hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepthBound {
    /// Requests; at least 1.
    pub requests: usize,
    /// Bytes; a single request may be larger, alone.
    pub bytes: usize,
    /// Device time by the member's price; a single request may cost more, alone.
    pub device_ns: u64,
}

/// The requests in the device, and how much of its time each of them takes. The sum is exact,
/// whatever the estimates are. A rotational disk serves one request after the other, so the time
/// between two answers belongs to the later of them. Another device serves all at once, so its time
/// is divided among them in proportion to their estimated costs.
#[derive(Debug)]
pub(super) struct Device {
    bound: DepthBound,
    inside: Vec<Inside>,
    bytes: usize,
    cost_ns: u64,
    seen_ns: u64,
    one_by_one: bool,
    /// One by one: the time since the last answer in which it was busy.
    unanswered_ns: u64,
}

/// A request in the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inside {
    pub(super) id: u64,
    /// The class it counts for, as a place in the class table.
    pub(super) lane: usize,
    /// The requester.
    pub(super) requester: Requester,
    /// What it was expected to cost.
    pub(super) cost_ns: u64,
    /// What its requester was charged, if it takes turns.
    pub(super) turn_ns: u64,
    /// The part of the busy time that fell to it.
    pub(super) got_ns: u64,
    /// Whether it was paid from its class's own quantum.
    pub(super) own: bool,
    pub(super) bytes: usize,
}

impl Default for DepthBound {
    fn default() -> Self {
        Self { requests: DEVICE_REQUESTS_MAX, bytes: DEVICE_BYTES_MAX, device_ns: DEVICE_NS_MAX }
    }
}

impl Device {
    pub(super) fn new(bound: DepthBound) -> Self {
        Self {
            bound,
            inside: Vec::new(),
            bytes: 0,
            cost_ns: 0,
            seen_ns: 0,
            one_by_one: false,
            unanswered_ns: 0,
        }
    }

    /// Whether it serves one after the other.
    pub(super) fn set_one_by_one(&mut self, one_by_one: bool) {
        self.one_by_one = one_by_one;
        self.unanswered_ns = 0;
    }

    /// Whether it may have a request of this size and cost now.
    pub(super) fn takes(&self, bytes: usize, cost_ns: u64) -> bool {
        self.inside.is_empty()
            || (!self.is_full()
                && self.bytes.saturating_add(bytes) <= self.bound.bytes
                && self.cost_ns.saturating_add(cost_ns) <= self.bound.device_ns)
    }

    /// Whether it takes nothing more, however small.
    pub(super) fn is_full(&self) -> bool {
        self.inside.len() >= self.bound.requests.max(1)
    }

    /// How many requests it has.
    pub(super) fn len(&self) -> usize {
        self.inside.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.inside.is_empty()
    }

    /// What is expected to be left of all that it has.
    pub(super) fn rest_ns(&self) -> u64 {
        let rest = |inside: &Inside| inside.cost_ns.saturating_sub(inside.got_ns);
        let sum = self.inside.iter().fold(0, |sum: u64, inside| sum.saturating_add(rest(inside)));
        // The first of them may take longer than estimated; the others are still to come.
        let first_ns = self.inside.first().map_or(0, |first| first.cost_ns);
        sum.saturating_sub(self.unanswered_ns.min(first_ns))
    }

    /// Counts the time since the last call.
    pub(super) fn elapse(&mut self, now_ns: u64) {
        let since_ns = now_ns.saturating_sub(self.seen_ns);
        self.seen_ns = now_ns;
        if since_ns == 0 || self.inside.is_empty() {
            return;
        }
        if self.one_by_one {
            self.unanswered_ns = self.unanswered_ns.saturating_add(since_ns);
            return;
        }
        let part = since_ns as f64 / self.cost_ns.max(1) as f64;
        for inside in &mut self.inside {
            inside.got_ns = inside.got_ns.saturating_add((inside.cost_ns as f64 * part) as u64);
        }
    }

    pub(super) fn enter(&mut self, inside: Inside) {
        self.bytes = self.bytes.saturating_add(inside.bytes);
        self.cost_ns = self.cost_ns.saturating_add(inside.cost_ns);
        self.inside.push(inside);
    }

    pub(super) fn leave(&mut self, id: u64) -> Option<Inside> {
        let place = self.inside.iter().position(|inside| inside.id == id)?;
        // In order: the first of them was given to the device first.
        let mut inside = self.inside.remove(place);
        inside.got_ns = inside.got_ns.saturating_add(std::mem::take(&mut self.unanswered_ns));
        self.bytes = self.bytes.saturating_sub(inside.bytes);
        self.cost_ns = self.cost_ns.saturating_sub(inside.cost_ns);
        Some(inside)
    }
}
