//! The earliest deadline first.

use super::device::DepthBound;
use super::plain::Plain;
use super::{Queued, Scheduler, SchedulerView};
use reel_qos::{Class, ClassTable, DiskPrice};

/// The earliest deadline first, whatever the class and the place on the disk. The best order where seeks cost nothing and everything can
/// be kept; under overload it makes everything late, and what has no deadline waits until nothing else does. For comparison.
#[derive(Debug)]
pub struct Edf {
    queue: Plain,
}

impl Edf {
    /// An empty scheduler that keeps at most `bound` in the device.
    pub fn new(classes: &ClassTable, price: DiskPrice, bound: DepthBound) -> Self {
        Self { queue: Plain::new(classes, price, bound) }
    }
}

impl Scheduler for Edf {
    fn push(&mut self, request: Queued, now_ns: u64) {
        self.queue.push(request.deadline_ns, request, now_ns);
    }

    fn pop(&mut self, now_ns: u64) -> Option<Queued> {
        self.queue.pop(0, now_ns).map(|(_, request)| request)
    }

    fn done(&mut self, id: u64, now_ns: u64) {
        self.queue.meter.finish(id, now_ns);
    }

    fn promote(&mut self, id: u64, class: Class, deadline_ns: u64) {
        if let Some(deadline_ns) = self.queue.promote(id, class, deadline_ns).map(|now| now.deadline_ns) {
            self.queue.move_to(id, deadline_ns);
        }
    }

    fn set_classes(&mut self, classes: &ClassTable) {
        self.queue.set_classes(classes);
    }

    fn set_price(&mut self, price: DiskPrice) {
        self.queue.meter.set_price(price);
    }

    fn view(&self, _now_ns: u64) -> SchedulerView {
        self.queue.meter.view("edf")
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}
