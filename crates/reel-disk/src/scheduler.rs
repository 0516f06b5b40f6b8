//! Which request goes to the device next. Pure: no clock, no I/O, no threads.

use crate::limits::{DEVICE_BYTES_MAX, DEVICE_REQUESTS_MAX};
use reel_qos::{Class, ClassTable, DiskPrice};
use std::collections::BTreeMap;

/// What a scheduler knows of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Names the request; unique among those queued or in the device.
    pub id: u64,
    /// Who waits for it.
    pub class: Class,
    /// When it is due.
    pub deadline_ns: u64,
    /// Where on the member.
    pub offset: u64,
    /// How much.
    pub bytes: usize,
    /// Whether it writes.
    pub write: bool,
}

/// A policy for one member. Its driver calls `pop` until it gives nothing, and again after every `done`.
pub trait Scheduler: Send {
    /// A new request.
    fn push(&mut self, request: Queued, now_ns: u64);

    /// The next request for the device, if the device may have one more.
    fn pop(&mut self, now_ns: u64) -> Option<Queued>;

    /// The device has finished a request that `pop` gave.
    fn done(&mut self, id: u64, now_ns: u64);

    /// A request that waits is now wanted by somebody more urgent: it counts as of this class and deadline from here on.
    /// Nothing happens if it is in the device already, or if it was more urgent before.
    fn promote(&mut self, id: u64, class: Class, deadline_ns: u64);

    /// The classes and their shares from here on.
    fn set_classes(&mut self, classes: &ClassTable);

    /// What requests cost from here on.
    fn set_price(&mut self, price: DiskPrice);

    /// Its state, for people.
    fn view(&self, now_ns: u64) -> SchedulerView;

    /// Requests waiting, not counting those in the device.
    fn len(&self) -> usize;

    /// Whether nothing waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a scheduler shows of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerView {
    /// The policy's name.
    pub policy: &'static str,
    /// Main periods begun.
    pub rounds: u64,
    /// Device time left in this round when all promised work of it and of the rounds known after it is done. Negative: some of
    /// it will be late.
    pub slack_ns: i64,
    /// The least slack of the last rounds.
    pub least_slack_ns: i64,
    /// Requests given to the device after their deadline was out of reach.
    pub late: u64,
    /// By class, in the order of the class table.
    pub classes: Vec<ClassView>,
}

/// What a scheduler shows of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassView {
    /// Requests waiting.
    pub queued: u64,
    /// Device time it may claim in a round under scarcity.
    pub quota_ns: u64,
    /// Device time it was given in the last whole round.
    pub used_ns: u64,
    /// Device time it was given since the start.
    pub total_ns: u64,
}

/// How much may be in the device's own queue, where no order can be kept any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepthBound {
    /// Requests; at least 1.
    pub requests: usize,
    /// Bytes; a single request may be larger, alone.
    pub bytes: usize,
}

/// Circular scan: ascending offsets, then again from the lowest. Nobody starves, because what arrives behind the arm waits for
/// the next sweep. Class and deadline are carried and not yet used.
#[derive(Debug)]
pub struct CScan {
    waiting: BTreeMap<(u64, u64), Queued>,
    /// Where the sweep is: everything at a lower offset waits for the next one.
    arm: u64,
    in_device: BTreeMap<u64, usize>,
    in_device_bytes: usize,
    bound: DepthBound,
}

impl CScan {
    /// An empty scheduler that keeps at most `bound` in the device.
    pub fn new(bound: DepthBound) -> Self {
        Self { waiting: BTreeMap::new(), arm: 0, in_device: BTreeMap::new(), in_device_bytes: 0, bound }
    }

    fn device_takes(&self, bytes: usize) -> bool {
        self.in_device.is_empty()
            || (self.in_device.len() < self.bound.requests
                && self.in_device_bytes + bytes <= self.bound.bytes)
    }
}

impl Scheduler for CScan {
    fn push(&mut self, request: Queued, _now_ns: u64) {
        self.waiting.insert((request.offset, request.id), request);
    }

    fn pop(&mut self, _now_ns: u64) -> Option<Queued> {
        let ahead = self.waiting.range((self.arm, 0)..).next();
        let (&place, &request) = ahead.or_else(|| self.waiting.first_key_value())?;
        if !self.device_takes(request.bytes) {
            return None;
        }
        self.waiting.remove(&place);
        // Beyond it, not at it: callers who ask for one place again and again would hold the sweep there for ever.
        self.arm = place.0.saturating_add(1);
        self.in_device.insert(request.id, request.bytes);
        self.in_device_bytes += request.bytes;
        Some(request)
    }

    fn done(&mut self, id: u64, _now_ns: u64) {
        if let Some(bytes) = self.in_device.remove(&id) {
            self.in_device_bytes -= bytes;
        }
    }

    fn promote(&mut self, _id: u64, _class: Class, _deadline_ns: u64) {}

    fn set_classes(&mut self, _classes: &ClassTable) {}

    fn set_price(&mut self, _price: DiskPrice) {}

    fn view(&self, _now_ns: u64) -> SchedulerView {
        SchedulerView { policy: "cscan", ..SchedulerView::default() }
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }
}

impl Default for DepthBound {
    fn default() -> Self {
        Self { requests: DEVICE_REQUESTS_MAX, bytes: DEVICE_BYTES_MAX }
    }
}
