//! Streams of one demand share the disks. When one leaves, pauses or seeks, the others keep their
//! reservations.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use proptest::prelude::*;
use reel_qos::limits::{GROUP_EXACT_STREAMS, LAG_ROUNDS_MAX, ROUND_NS};
use reel_qos::{
    Capacities, Class, Demand, DemandStart, DiskDemand, DiskPrice, Ledger, MemberCapacity, ReservationId,
    Resource, SharedReservations,
};
use std::sync::Arc;

const MEMBERS: usize = 2;
const MIB: u64 = 1 << 20;

/// `streams` at once of one read a second from each member: the periodic class has 70 % of a round.
fn machine(streams: u64, arena_bytes: u64) -> SharedReservations {
    let price = DiskPrice {
        read_request_ns: 1_000,
        read_mib_ns: 0,
        write_request_ns: 1,
        write_mib_ns: 1,
        independent_limits: false,
    };
    let member = MemberCapacity { price, round_ns: (streams * 1_000).div_ceil(7) * 10 };
    let capacities = Capacities {
        members: vec![member; MEMBERS],
        network_bytes: 1 << 40,
        core_ns: ROUND_NS,
        core_mib_ns: vec![1],
        local_front_ends: Vec::new(),
        arena_bytes,
    };
    SharedReservations::new(Ledger::new(capacities, 4_000))
}

/// A title with one read of each member and a MiB sent in every round.
fn steady(rounds: usize) -> Arc<Demand> {
    title(&vec![1; rounds])
}

/// This many reads of each member in each round.
fn title(reads: &[u32]) -> Arc<Demand> {
    let reads: Vec<DiskDemand> = reads.iter().map(|&reads| DiskDemand::scattered(reads, MIB)).collect();
    let rounds = reads.len();
    Arc::new(Demand::new(vec![reads; MEMBERS], vec![MIB; rounds], MIB))
}

fn start(from_round: usize, start_round: u64) -> DemandStart {
    DemandStart::new(from_round, start_round)
}

fn open(
    reservations: &mut SharedReservations,
    demand: &Arc<Demand>,
    now: u64,
) -> Result<ReservationId, String> {
    reservations.advance(now);
    reservations
        .admit(Class::PERIODIC, demand, start(0, now), true, "title")
        .map_err(|error| error.to_string())
}

fn disk(reservations: &SharedReservations, round: u64) -> u64 {
    reservations.ledger().used(None, Resource::Member(0), round)
}

/// What is shown where a stream begins would have been sent before, and must be sent now.
#[test]
fn a_stream_that_begins_in_the_middle_is_sent_the_segment_that_is_shown_there() {
    let mut reservations = machine(10, 4_000 * MIB);
    let title = Arc::new(Demand::clone(&steady(60)).in_segments(4));
    let sent = |reservations: &SharedReservations| -> Vec<u64> {
        let ledger = reservations.ledger();
        (100..108).map(|round| ledger.used(None, Resource::Network, round) / MIB).collect()
    };
    reservations.advance(100);
    let admit = |reservations: &mut SharedReservations, from_round| {
        let start = start(from_round, 100);
        reservations.admit(Class::PERIODIC, &title, start, false, "title").unwrap()
    };
    let middle = admit(&mut reservations, 20);
    assert_eq!(sent(&reservations), [2, 2, 2, 2, 1, 1, 1, 1]);
    reservations.release(middle);
    let stream = admit(&mut reservations, 0);
    assert_eq!(sent(&reservations), [1; 8]);
    // A client that is a little late has what it shows, and one that jumps has not.
    reservations.change(stream, &title, start(0, 101), false).unwrap();
    assert_eq!(sent(&reservations), [0, 1, 1, 1, 1, 1, 1, 1]);
    reservations.change(stream, &title, start(40, 100), false).unwrap();
    assert_eq!(sent(&reservations), [2, 2, 2, 2, 1, 1, 1, 1]);
    assert!(reservations.adds_up());
}

