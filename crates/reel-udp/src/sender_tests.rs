//! What a [`UdpSender`] does at single events, without a clock and a kernel.

use std::io;
use std::mem;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;
use std::sync::Arc;

use reel_arena::{Arena, ArenaConfig, Lease};
use reel_ring::{Done, Op, Train};
use rustix::io::Errno;

use crate::limits::{UDP_COPIED_IN_ROW, UDP_FLOWS_MAX, UDP_LENT_BYTES_MIN, UDP_LENT_TRAINS_MAX};
use crate::{FlowId, FlowState, Pacer, Packets, SendFault, UdpSender, UdpStep};

const PACKET_BYTES: usize = 1328;
/// 62 packets in 10 ms.
const RATE_BPS: u64 = 66_000_000;

fn lease() -> Lease {
    let shape =
        ArenaConfig { buffer_bytes: 1 << 20, buffer_count: 1, cells_per_buffer: 1, huge_pages: false };
    Arena::new(shape).expect("1 MiB").take(1 << 20).expect("free").freeze()
}

fn pacer(rate_bps: u64) -> Pacer {
    Pacer::new(NonZeroU64::new(rate_bps).expect("a rate"), 0)
}

fn packets(count: usize) -> Packets {
    Packets::framed(lease().slice(0..count * PACKET_BYTES), PACKET_BYTES)
}

fn to(number: u8) -> SocketAddr {
    (Ipv4Addr::new(239, 1, 1, number), 5000).into()
}

fn empty_sender() -> UdpSender {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    UdpSender::new(Arc::new(socket.into()))
}

fn add(sender: &mut UdpSender, number: u8, rate_bps: u64, count: usize) -> FlowId {
    let id = sender.open(to(number), pacer(rate_bps)).expect("room for a flow");
    sender.offer(id, packets(count)).expect("room");
    id
}

/// A sender with one flow.
fn sender(rate_bps: u64, count: usize) -> (UdpSender, FlowId) {
    let mut sender = empty_sender();
    let id = add(&mut sender, 1, rate_bps, count);
    (sender, id)
}

fn state(sender: &UdpSender, id: FlowId) -> FlowState<'_> {
    sender.flow(id).expect("an open flow")
}

fn train(step: UdpStep) -> (u32, Train) {
    match step {
        UdpStep::Push { slot, op: Op::Train(train), .. } => (slot, train),
        step => panic!("{step:?}"),
    }
}

fn done(op: Op, result: io::Result<usize>) -> Done {
    Done { token: 1, result, op, accepted: None }
}

/// As a ring does it: the result, and the memory if it was lent.
fn sent(sender: &mut UdpSender, now_ns: u64, (slot, mut train): (u32, Train), copied: bool) {
    let bytes = train.bytes();
    let chunks = if train.zero_copy { mem::take(&mut train.chunks) } else { Vec::new() };
    sender.done(now_ns, slot, done(Op::Train(train), Ok(bytes)));
    if !chunks.is_empty() {
        sender.done(now_ns, slot, done(Op::Lent { chunks, copied }, Ok(0)));
    }
}

fn refuse(sender: &mut UdpSender, now_ns: u64, (slot, train): (u32, Train), errno: Errno) {
    sender.done(now_ns, slot, done(Op::Train(train), Err(errno.into())));
}

#[test]
fn trains_are_as_long_as_the_rate_makes_them() {
    for (rate_bps, packets) in [(1_000_000, 1), (8_000_000, 7), (40_000_000, 37), (1_000_000_000, 49)] {
        let (_, first) = train(sender(rate_bps, 100).0.step(0));
        assert_eq!(first.bytes(), packets * PACKET_BYTES, "{rate_bps}");
        assert_eq!(first.zero_copy, first.bytes() >= UDP_LENT_BYTES_MIN);
        assert_eq!(first.to, Some(to(1)));
    }
}

