use crate::baton::Baton;
use crate::board::Look;
use crate::limits::{LINES_MAX, STEPS_MAX};
use crate::shared_core::{Bell, SharedCore};
use reel_rt::limits::SECTION_NS_MAX;
use reel_rt::{Agenda, Choice, ProcessorArbiter, Rank, Step, TaskId, now_ns};

/// One thread's part in a [`SharedCore`]: the user-level scheduler of split-level scheduling.
///
/// Its tasks run only while it has the processor. It looks whether somebody else's task should run whenever it is
/// asked for the next task; a section between two such looks is never cut short.
#[derive(Debug)]
pub struct Member {
    core: SharedCore,
    slot: usize,
    /// Set while this member has the processor, as far as it knows.
    baton: Option<Baton>,
    masks: u32,
    /// When the section that runs began.
    section_ns: u64,
    /// For each line that is waited on, when what will come is critical; `u64::MAX` for the others.
    waits_ns: [u64; LINES_MAX],
    /// Lines from this one on were never waited on.
    lines_used: usize,
}

/// Somebody else's task should run, or nobody's.
const NOBODY: Choice = Choice { task: None, rank: Rank::IDLE, ahead: false, until_ns: u64::MAX };

const NO_STEPS: [Step; STEPS_MAX] = [Step { at_ns: 0, rank: Rank::IDLE }; STEPS_MAX];

impl Member {
    pub(crate) fn new(core: SharedCore, slot: usize) -> Member {
        let waits_ns = [u64::MAX; LINES_MAX];
        Member { core, slot, baton: None, masks: 0, section_ns: 0, waits_ns, lines_used: 0 }
    }

    /// The number of its page, for who wants to ring its bells.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// A bell of this member; `None` beyond [`LINES_MAX`](crate::limits::LINES_MAX).
    pub fn bell(&self, line: usize) -> Option<Bell> {
        self.core.bell(self.slot, line)
    }

    /// A task waits for the bell of `line`: when it rings, [`next`](Member::next) says so. `task` must wait in `agenda`,
    /// and its times are those of what it waits for.
    ///
    /// Say so, then look whether what is waited for has come already: then nothing can come unnoticed. If it has, call
    /// [`wait_no_longer`](Member::wait_no_longer).
    pub fn wait_on(&mut self, line: usize, agenda: &Agenda, task: TaskId) {
        let (critical_ns, deadline_ns) = agenda.times_ns(task).unwrap_or((0, u64::MAX));
        let rank = if deadline_ns == u64::MAX { Rank::INTERACTIVE } else { Rank::critical(deadline_ns) };
        self.waits_ns[line] = critical_ns;
        self.lines_used = self.lines_used.max(line + 1);
        self.core.board().wait_on(self.slot, line, critical_ns, rank);
    }

    /// What was waited for on `line` has been found without its bell.
    pub fn wait_no_longer(&mut self, line: usize) {
        self.waits_ns[line] = u64::MAX;
        self.core.board().wait_no_longer(self.slot, line);
    }

    /// The next task of this member that is also the best of all members; waits until there is one. `rung` is told of
    /// each line that was rung.
    ///
    /// Costs no system call while this member goes on.
    pub fn next(&mut self, agenda: &mut Agenda, mut rung: impl FnMut(&mut Agenda, usize)) -> Choice {
        loop {
            self.hear(agenda, &mut rung);
            let now_ns = now_ns();
            let choice = agenda.choose(now_ns);
            let Some(baton) = self.baton else {
                self.tell(agenda, choice, now_ns);
                self.baton = Some(self.core.board().enter(self.slot));
                continue;
            };
            let board = self.core.board();
            if choice.task.is_some() {
                match board.look(self.slot, baton, choice.rank, now_ns) {
                    Look::Yield(to) if self.masks == 0 => {
                        self.tell(agenda, choice, now_ns);
                        self.baton = Some(board.hand_over(self.slot, baton, to));
                    }
                    Look::Lost => self.baton = None,
                    Look::Stay | Look::Yield(_) => {
                        self.section_ns = now_ns;
                        return choice;
                    }
                }
                continue;
            }
            let until_ns = self.tell(agenda, choice, now_ns);
            let others = board.look_around(self.slot, now_ns);
            let sooner = others.next_slot.filter(|_| others.next_ns < until_ns);
            self.baton = Some(match others.slot.or(sooner) {
                Some(to) => board.hand_over(self.slot, baton, to),
                // Whoever comes first keeps watch.
                None => board.rest(self.slot, baton, until_ns),
            });
        }
    }

