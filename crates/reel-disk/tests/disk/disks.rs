//! Members through their schedulers, over both drivers.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use reel_arena::{Arena, ArenaConfig};
use reel_disk::{
    DepthBound, DiskDone, DiskError, DiskRequest, DiskWork, Disks, DisksConfig, Fault, Faults, MemberFile,
    OpenMode, Policy, Reply, RequestId, Requester, SchedulerView, start_disks,
};
use reel_qos::{Class, ClassSpec, ClassTable, DEADLINE_NONE_NS, DiskPrice, Kind};
use reel_ring::{DriverChoice, Ring, RingConfig};
use reel_testkit::ring_or_skip;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BLOCK: usize = 4096;
const DRIVERS: [DriverChoice; 2] = [DriverChoice::Auto, DriverChoice::Portable];
/// Only ends a test that hangs.
const LONG: Duration = Duration::from_secs(120);

struct Answers(Mutex<Sender<DiskDone>>);

impl Reply for Answers {
    fn deliver(&self, done: DiskDone) {
        // The test may have ended.
        let _ = self.0.lock().unwrap().send(done);
    }
}

struct Rig {
    arena: Arena,
    disks: Disks,
    reply: Arc<Answers>,
    answers: Receiver<DiskDone>,
    faults: Faults,
    dir: tempfile::TempDir,
}

/// Two members of 64 blocks whose block `b` is filled with `b + member`; member 2 is absent.
fn rig(driver: DriverChoice) -> Rig {
    rig_with(driver, |_| {})
}

/// The same with members that can have faults.
fn faulty_rig(driver: DriverChoice) -> Rig {
    rig_with(driver, |config| config.faults = Some(Faults::default()))
}

