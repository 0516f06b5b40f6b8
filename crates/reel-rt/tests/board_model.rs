//! Every word of the board, under a scheduler that interleaves at each access: nobody runs beside another, no wake-up is
//! lost (a lost one is a deadlock, which the checker reports), and the death of a member keeps nobody waiting.
//!
//! Waits for the processor have no timeout: what is lost is found as a deadlock.
//!
//! A program of its own: the sources of the library take the checker's atomics from `crate::atomic`.
#![allow(dead_code, unreachable_pub, reason = "the sources of the library, with the checker's atomics")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod atomic {
    pub(crate) use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

/// Small: each atomic costs the checker time.
mod limits {
    pub(crate) const MEMBERS_MAX: usize = 3;
    pub(crate) const STEPS_MAX: usize = 2;
    pub(crate) const LINES_MAX: usize = 2;
}

#[path = "../src/task.rs"]
mod task;

#[path = "../src/split"]
mod split {
    pub(crate) mod baton;
    pub(crate) mod board;
    pub(crate) mod kernel;
    pub(crate) mod layout;
}

use atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::{Config, Runner, thread};
use split::baton::Baton;
use split::board::{Board, Look};
use split::kernel::Kernel;
use split::layout::{Head, Line, Page, Shared, SharedStep, Told, Used, Wait};
use std::array::from_fn;
use std::panic::catch_unwind;
use task::{Standing, Step};

/// A futex made of a lock, processes that live while their bit is set, and time that goes on when a test says so.
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
    /// How many are in the middle of a task, and what has been done.
    running: AtomicU32,
    done: AtomicU32,
    /// For each member, what it has not yet taken.
    messages: [AtomicU32; 3],
}

/// How a member goes to rest.
#[derive(Clone, Copy, PartialEq)]
enum Rest {
    AsItIs,
    /// Without the look at `attention` after the baton says that it rests.
    WithoutLooking,
}

fn world() -> Arc<World> {
    let zero = || AtomicU64::new(0);
    let zero32 = || AtomicU32::new(0);
    let page = |_| Page {
        life: zero(),
        born: zero(),
        turn: Line(zero32()),
        used: Line(Used {
            version: zero32(),
            steps_len: zero32(),
            standing: zero(),
            next_ns: zero(),
            steps: from_fn(|_| SharedStep { at_ns: zero(), standing: zero() }),
        }),
        told: Line(Told { other: zero(), other_at_ns: zero(), ready: Line(zero()) }),
        waits: from_fn(|_| Wait { critical_ns: zero(), standing: zero() }),
    };
    let head = Head {
        magic: zero(),
        baton: Line(zero()),
        attention: Line(zero32()),
        rest_until_ns: zero(),
        hand_overs: zero(),
        slots_used: zero32(),
        buried: zero32(),
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
    fn board(&self) -> Board<'_, Model> {
        Board { shared: &self.shared, kernel: &self.model }
    }

    /// A task: nobody else may be in one.
    fn work(&self) {
        assert_eq!(self.running.fetch_add(1, SeqCst), 0, "two run at once");
        thread::yield_now();
        self.running.fetch_sub(1, SeqCst);
        self.done.fetch_add(1, SeqCst);
    }

    /// Does one task with the standing `standing` for each of `rings` wake-ups on line 0, then leaves.
    fn member(&self, pid: u32, standing: u64, rings: u32, rest: Rest) {
        let board = self.board();
        let me = board.join(pid, 1).unwrap();
        let mut baton = enter(&board, me);
        for _ in 0..rings {
            loop {
                board.wait_on(me, 0, 0, Standing(standing));
                // The flag before the test.
                if self.take_message(pid) {
                    board.wait_no_longer(me, 0);
                    break;
                }
                board.publish(me, Standing::IDLE, u64::MAX, &[]);
                let others = board.look_around(me, 10);
                baton = match others.slot {
                    Some(slot) => board.hand_over(me, baton, slot),
                    None if rest == Rest::AsItIs => board.rest(me, baton, u64::MAX),
                    None => self.rest_without_looking(me, baton),
                };
            }
            board.take_ready(me);
            if let Look::Yield(slot) = board.look(me, baton, Standing(standing), 10) {
                board.publish(me, Standing(standing), u64::MAX, &[]);
                baton = board.hand_over(me, baton, slot);
            }
            self.work();
        }
        board.leave(me, baton);
        board.quit(me);
    }

    fn take_message(&self, pid: u32) -> bool {
        let messages = &self.messages[pid as usize];
        let some = messages.load(SeqCst) > 0;
        if some {
            messages.fetch_sub(1, SeqCst);
        }
        some
    }

    fn rest_without_looking(&self, me: usize, mine: Baton) -> Baton {
        let page = &self.shared.pages[me];
        let turn = page.turn.0.load(SeqCst);
        let resting = mine.rest();
        let word = &self.shared.head.baton.0;
        if word.compare_exchange(mine.0, resting.0, SeqCst, SeqCst).is_ok() {
            self.model.wait(&page.turn.0, turn, u64::MAX);
        }
        self.board().acquire(me, false)
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
        self.board().ring(slot, 0);
    }
}

