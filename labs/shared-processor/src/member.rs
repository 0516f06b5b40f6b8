use crate::dispatcher::Check;
use crate::limits::{LINES_MAX, STEPS_MAX};
use crate::shared_processor::{Doorbell, SharedProcessor};
use crate::token::Token;
use reel_rt::limits::SECTION_NS_MAX;
use reel_rt::{Agenda, Choice, ProcessorArbiter, Rank, Step, TaskId, now_ns};

/// One thread's part in a [`SharedProcessor`]: the user-level scheduler of split-level scheduling.
///
/// Its tasks run only while it has the processor. Whenever it is asked for the next task, it checks
/// whether another member's task should run. A section between two such checks is never
/// interrupted.
#[derive(Debug)]
pub struct Member {
    core: SharedProcessor,
    slot: usize,
    /// The token, while this member has the processor as far as it knows.
    token: Option<Token>,
    masks: u32,
    /// When the current section began.
    section_ns: u64,
    /// For each line that is waited on, when the expected work is critical; `u64::MAX` for the
    /// others.
    waits_ns: [u64; LINES_MAX],
    /// Lines from this one on were never waited on.
    lines_used: usize,
}

/// No task of this member should run.
const NO_TASK: Choice =
    Choice { task: None, rank: Rank::IDLE, ahead: false, is_interactive: false, until_ns: u64::MAX };

const NO_STEPS: [Step; STEPS_MAX] = [Step { at_ns: 0, rank: Rank::IDLE }; STEPS_MAX];

impl Member {
    pub(crate) fn new(core: SharedProcessor, slot: usize) -> Member {
        let waits_ns = [u64::MAX; LINES_MAX];
        Member { core, slot, token: None, masks: 0, section_ns: 0, waits_ns, lines_used: 0 }
    }

    /// The number of its page, which other members need to ring its doorbells.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// A doorbell of this member; `None` beyond [`LINES_MAX`](crate::limits::LINES_MAX).
    pub fn doorbell(&self, line: usize) -> Option<Doorbell> {
        self.core.doorbell(self.slot, line)
    }

    /// A task waits for the doorbell of `line`: when it rings, [`next`](Member::next) reports it.
    /// `task` must wait in `agenda`, and its times are those of what it waits for.
    ///
    /// Call this, then check whether the work has arrived already, so that nothing can arrive
    /// unnoticed. If it has, call [`wait_no_longer`](Member::wait_no_longer).
    pub fn wait_on(&mut self, line: usize, agenda: &Agenda, task: TaskId) {
        let (critical_ns, deadline_ns) = agenda.times_ns(task).unwrap_or((0, u64::MAX));
        let rank = if deadline_ns == u64::MAX { Rank::INTERACTIVE } else { Rank::critical(deadline_ns) };
        self.waits_ns[line] = critical_ns;
        self.lines_used = self.lines_used.max(line + 1);
        self.core.dispatcher().wait_on(self.slot, line, critical_ns, rank);
    }

    /// The work expected on `line` was found without its doorbell.
    pub fn wait_no_longer(&mut self, line: usize) {
        self.waits_ns[line] = u64::MAX;
        self.core.dispatcher().wait_no_longer(self.slot, line);
    }

    /// Waits for the next task of this member that is also the best of all members. `rung` is
    /// called for each line that was rung.
    ///
    /// Costs no system call while this member continues.
    pub fn next(&mut self, agenda: &mut Agenda, mut rung: impl FnMut(&mut Agenda, usize)) -> Choice {
        loop {
            self.take_rung(agenda, &mut rung);
            let now_ns = now_ns();
            let choice = agenda.choose(now_ns);
            let Some(token) = self.token else {
                self.publish(agenda, choice, now_ns);
                self.token = Some(self.core.dispatcher().enter(self.slot));
                continue;
            };
            let dispatcher = self.core.dispatcher();
            if choice.task.is_some() {
                match dispatcher.check(self.slot, token, choice.rank, now_ns) {
                    Check::Yield(to) if self.masks == 0 => {
                        self.publish(agenda, choice, now_ns);
                        self.token = Some(dispatcher.hand_over(self.slot, token, to));
                    }
                    Check::Lost => self.token = None,
                    Check::Stay | Check::Yield(_) => {
                        self.section_ns = now_ns;
                        return choice;
                    }
                }
                continue;
            }
            let until_ns = self.publish(agenda, choice, now_ns);
            let others = dispatcher.check_others(self.slot, now_ns);
            let sooner = others.next_slot.filter(|_| others.next_ns < until_ns);
            self.token = Some(match others.slot.or(sooner) {
                Some(to) => dispatcher.hand_over(self.slot, token, to),
                // The member whose time comes first keeps the processor and rests.
                None => dispatcher.rest(self.slot, token, until_ns),
            });
        }
    }

