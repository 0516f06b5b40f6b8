//! Members of one processor: threads and processes, in one order of deadlines, even if one of them
//! dies.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use lab_shared_processor::{Member, SharedProcessor};
use proptest::prelude::*;
use reel_rt::{Agenda, TaskId, TaskKind, now_ns};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

const HOUR_NS: u64 = 3_600_000_000_000;
const BACKGROUND: TaskKind = TaskKind::Background;

/// A member with tasks that have one message each, done in the order of the agenda.
struct Player {
    member: Member,
    agenda: Agenda,
    deadlines: HashMap<TaskId, u64>,
}

impl Player {
    fn new(core: &SharedProcessor, deadlines_ns: &[u64]) -> Player {
        let (mut agenda, mut deadlines) = (Agenda::default(), HashMap::new());
        for &deadline_ns in deadlines_ns {
            let task = agenda.add(TaskKind::Deadline { delay_ns: deadline_ns }, 0).unwrap();
            deadlines.insert(task, deadline_ns);
        }
        Player { member: core.join().unwrap(), agenda, deadlines }
    }

    fn play(mut self, played: &Mutex<Vec<u64>>) {
        while !self.deadlines.is_empty() {
            let task = self.member.next(&mut self.agenda, |_, _| {}).task.unwrap();
            played.lock().unwrap().push(self.deadlines.remove(&task).unwrap());
            self.agenda.remove(task);
        }
    }
}

