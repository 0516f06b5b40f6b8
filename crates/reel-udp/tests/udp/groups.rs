//! Groups, interfaces and routes, in a network name space that ends with the test. It needs root,
//! `unshare` and `ip`; without them the test is skipped, with a visible message.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::Command;

use reel_arena::{Arena, ArenaConfig, Lease};
use reel_ring::{DriverChoice, Ring, RingConfig};
use reel_testkit::run_in_own_network;
use reel_udp::{Family, FlowId, MulticastOptions, MulticastSocket, Packets, SendFault, UdpSender};

use crate::loopback::{drive, drivers, filled, pacer, take_all};

const PORT: u16 = 5000;
const PACKET_BYTES: usize = 1328;
const PACKETS: usize = 150;

#[test]
fn groups_interfaces_and_routes_in_a_space_of_their_own() {
    let setup = "ip link set lo up && ip link add cast0 type veth peer name cast1 && ip link set cast1 up && \
                 ip addr add 10.9.0.1/24 dev cast0";
    run_in_own_network(setup, "groups::inside_the_space");
}

#[test]
#[ignore = "child of groups_interfaces_and_routes_in_a_space_of_their_own, in a name space of its own"]
fn inside_the_space() {
    interfaces_that_carry_no_groups_are_named();
    for driver in drivers() {
        members_get_their_group_in_order(driver, [Ipv4Addr::new(239, 1, 1, 1), Ipv4Addr::new(239, 1, 1, 2)]);
        members_of_groups_of_ipv6_get_them_in_order(driver);
        a_group_without_a_route_disturbs_no_other(driver);
        an_interface_that_is_set_down_is_a_fault_until_it_is_up(driver);
    }
    an_interface_that_vanishes_is_a_fault();
}

fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status().expect("ip runs");
    assert!(status.success(), "ip {words}");
}

fn options(interface: Option<&str>) -> MulticastOptions {
    MulticastOptions { interface: interface.map(str::to_owned), ..MulticastOptions::new(Family::V4) }
}

/// A ring, bytes to send and a sender, for one case.
struct Case {
    ring: Ring,
    bytes: Lease,
    socket: MulticastSocket,
    sender: UdpSender,
}

impl Case {
    fn new(driver: DriverChoice, options: &MulticastOptions) -> Case {
        let shape =
            ArenaConfig { buffer_bytes: 1 << 18, buffer_count: 1, cells_per_buffer: 1, huge_pages: false };
        let arena = Arena::new(shape).expect("an arena");
        let ring = Ring::new(RingConfig { entries: 16, driver }, Some(&arena)).expect("a ring");
        let socket = MulticastSocket::open(options).expect("a socket");
        let sender = UdpSender::new(socket.socket());
        Case { ring, bytes: filled(&arena, 1), socket, sender }
    }

    fn open(&mut self, to: SocketAddr) -> FlowId {
        self.socket.check(to).expect("a group");
        self.sender.open(to, pacer(40_000_000)).expect("room for a flow")
    }

    fn offer(&mut self, id: FlowId) {
        let bytes = self.bytes.slice(0..PACKETS * PACKET_BYTES);
        self.sender.offer(id, Packets::framed(bytes, PACKET_BYTES)).expect("room");
    }

    /// Sends everything, and returns what the receivers got.
    fn run(&mut self, receivers: &[&UdpSocket]) -> Vec<Vec<Vec<u8>>> {
        let mut received = vec![Vec::new(); receivers.len()];
        drive(&mut self.ring, &mut self.sender, || {
            receivers.iter().zip(&mut received).for_each(|(receiver, received)| take_all(receiver, received));
        });
        received
    }

    fn assert_got_all(&self, received: &[Vec<u8>]) {
        let expected = self.bytes[..PACKETS * PACKET_BYTES].chunks(PACKET_BYTES);
        assert!(
            received.iter().map(Vec::as_slice).eq(expected),
            "{} packets, or not in order",
            received.len()
        );
    }
}

fn member(group: Ipv4Addr) -> UdpSocket {
    // Bound to the group: a socket bound to any address gets all groups that others joined.
    let member = UdpSocket::bind((group, PORT)).expect("the group's port");
    member.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).expect("joined");
    member.set_nonblocking(true).expect("set");
    member
}

fn interfaces_that_carry_no_groups_are_named() {
    let said = |name| match MulticastSocket::open(&options(Some(name))) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    assert!(said("cast7").contains("there is no network interface"));
    assert!(said("cast0").contains("ip link set cast0 up"), "{}", said("cast0"));
    assert!(said("lo").contains("ip link set lo multicast on"), "{}", said("lo"));
    ip("link set lo multicast on");
    ip("link set cast0 up");
    assert_eq!((said("lo"), said("cast0")), (String::new(), String::new()));
}

