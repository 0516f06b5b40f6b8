//! Every word of the dispatcher, under a scheduler that interleaves at each access. Two members
//! never run at once, no wake-up is lost (a lost one is a deadlock, which the checker reports), and
//! the death of a member keeps no other waiting.
//!
//! Waits for the processor have no timeout, so that a lost wake-up is found as a deadlock.
#![allow(dead_code, unreachable_pub, reason = "the sources of the library, with the checker's atomics")]
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

mod atomic {
    pub(crate) use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

/// Small, because each atomic costs the checker time.
mod limits {
    pub(crate) const MEMBERS_MAX: usize = 3;
    pub(crate) const STEPS_MAX: usize = 2;
    pub(crate) const LINES_MAX: usize = 2;
}

#[path = "../src/dispatcher.rs"]
mod dispatcher;
#[path = "../src/kernel.rs"]
mod kernel;
#[path = "../src/layout.rs"]
mod layout;
#[path = "../src/token.rs"]
mod token;

use atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use dispatcher::{Check, Dispatcher};
use kernel::Kernel;
use layout::{FromKernel, FromMember, Head, Line, Page, Shared, SharedStep, Wait};
use reel_rt::{Rank, Step};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::{Config, Runner, thread};
use std::array::from_fn;
use std::panic::catch_unwind;
use token::Token;

/// A futex made of a lock, processes that live while their bit is not set, and time that advances
/// when a test says so.
struct Model {
    time_ns: AtomicU64,
    futex: Mutex<()>,
    called: Condvar,
    dead: AtomicU32,
}

impl Kernel for Model {
    fn now_ns(&self) -> u64 {
        self.time_ns.load(SeqCst)
    }

    fn wait(&self, word: &AtomicU32, seen: u32, _until_ns: u64) {
        let lock = self.futex.lock().unwrap();
        if word.load(SeqCst) == seen {
            drop(self.called.wait(lock).unwrap());
        }
    }

    fn wake(&self, _word: &AtomicU32) {
        let _lock = self.futex.lock().unwrap();
        self.called.notify_all();
    }

    fn is_alive(&self, pid: u32, _born: u64) -> bool {
        self.dead.load(SeqCst) & (1 << pid) == 0
    }
}

struct World {
    shared: Shared,
    model: Model,
    /// How many members are within a task, and how many tasks were done.
    running: AtomicU32,
    done: AtomicU32,
    /// For each member, the messages that it has not taken.
    messages: [AtomicU32; 3],
}

/// How a member goes to rest.
#[derive(Clone, Copy, PartialEq)]
enum Rest {
    AsItIs,
    /// Without reading `attention` after the token says that the member rests.
    WithoutCheck,
}

fn world() -> Arc<World> {
    let zero = || AtomicU64::new(0);
    let zero32 = || AtomicU32::new(0);
    let page = |_| Page {
        life: zero(),
        start_time: zero(),
        turn: Line(zero32()),
        from_member: Line(FromMember {
            version: zero32(),
            steps_len: zero32(),
            rank: zero(),
            next_ns: zero(),
            steps: from_fn(|_| SharedStep { at_ns: zero(), rank: zero() }),
        }),
        from_kernel: Line(FromKernel { other: zero(), other_at_ns: zero(), ready: Line(zero()) }),
        waits: from_fn(|_| Wait { critical_ns: zero(), rank: zero() }),
    };
    let head = Head {
        magic: zero(),
        token: Line(zero()),
        attention: Line(zero32()),
        rest_until_ns: zero(),
        hand_overs: zero(),
        slots_used: zero32(),
        died: zero32(),
        revoked: zero32(),
    };
    let time_ns = AtomicU64::new(10);
    let model = Model { time_ns, futex: Mutex::new(()), called: Condvar::new(), dead: zero32() };
    Arc::new(World {
        shared: Shared { head, pages: from_fn(page) },
        model,
        running: zero32(),
        done: zero32(),
        messages: from_fn(|_| zero32()),
    })
}

impl World {
    fn dispatcher(&self) -> Dispatcher<'_, Model> {
        Dispatcher { shared: &self.shared, kernel: &self.model }
    }

    /// A task: no other member may be in one.
    fn work(&self) {
        assert_eq!(self.running.fetch_add(1, SeqCst), 0, "two run at once");
        thread::yield_now();
        self.running.fetch_sub(1, SeqCst);
        self.done.fetch_add(1, SeqCst);
    }