/// Waits until this many members wait for the processor that `gate` has.
fn until_waiting(core: &SharedProcessor, members: usize) {
    while core.waiting() < members {
        thread::yield_now();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Invariant I3 across members (experiment R8): the tasks of all members run in one order of
    /// deadlines, and the processor changes hands only where the order requires it.
    #[test]
    fn members_run_in_one_order_of_deadlines(
        all in prop::collection::vec(prop::collection::vec(0_u64..1000, 1..8), 2..5)
    ) {
        // Equal deadlines may run in any order, so they are made different here.
        let tell_apart = |(member, deadlines): (usize, &Vec<u64>)| {
            deadlines.iter().map(|ms| HOUR_NS + ms * 1_000_000 + member as u64).collect::<Vec<u64>>()
        };
        let all: Vec<Vec<u64>> = all.iter().enumerate().map(tell_apart).collect();
        let core = SharedProcessor::create().unwrap();
        let played = Mutex::new(Vec::new());
        let mut gate = Player::new(&core, &[1]);
        gate.member.next(&mut gate.agenda, |_, _| {});
        thread::scope(|scope| {
            for deadlines in &all {
                let (core, played) = (&core, &played);
                scope.spawn(move || Player::new(core, deadlines).play(played));
            }
            until_waiting(&core, all.len());
            // Opens the gate: all waiting members have published their ranks.
            drop(gate);
        });
        let mut expected: Vec<u64> = all.concat();
        expected.sort_unstable();
        let played = played.into_inner().unwrap();
        prop_assert_eq!(&played, &expected);
        let changes = played.windows(2).filter(|pair| pair[0] % 1_000_000 != pair[1] % 1_000_000).count();
        // One from the gate, and one from each member that leaves to one that still waits.
        prop_assert!(core.counts().hand_overs as usize <= changes + 1 + all.len(), "{:?}", core.counts());
    }
}

#[test]
fn a_member_that_continues_hands_nothing_over() {
    let core = SharedProcessor::create().unwrap();
    let (mut near, far) = (Player::new(&core, &[HOUR_NS]), Player::new(&core, &[2 * HOUR_NS]));
    near.member.next(&mut near.agenda, |_, _| {});
    let played = Mutex::new(Vec::new());
    thread::scope(|scope| {
        scope.spawn(|| far.play(&played));
        until_waiting(&core, 1);
        let task = near.agenda.choose(now_ns()).task.unwrap();
        for message in 0..10_000 {
            assert_eq!(near.member.next(&mut near.agenda, |_, _| {}).task, Some(task));
            near.agenda.advance(task, message);
        }
        assert_eq!(core.counts().hand_overs, 0);
        near.agenda.advance(task, u64::MAX / 4);
        // Now it could only work ahead; the other one is critical.
        assert_eq!(near.member.next(&mut near.agenda, |_, _| {}).task, Some(task));
        assert_eq!(played.lock().unwrap().len(), 1);
    });
    assert_eq!(core.counts().hand_overs, 2);
}

#[test]
fn doorbells_wake_a_resting_member() {
    let core = SharedProcessor::create().unwrap();
    let heard = Mutex::new(0);
    thread::scope(|scope| {
        let (mut one, mut two) = (Player::new(&core, &[]), Player::new(&core, &[]));
        let doorbells = [one.member.doorbell(3).unwrap(), two.member.doorbell(63).unwrap()];
        let heard = &heard;
        scope.spawn(move || listen(&mut two, 63, heard));
        scope.spawn(move || {
            while *heard.lock().unwrap() < 400 {
                doorbells.iter().for_each(|doorbell| doorbell.ring());
                thread::yield_now();
            }
        });
        listen(&mut one, 3, heard);
        // Leaves, so that the other can rest alone.
        drop(one);
    });
    assert_eq!(heard.into_inner().unwrap(), 400);
}

/// Waits 200 times for the doorbell of a line, and counts.
fn listen(player: &mut Player, line: usize, heard: &Mutex<i32>) {
    let task = player.agenda.add(TaskKind::Interactive, 0).unwrap();
    player.agenda.wait(task, 0);
    for _ in 0..200 {
        player.member.wait_on(line, &player.agenda, task);
        let choice = player.member.next(&mut player.agenda, |agenda, rung| {
            assert_eq!(rung, line);
            agenda.ready(task);
        });
        assert_eq!(choice.task, Some(task));
        *heard.lock().unwrap() += 1;
        player.agenda.wait(task, 0);
    }
}

/// Work ahead of its time continues in one section until something is urgent; critical work is
/// chosen again for each message.
#[test]
fn only_work_ahead_of_its_time_takes_several_messages_in_a_section() {
    let core = SharedProcessor::create().unwrap();
    let mut player = Player::new(&core, &[]);
    let kind = TaskKind::Deadline { delay_ns: HOUR_NS };
    let (now_ns, agenda) = (now_ns(), &mut player.agenda);
    let [ahead, waiting] = [agenda.add(kind, 0).unwrap(), agenda.add(kind, 0).unwrap()];
    agenda.wait(waiting, now_ns);
    player.member.wait_on(0, &player.agenda, waiting);
    let choice = player.member.next(&mut player.agenda, |_, _| {});
    assert_eq!((choice.task, choice.ahead), (Some(ahead), false));
    assert!(!player.member.takes_more(&choice), "a critical one");
    player.agenda.advance(ahead, now_ns + HOUR_NS);
    let choice = player.member.next(&mut player.agenda, |_, _| {});
    assert_eq!((choice.task, choice.ahead), (Some(ahead), true));
    // The machine may not let it run for the whole of a section, so it gets several tries.
    let again = (0..100).any(|_| {
        let choice = player.member.next(&mut player.agenda, |_, _| {});
        player.member.takes_more(&choice)
    });
    assert!(again, "nothing is urgent");
    player.member.doorbell(0).unwrap().ring();
    assert!(!player.member.takes_more(&choice) && player.member.should_yield(&choice), "a doorbell");
    let choice = player.member.next(&mut player.agenda, |agenda, _| assert!(agenda.ready(waiting)));
    assert_eq!(choice.task, Some(waiting));
    // The longest section.
    player.agenda.wait(waiting, now_ns);
    let choice = player.member.next(&mut player.agenda, |_, _| {});
    let begun_ns = reel_rt::now_ns();
    while reel_rt::now_ns() < begun_ns + reel_rt::limits::SECTION_NS_MAX {}
    assert!(choice.ahead && !player.member.takes_more(&choice));
}

/// Early work for a member without the processor ends no rest, and is taken when it is critical.
#[test]
fn early_work_for_another_member_waits_for_its_time() {
    let core = SharedProcessor::create().unwrap();
    let due_ns = now_ns() + 100_000_000;
    thread::scope(|scope| {
        let (first, second) = (Player::new(&core, &[]), Player::new(&core, &[]));
        let doorbell = second.member.doorbell(0).unwrap();
        let waits = |mut player: Player, critical_ns: u64| {
            move || {
                let task = player.agenda.add(TaskKind::Deadline { delay_ns: 0 }, 0).unwrap();
                player.agenda.wait(task, critical_ns);
                player.member.wait_on(0, &player.agenda, task);
                let choice = player.member.next(&mut player.agenda, |agenda, _| assert!(agenda.ready(task)));
                assert_eq!(choice.task, Some(task));
                now_ns()
            }
        };
        let doorbells = [doorbell, first.member.doorbell(0).unwrap()];
        let second = scope.spawn(waits(second, due_ns));
        let first = scope.spawn(waits(first, due_ns + 50_000_000));
        while !core.is_resting() || core.members() < 2 {
            thread::yield_now();
        }
        thread::sleep(std::time::Duration::from_millis(20));
        let before = core.counts().hand_overs;
        let in_time = now_ns() < due_ns;
        doorbells.iter().for_each(|doorbell| doorbell.ring());
        // If the machine does not let this thread run in time, the test proves nothing.
        if in_time && now_ns() < due_ns {
            assert!(core.is_resting(), "a rest was ended for work that is not due");
            assert_eq!(core.counts().hand_overs, before);
        }
        assert!(second.join().unwrap() >= due_ns && first.join().unwrap() >= due_ns);
    });
}

/// One member rests. Another comes with only future work and rests too. The doorbell wakes the
/// first one, which must know of that future work, although it has not seen it before.
#[test]
fn a_member_that_regains_the_processor_checks_again() {
    let core = SharedProcessor::create().unwrap();
    let mut first = Player::new(&core, &[]);
    let doorbell = first.member.doorbell(0).unwrap();
    let came = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Once the first one rests.
            while !core.is_resting() {
                thread::yield_now();
            }
            let mut second = Player::new(&core, &[]);
            let due_ns = now_ns() + 20_000_000;
            let task = second.agenda.add(TaskKind::Deadline { delay_ns: 0 }, due_ns).unwrap();
            let doorbell = doorbell.clone();
            scope.spawn(move || {
                // When the second one has published its future work and rests.
                while now_ns() + 10_000_000 < due_ns {
                    thread::yield_now();
                }
                doorbell.ring();
            });
            assert_eq!(second.member.next(&mut second.agenda, |_, _| {}).task, Some(task));
            came.store(true, Ordering::SeqCst);
        });
        let task = first.agenda.add(BACKGROUND, u64::MAX).unwrap();
        first.agenda.wait(task, 0);
        first.member.wait_on(0, &first.agenda, task);
        first.member.next(&mut first.agenda, |agenda, _| assert!(agenda.ready(task)));
        // Works in the background until the other, which always ranks better, has run. Ten seconds
        // are not a measure of speed.
        let given_up_ns = now_ns() + 10_000_000_000;
        while !came.load(Ordering::SeqCst) {
            if now_ns() >= given_up_ns {
                // So that the other one ends, too.
                first.member.leave();
                panic!("the other member never runs");
            }
            first.member.next(&mut first.agenda, |_, _| {});
            first.agenda.advance(task, 0);
        }
        first.member.leave();
    });
}

