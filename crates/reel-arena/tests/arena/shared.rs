//! Memory of two processes: what the other process cannot do, whichever descriptor it holds.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use reel_arena::mms::{
    CONSUMER_BYTES, Consumer, Ending, IN_PRODUCER, Layout, MAGIC, Post, Producer, SLOT_WORDS, SLOTS_AT_BYTES,
    consumer_word, producer_word, slot_word,
};
use reel_arena::{Arena, ArenaConfig, Others, SharedMemory};
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, ftruncate, open};
use rustix::io::write;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

const PAGE: usize = 4096;

fn other_sides(fd: BorrowedFd<'_>) -> OwnedFd {
    fd.try_clone_to_owned().unwrap()
}

/// The same memory through a new descriptor that may write, if the kernel gives one.
fn reopened(fd: BorrowedFd<'_>) -> OwnedFd {
    open(format!("/proc/self/fd/{}", fd.as_raw_fd()), OFlags::RDWR, Mode::empty()).unwrap()
}

/// These descriptors allow no change of the bytes or the length.
fn cannot_be_changed(fd: BorrowedFd<'_>, bytes: usize) {
    for fd in [other_sides(fd), reopened(fd)] {
        assert!(SharedMemory::map(fd.try_clone().unwrap(), bytes, true).is_err(), "mapped to be written");
        assert!(write(&fd, &[1]).is_err(), "written");
        assert!(ftruncate(&fd, 0).is_err(), "cut");
        assert!(ftruncate(&fd, 2 * bytes as u64).is_err(), "made longer");
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        assert!(fallocate(&fd, hole, 0, PAGE as u64).is_err(), "a hole made");
        assert!(rustix::fs::fcntl_add_seals(&fd, rustix::fs::SealFlags::WRITE).is_err(), "sealed further");
    }
}

#[test]
fn readers_of_the_arena_cannot_write_it() {
    for huge_pages in [false, true] {
        let arena = Arena::readable_by_others(ArenaConfig {
            buffer_bytes: 65536,
            buffer_count: 4,
            cells_per_buffer: 4,
            huge_pages,
        })
        .unwrap();
        let region = arena.region();
        let fd = region.fd.expect("memory that others can map");
        cannot_be_changed(fd, region.bytes);
        // This process can still write, and other processes see it.
        let mut buffer = arena.take(65536).unwrap();
        buffer.fill(7);
        let lease = buffer.freeze();
        let seen = SharedMemory::map(other_sides(fd), region.bytes, false).unwrap();
        let mut copy = Vec::new();
        seen.copy_to(lease.region_offset()..lease.region_offset() + lease.len(), &mut copy);
        assert!(copy == vec![7; 65536]);
    }
}

#[test]
fn readers_write_only_their_own_page() {
    let own = SharedMemory::create("own", PAGE, Others::Read).unwrap();
    cannot_be_changed(own.fd(), PAGE);
    let theirs = SharedMemory::create("theirs", PAGE, Others::Write).unwrap();
    let written = SharedMemory::map(other_sides(theirs.fd()), PAGE, true).unwrap();
    written.store(5, 42);
    assert_eq!(theirs.load(5), 42);
    // But the reader cannot shrink it.
    assert!(ftruncate(reopened(theirs.fd()), 0).is_err());
}

#[test]
fn memory_that_could_shrink_is_not_mapped() {
    let fd = rustix::fs::memfd_create("soft", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&fd, PAGE as u64).unwrap();
    let refused = SharedMemory::map(fd, PAGE, false).unwrap_err().to_string();
    assert!(refused.contains("can shrink"), "{refused}");
    let short = SharedMemory::create("short", PAGE, Others::Read).unwrap();
    let refused = SharedMemory::map(other_sides(short.fd()), PAGE + 1, false).unwrap_err().to_string();
    assert!(refused.contains("shorter than announced"), "{refused}");
}