#[test]
fn a_thousand_viewers_of_one_title_cost_the_disks_one() {
    let (mut reservations, title) = (machine(1, 4_000 * MIB), steady(600));
    for viewer in 0..1_000 {
        open(&mut reservations, &title, 100 + viewer * 60 / 1_000).unwrap();
    }
    assert_eq!(reservations.counts(), (1_000, 1));
    assert!(reservations.adds_up());
    for round in 160..700 {
        assert_eq!(disk(&reservations, round), 1_000, "round {round}");
    }
    // For another title nothing is left.
    assert!(open(&mut reservations, &steady(600), 160).unwrap_err().contains("member 0 is fully reserved"));
    // And when all have seen it, nothing is held.
    reservations.advance(760);
    assert_eq!((reservations.counts(), reservations.interval_bytes()), ((0, 0), 0));
    assert!(reservations.ledger().reservations().len() == 0);
}

#[test]
fn memory_decides_which_streams_can_follow() {
    // Half of 400 MiB may hold intervals: 40 rounds of reach, a window, and 159 more.
    let (mut reservations, title) = (machine(2, 400 * MIB), steady(1_000));
    open(&mut reservations, &title, 0).unwrap();
    open(&mut reservations, &title, 159).unwrap();
    assert_eq!((reservations.counts(), reservations.interval_bytes()), ((2, 1), 200 * MIB));
    // One more round behind is too far: it needs disks of its own, and the next one finds none.
    open(&mut reservations, &title, 160).unwrap();
    assert_eq!((disk(&reservations, 500), reservations.counts()), (2_000, (3, 1)));
    assert!(open(&mut reservations, &title, 330).is_err());
    assert!(reservations.adds_up());
}

#[test]
fn no_stream_follows_from_too_far_behind() {
    let (mut reservations, title) = (machine(9, 1 << 40), steady(2_000));
    open(&mut reservations, &title, 0).unwrap();
    open(&mut reservations, &title, LAG_ROUNDS_MAX as u64 + 1).unwrap();
    assert_eq!(reservations.counts(), (2, 0));
}

#[test]
fn a_first_stream_that_ends_leaves_the_disks_to_the_next() {
    let (mut reservations, title) = (machine(1, 4_000 * MIB), steady(600));
    let leader = open(&mut reservations, &title, 0).unwrap();
    let next = open(&mut reservations, &title, 20).unwrap();
    let last = open(&mut reservations, &title, 50).unwrap();
    reservations.advance(100);
    assert!(reservations.release(leader) && !reservations.release(leader));
    assert!(reservations.adds_up());
    assert_eq!((disk(&reservations, 300), disk(&reservations, 649)), (1_000, 1_000));
    // The middle one goes: the last one is alone, to its end, and holds no interval any more.
    reservations.release(next);
    assert_eq!((reservations.counts(), reservations.interval_bytes()), ((1, 0), 0));
    assert_eq!((disk(&reservations, 649), disk(&reservations, 650)), (1_000, 0));
    assert!(reservations.release(last) && reservations.adds_up());
    assert_eq!(disk(&reservations, 300), 0);
}

#[test]
fn a_first_stream_that_seeks_is_admitted_again() {
    let (mut reservations, title) = (machine(1, 4_000 * MIB), steady(2_000));
    let leader = open(&mut reservations, &title, 0).unwrap();
    let follower = open(&mut reservations, &title, 20).unwrap();
    reservations.advance(100);
    // Too far for the follower's memory, and the disks are the follower's then.
    let refused = reservations.change(leader, &title, start(1_500, 100), true).unwrap_err();
    assert!(refused.to_string().contains("member 0 is fully reserved"), "{refused}");
    assert_eq!(reservations.counts(), (2, 1), "it keeps what it had");
    assert!(reservations.adds_up());
    // A little back it follows itself.
    reservations.change(leader, &title, start(60, 100), true).unwrap();
    assert!(reservations.adds_up());
    assert_eq!((disk(&reservations, 101), reservations.counts()), (1_000, (2, 1)));
    reservations.release(follower);
    reservations.change(leader, &title, start(1_500, 100), true).unwrap();
    assert_eq!((disk(&reservations, 599), disk(&reservations, 600)), (1_000, 0));
}

#[test]
fn a_single_stream_that_takes_a_lower_rendition_is_not_refused_under_overcommitment() {
    let (mut reservations, high) = (machine(4, 4_000 * MIB), title(&[3; 300]));
    let viewer = open(&mut reservations, &high, 0).unwrap();
    let mut less = reservations.ledger().capacities().clone();
    less.members.iter_mut().for_each(|member| member.round_ns = 1);
    assert!(!reservations.set_capacities(less).is_empty());
    reservations.change(viewer, &title(&[2; 300]), start(10, 10), true).unwrap();
    assert_eq!(disk(&reservations, 20), 2_000);
}

