//! What a ring guarantees, tested with both drivers.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::time::Duration;

use reel_arena::{Arena, ArenaConfig, Buffer, PieceState};
use reel_ring::{Chunk, Done, Driver, DriverChoice, Op, Ring, RingConfig};
use reel_testkit::{ring_or_skip, run_in_own_process};

const BUFFER: usize = 65536;

/// The drivers that this machine has. Containers often forbid io_uring; then only the other one can
/// be tested.
fn drivers() -> Vec<DriverChoice> {
    let uring = RingConfig { entries: 1, driver: DriverChoice::Uring };
    match ring_or_skip(Ring::new(uring, None)) {
        Some(_) => vec![DriverChoice::Uring, DriverChoice::Portable],
        None => vec![DriverChoice::Portable],
    }
}

/// Runs the body once per driver.
fn both(body: impl Fn(&mut Ring, &Arena)) {
    for driver in drivers() {
        let arena = arena();
        let mut ring = Ring::new(RingConfig { entries: 8, driver }, Some(&arena)).expect("a ring");
        body(&mut ring, &arena);
        drop(ring);
        assert_eq!(arena.usage().bytes_taken, 0, "{driver:?}: a dropped ring gives all memory back");
    }
}

fn arena() -> Arena {
    let config =
        ArenaConfig { buffer_bytes: BUFFER, buffer_count: 16, cells_per_buffer: 16, huge_pages: false };
    Arena::new(config).expect("an arena of 1 MiB")
}

/// Waits for exactly `count` completions, in the order of their tokens.
fn collect(ring: &mut Ring, count: usize) -> Vec<Done> {
    let mut done = Vec::new();
    while done.len() < count {
        let before = done.len();
        ring.wait(Some(Duration::from_secs(120)), &mut done).expect("the ring works");
        assert!(done.len() > before || ring.in_flight() > 0, "nothing in flight and nothing done");
    }
    assert_eq!(done.len(), count);
    done.sort_by_key(|d| d.token);
    done
}

fn one(ring: &mut Ring, op: Op) -> Done {
    ring.push(1, op);
    collect(ring, 1).remove(0)
}

fn filled(arena: &Arena, bytes: usize, with: impl Fn(usize) -> u8) -> Buffer {
    let mut buffer = arena.take(bytes).expect("a free piece");
    buffer[..bytes].iter_mut().enumerate().for_each(|(i, b)| *b = with(i));
    buffer
}

fn pair() -> (Arc<OwnedFd>, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let peer = TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
    let (ours, _) = listener.accept().expect("the connection");
    (Arc::new(ours.into()), peer)
}

fn file(direct: bool) -> (Arc<OwnedFd>, tempfile::NamedTempFile) {
    // The root file system supports direct I/O; the directory for temporary files may be in memory.
    let named = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary file");
    let mut options = File::options();
    options.read(true).write(true);
    if direct {
        options.custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32);
    }
    (Arc::new(options.open(named.path()).expect("open").into()), named)
}

#[test]
fn each_of_many_rings_has_the_arena_registered() {
    if drivers()[0] != DriverChoice::Uring {
        return;
    }
    let config = RingConfig { entries: 8, driver: DriverChoice::Uring };
    let registered = Driver::Uring { registered: true };
    let shape =
        ArenaConfig { buffer_bytes: BUFFER, buffer_count: 64, cells_per_buffer: 1, huge_pages: false };
    // 4 MiB are within even the smallest usual limit of locked memory, but 8 MiB are not. So the
    // memory of dropped rings must be released, and live rings must share.
    for _ in 0..10 {
        let arena = Arena::new(shape.clone()).expect("4 MiB");
        let rings: Vec<Ring> =
            (0..3).map(|_| Ring::new(config.clone(), Some(&arena)).expect("a ring")).collect();
        assert!(rings.iter().all(|r| r.driver() == registered), "{rings:?}");
    }
    assert_eq!(Ring::new(config, None).expect("a ring").driver(), Driver::Uring { registered: false });
}

