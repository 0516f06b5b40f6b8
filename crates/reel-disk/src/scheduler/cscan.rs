//! Circular scan.

use super::device::DepthBound;
use super::plain::Plain;
use super::{Queued, Scheduler, SchedulerView};
use reel_qos::{Class, ClassTable, DiskPrice};

/// Circular scan: ascending offsets, then again from the lowest. Nobody starves, because what arrives behind the arm waits for
/// the next sweep. Blind to classes and deadlines. For comparison.
#[derive(Debug)]
pub struct CScan {
    queue: Plain,
    /// Where the sweep is: everything at a lower offset waits for the next one.
    arm: u64,
}

impl CScan {
    /// An empty scheduler that keeps at most `bound` in the device.
    pub fn new(classes: &ClassTable, price: DiskPrice, bound: DepthBound) -> Self {
        Self { queue: Plain::new(classes, price, bound), arm: 0 }
    }
}

impl Scheduler for CScan {
    fn push(&mut self, request: Queued, now_ns: u64) {
        self.queue.push(request.offset, request, now_ns);
    }

    fn pop(&mut self, now_ns: u64) -> Option<Queued> {
        let (offset, request) = self.queue.pop(self.arm, now_ns)?;
        // Beyond it, not at it: callers who ask for one place again and again would hold the sweep there for ever.
        self.arm = offset.saturating_add(1);
        Some(request)
    }

    fn done(&mut self, id: u64, now_ns: u64) {
        self.queue.meter.finish(id, now_ns);
    }

    /// Counted for its new class; its place in the sweep stays.
    fn promote(&mut self, id: u64, class: Class, deadline_ns: u64) {
        self.queue.promote(id, class, deadline_ns);
    }

    fn set_classes(&mut self, classes: &ClassTable) {
        self.queue.set_classes(classes);
    }

    fn set_price(&mut self, price: DiskPrice) {
        self.queue.meter.set_price(price);
    }

    fn view(&self, _now_ns: u64) -> SchedulerView {
        self.queue.meter.view("cscan")
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}
