//! Messages per second from one process to another.

use crate::mapped::{Sink, Sleep, Source};
use crate::streams::{Reader, ends, put};
use crate::{fill, messages_of, notice};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Messages between two readings of the clock.
const STRIDE: u64 = 256;

/// The producer, which starts the consumer and prints the result as JSON.
pub(crate) fn produce(way: &str, bytes: usize, seconds: f64, kind: &str) {
    let made = kind == "made";
    assert!(!(made && way == "vmsplice"), "pages given to vmsplice must not be written again");
    let length = Duration::from_secs_f64(seconds);
    let in_memory = messages_of(bytes);
    let mut messages = vec![vec![0; bytes]; in_memory];
    let (sent, begun, expected, child, calls) = if way == "mapped" {
        let (bell, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        let child = consumer(&["rate-consumer", way, &bytes.to_string(), kind], theirs);
        let mut source = Source::new(Arc::new(bell), bytes);
        let (begun, mut number, mut expected) = (Instant::now(), 0, 0_u64);
        let mut sums = vec![0; in_memory];
        for (message, place) in sums.iter_mut().zip(0..) {
            *message = notice(source.message(place), kind);
        }
        while number % STRIDE != 0 || begun.elapsed() < length {
            let message = source.message(number);
            let place = number as usize % in_memory;
            if made {
                fill(message, number);
                sums[place] = notice(message, kind);
            }
            expected = expected.wrapping_add(sums[place]);
            source.post(number);
            number += 1;
        }
        source.end();
        (number, begun, expected, child, source.kernel_calls)
    } else {
        let (end, theirs) = ends(way);
        let child = consumer(&["rate-consumer", way, &bytes.to_string(), kind], theirs);
        messages.iter_mut().zip(0..).for_each(|(message, seed)| fill(message, seed));
        let mut sums: Vec<u64> = messages.iter().map(|message| notice(message, kind)).collect();
        let (begun, mut number, mut expected, mut calls) = (Instant::now(), 0, 0_u64, 0);
        while number % STRIDE != 0 || begun.elapsed() < length {
            let place = number as usize % in_memory;
            if made {
                fill(&mut messages[place], number);
                sums[place] = notice(&messages[place], kind);
            }
            expected = expected.wrapping_add(sums[place]);
            calls += put(way, &end, &messages[place]);
            number += 1;
        }
        drop(end);
        (number, begun, expected, child, calls)
    };
    let mut said = String::new();
    let mut child = child;
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    let taken = begun.elapsed().as_secs_f64();
    assert!(child.wait().unwrap().success());
    // Not earlier: a pipe may have held these very pages.
    drop(messages);
    let numbers: Vec<u64> = said.split_whitespace().map(|number| number.parse().unwrap()).collect();
    assert_eq!(numbers[..2], [sent, expected], "the consumer saw other messages");
    println!(
        "{{\"messages\": {sent}, \"seconds\": {taken:.6}, \"producer_calls\": {calls}, \"consumer_calls\": {}}}",
        numbers[2]
    );
}

/// The consumer: reads to the end and prints the number of messages, the sum of all bytes, and the
/// number of system calls.
pub(crate) fn consume(way: &str, bytes: usize, kind: &str) {
    let end: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let (mut count, mut all) = (0_u64, 0_u64);
    let calls = if way == "mapped" {
        let mut sink = Sink::new(Arc::new(end), messages_of(bytes) as u64 / 2);
        while let Some((message, bytes)) = sink.take(Sleep::AfterPolling) {
            all = all.wrapping_add(notice(bytes, kind));
            count += 1;
            sink.done(&message);
        }
        sink.kernel_calls
    } else {
        let mut reader = Reader::new(way, end, bytes);
        while let Some(message) = reader.next(bytes) {
            all = all.wrapping_add(notice(message, kind));
            count += 1;
        }
        reader.kernel_calls
    };
    println!("{count} {all} {calls}");
}

/// Starts this program again, with `end` as its standard input.
pub(crate) fn consumer(words: &[&str], end: OwnedFd) -> Child {
    let own = std::env::current_exe().unwrap();
    Command::new(own).args(words).stdin(Stdio::from(end)).stdout(Stdio::piped()).spawn().unwrap()
}
