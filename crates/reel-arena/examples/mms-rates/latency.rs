//! How long a message takes to another process: the round trip, halved. Each side reads every byte
//! before it answers.

use crate::mapped::{Sink, Sleep, Source};
use crate::rate::consumer;
use crate::streams::{Reader, put};
use crate::sum;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

/// Rounds that are not counted: they touch the pages and fill the caches.
const WARM_UP: u64 = 1000;

/// The side that measures; prints the result as JSON.
pub(crate) fn ping(way: &str, bytes: usize, rounds: u64, sleep: bool) {
    let (end, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    let wait = if sleep { "sleep" } else { "poll" };
    let words = ["latency-consumer", way, &bytes.to_string(), &rounds.to_string(), wait];
    let mut child = consumer(&words, theirs);
    let mut side = Side::new(way, end, bytes);
    let mut taken_ns = Vec::with_capacity(rounds as usize);
    for number in 0..WARM_UP + rounds {
        let begun = Instant::now();
        side.say(number);
        side.hear(sleep);
        let taken = begun.elapsed().as_nanos() as u64 / 2;
        if number >= WARM_UP {
            taken_ns.push(taken);
        }
    }
    assert!(child.wait().unwrap().success());
    taken_ns.sort_unstable();
    let at = |permille: usize| taken_ns[(taken_ns.len() - 1) * permille / 1000];
    println!("{{\"p50_ns\": {}, \"p99_ns\": {}, \"p999_ns\": {}}}", at(500), at(990), at(999));
}

/// The side that answers.
pub(crate) fn pong(way: &str, bytes: usize, rounds: u64, sleep: bool) {
    let end: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let mut side = Side::new(way, end, bytes);
    for number in 0..WARM_UP + rounds {
        side.hear(sleep);
        side.say(number);
    }
}

enum Side {
    /// Two streams, one for each direction.
    Mapped(Box<(Source, Sink)>),
    Stream(String, OwnedFd, Reader, Vec<u8>),
}

impl Side {
    fn new(way: &str, end: OwnedFd, bytes: usize) -> Side {
        if way == "mapped" {
            let bell = Arc::new(end);
            let source = Source::new(Arc::clone(&bell), bytes);
            let sink = Sink::new(bell, 1);
            return Side::Mapped(Box::new((source, sink)));
        }
        let reader = Reader::new("unix-stream", end.try_clone().unwrap(), bytes);
        Side::Stream(way.to_owned(), end, reader, vec![1; bytes])
    }

    fn say(&mut self, number: u64) {
        match self {
            Side::Mapped(both) => {
                both.0.message(number)[..8].copy_from_slice(&number.to_ne_bytes());
                both.0.post(number);
            }
            Side::Stream(way, end, _, message) => drop(put(way, end, message)),
        }
    }

    fn hear(&mut self, sleep: bool) {
        match self {
            Side::Mapped(both) => {
                let (message, bytes) = both.1.take(if sleep { Sleep::AtOnce } else { Sleep::Never }).unwrap();
                std::hint::black_box(sum(bytes));
                both.1.done(&message);
            }
            Side::Stream(_, _, reader, message) => {
                std::hint::black_box(sum(reader.next(message.len()).unwrap()));
            }
        }
    }
}
