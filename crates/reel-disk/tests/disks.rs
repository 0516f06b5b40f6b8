//! Members through their schedulers, over both drivers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use reel_arena::{Arena, ArenaConfig};
use reel_disk::{
    DepthBound, DiskDone, DiskError, DiskRequest, DiskWork, Disks, DisksConfig, Fault, MemberFile, OpenMode,
    Reply,
};
use reel_qos::{Class, DEADLINE_NONE_NS};
use reel_ring::DriverChoice;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

const BLOCK: usize = 4096;
const DRIVERS: [DriverChoice; 2] = [DriverChoice::Auto, DriverChoice::Portable];

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
    config: DisksConfig,
    _dir: tempfile::TempDir,
}

/// Two members of 64 blocks whose block `b` is filled with `b + member`; member 2 is absent.
fn rig(driver: DriverChoice) -> Rig {
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
    let config = DisksConfig {
        threads: 2,
        depth: DepthBound { requests: 4, bytes: 1 << 20 },
        driver,
        ..DisksConfig::default()
    };
    let disks = Disks::start(members, &arena, config.clone()).unwrap();
    let (sender, answers) = channel();
    Rig { arena, disks, reply: Arc::new(Answers(Mutex::new(sender))), answers, config, _dir: dir }
}

impl Rig {
    fn submit(&self, member: usize, token: u64, work: DiskWork) {
        let (class, deadline_ns) = (Class::Aperiodic, DEADLINE_NONE_NS);
        let reply = Arc::clone(&self.reply) as Arc<dyn Reply>;
        self.disks.submit(DiskRequest { member, class, deadline_ns, work, token, reply });
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
    let rig = rig(DriverChoice::Auto);
    let faults = rig.config.faults.clone();
    faults.inject(0, Fault::FailReads);
    assert!(matches!(rig.read(0, 1, 1).result, Err(DiskError::Failed { member: 0, what: "read", .. })));
    assert!(rig.read(1, 1, 1).result.is_ok());
    faults.clear(0);
    faults.inject(0, Fault::CorruptReads);
    let lied = rig.read(0, 1, 1);
    assert!(lied.result.is_ok() && lied.buffer.unwrap()[..BLOCK].iter().any(|&byte| byte != 1));
    faults.clear(0);
    faults.inject(0, Fault::Delay { delay_ns: 20_000_000 });
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
        return;
    }
    let file = tempfile::NamedTempFile::new_in(shared_memory).unwrap();
    fs::write(file.path(), vec![3; BLOCK]).unwrap();
    let member = MemberFile::open(file.path(), OpenMode::ReadOnly).unwrap();
    let mut bytes = vec![0; BLOCK];
    member.read_at(0, &mut bytes).unwrap();
    assert_eq!((member.bytes(), bytes[17]), (BLOCK as u64, 3));
}
