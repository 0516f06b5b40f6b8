//! Trains of datagrams: every packet arrives, complete and in order, by both drivers, copied and
//! lent.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use reel_arena::{Arena, ArenaConfig, Lease};
use reel_ring::limits::TRAIN_BYTES_MAX;
use reel_ring::{Chunk, Done, DriverChoice, Op, Ring, RingConfig, Train};
use reel_testkit::{ring_or_skip, run_in_own_network};

const BUFFER_BYTES: usize = 1 << 17;
const HEADER_BYTES: usize = 12;
const PAYLOAD_BYTES: usize = 1316;
pub(crate) const PACKET_BYTES: usize = HEADER_BYTES + PAYLOAD_BYTES;

/// The drivers this machine has.
pub(crate) fn drivers() -> Vec<DriverChoice> {
    let uring = RingConfig { entries: 1, driver: DriverChoice::Uring };
    match ring_or_skip(Ring::new(uring, None)) {
        Some(_) => vec![DriverChoice::Uring, DriverChoice::Portable],
        None => vec![DriverChoice::Portable],
    }
}

/// Runs the body for each driver, with trains that are copied and trains that are lent.
pub(crate) fn all_ways(body: impl Fn(&mut Ring, &Arena, bool)) {
    for driver in drivers() {
        for zero_copy in [false, true] {
            let arena = arena();
            let mut ring = Ring::new(RingConfig { entries: 8, driver }, Some(&arena)).expect("a ring");
            body(&mut ring, &arena, zero_copy);
            drop(ring);
            assert_eq!(arena.usage().bytes_taken, 0, "{driver:?}: a dropped ring gives all memory back");
        }
    }
}

pub(crate) fn arena() -> Arena {
    let config =
        ArenaConfig { buffer_bytes: BUFFER_BYTES, buffer_count: 8, cells_per_buffer: 1, huge_pages: false };
    Arena::new(config).expect("an arena of 1 MiB")
}

/// A whole buffer of bytes that depend on their position and on `salt`.
pub(crate) fn filled(arena: &Arena, salt: u8) -> Lease {
    let mut buffer = arena.take(BUFFER_BYTES).expect("a free buffer");
    buffer.iter_mut().enumerate().for_each(|(i, b)| *b = (i * 31 + i / 251) as u8 ^ salt);
    buffer.freeze()
}

/// A connected socket to send on, and the receiving one.
fn pair(address: IpAddr) -> (Arc<std::os::fd::OwnedFd>, UdpSocket) {
    let receiver = UdpSocket::bind((address, 0)).expect("a port");
    receiver.set_read_timeout(Some(Duration::from_secs(120))).expect("set");
    let sender = UdpSocket::bind((address, 0)).expect("a port");
    sender.connect(receiver.local_addr().expect("bound")).expect("connect");
    (Arc::new(sender.into()), receiver)
}

/// The results of trains, in order: the answer, and for those that were lent whether they were
/// copied after all.
pub(crate) fn send(ring: &mut Ring, trains: Vec<Train>) -> Vec<(Done, Option<bool>)> {
    for (token, train) in trains.into_iter().enumerate() {
        ring.push(token as u64, Op::Train(train));
    }
    let mut done = Vec::new();
    while ring.in_flight() > 0 {
        ring.wait(Some(Duration::from_secs(120)), &mut done).expect("the ring works");
    }
    let (lent, mut answers): (Vec<Done>, Vec<Done>) =
        done.into_iter().partition(|done| matches!(done.op, Op::Lent { .. }));
    answers.sort_by_key(|done| done.token);
    let copied = |token| {
        let done = lent.iter().find(|done| done.token == token)?;
        let Op::Lent { copied, .. } = &done.op else { return None };
        Some(*copied)
    };
    let copied: Vec<_> = answers.iter().map(|done| copied(done.token)).collect();
    answers.into_iter().zip(copied).collect()
}

/// The datagrams that arrive, in order.
pub(crate) fn receive(receiver: &UdpSocket, count: usize) -> Vec<Vec<u8>> {
    let one = |_| {
        let mut packet = vec![0; 1 << 16];
        let bytes = receiver.recv(&mut packet).expect("a packet");
        packet.truncate(bytes);
        packet
    };
    let packets = (0..count).map(one).collect();
    receiver.set_nonblocking(true).expect("set");
    assert!(receiver.recv(&mut [0; 1]).is_err(), "a packet too many");
    receiver.set_nonblocking(false).expect("set");
    packets
}

/// Packets whose headers lie in one place and whose payloads lie in another.
fn headed(headers: &Lease, payload: &Lease, packets: std::ops::Range<usize>) -> Vec<Chunk> {
    let part = |lease: &Lease, bytes, i| Chunk::Lease(lease.slice(i * bytes..(i + 1) * bytes));
    packets.flat_map(|i| [part(headers, HEADER_BYTES, i), part(payload, PAYLOAD_BYTES, i)]).collect()
}

