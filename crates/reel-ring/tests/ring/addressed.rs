//! Trains that name their destination: one socket that is not connected sends to several addresses
//! and groups.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use reel_arena::Lease;
use reel_ring::{Chunk, DriverChoice, Op, Train};
use reel_testkit::run_in_own_network;
use rustix::io::Errno;

use crate::trains::{PACKET_BYTES, all_ways, drivers, filled, receive, send};

/// A socket to send on, which is not connected, and two receivers with their addresses.
fn sockets(address: IpAddr) -> (Arc<OwnedFd>, [(UdpSocket, SocketAddr); 2]) {
    let socket = UdpSocket::bind((address, 0)).expect("a port");
    let receiver = || {
        let receiver = UdpSocket::bind((address, 0)).expect("a port");
        receiver.set_read_timeout(Some(Duration::from_secs(120))).expect("set");
        let to = receiver.local_addr().expect("bound");
        (receiver, to)
    };
    (Arc::new(socket.into()), [receiver(), receiver()])
}

fn train(socket: &Arc<OwnedFd>, to: Option<SocketAddr>, lease: Lease, zero_copy: bool) -> Train {
    let chunks = vec![Chunk::Lease(lease)];
    Train { socket: Arc::clone(socket), to, chunks, packet_bytes: PACKET_BYTES as u16, zero_copy }
}

/// Trains of six packets, one to each destination in turn.
fn in_turn(
    socket: &Arc<OwnedFd>,
    to: [SocketAddr; 2],
    bytes: &Lease,
    count: usize,
    zero_copy: bool,
) -> Vec<Train> {
    let part = |i: usize| bytes.slice(i * 6 * PACKET_BYTES..(i + 1) * 6 * PACKET_BYTES);
    (0..count).map(|i| train(socket, Some(to[i % 2]), part(i), zero_copy)).collect()
}

/// Each receiver gets every second train, whole and in order.
fn assert_received_in_turn(receivers: [&UdpSocket; 2], bytes: &Lease, count: usize) {
    for (number, receiver) in receivers.into_iter().enumerate() {
        let packets = receive(receiver, count / 2 * 6);
        for (i, packet) in packets.iter().enumerate() {
            let at = ((i / 6 * 2 + number) * 6 + i % 6) * PACKET_BYTES;
            assert_eq!(packet[..], bytes[at..at + PACKET_BYTES], "packet {i} of receiver {number}");
        }
    }
}

fn errno(error: &io::Error) -> Option<Errno> {
    Errno::from_io_error(error)
}

#[test]
fn one_socket_sends_to_several_addresses_and_each_gets_its_packets_in_order() {
    all_ways(|ring, arena, zero_copy| {
        for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let (socket, [one, two]) = sockets(address);
            let bytes = filled(arena, 11);
            let trains = in_turn(&socket, [one.1, two.1], &bytes, 16, zero_copy);
            for (done, copied) in send(ring, trains) {
                assert_eq!(done.result.expect("sent"), 6 * PACKET_BYTES);
                assert!(copied != Some(false), "loopback has a receiver, so it copies");
                let Op::Train(train) = done.op else { panic!("another operation was returned") };
                assert!(train.to.is_some(), "the train comes back with its destination");
            }
            assert_received_in_turn([&one.0, &two.0], &bytes, 16);
        }
    });
}

