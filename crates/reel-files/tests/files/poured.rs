//! A stream of what a program pours, in simulated time.

use reel_files::limits::{ANSWER_TIME, GATHER_TIME, POURED_BYTES_MAX, POURED_MAX};
use reel_files::{Answer, Connection, Owner, Problem, Stream, StreamFile, StreamTable};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Counts those that are open.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Connection for Counted {}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Rig {
    stream: Stream,
    open: Arc<AtomicUsize>,
    now: Instant,
}

fn connected(open: &Arc<AtomicUsize>) -> Box<dyn Connection> {
    open.fetch_add(1, Ordering::Relaxed);
    Box::new(Counted(Arc::clone(open)))
}

impl Rig {
    fn new() -> Rig {
        let now = Instant::now();
        let mut stream = Stream::new(Owner { uid: 7, gid: 8 }, now);
        stream.set_title("live/studio".into()).unwrap();
        Rig { stream, open: Arc::default(), now }
    }

    /// A stream that plays and is read, and the number by which it is told.
    fn read() -> (Rig, u64) {
        let mut rig = Rig::new();
        assert_eq!(rig.stream.open_data().unwrap().unwrap().title.as_ref(), "live/studio");
        let number = rig.start();
        (rig, number)
    }

    fn start(&mut self) -> u64 {
        self.stream.check_poured(800_000).unwrap();
        self.stream.started_poured(connected(&self.open), 800_000).unwrap()
    }

    fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    fn state(&self) -> String {
        self.stream.value(StreamFile::State)
    }

    /// The answer to a read, and how long it took.
    fn answer(&mut self, bytes: usize) -> (Answer, Duration) {
        let put = self.now;
        self.stream.read(bytes, put).unwrap();
        loop {
            match self.stream.answer(self.now) {
                Answer::NotYet(at) => {
                    assert!(at > self.now && at <= put + ANSWER_TIME);
                    self.now = at;
                }
                answer => return (answer, self.now - put),
            }
        }
    }
}

fn broken() -> Problem {
    Problem { errno: Errno::IO, text: "broken off".to_owned() }
}

#[test]
fn a_reader_gets_what_comes_and_the_end() {
    let (mut rig, number) = Rig::read();
    assert_eq!((&*rig.state(), &*rig.stream.value(StreamFile::Rate)), ("playing", "800000"));
    assert_eq!(rig.stream.value(StreamFile::Position), "");
    rig.stream.poured(number, b"abcdef");
    assert_eq!(rig.answer(4), (Answer::Bytes(b"abcd".to_vec()), Duration::ZERO));
    assert_eq!(rig.answer(4), (Answer::Bytes(b"ef".to_vec()), GATHER_TIME), "less, after a while");
    assert_eq!(rig.answer(4), (Answer::Error(Errno::INTR), ANSWER_TIME), "it is to ask again");
    rig.stream.poured(number, b"gh");
    rig.stream.poured_ended(number, Ok(()));
    assert_eq!(rig.answer(4), (Answer::Bytes(b"gh".to_vec()), Duration::ZERO));
    assert_eq!(rig.answer(4).0, Answer::End);
    assert_eq!((&*rig.state(), rig.open()), ("ended", 0));
    rig.start_again();
}

impl Rig {
    fn start_again(&mut self) {
        self.stream.close_data();
        self.stream.start().unwrap();
        self.start();
        assert_eq!((&*self.state(), self.open()), ("playing", 1));
    }
}

#[test]
fn a_reader_of_a_broken_stream_gets_what_came_and_an_error() {
    let (mut rig, number) = Rig::read();
    rig.stream.poured(number, b"abc");
    rig.stream.poured_ended(number, Err(broken()));
    assert_eq!(rig.answer(9).0, Answer::Bytes(b"abc".to_vec()));
    assert_eq!(rig.answer(9).0, Answer::Error(Errno::IO));
    assert_eq!((&*rig.state(), &*rig.stream.value(StreamFile::Error)), ("failed", "broken off"));
    rig.start_again();
    // One without a reader has failed at once.
    let mut rig = Rig::new();
    rig.stream.start().unwrap();
    let number = rig.start();
    rig.stream.poured(number, b"abc");
    rig.stream.poured_ended(number, Err(broken()));
    assert_eq!((&*rig.state(), rig.open()), ("failed", 0));
}