#[test]
fn trains_of_a_flow_go_one_at_a_time_each_at_its_time() {
    let (mut sender, id) = sender(8_000_000, 16);
    for (at_ns, bytes) in
        [(0, 7), (9_296_000, 7), (18_592_000, 2)].map(|(at, count)| (at, count * PACKET_BYTES))
    {
        if at_ns > 0 {
            assert!(matches!(sender.step(at_ns - 1), UdpStep::At(due_ns) if due_ns == at_ns));
        }
        let train = train(sender.step(at_ns));
        assert_eq!(train.1.bytes(), bytes);
        assert!(matches!(sender.step(at_ns), UdpStep::Idle), "one train is on its way");
        sent(&mut sender, at_ns, train, false);
    }
    assert!(matches!(sender.step(1 << 40), UdpStep::Idle));
    assert!(sender.is_idle());
    let state = state(&sender, id);
    let counts = state.counts;
    assert_eq!((counts.packets, counts.trains, counts.bytes), (16, 3, 16 * PACKET_BYTES as u64));
    assert_eq!((state.queued_bytes, state.pace.behind_ns_max), (0, 0));
}

#[test]
fn a_schedule_may_begin_at_a_time_to_come() {
    let mut sender = empty_sender();
    let rate_bps = NonZeroU64::new(RATE_BPS).expect("a rate");
    let id = sender.open(to(1), Pacer::starting_at(rate_bps, 5000, 10)).expect("room for a flow");
    sender.offer(id, packets(10)).expect("room");
    assert!(matches!(sender.step(10), UdpStep::At(5000)));
    assert!(matches!(sender.step(4999), UdpStep::At(5000)));
    train(sender.step(5000));
}

#[test]
fn of_flows_that_are_due_the_earliest_goes_first() {
    let mut sender = empty_sender();
    let flows = [8_000_000, 6_000_000, 4_000_000].map(|rate_bps| add(&mut sender, 1, rate_bps, 400));
    for _ in &flows {
        let train = train(sender.step(0));
        sent(&mut sender, 0, train, false);
    }
    // After a stall all flows are due, the fastest since the longest time; then each has its turn.
    let mut due = Vec::new();
    let mut turns = Vec::new();
    let late_ns = 100_000_000;
    while let UdpStep::Push { slot, due_ns, .. } = sender.step(late_ns) {
        due.push(due_ns);
        turns.push(slot);
    }
    assert!(due.is_sorted() && due.len() == 3, "{due:?}");
    turns.sort_unstable();
    turns.dedup();
    assert_eq!(turns.len(), 3, "no flow takes the turn of another");
}

#[test]
fn a_full_socket_is_awaited_once_and_nothing_is_lost_or_overtaken() {
    let mut sender = empty_sender();
    let flows = [1, 2].map(|number| add(&mut sender, number, RATE_BPS, 100));
    let trains = flows.map(|_| train(sender.step(0)));
    let places = trains.each_ref().map(|(slot, train)| (*slot, train.chunks[0].as_ptr()));
    trains.into_iter().for_each(|train| refuse(&mut sender, 0, train, Errno::AGAIN));
    let UdpStep::Push { slot, op: wait @ Op::AwaitWritable { .. }, .. } = sender.step(5) else {
        panic!("it must be awaited")
    };
    assert!(matches!(sender.step(6), UdpStep::Idle), "asked once");
    sender.done(6, slot, done(wait, Ok(4)));
    for place in places {
        let again = train(sender.step(7));
        assert_eq!((again.0, again.1.chunks[0].as_ptr()), place);
        sent(&mut sender, 7, again, false);
    }
    for id in flows {
        let counts = state(&sender, id).counts;
        assert_eq!((counts.waited, counts.trains, counts.refused_packets), (1, 1, 0));
    }
    assert!(sender.next_changed().is_none(), "a full socket is no fault of a flow");
}