#[test]
fn a_destination_of_another_family_and_none_at_all_are_errors_of_that_train_only() {
    all_ways(|ring, arena, zero_copy| {
        let bytes = filled(arena, 12);
        let (socket, [(receiver, to), _]) = sockets(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let (bound_to_v6, [(_, to_v6), _]) = sockets(IpAddr::V6(Ipv6Addr::LOCALHOST));

        let lease = || bytes.slice(0..3 * PACKET_BYTES);
        let trains = vec![
            train(&socket, Some(to_v6), lease(), zero_copy),
            train(&socket, None, lease(), zero_copy),
            train(&socket, Some(to), lease(), zero_copy),
        ];
        let results: Vec<_> = send(ring, trains).into_iter().map(|(done, _)| done.result).collect();
        assert_eq!(results[0].as_ref().err().and_then(errno), Some(Errno::AFNOSUPPORT));
        assert_eq!(results[1].as_ref().err().and_then(errno), Some(Errno::DESTADDRREQ));
        assert_eq!(results[2].as_ref().ok(), Some(&(3 * PACKET_BYTES)));
        receive(&receiver, 3);
        let (done, _) = send(ring, vec![train(&bound_to_v6, Some(to), lease(), zero_copy)]).remove(0);
        assert!(done.result.is_err(), "no IPv4 from a socket that is bound to an address of IPv6");
    });
}

/// A network namespace whose loopback carries groups, with a small
/// MTU, and a device that takes packets whole.
#[test]
fn groups_are_sent_to_in_a_space_of_their_own() {
    let setup = "ip link set lo up mtu 1500 && ip link set lo multicast on && ip route add 239.0.0.0/16 dev lo && \
                 ip link add ifb9 type ifb && ip link set ifb9 up && ip addr add 10.9.0.1/24 dev ifb9 && \
                 ip route add 239.9.0.0/16 dev ifb9";
    run_in_own_network(setup, "addressed::inside_the_space");
}

#[test]
#[ignore = "child of groups_are_sent_to_in_a_space_of_their_own, in a name space of its own"]
fn inside_the_space() {
    let groups = [Ipv4Addr::new(239, 0, 1, 1), Ipv4Addr::new(239, 0, 1, 2)];
    let behind_ifb = SocketAddr::from((Ipv4Addr::new(239, 9, 0, 1), 7000));
    let without_route = SocketAddr::from((Ipv4Addr::new(239, 77, 0, 1), 7000));
    let receivers = groups.map(|group| {
        // Bound to the group: a socket bound to any address gets all groups that others joined.
        let receiver = UdpSocket::bind((group, 7000)).expect("the group's port");
        receiver.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).expect("joined");
        receiver.set_read_timeout(Some(Duration::from_secs(120))).expect("set");
        receiver
    });
    all_ways(|ring, arena, zero_copy| {
        let bytes = filled(arena, 13);
        let socket: Arc<OwnedFd> =
            Arc::new(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port").into());
        let mut trains = in_turn(&socket, groups.map(|group| (group, 7000).into()), &bytes, 16, zero_copy);
        // Between them, trains that fail: no route, and packets that are longer than the MTU.
        trains.insert(3, train(&socket, Some(without_route), bytes.slice(0..100), zero_copy));
        let long =
            Train { packet_bytes: 1600, ..train(&socket, trains[0].to, bytes.slice(0..3200), zero_copy) };
        trains.insert(7, long);
        let results: Vec<_> = send(ring, trains).into_iter().map(|(done, _)| done.result).collect();
        for (i, result) in results.iter().enumerate() {
            let error = result.as_ref().err().and_then(errno);
            match i {
                3 => assert_eq!(error, Some(Errno::NETUNREACH)),
                // EINVAL before Linux 6.14.
                7 => assert!(matches!(error, Some(Errno::MSGSIZE | Errno::INVAL)), "{error:?}"),
                _ => assert_eq!(error, None),
            }
        }
        assert_received_in_turn([&receivers[0], &receivers[1]], &bytes, 16);
        let uring = drivers().contains(&DriverChoice::Uring)
            && matches!(ring.driver(), reel_ring::Driver::Uring { .. });
        let long = train(&socket, Some(behind_ifb), bytes.slice(0..46 * PACKET_BYTES), zero_copy);
        let (done, copied) = send(ring, vec![long]).remove(0);
        assert_eq!(done.result.expect("sent"), 46 * PACKET_BYTES);
        assert_eq!(copied, (uring && zero_copy).then_some(false), "a device that gathers is lent the bytes");
    });
}