/// Comes with work of the last rank.
fn enter(board: &Board<'_, Model>, me: usize) -> Baton {
    board.publish(me, Standing::BACKGROUND, u64::MAX, &[]);
    board.enter(me)
}

/// Two members, each woken once by a third party on another core.
fn two_members_are_woken(rest: Rest) {
    let world = world();
    let member = |pid: u32, standing: u64| {
        let world = Arc::clone(&world);
        thread::spawn(move || world.member(pid, standing, 1, rest))
    };
    let threads = [member(1, 100), member(2, 50)];
    let ringing = Arc::clone(&world);
    let ringer = thread::spawn(move || {
        ringing.ring(1);
        ringing.ring(2);
    });
    threads.into_iter().chain([ringer]).for_each(|thread| thread.join().unwrap());
    assert_eq!(world.done.load(SeqCst), 2);
    assert_eq!(world.board().baton().holder(), None, "all have left");
}

/// One takes the processor and dies with it, in the middle of writing its page; the other is woken twice all the same.
fn one_dies_in_a_masked_section() {
    let world = world();
    let living = Arc::clone(&world);
    let member = thread::spawn(move || living.member(1, 100, 2, Rest::AsItIs));
    let dying = Arc::clone(&world);
    let victim = thread::spawn(move || {
        let board = dying.board();
        let me = board.join(2, 1).unwrap();
        enter(&board, me);
        dying.shared.pages[me].used.0.version.store(1, SeqCst);
        dying.model.dead.store(1 << 2, SeqCst);
        me
    });
    let ringing = Arc::clone(&world);
    let ringer = thread::spawn(move || {
        ringing.ring(1);
        ringing.ring(1);
    });
    // The warden: called when the process has ended.
    let slot = victim.join().unwrap();
    world.board().look_after(slot);
    member.join().unwrap();
    ringer.join().unwrap();
    assert_eq!(world.done.load(SeqCst), 2);
    assert_eq!(world.shared.head.buried.load(SeqCst), 1);
}

/// One gives the processor away and dies before it has called the other.
fn one_dies_while_it_hands_over() {
    let world = world();
    let board = world.board();
    let [dies, lives] = [1, 2].map(|pid| board.join(pid, 1).unwrap());
    let baton = enter(&board, dies);
    let living = Arc::clone(&world);
    let living = thread::spawn(move || {
        let board = living.board();
        let baton = enter(&board, lives);
        living.work();
        board.leave(lives, baton);
        board.quit(lives);
    });
    while world.shared.head.attention.0.load(SeqCst) == 0 {
        thread::yield_now();
    }
    world.shared.head.baton.0.store(baton.to(lives).0, SeqCst);
    world.model.dead.store(1 << 1, SeqCst);
    // The warden, which has seen the same baton before.
    board.look_after(dies);
    board.call_again(baton.to(lives));
    living.join().unwrap();
    assert_eq!(world.done.load(SeqCst), 1);
}