#[test]
fn a_flood_of_completions_larger_than_the_queue_loses_none() {
    both(|ring, _| {
        let (socket, mut peer) = pair();
        for token in 0..2000 {
            ring.push(token, Op::AwaitReadable { socket: Arc::clone(&socket) });
        }
        let mut none = Vec::new();
        ring.wait(Some(Duration::from_millis(1)), &mut none).expect("wait");
        assert!(none.is_empty());
        peer.write_all(b"now").expect("write");
        let done = collect(ring, 2000);
        assert!(done.iter().enumerate().all(|(i, d)| d.token == i as u64 && d.result.is_ok()));
    });
}

#[test]
fn written_bytes_are_read_back() {
    for direct in [false, true] {
        both(|ring, arena| {
            let (file, _named) = file(direct);
            let lease = filled(arena, BUFFER, |i| (i / 7) as u8).freeze();
            let wrote = one(ring, Op::Write { file: Arc::clone(&file), offset: 4096, lease: lease.clone() });
            assert_eq!(wrote.result.expect("written"), BUFFER);
            assert_eq!(one(ring, Op::Sync { file: Arc::clone(&file) }).result.expect("synced"), 0);
            let buffer = arena.take(BUFFER).expect("free");
            let read = one(ring, Op::Read { file, offset: 8192, buffer, start: 4096, bytes: 8192 });
            assert_eq!(read.result.expect("read"), 8192);
            let Op::Read { buffer, .. } = read.op else { panic!("another operation was returned") };
            assert_eq!(buffer.state(), PieceState::Full);
            assert_eq!(&buffer[4096..4096 + 8192], &lease[4096..4096 + 8192]);
        });
    }
}

#[test]
fn memory_that_is_not_of_the_registered_arena_works_too() {
    both(|ring, _| {
        let other = arena();
        let (file, _named) = file(true);
        let lease = filled(&other, 4096, |i| i as u8).freeze();
        assert_eq!(
            one(ring, Op::Write { file: Arc::clone(&file), offset: 0, lease }).result.expect("ok"),
            4096
        );
        let buffer = other.take(4096).expect("free");
        let read = one(ring, Op::Read { file, offset: 0, buffer, start: 0, bytes: 4096 });
        let Op::Read { buffer, .. } = read.op else { panic!("another operation was returned") };
        assert_eq!(buffer[255], 255);
    });
}

#[test]
fn the_end_of_a_file_is_a_short_read_then_nothing() {
    both(|ring, arena| {
        let (file, mut named) = file(false);
        named.write_all(&[7; 5000]).expect("write");
        for (offset, expected) in [(4096, 904), (5000, 0), (1 << 40, 0)] {
            let buffer = arena.take(4096).expect("free");
            let read = one(ring, Op::Read { file: Arc::clone(&file), offset, buffer, start: 0, bytes: 4096 });
            assert_eq!(read.result.expect("read"), expected);
        }
    });
}

#[test]
fn a_failure_is_the_kernel_error() {
    both(|ring, arena| {
        let (directory, _named) = (Arc::new(OwnedFd::from(File::open("/").expect("open"))), ());
        let buffer = arena.take(4096).expect("free");
        let read = one(ring, Op::Read { file: directory, offset: 0, buffer, start: 0, bytes: 4096 });
        assert_eq!(read.result.expect_err("a directory").raw_os_error(), Some(libc::EISDIR));
    });
}

