//! Groups on real sockets, in a network name space that ends with the test.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use reel_receive::{Arrivals, Member, Plan, Port, Receiver, Wait};
use reel_testkit::run_in_own_network;

use crate::sender::{Datagram, Sender, geometry, plan};

#[test]
fn groups_are_joined_and_received() {
    let setup = "ip link set lo up && ip link set lo multicast on && ip route add 224.0.0.0/4 dev lo";
    run_in_own_network(setup, "groups::inside_the_space");
}

/// Loopback carries no groups of IPv6.
#[test]
fn groups_of_ipv6_are_joined_for_one_source() {
    let setup = "ip link set lo up && ip link add cast0 type veth peer name cast1 && ip link set cast1 up && \
                 ip link set cast0 up && ip -6 addr add fd09::1/64 dev cast0 nodad && \
                 ip -6 addr add fd09::2/64 dev cast0 nodad";
    run_in_own_network(setup, "groups::inside_the_space_of_ipv6");
}

#[test]
#[ignore = "child of groups_of_ipv6_are_joined_for_one_source, in a name space of its own"]
fn inside_the_space_of_ipv6() {
    for group in ["[ff3e::8000:1]:6000", "[ff15::1]:6000"] {
        for interface in [None, Some("cast0")] {
            assert_only_one_source_arrives(group, ["[fd09::2]:0", "[fd09::1]:0"], interface);
        }
    }
    let none = Member::join("[ff3e::8000:1]:6000".parse().unwrap(), &["10.0.0.1".parse().unwrap()], None);
    assert!(none.is_err(), "a sender of another family");
}

#[test]
#[ignore = "child of groups_are_joined_and_received, in a name space of its own"]
fn inside_the_space() {
    a_cast_with_losses_is_received_as_it_was_sent();
    a_member_gets_no_other_group();
    one_source_is_joined_by_interface();
}

fn join(plan: &Plan) -> Vec<(Port, Member)> {
    let join = |(port, address)| (port, Member::join(address, &plan.sources, Some("lo")).unwrap());
    plan.ports().into_iter().map(join).collect()
}

fn a_cast_with_losses_is_received_as_it_was_sent() {
    let sender = Sender::new(geometry(20, 4), 10, 65_500, 1);
    let mut plan = plan(sender.geometry);
    // Times are real here: nothing is given up because a busy machine sends and receives late.
    plan.fec.as_mut().unwrap().repair_window_ns = 60_000_000_000;
    let members = join(&plan);
    assert!(members[0].1.buffer_bytes().unwrap() > 0);
    // A second receiver of the same machine shares the ports.
    drop(join(&plan));
    let arrivals = Arrivals::read(members).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut datagrams = sender.all();
    // One of each column is lost.
    datagrams.retain(|datagram| datagram.port == Port::Fec || datagram.number % 80 < 60);
    let send = |datagram: &Datagram| {
        let port = match datagram.port {
            Port::Media => 5000,
            Port::Rtcp => 5001,
            Port::Fec => 5002,
        };
        socket.send_to(&datagram.bytes, ("239.1.1.1", port)).unwrap();
    };
    let mut receiver = Receiver::new(plan);
    let (mut bytes, mut sent, begun) = (Vec::new(), 0, Instant::now());
    // Each port has a thread of its own. On a busy machine one of them could be ahead of another
    // one by more than the receiver remembers, so the next packets wait for it.
    for some in datagrams.chunks(20) {
        some.iter().for_each(send);
        sent += some.len() as u64;
        while receiver.counts().received + receiver.counts().fec < sent {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", receiver.counts());
            receive(&mut receiver, &arrivals, &mut bytes);
        }
    }
    send(&sender.goodbye(0));
    while !receiver.has_ended(arrivals.now_ns()) {
        receive(&mut receiver, &arrivals, &mut bytes);
    }
    assert!(bytes == sender.payloads.concat(), "{:?}", receiver.counts());
    assert_eq!((receiver.counts().repaired, arrivals.dropped()), (200, 0));
}

/// Takes what arrives next, and what can be given out then.
fn receive(receiver: &mut Receiver, arrivals: &Arrivals, bytes: &mut Vec<u8>) {
    match arrivals.wait(Duration::from_millis(20)) {
        Wait::Arrived(arrival) => {
            receiver.push(arrival.port, &arrival.bytes, arrival.from, arrival.at_ns);
        }
        _ => receiver.advance(arrivals.now_ns()),
    }
    while let Some(payload) = receiver.next(arrivals.now_ns()) {
        bytes.extend(payload.bytes);
    }
}

fn a_member_gets_no_other_group() {
    let address = |last| SocketAddr::from(([239, 1, 1, last], 6000));
    let members = [1, 2].map(|last| Member::join(address(last), &[], Some("lo")).unwrap());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for last in [2, 1] {
        socket.send_to(&[last], address(last)).unwrap();
    }
    for (member, last) in members.iter().zip([1, 2]) {
        let mut bytes = [0; 8];
        member.socket().set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        assert_eq!(member.socket().recv(&mut bytes).unwrap(), 1);
        assert_eq!(bytes[0], last);
        assert!(member.socket().recv(&mut bytes).is_err(), "nothing else");
    }
}

fn one_source_is_joined_by_interface() {
    for interface in [None, Some("lo")] {
        assert_only_one_source_arrives("232.1.1.1:6000", ["127.0.0.2:0", "127.0.0.1:0"], interface);
    }
}

/// Joins a group for the second of two senders.
fn assert_only_one_source_arrives(group: &str, senders: [&str; 2], interface: Option<&str>) {
    let address: SocketAddr = group.parse().unwrap();
    let [other, source] = senders.map(|sender| sender.parse::<SocketAddr>().unwrap());
    let member = Member::join(address, &[source.ip()], interface).unwrap();
    member.socket().set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut bytes = [0; 8];
    for (from, arrives) in [(other, false), (source, true)] {
        UdpSocket::bind(from).unwrap().send_to(b"x", address).unwrap();
        assert_eq!(member.socket().recv(&mut bytes).is_ok(), arrives, "{group} {from} {interface:?}");
    }
}