/// One runs on without looking and loses the processor; it finds out before its next task.
fn one_is_revoked() {
    let world = world();
    let hog = Arc::clone(&world);
    let hog = thread::spawn(move || {
        let board = hog.board();
        let me = board.join(1, 1).unwrap();
        let mut baton = enter(&board, me);
        for _ in 0..2 {
            match board.look(me, baton, Standing::BACKGROUND, 10) {
                Look::Stay => {}
                Look::Lost => baton = enter(&board, me),
                Look::Yield(slot) => {
                    board.publish(me, Standing::BACKGROUND, u64::MAX, &[]);
                    baton = board.hand_over(me, baton, slot);
                }
            }
        }
        board.leave(me, baton);
        board.quit(me);
    });
    let other = Arc::clone(&world);
    let other = thread::spawn(move || other.member(2, 50, 1, Rest::AsItIs));
    let ringing = Arc::clone(&world);
    let ringer = thread::spawn(move || ringing.ring(2));
    let board = world.board();
    for _ in 0..2 {
        board.revoke(board.baton());
        thread::yield_now();
    }
    [hog, other, ringer].into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(world.done.load(SeqCst), 1);
}

/// How somebody gives up a processor that he no longer has.
#[derive(Clone, Copy, PartialEq)]
enum GivesUp {
    Leaves,
    HandsOver,
    Rests,
}

/// One loses the processor to another and does not know. When he gives it up all the same, the other hears of a third one who has come
/// meanwhile, and of the time at which the loser has something to do.
fn one_gives_up_what_he_has_lost(gives_up: GivesUp) {
    let world = world();
    let board = world.board();
    let [loser, runs, comes] = [1, 2, 3].map(|pid| board.join(pid, 1).unwrap());
    let lost = enter(&board, loser);
    board.publish(runs, Standing(50), u64::MAX, &[]);
    assert!(board.revoke(lost));
    let baton = board.acquire(runs, false);
    assert_eq!(board.look(runs, baton, Standing(50), 10), Look::Stay);
    let third = Arc::clone(&world);
    let third = thread::spawn(move || {
        let board = third.board();
        board.publish(comes, Standing(20), u64::MAX, &[]);
        let baton = board.enter(comes);
        board.publish(comes, Standing::IDLE, u64::MAX, &[]);
        board.leave(comes, baton);
    });
    while world.shared.head.attention.0.load(SeqCst) == 0 {
        thread::yield_now();
    }
    let late = Arc::clone(&world);
    let late = thread::spawn(move || {
        let board = late.board();
        let step = Step { at_ns: 30, standing: Standing(10) };
        board.publish(loser, Standing::IDLE, u64::MAX, &[step]);
        board.look_around(loser, 10);
        let baton = match gives_up {
            GivesUp::Leaves => return board.leave(loser, lost),
            GivesUp::HandsOver => board.hand_over(loser, lost, comes),
            GivesUp::Rests => board.rest(loser, lost, 30),
        };
        board.publish(loser, Standing::IDLE, u64::MAX, &[]);
        board.leave(loser, baton);
    });
    let yields = |baton, now_ns, to| {
        (0..1000).any(|_| {
            thread::yield_now();
            board.look(runs, baton, Standing(50), now_ns) == Look::Yield(to)
        })
    };
    if gives_up == GivesUp::Leaves {
        late.join().unwrap();
        assert!(yields(baton, 10, comes), "who runs does not hear of the third one");
        board.publish(runs, Standing(50), u64::MAX, &[]);
        board.hand_over(runs, baton, comes);
        return third.join().unwrap();
    }
    assert!(yields(baton, 30, loser), "who runs does not hear of the loser");
    board.publish(runs, Standing::IDLE, u64::MAX, &[]);
    board.leave(runs, baton);
    [third, late].into_iter().for_each(|thread| thread.join().unwrap());
}

/// Something comes early for one who waits, while another runs and looks around: whoever is told of it, the first look
/// after it has become critical finds it.
fn one_is_rung_early(looks: impl Fn(&World, usize)) {
    let world = world();
    let board = world.board();
    let (busy, waiting) = (board.join(1, 1).unwrap(), board.join(2, 1).unwrap());
    board.publish(waiting, Standing::IDLE, u64::MAX, &[]);
    board.wait_on(waiting, 0, 20, Standing(50));
    let baton = enter(&board, busy);
    let ringing = Arc::clone(&world);
    let ringer = thread::spawn(move || {
        ringing.board().ring(waiting, 0);
        ringing.model.time_ns.store(30, SeqCst);
    });
    while world.board().kernel.now_ns() < 30 {
        looks(&world, busy);
        thread::yield_now();
    }
    assert_eq!(world.board().look(busy, baton, Standing::BACKGROUND, 30), Look::Yield(waiting));
    ringer.join().unwrap();
}

