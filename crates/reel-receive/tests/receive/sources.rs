//! Several senders on one group, and senders that begin again or end.

use std::net::SocketAddr;

use reel_receive::limits::GOODBYE_NS;
use reel_receive::{Plan, Receiver};

use crate::sender::{Datagram, SPACING_NS, Sender, geometry, give, plan, take_rest};

fn later(mut datagrams: Vec<Datagram>, ns: u64) -> Vec<Datagram> {
    datagrams.iter_mut().for_each(|datagram| datagram.at_ns += ns);
    datagrams
}

fn senders() -> (Sender, Sender) {
    (Sender::new(geometry(5, 4), 20, 100, 1), Sender::new(geometry(5, 4), 20, 30_000, 2))
}

fn bytes(payloads: &[reel_receive::Payload]) -> Vec<Vec<u8>> {
    payloads.iter().map(|payload| payload.bytes.clone()).collect()
}

#[test]
fn of_two_senders_the_first_one_is_followed() {
    let (one, mut two) = senders();
    two.address = "10.0.0.2:7000".parse::<SocketAddr>().unwrap();
    let mut receiver = Receiver::new(plan(one.geometry));
    let mut taken = Vec::new();
    // Trains of forty packets in turn: each longer than what confirms a new source.
    for train in 0..10 {
        for sender in [&one, &two] {
            let train: Vec<Datagram> =
                (train * 40..train * 40 + 40).map(|number| sender.media(number)).collect();
            taken.extend(give(&mut receiver, sender, &train));
        }
        let fec: Vec<Datagram> = (0..10).map(|column| two.fec(column)).collect();
        taken.extend(give(&mut receiver, &two, &later(fec, train as u64 * 40 * SPACING_NS)));
    }
    assert_eq!(bytes(&taken), one.payloads);
    let counts = receiver.counts();
    assert_eq!((counts.received, counts.foreign, counts.restarts), (400, 500, 0));
}

#[test]
fn another_sender_is_followed_when_the_first_is_silent_and_nothing_of_it_is_lost() {
    let (one, mut two) = senders();
    two.address = "10.0.0.2:7000".parse::<SocketAddr>().unwrap();
    let mut receiver = Receiver::new(plan(one.geometry));
    let mut taken = give(&mut receiver, &one, &one.all());
    let after = later(two.all(), 400 * SPACING_NS + 500_000_000);
    taken.extend(give(&mut receiver, &two, &after));
    assert_eq!(bytes(&taken), [one.payloads, two.payloads].concat());
    let counts = receiver.counts();
    assert_eq!((counts.foreign, counts.restarts, counts.lost), (0, 1, 0));
}

#[test]
fn a_sender_that_begins_again_is_followed_at_once() {
    let (one, mut two) = senders();
    two.address = one.address;
    let mut receiver = Receiver::new(plan(one.geometry));
    let mut sent = one.all();
    // It ends in the middle of a matrix, with a packet missing.
    sent.truncate(300);
    sent.retain(|datagram| datagram.port != reel_receive::Port::Media || datagram.number != 230);
    let last_ns = sent.last().unwrap().at_ns;
    let mut taken = give(&mut receiver, &one, &sent);
    let mut after = later(two.all(), last_ns + SPACING_NS);
    after.retain(|datagram| datagram.port != reel_receive::Port::Media || datagram.number != 27);
    taken.extend(give(&mut receiver, &two, &after));
    let of_one = taken.len() - two.payloads.len();
    assert_eq!(bytes(&taken[of_one..]), two.payloads);
    assert!(bytes(&taken[..of_one]).iter().all(|payload| one.payloads.contains(payload)));
    assert_eq!((receiver.counts().foreign, receiver.counts().restarts), (0, 1));
}

#[test]
fn a_source_that_jumps_is_followed_when_it_is_sure() {
    let (one, mut far) = senders();
    (far.ssrc, far.address) = (one.ssrc, one.address);
    let mut receiver = Receiver::new(plan(one.geometry));
    let media = |sender: &Sender, numbers: std::ops::Range<usize>| -> Vec<Datagram> {
        numbers.map(|number| sender.media(number)).collect()
    };
    let mut taken = give(&mut receiver, &one, &media(&one, 0..50));
    // One packet far away changes nothing.
    taken.extend(give(&mut receiver, &far, &media(&far, 0..1)));
    taken.extend(give(&mut receiver, &one, &media(&one, 50..60)));
    assert_eq!((taken.len(), receiver.counts().late, receiver.counts().restarts), (60, 1, 0));
    taken.extend(give(&mut receiver, &far, &media(&far, 60..100)));
    assert_eq!((taken.len(), receiver.counts().restarts), (100, 1));
    // Back again, which takes more packets, and none is lost.
    let back = give(&mut receiver, &one, &media(&one, 100..140));
    assert_eq!(bytes(&back), one.payloads[100..140]);
    assert_eq!((receiver.counts().restarts, receiver.counts().lost), (2, 0));
}

#[test]
fn a_goodbye_of_the_followed_source_ends_the_receiver() {
    let (one, two) = senders();
    let mut receiver = Receiver::new(plan(one.geometry));
    let sent: Vec<Datagram> = [0, 1, 3].map(|number| one.media(number)).into();
    let mut taken = give(&mut receiver, &one, &sent);
    let at_ns = 4 * SPACING_NS;
    give(&mut receiver, &one, &[two.goodbye(at_ns)]);
    assert!(!receiver.has_ended(u64::MAX), "the goodbye of another source");
    give(&mut receiver, &one, &[one.goodbye(at_ns)]);
    let end_ns = at_ns + GOODBYE_NS;
    assert_eq!(receiver.due_ns().map(|due_ns| due_ns <= end_ns), Some(true));
    assert!(!receiver.has_ended(end_ns));
    receiver.advance(end_ns);
    taken.extend(std::iter::from_fn(|| receiver.next(end_ns)));
    assert_eq!(taken.len(), 3);
    assert!(receiver.has_ended(end_ns) && !receiver.has_ended(end_ns - 1));
}

#[test]
fn a_goodbye_after_which_packets_come_is_not_believed() {
    let (one, _) = senders();
    let mut receiver = Receiver::new(plan(one.geometry));
    let mut sent = one.all();
    sent.insert(200, one.goodbye(sent[199].at_ns));
    let mut taken = give(&mut receiver, &one, &sent);
    taken.extend(take_rest(&mut receiver));
    assert_eq!(bytes(&taken), one.payloads);
    assert!(!receiver.has_ended(u64::MAX));
}

#[test]
fn only_the_senders_of_the_description_are_received() {
    let (one, _) = senders();
    let receive = |url| {
        let mut receiver = Receiver::new(Plan::from_url(url).unwrap());
        let taken = give(&mut receiver, &one, &one.all());
        (taken.len(), receiver.counts().foreign)
    };
    assert_eq!(receive("rtp://10.0.0.1@232.1.1.1:5000"), (400, 0));
    assert_eq!(receive("rtp://10.0.0.9@232.1.1.1:5000"), (0, 400));
}