fn rig_with(driver: DriverChoice, change: impl FnOnce(&mut DisksConfig)) -> Rig {
    let uring = RingConfig { entries: 1, driver: DriverChoice::Uring };
    if driver == DriverChoice::Auto {
        ring_or_skip(Ring::new(uring, None));
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let open = |member: u8| {
        let path = dir.path().join(format!("member-{member}"));
        let bytes: Vec<u8> = (0..64_u8).flat_map(|block| vec![block + member; BLOCK]).collect();
        fs::write(&path, bytes).unwrap();
        Some(MemberFile::open(&path, OpenMode::ReadWrite).unwrap())
    };
    let members = vec![open(0), open(1), None];
    let arena = Arena::new(ArenaConfig {
        buffer_bytes: 16 * BLOCK,
        buffer_count: 80,
        cells_per_buffer: 1,
        huge_pages: false,
    });
    let arena = arena.unwrap();
    let mut config = DisksConfig {
        threads: 2,
        depth: DepthBound { requests: 4, bytes: 1 << 20, ..DepthBound::default() },
        driver,
        ..DisksConfig::default()
    };
    change(&mut config);
    let faults = config.faults.clone().unwrap_or_default();
    let disks = start_disks(members, &arena, config).unwrap();
    let (sender, answers) = channel();
    Rig { arena, disks, reply: Arc::new(Answers(Mutex::new(sender))), answers, faults, dir }
}

/// A request of class interactive to the first member, without a deadline.
fn urgent(work: DiskWork, reply: Arc<dyn Reply>) -> DiskRequest {
    DiskRequest {
        id: RequestId::new(),
        member: 0,
        class: Class::INTERACTIVE,
        requester: Requester::default(),
        deadline_ns: DEADLINE_NONE_NS,
        work,
        token: 0,
        reply,
    }
}

impl Rig {
    fn submit(&self, member: usize, token: u64, work: DiskWork) -> RequestId {
        let request = urgent(work, Arc::clone(&self.reply) as Arc<dyn Reply>);
        let id = request.id;
        self.disks.submit(DiskRequest { member, class: Class::APERIODIC, token, ..request });
        id
    }

    fn read(&self, member: usize, block: usize, blocks: usize) -> DiskDone {
        let buffer = self.arena.take(blocks * BLOCK).unwrap();
        self.submit(
            member,
            7,
            DiskWork::Read { offset: (block * BLOCK) as u64, bytes: blocks * BLOCK, buffer },
        );
        self.answers.recv().unwrap()
    }
}

#[test]
fn every_block_is_read_from_its_member() {
    for driver in DRIVERS {
        let rig = rig(driver);
        for token in 0..64_u64 {
            let buffer = rig.arena.take(BLOCK).unwrap();
            // Not in ascending order.
            let block = token * 37 % 64;
            rig.submit(
                token as usize % 2,
                block,
                DiskWork::Read { offset: block * BLOCK as u64, bytes: BLOCK, buffer },
            );
        }
        for _ in 0..64 {
            let done = rig.answers.recv().unwrap();
            done.result.unwrap();
            let expected = done.token as u8 + done.member as u8;
            assert!(done.buffer.unwrap()[..BLOCK].iter().all(|&byte| byte == expected));
        }
        let stats = rig.disks.stats();
        assert_eq!((stats[0].reads, stats[1].reads, stats[2].present), (32, 32, false));
        assert_eq!((stats[0].queued, stats[0].in_device), (0, 0));
        assert_eq!(stats[0].service_us_log2.iter().sum::<u64>(), 32);
    }
}

#[test]
fn what_is_written_is_read_back() {
    for driver in DRIVERS {
        let rig = rig(driver);
        let mut buffer = rig.arena.take(3 * BLOCK).unwrap();
        buffer[..3 * BLOCK].fill(0xab);
        let lease = buffer.freeze().slice(0..3 * BLOCK);
        rig.submit(1, 1, DiskWork::Write { offset: 5 * BLOCK as u64, lease });
        rig.answers.recv().unwrap().result.unwrap();
        rig.submit(1, 2, DiskWork::Sync);
        rig.answers.recv().unwrap().result.unwrap();
        let read = rig.read(1, 4, 5);
        read.result.unwrap();
        let bytes = read.buffer.unwrap();
        let seen: Vec<u8> = bytes[..5 * BLOCK].chunks(BLOCK).map(|block| block[9]).collect();
        assert_eq!(seen, [5, 0xab, 0xab, 0xab, 9]);
    }
}

#[test]
fn errors_say_which_member_and_where() {
    for driver in DRIVERS {
        let rig = rig(driver);
        assert!(matches!(rig.read(2, 0, 1).result, Err(DiskError::Absent { member: 2 })));
        assert!(matches!(rig.read(9, 0, 1).result, Err(DiskError::Absent { member: 9 })));
        let beyond = rig.read(0, 62, 4);
        assert!(
            matches!(beyond.result, Err(DiskError::Short { member: 0, offset }) if offset == 64 * BLOCK as u64)
        );
        assert!(beyond.buffer.is_some(), "the buffer comes back whatever happened");
        let buffer = rig.arena.take(BLOCK).unwrap();
        rig.submit(0, 1, DiskWork::Read { offset: 100, bytes: BLOCK, buffer });
        assert!(matches!(rig.answers.recv().unwrap().result, Err(DiskError::Unaligned { offset: 100, .. })));
    }
}

#[test]
fn faults_do_what_they_say_until_they_are_cleared() {
    let rig = faulty_rig(DriverChoice::Auto);
    let faults = rig.faults.clone();
    faults.inject(0, Fault::FailReads);
    assert!(matches!(rig.read(0, 1, 1).result, Err(DiskError::Failed { member: 0, what: "read", .. })));
    assert!(rig.read(1, 1, 1).result.is_ok());
    faults.clear(0);
    faults.inject(0, Fault::CorruptReads);
    let wrong = rig.read(0, 1, 1);
    assert!(wrong.result.is_ok() && wrong.buffer.unwrap()[..BLOCK].iter().any(|&byte| byte != 1));
    faults.clear(0);
    faults.inject(0, Fault::Delay { delay_ns: 20_000_000 });
    // What was added to it, however busy this machine is.
    assert!(rig.read(0, 1, 1).device_ns >= 20_000_000);
    faults.clear(0);
    assert_eq!(rig.disks.stats()[0].errors, 1);
}

#[test]
fn stopping_answers_everything() {
    for driver in DRIVERS {
        let rig = rig(driver);
        for block in 0..64_u64 {
            let buffer = rig.arena.take(BLOCK).unwrap();
            rig.submit(0, block, DiskWork::Read { offset: block * BLOCK as u64, bytes: BLOCK, buffer });
        }
        rig.disks.stop().unwrap();
        assert_eq!(rig.answers.try_iter().filter(|done| done.result.is_ok()).count(), 64);
        assert!(matches!(rig.read(0, 0, 1).result, Err(DiskError::Stopped)));
    }
}

#[test]
fn a_file_system_without_direct_io_is_read_all_the_same() {
    let shared_memory = Path::new("/dev/shm");
    if !shared_memory.is_dir() {
        return println!("skipped: no /dev/shm");
    }
    let file = tempfile::NamedTempFile::new_in(shared_memory).unwrap();
    fs::write(file.path(), vec![3; BLOCK]).unwrap();
    let member = MemberFile::open(file.path(), OpenMode::ReadOnly).unwrap();
    let mut bytes = vec![0; BLOCK];
    member.read_at(0, &mut bytes).unwrap();
    assert_eq!((member.bytes(), bytes[17]), (BLOCK as u64, 3));
}

#[test]
fn wrong_requests_are_refused_before_any_device_sees_them() {
    let rig = rig(DriverChoice::Auto);
    let buffer = rig.arena.take(BLOCK).unwrap();
    let (offset, bytes) = (0, 100 * BLOCK);
    rig.submit(0, 1, DiskWork::Read { offset, bytes, buffer });
    let done = rig.answers.recv().unwrap();
    assert!(matches!(done.result, Err(DiskError::Buffer { .. })) && done.buffer.is_some());
    let buffer = rig.arena.take(BLOCK).unwrap();
    rig.submit(0, 1, DiskWork::Read { offset, bytes: 0, buffer });
    assert!(matches!(rig.answers.recv().unwrap().result, Err(DiskError::Unaligned { .. })));
    let lease = rig.arena.take(2 * BLOCK).unwrap().freeze();
    rig.submit(0, 1, DiskWork::Write { offset, lease: lease.slice(512..512 + BLOCK) });
    assert!(matches!(rig.answers.recv().unwrap().result, Err(DiskError::Unaligned { .. })));
    rig.submit(0, 1, DiskWork::Write { offset: 63 * BLOCK as u64, lease: lease.slice(0..2 * BLOCK) });
    assert!(matches!(
        rig.answers.recv().unwrap().result,
        Err(DiskError::Short { member: 0, offset: 262_144 })
    ));
    assert_eq!(rig.disks.stats()[0].writes, 0);
}

#[test]
fn a_file_cut_within_a_block_ends_there() {
    for driver in DRIVERS {
        let rig = rig(driver);
        let member = fs::File::options().write(true).open(rig.dir.path().join("member-1")).unwrap();
        member.set_len(10 * BLOCK as u64 + 700).unwrap();
        for (block, blocks) in [(10, 1), (9, 4), (11, 1)] {
            let done = rig.read(1, block, blocks);
            assert!(matches!(done.result, Err(DiskError::Short { member: 1, .. })), "{:?}", done.result);
        }
        assert!(rig.read(1, 9, 1).result.is_ok());
    }
}

#[test]
fn faults_hit_their_place_only() {
    let rig = faulty_rig(DriverChoice::Auto);
    let faults = rig.faults.clone();
    let block = BLOCK as u64;
    faults.inject(0, Fault::CorruptRange(3 * block + 5..3 * block + 7));
    faults.inject(0, Fault::FailRange(9 * block..10 * block));
    let bytes = rig.read(0, 2, 3).buffer.unwrap();
    let wrong: Vec<usize> = (0..3 * BLOCK).filter(|at| bytes[*at] != (2 + at / BLOCK) as u8).collect();
    assert_eq!(wrong, [BLOCK + 5, BLOCK + 6]);
    assert!(rig.read(0, 8, 1).result.is_ok());
    assert!(rig.read(0, 8, 2).result.is_err());
    assert!(rig.read(0, 9, 3).result.is_err());
    assert!(rig.read(0, 10, 1).result.is_ok());
    faults.inject(1, Fault::Vanish);
    let DiskError::Failed { source, .. } = rig.read(1, 0, 1).result.unwrap_err() else {
        panic!("another error")
    };
    assert_eq!(source.raw_os_error(), Some(rustix::io::Errno::NODEV.raw_os_error()));
    faults.clear(1);
    faults.inject(1, Fault::FailWrites);
    rig.submit(1, 1, DiskWork::Sync);
    assert!(rig.answers.recv().unwrap().result.is_err());
    assert!(rig.read(1, 0, 1).result.is_ok());
}

#[test]
fn many_threads_submit_to_many_members_and_each_request_is_answered_once() {
    for driver in DRIVERS {
        let rig = rig(driver);
        let (arena, reply) = (rig.arena.clone(), Arc::clone(&rig.reply));
        let request = |member: usize, token: u64| {
            let offset = (token * 29 % 64) * BLOCK as u64;
            let buffer = arena.take(BLOCK);
            let work = match buffer {
                Some(buffer) => DiskWork::Read { offset, bytes: BLOCK, buffer },
                None => DiskWork::Sync,
            };
            let reply = Arc::clone(&reply) as Arc<dyn Reply>;
            DiskRequest {
                id: RequestId::new(),
                member,
                class: Class::PERIODIC,
                requester: Requester::default(),
                deadline_ns: token,
                work,
                token,
                reply,
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (disks, request) = (rig.disks.clone(), &request);
                scope.spawn(move || {
                    for batch in 0..50 {
                        let token = |i: u64| thread * 1000 + batch * 10 + i;
                        disks.submit_all(&mut (0..9).map(|i| request(i as usize % 3, token(i))));
                        disks.submit(request(1, token(9)));
                    }
                });
            }
        });
        let mut tokens: Vec<u64> = (0..2000).map(|_| rig.answers.recv().unwrap().token).collect();
        tokens.sort_unstable();
        let expected: Vec<u64> = (0..4).flat_map(|thread| thread * 1000..thread * 1000 + 500).collect();
        assert_eq!(tokens, expected);
        rig.disks.stop().unwrap();
        assert!(rig.answers.try_recv().is_err());
        let stats = rig.disks.stats();
        let periodic: u64 = stats.iter().map(|member| member.classes[0].requests).sum();
        assert_eq!(periodic, stats.iter().map(|member| member.reads).sum());
        assert_eq!(rig.arena.usage().bytes_taken, 0);
    }
}

