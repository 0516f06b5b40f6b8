//! How a core ends, and what happens to unfinished work.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use reel_arena::{Arena, ArenaConfig};
use reel_ring::{Done, DriverChoice, Op, Ring, RingConfig};
use reel_rt::{Core, CoreConfig, Mailbox, RtError, Service, spawn};
use reel_testkit::ring_or_skip;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(120);

fn config(driver: DriverChoice, cpu: Option<usize>) -> CoreConfig {
    let uring = RingConfig { entries: 1, driver: DriverChoice::Uring };
    if driver == DriverChoice::Auto {
        ring_or_skip(Ring::new(uring, None));
    }
    let name = "a name that is longer than the kernel's".to_owned();
    CoreConfig { name, cpu, ring: RingConfig { entries: 8, driver }, arena: None }
}

/// Counts to `left` by timers after the stop, and reports what happened.
struct Slow {
    left: u32,
    reports: Sender<String>,
}

impl Service for Slow {
    type Message = u32;

    fn message(&mut self, _core: &mut Core, message: u32) {
        let _ = self.reports.send(format!("message {message}"));
    }

    fn done(&mut self, _core: &mut Core, _done: Done) {}

    fn timer(&mut self, core: &mut Core, _token: u64) {
        self.left -= 1;
        if self.left == 0 {
            let _ = self.reports.send("finished".to_owned());
            return core.stop();
        }
        core.at(core.now_ns() + 1000, 0);
    }

    fn stopping(&mut self, core: &mut Core) {
        let _ = self.reports.send("stopping".to_owned());
        core.at(core.now_ns(), 0);
    }
}

#[test]
fn messages_sent_before_a_stop_are_handled_and_work_is_finished() {
    for _ in 0..100 {
        let (reports, reported) = channel();
        let core = spawn(config(DriverChoice::Auto, None), |_, _| Slow { left: 3, reports }).unwrap();
        let mailbox = core.mailbox();
        mailbox.send_all(vec![1, 2]).unwrap();
        mailbox.send(3).unwrap();
        core.stop();
        core.join().unwrap();
        let heard: Vec<String> = reported.iter().collect();
        assert_eq!(heard, ["message 1", "message 2", "message 3", "stopping", "finished"]);
        assert!(mailbox.is_closed());
        assert_eq!(mailbox.send(4), Err(4));
        assert_eq!(mailbox.send_all(vec![5, 6]), Err(vec![5, 6]));
        mailbox.post(7);
    }
}

/// Reports when it is dropped.
struct ReportDrop(Sender<&'static str>, &'static str);

impl Drop for ReportDrop {
    fn drop(&mut self) {
        let _ = self.0.send(self.1);
    }
}

/// Panics at the first message, with a second one in the same batch and a third in the mailbox.
struct Fragile;

impl Service for Fragile {
    type Message = ReportDrop;

    fn message(&mut self, core: &mut Core, message: ReportDrop) {
        let _ = core.now_ns();
        drop(message);
        panic!("number {}", 7);
    }

    fn done(&mut self, _core: &mut Core, _done: Done) {}

    fn timer(&mut self, _core: &mut Core, _token: u64) {}
}

#[test]
fn after_a_panic_the_mailbox_is_empty_and_closed() {
    for driver in [DriverChoice::Auto, DriverChoice::Portable] {
        let (reports, reported) = channel();
        let core = spawn(config(driver, Some(0)), |_, _| Fragile).unwrap();
        let mailbox = core.mailbox();
        let letters = ["first", "second", "third"].map(|name| ReportDrop(reports.clone(), name));
        mailbox.send_all(letters.into()).map_err(|_| "gone").unwrap();
        for _ in 0..3 {
            reported.recv_timeout(LONG).expect("every message is handled or dropped");
        }
        while core.is_alive() {
            std::thread::yield_now();
        }
        assert!(mailbox.is_closed());
        let error = core.join().unwrap_err();
        assert!(matches!(&error, RtError::Panicked { reason, .. } if reason == "number 7"), "{error}");
    }
}

#[test]
fn a_service_that_cannot_be_made_is_an_error() {
    let made = spawn(config(DriverChoice::Auto, None), |_, _: Mailbox<u32>| -> Slow { panic!("no disk") });
    assert!(matches!(made, Err(RtError::Panicked { reason, .. }) if reason == "no disk"));
    let ring = RingConfig { entries: 0, driver: DriverChoice::Auto };
    let (reports, _hears) = channel();
    let made =
        spawn(CoreConfig { ring, ..config(DriverChoice::Auto, None) }, |_, _| Slow { left: 1, reports });
    assert!(matches!(made, Err(RtError::Ring { .. })));
}

