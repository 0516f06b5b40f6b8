//! Deficit round robin between classes.

use super::super::device::DepthBound;
use super::super::meter::Meter;
use super::super::{Queued, Scheduler, SchedulerView, more_urgent};
use reel_qos::{Class, ClassTable, DiskPrice};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// MARS's disk queues: one queue per class, FIFO. A round moves requests from each queue into the
/// work queue until the class's quantum of device time is used up. The work queue is served in the
/// order of a circular scan, then the next round follows. This is fair, but a request that comes
/// during a round waits for the next one, however urgent it is.
#[derive(Debug)]
pub struct Drr {
    meter: Meter,
    waiting: HashMap<u64, Filed>,
    lanes: Vec<Lane>,
    work: BTreeSet<(u64, u64)>,
    position: u64,
    arrivals: u64,
}

/// A request that waits, and since when.
#[derive(Debug)]
struct Filed {
    request: Queued,
    arrival: u64,
    lane: usize,
    in_work: bool,
}

/// One class.
#[derive(Debug, Default)]
struct Lane {
    /// Ids by arrival, without those in the work queue.
    line: BTreeMap<u64, u64>,
    quantum_ns: u64,
    deficit_ns: u64,
}

impl Drr {
    /// An empty scheduler that keeps at most `bound` in the device.
    pub fn new(classes: &ClassTable, price: DiskPrice, bound: DepthBound) -> Self {
        let meter = Meter::new(classes, price, bound);
        let (waiting, work) = (HashMap::new(), BTreeSet::new());
        let mut drr = Self { meter, waiting, lanes: Vec::new(), work, position: 0, arrivals: 0 };
        drr.set_classes(classes);
        drr
    }

    fn file(&mut self, request: Queued, arrival: u64) {
        let lane = self.meter.lane(request.class);
        self.meter.joined(lane);
        self.lanes[lane].line.insert(arrival, request.id);
        self.waiting.insert(request.id, Filed { request, arrival, lane, in_work: false });
    }

    /// Rounds until at least one request is in the work queue.
    fn form_round(&mut self) {
        while self.work.is_empty() && !self.waiting.is_empty() {
            // The rounds until the first of them moves a request, all at once: a tiny quantum must
            // not mean a long loop.
            let rounds =
                self.lanes.iter().filter_map(|lane| lane.rounds_to_the_first(&self.waiting, &self.meter));
            let Some(rounds) = rounds.min() else { return };
            for lane in &mut self.lanes {
                if lane.line.is_empty() {
                    lane.deficit_ns = 0;
                    continue;
                }
                lane.deficit_ns = lane.deficit_ns.saturating_add(lane.quantum_ns.saturating_mul(rounds));
                lane.move_into(&mut self.work, &mut self.waiting, &self.meter);
            }
        }
    }
}

impl Lane {
    fn rounds_to_the_first(&self, waiting: &HashMap<u64, Filed>, meter: &Meter) -> Option<u64> {
        let (_, id) = self.line.first_key_value()?;
        let cost_ns = meter.cost_ns(&waiting.get(id)?.request);
        Some(cost_ns.saturating_sub(self.deficit_ns).div_ceil(self.quantum_ns.max(1)).max(1))
    }

    fn move_into(
        &mut self,
        work: &mut BTreeSet<(u64, u64)>,
        waiting: &mut HashMap<u64, Filed>,
        meter: &Meter,
    ) {
        while let Some(entry) = self.line.first_entry() {
            let Some(filed) = waiting.get_mut(entry.get()) else { return };
            let cost_ns = meter.cost_ns(&filed.request);
            if cost_ns > self.deficit_ns {
                return;
            }
            self.deficit_ns -= cost_ns;
            entry.remove();
            filed.in_work = true;
            work.insert((filed.request.offset, filed.request.id));
        }
        self.deficit_ns = 0;
    }
}

impl Scheduler for Drr {
    fn push(&mut self, request: Queued, now_ns: u64) {
        self.meter.tick(now_ns);
        self.file(request, self.arrivals);
        self.arrivals += 1;
    }

    fn pop(&mut self, now_ns: u64) -> Option<Queued> {
        self.meter.tick(now_ns);
        self.form_round();
        let beyond = self.work.range((self.position, 0)..).next();
        let place = beyond.or_else(|| self.work.first()).copied()?;
        let request = self.waiting.get(&place.1)?.request;
        let cost_ns = self.meter.cost_ns(&request);
        if !self.meter.device.takes(request.bytes, cost_ns) {
            return None;
        }
        self.work.remove(&place);
        self.position = place.0.saturating_add(1);
        let lane = self.waiting.remove(&request.id)?.lane;
        self.meter.start(&request, (lane, 0), cost_ns, true, now_ns);
        Some(request)
    }

    fn done(&mut self, id: u64, now_ns: u64) {
        self.meter.finish(id, now_ns);
    }

    /// To the end of the line of its new class, unless it is in the work queue already.
    fn promote(&mut self, id: u64, class: Class, deadline_ns: u64) {
        let Some(filed) = self.waiting.get_mut(&id) else { return };
        filed.request.deadline_ns = filed.request.deadline_ns.min(deadline_ns);
        if !filed.in_work && more_urgent(&self.meter.classes, class, filed.request.class) {
            let (mut request, arrival, lane) = (filed.request, filed.arrival, filed.lane);
            self.lanes[lane].line.remove(&arrival);
            self.meter.quit(lane);
            request.class = class;
            self.file(request, self.arrivals);
            self.arrivals += 1;
        }
    }

    fn withdraw(&mut self, id: u64) -> bool {
        let Some(Filed { request, arrival, lane, in_work }) = self.waiting.remove(&id) else { return false };
        if in_work {
            self.work.remove(&(request.offset, id));
        } else {
            self.lanes[lane].line.remove(&arrival);
        }
        self.meter.quit(lane);
        true
    }

    fn set_classes(&mut self, classes: &ClassTable) {
        self.meter.set_classes(classes);
        self.lanes = Vec::new();
        for lane in 0..classes.len() {
            self.lanes.push(Lane { quantum_ns: self.meter.quantum_ns(lane), ..Lane::default() });
        }
        self.work.clear();
        let mut all: Vec<Filed> = std::mem::take(&mut self.waiting).into_values().collect();
        all.sort_unstable_by_key(|filed| filed.arrival);
        all.into_iter().for_each(|filed| self.file(filed.request, filed.arrival));
    }

    fn set_price(&mut self, price: DiskPrice) {
        self.meter.set_price(price);
    }

    fn view(&self, _now_ns: u64) -> SchedulerView {
        self.meter.view("drr")
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }
}