    /// Does one task of the rank `rank` for each of `rings` wake-ups on line 0, then leaves.
    fn member(&self, pid: u32, rank: u64, rings: u32, rest: Rest) {
        let dispatcher = self.dispatcher();
        let me = dispatcher.join(pid, 1).unwrap();
        let mut token = enter(&dispatcher, me);
        for _ in 0..rings {
            loop {
                dispatcher.wait_on(me, 0, 0, Rank::from_bits(rank));
                // Sets the flag before the test.
                if self.take_message(pid) {
                    dispatcher.wait_no_longer(me, 0);
                    break;
                }
                dispatcher.publish(me, Rank::IDLE, u64::MAX, &[]);
                let others = dispatcher.check_others(me, 10);
                token = match others.slot {
                    Some(slot) => dispatcher.hand_over(me, token, slot),
                    None if rest == Rest::AsItIs => dispatcher.rest(me, token, u64::MAX),
                    None => self.rest_without_check(me, token),
                };
            }
            dispatcher.take_ready(me);
            if let Check::Yield(slot) = dispatcher.check(me, token, Rank::from_bits(rank), 10) {
                dispatcher.publish(me, Rank::from_bits(rank), u64::MAX, &[]);
                token = dispatcher.hand_over(me, token, slot);
            }
            self.work();
        }
        dispatcher.leave(me, token);
        dispatcher.quit(me);
    }

    fn take_message(&self, pid: u32) -> bool {
        let messages = &self.messages[pid as usize];
        let some = messages.load(SeqCst) > 0;
        if some {
            messages.fetch_sub(1, SeqCst);
        }
        some
    }

    fn rest_without_check(&self, me: usize, mine: Token) -> Token {
        let page = &self.shared.pages[me];
        let turn = page.turn.0.load(SeqCst);
        let resting = mine.rest();
        let word = &self.shared.head.token.0;
        if word.compare_exchange(mine.0, resting.0, SeqCst, SeqCst).is_ok() {
            self.model.wait(&page.turn.0, turn, u64::MAX);
        }
        self.dispatcher().acquire(me, false)
    }

    /// Wakes the member of `pid`, once it has joined.
    fn ring(&self, pid: u32) {
        let slot = loop {
            let joined = |page: &Page| page.life.load(SeqCst) == Page::life(pid, 2);
            match self.shared.pages.iter().position(joined) {
                Some(slot) => break slot,
                None => thread::yield_now(),
            }
        };
        self.messages[pid as usize].fetch_add(1, SeqCst);
        self.dispatcher().ring(slot, 0);
    }
}

/// Enters with background work.
fn enter(dispatcher: &Dispatcher<'_, Model>, me: usize) -> Token {
    dispatcher.publish(me, Rank::BACKGROUND, u64::MAX, &[]);
    dispatcher.enter(me)
}

/// Two members, each woken once by a third thread on another core.
fn two_members_are_woken(rest: Rest) {
    let world = world();
    let member = |pid: u32, rank: u64| {
        let world = Arc::clone(&world);
        thread::spawn(move || world.member(pid, rank, 1, rest))
    };
    let threads = [member(1, 100), member(2, 50)];
    let ringing = Arc::clone(&world);
    let ringer = thread::spawn(move || {
        ringing.ring(1);
        ringing.ring(2);
    });
    threads.into_iter().chain([ringer]).for_each(|thread| thread.join().unwrap());
    assert_eq!(world.done.load(SeqCst), 2);
    assert_eq!(world.dispatcher().token().holder(), None, "all have left");
}

/// One member takes the processor and dies with it, while it writes its page. The other is woken
/// twice all the same.
fn one_dies_in_a_masked_section() {
    let world = world();
    let living = Arc::clone(&world);
    let member = thread::spawn(move || living.member(1, 100, 2, Rest::AsItIs));
    let dying = Arc::clone(&world);
    let victim = thread::spawn(move || {
        let dispatcher = dying.dispatcher();
        let me = dispatcher.join(2, 1).unwrap();
        enter(&dispatcher, me);
        dying.shared.pages[me].from_member.0.version.store(1, SeqCst);
        dying.model.dead.store(1 << 2, SeqCst);
        me
    });
    let ringing = Arc::clone(&world);
    let ringer = thread::spawn(move || {
        ringing.ring(1);
        ringing.ring(1);
    });
    // The watchdog: called when the process has ended.
    let slot = victim.join().unwrap();
    world.dispatcher().remove_if_dead(slot);
    member.join().unwrap();
    ringer.join().unwrap();
    assert_eq!(world.done.load(SeqCst), 2);
    assert_eq!(world.shared.head.died.load(SeqCst), 1);
}

/// One member gives the processor away and dies before it has woken the other.
fn one_dies_while_it_hands_over() {
    let world = world();
    let dispatcher = world.dispatcher();
    let [dies, lives] = [1, 2].map(|pid| dispatcher.join(pid, 1).unwrap());
    let token = enter(&dispatcher, dies);
    let living = Arc::clone(&world);
    let living = thread::spawn(move || {
        let dispatcher = living.dispatcher();
        let token = enter(&dispatcher, lives);
        living.work();
        dispatcher.leave(lives, token);
        dispatcher.quit(lives);
    });
    while world.shared.head.attention.0.load(SeqCst) == 0 {
        thread::yield_now();
    }
    world.shared.head.token.0.store(token.to(lives).0, SeqCst);
    world.model.dead.store(1 << 1, SeqCst);
    // The watchdog, which has seen the same token before.
    dispatcher.remove_if_dead(dies);
    dispatcher.wake_again(token.to(lives));
    living.join().unwrap();
    assert_eq!(world.done.load(SeqCst), 1);
}

