//! Streams that a program inherits, of a parent that may have left anything there.

use proptest::prelude::*;
use reel_arena::mms::{CONSUMER_BYTES, Layout, Post, Producer};
use reel_arena::{Others, SharedMemory};
use reel_client::limits::INHERITED_STREAMS_MAX;
use reel_client::{Client, ClientError, OpenedStream, PourRequest, Reply, Request, say};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

/// The sizes of a forged ring.
const FORGED: Layout = Layout { slots: 8, bytes: 4096 };

fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a pair")
}

/// What a descriptor may be of.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Null,
    Socket,
    Memory(usize, Others),
    /// A ring with one message, which may lie anywhere.
    Ring(Post),
}

fn ring() -> impl Strategy<Value = Kind> {
    (numbers(), any::<u16>(), any::<bool>()).prop_map(|(offset, bytes, in_producer)| {
        Kind::Ring(Post { offset, bytes: bytes.into(), in_producer, position: 0, due_ns: 0 })
    })
}

fn kinds() -> impl Strategy<Value = Kind> {
    let bytes = prop_oneof![Just(4096_usize), Just(8192), Just(1 << 20)];
    let others = prop_oneof![Just(Others::Read), Just(Others::Write)];
    let memory = (bytes, others).prop_map(|(bytes, others)| Kind::Memory(bytes, others));
    prop_oneof![1 => Just(Kind::Null), 1 => Just(Kind::Socket), 4 => memory, 4 => ring()]
}

fn made(kind: Kind) -> OwnedFd {
    match kind {
        Kind::Null => File::open("/dev/null").expect("opened").into(),
        Kind::Socket => pair().0,
        Kind::Memory(bytes, others) => {
            let memory = SharedMemory::create("forged", bytes, others).expect("made");
            memory.fd().try_clone_to_owned().expect("cloned")
        }
        Kind::Ring(post) => {
            let own = SharedMemory::create("forged", FORGED.memory_bytes(), Others::Read).expect("made");
            let theirs = SharedMemory::create("forged", CONSUMER_BYTES, Others::Write).expect("made");
            let mut ring = Producer::new(own, theirs, FORGED);
            assert!(ring.post(&post));
            ring.memory().fd().try_clone_to_owned().expect("cloned")
        }
    }
}

fn numbers() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(8), Just(4096), Just(100_000), Just(1 << 20), Just(u64::MAX), any::<u64>()]
}

fn pour() -> impl Strategy<Value = Vec<u8>> {
    (numbers(), numbers(), numbers(), numbers(), numbers()).prop_map(
        |(tag, bytes_per_s, workahead_bytes, delay_ns, producer_bytes)| {
            let (name, content_type) = ("studio".to_owned(), "audio/L16".to_owned());
            let request = PourRequest {
                tag,
                name,
                content_type,
                bytes_per_s,
                workahead_bytes,
                delay_ns,
                producer_bytes,
            };
            Request::Pour(request).encode().expect("short")
        },
    )
}

fn messages() -> impl Strategy<Value = Vec<u8>> {
    let opened = (numbers(), numbers(), numbers(), numbers(), numbers()).prop_map(
        |(tag, file_bytes, arena_bytes, producer_bytes, consumer_bytes)| {
            let opened = OpenedStream { tag, file_bytes, arena_bytes, producer_bytes, consumer_bytes };
            Reply::Opened(opened).encode()
        },
    );
    let garbage = proptest::collection::vec(any::<u8>(), 1..100);
    let changed = |(mut bytes, at, with, cut): (Vec<u8>, usize, Option<u8>, usize)| {
        let at = at % bytes.len();
        if let Some(with) = with {
            bytes[at] = with;
            bytes.truncate(bytes.len() - cut.min(bytes.len() - 1));
        }
        bytes
    };
    let message = prop_oneof![4 => opened, 4 => pour(), 1 => garbage];
    (message, 0..100_usize, proptest::option::weighted(0.3, any::<u8>()), 0..40_usize).prop_map(changed)
}

