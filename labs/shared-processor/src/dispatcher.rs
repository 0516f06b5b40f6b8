use crate::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::atomic::fence;
use crate::kernel::Kernel;
use crate::layout::{DEAD, JOINING, LIVE, Page, Shared};
use crate::limits::{MEMBERS_MAX, STEPS_MAX};
use crate::token::Token;
use reel_rt::{Rank, Step};

/// The kernel part of split-level scheduling, run by the member that has the processor.
///
/// # The rules
/// 1. Only the holder of the token runs tasks, and only the holder chooses the next member.
/// 2. A member that gets the token clears `attention` and then checks all pages before it runs
///    anything.
/// 3. A member that changes something that others must know does so first. Then it sets `attention`
///    (or finds the holder resting, and wakes a member). Then it reads the token again.
/// 4. A holder that goes to rest says so in the token first, and reads `attention` after that.
/// 5. Work that is not critical yet needs no attention if the running member checks all pages
///    before it becomes critical. The member that brings it sets `ready`, then reads `other_at_ns`.
///    The member that checks sets `other_at_ns` to never, then reads `ready`, then stores the time
///    of its next check.
/// 6. A member that gives the processor up and finds that it was taken away before acts as one with
///    news (rule 3): the new holder has not read what this member published, or what others had
///    published to it.
///
/// From 5: either the checking member sees the work, or the other one sees `never` or the time of
/// the next check. From 3 and 4: either the changing member sees the rest, or the resting one sees
/// the attention (both are sequentially consistent, hence one comes first). From 2 and 3: attention
/// that is set while the token changes hands is seen by the member that gets it.
///
/// The words that decide (token, attention, ready, waits, life, turn) are used with `SeqCst` only.
/// So exploring sequentially consistent interleavings, as `tests/dispatcher_model.rs` does, covers
/// all their behaviour. What a member publishes about itself is a sequence lock, and is also
/// ordered by the token, except at its first entry. What it learned about the others is written and
/// read by the holder alone.
pub(crate) struct Dispatcher<'a, K> {
    pub(crate) shared: &'a Shared,
    pub(crate) kernel: &'a K,
}

/// The result of a member's check whether it may continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Continue.
    Stay,
    /// The rank of this member is better.
    Yield(usize),
    /// The processor was taken away, because the watchdog found that this member did not check.
    Lost,
}

/// The ranks of all other members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Others {
    pub(crate) best: Rank,
    pub(crate) slot: Option<usize>,
    /// When, by time alone, one of them will have a better rank than now, and which one.
    pub(crate) next_ns: u64,
    pub(crate) next_slot: Option<usize>,
}