fn stream(slots: u64) -> (Producer<SharedMemory, SharedMemory>, Consumer<SharedMemory, SharedMemory>) {
    let layout = Layout::new(slots, 0);
    let own = SharedMemory::create("own", layout.memory_bytes(), Others::Read).unwrap();
    let theirs = SharedMemory::create("theirs", CONSUMER_BYTES, Others::Write).unwrap();
    let (seen, written) = (other_sides(own.fd()), other_sides(theirs.fd()));
    let producer = Producer::new(own, theirs, layout);
    let seen = SharedMemory::map(seen, layout.memory_bytes(), false).unwrap();
    let written = SharedMemory::map(written, CONSUMER_BYTES, true).unwrap();
    (producer, Consumer::new(seen, written, layout.memory_bytes()).unwrap())
}

fn post(number: u64) -> Post {
    let position = number * 10;
    Post {
        offset: number * 64,
        bytes: number as u32,
        in_producer: number.is_multiple_of(3),
        position,
        due_ns: number,
    }
}

proptest::proptest! {
    /// In whatever order the two sides act, messages arrive once, in order and unchanged, and no
    /// descriptor is reused too early.
    #[test]
    fn messages_come_once_and_in_order(steps in proptest::collection::vec((0..4u8, 1..5u64), 1..200)) {
        let (mut producer, mut consumer) = stream(8);
        let (mut written, mut taken) = (0, 0);
        let mut held = VecDeque::new();
        for (what, count) in steps {
            match what {
                0 => {
                    for _ in 0..count {
                        if producer.post(&post(written)) {
                            written += 1;
                        }
                    }
                }
                1 => {
                    for _ in 0..count {
                        let Some(message) = consumer.take() else { break };
                        let expected = post(taken);
                        assert_eq!(
                            (message.offset, message.bytes, message.in_producer, message.position, message.due_ns),
                            (expected.offset, expected.bytes, expected.in_producer, expected.position, expected.due_ns)
                        );
                        held.push_back(message);
                        taken += 1;
                    }
                }
                2 => {
                    let count = count.min(consumer.held());
                    held.drain(..count as usize).for_each(|message| assert!(consumer.is_valid(&message)));
                    consumer.give_back(count);
                }
                _ => {
                    let read = producer.read().unwrap();
                    assert_eq!(read, taken - consumer.held());
                    assert_eq!(producer.free(), 8 - (written - read));
                }
            }
            assert!(written - (taken - consumer.held()) <= 8);
        }
    }

    /// A reader's words may hold anything: the producer refuses impossible counts, and never has
    /// more room than its ring.
    #[test]
    fn a_reader_can_write_any_value(words in proptest::collection::vec(proptest::prelude::any::<u64>(), 1..40)) {
        let (mut producer, _consumer) = stream(8);
        let theirs = SharedMemory::map(other_sides(producer.consumer_memory().fd()), CONSUMER_BYTES, true).unwrap();
        let mut number = 0;
        for (step, word) in words.into_iter().enumerate() {
            let index = [consumer_word::READ, consumer_word::WAITS, consumer_word::WAITS_ABOVE][step % 3];
            theirs.store(index, if step % 2 == 0 { word } else { word % 12 });
            if producer.post(&post(number)) {
                number += 1;
            }
            producer.must_ring();
            let _ = producer.await_below(4);
            if let Ok(read) = producer.read() {
                assert!(read <= number);
            }
            assert!(producer.free() <= 8);
        }
    }
}

#[test]
fn impossible_counters_are_reported() {
    let (mut producer, mut consumer) = stream(8);
    (0..4).for_each(|number| assert!(producer.post(&post(number))));
    (0..3).for_each(|_| assert!(consumer.take().is_some()));
    consumer.give_back(3);
    assert_eq!(producer.read().unwrap(), 3);
    let theirs =
        SharedMemory::map(other_sides(producer.consumer_memory().fd()), CONSUMER_BYTES, true).unwrap();
    for impossible in [5, u64::MAX, 2, 0] {
        theirs.store(consumer_word::READ, impossible);
        let reported = producer.read().unwrap_err();
        assert_eq!((reported.said, reported.before, reported.written), (impossible, 3, 4));
    }
}

