//! A ring whose descriptor is closed while it works: waiting operations continue, and only what
//! cannot be known is lost.
//!
//! A program of its own: descriptors belong to the whole process, and these tests close rings that
//! they find by comparing.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use reel_arena::{Arena, ArenaConfig};
use reel_ring::{Chunk, Done, Driver, DriverChoice, Op, Ring, RingConfig};
use reel_testkit::ring_or_skip;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const BUFFER: usize = 8192;
/// Only ends a test that hangs.
const LONG: Duration = Duration::from_secs(120);

/// Descriptors belong to the whole process, so these tests run one after another.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn rings() -> BTreeSet<i32> {
    let is_ring = |number: &i32| {
        fs::read_link(format!("/proc/self/fd/{number}"))
            .is_ok_and(|to| to.to_string_lossy().contains("[io_uring]"))
    };
    let numbers = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_string_lossy().parse().ok());
    numbers.filter(is_ring).collect()
}

/// A ring, and the descriptors that existed before it. Without io_uring, prints why and returns
/// `None`.
fn ring(arena: Option<&Arena>) -> Option<(Ring, BTreeSet<i32>)> {
    let before = rings();
    let config = RingConfig { entries: 8, driver: DriverChoice::Uring };
    ring_or_skip(Ring::new(config, arena)).map(|ring| (ring, before))
}

/// Closes the descriptor of the ring that was made after `before`, and returns its number. The ring
/// that holds the registration has one entry.
fn break_it(before: &BTreeSet<i32>) -> i32 {
    let works = |number: &&i32| {
        fs::read_to_string(format!("/proc/self/fdinfo/{number}"))
            .is_ok_and(|info| info.contains("SqMask:\t0x7\n"))
    };
    let new: Vec<i32> = rings().difference(before).filter(works).copied().collect();
    let [number] = new[..] else { panic!("one ring of eight entries: {new:?}") };
    // SAFETY: only the ring relies on this descriptor, and its reaction is what is tested.
    assert_eq!(unsafe { libc::close(number) }, 0);
    number
}

fn arena(buffers: usize) -> Arena {
    let config =
        ArenaConfig { buffer_bytes: BUFFER, buffer_count: buffers, cells_per_buffer: 1, huge_pages: false };
    Arena::new(config).unwrap()
}

/// Waits for this many ends.
fn ends(ring: &mut Ring, count: usize) -> Vec<Done> {
    let (from, mut done) = (Instant::now(), Vec::new());
    while done.len() < count {
        assert!(from.elapsed() < LONG, "{} of {count} ends: {done:?}", done.len());
        ring.wait(Some(Duration::from_millis(50)), &mut done).expect("the ring continues");
    }
    done
}

/// Lets the kernel begin what was pushed.
fn begin(ring: &mut Ring) {
    let mut done = Vec::new();
    for _ in 0..5 {
        ring.wait(Some(Duration::from_millis(5)), &mut done).unwrap();
    }
    assert!(done.is_empty(), "{done:?}");
}

fn pair() -> (Arc<OwnedFd>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (Arc::new(listener.accept().unwrap().0.into()), peer)
}

