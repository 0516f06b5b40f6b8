//! Which request is next.

use super::lane::{Lane, portion_ns};
use super::promised::Outlook;
use super::queue::Turn;
use super::{BucketOrder, Filed, QueuePosition, Queued, Rounds, Run};
use reel_qos::Kind;
use reel_qos::limits::{ROUND_NS, SUB_PERIOD_NS};

use crate::limits::{PASSED_OVER_ROUNDS, RUN_NS_MAX, RUN_SOON_NS};

/// A request that may go, and whether it breaks the order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) id: u64,
    cut_in: bool,
}

impl Rounds {
    /// The next request, whether or not the device takes it now. There is one whenever anything
    /// waits.
    pub(super) fn choose(&mut self, now_ns: u64) -> Option<Choice> {
        // Not before, so that all requests up to now take part.
        if std::mem::take(&mut self.ran_dry) {
            let (price, order) = (self.meter.price(), self.order);
            self.lanes.iter_mut().for_each(|lane| lane.fill_batch(&mut self.waiting, price, order));
        }
        if self.meter.device.is_empty() && now_ns > self.idle_ns {
            // The device ran dry: the next sub-period begins early.
            self.sub_period.cut_in_ns = 0;
        }
        let outlook = self.promised.outlook(now_ns, self.budget());
        self.least_slack_ns =
            Some(self.least_slack_ns.map_or(outlook.slack_ns, |least| least.min(outlook.slack_ns)));
        if self.passed_over
            && let Some(choice) = self.after_being_passed_over(now_ns)
        {
            return Some(choice);
        }
        if let Some(choice) = self.by_the_rules(outlook, now_ns) {
            return Some(choice);
        }
        // All classes that wait have used up their quanta and the round is not over: the rest of it
        // is shared out in the same way.
        self.refill();
        let outlook = self.promised.outlook(now_ns, self.budget());
        self.by_the_rules(outlook, now_ns).or_else(|| self.unpromised(outlook, now_ns, |_| true))
    }

    /// Takes a chosen request out of its queue, on its way to the device.
    pub(super) fn take(&mut self, choice: Choice, now_ns: u64) -> Option<Queued> {
        let mut filed = self.unfile(choice.id)?;
        let continues = self.interactive_run.is_some_and(|run| self.continues(run, &filed));
        let idle_ns = self.expected.ended(now_ns, continues);
        self.lanes[filed.lane].left_ns -= idle_ns as i64;
        self.note_seek_back(&filed, choice);
        filed.cost_ns = self.cost_from_here_ns(&filed);
        self.note_run(&filed, choice);
        self.head = filed.request.end();
        let beyond = filed.request.offset.saturating_add(1);
        match filed.position {
            // Beyond the request, not at it: callers that read one place repeatedly would
            // otherwise hold the sweep there.
            QueuePosition::Due(_) if self.order == BucketOrder::Scan => self.due_position = beyond,
            QueuePosition::Bucket(_) | QueuePosition::Batch if self.order == BucketOrder::Scan => {
                self.position = beyond
            }
            _ => {}
        }
        let lane = &mut self.lanes[filed.lane];
        let own = lane.charge(filed.cost_ns);
        if choice.cut_in {
            lane.tokens_ns = lane.tokens_ns.saturating_sub_unsigned(filed.cost_ns);
            self.sub_period.cut_in_ns = self.sub_period.cut_in_ns.saturating_add(filed.cost_ns);
        }
        if lane.kind == Kind::Periodic {
            self.periodic_left_ns = self.periodic_left_ns.saturating_sub_unsigned(filed.cost_ns);
        }
        self.meter.start(&filed.request, (filed.lane, filed.turn_ns), filed.cost_ns, own, now_ns);
        Some(filed.request)
    }

