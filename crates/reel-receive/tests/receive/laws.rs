//! What is given out, whatever the network does.

use std::collections::BTreeSet;

use proptest::prelude::*;
use reel_receive::{Payload, Plan, Port, Receiver};
use reel_testkit::Rng;

use crate::sender::{Datagram, Network, SPACING_NS, Sender, geometry, give, plan, take_rest};

/// The numbers of packets whose payloads were given out.
fn numbers(sender: &Sender, payloads: &[Payload]) -> Vec<usize> {
    let mut next = 0;
    let find = |payload: &Payload| {
        let found = sender.payloads[next..].iter().position(|sent| *sent == payload.bytes);
        let at = next + found.expect("a payload that was sent, in order");
        next = at + 1;
        at
    };
    payloads.iter().map(find).collect()
}

/// What can be given out of what arrives: everything from the first packet on that arrives, or is
/// the only one of its column that does not, if its FEC does.
fn possible(sender: &Sender, arrivals: &[Datagram]) -> Vec<usize> {
    let of = |port| {
        let these = arrivals.iter().filter(move |datagram| datagram.port == port);
        these.map(|datagram| datagram.number)
    };
    let first = of(Port::Media).next().unwrap_or(usize::MAX);
    let media: BTreeSet<usize> = of(Port::Media).collect();
    let mut all = media.clone();
    for column in of(Port::Fec) {
        let missing: Vec<usize> = sender.members(column).filter(|number| !media.contains(number)).collect();
        all.extend(missing.first().filter(|_| missing.len() == 1));
    }
    all.into_iter().filter(|number| *number >= first).collect()
}