#[test]
fn a_waiting_side_is_woken_once_and_at_the_level() {
    let (mut producer, mut consumer) = stream(8);
    assert!(consumer.await_messages(3), "nothing is there");
    for (number, rings) in [(0, false), (1, false), (2, true), (3, false)] {
        assert!(producer.post(&post(number)));
        assert_eq!(producer.must_ring(), rings, "message {number}");
    }
    consumer.do_not_wait();
    assert!(!consumer.await_messages(4), "they are there already");
    assert_eq!(producer.read().unwrap(), 0);
    assert!(producer.await_below(2).unwrap());
    (0..4).for_each(|_| assert!(consumer.take().is_some()));
    let rings: Vec<bool> = (0..4).map(|_| consumer.give_back(1)).collect();
    assert_eq!(rings, [false, false, true, false]);
}

#[test]
fn a_side_that_does_not_wait_is_not_woken() {
    let (mut producer, mut consumer) = stream(8);
    (0..8).for_each(|number| assert!(producer.post(&post(number))));
    assert!(!producer.must_ring());
    // The producer polls now and then, so the reader never gets half way through; neither side
    // waits.
    for number in 8..1000 {
        assert!(producer.await_below(4).unwrap());
        assert!(consumer.take().is_some());
        assert!(!consumer.give_back(1));
        producer.read().unwrap();
        assert!(producer.post(&post(number)));
        assert!(!producer.must_ring());
    }
}

#[test]
fn messages_that_are_taken_back_are_noticed() {
    let (mut producer, mut consumer) = stream(8);
    (0..2).for_each(|number| assert!(producer.post(&post(number))));
    let message = consumer.take().unwrap();
    assert!(consumer.is_valid(&message));
    producer.end(Ending::Complete);
    assert!(consumer.is_valid(&message) && consumer.ending().is_none(), "there is more to be read");
    producer.end(Ending::HeldTooLong);
    assert!(!consumer.is_valid(&message));
    assert_eq!(consumer.ending(), Some(Ending::HeldTooLong));
    producer.end(Ending::Complete);
    assert_eq!(consumer.ending(), Some(Ending::HeldTooLong), "the first reason counts");
    assert!(!producer.post(&post(2)));
}

#[test]
fn memory_without_a_stream_is_refused() {
    let layout = Layout::new(8, 0);
    let broken = |index: usize, value: u64| {
        let own = SharedMemory::create("own", layout.memory_bytes(), Others::Read).unwrap();
        let theirs = SharedMemory::create("theirs", CONSUMER_BYTES, Others::Write).unwrap();
        let producer = Producer::new(own, theirs, layout);
        producer.memory().store(index, value);
        let seen =
            SharedMemory::map(other_sides(producer.memory().fd()), layout.memory_bytes(), false).unwrap();
        let own = SharedMemory::create("written", CONSUMER_BYTES, Others::Write).unwrap();
        Consumer::new(seen, own, layout.memory_bytes()).is_none()
    };
    for (index, value) in [
        (producer_word::MAGIC, 0),
        (producer_word::SLOTS, 0),
        (producer_word::SLOTS, 7),
        (producer_word::SLOTS, 1 << 40),
        (producer_word::BYTES, u64::MAX),
    ] {
        assert!(broken(index, value), "word {index} = {value}");
    }
    assert!(!broken(60, 1), "a word that means nothing");
}