    fn by_the_rules(&mut self, outlook: Outlook, now_ns: u64) -> Option<Choice> {
        match self.promised_now(outlook) {
            Some((promised, turn)) => {
                let cut_in = self.cut_in(outlook.slack_ns).or_else(|| self.neighbour(outlook, now_ns));
                Some(cut_in.or_else(|| self.on_the_way(turn?, outlook.slack_ns)).unwrap_or(promised))
            }
            None => self.unpromised(outlook, now_ns, |lane| lane.left_ns > 0),
        }
    }

    /// What is to be done before the round ends, and its turn if it is part of the sweep. When that
    /// is more than the periodic classes may claim together, each of them is held to its own
    /// quantum.
    fn promised_now(&self, outlook: Outlook) -> Option<(Choice, Option<Turn>)> {
        if outlook.due_ns == 0 {
            return None;
        }
        let left_ns = self.periodic_left_ns;
        let scarce = i64::try_from(outlook.due_ns).map_or(true, |due_ns| due_ns > left_ns);
        let may = |lane: &Lane| !scarce || lane.left_ns > 0 && left_ns > 0;
        if let Some((_, _, id)) = self.first_due(may) {
            return Some((Choice { id, cut_in: false }, None));
        }
        let end = self.meter.round.unwrap_or(0).saturating_add(1);
        let lanes = self.busy(Kind::Periodic).filter(|(_, lane)| may(lane));
        let (behind, rank, id) =
            lanes.filter_map(|(_, lane)| lane.buckets.sweep(end, self.position)).min()?;
        Some((Choice { id, cut_in: false }, Some((behind, rank, id))))
    }

    /// The first of what is late or due within the round: (group, turn, id).
    fn first_due(&self, may: impl Fn(&Lane) -> bool) -> Option<(u64, (bool, u64), u64)> {
        let first = |lane: &Lane| {
            let (group, ..) = lane.due.first()?;
            let (behind, rank, id) = lane.due.sweep(group, self.due_position)?;
            Some((group, (behind, rank), id))
        };
        self.busy(Kind::Periodic).filter(|(_, lane)| may(lane)).filter_map(|(_, lane)| first(lane)).min()
    }

    /// The first interactive request, if it may break the order. That is once in a sub-period, with
    /// the requests that continue it, or as often as its class's share of a sub-period allows. It
    /// needs a token, and slack must cover it.
    fn cut_in(&self, slack_ns: i64) -> Option<Choice> {
        let (id, number) = self.first_interactive(|lane| lane.left_ns > 0 && lane.tokens_ns > 0)?;
        let filed = self.waiting.get(&id)?;
        let cost_ns = self.cost_from_here_ns(filed);
        let share_ns = self.lanes[number].quantum_ns as u64 / (ROUND_NS / SUB_PERIOD_NS);
        let cut_in_ns = self.sub_period.cut_in_ns;
        let continues = self.interactive_run.is_some_and(|run| self.continues(run, filed));
        let its_turn = cut_in_ns == 0 || continues || cut_in_ns.saturating_add(cost_ns) <= share_ns;
        // The head seeks back to the run that it left.
        let back_ns = if self.run.is_some() { self.meter.price().read_request_ns } else { 0 };
        let covered = covers(slack_ns, cost_ns.saturating_add(back_ns));
        (its_turn && covered).then_some(Choice { id, cut_in: true })
    }

    /// The request behind the last periodic read costs only its transfer. It is read next, even
    /// before it is due, if slack covers it. Without slack, it is still read if it is due soon: the
    /// seeks that this saves are what is missing.
    fn neighbour(&self, outlook: Outlook, now_ns: u64) -> Option<Choice> {
        let run = self.run.filter(|run| run.cost_ns < RUN_NS_MAX)?;
        let lane = self.lanes.get(run.lane)?;
        let (_, id) = lane.neighbour_behind(run.end, self.meter.price().passed_bytes())?;
        let request = &self.waiting.get(&id)?.request;
        let soon = outlook.slack_ns < 0 && request.deadline_ns < now_ns.saturating_add(RUN_SOON_NS);
        let free = soon || covers(outlook.slack_ns, self.meter.neighbour_cost_ns(request, run.end));
        (free && lane.left_ns > 0).then_some(Choice { id, cut_in: false })
    }