#[test]
fn a_member_that_keeps_the_processor_loses_it_to_the_next_one() {
    let core = SharedProcessor::create().unwrap();
    let mut hog = Player::new(&core, &[]);
    let task = hog.agenda.add(BACKGROUND, 0).unwrap();
    hog.member.next(&mut hog.agenda, |_, _| {});
    hog.member.mask();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            Player::new(&core, &[HOUR_NS]).play(&Mutex::new(Vec::new()));
            over.store(true, Ordering::SeqCst);
        });
        // Neither checks nor unmasks until the other has finished: without the watchdogs this would
        // not end.
        while !over.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    });
    // The other may lose the processor too, where the machine does not let it run. A watchdog
    // counts after it has taken the processor, which the other one may have used up by then. Ten
    // seconds are not a measure of speed.
    let given_up_ns = now_ns() + 10_000_000_000;
    while core.counts().revoked == 0 {
        assert!(now_ns() < given_up_ns, "no watchdog took the processor");
        thread::yield_now();
    }
    hog.member.unmask();
    assert_eq!(
        hog.member.next(&mut hog.agenda, |_, _| {}).task,
        Some(task),
        "it continues when it is its turn"
    );
}

/// The watchdogs take the processor in the first section already, also if no member ran at their
/// last check. Without them this would not end.
#[test]
fn a_member_that_keeps_the_processor_from_the_start_loses_it() {
    let core = SharedProcessor::create().unwrap();
    let mut hog = Player::new(&core, &[]);
    hog.agenda.add(BACKGROUND, 0).unwrap();
    // By now the watchdog has seen that no member runs.
    thread::sleep(std::time::Duration::from_millis(20));
    hog.member.next(&mut hog.agenda, |_, _| {});
    Player::new(&core, &[HOUR_NS]).play(&Mutex::new(Vec::new()));
}

