//! The two-time-frame scheduler: Prism's rounds, sub-periods and slack over MARS's deficit round
//! robin.

mod choose;
mod expected;
mod lane;
mod promised;
mod queue;
mod turns;

use super::device::DepthBound;
use super::ids::ById;
use super::meter::Meter;
use super::{Queued, Scheduler, SchedulerView, more_urgent};
use crate::limits::{
    DUE_GROUP_NS, INTERACTIVE_RESERVE_BYTES, LEAST_SLACK_ROUNDS, NO_DEADLINE_ROUNDS, PASSED_OVER_ROUNDS,
    SEEKING_REQUESTS_MAX,
};
use expected::Expected;
use lane::{Lane, LaneSet};
use promised::{Budget, Promised};
use reel_qos::limits::{ROUND_NS, SUB_PERIOD_NS};
use reel_qos::{Class, ClassTable, DEADLINE_NONE_NS, DiskPrice, Kind};
use std::collections::VecDeque;

/// The scheduler that keeps reservations (Prism, section 3.2; MARS, disk queues).
///
/// A main period is a round of CLOCK_MONOTONIC. Periodic requests are in buckets by the last round
/// that ends before they are due. The bucket of this round is served in one sweep, in which
/// aperiodic requests take part. At each sub-period the first interactive requests break the order.
/// Both happen only while *slack* covers them: the device time that is left when all reserved work
/// is done. Every class has a quantum of device time in each round, which it may claim while other
/// classes wait too. When no reserved work is due, the device takes whatever waits.
#[derive(Debug)]
pub struct Rounds {
    meter: Meter,
    waiting: ById<Filed>,
    lanes: Vec<Lane>,
    /// The classes in which something waits, by kind.
    busy: [LaneSet; 3],
    promised: Promised,
    order: BucketOrder,
    /// The position of the sweep. Requests before it wait for the next sweep.
    position: u64,
    /// The same for requests that are due before the round ends.
    due_position: u64,
    /// The periodic read that was served last.
    run: Option<Run>,
    /// The interactive read that was served last, if nothing was served after it.
    interactive_run: Option<Run>,
    /// Whether its reader is expected to continue.
    expected: Expected,
    /// Where the last request of all ends.
    head: u64,
    /// Whether an interactive request broke a run that has not been continued yet.
    left_run: bool,
    /// Requests in the device that continue a broken run, and so cost a seek that was not
    /// estimated.
    seeks_back: Vec<u64>,
    /// Device time that all periodic classes together may still claim in this round.
    periodic_left_ns: i64,
    /// Device time that they may claim in a whole round.
    periodic_quantum_ns: i64,
    arrivals: u64,
    sub_period: SubPeriod,
    /// Whether some class got nothing for too long.
    passed_over: bool,
    /// Whether the next sweep of aperiodic requests can be chosen: something waits for a turn.
    ran_dry: bool,
    /// When the device became empty.
    idle_ns: u64,
    /// The least slack of this round, if anything was chosen in it.
    least_slack_ns: Option<i64>,
    least_before_ns: VecDeque<i64>,
}

/// A request that waits.
#[derive(Debug)]
struct Filed {
    request: Queued,
    cost_ns: u64,
    /// In a batch: what its requester was charged.
    turn_ns: u64,
    /// Its number in the order of arrival.
    arrival: u64,
    lane: usize,
    /// Its key among the requests that are served together.
    rank: u64,
    position: QueuePosition,
    /// Periodic: its work is reserved until this many rounds have ended.
    promised: Option<u64>,
    /// Whether it may be read together with its neighbours.
    placed: bool,
    /// Where the read before it ended, if that was waiting when this one came: the two cost one
    /// seek.
    behind: Option<u64>,
}

/// Neighbours that are read in one go.
#[derive(Clone, Copy, Debug)]
struct Run {
    lane: usize,
    /// Where the last of them ended.
    end: u64,
    /// What their transfers cost.
    cost_ns: u64,
}