#[test]
fn a_reply_that_panics_still_leaves_every_request_answered() {
    struct PanickingReply;
    impl Reply for PanickingReply {
        fn deliver(&self, _done: DiskDone) {
            panic!("a defect in a caller");
        }
    }
    for driver in DRIVERS {
        let rig = faulty_rig(driver);
        rig.faults.inject(0, Fault::Delay { delay_ns: 5_000_000 });
        for token in 0..20 {
            let buffer = rig.arena.take(BLOCK).unwrap();
            rig.submit(0, token, DiskWork::Read { offset: 0, bytes: BLOCK, buffer });
        }
        let bomb = urgent(DiskWork::Sync, Arc::new(PanickingReply));
        rig.disks.submit(DiskRequest { class: Class::APERIODIC, ..bomb });
        for _ in 0..20 {
            rig.answers.recv_timeout(LONG).expect("answered, if only as stopped");
        }
        // The thread is gone with its members, but no caller waits for ever.
        while !matches!(rig.read(0, 0, 1).result, Err(DiskError::Stopped)) {}
        assert!(rig.read(1, 0, 1).result.is_ok(), "the other thread continues");
        assert!(matches!(rig.disks.stop(), Err(DiskError::Thread(_))));
        assert_eq!(rig.arena.usage().bytes_taken, 0);
    }
}

