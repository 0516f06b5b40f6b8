use crate::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::atomic::fence;
use crate::baton::Baton;
use crate::kernel::Kernel;
use crate::layout::{DEAD, JOINING, LIVE, Page, Shared};
use crate::limits::{MEMBERS_MAX, STEPS_MAX};
use reel_rt::{Rank, Step};

/// The kernel part of split-level scheduling, run by whichever member has the processor.
///
/// # The rules
/// 1. Only the holder of the baton runs tasks, and only it decides who is next.
/// 2. Whoever gets the baton clears `attention` and then looks at all pages before it runs anything.
/// 3. Whoever changes something others must know does so first, then sets `attention` (or finds the holder resting,
///    and wakes somebody), then looks at the baton again.
/// 4. A holder that goes to rest says so in the baton first and looks at `attention` after.
///
/// 5. What is not critical yet needs no attention if who runs looks at all pages before it is: the changer sets `ready`,
///    then reads `other_at_ns`; who looks sets `other_at_ns` to never, then reads `ready`, then says when it looks next.
///
/// 6. Who finds that the processor was taken away before he could give it up comes back as one with news (rule 3): what he has told, and what others
///    had told to him, the new holder has not looked for.
///
/// From 5: either the one who looks sees what has come, or the changer sees `never` or the time of the next look.
/// From 3 and 4: either the changer sees the rest, or the rester sees the attention (both are sequentially consistent,
/// hence one comes first). From 2 and 3: attention set while the baton changes hands is seen by the one who gets it.
///
/// The words that decide (baton, attention, ready, waits, life, turn) are used with `SeqCst` only, so that exploring
/// sequentially consistent interleavings, as `tests/board_model.rs` does, is the whole truth about them. What a member
/// tells of itself is a sequence lock, and in all but its first entry ordered by the baton besides; what it was told
/// of the others is written and read by the holder alone.
pub(crate) struct Board<'a, K> {
    pub(crate) shared: &'a Shared,
    pub(crate) kernel: &'a K,
}

/// What a member that wants to go on learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Go on.
    Stay,
    /// This one stands better.
    Yield(usize),
    /// The processor was taken away: the warden found that this member did not look up.
    Lost,
}

/// How everybody else stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Others {
    pub(crate) best: Rank,
    pub(crate) slot: Option<usize>,
    /// When one of them will stand better than it does now, by time alone, and who.
    pub(crate) next_ns: u64,
    pub(crate) next_slot: Option<usize>,
}