/// Where a request waits in its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueuePosition {
    /// Periodic and due before this round ends, with others due about then.
    Due(u64),
    /// Periodic: to be done when this many rounds have ended.
    Bucket(u64),
    /// Interactive: wanted then.
    Wanted(u64),
    /// Aperiodic, until it is its requester's turn.
    Line,
    /// Aperiodic, in this sweep.
    Batch,
}

/// In which order a bucket is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BucketOrder {
    /// By offset: seeks cost.
    Scan,
    /// By deadline: they do not.
    Deadline,
}

/// The small time frame.
#[derive(Clone, Copy, Debug, Default)]
struct SubPeriod {
    /// Its number on the clock.
    number: u64,
    /// Device time of requests that broke the order since it began.
    cut_in_ns: u64,
    /// Until when shares and leaky buckets were handed out.
    filled_ns: u64,
}

impl Rounds {
    /// An empty scheduler that keeps at most `bound` in the device.
    pub fn new(classes: &ClassTable, price: DiskPrice, bound: DepthBound) -> Self {
        let order = BucketOrder::of(price);
        let mut rounds = Self {
            meter: Meter::new(classes, price, bound),
            waiting: ById::default(),
            lanes: Vec::new(),
            busy: Default::default(),
            promised: Promised::default(),
            order,
            position: 0,
            due_position: 0,
            run: None,
            interactive_run: None,
            expected: Expected::default(),
            head: 0,
            left_run: false,
            seeks_back: Vec::new(),
            periodic_left_ns: 0,
            periodic_quantum_ns: 0,
            arrivals: 0,
            sub_period: SubPeriod::default(),
            passed_over: false,
            ran_dry: false,
            idle_ns: 0,
            least_slack_ns: None,
            least_before_ns: VecDeque::new(),
        };
        rounds.set_classes(classes);
        rounds
    }

    /// Files a request by its class and deadline.
    fn file(&mut self, request: Queued, arrival: u64) {
        let lane = self.meter.lane(request.class);
        let round = self.meter.round.unwrap_or(0);
        let due_ns = match request.deadline_ns {
            DEADLINE_NONE_NS => round.saturating_add(NO_DEADLINE_ROUNDS).saturating_mul(ROUND_NS),
            deadline_ns => deadline_ns,
        };
        let turn_ns = 0;
        let filed = match self.lanes[lane].kind {
            Kind::Periodic => {
                let placed = self.order == BucketOrder::Scan && !request.write;
                let behind = if placed {
                    self.lanes[lane].neighbour_before(request.offset, self.meter.price().passed_bytes())
                } else {
                    None
                };
                let cost_ns = self.cost_ns(&request, behind);
                let end = due_ns / ROUND_NS;
                let position = if end > round {
                    QueuePosition::Bucket(end)
                } else {
                    QueuePosition::Due(self.order.group(due_ns))
                };
                let rank = if self.order == BucketOrder::Scan { request.offset } else { due_ns };
                self.promised.add(end, cost_ns);
                let promised = Some(end);
                Filed { request, cost_ns, turn_ns, arrival, lane, rank, position, promised, placed, behind }
            }
            kind => {
                let cost_ns = self.cost_ns(&request, None);
                let swept = kind == Kind::Aperiodic && self.order == BucketOrder::Scan;
                let rank = if swept { request.offset } else { arrival };
                let position = if kind == Kind::Interactive {
                    QueuePosition::Wanted(due_ns)
                } else {
                    QueuePosition::Line
                };
                let placed = kind == Kind::Interactive && self.order == BucketOrder::Scan && !request.write;
                let (promised, behind) = (None, None);
                Filed { request, cost_ns, turn_ns, arrival, lane, rank, position, promised, placed, behind }
            }
        };
        self.meter.joined(lane);
        self.ran_dry |= filed.position == QueuePosition::Line && self.lanes[lane].batch.is_empty();
        self.lanes[lane].insert(request.id, &filed);
        self.busy[self.lanes[lane].kind as usize].insert(lane);
        self.waiting.insert(request.id, filed);
    }

    fn cost_ns(&self, request: &Queued, behind: Option<u64>) -> u64 {
        match behind {
            Some(end) => self.meter.neighbour_cost_ns(request, end),
            None => self.meter.cost_ns(request),
        }
    }