#[test]
fn waiting_operations_continue_on_the_new_ring() {
    let _alone = alone();
    let Some((mut ring, before)) = ring(None) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (idle, mut peer) = pair();
    let (half, mut sender) = pair();
    ring.push(1, Op::Accept { listener: Arc::new(listener.into()) });
    ring.push(2, Op::AwaitReadable { socket: Arc::clone(&idle) });
    ring.push(3, Op::Receive { socket: half, buffer: Vec::with_capacity(100) });
    begin(&mut ring);
    break_it(&before);
    // It is unknown how much of the received bytes is lost.
    let lost = ends(&mut ring, 1).remove(0);
    assert_eq!((lost.token, lost.result.unwrap_err().kind()), (3, ErrorKind::ConnectionAborted));
    std::thread::sleep(Duration::from_millis(100));
    let mut client = TcpStream::connect(address).unwrap();
    peer.write_all(b"GET").unwrap();
    let _ = sender.write_all(b"more");
    let mut came = ends(&mut ring, 2);
    came.sort_by_key(|done| done.token);
    let mut accepted = File::from(came[0].accepted.take().expect("a connection"));
    accepted.write_all(b"hello").unwrap();
    let mut hello = [0; 5];
    client.read_exact(&mut hello).unwrap();
    assert_eq!((&hello, came[1].token), (b"hello", 2));
    // The new ring is complete: it does what is pushed now.
    ring.push(4, Op::Receive { socket: Arc::clone(&idle), buffer: Vec::with_capacity(100) });
    let got = ends(&mut ring, 1).remove(0);
    assert!(matches!(got.op, Op::Receive { buffer, .. } if buffer == b"GET"));
    ring.push(5, Op::Send { socket: idle, chunks: vec![Chunk::from(b"answer".to_vec())] });
    assert_eq!(ends(&mut ring, 1)[0].result.as_ref().unwrap(), &6);
    let mut answer = [0; 6];
    peer.read_exact(&mut answer).unwrap();
    assert_eq!((&answer, ring.in_flight()), (b"answer", 0));
}

#[test]
fn file_transfers_are_repeated_and_memory_the_kernel_may_write_is_not_reused() {
    let _alone = alone();
    let arena = arena(4);
    let Some((mut ring, before)) = ring(Some(&arena)) else { return };
    assert_eq!(ring.driver(), Driver::Uring { registered: true });
    // Reading an empty pipe stands for a slow disk.
    let (from, to) = rustix::pipe::pipe().unwrap();
    let mut buffer = arena.take(BUFFER).unwrap();
    buffer[..4096].fill(7);
    let offset = buffer.region_offset();
    ring.push(1, Op::Read { file: Arc::new(from), offset: 0, buffer, start: 4096, bytes: 4096 });
    begin(&mut ring);
    break_it(&before);
    let mut none = Vec::new();
    ring.wait(Some(Duration::ZERO), &mut none).expect("it continues");
    assert!(none.is_empty(), "{none:?}");
    std::thread::sleep(Duration::from_millis(100));
    rustix::io::write(&to, &[9; 4096]).unwrap();
    let done = ends(&mut ring, 1).remove(0);
    let Op::Read { buffer, .. } = done.op else { panic!("another operation") };
    assert_eq!(done.result.unwrap(), 4096);
    assert!(buffer[..4096].iter().all(|byte| *byte == 7), "what was there before stays");
    assert!(buffer[4096..].iter().all(|byte| *byte == 9));
    assert_ne!(buffer.region_offset(), offset, "the old ring may still write there");
    assert_eq!(ring.driver(), Driver::Uring { registered: true });
    drop(buffer);
    let usage = arena.usage();
    assert_eq!((usage.buffers_taken, usage.bytes_abandoned), (1, BUFFER), "one buffer is never used again");
}

#[test]
fn a_read_waits_for_other_memory() {
    let _alone = alone();
    let arena = arena(2);
    let Some((mut ring, before)) = ring(None) else { return };
    let (from, to) = rustix::pipe::pipe().unwrap();
    let (buffer, other) = (arena.take(BUFFER).unwrap(), arena.take(BUFFER).unwrap());
    ring.push(1, Op::Read { file: Arc::new(from), offset: 0, buffer, start: 0, bytes: BUFFER });
    begin(&mut ring);
    break_it(&before);
    begin(&mut ring);
    assert_eq!(ring.in_flight(), 1);
    std::thread::sleep(Duration::from_millis(100));
    rustix::io::write(&to, &[9; BUFFER]).unwrap();
    begin(&mut ring);
    drop(other);
    assert_eq!(ends(&mut ring, 1).remove(0).result.unwrap(), BUFFER);
}