/// Early work for another member asks for nothing. If it becomes critical and the running member
/// does not check, that member loses the processor.
#[test]
fn a_member_that_misses_its_check_loses_the_processor() {
    let core = SharedProcessor::create().unwrap();
    let mut waiting = Player::new(&core, &[]);
    let doorbell = waiting.member.doorbell(0).unwrap();
    let came = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let due_ns = now_ns() + 30_000_000;
            let task = waiting.agenda.add(TaskKind::Deadline { delay_ns: 0 }, due_ns).unwrap();
            waiting.agenda.wait(task, due_ns);
            waiting.member.wait_on(0, &waiting.agenda, task);
            waiting.member.next(&mut waiting.agenda, |agenda, _| assert!(agenda.ready(task)));
            came.store(true, Ordering::SeqCst);
            waiting.member.leave();
        });
        while !core.is_resting() {
            thread::yield_now();
        }
        let mut hog = Player::new(&core, &[]);
        hog.agenda.add(BACKGROUND, 0).unwrap();
        hog.member.next(&mut hog.agenda, |_, _| {});
        doorbell.ring();
        let given_up_ns = now_ns() + 10_000_000_000;
        while !came.load(Ordering::SeqCst) {
            assert!(now_ns() < given_up_ns, "the processor is never released");
            thread::yield_now();
        }
        hog.member.leave();
    });
}

/// A process that joins and then does what `fault` says. The tests below run it as a child.
#[test]
#[ignore = "child of the tests below"]
fn child() {
    let (Ok(path), Ok(fault)) =
        (std::env::var("REEL_TEST_SHARED_PROCESSOR"), std::env::var("REEL_TEST_FAULT"))
    else {
        return;
    };
    let fd: OwnedFd = OpenOptions::new().read(true).write(true).open(path).unwrap().into();
    let core = SharedProcessor::attach(fd).unwrap();
    let mut player = Player::new(&core, &[1]);
    player.member.next(&mut player.agenda, |_, _| {});
    player.member.mask();
    match fault.as_str() {
        // Ends at once: no destructor runs.
        "exit" => std::process::exit(0),
        _ => loop {
            thread::park();
        },
    }
}

fn start_child(core: &SharedProcessor, fault: &str) -> Child {
    let path = format!("/proc/{}/fd/{}", std::process::id(), core.fd().as_raw_fd());
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored"])
        .env("REEL_TEST_SHARED_PROCESSOR", path)
        .env("REEL_TEST_FAULT", fault)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_process_that_exits_in_a_masked_section_is_taken_out() {
    // Before the other joins, and while it waits.
    for waits in [false, true] {
        let core = SharedProcessor::create().unwrap();
        let gate = waits.then(|| Player::new(&core, &[1]));
        let mut child = start_child(&core, "exit");
        if let Some(mut gate) = gate {
            while !core.is_running() && core.counts().died == 0 {
                thread::yield_now();
            }
            gate.member.next(&mut gate.agenda, |_, _| {});
        }
        child.wait().unwrap();
        Player::new(&core, &[HOUR_NS]).play(&Mutex::new(Vec::new()));
        assert_eq!(core.counts().died, 1);
        // Its page can be used again.
        let members: Vec<Member> =
            (0..lab_shared_processor::limits::MEMBERS_MAX).map(|_| core.join().unwrap()).collect();
        assert!(core.join().is_err());
        drop(members);
    }
}

#[test]
fn a_process_that_is_killed_while_it_has_the_processor_is_taken_out() {
    let core = SharedProcessor::create().unwrap();
    let mut child = start_child(&core, "sleep");
    while !core.is_running() {
        thread::yield_now();
    }
    let other = core.clone();
    let waits = thread::spawn(move || Player::new(&other, &[2 * HOUR_NS]).play(&Mutex::new(Vec::new())));
    child.kill().unwrap();
    child.wait().unwrap();
    waits.join().unwrap();
    assert_eq!(core.counts().died, 1);
}

#[test]
fn other_memory_is_refused() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 20).unwrap();
    let error = SharedProcessor::attach(file.into()).unwrap_err();
    assert!(error.to_string().contains("not that of a shared processor"), "{error}");
}

/// Whatever another process writes into the pages, no member panics or hangs.
#[test]
fn invalid_values_in_the_pages_crash_no_member() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..50 {
        let core = Arc::new(SharedProcessor::create().unwrap());
        let mut player = Player::new(&core, &[1, 2, 3]);
        player.member.next(&mut player.agenda, |_, _| {});
        let path = format!("/proc/self/fd/{}", core.fd().as_raw_fd());
        let file = OpenOptions::new().write(true).open(path).unwrap();
        let bytes = file.metadata().unwrap().len();
        for at in (8..bytes).step_by(8) {
            // Sparse, so that some values are plausible.
            if random() % 3 == 0 {
                let word = if random() % 2 == 0 { random() } else { random() % 200 };
                std::os::unix::fs::FileExt::write_all_at(&file, &word.to_ne_bytes(), at).unwrap();
            }
        }
        core.doorbell(random() as usize % 16, 5).unwrap().ring();
        core.doorbell(random() as usize % 16, 63).unwrap().ring();
        let choice = player.agenda.choose(now_ns());
        let _ = player.member.should_yield(&choice);
        player.member.leave();
    }
}