    /// Takes a request out of its queue.
    fn unfile(&mut self, id: u64) -> Option<Filed> {
        let filed = self.waiting.remove(&id)?;
        let lane = &mut self.lanes[filed.lane];
        lane.remove(id, &filed);
        self.ran_dry |= filed.position == QueuePosition::Batch && lane.batch.is_empty();
        if lane.len == 0 {
            self.busy[lane.kind as usize].remove(filed.lane);
        }
        if let Some(end) = filed.promised {
            self.promised.remove(end, filed.cost_ns);
        }
        Some(filed)
    }

    /// Takes out a request that does not go to the device.
    fn take_out(&mut self, id: u64) -> Option<Filed> {
        let filed = self.unfile(id)?;
        self.meter.quit(filed.lane);
        // In a batch: its requester was charged for it.
        self.lanes[filed.lane].turns.correct(filed.request.requester, filed.turn_ns, 0);
        Some(filed)
    }

    /// The request that continues at the end of this one continues another request before that, or
    /// is a seek by itself.
    fn part_from(&mut self, filed: &Filed) {
        let (lane, gap_bytes) = (&self.lanes[filed.lane], self.meter.price().passed_bytes());
        let Some((offset, id)) = lane.neighbour_behind(filed.request.end(), gap_bytes) else { return };
        let behind = lane.neighbour_before(offset, gap_bytes);
        let Some(next) = self.waiting.get(&id).filter(|next| next.behind == Some(filed.request.end())) else {
            return;
        };
        let cost_ns = self.cost_ns(&next.request, behind);
        if let Some(next) = self.waiting.get_mut(&id)
            && let Some(end) = next.promised
        {
            self.promised.remove(end, next.cost_ns);
            self.promised.add(end, cost_ns);
            (next.behind, next.cost_ns) = (behind, cost_ns);
        }
    }

    /// Computes the sum of reserved work at another price.
    fn reprice(&mut self) {
        self.promised.clear();
        for filed in self.waiting.values_mut() {
            filed.cost_ns = match filed.behind {
                Some(end) => self.meter.neighbour_cost_ns(&filed.request, end),
                None => self.meter.cost_ns(&filed.request),
            };
            if let Some(end) = filed.promised {
                self.promised.add(end, filed.cost_ns);
            }
        }
    }

    /// Files all requests again: the classes or the order have changed.
    fn file_all(&mut self) {
        let classes = self.meter.classes.clone();
        self.meter.set_classes(&classes);
        (self.run, self.interactive_run, self.left_run) = (None, None, false);
        self.expected = Expected::default();
        self.seeks_back.clear();
        self.lanes = Vec::with_capacity(classes.len());
        self.busy = Default::default();
        for (class, spec) in classes.iter() {
            self.lanes.push(Lane::new(spec.kind, self.meter.quantum_ns(class.index())));
        }
        let periodic = self.lanes.iter().filter(|lane| lane.kind == Kind::Periodic);
        self.periodic_quantum_ns = periodic.map(|lane| lane.quantum_ns).sum();
        self.periodic_left_ns = self.periodic_quantum_ns;
        self.promised.clear();
        let mut all: Vec<Filed> = std::mem::take(&mut self.waiting).into_values().collect();
        all.sort_unstable_by_key(|filed| filed.arrival);
        all.into_iter().for_each(|filed| self.file(filed.request, filed.arrival));
    }

    /// Time passes.
    fn tick(&mut self, now_ns: u64) {
        if self.meter.tick(now_ns) {
            self.begin_round();
        }
        let number = now_ns / SUB_PERIOD_NS;
        if self.sub_period.number != number {
            let since_ns = now_ns.saturating_sub(self.sub_period.filled_ns);
            self.lanes.iter_mut().for_each(|lane| lane.elapse(since_ns));
            self.sub_period = SubPeriod { number, cut_in_ns: 0, filled_ns: now_ns };
        }
    }