#[test]
fn a_device_that_cannot_cut_gets_single_packets() {
    let (mut sender, id) = sender(RATE_BPS, 100);
    let first = train(sender.step(0));
    refuse(&mut sender, 0, first, Errno::IO);
    let again = train(sender.step(1));
    assert_eq!(again.1.bytes(), PACKET_BYTES);
    sent(&mut sender, 1, again, false);
    assert_eq!(state(&sender, id).counts.refused_packets, 0);
}

#[test]
fn a_destination_that_fails_is_reported_once_and_disturbs_no_other_flow() {
    let mut sender = empty_sender();
    let [bad, good] = [1, 2].map(|number| add(&mut sender, number, RATE_BPS, 400));
    let mut now_ns = 0;
    let mut reports = Vec::new();
    let mut refused = 0;
    while !sender.is_idle() {
        match sender.step(now_ns) {
            UdpStep::At(due_ns) => now_ns = due_ns,
            step => {
                let train = train(step);
                match train.1.to == Some(to(1)) && now_ns < 20_000_000 {
                    true => {
                        refused += train.1.bytes() / PACKET_BYTES;
                        refuse(&mut sender, now_ns, train, Errno::NETUNREACH);
                    }
                    false => sent(&mut sender, now_ns, train, false),
                }
            }
        }
        while let Some(id) = sender.next_changed() {
            reports.push((id, matches!(state(&sender, id).fault, Some(SendFault::NoRoute))));
        }
    }
    assert_eq!(reports, [(bad, true), (bad, false)], "it begins to fail, and is sent again");
    let (bad, good) = (state(&sender, bad), state(&sender, good));
    assert_eq!((bad.counts.refused_packets, bad.counts.packets), (refused as u64, 400 - refused as u64));
    assert_eq!((good.counts.refused_packets, good.counts.packets), (0, 400));
    assert_eq!(good.pace.behind_ns_max, 0);
}

#[test]
fn a_fault_says_what_to_do() {
    let said = |errno: Errno| {
        let (mut sender, id) = sender(RATE_BPS, 100);
        let train = train(sender.step(0));
        refuse(&mut sender, 0, train, errno);
        state(&sender, id).fault.map(ToString::to_string).unwrap_or_default()
    };
    assert!(said(Errno::NETUNREACH).contains("ip route add"));
    assert!(said(Errno::PERM).contains("nft list ruleset"));
    assert!(said(Errno::MSGSIZE).contains("1328 bytes") && said(Errno::INVAL).contains("MTU"));
    assert!(said(Errno::NETDOWN).contains("ip link set INTERFACE up"));
    assert!(said(Errno::AFNOSUPPORT).contains("family"));
    assert!(said(Errno::NOBUFS).contains("buffer"));
}

#[test]
fn memory_that_does_not_come_back_stops_its_flow_until_it_does() {
    let (mut sender, id) = sender(RATE_BPS, 780);
    sender.offer(id, packets(700)).expect("two MiB of queue");
    let (mut now_ns, mut lent) = (0, Vec::new());
    loop {
        match sender.step(now_ns) {
            UdpStep::At(due_ns) => now_ns = due_ns,
            UdpStep::Push { slot, op: Op::Train(mut train), .. } => {
                let (bytes, chunks) = (train.bytes(), mem::take(&mut train.chunks));
                sender.done(now_ns, slot, done(Op::Train(train), Ok(bytes)));
                lent.push((slot, chunks));
            }
            _ => break,
        }
    }
    assert_eq!(lent.len(), UDP_LENT_TRAINS_MAX);
    let other = add(&mut sender, 2, RATE_BPS, 10);
    let first = train(sender.step(now_ns));
    sent(&mut sender, now_ns, first, false);
    assert_eq!(state(&sender, other).counts.packets, 10, "other flows continue");
    assert!(matches!(sender.step(now_ns + 1_000_000_000), UdpStep::Idle));
    let (slot, chunks) = lent.remove(0);
    sender.done(now_ns, slot, done(Op::Lent { chunks, copied: false }, Ok(0)));
    assert!(state(&sender, id).counts.lent_bytes > 0);
    train(sender.step(now_ns + 1_000_000_000));
}