#[test]
fn far_more_operations_than_entries_all_end_once() {
    both(|ring, arena| {
        let (file, mut named) = file(false);
        named.write_all(&(0..200u8).flat_map(|i| [i; 4096]).collect::<Vec<_>>()).expect("write");
        for round in 0..3 {
            for i in 0..200u64 {
                let buffer = arena.take(4096).expect("free");
                let op =
                    Op::Read { file: Arc::clone(&file), offset: i * 4096, buffer, start: 0, bytes: 4096 };
                ring.push(round * 1000 + i, op);
            }
            for (i, done) in collect(ring, 200).into_iter().enumerate() {
                assert_eq!(done.token, round * 1000 + i as u64);
                assert_eq!(done.result.expect("read"), 4096);
                let Op::Read { buffer, .. } = done.op else { panic!("another operation was returned") };
                assert!(buffer[..4096].iter().all(|b| *b == i as u8));
            }
            assert_eq!(ring.in_flight(), 0);
        }
    });
}

#[test]
fn connections_are_accepted_and_bytes_go_both_ways() {
    for nonblocking in [false, true] {
        both(|ring, arena| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            listener.set_nonblocking(nonblocking).expect("set");
            let address = listener.local_addr().expect("bound");
            ring.push(1, Op::Accept { listener: Arc::new(listener.into()) });
            let mut none = Vec::new();
            ring.wait(Some(Duration::from_millis(20)), &mut none).expect("wait");
            assert!(none.is_empty(), "there is no connection: {none:?}");
            let mut peer = TcpStream::connect(address).expect("connect");
            let socket = collect(ring, 1).remove(0).accepted.expect("a connection");
            let stream = TcpStream::from(socket);
            stream.set_nonblocking(nonblocking).expect("set");
            let socket = Arc::new(OwnedFd::from(stream));

            let mut buffer = Vec::with_capacity(64);
            buffer.extend_from_slice(b"kept:");
            ring.push(2, Op::Receive { socket: Arc::clone(&socket), buffer });
            ring.wait(Some(Duration::from_millis(20)), &mut none).expect("wait");
            assert!(none.is_empty(), "nothing was sent: {none:?}");
            peer.write_all(b"hello").expect("write");
            let received = collect(ring, 1).remove(0);
            assert_eq!(received.result.expect("bytes"), 5);
            let Op::Receive { buffer, .. } = received.op else { panic!("another operation was returned") };
            assert_eq!(buffer, b"kept:hello");

            let lease = filled(arena, 4096, |i| i as u8).freeze();
            let chunks = vec![
                Chunk::from(b"head ".to_vec()),
                Chunk::Lease(lease.slice(10..20)),
                Chunk::Bytes(Arc::from(&b"xxtailxx"[..]), 2..6),
            ];
            assert_eq!(one(ring, Op::Send { socket: Arc::clone(&socket), chunks }).result.expect("sent"), 19);
            let mut got = [0; 19];
            peer.read_exact(&mut got).expect("read");
            assert_eq!(&got, b"head \x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13tail");
            assert_eq!(lease.state(), PieceState::Full, "no longer being sent");

            drop(peer);
            let end = one(ring, Op::Receive { socket, buffer: Vec::with_capacity(1) });
            assert_eq!(end.result.expect("the end"), 0);
        });
    }
}

#[test]
fn a_full_socket_does_not_block_and_reports_when_it_has_room() {
    both(|ring, arena| {
        let (socket, mut peer) = pair();
        let lease = filled(arena, BUFFER, |i| i as u8).freeze();
        let mut sent = 0;
        loop {
            let chunks = vec![Chunk::Lease(lease.clone())];
            match one(ring, Op::Send { socket: Arc::clone(&socket), chunks }).result {
                Ok(n) => sent += n,
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        ring.push(9, Op::AwaitWritable { socket: Arc::clone(&socket) });
        let mut none = Vec::new();
        ring.wait(Some(Duration::from_millis(20)), &mut none).expect("wait");
        assert!(none.is_empty(), "the peer has not read: {none:?}");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut all = vec![0; sent];
                peer.read_exact(&mut all).expect("read");
                assert!(all.iter().enumerate().any(|(i, b)| i > 0 && *b != 0));
            });
            let writable = collect(ring, 1).remove(0);
            assert_eq!(writable.token, 9);
            assert_ne!(writable.result.expect("writable") & libc::POLLOUT as usize, 0);
        });
    });
}

