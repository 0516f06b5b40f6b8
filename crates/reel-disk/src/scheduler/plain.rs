//! One queue in one order: what FIFO, C-SCAN and EDF have in common.

use super::device::DepthBound;
use super::meter::Meter;
use super::{Queued, more_urgent};
use reel_qos::{Class, ClassTable, DiskPrice};
use std::collections::{BTreeMap, HashMap};

/// Requests in the order of a key that their policy chooses, then of their ids.
#[derive(Debug)]
pub(super) struct Plain {
    pub(super) meter: Meter,
    waiting: BTreeMap<(u64, u64), Queued>,
    keys: HashMap<u64, u64>,
}

impl Plain {
    pub(super) fn new(classes: &ClassTable, price: DiskPrice, bound: DepthBound) -> Self {
        let (waiting, keys) = (BTreeMap::new(), HashMap::new());
        Self { meter: Meter::new(classes, price, bound), waiting, keys }
    }

    pub(super) fn push(&mut self, key: u64, request: Queued, now_ns: u64) {
        self.meter.tick(now_ns);
        self.meter.joined(self.meter.lane(request.class));
        self.keys.insert(request.id, key);
        self.waiting.insert((key, request.id), request);
    }

    /// Takes out the first request at or beyond this key, or the first of all if there is none beyond, if the device takes it; with its key.
    pub(super) fn pop(&mut self, from: u64, now_ns: u64) -> Option<(u64, Queued)> {
        self.meter.tick(now_ns);
        let beyond = self.waiting.range((from, 0)..).next();
        let (&place, &request) = beyond.or_else(|| self.waiting.first_key_value())?;
        let cost_ns = self.meter.cost_ns(&request);
        if !self.meter.device.takes(request.bytes, cost_ns) {
            return None;
        }
        self.waiting.remove(&place);
        self.keys.remove(&request.id);
        self.meter.start(&request, self.meter.lane(request.class), cost_ns, true, now_ns);
        Some((place.0, request))
    }

    /// The class and deadline of a waiting request become what they are now, if that is more urgent; it lies at its old key.
    pub(super) fn promote(&mut self, id: u64, class: Class, deadline_ns: u64) -> Option<&Queued> {
        let &key = self.keys.get(&id)?;
        let request = self.waiting.get_mut(&(key, id))?;
        if more_urgent(&self.meter.classes, class, request.class) {
            self.meter.quit(self.meter.lane(request.class));
            self.meter.joined(self.meter.lane(class));
            request.class = class;
        }
        request.deadline_ns = request.deadline_ns.min(deadline_ns);
        Some(request)
    }

    /// Moves a waiting request to another key.
    pub(super) fn move_to(&mut self, id: u64, key: u64) {
        if let Some(old) = self.keys.insert(id, key)
            && let Some(request) = self.waiting.remove(&(old, id))
        {
            self.waiting.insert((key, id), request);
        }
    }

    pub(super) fn set_classes(&mut self, classes: &ClassTable) {
        self.meter.set_classes(classes);
        for request in self.waiting.values() {
            self.meter.joined(self.meter.lane(request.class));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}