fn members_get_their_group_in_order(driver: DriverChoice, groups: [Ipv4Addr; 2]) {
    let members = groups.map(member);
    let mut case = Case::new(driver, &options(Some("lo")));
    for group in groups {
        let id = case.open((group, PORT).into());
        case.offer(id);
    }
    let received = case.run(&members.each_ref());
    received.iter().for_each(|received| case.assert_got_all(received));
}

fn members_of_groups_of_ipv6_get_them_in_order(driver: DriverChoice) {
    let group: Ipv6Addr = "ff15::1:5".parse().expect("an address");
    let Ok(member) = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, PORT)) else {
        return println!("skipped: no IPv6");
    };
    // An address goes when its interface is set down. Loopback carries no groups of IPv6.
    ip("-6 addr replace fd09::1/64 dev cast0 nodad");
    let index = std::fs::read_to_string("/proc/net/if_inet6").expect("addresses");
    let index = index.lines().find(|line| line.ends_with("cast0")).expect("its address");
    let index = u32::from_str_radix(index.split_whitespace().nth(1).expect("a number"), 16);
    member.join_multicast_v6(&group, index.expect("a number")).expect("joined");
    member.set_nonblocking(true).expect("set");
    let options = MulticastOptions { family: Family::V6, ..options(Some("cast0")) };
    let mut case = Case::new(driver, &options);
    let id = case.open((group, PORT).into());
    case.offer(id);
    let received = case.run(&[&member]);
    assert!(case.sender.flow(id).expect("an open flow").fault.is_none(), "{:?}", case.sender.flow(id));
    case.assert_got_all(&received[0]);
}

fn a_group_without_a_route_disturbs_no_other(driver: DriverChoice) {
    ip("route add 239.1.0.0/16 dev lo");
    let group = Ipv4Addr::new(239, 1, 1, 3);
    let member = member(group);
    let mut case = Case::new(driver, &options(None));
    let good = case.open((group, PORT).into());
    let bad = case.open((Ipv4Addr::new(239, 77, 1, 1), PORT).into());
    case.offer(good);
    case.offer(bad);
    let received = case.run(&[&member]);
    case.assert_got_all(&received[0]);
    assert_eq!((case.sender.next_changed(), case.sender.next_changed()), (Some(bad), None));
    let state = case.sender.flow(bad).expect("an open flow");
    assert!(matches!(state.fault, Some(SendFault::NoRoute)), "{:?}", state.fault);
    assert_eq!(state.counts.refused_packets, PACKETS as u64);
    // With a route, the same flow is sent.
    ip("route add 239.77.0.0/16 dev lo");
    case.offer(bad);
    case.run(&[&member]);
    let state = case.sender.flow(bad).expect("an open flow");
    assert!(state.fault.is_none() && state.counts.packets == PACKETS as u64, "{state:?}");
    ip("route del 239.77.0.0/16 dev lo");
    ip("route del 239.1.0.0/16 dev lo");
    // A packet that is larger than the MTU is an error, also of a single packet, and says so.
    ip("link set lo mtu 1300");
    let mut case = Case::new(driver, &options(Some("lo")));
    let id = case.open((group, PORT).into());
    case.offer(id);
    let received = case.run(&[&member]);
    ip("link set lo mtu 65536");
    let state = case.sender.flow(id).expect("an open flow");
    assert!(matches!(state.fault, Some(SendFault::TooLarge { packet_bytes: PACKET_BYTES })), "{state:?}");
    assert!(received[0].is_empty() && state.counts.refused_packets == PACKETS as u64);
}

fn an_interface_that_is_set_down_is_a_fault_until_it_is_up(driver: DriverChoice) {
    let mut case = Case::new(driver, &options(Some("cast0")));
    let id = case.open((Ipv4Addr::new(239, 1, 1, 4), PORT).into());
    ip("link set cast0 down");
    case.offer(id);
    case.run(&[]);
    let state = case.sender.flow(id).expect("an open flow");
    assert!(matches!(state.fault, Some(SendFault::NoRoute | SendFault::InterfaceDown)), "{:?}", state.fault);
    ip("link set cast0 up");
    case.offer(id);
    case.run(&[]);
    let state = case.sender.flow(id).expect("an open flow");
    assert!(state.fault.is_none() && state.counts.packets == PACKETS as u64, "{state:?}");
}

fn an_interface_that_vanishes_is_a_fault() {
    let mut case = Case::new(DriverChoice::Auto, &options(Some("cast0")));
    let id = case.open((Ipv4Addr::new(239, 1, 1, 5), PORT).into());
    ip("link del cast0");
    case.offer(id);
    case.run(&[]);
    let state = case.sender.flow(id).expect("an open flow");
    assert!(matches!(state.fault, Some(SendFault::NoRoute | SendFault::InterfaceDown)), "{:?}", state.fault);
}
