//! A sender of packets over a real ring and loopback: every packet arrives, in order, with its
//! bytes.

use reel_arena::{Arena, ArenaConfig, Lease};
use reel_ring::{DriverChoice, Op, Ring, RingConfig};
use reel_testkit::ring_or_skip;
use reel_udp::{Pacer, Packets, SendFault, UdpSender, UdpStep};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

const HEADER_BYTES: usize = 12;
const PAYLOAD_BYTES: usize = 1316;
/// Added to the slot of each op, as an owner with other operations would.
const TOKENS: u64 = 77 << 32;

pub(crate) fn drivers() -> Vec<DriverChoice> {
    let config = RingConfig { entries: 1, driver: DriverChoice::Uring };
    match ring_or_skip(Ring::new(config, None)) {
        Some(_) => vec![DriverChoice::Uring, DriverChoice::Portable],
        None => vec![DriverChoice::Portable],
    }
}

pub(crate) fn filled(arena: &Arena, salt: usize) -> Lease {
    let mut buffer = arena.take(1 << 18).expect("a free buffer");
    buffer.iter_mut().enumerate().for_each(|(i, byte)| *byte = ((i + salt) * 37 + i / 253) as u8);
    buffer.freeze()
}

/// Sends all that is offered, as a front end would, with a simulated clock: time passes only when
/// nothing is under way. `sent` is called after each operation. Returns the time at the end.
pub(crate) fn drive(ring: &mut Ring, sender: &mut UdpSender, mut sent: impl FnMut()) -> u64 {
    let (mut now_ns, mut under_way, mut done) = (0, 0_u32, Vec::new());
    while !sender.is_idle() {
        match sender.step(now_ns) {
            UdpStep::Push { slot, op, .. } => {
                ring.push(TOKENS | u64::from(slot), op);
                under_way += 1;
                continue;
            }
            UdpStep::At(due_ns) if under_way == 0 => {
                now_ns = due_ns;
                continue;
            }
            UdpStep::At(_) | UdpStep::Idle => {}
        }
        ring.wait(Some(Duration::from_secs(120)), &mut done).expect("the ring works");
        assert!(!done.is_empty(), "an operation under way does not end");
        for done in done.drain(..) {
            assert_eq!(done.token & TOKENS, TOKENS);
            // A train that was lent comes twice: sent, then given back by the kernel.
            let is_lent = matches!(&done.op, Op::Train(train) if train.chunks.is_empty());
            under_way -= u32::from(!is_lent);
            sender.done(now_ns, done.token as u32, done);
            sent();
        }
    }
    now_ns
}

pub(crate) fn receiver() -> (UdpSocket, SocketAddr) {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    receiver.set_nonblocking(true).expect("set");
    let to = receiver.local_addr().expect("bound");
    (receiver, to)
}

pub(crate) fn take_all(receiver: &UdpSocket, received: &mut Vec<Vec<u8>>) {
    let mut packet = vec![0; 2000];
    while let Ok(bytes) = receiver.recv(&mut packet) {
        received.push(packet[..bytes].to_vec());
    }
}

pub(crate) fn pacer(rate_bps: u64) -> Pacer {
    Pacer::new(NonZeroU64::new(rate_bps).expect("a rate"), 0)
}

