//! In the order of arrival.

use super::device::DepthBound;
use super::plain::Plain;
use super::{Queued, Scheduler, SchedulerView};
use reel_qos::{Class, ClassTable, DiskPrice};

/// First come, first served: what a disk does when nobody orders anything. For comparison.
#[derive(Debug)]
pub struct Fifo {
    queue: Plain,
    arrivals: u64,
}

impl Fifo {
    /// An empty scheduler that keeps at most `bound` in the device.
    pub fn new(classes: &ClassTable, price: DiskPrice, bound: DepthBound) -> Self {
        Self { queue: Plain::new(classes, price, bound), arrivals: 0 }
    }
}

impl Scheduler for Fifo {
    fn push(&mut self, request: Queued, now_ns: u64) {
        self.queue.push(self.arrivals, request, now_ns);
        self.arrivals += 1;
    }

    fn pop(&mut self, now_ns: u64) -> Option<Queued> {
        self.queue.pop(0, now_ns).map(|(_, request)| request)
    }

    fn done(&mut self, id: u64, now_ns: u64) {
        self.queue.meter.finish(id, now_ns);
    }

    /// Counted for its new class; its place in the order stays.
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
        self.queue.meter.view("fifo")
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}