/// A stream that could be a right one but for some of its numbers.
fn likely() -> impl Strategy<Value = (Vec<u8>, Vec<Kind>)> {
    let writable = Kind::Memory(1 << 20, Others::Write);
    let opened = (numbers(), prop_oneof![Just(4096_u64), Just(1 << 20)], ring(), numbers()).prop_map(
        move |(tag, arena_bytes, ring, consumer_bytes)| {
            let producer_bytes = FORGED.memory_bytes() as u64;
            let opened = OpenedStream { tag, file_bytes: 1, arena_bytes, producer_bytes, consumer_bytes };
            let opened = Reply::Opened(opened).encode();
            (opened, vec![Kind::Socket, writable, ring, writable])
        },
    );
    let poured = pour().prop_map(move |poured| (poured, vec![Kind::Socket, writable, writable]));
    prop_oneof![opened, poured]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Whatever waits there, it is used or refused, and what is used stays within its memory.
    #[test]
    fn what_is_forged_is_used_or_refused(
        waiting in proptest::collection::vec(
            prop_oneof![likely(), (messages(), proptest::collection::vec(kinds(), 0..5))],
            0..3,
        ),
    ) {
        let ends = [pair(), pair()];
        for (message, kinds) in &waiting {
            let files: Vec<_> = kinds.iter().map(|kind| made(*kind)).collect();
            let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
            for (own, _) in &ends {
                prop_assert!(say(own, message, &files).expect("said"));
            }
        }
        let [tap, pour] = ends.map(|(_, inherited)| inherited);
        if let Ok((mut client, streams)) = Client::inherit_tap_from(tap.as_fd()) {
            prop_assert_eq!(streams.len(), waiting.len());
            // With a message or an ending, this does not wait.
            if let Ok(taken) = client.read(&streams, true) {
                let mut bytes = Vec::new();
                taken.iter().for_each(|held| client.copy(held, &mut bytes));
            }
            let _ = client.give_back(streams[0], 1);
        }
        if let Ok(mut inherited) = Client::inherit_pour_from(pour.as_fd()) {
            prop_assert_eq!(inherited.wanted.name.len(), 6);
            let _ = inherited.client.put(inherited.stream, b"some bytes");
        }
    }
}

/// A page that is shorter than the words in it.
#[test]
fn a_stream_whose_memory_is_too_short_is_refused() {
    for (consumer_bytes, is_right) in [(8, false), (4095, false), (4096, true)] {
        let (own, inherited) = pair();
        let ring = Post { offset: 0, bytes: 5, in_producer: false, position: 0, due_ns: 0 };
        let memory = Kind::Memory(4096, Others::Write);
        let files = [Kind::Socket, memory, Kind::Ring(ring), memory].map(made);
        let producer_bytes = FORGED.memory_bytes() as u64;
        let opened =
            OpenedStream { tag: 7, file_bytes: 1, arena_bytes: 4096, producer_bytes, consumer_bytes };
        assert!(
            say(&own, &Reply::Opened(opened).encode(), &files.each_ref().map(AsFd::as_fd)).expect("said")
        );
        drop(own);
        let taken = Client::inherit_tap_from(inherited.as_fd());
        match taken {
            Ok((mut client, streams)) => {
                assert!(is_right && streams == [7], "{consumer_bytes}");
                assert_eq!(client.read(&streams, true).expect("read").len(), 1);
            }
            Err(error) => assert!(!is_right && error.to_string().contains("too short"), "{error}"),
        }
    }
}

#[test]
fn more_streams_than_a_program_inherits_are_refused() {
    let (own, inherited) = pair();
    let opened =
        OpenedStream { tag: 1, file_bytes: 0, arena_bytes: 0, producer_bytes: 0, consumer_bytes: 4096 };
    for _ in 0..=INHERITED_STREAMS_MAX {
        assert!(say(&own, &Reply::Opened(opened).encode(), &[]).expect("said"));
    }
    drop(own);
    let refused = Client::inherit_tap_from(inherited.as_fd()).err();
    assert!(matches!(refused, Some(ClientError::InheritedWrong(_))));
}