impl<K: Kernel> Board<'_, K> {
    /// Takes a vacant page, or none if there is none.
    pub(crate) fn join(&self, pid: u32, born: u64) -> Option<usize> {
        let head = &self.shared.head;
        for (slot, page) in self.shared.pages.iter().enumerate() {
            let life = page.life.load(SeqCst);
            let vacant = life == 0 || (life & 3 == DEAD && self.baton().holder() != Some(slot));
            let mine = Page::life(pid, JOINING);
            if !vacant || page.life.compare_exchange(life, mine, SeqCst, SeqCst).is_err() {
                continue;
            }
            page.born.store(born, SeqCst);
            page.used.0.version.store(0, SeqCst);
            page.told.0.ready.0.store(0, SeqCst);
            page.waits.iter().for_each(|wait| wait.critical_ns.store(0, SeqCst));
            self.publish(slot, Rank::IDLE, u64::MAX, &[]);
            head.slots_used.fetch_max(slot as u32 + 1, SeqCst);
            // Fails only if it was taken for dead meanwhile.
            if page.life.compare_exchange(mine, Page::life(pid, LIVE), SeqCst, SeqCst).is_ok() {
                return Some(slot);
            }
        }
        None
    }

    /// Gives the page back, and the processor if this member has it.
    pub(crate) fn quit(&self, me: usize) {
        let life = self.shared.pages[me].life.load(SeqCst);
        self.shared.pages[me].life.store(life & !3 | DEAD, SeqCst);
        self.take_from(me);
    }

    /// Tells how `me` stands and will stand.
    ///
    /// The version is odd meanwhile, so that a reader on another core never takes half of it for the whole.
    pub(crate) fn publish(&self, me: usize, rank: Rank, next_ns: u64, steps: &[Step]) {
        let used = &self.shared.pages[me].used.0;
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

    /// Comes from elsewhere, has told how it stands and will stand, and waits for the processor.
    pub(crate) fn enter(&self, me: usize) -> Baton {
        self.acquire(me, true)
    }

    /// Waits until `me` has the processor.
    ///
    /// Who is `eager` has news: it takes the processor if its holder rests, and has a running holder look. Who is not
    /// has told everything before it gave the processor away, and waits until it is called.
    pub(crate) fn acquire(&self, me: usize, eager: bool) -> Baton {
        let page = &self.shared.pages[me];
        let mut told = !eager;
        loop {
            let turn = page.turn.0.load(SeqCst);
            let baton = self.baton();
            let Some(holder) = baton.holder().filter(|_| !eager || baton.is_running()) else {
                if let Some(baton) = self.change(baton, baton.to(me)) {
                    return self.anew(me, baton);
                }
                continue;
            };
            if holder == me {
                // If it rests, it did so when it was called.
                let mine = if baton.is_running() { Some(baton) } else { self.change(baton, baton.to(me)) };
                match mine {
                    Some(baton) => return self.anew(me, baton),
                    None => continue,
                }
            }
            if !told {
                told = true;
                self.shared.head.attention.0.store(1, SeqCst);
                continue;
            }
            // Without a timeout, which would cost a timer at every hand-over: that the holder lives is the wardens' care.
            self.kernel.wait(&page.turn.0, turn, u64::MAX);
        }
    }

    /// Whether `me`, whose best task stands like this, goes on. No system call, and three loads if nothing has changed.
    pub(crate) fn look(&self, me: usize, mine: Baton, rank: Rank, now_ns: u64) -> Look {
        let told = &self.shared.pages[me].told.0;
        if self.baton() != mine {
            return Look::Lost;
        }
        self.shared.pages[me].used.0.rank.store(rank.bits(), Relaxed);
        let quiet = self.shared.head.attention.0.load(SeqCst) == 0 && now_ns < told.other_at_ns.load(Relaxed);
        if quiet && rank.bits() <= told.other.load(Relaxed) {
            return Look::Stay;
        }
        let others = self.look_around(me, now_ns);
        match others.slot {
            Some(slot) if others.best < rank => Look::Yield(slot),
            _ => Look::Stay,
        }
    }

    /// Whether a line of `me` was rung for what is critical now and stands better than `rank`. One load if none was.
    pub(crate) fn rung_above(&self, me: usize, rank: Rank, now_ns: u64) -> bool {
        rung(&self.shared.pages[me], now_ns).0 < rank
    }

    /// Looks at all others (rule 2), and keeps what it saw in the page of `me`.
    pub(crate) fn look_around(&self, me: usize, now_ns: u64) -> Others {
        let told = &self.shared.pages[me].told.0;
        // Rule 5: nobody may rely on the next look while what it will see is not yet known.
        told.other_at_ns.store(u64::MAX, SeqCst);
        if self.shared.head.attention.0.load(SeqCst) != 0 {
            self.shared.head.attention.0.store(0, SeqCst);
        }
        let others = self.others(me, now_ns);
        told.other.store(others.best.bits(), Relaxed);
        told.other_at_ns.store(others.next_ns, SeqCst);
        others
    }

    /// Gives the processor to `to` and waits until it comes back. `me` must have told how it stands.
    pub(crate) fn hand_over(&self, me: usize, mine: Baton, to: usize) -> Baton {
        let given = self.give(mine, to);
        self.acquire(me, !given)
    }

    /// Gives the processor to `to` without waiting for it to come back. False if it was taken away before.
    pub(crate) fn give(&self, mine: Baton, to: usize) -> bool {
        let given = self.change(mine, mine.to(to)).is_some();
        if given {
            self.shared.head.hand_overs.fetch_add(1, SeqCst);
            self.call(to);
            // Who quits says so first and gives back what he has after: one of the two sees the other.
            if self.shared.pages[to].life.load(SeqCst) & 3 != LIVE {
                self.take_from(to);
            }
        }
        given
    }

    /// Nobody has anything to do: sleeps until `until_ns`, or until something comes, and has the processor again.
    pub(crate) fn rest(&self, me: usize, mine: Baton, until_ns: u64) -> Baton {
        let page = &self.shared.pages[me];
        let turn = page.turn.0.load(SeqCst);
        self.shared.head.rest_until_ns.store(until_ns, SeqCst);
        // Rule 4: the flag before the test.
        let Some(resting) = self.change(mine, mine.rest()) else { return self.acquire(me, true) };
        if self.shared.head.attention.0.load(SeqCst) == 0 && page.told.0.ready.0.load(SeqCst) == 0 {
            self.kernel.wait(&page.turn.0, turn, until_ns);
        }
        match self.change(resting, resting.to(me)) {
            Some(baton) => self.anew(me, baton),
            None => self.acquire(me, false),
        }
    }

    /// Gives the processor up altogether: to who stands best, else to who comes first, else to nobody.
    pub(crate) fn leave(&self, me: usize, mine: Baton) {
        let others = self.look_around(me, self.kernel.now_ns());
        let given = match others.slot.or(others.next_slot) {
            Some(slot) => self.give(mine, slot),
            None => self.change(mine, mine.free()).is_some(),
        };
        // Rule 3, for those who set attention when there was no holder any more to see it; and rule 6.
        if !given || (!self.baton().is_running() && self.shared.head.attention.0.load(SeqCst) != 0) {
            self.nudge();
        }
    }

    /// Something has come on a line of `to`, where it can be found. Anybody may call this, on any core. Two loads if nobody waits.
    pub(crate) fn ring(&self, to: usize, line: usize) {
        let page = &self.shared.pages[to];
        let Some(critical_ns) = page.waits[line].critical_ns.load(SeqCst).checked_sub(1) else {
            // Nobody waits: he looks for what has come after he has said that he does (the flag before the test).
            return;
        };
        page.told.0.ready.0.fetch_or(1 << line, SeqCst);
        if page.life.load(SeqCst) & 3 != LIVE {
            return;
        }
        loop {
            let baton = self.baton();
            if baton.is_running() {
                if !self.will_look(baton, to, critical_ns) {
                    self.shared.head.attention.0.store(1, SeqCst);
                }
                if self.baton() == baton {
                    return;
                }
                continue;
            }
            let Some(rester) = baton.holder() else {
                if self.give(baton, to) {
                    return;
                }
                continue;
            };
            if critical_ns <= self.kernel.now_ns() {
                if self.give(baton, to) {
                    return;
                }
                continue;
            }
            // Nothing presses. Its time is looked at when the rest ends; only an earlier one must end it.
            if critical_ns < self.shared.head.rest_until_ns.load(SeqCst) {
                self.shared.head.attention.0.store(1, SeqCst);
                self.call(rester);
            }
            if self.baton() == baton {
                return;
            }
        }
    }

    /// Whether who runs finds by itself what has come for `to`, before it is critical: its own lines it looks at between
    /// sections and at yield points, those of the others when it looks at their pages (rule 5).
    fn will_look(&self, baton: Baton, to: usize, critical_ns: u64) -> bool {
        baton.holder().is_some_and(|holder| {
            holder == to || self.shared.pages[holder].told.0.other_at_ns.load(SeqCst) <= critical_ns
        })
    }

    /// Says that `me` waits on a line. What comes from now on rings; what has come before, `me` must find by looking.
    pub(crate) fn wait_on(&self, me: usize, line: usize, critical_ns: u64, rank: Rank) {
        let wait = &self.shared.pages[me].waits[line];
        wait.rank.store(rank.bits(), SeqCst);
        wait.critical_ns.store(critical_ns.saturating_add(1), SeqCst);
    }

    /// Says that `me` no longer waits on a line.
    pub(crate) fn wait_no_longer(&self, me: usize, line: usize) {
        self.shared.pages[me].waits[line].critical_ns.store(0, SeqCst);
    }

    /// Takes what has come on the lines of `me` that are waited on; those no longer wait.
    pub(crate) fn take_ready(&self, me: usize) -> u64 {
        let page = &self.shared.pages[me];
        let ready = &page.told.0.ready.0;
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

    /// Buries `slot` if its process is gone. Anybody may call this, more than once and at the same time.
    pub(crate) fn look_after(&self, slot: usize) -> bool {
        let page = &self.shared.pages[slot];
        let life = page.life.load(SeqCst);
        let (pid, phase) = ((life >> 2) as u32, life & 3);
        // Who is only just joining has not said yet when he was born.
        let born = if phase == JOINING { 0 } else { page.born.load(SeqCst) };
        if life == 0 || (phase != DEAD && self.kernel.is_alive(pid, born)) {
            return false;
        }
        // Dead already, and others have gone on: nobody is to be called again at each look.
        if phase == DEAD && self.baton().holder().is_some_and(|holder| holder != slot) {
            return false;
        }
        if phase != DEAD && page.life.compare_exchange(life, Page::life(pid, DEAD), SeqCst, SeqCst).is_ok() {
            self.shared.head.buried.fetch_add(1, SeqCst);
        }
        self.take_from(slot);
        phase != DEAD
    }

    /// Calls who has had the processor since `since`, or has rested since although something has come: whoever was to call him may have died
    /// before he could.
    pub(crate) fn call_again(&self, since: Baton) {
        let is_due = since.is_running() || self.shared.head.attention.0.load(SeqCst) != 0;
        if let Some(holder) = since.holder().filter(|_| is_due && self.baton() == since) {
            self.call(holder);
        }
    }

    /// Takes the processor from whoever has had it since `since` although he was asked: he runs on beside the next
    /// one, as the kernel shares it, until he looks.
    pub(crate) fn revoke(&self, since: Baton) -> bool {
        let Some(holder) = since.holder() else { return false };
        let others = self.others(holder, self.kernel.now_ns());
        let Some(slot) = others.slot else { return false };
        let taken = self.give(since, slot);
        if taken {
            self.shared.head.revoked.fetch_add(1, SeqCst);
        }
        taken
    }

    /// Whether who runs was asked to look, or wanted to by itself `late_ns` ago, and has not.
    pub(crate) fn should_have_looked(&self, baton: Baton, late_ns: u64) -> bool {
        let is_late = |holder: usize| {
            let look_ns = self.shared.pages[holder].told.0.other_at_ns.load(SeqCst);
            // 0: it has just got the processor.
            look_ns > 0 && look_ns.saturating_add(late_ns) <= self.kernel.now_ns()
        };
        self.shared.head.attention.0.load(SeqCst) != 0 || baton.holder().is_some_and(is_late)
    }

    pub(crate) fn baton(&self) -> Baton {
        Baton(self.shared.head.baton.0.load(SeqCst))
    }

    /// How many have told of work, now or later, and do not have the processor.
    pub(crate) fn waiting(&self) -> usize {
        let (holder, now_ns) = (self.baton().holder(), self.kernel.now_ns());
        let waits = |(slot, page): (usize, &Page)| {
            Some(slot) != holder && page.life.load(SeqCst) & 3 == LIVE && stands(page, now_ns).0 != Rank::IDLE
        };
        self.shared.pages.iter().enumerate().map(waits).filter(|waits| *waits).count()
    }

    /// How everybody but `me` stands.
    pub(crate) fn others(&self, me: usize, now_ns: u64) -> Others {
        let mut others = Others { best: Rank::IDLE, slot: None, next_ns: u64::MAX, next_slot: None };
        let used = self.shared.head.slots_used.load(SeqCst) as usize;
        for (slot, page) in self.shared.pages.iter().enumerate().take(used.min(MEMBERS_MAX)) {
            if slot == me || page.life.load(SeqCst) & 3 != LIVE {
                continue;
            }
            let (rank, next_ns) = stands(page, now_ns);
            if rank < others.best {
                (others.best, others.slot) = (rank, Some(slot));
            }
            if next_ns < others.next_ns {
                (others.next_ns, others.next_slot) = (next_ns, Some(slot));
            }
        }
        others
    }

    /// What `me` saw of the others before it had the processor is old: its first look must be a whole one (rule 2).
    fn anew(&self, me: usize, baton: Baton) -> Baton {
        self.shared.pages[me].told.0.other_at_ns.store(0, SeqCst);
        baton
    }

    /// Frees the baton of a member that is gone, and sees to it that somebody goes on.
    fn take_from(&self, slot: usize) {
        let baton = self.baton();
        if baton.holder() == Some(slot) {
            // Whoever fails here has been overtaken by another who does the same.
            let _ = self.change(baton, baton.free());
        }
        self.nudge();
    }

    /// Sees to it that somebody looks: the one who rests, or if nobody has the processor the best there is.
    fn nudge(&self) {
        loop {
            let baton = self.baton();
            if baton.is_running() {
                self.shared.head.attention.0.store(1, SeqCst);
                if self.baton() == baton {
                    return;
                }
                continue;
            }
            if let Some(rester) = baton.holder() {
                self.shared.head.attention.0.store(1, SeqCst);
                self.call(rester);
                return;
            }
            let others = self.others(MEMBERS_MAX, self.kernel.now_ns());
            let Some(slot) = others.slot.or(others.next_slot) else { return };
            if self.give(baton, slot) {
                return;
            }
        }
    }

    fn call(&self, slot: usize) {
        let turn = &self.shared.pages[slot].turn.0;
        turn.fetch_add(1, SeqCst);
        self.kernel.wake(turn);
    }

    fn change(&self, from: Baton, to: Baton) -> Option<Baton> {
        self.shared.head.baton.0.compare_exchange(from.0, to.0, SeqCst, SeqCst).ok().map(|_| to)
    }
}

/// How the owner of a page stands, and when that gets better by time alone.
///
/// The steps are read between two looks at their version (the double read of section 6.3.3, for more than one word). A
/// page that is being written is passed over: its owner sets attention when it is whole, or is found dead.
fn stands(page: &Page, now_ns: u64) -> (Rank, u64) {
    let used = &page.used.0;
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
    // What it waits for may have come by then.
    next_ns =
        next_ns.min(Some(used.next_ns.load(Relaxed)).filter(|at_ns| *at_ns > now_ns).unwrap_or(u64::MAX));
    fence(Acquire);
    if version & 1 == 1 || used.version.load(Relaxed) != version {
        return (Rank::IDLE, u64::MAX);
    }
    let (rung, rung_next_ns) = rung(page, now_ns);
    (best.min(rung), next_ns.min(rung_next_ns))
}

/// How what has come on the lines of a page stands, and when the first that is not critical yet will be.
fn rung(page: &Page, now_ns: u64) -> (Rank, u64) {
    let (mut best, mut next_ns) = (Rank::IDLE, u64::MAX);
    let mut ready = page.told.0.ready.0.load(SeqCst);
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
