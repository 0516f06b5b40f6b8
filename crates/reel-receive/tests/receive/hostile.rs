//! Datagrams that no sender of a cast would send.

use std::net::SocketAddr;

use proptest::prelude::*;
use reel_receive::limits::OUTPUT_PACKETS_MAX;
use reel_receive::{Port, Receiver};
use reel_testkit::Rng;

use crate::sender::{Sender, geometry, give, plan, take_rest};

const PORTS: [Port; 3] = [Port::Media, Port::Fec, Port::Rtcp];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Another sender of changed and random datagrams disturbs nothing.
    #[test]
    fn hostile_datagrams_are_counted_and_change_nothing(seed: u64, first: u16) {
        let sender = Sender::new(geometry(5, 4), 10, first, seed);
        let hostile: SocketAddr = "10.9.9.9:5000".parse().unwrap();
        let mut random = Rng::new(seed);
        let mut receiver = Receiver::new(plan(sender.geometry));
        let mut taken = Vec::new();
        let mut disturbed = 0;
        for datagram in sender.all() {
            let at_ns = datagram.at_ns;
            taken.extend(give(&mut receiver, &sender, std::slice::from_ref(&datagram)));
            for _ in 0..random.below(4) {
                let mut bytes = datagram.bytes.clone();
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.below(256) as u8;
                bytes.truncate(random.range(0, bytes.len() as u64) as usize);
                let port = PORTS[random.below(3) as usize];
                receiver.push(port, &bytes, hostile, at_ns);
                disturbed += 1;
            }
        }
        taken.extend(take_rest(&mut receiver));
        let bytes: Vec<Vec<u8>> = taken.into_iter().map(|payload| payload.bytes).collect();
        prop_assert_eq!(&bytes, &sender.payloads);
        let counts = receiver.counts();
        prop_assert_eq!(counts.foreign + counts.malformed, disturbed);
    }

    /// The followed source itself sends anything: no panic, and bounded memory.
    #[test]
    fn any_datagrams_of_the_followed_source_are_survived(seed: u64, takes: bool) {
        let sender = Sender::new(geometry(5, 4), 4, 0, seed);
        let mut random = Rng::new(seed);
        let mut receiver = Receiver::new(plan(sender.geometry));
        let mut given = 0;
        for round in 0..2000_u64 {
            let mut datagram = match random.below(3) {
                0 => sender.fec(random.below(16) as usize),
                1 if random.below(50) == 0 => sender.goodbye(0),
                _ => sender.media(random.below(80) as usize),
            };
            // Sequence number, time stamp, and what FEC says of them.
            for _ in 0..random.below(3) {
                let at = random.below(datagram.bytes.len().min(28) as u64) as usize;
                datagram.bytes[at] = random.below(256) as u8;
            }
            receiver.push(datagram.port, &datagram.bytes, sender.address, round * 1_000_000);
            given += 1;
            if takes {
                while receiver.next(round * 1_000_000).is_some() {}
            }
        }
        let left = take_rest(&mut receiver).len();
        prop_assert!(left <= OUTPUT_PACKETS_MAX);
        let counts = receiver.counts();
        prop_assert!(counts.received + counts.malformed <= given);
    }
}

/// A source that restarts with every few packets, and a caller that takes nothing.
#[test]
fn memory_is_bounded_when_nothing_is_taken() {
    let mut receiver = Receiver::new(plan(geometry(5, 4)));
    for seed in 0..40 {
        let mut sender = Sender::new(geometry(5, 4), 20, 0, seed);
        sender.address = "10.0.0.1:5000".parse().unwrap();
        for datagram in sender.all() {
            receiver.push(datagram.port, &datagram.bytes, sender.address, seed);
        }
    }
    let counts = receiver.counts();
    assert_eq!(counts.restarts, 39);
    assert_eq!(take_rest(&mut receiver).len(), OUTPUT_PACKETS_MAX);
    assert_eq!(counts.overrun as usize, 40 * 400 - OUTPUT_PACKETS_MAX);
}

#[test]
fn payloads_that_are_no_transport_stream_are_dropped() {
    let sender = Sender::new(geometry(5, 4), 1, 0, 1);
    let mut receiver = Receiver::new(plan(sender.geometry));
    let whole = sender.media(0).bytes;
    let with = |at: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[at] = value;
        bytes
    };
    let faults =
        [with(1, 96), with(12, 0x48), with(0, 0x40), whole[..whole.len() - 1].to_vec(), whole[..12].to_vec()];
    for bytes in &faults {
        receiver.push(Port::Media, bytes, sender.address, 0);
    }
    let long = [&whole[..12], &[0x47; 188 * 8]].concat();
    receiver.push(Port::Media, &long, sender.address, 0);
    assert_eq!(receiver.counts().malformed, 6);
    assert!(take_rest(&mut receiver).is_empty());
}