impl<K: Kernel> Dispatcher<'_, K> {
    /// Takes a vacant page, if there is one.
    pub(crate) fn join(&self, pid: u32, start_time: u64) -> Option<usize> {
        let head = &self.shared.head;
        for (slot, page) in self.shared.pages.iter().enumerate() {
            let life = page.life.load(SeqCst);
            let vacant = life == 0 || (life & 3 == DEAD && self.token().holder() != Some(slot));
            let mine = Page::life(pid, JOINING);
            if !vacant || page.life.compare_exchange(life, mine, SeqCst, SeqCst).is_err() {
                continue;
            }
            page.start_time.store(start_time, SeqCst);
            page.from_member.0.version.store(0, SeqCst);
            page.from_kernel.0.ready.0.store(0, SeqCst);
            page.waits.iter().for_each(|wait| wait.critical_ns.store(0, SeqCst));
            self.publish(slot, Rank::IDLE, u64::MAX, &[]);
            head.slots_used.fetch_max(slot as u32 + 1, SeqCst);
            // Fails only if the member was taken for dead meanwhile.
            if page.life.compare_exchange(mine, Page::life(pid, LIVE), SeqCst, SeqCst).is_ok() {
                return Some(slot);
            }
        }
        None
    }

    /// Returns the page, and the processor if this member has it.
    pub(crate) fn quit(&self, me: usize) {
        let life = self.shared.pages[me].life.load(SeqCst);
        self.shared.pages[me].life.store(life & !3 | DEAD, SeqCst);
        self.take_from(me);
    }

    /// Publishes the present and future rank of `me`.
    ///
    /// The version is odd meanwhile, so that a reader on another core never takes a half-written
    /// state for a whole one.
    pub(crate) fn publish(&self, me: usize, rank: Rank, next_ns: u64, steps: &[Step]) {
        let used = &self.shared.pages[me].from_member.0;
        let version = used.version.load(Relaxed) | 1;
        used.version.store(version, Relaxed);
        fence(Release);
        used.rank.store(rank.bits(), Relaxed);
        used.next_ns.store(next_ns, Relaxed);
        for (shared, step) in used.steps.iter().zip(steps) {
            shared.at_ns.store(step.at_ns, Relaxed);
            shared.rank.store(step.rank.bits(), Relaxed);
        }
        used.steps_len.store(steps.len().min(STEPS_MAX) as u32, Relaxed);
        used.version.store(version.wrapping_add(1), Release);
    }

    /// Waits for the processor, after the member has published its present and future rank.
    pub(crate) fn enter(&self, me: usize) -> Token {
        self.acquire(me, true)
    }

    /// Waits until `me` has the processor.
    ///
    /// An `eager` member has news: it takes the processor if its holder rests, and makes a running
    /// holder check. A member that is not eager published everything before it gave the processor
    /// away, and waits until it is woken.
    pub(crate) fn acquire(&self, me: usize, eager: bool) -> Token {
        let page = &self.shared.pages[me];
        let mut announced = !eager;
        loop {
            let turn = page.turn.0.load(SeqCst);
            let token = self.token();
            let Some(holder) = token.holder().filter(|_| !eager || token.is_running()) else {
                if let Some(token) = self.change(token, token.to(me)) {
                    return self.recheck(me, token);
                }
                continue;
            };
            if holder == me {
                // If the holder rests, it began to rest when it was woken.
                let mine = if token.is_running() { Some(token) } else { self.change(token, token.to(me)) };
                match mine {
                    Some(token) => return self.recheck(me, token),
                    None => continue,
                }
            }
            if !announced {
                announced = true;
                self.shared.head.attention.0.store(1, SeqCst);
                continue;
            }
            // Without a timeout, which would cost a timer at every hand-over. The watchdogs ensure
            // that the holder lives.
            self.kernel.wait(&page.turn.0, turn, u64::MAX);
        }
    }

    /// Whether `me`, whose best task has this rank, continues. No system call, and three loads if
    /// nothing has changed.
    pub(crate) fn check(&self, me: usize, mine: Token, rank: Rank, now_ns: u64) -> Check {
        let from_kernel = &self.shared.pages[me].from_kernel.0;
        if self.token() != mine {
            return Check::Lost;
        }
        self.shared.pages[me].from_member.0.rank.store(rank.bits(), Relaxed);
        let quiet =
            self.shared.head.attention.0.load(SeqCst) == 0 && now_ns < from_kernel.other_at_ns.load(Relaxed);
        if quiet && rank.bits() <= from_kernel.other.load(Relaxed) {
            return Check::Stay;
        }
        let others = self.check_others(me, now_ns);
        match others.slot {
            Some(slot) if others.best < rank => Check::Yield(slot),
            _ => Check::Stay,
        }
    }

    /// Whether a doorbell of `me` was rung for work that is critical now and ranks better than
    /// `rank`. One load if none was.
    pub(crate) fn rung_above(&self, me: usize, rank: Rank, now_ns: u64) -> bool {
        rung(&self.shared.pages[me], now_ns).0 < rank
    }

    /// Checks all other members (rule 2), and stores the result in the page of `me`.
    pub(crate) fn check_others(&self, me: usize, now_ns: u64) -> Others {
        let from_kernel = &self.shared.pages[me].from_kernel.0;
        // Rule 5: no member may rely on the next check while its result is not yet known.
        from_kernel.other_at_ns.store(u64::MAX, SeqCst);
        if self.shared.head.attention.0.load(SeqCst) != 0 {
            self.shared.head.attention.0.store(0, SeqCst);
        }
        let others = self.others(me, now_ns);
        from_kernel.other.store(others.best.bits(), Relaxed);
        from_kernel.other_at_ns.store(others.next_ns, SeqCst);
        others
    }

    /// Gives the processor to `to` and waits until it returns. `me` must have published its rank.
    pub(crate) fn hand_over(&self, me: usize, mine: Token, to: usize) -> Token {
        let given = self.give(mine, to);
        self.acquire(me, !given)
    }

    /// Gives the processor to `to` without waiting for its return. False if it was taken away
    /// before.
    pub(crate) fn give(&self, mine: Token, to: usize) -> bool {
        let given = self.change(mine, mine.to(to)).is_some();
        if given {
            self.shared.head.hand_overs.fetch_add(1, SeqCst);
            self.call(to);
            // A member that quits says so first and returns its processor after that, so one of the
            // two sees the other.
            if self.shared.pages[to].life.load(SeqCst) & 3 != LIVE {
                self.take_from(to);
            }
        }
        given
    }

    /// No member has anything to do: sleeps until `until_ns`, or until there is work, and then has
    /// the processor again.
    pub(crate) fn rest(&self, me: usize, mine: Token, until_ns: u64) -> Token {
        let page = &self.shared.pages[me];
        let turn = page.turn.0.load(SeqCst);
        self.shared.head.rest_until_ns.store(until_ns, SeqCst);
        // Rule 4: the flag is set before the test.
        let Some(resting) = self.change(mine, mine.rest()) else { return self.acquire(me, true) };
        if self.shared.head.attention.0.load(SeqCst) == 0 && page.from_kernel.0.ready.0.load(SeqCst) == 0 {
            self.kernel.wait(&page.turn.0, turn, until_ns);
        }
        match self.change(resting, resting.to(me)) {
            Some(token) => self.recheck(me, token),
            None => self.acquire(me, false),
        }
    }

    /// Gives the processor up: to the member of the best rank, else to the one whose time comes
    /// first, else to none.
    pub(crate) fn leave(&self, me: usize, mine: Token) {
        let others = self.check_others(me, self.kernel.now_ns());
        let given = match others.slot.or(others.next_slot) {
            Some(slot) => self.give(mine, slot),
            None => self.change(mine, mine.free()).is_some(),
        };
        // Rule 3, for members that set attention when no holder was left to see it; and rule 6.
        if !given || (!self.token().is_running() && self.shared.head.attention.0.load(SeqCst) != 0) {
            self.request_check();
        }
    }

    /// Work has arrived on a line of `to`, where it can be found. Any thread may call this, on any
    /// core. Two loads if the member does not wait.
    pub(crate) fn ring(&self, to: usize, line: usize) {
        let page = &self.shared.pages[to];
        let Some(critical_ns) = page.waits[line].critical_ns.load(SeqCst).checked_sub(1) else {
            // The member does not wait. It looks for arrived work after it has said that it waits
            // (the flag is set before the test).
            return;
        };
        page.from_kernel.0.ready.0.fetch_or(1 << line, SeqCst);
        if page.life.load(SeqCst) & 3 != LIVE {
            return;
        }
        loop {
            let token = self.token();
            if token.is_running() {
                if !self.will_check(token, to, critical_ns) {
                    self.shared.head.attention.0.store(1, SeqCst);
                }
                if self.token() == token {
                    return;
                }
                continue;
            }
            let Some(rester) = token.holder() else {
                if self.give(token, to) {
                    return;
                }
                continue;
            };
            if critical_ns <= self.kernel.now_ns() {
                if self.give(token, to) {
                    return;
                }
                continue;
            }
            // Nothing is urgent. The time is checked when the rest ends; only an earlier one must
            // end the rest.
            if critical_ns < self.shared.head.rest_until_ns.load(SeqCst) {
                self.shared.head.attention.0.store(1, SeqCst);
                self.call(rester);
            }
            if self.token() == token {
                return;
            }
        }
    }

    /// Whether the running member by itself finds the work for `to` before it is critical. It
    /// checks its own lines between sections and at yield points, and those of the others when it
    /// checks their pages (rule 5).
    fn will_check(&self, token: Token, to: usize, critical_ns: u64) -> bool {
        token.holder().is_some_and(|holder| {
            holder == to || self.shared.pages[holder].from_kernel.0.other_at_ns.load(SeqCst) <= critical_ns
        })
    }

    /// Says that `me` waits on a line. Work that arrives from now on rings; `me` must look for work
    /// that arrived before.
    pub(crate) fn wait_on(&self, me: usize, line: usize, critical_ns: u64, rank: Rank) {
        let wait = &self.shared.pages[me].waits[line];
        wait.rank.store(rank.bits(), SeqCst);
        wait.critical_ns.store(critical_ns.saturating_add(1), SeqCst);
    }

    /// Says that `me` no longer waits on a line.
    pub(crate) fn wait_no_longer(&self, me: usize, line: usize) {
        self.shared.pages[me].waits[line].critical_ns.store(0, SeqCst);
    }

    /// Takes the lines of `me` on which work has arrived; those no longer wait.
    pub(crate) fn take_ready(&self, me: usize) -> u64 {
        let page = &self.shared.pages[me];
        let ready = &page.from_kernel.0.ready.0;
        if ready.load(SeqCst) == 0 {
            return 0;
        }
        let came = ready.swap(0, SeqCst);
        let mut lines = came;
        while lines != 0 {
            if let Some(wait) = page.waits.get(lines.trailing_zeros() as usize) {
                wait.critical_ns.store(0, SeqCst);
            }
            lines &= lines - 1;
        }
        came
    }

    /// Takes the page of `slot` out of use if its process is gone. Any thread may call this, more
    /// than once and at the same time.
    pub(crate) fn remove_if_dead(&self, slot: usize) -> bool {
        let page = &self.shared.pages[slot];
        let life = page.life.load(SeqCst);
        let (pid, phase) = ((life >> 2) as u32, life & 3);
        // A member that is just joining has not stored yet when its process began.
        let start_time = if phase == JOINING { 0 } else { page.start_time.load(SeqCst) };
        if life == 0 || (phase != DEAD && self.kernel.is_alive(pid, start_time)) {
            return false;
        }
        // The member is dead already and others have continued, so none is woken again at each
        // check.
        if phase == DEAD && self.token().holder().is_some_and(|holder| holder != slot) {
            return false;
        }
        if phase != DEAD && page.life.compare_exchange(life, Page::life(pid, DEAD), SeqCst, SeqCst).is_ok() {
            self.shared.head.died.fetch_add(1, SeqCst);
        }
        self.take_from(slot);
        phase != DEAD
    }

    /// Wakes a member that has had the processor since `since`, or has rested since although there
    /// is work: the thread that should have woken it may have died before.
    pub(crate) fn wake_again(&self, since: Token) {
        let is_due = since.is_running() || self.shared.head.attention.0.load(SeqCst) != 0;
        if let Some(holder) = since.holder().filter(|_| is_due && self.token() == since) {
            self.call(holder);
        }
    }

    /// Takes the processor from a member that has had it since `since` although it was asked for
    /// it. That member runs on beside the next one, as the kernel shares the processor, until it
    /// checks.
    pub(crate) fn revoke(&self, since: Token) -> bool {
        let Some(holder) = since.holder() else { return false };
        let others = self.others(holder, self.kernel.now_ns());
        let Some(slot) = others.slot else { return false };
        let taken = self.give(since, slot);
        if taken {
            self.shared.head.revoked.fetch_add(1, SeqCst);
        }
        taken
    }

    /// Whether the running member was asked to check, or should have checked by itself `late_ns`
    /// ago, and has not.
    pub(crate) fn is_check_overdue(&self, token: Token, late_ns: u64) -> bool {
        let is_late = |holder: usize| {
            let check_ns = self.shared.pages[holder].from_kernel.0.other_at_ns.load(SeqCst);
            // 0: the member has just got the processor.
            check_ns > 0 && check_ns.saturating_add(late_ns) <= self.kernel.now_ns()
        };
        self.shared.head.attention.0.load(SeqCst) != 0 || token.holder().is_some_and(is_late)
    }

    pub(crate) fn token(&self) -> Token {
        Token(self.shared.head.token.0.load(SeqCst))
    }

    /// How many members have published work, for now or later, and do not have the processor.
    pub(crate) fn waiting(&self) -> usize {
        let (holder, now_ns) = (self.token().holder(), self.kernel.now_ns());
        let waits = |(slot, page): (usize, &Page)| {
            Some(slot) != holder
                && page.life.load(SeqCst) & 3 == LIVE
                && rank_of(page, now_ns).0 != Rank::IDLE
        };
        self.shared.pages.iter().enumerate().map(waits).filter(|waits| *waits).count()
    }

    /// The ranks of all members except `me`.
    pub(crate) fn others(&self, me: usize, now_ns: u64) -> Others {
        let mut others = Others { best: Rank::IDLE, slot: None, next_ns: u64::MAX, next_slot: None };
        let used = self.shared.head.slots_used.load(SeqCst) as usize;
        for (slot, page) in self.shared.pages.iter().enumerate().take(used.min(MEMBERS_MAX)) {
            if slot == me || page.life.load(SeqCst) & 3 != LIVE {
                continue;
            }
            let (rank, next_ns) = rank_of(page, now_ns);
            if rank < others.best {
                (others.best, others.slot) = (rank, Some(slot));
            }
            if next_ns < others.next_ns {
                (others.next_ns, others.next_slot) = (next_ns, Some(slot));
            }
        }
        others
    }

    /// What `me` knew about the others before it had the processor is outdated, so its first check
    /// must be a complete one (rule 2).
    fn recheck(&self, me: usize, token: Token) -> Token {
        self.shared.pages[me].from_kernel.0.other_at_ns.store(0, SeqCst);
        token
    }

    /// Frees the token of a member that is gone, and makes sure that another one continues.
    fn take_from(&self, slot: usize) {
        let token = self.token();
        if token.holder() == Some(slot) {
            // If this fails, another thread was faster and did the same.
            let _ = self.change(token, token.free());
        }
        self.request_check();
    }

    /// Makes sure that a member checks: the resting one, or the best one if none has the processor.
    fn request_check(&self) {
        loop {
            let token = self.token();
            if token.is_running() {
                self.shared.head.attention.0.store(1, SeqCst);
                if self.token() == token {
                    return;
                }
                continue;
            }
            if let Some(rester) = token.holder() {
                self.shared.head.attention.0.store(1, SeqCst);
                self.call(rester);
                return;
            }
            let others = self.others(MEMBERS_MAX, self.kernel.now_ns());
            let Some(slot) = others.slot.or(others.next_slot) else { return };
            if self.give(token, slot) {
                return;
            }
        }
    }

    fn call(&self, slot: usize) {
        let turn = &self.shared.pages[slot].turn.0;
        turn.fetch_add(1, SeqCst);
        self.kernel.wake(turn);
    }

    fn change(&self, from: Token, to: Token) -> Option<Token> {
        self.shared.head.token.0.compare_exchange(from.0, to.0, SeqCst, SeqCst).ok().map(|_| to)
    }
}