/// The ring that broke may still have the read: no other owner may get its memory.
#[test]
fn the_memory_of_a_read_that_waits_for_other_memory_is_not_returned_with_the_ring() {
    let _alone = alone();
    let arena = arena(2);
    let Some((mut ring, before)) = ring(None) else { return };
    let (from, to) = rustix::pipe::pipe().unwrap();
    let (buffer, other) = (arena.take(BUFFER).unwrap(), arena.take(BUFFER).unwrap());
    let offset = buffer.region_offset();
    ring.push(1, Op::Read { file: Arc::new(from), offset: 0, buffer, start: 0, bytes: BUFFER });
    begin(&mut ring);
    break_it(&before);
    begin(&mut ring);
    assert_eq!(ring.in_flight(), 1, "it waits for memory");
    drop((ring, other));
    assert_eq!((arena.usage().buffers_taken, arena.usage().bytes_abandoned), (1, BUFFER));
    let free = arena.take(BUFFER).unwrap();
    assert_ne!(free.region_offset(), offset);
    assert!(arena.take(BUFFER).is_none());
    drop(to);
}

/// If the operation were in the kernel twice, its memory would be written after it was returned.
#[test]
fn a_read_that_waits_for_memory_while_the_ring_breaks_again_is_started_once() {
    let _alone = alone();
    let arena = arena(3);
    let Some((mut ring, before)) = ring(None) else { return };
    let (from, to) = rustix::pipe::pipe().unwrap();
    let buffer = arena.take(BUFFER).unwrap();
    let others = [arena.take(BUFFER).unwrap(), arena.take(BUFFER).unwrap()];
    ring.push(1, Op::Read { file: Arc::new(from), offset: 0, buffer, start: 0, bytes: BUFFER });
    begin(&mut ring);
    for _ in 0..2 {
        break_it(&before);
        begin(&mut ring);
    }
    std::thread::sleep(Duration::from_millis(100));
    drop(others);
    begin(&mut ring);
    assert_eq!(arena.usage().buffers_taken, 2, "the old one and one other");
    rustix::io::write(&to, &[9; BUFFER]).unwrap();
    let done = ends(&mut ring, 1).remove(0);
    let Op::Read { buffer, .. } = done.op else { panic!("another operation") };
    rustix::io::write(&to, &[5; BUFFER]).unwrap();
    begin(&mut ring);
    assert!(buffer.iter().all(|byte| *byte == 9), "the kernel writes into memory that was returned");
}

#[test]
fn a_ring_that_breaks_too_often_fails_with_a_message() {
    let _alone = alone();
    let Some((mut ring, before)) = ring(None) else { return };
    let mut done = Vec::new();
    for broken in 0.. {
        assert!(broken < 1000, "it is replaced without end");
        break_it(&before);
        let (socket, _peer) = pair();
        ring.push(broken, Op::AwaitWritable { socket });
        match ring.wait(Some(Duration::from_millis(20)), &mut done) {
            Ok(()) => {
                ends(&mut ring, usize::from(done.is_empty()));
                done.clear();
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("has to stop"), "{text}");
                assert_eq!(broken, u64::from(reel_ring::limits::RENEWALS_MAX));
                break;
            }
        }
    }
}

#[test]
fn a_descriptor_that_another_file_has_is_left_alone() {
    let _alone = alone();
    let Some((mut ring, before)) = ring(None) else { return };
    let number = break_it(&before);
    let other = File::open("/dev/null").unwrap();
    let is_taken = std::os::fd::AsRawFd::as_raw_fd(&other) == number;
    let (socket, _peer) = pair();
    ring.push(1, Op::AwaitWritable { socket });
    let mut done = Vec::new();
    let waited = ring.wait(Some(Duration::from_millis(20)), &mut done);
    assert!(!is_taken || waited.is_err(), "{waited:?}");
    other.metadata().expect("the file is still open");
    drop(ring);
    other.metadata().expect("nor does the end of the ring");
}