#[test]
fn everything_that_was_offered_arrives_in_order_at_its_destination() {
    for driver in drivers() {
        let shape =
            ArenaConfig { buffer_bytes: 1 << 18, buffer_count: 3, cells_per_buffer: 1, huge_pages: false };
        let arena = Arena::new(shape).expect("an arena");
        let mut ring = Ring::new(RingConfig { entries: 16, driver }, Some(&arena)).expect("a ring");
        let [(one, to_one), (two, to_two)] = [receiver(), receiver()];
        let (closed, to_closed) = receiver();
        drop(closed);
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");

        let (headers, payload, framed) = (filled(&arena, 1), filled(&arena, 2), filled(&arena, 3));
        let headed = |count: usize| {
            let (headers, payload) =
                (headers.slice(0..count * HEADER_BYTES), payload.slice(0..count * PAYLOAD_BYTES - 40));
            Packets::headed(headers, HEADER_BYTES, payload, PAYLOAD_BYTES)
        };
        let mut expected: Vec<Vec<u8>> = (0..100)
            .map(|i| {
                let end = ((i + 1) * PAYLOAD_BYTES).min(100 * PAYLOAD_BYTES - 40);
                [&headers[i * HEADER_BYTES..(i + 1) * HEADER_BYTES], &payload[i * PAYLOAD_BYTES..end]]
                    .concat()
            })
            .collect();
        expected.extend(framed.chunks(1400).map(<[u8]>::to_vec));

        // 287 packets in trains of two to four dozen. The receive buffers of loopback hold a whole
        // train, and are emptied after each of them.
        let rate_bps = 40_000_000;
        let mut sender = UdpSender::new(Arc::new(socket.into()));
        let first = sender.open(to_one, pacer(rate_bps)).expect("room for a flow");
        let second = sender.open(to_two, pacer(rate_bps / 2)).expect("room for a flow");
        // No program listens there, which is no fault of a flow on an unconnected socket.
        let unheard = sender.open(to_closed, pacer(rate_bps)).expect("room for a flow");
        sender.offer(first, headed(100)).expect("room");
        sender.offer(first, Packets::framed(framed.clone(), 1400)).expect("room");
        sender.offer(second, Packets::framed(framed.slice(0..140_000), 1400)).expect("room");
        sender.offer(unheard, Packets::framed(framed.slice(0..140_000), 1400)).expect("room");
        let (mut received, mut received_two) = (Vec::new(), Vec::new());
        let end_ns = drive(&mut ring, &mut sender, || {
            take_all(&one, &mut received);
            take_all(&two, &mut received_two);
        });
        assert!(received == expected, "{driver:?}: not what was offered, or not in its order");
        assert!(received_two.iter().map(Vec::as_slice).eq(framed[..140_000].chunks(1400)), "{driver:?}");

        let counts = sender.flow(first).expect("an open flow").counts;
        assert_eq!(counts.packets, expected.len() as u64);
        assert_eq!(counts.bytes, expected.iter().map(|packet| packet.len() as u64).sum::<u64>());
        assert_eq!((counts.refused_packets, counts.lent_bytes), (0, 0), "loopback lends nothing: {counts:?}");
        assert!(counts.trains < counts.packets / 10, "{counts:?}");
        if driver == DriverChoice::Uring {
            assert!(counts.copied_after_all_bytes > 0, "it was tried: {counts:?}");
        }
        assert_eq!(sender.flow(second).expect("an open flow").counts.packets, 100);
        // The last train begins when all before it were due: the rate was not exceeded.
        let before_last = (counts.bytes - 37 * 1400) * 8 * 1_000_000_000 / rate_bps;
        assert!(end_ns >= before_last, "{end_ns} {before_last}");

        drop((sender, headers, payload, framed, ring));
        assert_eq!(arena.usage().bytes_taken, 0, "{driver:?}: all memory is back");
    }
}

#[test]
fn an_address_of_another_family_is_a_fault_of_its_flow() {
    for driver in drivers() {
        let shape =
            ArenaConfig { buffer_bytes: 1 << 18, buffer_count: 1, cells_per_buffer: 1, huge_pages: false };
        let arena = Arena::new(shape).expect("an arena");
        let mut ring = Ring::new(RingConfig { entries: 16, driver }, Some(&arena)).expect("a ring");
        let bytes = filled(&arena, 1);
        let (one, to_one) = receiver();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let mut sender = UdpSender::new(Arc::new(socket.into()));
        let good = sender.open(to_one, pacer(40_000_000)).expect("room for a flow");
        let bad = sender.open((Ipv6Addr::LOCALHOST, 9).into(), pacer(40_000_000)).expect("room for a flow");
        for id in [good, bad] {
            sender.offer(id, Packets::framed(bytes.slice(0..140_000), 1400)).expect("room");
        }
        let mut received = Vec::new();
        drive(&mut ring, &mut sender, || take_all(&one, &mut received));
        assert!(received.iter().map(Vec::as_slice).eq(bytes[..140_000].chunks(1400)), "{driver:?}");
        assert_eq!(sender.next_changed(), Some(bad));
        assert_eq!(sender.next_changed(), None);
        let state = sender.flow(bad).expect("an open flow");
        assert!(matches!(state.fault, Some(SendFault::OtherFamily)), "{:?}", state.fault);
        assert_eq!(state.counts.refused_packets, 100);
    }
}