/// A look around that does not say that it is one while it lasts (rule 5).
fn look_around_carelessly(world: &World, me: usize) {
    let told = &world.shared.pages[me].told.0;
    world.shared.head.attention.0.store(0, SeqCst);
    let others = world.board().others(me, 10);
    told.other.store(others.best.0, SeqCst);
    told.other_at_ns.store(others.next_ns, SeqCst);
}

const RUNS: usize = 10_000;

fn explore(scheduler: impl Scheduler + 'static, test: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::default();
    // A world is made of pages, and is made on the stack.
    config.stack_size = 1 << 18;
    Runner::new(scheduler, config).run(test);
}

#[test]
fn no_wake_up_is_lost() {
    explore(RandomScheduler::new(RUNS), || two_members_are_woken(Rest::AsItIs));
    explore(PctScheduler::new(3, RUNS), || two_members_are_woken(Rest::AsItIs));
}

#[test]
fn what_comes_early_is_found_when_it_is_critical() {
    let looks = |world: &World, me: usize| {
        world.board().look_around(me, 10);
    };
    explore(RandomScheduler::new(RUNS), move || one_is_rung_early(looks));
    explore(PctScheduler::new(3, RUNS), move || one_is_rung_early(looks));
}

/// The control: without rule 5 the checker must find the early message that nobody looks at.
#[test]
fn without_saying_that_it_looks_an_early_message_is_lost() {
    let found = catch_unwind(|| {
        explore(RandomScheduler::new(RUNS), || one_is_rung_early(look_around_carelessly));
        explore(PctScheduler::new(3, RUNS), || one_is_rung_early(look_around_carelessly));
    });
    assert!(found.is_err(), "the checker found nothing, so it would not find our faults either");
}

#[test]
fn the_dead_keep_nobody_waiting() {
    explore(RandomScheduler::new(RUNS), one_dies_in_a_masked_section);
    explore(PctScheduler::new(3, RUNS), one_dies_in_a_masked_section);
    explore(RandomScheduler::new(RUNS), one_dies_while_it_hands_over);
}

/// Wardens look at every page, again and again.
#[test]
fn those_who_are_long_gone_end_nobodys_rest() {
    explore(RandomScheduler::new(1), || {
        let world = world();
        let (board, head) = (world.board(), &world.shared.head);
        let [rests, gone] = [1, 2].map(|pid| board.join(pid, 1).unwrap());
        board.quit(gone);
        let baton = enter(&board, rests);
        head.baton.0.store(baton.rest().0, SeqCst);
        assert!(!board.look_after(gone));
        assert_eq!(head.attention.0.load(SeqCst), 0, "who rests is called for nothing");
    });
}

#[test]
fn who_does_not_look_up_loses_the_processor_and_nothing_else() {
    explore(RandomScheduler::new(RUNS), one_is_revoked);
}

#[test]
fn who_gives_up_what_he_has_lost_keeps_no_news_from_who_has_it() {
    for gives_up in [GivesUp::Leaves, GivesUp::HandsOver, GivesUp::Rests] {
        explore(RandomScheduler::new(1000), move || one_gives_up_what_he_has_lost(gives_up));
    }
}

/// The control: without the flag before the test (section 6.3.5), the checker must find the lost wake-up.
#[test]
fn without_the_look_after_the_flag_a_wake_up_is_lost() {
    let found = catch_unwind(|| {
        explore(RandomScheduler::new(RUNS), || two_members_are_woken(Rest::WithoutLooking));
        explore(PctScheduler::new(3, RUNS), || two_members_are_woken(Rest::WithoutLooking));
    });
    let reason = found.expect_err("the checker found nothing, so it would not find our faults either");
    let reason = reason.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(reason.contains("deadlock"), "{reason}");
}