#[test]
fn reading_and_writing_can_be_awaited_on_one_socket_at_once() {
    both(|ring, _| {
        let (socket, mut peer) = pair();
        ring.push(1, Op::AwaitReadable { socket: Arc::clone(&socket) });
        ring.push(2, Op::AwaitWritable { socket: Arc::clone(&socket) });
        ring.push(3, Op::Receive { socket, buffer: Vec::with_capacity(8) });
        assert_eq!(collect(ring, 1)[0].token, 2, "an idle socket is writable only");
        peer.write_all(b"now").expect("write");
        let done = collect(ring, 2);
        assert_eq!(done.iter().map(|d| d.token).collect::<Vec<_>>(), [1, 3]);
        assert!(done.into_iter().all(|d| d.result.is_ok_and(|n| n > 0)));
    });
}

#[test]
fn a_long_gathered_send_is_cut() {
    both(|ring, _| {
        let (socket, mut peer) = pair();
        let chunks: Vec<Chunk> = (0..3000u32).map(|i| Chunk::from(vec![i as u8; 2])).collect();
        let sent = one(ring, Op::Send { socket: Arc::clone(&socket), chunks }).result.expect("sent");
        assert_eq!(sent, 2 * reel_ring::limits::SEND_CHUNKS_MAX);
        let mut got = vec![0; sent];
        peer.read_exact(&mut got).expect("read");
        assert_eq!(got[1022..1026], [255, 255, 0, 0]);
        assert_eq!(one(ring, Op::Send { socket, chunks: Vec::new() }).result.expect("nothing to send"), 0);
    });
}

