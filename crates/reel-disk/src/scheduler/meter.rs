//! What every class waits for and was given. The same for all policies, so that they can be
//! compared.

use super::device::{DepthBound, Device, Inside};
use super::{ClassView, LastLate, Queued, SchedulerView};
use crate::limits::REQUEST_NS_MAX;
use crate::request::Requester;
use reel_qos::limits::ROUND_NS;
use reel_qos::{Class, ClassTable, DiskPrice};

/// The least part of its estimated cost that a request is charged with, as a divisor. If a device
/// that answers at once, or a clock that stands still, made a class free of charge, that class
/// would be served for ever.
const CHARGE_LEAST_DIVISOR: u64 = 8;

/// Counts, prices and the device of one scheduler.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) classes: ClassTable,
    price: DiskPrice,
    pub(super) device: Device,
    /// The round of the last call, if there was one.
    pub(super) round: Option<u64>,
    lanes: Vec<Lane>,
    rounds: u64,
    late: u64,
    last_late: Option<LastLate>,
}

/// One class.
#[derive(Clone, Debug, Default)]
struct Lane {
    queued: u64,
    used_ns: u64,
    used_before_ns: u64,
    total_ns: u64,
}

/// A request that left the device, and what the estimate at its start was wrong by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub(super) lane: usize,
    pub(super) requester: Requester,
    pub(super) cost_ns: u64,
    /// What its requester was charged, and what it is to be charged.
    pub(super) turn_ns: [u64; 2],
    pub(super) charged_ns: u64,
    /// Whether it was paid from the class's own quantum.
    pub(super) own: bool,
}

impl Meter {
    pub(super) fn new(classes: &ClassTable, price: DiskPrice, bound: DepthBound) -> Self {
        let lanes = vec![Lane::default(); classes.len()];
        let device = Device::new(bound);
        let classes = classes.clone();
        let (rounds, late) = (0, 0);
        let mut meter = Self { classes, price, device, round: None, lanes, rounds, late, last_late: None };
        meter.set_price(price);
        meter
    }

    pub(super) fn price(&self) -> DiskPrice {
        self.price
    }

    pub(super) fn set_price(&mut self, price: DiskPrice) {
        self.price = price;
        self.device.set_one_by_one(price.is_rotational());
    }

    /// What it costs from here on; whether it serves one after the other stays as it was.
    pub(super) fn correct_price(&mut self, price: DiskPrice) {
        self.price = price;
    }

    /// Where a class counts: its own place, or that of `aperiodic` if it left the table.
    pub(super) fn lane(&self, class: Class) -> usize {
        if class.index() < self.lanes.len() { class.index() } else { Class::APERIODIC.index() }
    }

    pub(super) fn cost_ns(&self, request: &Queued) -> u64 {
        let bytes = request.bytes as u64;
        // Never free: what costs nothing would never use up a quantum.
        let cost_ns = if request.write { self.price.write_ns(bytes) } else { self.price.read_ns(bytes) };
        cost_ns.clamp(1, REQUEST_NS_MAX)
    }

    /// The cost of a read that is made right after one that ends at `end`, before it.
    pub(super) fn neighbour_cost_ns(&self, request: &Queued, end: u64) -> u64 {
        let passed_bytes = request.end().saturating_sub(end);
        self.price.transfer_ns(passed_bytes).clamp(1, REQUEST_NS_MAX)
    }

    /// Time passes. Whether another round has begun.
    pub(super) fn tick(&mut self, now_ns: u64) -> bool {
        self.device.elapse(now_ns);
        let round = now_ns / ROUND_NS;
        if self.round == Some(round) {
            return false;
        }
        let next = self.round.is_some_and(|before| before.checked_add(1) == Some(round));
        for lane in &mut self.lanes {
            // After a leap the last whole round was one without any work.
            lane.used_before_ns = if next { lane.used_ns } else { 0 };
            lane.used_ns = 0;
        }
        self.round = Some(round);
        self.rounds += 1;
        true
    }

    pub(super) fn joined(&mut self, lane: usize) {
        self.lanes[lane].queued += 1;
    }

    pub(super) fn quit(&mut self, lane: usize) {
        self.lanes[lane].queued -= 1;
    }

    /// A request goes from its queue to the device, paid from the class's `own` quantum or lent.
    /// Its requester was charged `turn_ns` for it.
    pub(super) fn start(
        &mut self,
        request: &Queued,
        (lane, turn_ns): (usize, u64),
        cost_ns: u64,
        own: bool,
        now_ns: u64,
    ) {
        let Queued { id, requester, bytes, .. } = *request;
        self.device.enter(Inside { id, lane, requester, cost_ns, turn_ns, own, got_ns: 0, bytes });
        if now_ns.saturating_add(cost_ns) > request.deadline_ns {
            self.late += 1;
            self.last_late = Some(LastLate { at_ns: now_ns, class: request.class });
        }
        self.quit(lane);
        let lane = &mut self.lanes[lane];
        lane.used_ns = lane.used_ns.saturating_add(cost_ns);
        lane.total_ns = lane.total_ns.saturating_add(cost_ns);
    }

    /// A request has left the device: what it was charged at its start becomes what it took.
    pub(super) fn finish(&mut self, id: u64, now_ns: u64) -> Option<Left> {
        self.tick(now_ns);
        let Inside { lane, requester, cost_ns, turn_ns, got_ns, own, .. } = self.device.leave(id)?;
        let charged_ns = got_ns.clamp(cost_ns / CHARGE_LEAST_DIVISOR, REQUEST_NS_MAX);
        let turn_ns = [turn_ns, got_ns.clamp(turn_ns / CHARGE_LEAST_DIVISOR, REQUEST_NS_MAX)];
        let count = self.lanes.get_mut(lane)?;
        count.used_ns = count.used_ns.saturating_add(charged_ns).saturating_sub(cost_ns);
        count.total_ns = count.total_ns.saturating_add(charged_ns).saturating_sub(cost_ns);
        Some(Left { lane, requester, cost_ns, turn_ns, charged_ns, own })
    }

    /// The classes from here on. Waiting requests join again. Requests in the device count for the
    /// class of their number.
    pub(super) fn set_classes(&mut self, classes: &ClassTable) {
        self.classes = classes.clone();
        self.lanes.resize_with(classes.len(), Lane::default);
        self.lanes.iter_mut().for_each(|lane| lane.queued = 0);
    }

    /// Device time of a class in a round.
    pub(super) fn quantum_ns(&self, lane: usize) -> u64 {
        let share = self.classes.iter().nth(lane).map_or(0, |(_, spec)| spec.share_permille);
        u64::from(share) * ROUND_NS / 1000
    }

    pub(super) fn view(&self, policy: &'static str) -> SchedulerView {
        let view = |(number, lane): (usize, &Lane)| ClassView {
            queued: lane.queued,
            quota_ns: self.quantum_ns(number),
            used_ns: lane.used_before_ns,
            total_ns: lane.total_ns,
        };
        let classes = self.lanes.iter().enumerate().map(view).collect();
        let (rounds, late, last_late) = (self.rounds, self.late, self.last_late);
        SchedulerView { policy, rounds, late, last_late, classes, ..SchedulerView::default() }
    }
}