    /// After an interactive request broke a run, continuing the run costs a seek that was not
    /// estimated.
    fn note_seek_back(&mut self, filed: &Filed, choice: Choice) {
        let left_run = std::mem::replace(&mut self.left_run, choice.cut_in && self.run.is_some());
        if left_run && !choice.cut_in && self.run.is_some_and(|run| self.continues(run, filed)) {
            self.seeks_back.push(filed.request.id);
        }
    }

    /// Whether a request continues a run of its class.
    fn continues(&self, run: Run, filed: &Filed) -> bool {
        let passed_bytes = filed.request.offset.checked_sub(run.end);
        run.lane == filed.lane
            && passed_bytes.is_some_and(|passed| passed <= self.meter.price().passed_bytes())
    }

    /// The runs that may be continued after a request was taken. An interactive request that breaks
    /// the order does not end the periodic run; every other read elsewhere does.
    fn note_run(&mut self, filed: &Filed, choice: Choice) {
        let after = |run: Option<Run>| {
            let (lane, end) = (filed.lane, filed.request.end());
            let before_ns = run.filter(|run| self.continues(*run, filed)).map_or(0, |run| run.cost_ns);
            let transfer_ns = self.meter.price().transfer_ns(filed.request.bytes as u64);
            filed.placed.then_some(Run { lane, end, cost_ns: before_ns.saturating_add(transfer_ns) })
        };
        let (run, interactive_run) = match self.lanes[filed.lane].kind {
            Kind::Interactive => (self.run.filter(|_| choice.cut_in), after(self.interactive_run)),
            Kind::Periodic | Kind::Aperiodic => (after(self.run), None),
        };
        (self.run, self.interactive_run) = (run, interactive_run);
    }

    /// What a request costs if it is next: an interactive one that continues the last one needs no
    /// seek.
    fn cost_from_here_ns(&self, filed: &Filed) -> u64 {
        match self.interactive_run.filter(|run| self.continues(*run, filed)) {
            Some(run) => self.meter.neighbour_cost_ns(&filed.request, run.end),
            None => filed.cost_ns,
        }
    }

    /// An aperiodic request that comes before the reserved one in the sweep, if slack covers it and
    /// one interactive request.
    fn on_the_way(&self, promised: Turn, slack_ns: i64) -> Option<Choice> {
        if self.order == BucketOrder::Deadline {
            return None;
        }
        let turn = self.first_aperiodic(|lane| lane.left_ns > 0).filter(|turn| *turn < promised)?;
        let cost_ns = self.waiting.get(&turn.2)?.cost_ns;
        let reserve_ns = self.interactive_reserve_ns();
        covers(slack_ns, cost_ns.saturating_add(reserve_ns)).then_some(Choice { id: turn.2, cut_in: false })
    }

    /// No reserved work that may claim more is due: interactive requests first, then one sweep over
    /// aperiodic requests and periodic ones before they are due.
    fn unpromised(
        &mut self,
        outlook: Outlook,
        now_ns: u64,
        may: impl Fn(&Lane) -> bool + Copy,
    ) -> Option<Choice> {
        if let Some((id, _)) = self.first_interactive(may) {
            return Some(Choice { id, cut_in: false });
        }
        if let Some(choice) = self.neighbour(outlook, now_ns) {
            return Some(choice);
        }
        let id = match (self.first_aperiodic(may), self.first_early(may)) {
            (Some(aperiodic), Some(early)) if self.order == BucketOrder::Scan => Some(aperiodic.min(early).2),
            (Some((_, _, id)), _) | (None, Some((_, _, id))) => Some(id),
            (None, None) => None,
        };
        id.map(|id| Choice { id, cut_in: false })
    }