#[test]
fn a_stream_ahead_or_with_a_gap_before_it_reads_for_itself() {
    let (mut reservations, title) = (machine(2, 4_000 * MIB), steady(600));
    open(&mut reservations, &title, 100).unwrap();
    // Fifty rounds on: the data in between has to be read by the stream behind, whatever is ahead.
    let ahead = reservations.admit(Class::PERIODIC, &title, start(50, 100), true, "title").unwrap();
    assert_eq!((disk(&reservations, 200), reservations.counts()), (2_000, (2, 0)));
    let behind = reservations.admit(Class::PERIODIC, &title, start(0, 100), false, "title");
    assert!(behind.is_err(), "what lies between is not in memory, and the disks are full");
    reservations.release(ahead);
    reservations.admit(Class::PERIODIC, &title, start(0, 100), false, "title").unwrap();
    assert_eq!(reservations.counts(), (2, 0));
    assert!(reservations.adds_up());
}

#[test]
fn streams_that_began_together_can_meet_another_group() {
    let (mut reservations, title) = (machine(4, 4_000 * MIB), steady(600));
    let mut begin = |now, is_held| {
        reservations.advance(now);
        reservations.admit(Class::PERIODIC, &title, start(0, now), is_held, "title").unwrap()
    };
    // The beginning is no longer in memory when the second one comes; a third one follows that in
    // the same second.
    let (first, second, _third) = (begin(10, true), begin(110, false), begin(110, true));
    let meeting = reservations.next_meeting(0).unwrap();
    assert_eq!((meeting.ahead, meeting.behind), (first, reservations.group_of(second).unwrap()));
    assert!(reservations.merge(&meeting) && reservations.adds_up());
    assert_eq!((reservations.counts(), reservations.next_meeting(0)), ((3, 1), None));
}

#[test]
fn without_a_known_size_of_memory_no_stream_follows() {
    let (mut reservations, title) = (machine(1, reel_qos::UNLIMITED), steady(100));
    open(&mut reservations, &title, 0).unwrap();
    assert!(open(&mut reservations, &title, 1).is_err());
}

/// How many viewers are admitted that come to one of `titles` titles in turn, `apart` rounds one
/// after another, if `follows` decides which of them are charged with memory.
fn admitted(
    (disks, memory_mib): (u64, u64),
    (titles, apart): (usize, u64),
    follows: impl Fn(&SharedReservations, &Demand, u64, DemandStart) -> bool,
) -> usize {
    let mut reservations = machine(disks, memory_mib * MIB);
    let titles: Vec<Arc<Demand>> = (0..titles).map(|_| steady(600)).collect();
    let mut now = 0;
    for count in 0..2_000 {
        reservations.advance(now);
        let (title, at) = (&titles[count % titles.len()], start(0, now));
        let ahead = reservations.next_ahead(Class::PERIODIC, title, at, None);
        let is_held = ahead.is_some_and(|ahead| follows(&reservations, title, ahead.group, at));
        if reservations.admit(Class::PERIODIC, title, at, is_held, "title").is_err() {
            return count;
        }
        now += if count % titles.len() + 1 == titles.len() { apart } else { 0 };
        if now > 500 {
            return count;
        }
    }
    2_000
}