fn networks() -> impl Strategy<Value = Network> {
    (0..300_u64, 0..100_u64).prop_map(|(loss_permille, repeat_permille)| Network {
        loss_permille,
        repeat_permille,
        delay_ns: 0,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn everything_that_the_exclusive_or_allows_is_given_out_in_order(
        (columns, rows) in (1..=20_u16, 4..=16_u16),
        first in prop_oneof![any::<u16>(), 65_000..=u16::MAX],
        network in networks(),
        is_reordered: bool,
        seed: u64,
    ) {
        let sender = Sender::new(geometry(columns, rows), 6, first, seed);
        let mut random = Rng::new(seed);
        let packets = u64::from(columns * rows);
        let delay_ns = if is_reordered { (packets / 8).min(30) * SPACING_NS } else { 0 };
        let mut arrivals = Network { delay_ns, ..network }.carry(sender.all(), &mut random);
        if is_reordered {
            // FEC of a column that began before the first packet does not wait for late packets.
            arrivals.insert(0, sender.media(0));
        }
        let mut receiver = Receiver::new(plan(sender.geometry));
        let mut taken = give(&mut receiver, &sender, &arrivals);
        taken.extend(take_rest(&mut receiver));
        let expected = possible(&sender, &arrivals);
        prop_assert_eq!(numbers(&sender, &taken), expected.clone());
        let counts = receiver.counts();
        prop_assert_eq!(counts.lost, counts.repaired + counts.unrepaired);
        prop_assert_eq!(counts.delivered, counts.received + counts.repaired);
        prop_assert_eq!((counts.foreign, counts.malformed, counts.restarts, counts.overrun), (0, 0, 0, 0));
        if delay_ns == 0 {
            let last = expected.last().map_or(0, |last| last + 1 - expected[0]) as u64;
            prop_assert_eq!(counts.received + counts.lost, last);
        }
    }

    #[test]
    fn nothing_wrong_is_given_out_however_late_packets_are(
        (columns, rows) in (1..=10_u16, 1..=10_u16),
        first: u16,
        network in networks(),
        delay_packets in 0..1500_u64,
        seed: u64,
    ) {
        let sender = Sender::new(geometry(columns, rows), 8, first, seed);
        let network = Network { delay_ns: delay_packets * SPACING_NS, ..network };
        let arrivals = network.carry(sender.all(), &mut Rng::new(seed));
        let mut receiver = Receiver::new(plan(sender.geometry));
        let mut taken = give(&mut receiver, &sender, &arrivals);
        taken.extend(take_rest(&mut receiver));
        // A source that seems to begin again gives packets a second time.
        for payload in &taken {
            prop_assert!(sender.payloads.contains(&payload.bytes));
        }
        if receiver.counts().restarts == 0 {
            numbers(&sender, &taken);
        }
    }

    #[test]
    fn without_fec_packets_are_put_in_order(
        first: u16,
        network in networks(),
        delay_packets in 0..45_u64,
        seed: u64,
    ) {
        let sender = Sender::new(geometry(10, 10), 6, first, seed);
        let mut sent = sender.all();
        sent.retain(|datagram| datagram.port == Port::Media);
        let network = Network { delay_ns: delay_packets * SPACING_NS, ..network };
        let arrivals = network.carry(sent, &mut Rng::new(seed));
        let mut receiver = Receiver::new(Plan::from_url("rtp://239.1.1.1:5000").unwrap());
        let mut taken = give(&mut receiver, &sender, &arrivals);
        taken.extend(take_rest(&mut receiver));
        prop_assert_eq!(numbers(&sender, &taken), possible(&sender, &arrivals));
        prop_assert_eq!(receiver.counts().repaired, 0);
    }
}

#[test]
fn delays_are_those_of_repair() {
    let sender = Sender::new(geometry(20, 4), 4, 65_400, 1);
    let mut sent = sender.all();
    sent.retain(|datagram| datagram.port == Port::Fec || datagram.number != 100);
    let mut receiver = Receiver::new(plan(sender.geometry));
    let taken = give(&mut receiver, &sender, &sent);
    assert_eq!(numbers(&sender, &taken), (0..320).collect::<Vec<_>>());
    assert!(taken[100].is_repaired);
    let counts = receiver.counts();
    // Packet 100 is in column 0 of matrix 1, whose FEC is sent with packet 160.
    assert_eq!(counts.delay_max_ns, 59 * SPACING_NS + 1);
    assert!(counts.delay_mean_ns() < 10 * SPACING_NS);
    assert_eq!((counts.lost, counts.repaired, counts.unrepaired), (1, 1, 0));
}

#[test]
fn a_receiver_waits_no_longer_than_the_repair_window() {
    let sender = Sender::new(geometry(20, 4), 2, 0, 1);
    let mut receiver = Receiver::new(plan(sender.geometry));
    let sent: Vec<Datagram> = [0, 1, 3].map(|number| sender.media(number)).into();
    assert_eq!(give(&mut receiver, &sender, &sent).len(), 2);
    let due_ns = receiver.due_ns().unwrap();
    assert_eq!(due_ns, 3 * SPACING_NS + 160 * SPACING_NS + reel_receive::limits::REORDER_NS);
    receiver.advance(due_ns - 1);
    assert_eq!(receiver.next(due_ns - 1), None);
    receiver.advance(due_ns);
    assert_eq!(receiver.next(due_ns).unwrap().bytes, sender.payloads[3]);
    assert_eq!(receiver.due_ns(), None);
}

#[test]
fn a_loss_longer_than_the_window_is_counted() {
    let sender = Sender::new(geometry(5, 4), 100, 65_000, 1);
    let mut sent = sender.all();
    sent.retain(|datagram| {
        let position = match datagram.port {
            Port::Media => datagram.number,
            _ => sender.members(datagram.number).next().unwrap() + 20,
        };
        !(500..1500).contains(&position)
    });
    let mut receiver = Receiver::new(plan(sender.geometry));
    let mut taken = give(&mut receiver, &sender, &sent);
    taken.extend(take_rest(&mut receiver));
    assert_eq!(numbers(&sender, &taken), (0..500).chain(1500..2000).collect::<Vec<_>>());
    let counts = receiver.counts();
    assert_eq!((counts.lost, counts.unrepaired, counts.restarts, counts.late), (1000, 1000, 0, 0));
}

/// Held packets are given out before one far ahead takes their memory.
#[test]
fn a_packet_a_window_ahead_overwrites_nothing() {
    let sender = Sender::new(geometry(5, 4), 20, 7, 1);
    let mut receiver = Receiver::new(plan(sender.geometry));
    let numbers_sent: Vec<usize> = (0..10).chain(11..40).chain([150, 151]).collect();
    let sent: Vec<Datagram> = numbers_sent.iter().map(|number| sender.media(*number)).collect();
    let mut taken = give(&mut receiver, &sender, &sent);
    taken.extend(take_rest(&mut receiver));
    assert_eq!(numbers(&sender, &taken), numbers_sent);
}

#[test]
fn a_packet_that_its_fec_overtakes_was_not_lost() {
    let sender = Sender::new(geometry(5, 4), 2, 7, 1);
    let receive = |later_ns| {
        let mut receiver = Receiver::new(plan(sender.geometry));
        let mut sent: Vec<Datagram> = (0..20).map(|number| sender.media(number)).collect();
        let mut last = sent.pop().unwrap();
        let mut fec = sender.fec(4);
        fec.at_ns = last.at_ns;
        last.at_ns += later_ns;
        sent.extend([fec, last.clone(), last]);
        let taken = give(&mut receiver, &sender, &sent);
        assert_eq!(numbers(&sender, &taken), (0..20).collect::<Vec<_>>());
        let counts = receiver.counts();
        [counts.received, counts.lost, counts.repaired, counts.duplicates, counts.late]
    };
    assert_eq!(receive(10_000), [20, 0, 0, 1, 0]);
    assert_eq!(receive(2 * reel_receive::limits::REORDER_NS), [19, 1, 1, 0, 2]);
}