    /// Like [`next`](Member::next), but comes back without a task when there is none, still with the processor or not:
    /// for who has other things to wait for than bells and deadlines.
    pub fn try_next(&mut self, agenda: &mut Agenda, mut rung: impl FnMut(&mut Agenda, usize)) -> Choice {
        self.hear(agenda, &mut rung);
        let choice = agenda.choose(now_ns());
        match choice.task {
            Some(_) => self.next(agenda, rung),
            None => Choice { until_ns: choice.until_ns, ..NOBODY },
        }
    }

    /// Gives the processor up, before sleeping elsewhere: in a ring, say. While away no bell must be waited on.
    pub fn leave(&mut self) {
        if let Some(baton) = self.baton.take() {
            let board = self.core.board();
            board.publish(self.slot, Rank::IDLE, u64::MAX, &[]);
            board.leave(self.slot, baton);
        }
    }

    /// Whether the running section should end at this yield point: a task that stands better than `choice` did has
    /// come, here or elsewhere. One clock reading and a few loads.
    pub fn should_yield(&self, choice: &Choice) -> bool {
        self.should_yield_at(choice, now_ns())
    }

    /// Whether a task that works ahead of its time takes its next message in the same section (the quantum of Govindan's
    /// chapter 4), so that agenda and bells are asked once for all that has come: not if anything has come that stands
    /// better, nor for longer than a section may last. Messages that are critical are taken one by one, in the order of
    /// their deadlines.
    pub fn takes_more(&self, choice: &Choice) -> bool {
        if !choice.ahead {
            return false;
        }
        let now_ns = now_ns();
        now_ns.saturating_sub(self.section_ns) < SECTION_NS_MAX && !self.should_yield_at(choice, now_ns)
    }

    /// Until [`unmask`](Member::unmask) is called as often, this member keeps the processor (Govindan, section 6.2.2).
    /// Who masks for longer than the warden allows loses it all the same.
    pub fn mask(&mut self) {
        self.masks += 1;
    }

    /// The end of a masked section. What was asked for meanwhile is seen by the next look.
    pub fn unmask(&mut self) {
        self.masks = self.masks.saturating_sub(1);
    }

    fn should_yield_at(&self, choice: &Choice, now_ns: u64) -> bool {
        let Some(baton) = self.baton.filter(|_| self.masks == 0) else { return false };
        let board = self.core.board();
        now_ns >= choice.until_ns
            || board.rung_above(self.slot, choice.rank, now_ns)
            || board.look(self.slot, baton, choice.rank, now_ns) != Look::Stay
    }

    /// When the first of what is waited for will be critical. Until then a core that rests need not be woken by what
    /// comes early: then it takes all of it at once, instead of waking for each.
    fn next_wait_ns(&self, now_ns: u64) -> u64 {
        let waits_ns = self.waits_ns[..self.lines_used].iter().copied();
        waits_ns.filter(|critical_ns| *critical_ns > now_ns).min().unwrap_or(u64::MAX)
    }

    fn hear(&mut self, agenda: &mut Agenda, rung: &mut impl FnMut(&mut Agenda, usize)) {
        let mut ready = self.core.board().take_ready(self.slot);
        while ready != 0 {
            let line = ready.trailing_zeros() as usize;
            ready &= ready - 1;
            self.waits_ns[line] = u64::MAX;
            rung(agenda, line);
        }
    }

    /// Tells the others how this member stands and will stand. Until the time that comes back, no look at it is needed.
    fn tell(&self, agenda: &Agenda, choice: Choice, now_ns: u64) -> u64 {
        let mut steps = NO_STEPS;
        let count = agenda.steps(choice.rank, &mut steps);
        let until_ns = choice.until_ns.min(self.next_wait_ns(now_ns));
        self.core.board().publish(self.slot, choice.rank, until_ns, &steps[..count]);
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
        self.core.board().quit(self.slot);
    }
}