#[test]
fn the_last_handle_may_be_dropped_on_a_disk_thread() {
    struct Last(Mutex<Option<Disks>>, Mutex<Sender<()>>);
    impl Reply for Last {
        fn deliver(&self, _done: DiskDone) {
            drop(self.0.lock().unwrap().take());
            self.1.lock().unwrap().send(()).unwrap();
        }
    }
    let Rig { disks, arena, dir: _dir, .. } = rig(DriverChoice::Auto);
    let (sender, gone) = channel();
    let reply = Arc::new(Last(Mutex::new(Some(disks.clone())), Mutex::new(sender)));
    let submitting = disks.clone();
    drop(disks);
    let buffer = arena.take(BLOCK).unwrap();
    submitting.submit(urgent(DiskWork::Read { offset: 0, bytes: BLOCK, buffer }, reply));
    drop(submitting);
    gone.recv_timeout(LONG).expect("no thread waits for itself");
}

#[test]
fn direct_where_the_file_system_can_buffered_where_it_cannot() {
    let rig = rig(DriverChoice::Auto);
    let missing = MemberFile::open(&rig.dir.path().join("absent"), OpenMode::ReadOnly).unwrap_err();
    assert!(missing.to_string().contains("absent"), "{missing}");
    // sysfs has no direct I/O on any kernel; its files are shorter than they claim to be.
    let path = Path::new("/sys/kernel/mm/transparent_hugepage/enabled");
    if !path.exists() {
        return println!("skipped: no file without direct I/O: {}", path.display());
    }
    let member = MemberFile::open(path, OpenMode::ReadOnly).unwrap();
    assert!(!member.direct());
    let text = fs::read(path).unwrap();
    let mut bytes = vec![0; text.len()];
    member.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes, text);
    for driver in DRIVERS {
        let member = MemberFile::open(path, OpenMode::ReadOnly).unwrap();
        let config = DisksConfig { driver, ..DisksConfig::default() };
        let disks = start_disks(vec![Some(member)], &rig.arena, config).unwrap();
        let buffer = rig.arena.take(BLOCK).unwrap();
        let reply = Arc::clone(&rig.reply) as Arc<dyn Reply>;
        disks.submit(urgent(DiskWork::Read { offset: 0, bytes: BLOCK, buffer }, reply));
        let done = rig.answers.recv().unwrap();
        assert!(matches!(done.result, Err(DiskError::Short { .. })), "{:?}", done.result);
        assert_eq!(done.buffer.unwrap()[..text.len()], text);
    }
}