#[test]
fn what_is_held_is_bounded_and_what_comes_late_is_not_given() {
    let (mut rig, first) = Rig::read();
    let room = rig.stream.poured_room(first).unwrap();
    rig.stream.poured(first, &vec![1; room]);
    assert_eq!((room, rig.stream.poured_room(first)), (POURED_BYTES_MAX, Some(0)));
    let all = rig.answer(2 * POURED_BYTES_MAX);
    assert_eq!(all, (Answer::Bytes(vec![1; room]), Duration::ZERO), "no more can come before that");
    rig.stream.pause().unwrap();
    assert_eq!((&*rig.state(), rig.open()), ("paused", 0), "nothing is reserved");
    rig.stream.start().unwrap();
    let second = rig.start();
    rig.stream.poured(first, b"old");
    rig.stream.poured_ended(first, Err(broken()));
    rig.stream.poured(second, b"new");
    assert_eq!((rig.stream.poured_room(first), rig.answer(3).0), (None, Answer::Bytes(b"new".to_vec())));
    // Its reader is gone.
    rig.stream.close_data();
    assert_eq!((&*rig.state(), rig.open(), rig.stream.poured_room(second)), ("paused", 0, None));
    // It was paused while it was started.
    let refused = rig.stream.started_poured(connected(&rig.open), 1).unwrap_err();
    assert_eq!((refused.errno, rig.open()), (Errno::BUSY, 0));
}

#[test]
fn what_a_poured_stream_has_not_is_refused() {
    let (mut rig, _) = Rig::read();
    let errno = |result: Result<(), Problem>| result.unwrap_err().errno;
    assert_eq!(errno(rig.stream.seek(1, rig.now)), Errno::INVAL);
    assert_eq!(errno(rig.stream.set_class("interactive".into()).map(drop)), Errno::BUSY);
    assert_eq!(rig.stream.set_class("periodic".into()), Ok(None), "its own");
    assert_eq!(errno(rig.stream.start().map(drop)), Errno::BUSY);
    assert_eq!(errno(rig.stream.set_title("a".into())), Errno::BUSY);
    rig.stream.close_data();
    rig.stream.start().unwrap();
    rig.start();
    assert_eq!(errno(rig.stream.start_to_join("file:a").map(drop)), Errno::BUSY, "it is to be read");
    let mut rig = Rig::new();
    rig.stream.set_rate(1000).unwrap();
    assert_eq!(errno(rig.stream.check_poured(1001)), Errno::DQUOT);
    assert_eq!(rig.stream.check_poured(1000), Ok(()));
    rig.stream.set_position(1).unwrap();
    assert_eq!(errno(rig.stream.check_poured(1000)), Errno::INVAL);
}

#[test]
fn poured_streams_that_are_read_are_bounded() {
    let (mut table, open) = (StreamTable::default(), Arc::default());
    let now = Instant::now();
    for _ in 0..POURED_MAX {
        assert_eq!(table.check_poured(), Ok(()));
        let number = table.add(Owner { uid: 7, gid: 8 }, now).unwrap();
        let stream = table.stream(number).unwrap();
        stream.set_title("live/a".into()).unwrap();
        stream.start().unwrap();
        stream.started_poured(connected(&open), 1).unwrap();
    }
    assert_eq!(table.check_poured().unwrap_err().errno, Errno::AGAIN);
    table.stream(1).unwrap().pause().unwrap();
    assert_eq!(table.check_poured(), Ok(()));
    drop(table);
    assert_eq!(open.load(Ordering::Relaxed), 0);
}