    fn begin_round(&mut self) {
        let round = self.meter.round.unwrap_or(0);
        self.promised.begin_round(round);
        let quantum_ns = self.periodic_quantum_ns;
        self.periodic_left_ns = self.periodic_left_ns.clamp(-quantum_ns, 0) + quantum_ns;
        for lane in &mut self.lanes {
            lane.begin_round(round);
            // What this round should have done, or must do before it ends, is served by deadline
            // from here on.
            while let Some((end, rank, id)) = lane.buckets.first()
                && end <= round
                && let Some(filed) = self.waiting.get_mut(&id)
            {
                lane.buckets.remove((end, rank, id));
                let due_ns = filed.request.deadline_ns.min(end.saturating_add(1).saturating_mul(ROUND_NS));
                let group = self.order.group(due_ns);
                filed.position = QueuePosition::Due(group);
                lane.due.insert((group, rank, id));
            }
        }
        self.passed_over = self.lanes.iter().any(|lane| lane.passed_over >= PASSED_OVER_ROUNDS);
        if let Some(least_ns) = self.least_slack_ns.take() {
            self.least_before_ns.push_back(least_ns);
            if self.least_before_ns.len() > LEAST_SLACK_ROUNDS {
                self.least_before_ns.pop_front();
            }
        }
    }

    /// A rotational disk that has its next request beside the one in service needs no more. It
    /// would serve more requests in an order of its own, and an interactive request that this
    /// scheduler lets pass would wait.
    fn has_its_next(&self) -> bool {
        self.order == BucketOrder::Scan && self.meter.device.len() >= SEEKING_REQUESTS_MAX
    }

    /// Whether a device that serves another request may have this one as its next. An aperiodic
    /// request that costs a seek is given only to an idle rotational disk: an interactive request
    /// that comes meanwhile would have to wait for it.
    fn may_be_next(&self, filed: &Filed) -> bool {
        let aperiodic = self.lanes[filed.lane].kind == Kind::Aperiodic;
        let passed_bytes = filed.request.offset.checked_sub(self.head);
        let is_neighbour = passed_bytes.is_some_and(|passed| passed <= self.meter.price().passed_bytes());
        self.order == BucketOrder::Deadline || self.meter.device.is_empty() || !aperiodic || is_neighbour
    }

    /// Whether an idle rotational disk is kept for the interactive reader that it served last and
    /// that has a claim, in place of an aperiodic request. That request would cost more time than
    /// the wait, so reserved work is not delayed by it.
    fn is_kept(&mut self, id: u64, now_ns: u64) -> bool {
        let is_aperiodic = |filed: &Filed| self.lanes[filed.lane].kind == Kind::Aperiodic;
        self.meter.device.is_empty()
            && self.waiting.get(&id).is_some_and(is_aperiodic)
            && self.interactive_run.is_some_and(|run| self.lanes[run.lane].left_ns > 0)
            && self.expected.is_awaited(now_ns)
    }

    fn budget(&self) -> Budget {
        Budget {
            left_ns: self.periodic_left_ns,
            per_round_ns: self.periodic_quantum_ns as u64,
            device_ns: self.meter.device.rest_ns(),
        }
    }

    /// What slack must still cover when an aperiodic request has been served.
    fn interactive_reserve_ns(&self) -> u64 {
        self.meter.price().read_ns(INTERACTIVE_RESERVE_BYTES)
    }
}

impl BucketOrder {
    fn of(price: DiskPrice) -> Self {
        if price.is_rotational() { BucketOrder::Scan } else { BucketOrder::Deadline }
    }

    /// Deadlines that are served together when they are near. Sweeping over them saves more than
    /// their order is worth, and under overload the sweeps keep up the throughput of the disk.
    fn group(self, due_ns: u64) -> u64 {
        if self == BucketOrder::Scan { due_ns / DUE_GROUP_NS } else { due_ns }
    }
}

impl Scheduler for Rounds {
    fn push(&mut self, request: Queued, now_ns: u64) {
        self.tick(now_ns);
        self.file(request, self.arrivals);
        self.arrivals += 1;
    }