#[test]
fn a_processor_that_does_not_exist_is_ignored() {
    let (reports, reported) = channel();
    let core = spawn(config(DriverChoice::Auto, Some(100_000)), |_, _| Slow { left: 1, reports }).unwrap();
    core.mailbox().post(1);
    assert_eq!(reported.recv_timeout(LONG).unwrap(), "message 1");
}

#[test]
fn a_dropped_handle_ends_the_core() {
    let (reports, reported) = channel();
    drop(spawn(config(DriverChoice::Auto, None), |_, _| Slow { left: 1, reports }).unwrap());
    assert_eq!(reported.iter().collect::<Vec<_>>(), ["stopping", "finished"]);
}

/// Reads a file block by block, asking for the next one at the end of each turn.
struct Reader {
    arena: Arena,
    file: Arc<OwnedFd>,
    wanted: Vec<u64>,
    reports: Sender<(u64, u8)>,
}

impl Service for Reader {
    type Message = u64;

    fn message(&mut self, _core: &mut Core, block: u64) {
        self.wanted.push(block);
    }

    fn done(&mut self, _core: &mut Core, done: Done) {
        assert_eq!(done.result.unwrap(), 4096);
        let Op::Read { buffer, .. } = done.op else { panic!("another operation was returned") };
        self.reports.send((done.token, buffer[4095])).unwrap();
    }

    fn timer(&mut self, _core: &mut Core, _token: u64) {}

    fn turn(&mut self, core: &mut Core) {
        for block in self.wanted.drain(..) {
            let (file, buffer) = (Arc::clone(&self.file), self.arena.take(4096).unwrap());
            core.ring.push(block, Op::Read { file, offset: block * 4096, buffer, start: 0, bytes: 4096 });
        }
    }
}

#[test]
fn a_service_reads_through_its_ring_from_registered_memory() {
    for driver in [DriverChoice::Auto, DriverChoice::Portable] {
        let path = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::write(path.path(), (0..100_u8).flat_map(|b| [b; 4096]).collect::<Vec<u8>>()).unwrap();
        let shape =
            ArenaConfig { buffer_bytes: 4096, buffer_count: 128, cells_per_buffer: 1, huge_pages: false };
        let arena = Arena::new(shape).unwrap();
        let file = Arc::new(File::open(path.path()).unwrap().into());
        let (reports, reported) = channel();
        let reading = arena.clone();
        let config = CoreConfig { arena: Some(arena.clone()), ..config(driver, None) };
        let core =
            spawn(config, move |_, _| Reader { arena: reading, file, wanted: Vec::new(), reports }).unwrap();
        for block in 0..100 {
            core.mailbox().post(block);
        }
        for _ in 0..100 {
            let (block, byte) = reported.recv_timeout(LONG).unwrap();
            assert_eq!(block, u64::from(byte));
        }
        core.stop();
        core.join().unwrap();
        assert_eq!(arena.usage().bytes_taken, 0);
    }
}

/// Panics at every odd message; reports the others, and when it was made.
struct Odd(Sender<u32>);

impl Service for Odd {
    type Message = u32;

    fn message(&mut self, core: &mut Core, message: u32) {
        assert!(message.is_multiple_of(2), "on purpose");
        let _ = self.0.send(message);
        core.at(core.now_ns(), message.into());
    }

    fn done(&mut self, _core: &mut Core, _done: Done) {}

    fn timer(&mut self, _core: &mut Core, token: u64) {
        let _ = self.0.send(1000 + token as u32);
    }
}

#[test]
fn a_service_that_panics_is_made_again_with_the_same_mailbox() {
    for driver in [DriverChoice::Auto, DriverChoice::Portable] {
        let (reports, reported) = channel();
        let made = reports.clone();
        let core = reel_rt::spawn_restarting(config(driver, None), move |_: &mut Core, _: Mailbox<u32>| {
            let _ = made.send(100);
            Odd(reports.clone())
        })
        .unwrap();
        let mailbox = core.mailbox();
        let next = || reported.recv_timeout(LONG).unwrap();
        assert_eq!(next(), 100);
        for panics in 1..=reel_rt::limits::RESTARTS_MAX as u32 {
            mailbox.send(1).unwrap();
            assert_eq!(next(), 100, "it is made again");
            mailbox.send(2).unwrap();
            assert_eq!((next(), next()), (2, 1002), "messages and timers arrive");
            assert!(core.is_alive());
            assert_eq!(core.restarts(), panics);
        }
        mailbox.send(1).unwrap();
        assert!(matches!(core.join(), Err(RtError::Panicked { .. })), "too often");
        assert!(mailbox.is_closed());
    }
}