    /// The first periodic request of the earliest bucket, unless another is due.
    fn first_early(&self, may: impl Fn(&Lane) -> bool) -> Option<Turn> {
        let lanes = || self.busy(Kind::Periodic).map(|(_, lane)| lane).filter(|lane| may(lane));
        if let Some((_, (behind, rank), id)) = self.first_due(&may) {
            return Some((behind, rank, id));
        }
        let end = lanes().filter_map(|lane| lane.buckets.first()).map(|(end, ..)| end).min()?;
        lanes().filter_map(|lane| lane.buckets.sweep(end, self.position)).min()
    }

    /// The interactive request that is next: (id, class). First the request that continues the last
    /// one, until that run took as long as a seek, or as any run while no request that is due soon
    /// waits. Then the request that is due first. The first read of an admitted session is due at
    /// once, that of an interactive client when it has waited for long. So a start waits only for
    /// other starts, and many interactive clients are still served.
    fn first_interactive(&self, may: impl Fn(&Lane) -> bool) -> Option<(u64, usize)> {
        let lanes = self.busy(Kind::Interactive).filter(|(_, lane)| may(lane));
        let first = lanes.filter_map(|(number, lane)| Some((lane.due.first()?, number))).min();
        let ((due_ns, ..), _) = first?;
        let seek_ns = self.meter.price().read_request_ns;
        let soon_ns = self.meter.round.unwrap_or(0).saturating_add(2).saturating_mul(ROUND_NS);
        let most_ns = if due_ns <= soon_ns { seek_ns } else { seek_ns.max(RUN_NS_MAX) };
        if let Some(run) = self.interactive_run.filter(|run| run.cost_ns < most_ns)
            && may(&self.lanes[run.lane])
            && let Some((_, id)) =
                self.lanes[run.lane].neighbour_behind(run.end, self.meter.price().passed_bytes())
        {
            return Some((id, run.lane));
        }
        first.map(|((_, _, id), number)| (id, number))
    }

    fn first_aperiodic(&self, may: impl Fn(&Lane) -> bool) -> Option<Turn> {
        let lanes = self.busy(Kind::Aperiodic).filter(|(_, lane)| may(lane));
        lanes.filter_map(|(_, lane)| lane.batch.sweep(0, self.position)).min()
    }

    /// The first request of a class that had a claim and was given nothing for rounds: no class
    /// starves, whatever the estimates are.
    fn after_being_passed_over(&mut self, now_ns: u64) -> Option<Choice> {
        let starving =
            |lane: &Lane| lane.len > 0 && lane.left_ns > 0 && lane.passed_over >= PASSED_OVER_ROUNDS;
        self.passed_over = self.lanes.iter().any(starving);
        if self.passed_over { self.unpromised(Outlook::default(), now_ns, starving) } else { None }
    }

    /// The classes of a kind in which something waits, with their places in the table.
    fn busy(&self, kind: Kind) -> impl Iterator<Item = (usize, &Lane)> {
        self.busy[kind as usize].map(|number| (number, &self.lanes[number]))
    }

    fn refill(&mut self) {
        let waiting = self.lanes.iter().filter(|lane| lane.len > 0);
        let portions = waiting.map(Lane::portions_to_a_claim).min().unwrap_or(0).max(1);
        self.lanes.iter_mut().for_each(|lane| lane.refill(portions));
        let quantum_ns = self.periodic_quantum_ns;
        let more_ns = portion_ns(quantum_ns).saturating_mul(portions);
        self.periodic_left_ns =
            self.periodic_left_ns.saturating_add(more_ns).min(quantum_ns.max(self.periodic_left_ns));
    }
}

fn covers(slack_ns: i64, cost_ns: u64) -> bool {
    u64::try_from(slack_ns).is_ok_and(|slack_ns| slack_ns >= cost_ns)
}