    fn pop(&mut self, now_ns: u64) -> Option<Queued> {
        self.tick(now_ns);
        if self.waiting.is_empty() || self.meter.device.is_full() || self.has_its_next() {
            return None;
        }
        let choice = self.choose(now_ns)?;
        let filed = self.waiting.get(&choice.id)?;
        if !self.meter.device.takes(filed.request.bytes, filed.cost_ns) || !self.may_be_next(filed) {
            return None;
        }
        if self.is_kept(choice.id, now_ns) {
            return None;
        }
        self.take(choice, now_ns)
    }

    fn kept_until_ns(&self) -> Option<u64> {
        self.expected.until_ns()
    }

    fn done(&mut self, id: u64, now_ns: u64) {
        self.tick(now_ns);
        let is_back = self.seeks_back.contains(&id);
        self.seeks_back.retain(|&back| back != id);
        let Some(mut left) = self.meter.finish(id, now_ns) else { return };
        if is_back {
            // Paid from slack, which covered it. Otherwise requests that break a run would use up
            // what was reserved for the run.
            let back_ns =
                left.charged_ns.saturating_sub(left.cost_ns).min(self.meter.price().read_request_ns);
            left.charged_ns -= back_ns;
        }
        if self.meter.device.is_empty() {
            self.idle_ns = now_ns;
            if self.order == BucketOrder::Scan
                && self.interactive_run.is_some_and(|run| self.lanes[run.lane].len == 0)
            {
                self.expected.served(now_ns, self.meter.price().read_request_ns);
            }
        }
        let Some(lane) = self.lanes.get_mut(left.lane) else { return };
        lane.note_given(left.charged_ns);
        let [expected_ns, took_ns] = left.turn_ns;
        if expected_ns > 0 {
            lane.turns.correct(left.requester, expected_ns, took_ns);
        }
        if left.own {
            lane.correct(left.cost_ns, left.charged_ns);
        }
        if lane.kind == Kind::Periodic {
            self.periodic_left_ns += left.cost_ns as i64 - left.charged_ns as i64;
        }
    }

    fn promote(&mut self, id: u64, class: Class, deadline_ns: u64) {
        let Some(filed) = self.waiting.get_mut(&id) else { return };
        let mut request = filed.request;
        if more_urgent(&self.meter.classes, class, request.class) {
            request.class = class;
        }
        request.deadline_ns = request.deadline_ns.min(deadline_ns);
        if request == filed.request {
            return;
        }
        let same_lane = request.class == filed.request.class;
        if same_lane && self.lanes[filed.lane].kind == Kind::Aperiodic {
            filed.request = request;
            return;
        }
        if self.take_out(id).is_some() {
            // The last of its new class. This number distinguishes it from the entry that it left
            // behind in a line.
            self.file(request, self.arrivals);
            self.arrivals += 1;
        }
    }

    fn withdraw(&mut self, id: u64) -> bool {
        let Some(filed) = self.take_out(id) else { return false };
        self.part_from(&filed);
        if self.waiting.is_empty() {
            self.expected.none_waits();
        }
        true
    }

    fn set_classes(&mut self, classes: &ClassTable) {
        self.meter.classes = classes.clone();
        self.file_all();
    }

    fn set_price(&mut self, price: DiskPrice) {
        self.meter.set_price(price);
        if self.order != BucketOrder::of(price) {
            self.order = BucketOrder::of(price);
            (self.position, self.due_position) = (0, 0);
            return self.file_all();
        }
        self.reprice();
    }

    fn correct_price(&mut self, price: DiskPrice) {
        // The order stays as it is. A device that is not rotational but slow is given as many
        // requests at once as it was measured with; with fewer it would become slower still.
        self.meter.correct_price(price);
        self.reprice();
    }

    fn view(&self, now_ns: u64) -> SchedulerView {
        let slack_ns = self.promised.outlook(now_ns, self.budget()).slack_ns;
        let least = self.least_before_ns.iter().copied().chain(self.least_slack_ns).min();
        let least_slack_ns = least.unwrap_or(slack_ns);
        SchedulerView { slack_ns, least_slack_ns, ..self.meter.view("rounds") }
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }
}