/// A clock that is moved moves what was written before, and what is written later says so.
#[test]
fn a_clock_that_is_moved_moves_all_messages() {
    let (mut producer, mut consumer) = stream(8);
    let write = |producer: &mut Producer<_, _>, number| producer.post_in_step(&post(number), 100 + number);
    assert!(write(&mut producer, 0));
    producer.move_clock(7);
    assert!(write(&mut producer, 1));
    let taken: Vec<_> = std::iter::from_fn(|| consumer.take()).collect();
    assert_eq!(taken.iter().map(|message| message.shown_ns).collect::<Vec<_>>(), [100, 101]);
    assert_eq!(taken.iter().map(|message| consumer.due_ns(message)).collect::<Vec<_>>(), [7, 1]);
    producer.move_clock(5);
    assert_eq!(taken.iter().map(|message| consumer.due_ns(message)).collect::<Vec<_>>(), [12, 6]);
    assert_eq!(consumer.moved_ns(), 12);
    // One without a deadline stays one.
    assert!(producer.post_in_step(&Post { due_ns: u64::MAX, ..post(2) }, 0));
    producer.move_clock(1);
    let open = consumer.take().unwrap();
    assert_eq!(consumer.due_ns(&open), u64::MAX);
}

/// The C header defines the same value for every word.
#[test]
fn the_header_defines_the_same() {
    let header = include_str!("../../../reel-client/c/reel_mms.h");
    let value = |name: &str| -> u64 {
        let at = header.find(&format!(" {name} = ")).unwrap_or_else(|| panic!("no {name}"));
        let rest = &header[at + name.len() + 4..];
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
    };
    let words = [
        ("REEL_P_MAGIC", producer_word::MAGIC),
        ("REEL_P_SLOTS", producer_word::SLOTS),
        ("REEL_P_BYTES_AT", producer_word::BYTES_AT),
        ("REEL_P_BYTES", producer_word::BYTES),
        ("REEL_P_WRITTEN", producer_word::WRITTEN),
        ("REEL_P_WAITS", producer_word::WAITS),
        ("REEL_P_WAITS_BELOW", producer_word::WAITS_BELOW),
        ("REEL_P_EPOCH", producer_word::EPOCH),
        ("REEL_P_ENDED", producer_word::ENDED),
        ("REEL_P_MOVED_NS", producer_word::MOVED_NS),
        ("REEL_C_READ", consumer_word::READ),
        ("REEL_C_WAITS", consumer_word::WAITS),
        ("REEL_C_WAITS_ABOVE", consumer_word::WAITS_ABOVE),
        ("REEL_S_TURN", slot_word::TURN),
        ("REEL_S_OFFSET", slot_word::OFFSET),
        ("REEL_S_BYTES", slot_word::BYTES),
        ("REEL_S_POSITION", slot_word::POSITION),
        ("REEL_S_DUE_NS", slot_word::DUE_NS),
        ("REEL_S_EPOCH", slot_word::EPOCH),
        ("REEL_S_SHOWN_NS", slot_word::SHOWN_NS),
        ("REEL_S_MOVED_NS", slot_word::MOVED_NS),
    ];
    for (name, word) in words {
        assert_eq!(value(name), word as u64, "{name}");
    }
    let endings = [
        ("REEL_COMPLETE", Ending::Complete),
        ("REEL_HELD_TOO_LONG", Ending::HeldTooLong),
        ("REEL_BAD_COUNTER", Ending::BadCounter),
        ("REEL_LOST", Ending::Lost),
        ("REEL_STOPPED", Ending::Stopped),
        ("REEL_CLOSED", Ending::Closed),
    ];
    for (name, ending) in endings {
        assert_eq!(value(name), ending as u64, "{name}");
        assert_eq!(Ending::from_word(ending as u64), Some(ending));
    }
    for line in [
        format!("#define REEL_SLOT_WORDS {SLOT_WORDS}"),
        format!("#define REEL_SLOTS_AT_BYTES {SLOTS_AT_BYTES}"),
        format!("#define REEL_IN_PRODUCER ((uint64_t)1 << {})", IN_PRODUCER.trailing_zeros()),
        format!(
            "#define REEL_SLOTS_MAX ((uint64_t)1 << {})",
            reel_arena::limits::MMS_SLOTS_MAX.trailing_zeros()
        ),
        "\"REELMMS1\"".to_owned(),
    ] {
        assert!(header.contains(&line), "{line}");
    }
    assert_eq!(MAGIC.to_ne_bytes(), *b"REELMMS1");
}