/// One member runs on without a check and loses the processor; it finds out before its next task.
fn one_is_revoked() {
    let world = world();
    let hog = Arc::clone(&world);
    let hog = thread::spawn(move || {
        let dispatcher = hog.dispatcher();
        let me = dispatcher.join(1, 1).unwrap();
        let mut token = enter(&dispatcher, me);
        for _ in 0..2 {
            match dispatcher.check(me, token, Rank::BACKGROUND, 10) {
                Check::Stay => {}
                Check::Lost => token = enter(&dispatcher, me),
                Check::Yield(slot) => {
                    dispatcher.publish(me, Rank::BACKGROUND, u64::MAX, &[]);
                    token = dispatcher.hand_over(me, token, slot);
                }
            }
        }
        dispatcher.leave(me, token);
        dispatcher.quit(me);
    });
    let other = Arc::clone(&world);
    let other = thread::spawn(move || other.member(2, 50, 1, Rest::AsItIs));
    let ringing = Arc::clone(&world);
    let ringer = thread::spawn(move || ringing.ring(2));
    let dispatcher = world.dispatcher();
    for _ in 0..2 {
        dispatcher.revoke(dispatcher.token());
        thread::yield_now();
    }
    [hog, other, ringer].into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(world.done.load(SeqCst), 1);
}

/// How a member gives up a processor that it no longer has.
#[derive(Clone, Copy, PartialEq)]
enum Release {
    Leaves,
    HandsOver,
    Rests,
}

/// One member loses the processor to another without knowing. When it gives the processor up all
/// the same, the other learns of a third member that has come meanwhile, and of the time at which
/// the loser has work.
fn one_gives_up_a_lost_processor(gives_up: Release) {
    let world = world();
    let dispatcher = world.dispatcher();
    let [loser, runs, comes] = [1, 2, 3].map(|pid| dispatcher.join(pid, 1).unwrap());
    let lost = enter(&dispatcher, loser);
    dispatcher.publish(runs, Rank::from_bits(50), u64::MAX, &[]);
    assert!(dispatcher.revoke(lost));
    let token = dispatcher.acquire(runs, false);
    assert_eq!(dispatcher.check(runs, token, Rank::from_bits(50), 10), Check::Stay);
    let third = Arc::clone(&world);
    let third = thread::spawn(move || {
        let dispatcher = third.dispatcher();
        dispatcher.publish(comes, Rank::from_bits(20), u64::MAX, &[]);
        let token = dispatcher.enter(comes);
        dispatcher.publish(comes, Rank::IDLE, u64::MAX, &[]);
        dispatcher.leave(comes, token);
    });
    while world.shared.head.attention.0.load(SeqCst) == 0 {
        thread::yield_now();
    }
    let late = Arc::clone(&world);
    let late = thread::spawn(move || {
        let dispatcher = late.dispatcher();
        let step = Step { at_ns: 30, rank: Rank::from_bits(10) };
        dispatcher.publish(loser, Rank::IDLE, u64::MAX, &[step]);
        dispatcher.check_others(loser, 10);
        let token = match gives_up {
            Release::Leaves => return dispatcher.leave(loser, lost),
            Release::HandsOver => dispatcher.hand_over(loser, lost, comes),
            Release::Rests => dispatcher.rest(loser, lost, 30),
        };
        dispatcher.publish(loser, Rank::IDLE, u64::MAX, &[]);
        dispatcher.leave(loser, token);
    });
    let yields = |token, now_ns, to| {
        (0..1000).any(|_| {
            thread::yield_now();
            dispatcher.check(runs, token, Rank::from_bits(50), now_ns) == Check::Yield(to)
        })
    };
    if gives_up == Release::Leaves {
        late.join().unwrap();
        assert!(yields(token, 10, comes), "the running member does not learn of the third one");
        dispatcher.publish(runs, Rank::from_bits(50), u64::MAX, &[]);
        dispatcher.hand_over(runs, token, comes);
        return third.join().unwrap();
    }
    assert!(yields(token, 30, loser), "the running member does not learn of the loser");
    dispatcher.publish(runs, Rank::IDLE, u64::MAX, &[]);
    dispatcher.leave(runs, token);
    [third, late].into_iter().for_each(|thread| thread.join().unwrap());
}