/// The rank of a page's owner, and when it improves by time alone.
///
/// The steps are read between two reads of their version (the double read of section 6.3.3, for
/// more than one word). A page that is being written is skipped: its owner sets attention when it
/// is complete, or is found dead.
fn rank_of(page: &Page, now_ns: u64) -> (Rank, u64) {
    let used = &page.from_member.0;
    let version = used.version.load(Acquire);
    let (mut best, mut next_ns) = (Rank::from_bits(used.rank.load(Relaxed)), u64::MAX);
    let steps_len = (used.steps_len.load(Relaxed) as usize).min(STEPS_MAX);
    for step in &used.steps[..steps_len] {
        let (at_ns, rank) = (step.at_ns.load(Relaxed), Rank::from_bits(step.rank.load(Relaxed)));
        if at_ns <= now_ns {
            best = best.min(rank);
        } else if rank < best {
            next_ns = next_ns.min(at_ns);
        }
    }
    // The work that it waits for may have arrived by then.
    next_ns =
        next_ns.min(Some(used.next_ns.load(Relaxed)).filter(|at_ns| *at_ns > now_ns).unwrap_or(u64::MAX));
    fence(Acquire);
    if version & 1 == 1 || used.version.load(Relaxed) != version {
        return (Rank::IDLE, u64::MAX);
    }
    let (rung, rung_next_ns) = rung(page, now_ns);
    (best.min(rung), next_ns.min(rung_next_ns))
}

/// The rank of the work that has arrived on the lines of a page, and when the first of it that is
/// not critical yet will be.
fn rung(page: &Page, now_ns: u64) -> (Rank, u64) {
    let (mut best, mut next_ns) = (Rank::IDLE, u64::MAX);
    let mut ready = page.from_kernel.0.ready.0.load(SeqCst);
    while ready != 0 {
        let wait = page.waits.get(ready.trailing_zeros() as usize);
        ready &= ready - 1;
        let Some(critical_ns) = wait.and_then(|wait| wait.critical_ns.load(SeqCst).checked_sub(1)) else {
            continue;
        };
        let rank = Rank::from_bits(wait.map_or(u64::MAX, |wait| wait.rank.load(SeqCst)));
        if critical_ns <= now_ns {
            best = best.min(rank);
        } else {
            best = best.min(Rank::WORKAHEAD);
            next_ns = next_ns.min(critical_ns);
        }
    }
    (best, next_ns)
}