#[test]
fn a_run_of_bytes_arrives_as_equal_packets_and_a_rest() {
    all_ways(|ring, arena, zero_copy| {
        for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let (socket, receiver) = pair(address);
            let bytes = filled(arena, 7);
            for length in [1, 700, PACKET_BYTES, PACKET_BYTES + 1, 46 * PACKET_BYTES, 49 * PACKET_BYTES + 5] {
                let train = Train {
                    socket: Arc::clone(&socket),
                    to: None,
                    chunks: vec![Chunk::Lease(bytes.slice(333..333 + length))],
                    packet_bytes: PACKET_BYTES as u16,
                    zero_copy,
                };
                let (done, copied) = send(ring, vec![train]).remove(0);
                assert_eq!(done.result.expect("sent"), length);
                assert!(copied != Some(false), "loopback has a receiver, so it copies");
                let packets = receive(&receiver, length.div_ceil(PACKET_BYTES));
                for (i, packet) in packets.iter().enumerate() {
                    let end = ((i + 1) * PACKET_BYTES).min(length);
                    assert_eq!(
                        packet[..],
                        bytes[333 + i * PACKET_BYTES..333 + end],
                        "packet {i} of {length}"
                    );
                }
            }
        }
    });
}

#[test]
fn headers_and_payload_from_two_places_make_one_packet() {
    all_ways(|ring, arena, zero_copy| {
        let (socket, receiver) = pair(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let (headers, payload) = (filled(arena, 1), filled(arena, 2));
        // Several trains at once. One of them has more pieces than can be lent, so it is copied
        // without changing the order.
        let trains = [0..6, 6..12, 12..46, 46..47].map(|packets| Train {
            socket: Arc::clone(&socket),
            to: None,
            chunks: headed(&headers, &payload, packets),
            packet_bytes: PACKET_BYTES as u16,
            zero_copy,
        });
        let sent: usize =
            send(ring, trains.into()).into_iter().map(|(done, _)| done.result.expect("sent")).sum();
        assert_eq!(sent, 47 * PACKET_BYTES);
        for (i, packet) in receive(&receiver, 47).iter().enumerate() {
            assert_eq!(packet.len(), PACKET_BYTES);
            assert_eq!(packet[..HEADER_BYTES], headers[i * HEADER_BYTES..(i + 1) * HEADER_BYTES]);
            assert_eq!(packet[HEADER_BYTES..], payload[i * PAYLOAD_BYTES..(i + 1) * PAYLOAD_BYTES]);
        }
    });
}

/// Rows of three buffers with headers of the heap: more pieces than can be lent.
#[test]
fn rows_of_three_buffers_make_one_train_that_is_copied() {
    all_ways(|ring, arena, zero_copy| {
        let (socket, receiver) = pair(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let (rows, counts) = ([1, 2, 3].map(|salt| filled(arena, salt)), [15, 20, 5]);
        let headers: Arc<[u8]> = (0..40 * HEADER_BYTES).map(|byte| byte as u8).collect();
        let header = |packet| packet * HEADER_BYTES..(packet + 1) * HEADER_BYTES;
        let payload = |at| at * PAYLOAD_BYTES..(at + 1) * PAYLOAD_BYTES;
        let places = || (0..3).flat_map(|row| (0..counts[row]).map(move |at| (row, at))).enumerate();
        let pieces = |(packet, (row, at)): (usize, (usize, usize))| {
            [Chunk::Bytes(Arc::clone(&headers), header(packet)), Chunk::Lease(rows[row].slice(payload(at)))]
        };
        let chunks: Vec<Chunk> = places().flat_map(pieces).collect();
        let train = Train { socket, to: None, chunks, packet_bytes: PACKET_BYTES as u16, zero_copy };
        assert!(!train.can_be_lent());
        let (done, lent) = send(ring, vec![train]).remove(0);
        assert_eq!(done.result.expect("sent"), 40 * PACKET_BYTES);
        assert_eq!(lent, None, "copied at once: nothing was lent");
        let packets = receive(&receiver, 40);
        for (packet, (row, at)) in places() {
            assert_eq!(packets[packet][..HEADER_BYTES], headers[header(packet)]);
            assert_eq!(packets[packet][HEADER_BYTES..], rows[row][payload(at)], "packet {packet}");
        }
    });
}

#[test]
fn bytes_outside_of_the_arena_can_be_part_of_a_train() {
    all_ways(|ring, arena, zero_copy| {
        let (socket, receiver) = pair(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let payload = filled(arena, 3);
        let chunks = vec![Chunk::from(b"head".to_vec()), Chunk::Lease(payload.slice(0..96))];
        let (done, _) =
            send(ring, vec![Train { socket, to: None, chunks, packet_bytes: 50, zero_copy }]).remove(0);
        assert_eq!(done.result.expect("sent"), 100);
        let packets = receive(&receiver, 2);
        assert_eq!(packets[0][..4], *b"head");
        assert_eq!(packets[0][4..], payload[..46]);
        assert_eq!(packets[1][..], payload[46..96]);
    });
}

#[test]
fn impossible_trains_are_refused_with_their_memory() {
    all_ways(|ring, arena, zero_copy| {
        let (socket, receiver) = pair(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let bytes = filled(arena, 4);
        let train = |range: std::ops::Range<usize>, packet_bytes| Train {
            socket: Arc::clone(&socket),
            to: None,
            chunks: vec![Chunk::Lease(bytes.slice(range))],
            packet_bytes,
            zero_copy,
        };
        let too_many = 65 * 100;
        let trains = vec![
            train(0..0, 100),
            train(0..10, 0),
            train(0..too_many, 100),
            train(0..TRAIN_BYTES_MAX + 1, 1472),
        ];
        for (done, _) in send(ring, trains) {
            assert_eq!(done.result.expect_err("refused").kind(), std::io::ErrorKind::InvalidInput);
            let Op::Train(train) = done.op else { panic!("another operation was returned") };
            assert_eq!(train.chunks.len(), 1);
        }
        receive(&receiver, 0);
    });
}

#[test]
fn an_unreachable_port_is_an_error_of_the_next_train() {
    all_ways(|ring, arena, zero_copy| {
        let (socket, receiver) = pair(IpAddr::V4(Ipv4Addr::LOCALHOST));
        drop(receiver);
        let bytes = filled(arena, 5);
        let train = || Train {
            socket: Arc::clone(&socket),
            to: None,
            chunks: vec![Chunk::Lease(bytes.slice(0..100))],
            packet_bytes: 100,
            zero_copy,
        };
        let kinds: Vec<_> =
            (0..3).map(|_| send(ring, vec![train()]).remove(0).0.result.map_err(|e| e.kind())).collect();
        assert!(kinds.contains(&Err(std::io::ErrorKind::ConnectionRefused)), "{kinds:?}");
    });
}

/// Needs root, `unshare` and `ip`: a network namespace with a device that takes packets whole and
/// drops them, as a card that sends them does. Nothing is copied there.
#[test]
fn a_device_that_gathers_is_lent_the_bytes() {
    let setup = "ip link set lo up && ip link add ifb9 type ifb && ip link set ifb9 up && \
                 ip addr add 10.9.0.1/24 dev ifb9 && ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev ifb9";
    run_in_own_network(setup, "trains::inside_the_space");
}

#[test]
#[ignore = "child of a_device_that_gathers_is_lent_the_bytes, in a name space of its own"]
fn inside_the_space() {
    let socket = UdpSocket::bind("10.9.0.1:0").expect("the device's address");
    socket.connect("10.9.0.2:9").expect("connect");
    let socket = Arc::new(std::os::fd::OwnedFd::from(socket));
    for driver in drivers() {
        let arena = arena();
        let mut ring = Ring::new(RingConfig { entries: 8, driver }, Some(&arena)).expect("a ring");
        let (headers, payload) = (filled(&arena, 1), filled(&arena, 2));
        let foreign = Chunk::from(vec![1; HEADER_BYTES]);
        let whole = |length| vec![Chunk::Lease(payload.slice(1..1 + length))];
        let cases = [
            ("one packet", whole(PACKET_BYTES), true),
            ("a long train", whole(46 * PACKET_BYTES), true),
            ("the longest train", whole(TRAIN_BYTES_MAX), true),
            ("headers apart", headed(&headers, &payload, 0..6), true),
            ("more pieces than can be lent", headed(&headers, &payload, 0..10), false),
            ("a header from elsewhere", vec![foreign, Chunk::Lease(payload.slice(0..PAYLOAD_BYTES))], true),
        ];
        for (name, chunks, lent) in cases {
            for zero_copy in [true, false] {
                let train = Train {
                    socket: Arc::clone(&socket),
                    to: None,
                    chunks: chunks.clone(),
                    packet_bytes: 1400,
                    zero_copy,
                };
                let bytes = train.bytes();
                let (done, copied) = send(&mut ring, vec![train]).remove(0);
                assert_eq!(done.result.expect("sent"), bytes, "{name}");
                let expected = (zero_copy && lent && driver == DriverChoice::Uring).then_some(false);
                assert_eq!(copied, expected, "{driver:?}, {name}");
            }
        }
    }
}