/// Work arrives early for a waiting member while another runs and checks. The first check after it
/// has become critical finds it.
fn one_is_rung_early(looks: impl Fn(&World, usize)) {
    let world = world();
    let dispatcher = world.dispatcher();
    let (busy, waiting) = (dispatcher.join(1, 1).unwrap(), dispatcher.join(2, 1).unwrap());
    dispatcher.publish(waiting, Rank::IDLE, u64::MAX, &[]);
    dispatcher.wait_on(waiting, 0, 20, Rank::from_bits(50));
    let token = enter(&dispatcher, busy);
    let ringing = Arc::clone(&world);
    let ringer = thread::spawn(move || {
        ringing.dispatcher().ring(waiting, 0);
        ringing.model.time_ns.store(30, SeqCst);
    });
    while world.dispatcher().kernel.now_ns() < 30 {
        looks(&world, busy);
        thread::yield_now();
    }
    assert_eq!(world.dispatcher().check(busy, token, Rank::BACKGROUND, 30), Check::Yield(waiting));
    ringer.join().unwrap();
}

/// A check that does not announce itself while it lasts (breaks rule 5).
fn check_others_carelessly(world: &World, me: usize) {
    let from_kernel = &world.shared.pages[me].from_kernel.0;
    world.shared.head.attention.0.store(0, SeqCst);
    let others = world.dispatcher().others(me, 10);
    from_kernel.other.store(others.best.bits(), SeqCst);
    from_kernel.other_at_ns.store(others.next_ns, SeqCst);
}

const RUNS: usize = 10_000;

fn explore(scheduler: impl Scheduler + 'static, test: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::default();
    // A world consists of pages and is made on the stack.
    config.stack_size = 1 << 18;
    Runner::new(scheduler, config).run(test);
}

#[test]
fn no_wake_up_is_lost() {
    explore(RandomScheduler::new(RUNS), || two_members_are_woken(Rest::AsItIs));
    explore(PctScheduler::new(3, RUNS), || two_members_are_woken(Rest::AsItIs));
}

#[test]
fn early_work_is_found_when_it_is_critical() {
    let looks = |world: &World, me: usize| {
        world.dispatcher().check_others(me, 10);
    };
    explore(RandomScheduler::new(RUNS), move || one_is_rung_early(looks));
    explore(PctScheduler::new(3, RUNS), move || one_is_rung_early(looks));
}

/// The control: without rule 5 the checker must find the early message that no check finds.
#[test]
fn without_announcing_the_check_an_early_message_is_lost() {
    let found = catch_unwind(|| {
        explore(RandomScheduler::new(RUNS), || one_is_rung_early(check_others_carelessly));
        explore(PctScheduler::new(3, RUNS), || one_is_rung_early(check_others_carelessly));
    });
    assert!(found.is_err(), "the checker found nothing, so it would not find real faults either");
}

#[test]
fn dead_members_keep_no_other_waiting() {
    explore(RandomScheduler::new(RUNS), one_dies_in_a_masked_section);
    explore(PctScheduler::new(3, RUNS), one_dies_in_a_masked_section);
    explore(RandomScheduler::new(RUNS), one_dies_while_it_hands_over);
}

/// Watchdogs check every page repeatedly.
#[test]
fn members_that_left_do_not_end_a_rest() {
    explore(RandomScheduler::new(1), || {
        let world = world();
        let (dispatcher, head) = (world.dispatcher(), &world.shared.head);
        let [rests, gone] = [1, 2].map(|pid| dispatcher.join(pid, 1).unwrap());
        dispatcher.quit(gone);
        let token = enter(&dispatcher, rests);
        head.token.0.store(token.rest().0, SeqCst);
        assert!(!dispatcher.remove_if_dead(gone));
        assert_eq!(head.attention.0.load(SeqCst), 0, "a resting member is woken without a reason");
    });
}

#[test]
fn a_member_that_does_not_check_loses_only_the_processor() {
    explore(RandomScheduler::new(RUNS), one_is_revoked);
}

#[test]
fn a_member_that_gives_up_a_lost_processor_hides_no_news() {
    for gives_up in [Release::Leaves, Release::HandsOver, Release::Rests] {
        explore(RandomScheduler::new(1000), move || one_gives_up_a_lost_processor(gives_up));
    }
}

/// The control: if the flag is not set before the test (section 6.3.5), the checker must find the
/// lost wake-up.
#[test]
fn without_the_check_after_the_flag_a_wake_up_is_lost() {
    let found = catch_unwind(|| {
        explore(RandomScheduler::new(RUNS), || two_members_are_woken(Rest::WithoutCheck));
        explore(PctScheduler::new(3, RUNS), || two_members_are_woken(Rest::WithoutCheck));
    });
    let reason = found.expect_err("the checker found nothing, so it would not find real faults either");
    let reason = reason.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(reason.contains("deadlock"), "{reason}");
}
