//! One queue in one order that does not look at classes: FIFO, C-SCAN and EDF.

use super::super::device::DepthBound;
use super::super::meter::Meter;
use super::super::{Queued, Scheduler, SchedulerView, more_urgent};
use reel_qos::{Class, ClassTable, DiskPrice};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Excluded, Included, Unbounded};

/// Requests in the order of a key, then of their ids.
#[derive(Debug)]
pub struct Ordered {
    by: OrderedBy,
    meter: Meter,
    /// The keys of arrivals.
    arrivals: u64,
    /// Where the sweep is: requests at lower places wait for the next one. Only offsets are swept
    /// over.
    position: Option<(u64, u64)>,
    /// The newest request when the sweep came to this offset. Those that came later wait for the
    /// next one: callers that read one offset repeatedly would otherwise hold the sweep there.
    came_after: u64,
    /// The newest request.
    newest: u64,
    waiting: BTreeMap<(u64, u64), Queued>,
    keys: HashMap<u64, u64>,
}

/// What a queue is ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderedBy {
    /// FIFO: as they come.
    Arrival,
    /// Circular scan: ascending offsets, then again from the lowest. No request starves, because a
    /// request that arrives behind the sweep waits for the next one.
    Offset,
    /// EDF: the earliest deadline first, wherever on the disk. The best order if seeks cost nothing
    /// and all deadlines can be met. Under overload it makes everything late, and requests without
    /// deadlines wait until nothing else does.
    Deadline,
}

impl Ordered {
    /// An empty scheduler that keeps at most `bound` in the device.
    pub fn new(by: OrderedBy, classes: &ClassTable, price: DiskPrice, bound: DepthBound) -> Self {
        let (waiting, keys) = (BTreeMap::new(), HashMap::new());
        Self {
            by,
            meter: Meter::new(classes, price, bound),
            arrivals: 0,
            position: None,
            came_after: 0,
            newest: 0,
            waiting,
            keys,
        }
    }

    /// The place of the request that is next.
    fn next_place(&self) -> Option<(u64, u64)> {
        let first = |from, until| self.waiting.range((from, until)).next().map(|(place, _)| *place);
        let ahead = self.position.and_then(|(key, id)| {
            let here = first(Excluded((key, id)), Included((key, self.came_after.max(id))));
            here.or_else(|| first(Excluded((key, u64::MAX)), Unbounded))
        });
        ahead.or_else(|| first(Unbounded, Unbounded))
    }

    /// Moves a waiting request to another key.
    fn move_to(&mut self, id: u64, key: u64) {
        if let Some(old) = self.keys.insert(id, key)
            && let Some(request) = self.waiting.remove(&(old, id))
        {
            self.waiting.insert((key, id), request);
        }
    }
}

impl Scheduler for Ordered {
    fn push(&mut self, request: Queued, now_ns: u64) {
        self.meter.tick(now_ns);
        self.meter.joined(self.meter.lane(request.class));
        let key = match self.by {
            OrderedBy::Arrival => self.arrivals,
            OrderedBy::Offset => request.offset,
            OrderedBy::Deadline => request.deadline_ns,
        };
        self.arrivals += 1;
        self.newest = self.newest.max(request.id);
        self.keys.insert(request.id, key);
        self.waiting.insert((key, request.id), request);
    }

    fn pop(&mut self, now_ns: u64) -> Option<Queued> {
        self.meter.tick(now_ns);
        let place = self.next_place()?;
        let request = *self.waiting.get(&place)?;
        let cost_ns = self.meter.cost_ns(&request);
        if !self.meter.device.takes(request.bytes, cost_ns) {
            return None;
        }
        self.waiting.remove(&place);
        self.keys.remove(&request.id);
        self.meter.start(&request, (self.meter.lane(request.class), 0), cost_ns, true, now_ns);
        if self.by == OrderedBy::Offset {
            let is_there = self.position.is_some_and(|before| before.0 == place.0 && before < place);
            if !is_there {
                self.came_after = self.newest;
            }
            self.position = Some(place);
        }
        Some(request)
    }

    fn done(&mut self, id: u64, now_ns: u64) {
        self.meter.finish(id, now_ns);
    }

    /// Counted for its new class; only an earlier deadline moves it.
    fn promote(&mut self, id: u64, class: Class, deadline_ns: u64) {
        let Some(request) = self.keys.get(&id).and_then(|key| self.waiting.get_mut(&(*key, id))) else {
            return;
        };
        if more_urgent(&self.meter.classes, class, request.class) {
            self.meter.quit(self.meter.lane(request.class));
            self.meter.joined(self.meter.lane(class));
            request.class = class;
        }
        request.deadline_ns = request.deadline_ns.min(deadline_ns);
        let due_ns = request.deadline_ns;
        if self.by == OrderedBy::Deadline {
            self.move_to(id, due_ns);
        }
    }

    fn withdraw(&mut self, id: u64) -> bool {
        let Some(request) = self.keys.remove(&id).and_then(|key| self.waiting.remove(&(key, id))) else {
            return false;
        };
        self.meter.quit(self.meter.lane(request.class));
        true
    }

    fn set_classes(&mut self, classes: &ClassTable) {
        self.meter.set_classes(classes);
        for request in self.waiting.values() {
            self.meter.joined(self.meter.lane(request.class));
        }
    }

    fn set_price(&mut self, price: DiskPrice) {
        self.meter.set_price(price);
    }

    fn view(&self, _now_ns: u64) -> SchedulerView {
        self.meter.view(match self.by {
            OrderedBy::Arrival => "fifo",
            OrderedBy::Offset => "cscan",
            OrderedBy::Deadline => "edf",
        })
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }
}