#[test]
fn a_path_that_copies_is_not_lent_to_for_long() {
    let (mut sender, id) = sender(RATE_BPS, 780);
    let mut now_ns = 0;
    let mut lent = Vec::new();
    while !sender.is_idle() {
        match sender.step(now_ns) {
            UdpStep::At(due_ns) => now_ns = due_ns,
            step => {
                let train = train(step);
                lent.push(train.1.zero_copy);
                sent(&mut sender, now_ns, train, true);
            }
        }
    }
    assert_eq!(lent.iter().filter(|lent| **lent).count(), UDP_COPIED_IN_ROW as usize, "{lent:?}");
    let counts = state(&sender, id).counts;
    assert_eq!(counts.lent_bytes, 0);
    assert!(counts.copied_after_all_bytes > 0);
}

#[test]
fn a_flow_that_has_enough_refuses_more() {
    let (mut sender, id) = sender(RATE_BPS, 780);
    let more = || Packets::framed(lease(), PACKET_BYTES);
    sender.offer(id, more()).expect("the queue holds two MiB");
    assert!(sender.offer(id, more()).is_err(), "more than its queue may hold");
    assert_eq!(state(&sender, id).queued_bytes, 780 * PACKET_BYTES + (1 << 20));
}

#[test]
fn a_closed_flow_gives_its_memory_back_and_its_slot_is_used_again_only_then() {
    let (mut sender, id) = sender(RATE_BPS, 780);
    let (slot, mut train) = train(sender.step(0));
    let (bytes, chunks) = (train.bytes(), mem::take(&mut train.chunks));
    sender.close(id);
    assert!(sender.flow(id).is_none() && sender.offer(id, packets(1)).is_err());
    assert!(matches!(sender.step(1 << 40), UdpStep::Idle), "what waited was dropped");
    assert!(!sender.is_idle(), "the kernel has a train");
    sender.done(1 << 40, slot, done(Op::Train(train), Ok(bytes)));
    let second = add(&mut sender, 2, RATE_BPS, 1);
    sender.done(1 << 40, slot, done(Op::Lent { chunks, copied: false }, Ok(bytes)));
    let third = add(&mut sender, 3, RATE_BPS, 1);
    assert_eq!(state(&sender, second).to, to(2));
    assert_eq!(state(&sender, third).to, to(3));
    assert!(sender.flow(id).is_none(), "the name of a flow is not that of the next in its slot");
    sender.close(id);
    assert!(sender.flow(third).is_some());
}

#[test]
fn a_clock_that_is_set_back_stops_no_flow() {
    let mut sender = empty_sender();
    let now_ns = 1_000_000_000;
    let rate_bps = NonZeroU64::new(RATE_BPS).expect("a rate");
    let id = sender.open(to(1), Pacer::new(rate_bps, now_ns)).expect("room for a flow");
    sender.offer(id, packets(400)).expect("room");
    let first = train(sender.step(now_ns));
    sent(&mut sender, now_ns, first, false);
    let UdpStep::At(due_ns) = sender.step(now_ns) else { panic!("the next has its own time") };
    let UdpStep::At(moved_ns) = sender.step(5) else { panic!("the schedule has moved") };
    assert_eq!(moved_ns - 5, due_ns - now_ns);
}

#[test]
fn a_sender_has_a_bounded_number_of_flows() {
    let mut sender = empty_sender();
    let flows: Vec<FlowId> =
        (0..UDP_FLOWS_MAX).map(|_| sender.open(to(1), pacer(RATE_BPS)).expect("room")).collect();
    assert!(sender.open(to(1), pacer(RATE_BPS)).is_err());
    sender.close(flows[7]);
    assert!(sender.open(to(1), pacer(RATE_BPS)).is_ok());
}