#[test]
fn a_closed_peer_is_an_error_without_a_signal() {
    both(|ring, _| {
        let (socket, peer) = pair();
        drop(peer);
        let mut last = Ok(0);
        // The first send may still be accepted. The peer answers with a reset, which a later send
        // meets. The number of tries only ends a test that hangs.
        for _ in 0..20_000 {
            last =
                one(ring, Op::Send { socket: Arc::clone(&socket), chunks: vec![Chunk::from(vec![0; 10])] })
                    .result;
            if last.is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let kind = last.expect_err("broken").kind();
        assert!(matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{kind:?}");
    });
}

#[test]
fn a_cancelled_operation_returns_its_memory() {
    both(|ring, _| {
        let (socket, _peer) = pair();
        ring.push(5, Op::Receive { socket: Arc::clone(&socket), buffer: Vec::with_capacity(100) });
        ring.push(6, Op::AwaitReadable { socket: Arc::clone(&socket) });
        let mut none = Vec::new();
        ring.wait(Some(Duration::from_millis(5)), &mut none).expect("wait");
        assert!(none.is_empty());
        ring.cancel(5);
        ring.cancel(6);
        ring.cancel(77);
        // The kernel has not even seen it yet.
        ring.push(7, Op::Receive { socket: Arc::clone(&socket), buffer: Vec::with_capacity(100) });
        ring.cancel(7);
        let done = collect(ring, 3);
        assert_eq!(done.iter().map(|d| d.token).collect::<Vec<_>>(), [5, 6, 7]);
        for done in done {
            assert_eq!(done.result.expect_err("cancelled").raw_os_error(), Some(libc::ECANCELED));
            if let Op::Receive { buffer, .. } = done.op {
                assert!(buffer.is_empty() && buffer.capacity() >= 100);
            }
        }
        assert_eq!(Arc::strong_count(&socket), 1, "the ring has released the socket");
    });
}

#[test]
fn impossible_operations_are_refused_with_their_memory() {
    both(|ring, arena| {
        let (file, _named) = file(false);
        let (socket, _peer) = pair();
        let buffer = arena.take(4096).expect("free");
        ring.push(1, Op::Read { file: Arc::clone(&file), offset: 0, buffer, start: 1, bytes: 4096 });
        let buffer = arena.take(4096).expect("free");
        ring.push(2, Op::Read { file, offset: 0, buffer, start: usize::MAX, bytes: 2 });
        ring.push(3, Op::Receive { socket: Arc::clone(&socket), buffer: Vec::new() });
        ring.push(4, Op::Send { socket, chunks: vec![Chunk::Bytes(Arc::from(&b"abc"[..]), 1..9)] });
        for done in collect(ring, 4) {
            assert_eq!(done.result.expect_err("refused").kind(), ErrorKind::InvalidInput);
        }
    });
}

#[test]
fn a_wait_ends_by_its_timeout() {
    both(|ring, _| {
        let mut done = Vec::new();
        ring.wait(Some(Duration::from_millis(3)), &mut done).expect("wait");
        ring.wait(Some(Duration::ZERO), &mut done).expect("wait");
        assert!(done.is_empty());
    });
}

#[test]
fn no_wake_up_is_lost() {
    both(|ring, _| {
        let mut done = Vec::new();
        // A call before the wait, and several for one wait.
        for _ in 0..3 {
            ring.waker().wake();
        }
        ring.wait(None, &mut done).expect("wait");
        // Calls that race with falling asleep: in each round the owner must return before the
        // caller continues.
        let waker = ring.waker();
        let (reports, reported) = std::sync::mpsc::channel::<()>();
        let caller = std::thread::spawn(move || {
            while reported.recv().is_ok() {
                waker.wake();
            }
        });
        for _ in 0..3000 {
            reports.send(()).expect("the caller lives");
            ring.wait(None, &mut done).expect("wait");
        }
        drop(reports);
        caller.join().expect("no panic");
        assert!(done.is_empty());
    });
}

#[test]
fn a_dropped_ring_waits_for_the_kernel_and_frees_everything() {
    for driver in drivers() {
        let arena = arena();
        let (socket, _peer) = pair();
        let (file, _named) = file(true);
        let mut ring = Ring::new(RingConfig { entries: 8, driver }, Some(&arena)).expect("a ring");
        let lease = filled(&arena, BUFFER, |_| 1).freeze();
        for i in 0..40 {
            ring.push(
                i,
                Op::Write { file: Arc::clone(&file), offset: i * BUFFER as u64, lease: lease.clone() },
            );
            ring.push(1000 + i, Op::Receive { socket: Arc::clone(&socket), buffer: Vec::with_capacity(10) });
        }
        ring.push(5000, Op::Sync { file: Arc::clone(&file) });
        ring.wait(Some(Duration::ZERO), &mut Vec::new()).expect("wait");
        drop(lease);
        drop(ring);
        assert_eq!(arena.usage().bytes_taken, 0, "{driver:?}");
        assert_eq!((Arc::strong_count(&socket), Arc::strong_count(&file)), (1, 1), "{driver:?}");
    }
}

/// Pushes a zero-copy send and waits until its memory is returned: the result, the chunks, and
/// whether the kernel copied (`None` if the driver did so itself).
fn send_zero_copy(
    ring: &mut Ring,
    socket: &Arc<OwnedFd>,
    chunks: Vec<Chunk>,
) -> (io::Result<usize>, Vec<Chunk>, Option<bool>) {
    ring.push(1, Op::SendZeroCopy { socket: Arc::clone(socket), chunks });
    let mut done = Vec::new();
    // Both parts may arrive at once.
    let first = loop {
        if !done.is_empty() {
            break done.remove(0);
        }
        ring.wait(Some(Duration::from_secs(120)), &mut done).expect("wait");
    };
    let Done { result, op: Op::SendZeroCopy { chunks, .. }, .. } = first else {
        panic!("another operation was returned")
    };
    if !chunks.is_empty() {
        return (result, chunks, None);
    }
    while done.is_empty() {
        ring.wait(Some(Duration::from_secs(120)), &mut done).expect("wait");
    }
    let Some(Done { token: 1, result: back, op: Op::Lent { chunks, copied }, .. }) = done.pop() else {
        panic!("another operation was returned")
    };
    assert_eq!(back.expect("says again what was taken"), *result.as_ref().unwrap_or(&0));
    (result, chunks, Some(copied))
}

#[test]
fn bytes_sent_without_a_copy_arrive_and_their_memory_is_reported() {
    both(|ring, arena| {
        let (socket, mut peer) = pair();
        let leases = [
            filled(arena, BUFFER, |i| (i / 5) as u8).freeze(),
            filled(arena, BUFFER, |i| (i / 3) as u8).freeze(),
        ];
        let chunks = vec![
            Chunk::from(b"head ".to_vec()),
            Chunk::Lease(leases[0].slice(100..40_000)),
            Chunk::Lease(leases[1].slice(1..20_001)),
        ];
        let wanted: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.to_vec()).collect();
        let all = wanted.len();
        assert_eq!(all, 5 + 39_900 + 20_000);
        let reader = std::thread::spawn(move || {
            let mut got = vec![0; all];
            peer.read_exact(&mut got).map(|()| got)
        });
        let (result, chunks, copied) = send_zero_copy(ring, &socket, chunks);
        assert_eq!(result.expect("a new socket takes 60 kB"), all);
        assert_eq!(chunks.len(), 3, "all that was sent from is back");
        assert!(chunks.iter().flat_map(|chunk| chunk.to_vec()).eq(wanted.iter().copied()));
        // Loopback copies for its receiver, and the kernel reports that.
        assert_eq!(copied, ring.sends_zero_copy().then_some(true));
        assert_eq!(reader.join().expect("no panic").expect("all of it"), wanted);
        assert!(leases.iter().all(|lease| lease.state() == PieceState::Full), "no longer being sent");
        assert_eq!(Arc::strong_count(&socket), 1, "the ring has released the socket");
    });
}

/// Waits for the answer of a send without a copy. Reports of released memory are taken off `lent`.
fn answer_of_send(ring: &mut Ring, lent: &mut u64) -> io::Result<usize> {
    let mut answer = None;
    let mut done = Vec::new();
    loop {
        ring.wait(Some(Duration::from_secs(120)), &mut done).expect("wait");
        for done in done.drain(..) {
            match done.op {
                Op::SendZeroCopy { chunks, .. } => {
                    assert!(chunks.is_empty(), "the kernel has them");
                    answer = Some(done.result);
                }
                Op::Lent { .. } => *lent -= 1,
                other => panic!("{other:?}"),
            }
        }
        if let Some(answer) = answer.take() {
            return answer;
        }
    }
}

#[test]
fn memory_is_lent_until_the_peer_has_the_bytes_and_the_socket_is_released() {
    both(|ring, arena| {
        if !ring.sends_zero_copy() {
            if ring.driver() != Driver::Portable {
                println!("skipped: io_uring without zero-copy sends");
            }
            return;
        }
        let (socket, mut peer) = pair();
        let lease = filled(arena, BUFFER, |i| i as u8).freeze();
        // More than the peer's window: what the peer has not read waits in the local queue.
        let (mut taken, mut lent) = (0, 0);
        loop {
            ring.push(
                lent,
                Op::SendZeroCopy {
                    socket: Arc::clone(&socket),
                    chunks: vec![Chunk::Lease(lease.clone()); 16],
                },
            );
            lent += 1;
            match answer_of_send(ring, &mut lent) {
                Ok(bytes) => taken += bytes,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        assert!(lent > 0 && ring.in_flight() as u64 == lent, "{lent} of {}", ring.in_flight());
        assert_eq!(lease.state(), PieceState::Sending);
        assert_eq!(Arc::strong_count(&socket), 1, "only the test holds the socket");
        assert_eq!(arena.pieces_sending(), 1);
        // A plain send after them keeps the order.
        let reader = std::thread::spawn(move || {
            let mut got = vec![0; taken + 4];
            peer.read_exact(&mut got).map(|()| got)
        });
        ring.push(700, Op::AwaitWritable { socket: Arc::clone(&socket) });
        let (mut sent, mut reports) = (false, 0);
        let mut done = Vec::new();
        while !sent || reports < lent {
            ring.wait(Some(Duration::from_secs(120)), &mut done).expect("wait");
            for done in done.drain(..) {
                match done.op {
                    Op::AwaitWritable { .. } => {
                        let chunks = vec![Chunk::from(b"last".to_vec())];
                        ring.push(701, Op::Send { socket: Arc::clone(&socket), chunks });
                    }
                    Op::Send { .. } => {
                        assert_eq!(done.result.expect("room"), 4);
                        sent = true;
                    }
                    Op::Lent { .. } => reports += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
        let got = reader.join().expect("no panic").expect("all of it");
        assert_eq!(&got[taken..], b"last");
        // Sends were cut at any byte, and each began from zero.
        assert!(got[..taken].windows(2).all(|two| two[1] == two[0].wrapping_add(1) || two[1] == 0));
        while ring.in_flight() > 0 {
            ring.wait(Some(Duration::from_secs(120)), &mut done).expect("wait");
        }
        assert_eq!((lease.state(), arena.pieces_sending()), (PieceState::Full, 0));
    });
}

#[test]
fn a_peer_that_closes_releases_the_memory() {
    both(|ring, arena| {
        let (socket, peer) = pair();
        let lease = filled(arena, BUFFER, |i| i as u8).freeze();
        let mut pushed = 0;
        let mut back = 0;
        let mut broken = false;
        let mut peer = Some(peer);
        let mut done = Vec::new();
        while !broken {
            let chunks = vec![Chunk::Lease(lease.clone()); 16];
            ring.push(pushed, Op::SendZeroCopy { socket: Arc::clone(&socket), chunks });
            pushed += 1;
            let mut answered = false;
            while !answered {
                ring.wait(Some(Duration::from_secs(120)), &mut done).expect("wait");
                for done in done.drain(..) {
                    match (done.op, done.result) {
                        (Op::Lent { .. }, _) => back += 1,
                        (Op::SendZeroCopy { chunks, .. }, result) => {
                            answered = true;
                            back += u64::from(!chunks.is_empty());
                            match result {
                                Ok(_) => {}
                                // The socket is full of bytes that the peer never reads. Now the
                                // peer closes.
                                Err(error) if error.kind() == ErrorKind::WouldBlock => drop(peer.take()),
                                Err(_) => broken = true,
                            }
                        }
                        (other, _) => panic!("{other:?}"),
                    }
                }
            }
        }
        while back < pushed {
            ring.wait(Some(Duration::from_secs(120)), &mut done).expect("wait");
            back += done.drain(..).filter(|done| matches!(done.op, Op::Lent { .. })).count() as u64;
        }
        assert_eq!((ring.in_flight(), lease.state()), (0, PieceState::Full));
    });
}

#[test]
fn a_dropped_ring_leaves_unread_bytes_unchanged() {
    for driver in drivers() {
        let arena = arena();
        let (socket, mut peer) = pair();
        let mut ring = Ring::new(RingConfig { entries: 8, driver }, Some(&arena)).expect("a ring");
        let lease = filled(&arena, BUFFER, |i| (i % 200) as u8).freeze();
        let chunks: Vec<Chunk> = vec![Chunk::Lease(lease.clone()); 16];
        let mut taken = 0;
        let mut done = Vec::new();
        let mut full = false;
        while !full {
            let chunks = chunks.clone();
            ring.push(1, Op::SendZeroCopy { socket: Arc::clone(&socket), chunks });
            let mut answered = false;
            while !answered {
                ring.wait(Some(Duration::from_secs(120)), &mut done).expect("wait");
                for done in done.drain(..).filter(|done| matches!(done.op, Op::SendZeroCopy { .. })) {
                    answered = true;
                    full = done.result.map(|bytes| taken += bytes).is_err();
                }
            }
        }
        let zero_copy = ring.sends_zero_copy();
        drop((lease, chunks));
        // It ends before the peer has read a byte. How long it may wait for a peer is tested beside
        // the driver.
        drop(ring);
        // The arena lives on, and all of its free memory is taken and overwritten. The bytes that
        // the peer has yet to read must not change.
        let others: Vec<Buffer> = std::iter::from_fn(|| arena.take(BUFFER))
            .map(|mut buffer| {
                buffer.fill(0xEE);
                buffer
            })
            .collect();
        assert_eq!(others.len(), if zero_copy { 15 } else { 16 });
        let mut got = vec![0; taken];
        peer.read_exact(&mut got).expect("all that was taken");
        assert!(!got.contains(&0xEE), "late reads return what was sent");
    }
}

#[test]
fn the_end_of_a_zero_copy_send_cannot_be_pushed() {
    both(|ring, _| {
        let refused = one(ring, Op::Lent { chunks: Vec::new(), copied: false });
        assert_eq!(refused.result.expect_err("refused").kind(), ErrorKind::InvalidInput);
    });
}

/// Root may lock any amount of memory, so the process gives up that right. Without root there is
/// nothing to give up.
#[test]
fn without_lockable_memory_a_zero_copy_send_fails_and_a_plain_one_works() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: no root");
    }
    run_in_own_process("drivers::with_little_lockable_memory");
}

#[test]
#[ignore = "child of without_lockable_memory_a_zero_copy_send_fails_and_a_plain_one_works"]
fn with_little_lockable_memory() {
    let maximum = rustix::process::getrlimit(rustix::process::Resource::Memlock).maximum;
    let limit = rustix::process::Rlimit { current: Some(64 << 10), maximum };
    rustix::process::setrlimit(rustix::process::Resource::Memlock, limit).expect("a lower limit");
    give_up_locking();
    let arena = arena();
    let mut ring = Ring::new(RingConfig { entries: 8, driver: DriverChoice::Auto }, None).expect("a ring");
    if !ring.sends_zero_copy() {
        return println!("skipped: no zero-copy sends");
    }
    let (socket, mut peer) = pair();
    let lease = filled(&arena, BUFFER, |i| i as u8).freeze();
    let chunks = vec![Chunk::Lease(lease.clone()); 4];
    let (result, _, _) = send_zero_copy(&mut ring, &socket, chunks.clone());
    let refused = result.expect_err("256 KiB are more than 64").raw_os_error();
    assert!(matches!(refused, Some(libc::ENOMEM | libc::ENOBUFS)), "{refused:?}");
    let sent = one(&mut ring, Op::Send { socket, chunks }).result.expect("a copy needs no lock");
    let mut got = vec![0; sent];
    peer.read_exact(&mut got).expect("read");
    assert_eq!(got[..BUFFER], lease[..]);
    assert_eq!(ring.in_flight(), 0);
}

/// Takes CAP_IPC_LOCK from the calling thread.
fn give_up_locking() {
    const CAP_IPC_LOCK: u32 = 14;
    const VERSION_3: u32 = 0x2008_0522;
    let mut header = [VERSION_3, 0];
    // Effective, permitted, inheritable, for the lower and the upper half of the capabilities.
    let mut sets = [0u32; 6];
    // SAFETY: both point to as much as the calls read and write: a header of two words, two times
    // three words.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()), 0);
        sets[..3].iter_mut().for_each(|set| *set &= !(1 << CAP_IPC_LOCK));
        assert_eq!(libc::syscall(libc::SYS_capset, header.as_mut_ptr(), sets.as_mut_ptr()), 0);
    }
}