/// Waits for a view that is wanted, since threads publish views from time to time. The number of
/// tries only ends a test that hangs.
fn view_when(rig: &Rig, member: usize, wanted: impl Fn(&SchedulerView) -> bool) -> SchedulerView {
    for _ in 0..3000 {
        let view = rig.disks.views().swap_remove(member);
        if wanted(&view) {
            return view;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the view never came: {:?}", rig.disks.views());
}

#[test]
fn what_the_schedulers_do_is_seen() {
    for driver in DRIVERS {
        let rig = rig_with(driver, |config| config.policy = Policy::Rounds);
        let view = rig.disks.views().swap_remove(0);
        assert_eq!((view.policy, view.classes.len()), ("rounds", 3), "before the first request");
        assert_eq!(view.classes[0].quota_ns, 700_000_000);
        for block in 0..8 {
            rig.read(0, block, 1).result.unwrap();
        }
        let view = view_when(&rig, 0, |view| view.classes[2].total_ns > 0 && view.classes[2].queued == 0);
        assert!(view.rounds > 0);
        let mut specs: Vec<ClassSpec> = ClassTable::default().iter().map(|(_, spec)| spec.clone()).collect();
        specs[0].share_permille = 600;
        specs[0].network_permille = 750;
        specs.push(ClassSpec::new("premium", Kind::Periodic, 100));
        rig.disks.set_classes(Arc::new(ClassTable::new(specs).unwrap()));
        let view = view_when(&rig, 1, |view| view.classes.len() == 4);
        assert_eq!((view.classes[0].quota_ns, view.classes[3].quota_ns), (600_000_000, 100_000_000));
        rig.read(0, 3, 1).result.unwrap();
    }
}

#[test]
fn every_policy_reads_every_block() {
    for policy in Policy::ALL {
        let rig = rig_with(DriverChoice::Auto, |config| config.policy = policy);
        for block in [5, 1, 63, 30] {
            let done = rig.read(1, block, 1);
            done.result.unwrap();
            assert_eq!(done.buffer.unwrap()[7], block as u8 + 1);
        }
        assert_eq!(rig.disks.views()[1].policy, policy.name());
    }
}

#[test]
fn answers_after_their_deadline_are_counted_for_their_class() {
    let rig = rig(DriverChoice::Auto);
    // Two deadlines that passed when the machine started, and one that never does.
    for (token, deadline_ns) in [(1, 0), (2, DEADLINE_NONE_NS), (3, 1)] {
        let buffer = rig.arena.take(BLOCK).unwrap();
        let reply = Arc::clone(&rig.reply) as Arc<dyn Reply>;
        let read = urgent(DiskWork::Read { offset: 0, bytes: BLOCK, buffer }, reply);
        rig.disks.submit(DiskRequest { class: Class::PERIODIC, deadline_ns, token, ..read });
        rig.answers.recv().unwrap().result.unwrap();
    }
    let stats = rig.disks.stats();
    let late: Vec<u64> = stats[0].classes[..3].iter().map(|class| class.late).collect();
    assert_eq!(late, [2, 0, 0]);
    assert_eq!(stats[0].classes[0].requests, 3);
}

#[test]
fn a_price_that_is_set_is_the_price() {
    let rig = faulty_rig(DriverChoice::Auto);
    let price = DiskPrice {
        read_request_ns: 7,
        read_mib_ns: 6,
        write_request_ns: 5,
        write_mib_ns: 4,
        independent_limits: false,
    };
    rig.disks.set_price(0, price.into());
    rig.read(0, 0, 1).result.unwrap();
    assert_eq!(rig.disks.price(0), price);
    assert_eq!(rig.disks.price(1), reel_disk::limits::PRICE_UNKNOWN);
}

/// Six reads of the first member, whose device answers none of them until its faults are cleared.
/// The bound of the rig is four: the other two wait in the scheduler.
fn request_six_of_a_stalled_member(rig: &Rig) -> Vec<RequestId> {
    rig.faults.inject(0, Fault::Stall);
    let ask = |token: u64| {
        let buffer = rig.arena.take(BLOCK).unwrap();
        rig.submit(0, token, DiskWork::Read { offset: token * BLOCK as u64, bytes: BLOCK, buffer })
    };
    let asked = (0..6).map(ask).collect();
    view_when(rig, 0, |view| view.classes[2].queued == 2);
    asked
}

#[test]
fn a_stalled_or_slow_member_keeps_its_requests_in_the_device() {
    for driver in DRIVERS {
        let rig = faulty_rig(driver);
        request_six_of_a_stalled_member(&rig);
        let stats = rig.disks.stats().swap_remove(0);
        assert_eq!((stats.in_device, stats.queued, stats.reads), (4, 2, 0));
        rig.faults.clear(0);
        for _ in 0..6 {
            rig.answers.recv().unwrap().result.unwrap();
        }
        rig.faults.inject(0, Fault::Slow { factor: 3 });
        let device_ns = rig.read(0, 1, 1).device_ns;
        assert!(device_ns > 0);
        assert_eq!(rig.disks.stats()[0].reads, 7);
    }
}

#[test]
fn a_withdrawn_request_is_answered_without_going_to_the_device() {
    for driver in DRIVERS {
        let rig = faulty_rig(driver);
        let asked = request_six_of_a_stalled_member(&rig);
        // Those in the device stay there; a request of another name or member is not touched.
        rig.disks.withdraw(0, RequestId::new());
        asked.iter().for_each(|id| rig.disks.withdraw(1, *id));
        asked.iter().for_each(|id| rig.disks.withdraw(0, *id));
        let back = [rig.answers.recv().unwrap(), rig.answers.recv().unwrap()];
        for done in &back {
            assert!(matches!(done.result, Err(DiskError::Withdrawn)), "{:?}", done.result);
            assert!(done.buffer.is_some() && done.device_ns == 0);
        }
        view_when(&rig, 0, |view| view.classes[2].queued == 0);
        rig.faults.clear(0);
        (0..4).for_each(|_| rig.answers.recv().unwrap().result.unwrap());
        let stats = rig.disks.stats().swap_remove(0);
        assert_eq!((stats.in_device, stats.queued, stats.reads, stats.errors), (0, 0, 4, 0));
    }
}