#[test]
fn charging_the_plentiful_resource_leaves_room_for_others() {
    for (disks, memory_mib) in
        [10, 100, 1_000].into_iter().flat_map(|disks| [200, 400, 1_000, 4_000].map(|mib| (disks, mib)))
    {
        for crowd in [(1, 0), (1, 5), (10, 0), (10, 2), (10, 20), (50, 5)] {
            let count = |follows: fn(&SharedReservations, &Demand, u64, DemandStart) -> bool| {
                admitted((disks, memory_mib), crowd, follows)
            };
            let best = count(|_, _, _, _| false).max(count(|_, _, _, _| true));
            let weighed = count(|reservations, title, group, at| {
                reservations.is_worth_following(Class::PERIODIC, title, group, at)
            });
            assert!(
                weighed * 100 >= best * 85,
                "{weighed} of {best}: {disks} streams, {memory_mib} MiB, {crowd:?}"
            );
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Leave { which: usize },
    Open { title: usize, from_round: usize, is_held: bool },
    Change { which: usize, title: usize, from_round: usize },
    Release { which: usize },
    Meet { from: u64 },
    Advance { rounds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let (title, from_round) = (0..4_usize, 0..60_usize);
    prop_oneof![
        10 => (title.clone(), from_round.clone(), prop::bool::weighted(0.8))
            .prop_map(|(title, from_round, is_held)| Step::Open { title, from_round, is_held }),
        4 => (any::<usize>(), title, from_round)
            .prop_map(|(which, title, from_round)| Step::Change { which, title, from_round }),
        3 => any::<usize>().prop_map(|which| Step::Release { which }),
        3 => any::<usize>().prop_map(|which| Step::Leave { which }),
        4 => (0..20_u64).prop_map(|from| Step::Meet { from }),
        4 => (0..6_u64).prop_map(|rounds| Step::Advance { rounds }),
    ]
}

/// In the first, a stream that reads for others needs more, and takes more memory than is sent. In
/// the second, only a part is shared; the fourth is the demand of a stream that plays something
/// else in place of that part.
fn titles() -> impl Strategy<Value = Vec<Arc<Demand>>> {
    prop::collection::vec(prop::collection::vec(0..4_u32, 40..80), 3).prop_map(|titles| {
        let mut all: Vec<Arc<Demand>> = titles.iter().map(|reads| title(reads)).collect();
        let more: Vec<u32> = titles[0].iter().map(|reads| reads + reads % 2).collect();
        let reads: Vec<DiskDemand> = more.iter().map(|&reads| DiskDemand::scattered(reads, MIB)).collect();
        let shared = Demand::new(vec![reads; MEMBERS], vec![2 * MIB; more.len()], MIB);
        all[0] = Arc::new(Demand::clone(&all[0]).with_shared(&shared, &nothing(), &nothing()));
        let (ladder, lower) = ladder(&titles[1]);
        all[1] = ladder;
        all.push(lower);
        all
    })
}

fn nothing() -> Demand {
    Demand::peak_of(&[])
}

/// These reads of each member in each round, one of them, if any, always of something that cannot
/// be shared. And what is left of them if half of what can be shared is read in its place.
fn ladder(reads: &[u32]) -> (Arc<Demand>, Arc<Demand>) {
    let of = |reads: &dyn Fn(u32) -> u32, all: &[u32]| {
        let reads = all.iter().map(|&all| DiskDemand { bytes: 0, ..DiskDemand::scattered(reads(all), 0) });
        Demand::new(vec![reads.collect(); MEMBERS], vec![MIB; all.len()], MIB)
    };
    let (part, instead) =
        (of(&|all| all.saturating_sub(1), reads), of(&|all| all.saturating_sub(1) / 2, reads));
    let always = of(&|all| all.min(1), reads);
    let lower = of(&|all| all.saturating_sub(1) / 2 + all.min(1), reads);
    let whole = of(&|all| all, reads);
    (Arc::new(whole.with_shared(&part, &instead, &always)), Arc::new(lower))
}

#[test]
fn a_stream_that_shares_a_part_holds_the_rest_and_leaves_without_refusal() {
    // Nine reads a round: four of the shared part, two in its place, one always.
    let (high, lower) = ladder(&[5; 600]);
    let mut reservations = machine(11, 4_000 * MIB);
    let all: Vec<ReservationId> =
        (0..3).map(|viewer| open(&mut reservations, &high, viewer * 10).unwrap()).collect();
    // One of them reads the shared part, and need not hold what it would read in its place; the
    // others must.
    assert_eq!((disk(&reservations, 50), reservations.counts()), ((4 + 2 * 2 + 3) * 1_000, (3, 1)));
    assert!(open(&mut reservations, &high, 30).is_err(), "no room for what it would hold for itself");
    assert!(reservations.adds_up());
    // The first stream takes something else: it has what it needs, though nothing is free. The next
    // one reads for the last.
    reservations.leave(all[0], &lower).unwrap();
    assert_eq!((disk(&reservations, 50), reservations.counts()), (11_000, (3, 1)));
    assert!(reservations.adds_up() && !reservations.is_sharing(all[0]) && reservations.is_sharing(all[2]));
    // The last one is charged with the whole again, as a stream without others. Nothing happens to
    // it if it leaves none.
    reservations.leave(all[1], &lower).unwrap();
    assert_eq!((disk(&reservations, 50), reservations.counts()), ((3 + 3 + 5) * 1_000, (3, 0)));
    reservations.leave(all[2], &lower).unwrap();
    assert_eq!(disk(&reservations, 50), 11_000);
    all.iter().for_each(|stream| assert!(reservations.release(*stream)));
    assert_eq!((disk(&reservations, 50), reservations.adds_up()), (0, true));
}

#[test]
fn a_stream_that_reads_for_others_needs_more_only_while_there_are_others() {
    let reads = |count| vec![DiskDemand::scattered(count, MIB); 100];
    let shared = Demand::new(vec![reads(2); MEMBERS], vec![2 * MIB; 100], MIB);
    let title = Arc::new(Demand::clone(&steady(100)).with_shared(&shared, &nothing(), &nothing()));
    let mut reservations = machine(2, 4_000 * MIB);
    open(&mut reservations, &title, 0).unwrap();
    assert_eq!(disk(&reservations, 50), 1_000);
    let follower = open(&mut reservations, &title, 10).unwrap();
    assert_eq!(disk(&reservations, 50), 2_000);
    // What is sent in fifty rounds takes twice as much memory; a window of it is as large.
    assert_eq!(reservations.interval_bytes(), (10 + 40) * 2 * MIB + MIB);
    assert_eq!(
        reservations.interval_bytes_with(reservations.group_of(follower).unwrap(), start(0, 15)),
        111 * MIB
    );
    reservations.release(follower);
    assert_eq!((disk(&reservations, 50), reservations.interval_bytes()), (1_000, 0));
    assert!(reservations.adds_up());
}

/// Nothing but reads of each member in each round.
fn reads(reads: &[u32]) -> Demand {
    let all: Vec<DiskDemand> = reads.iter().map(|&reads| DiskDemand::scattered(reads, 0)).collect();
    Demand::new(vec![all; MEMBERS], vec![MIB; reads.len()], MIB)
}

/// Four reads a round, two of something lower, and none that cannot be shared.
fn halved() -> (Arc<Demand>, Arc<Demand>) {
    let lower = reads(&[2; 600]);
    (Arc::new(reads(&[4; 600]).with_shared(&reads(&[4; 600]), &lower, &nothing())), Arc::new(lower))
}

#[test]
fn a_stream_that_left_returns_at_capacity_with_what_it_kept() {
    let (high, lower) = halved();
    let mut reservations = machine(6, 4_000 * MIB);
    open(&mut reservations, &high, 0).unwrap();
    let last = open(&mut reservations, &high, 10).unwrap();
    reservations.advance(20);
    reservations.leave(last, &lower).unwrap();
    assert_eq!(disk(&reservations, 50), 6_000);
    reservations.change(last, &high, start(10, 20), true).unwrap();
    assert_eq!(
        (disk(&reservations, 50), reservations.is_sharing(last), reservations.adds_up()),
        (6_000, true, true)
    );
}

#[test]
fn a_stream_that_leaves_is_not_refused_under_overcommitment() {
    let (high, lower) = halved();
    let mut reservations = machine(12, 4_000 * MIB);
    let all: Vec<_> = (0..3).map(|number| open(&mut reservations, &high, number * 10).unwrap()).collect();
    let mut less = reservations.ledger().capacities().clone();
    less.members.iter_mut().for_each(|member| member.round_ns = 1);
    assert!(!reservations.set_capacities(less).is_empty());
    reservations.leave(all[1], &lower).unwrap();
    assert_eq!((reservations.counts(), reservations.adds_up()), ((3, 1), true));
    // What it did not hold is refused as to any other stream.
    assert!(reservations.change(all[1], &high, start(5, 20), false).is_err());
}

#[test]
fn no_stream_follows_where_that_saves_nothing() {
    // What is read in place of the shared part is as much.
    let demand = Arc::new(reads(&[4; 600]).with_shared(&reads(&[5; 600]), &reads(&[4; 600]), &nothing()));
    let mut reservations = machine(100, 4_000 * MIB);
    let leader = open(&mut reservations, &demand, 0).unwrap();
    let group = reservations.group_of(leader).unwrap();
    assert!(!reservations.is_worth_following(Class::PERIODIC, &demand, group, start(0, 10)));
    let halved = halved().0;
    let leader = open(&mut reservations, &halved, 0).unwrap();
    let group = reservations.group_of(leader).unwrap();
    assert!(reservations.is_worth_following(Class::PERIODIC, &halved, group, start(0, 10)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever streams come, seek and go: the ledger is the sum of the reservations, every stream
    /// has its disks from its group, no resource is overcommitted, a refusal changes nothing, and
    /// no group is charged more than its streams would be one by one.
    #[test]
    fn no_stream_is_ever_without_disks(
        titles in titles(), memory in 60..400_u64, disks in 2..12_u64, steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut reservations = machine(disks, memory * MIB);
        let (mut held, mut now): (Vec<(ReservationId, usize)>, u64) = (Vec::new(), 1_000);
        reservations.advance(now);
        for step in steps {
            match step {
                Step::Open { title, from_round, is_held } => {
                    let place = start(from_round, now);
                    let opened = reservations.admit(Class::PERIODIC, &titles[title], place, is_held, "title");
                    held.extend(opened.ok().map(|stream| (stream, title)));
                }
                Step::Change { which, title, from_round } if !held.is_empty() => {
                    let before = (reservations.counts(), reservations.interval_bytes(), disk(&reservations, now + 5));
                    let which = which % held.len();
                    if reservations.change(held[which].0, &titles[title], start(from_round, now), true).is_err() {
                        let after = (reservations.counts(), reservations.interval_bytes(), disk(&reservations, now + 5));
                        prop_assert_eq!(before, after);
                    } else {
                        held[which].1 = title;
                    }
                }
                Step::Release { which } if !held.is_empty() => {
                    let (stream, _) = held.swap_remove(which % held.len());
                    reservations.release(stream);
                }
                Step::Leave { which } if !held.is_empty() => {
                    let which = which % held.len();
                    let (stream, title) = held[which];
                    if title == 1 && reservations.is_sharing(stream) {
                        prop_assert!(reservations.leave(stream, &titles[3]).is_ok());
                        prop_assert!(!reservations.is_sharing(stream));
                        held[which].1 = 3;
                    }
                }
                Step::Meet { from } => {
                    let state = |reservations: &SharedReservations| {
                        let asked: Vec<u64> = (now..now + 90).map(|round| disk(reservations, round)).collect();
                        (reservations.counts(), reservations.followers(), reservations.interval_bytes(), asked)
                    };
                    let before = state(&reservations);
                    if let Some(meeting) = reservations.next_meeting(from) {
                        let with_bytes = reservations.interval_bytes_merged(&meeting);
                        if reservations.merge(&meeting) {
                            prop_assert_eq!(reservations.followers(), before.1 + 1);
                            prop_assert_eq!(reservations.interval_bytes(), with_bytes);
                            prop_assert_eq!(reservations.group_of(meeting.leader), reservations.group_of(meeting.ahead));
                        } else {
                            prop_assert_eq!(before, state(&reservations));
                        }
                    }
                }
                Step::Advance { rounds } => {
                    now += rounds;
                    reservations.advance(now);
                }
                Step::Change { .. } | Step::Release { .. } | Step::Leave { .. } => {}
            }
            prop_assert!(reservations.adds_up());
            prop_assert!(reservations.ledger().over_committed().is_empty());
            prop_assert!(reservations.interval_bytes() <= memory * MIB / 2);
        }
        for (stream, _) in held {
            reservations.release(stream);
        }
        prop_assert_eq!((reservations.counts(), reservations.interval_bytes()), ((0, 0), 0));
        prop_assert_eq!(reservations.ledger().reservations().len(), 0);
    }

    /// Many in one place: the charge for all places between the ends covers each of them, and is
    /// not above the largest demand of the title anywhere.
    #[test]
    fn a_large_group_is_charged_with_the_most_between_its_ends(reads in prop::collection::vec(0..9_u32, 40..120)) {
        let title = title(&reads);
        let mut reservations = machine(9, 1 << 30);
        for viewer in 0..GROUP_EXACT_STREAMS as u64 * 2 {
            open(&mut reservations, &title, viewer / 2).unwrap();
            prop_assert!(reservations.adds_up());
        }
        prop_assert_eq!(reservations.counts().1, 1);
        let most = u64::from(reads.iter().copied().max().unwrap()) * 1_000;
        for round in 10..160 {
            prop_assert!(disk(&reservations, round) <= most);
        }
    }
}