    /// Like [`next`](Member::next), but returns without a task when there is none, with or without
    /// the processor: for a thread that also waits for other things than doorbells and deadlines.
    pub fn try_next(&mut self, agenda: &mut Agenda, mut rung: impl FnMut(&mut Agenda, usize)) -> Choice {
        self.take_rung(agenda, &mut rung);
        let choice = agenda.choose(now_ns());
        match choice.task {
            Some(_) => self.next(agenda, rung),
            None => Choice { until_ns: choice.until_ns, ..NO_TASK },
        }
    }

    /// Gives the processor up, before the thread sleeps elsewhere, for example in a ring. Until the
    /// next call no doorbell must be waited on.
    pub fn leave(&mut self) {
        if let Some(token) = self.token.take() {
            let dispatcher = self.core.dispatcher();
            dispatcher.publish(self.slot, Rank::IDLE, u64::MAX, &[]);
            dispatcher.leave(self.slot, token);
        }
    }

    /// Whether the running section should end at this yield point, because a task of a better rank
    /// than that of `choice` is runnable, in this member or another. One clock reading and a few
    /// loads.
    pub fn should_yield(&self, choice: &Choice) -> bool {
        self.should_yield_at(choice, now_ns())
    }

    /// Whether a task that works ahead of its time takes its next message in the same section (the
    /// quantum of Govindan's chapter 4), so that agenda and doorbells are checked once for all
    /// messages that have arrived. Not if anything of a better rank has arrived, and not for longer
    /// than a section may last. Critical messages are taken one by one, in the order of their
    /// deadlines.
    pub fn takes_more(&self, choice: &Choice) -> bool {
        if !choice.ahead {
            return false;
        }
        let now_ns = now_ns();
        now_ns.saturating_sub(self.section_ns) < SECTION_NS_MAX && !self.should_yield_at(choice, now_ns)
    }

    /// This member keeps the processor until [`unmask`](Member::unmask) is called as often
    /// (Govindan, section 6.2.2). A member that masks for longer than the watchdog allows loses the
    /// processor all the same.
    pub fn mask(&mut self) {
        self.masks += 1;
    }

    /// Ends a masked section. The next check sees requests made meanwhile.
    pub fn unmask(&mut self) {
        self.masks = self.masks.saturating_sub(1);
    }

    fn should_yield_at(&self, choice: &Choice, now_ns: u64) -> bool {
        let Some(token) = self.token.filter(|_| self.masks == 0) else { return false };
        let dispatcher = self.core.dispatcher();
        now_ns >= choice.until_ns
            || dispatcher.rung_above(self.slot, choice.rank, now_ns)
            || dispatcher.check(self.slot, token, choice.rank, now_ns) != Check::Stay
    }

    /// When the first of the expected work will be critical. Until then, early work need not wake a
    /// resting member, which then takes all of it at once.
    fn next_wait_ns(&self, now_ns: u64) -> u64 {
        let waits_ns = self.waits_ns[..self.lines_used].iter().copied();
        waits_ns.filter(|critical_ns| *critical_ns > now_ns).min().unwrap_or(u64::MAX)
    }

    fn take_rung(&mut self, agenda: &mut Agenda, rung: &mut impl FnMut(&mut Agenda, usize)) {
        let mut ready = self.core.dispatcher().take_ready(self.slot);
        while ready != 0 {
            let line = ready.trailing_zeros() as usize;
            ready &= ready - 1;
            self.waits_ns[line] = u64::MAX;
            rung(agenda, line);
        }
    }

    /// Publishes this member's present and future ranks. Until the returned time no check of it is
    /// needed.
    fn publish(&self, agenda: &Agenda, choice: Choice, now_ns: u64) -> u64 {
        let mut steps = NO_STEPS;
        let count = agenda.steps(choice.rank, &mut steps);
        let until_ns = choice.until_ns.min(self.next_wait_ns(now_ns));
        self.core.dispatcher().publish(self.slot, choice.rank, until_ns, &steps[..count]);
        until_ns
    }
}

impl ProcessorArbiter for Member {
    fn choose(&mut self, agenda: &mut Agenda) -> Choice {
        self.next(agenda, |_, _| {})
    }

    fn should_yield(&self, choice: &Choice) -> bool {
        Member::should_yield(self, choice)
    }

    fn leave(&mut self) {
        Member::leave(self);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
        self.core.dispatcher().quit(self.slot);
    }
}
