//! Streams of one demand share the disks; whoever leaves, pauses or seeks, those who stay keep what they were promised.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use proptest::prelude::*;
use reel_qos::limits::{CHAIN_EXACT_STREAMS, LAG_ROUNDS_MAX, ROUND_NS};
use reel_qos::{
    Capacities, Chains, Class, Demand, DiskDemand, DiskPrice, Ledger, MemberCapacity, ReservationId, Resource,
};
use std::sync::Arc;

const MEMBERS: usize = 2;
const MIB: u64 = 1 << 20;

/// `streams` at once of one read a second from each member: the periodic class has 70 % of a round.
fn machine(streams: u64, arena_bytes: u64) -> Chains {
    let price = DiskPrice {
        read_request_ns: 1_000,
        read_mib_ns: 0,
        write_request_ns: 1,
        write_mib_ns: 1,
        apart: false,
    };
    let member = MemberCapacity { price, round_ns: (streams * 1_000).div_ceil(7) * 10 };
    let capacities = Capacities {
        members: vec![member; MEMBERS],
        network_bytes: 1 << 40,
        core_ns: ROUND_NS,
        core_mib_ns: 1,
        arena_bytes,
    };
    Chains::new(Ledger::new(capacities, 4_000))
}

/// A film that asks a read of each member and sends a MiB in every round.
fn steady(rounds: usize) -> Arc<Demand> {
    film(&vec![1; rounds])
}

/// So many reads of each member in each round.
fn film(reads: &[u32]) -> Arc<Demand> {
    let reads: Vec<DiskDemand> = reads.iter().map(|&reads| DiskDemand::scattered(reads, MIB)).collect();
    let rounds = reads.len();
    Arc::new(Demand::new(vec![reads; MEMBERS], vec![MIB; rounds], MIB))
}

fn open(chains: &mut Chains, demand: &Arc<Demand>, now: u64) -> Result<ReservationId, String> {
    chains.advance(now);
    chains.admit(Class::PERIODIC, demand, (0, now), true, "film").map_err(|error| error.to_string())
}

fn disk(chains: &Chains, round: u64) -> u64 {
    chains.ledger().used(None, Resource::Member(0), round)
}

#[test]
fn a_thousand_viewers_of_one_title_cost_the_disks_one() {
    let (mut chains, film) = (machine(1, 4_000 * MIB), steady(600));
    for viewer in 0..1_000 {
        open(&mut chains, &film, 100 + viewer * 60 / 1_000).unwrap();
    }
    assert_eq!(chains.counts(), (1_000, 1));
    assert!(chains.adds_up());
    for round in 160..700 {
        assert_eq!(disk(&chains, round), 1_000, "round {round}");
    }
    // Of another title there is nothing left to give.
    assert!(open(&mut chains, &steady(600), 160).unwrap_err().contains("member 0 is fully promised"));
    // And when all have seen it, nothing is held.
    chains.advance(760);
    assert_eq!((chains.counts(), chains.interval_bytes()), ((0, 0), 0));
    assert!(chains.ledger().reservations().len() == 0);
}

#[test]
fn memory_says_who_can_follow() {
    // Half of 400 MiB may hold intervals: 40 rounds of reach, a window, and 159 more.
    let (mut chains, film) = (machine(2, 400 * MIB), steady(1_000));
    open(&mut chains, &film, 0).unwrap();
    open(&mut chains, &film, 159).unwrap();
    assert_eq!((chains.counts(), chains.interval_bytes()), ((2, 1), 200 * MIB));
    // One more round behind is too far: it needs disks of its own, and the next one finds none.
    open(&mut chains, &film, 160).unwrap();
    assert_eq!((disk(&chains, 500), chains.counts()), (2_000, (3, 1)));
    assert!(open(&mut chains, &film, 330).is_err());
    assert!(chains.adds_up());
}

#[test]
fn nobody_follows_from_farther_than_is_sensible() {
    let (mut chains, film) = (machine(9, 1 << 40), steady(2_000));
    open(&mut chains, &film, 0).unwrap();
    open(&mut chains, &film, LAG_ROUNDS_MAX as u64 + 1).unwrap();
    assert_eq!(chains.counts(), (2, 0));
}

#[test]
fn a_leader_who_goes_leaves_the_disks_to_the_next() {
    let (mut chains, film) = (machine(1, 4_000 * MIB), steady(600));
    let leader = open(&mut chains, &film, 0).unwrap();
    let next = open(&mut chains, &film, 20).unwrap();
    let last = open(&mut chains, &film, 50).unwrap();
    chains.advance(100);
    assert!(chains.release(leader) && !chains.release(leader));
    assert!(chains.adds_up());
    assert_eq!((disk(&chains, 300), disk(&chains, 649)), (1_000, 1_000));
    // The middle one goes: the last one is alone, to its end, and holds no interval any more.
    chains.release(next);
    assert_eq!((chains.counts(), chains.interval_bytes()), ((1, 0), 0));
    assert_eq!((disk(&chains, 649), disk(&chains, 650)), (1_000, 0));
    assert!(chains.release(last) && chains.adds_up());
    assert_eq!(disk(&chains, 300), 0);
}

#[test]
fn it_is_the_leader_who_seeks_that_asks_anew() {
    let (mut chains, film) = (machine(1, 4_000 * MIB), steady(2_000));
    let leader = open(&mut chains, &film, 0).unwrap();
    let follower = open(&mut chains, &film, 20).unwrap();
    chains.advance(100);
    // Too far for the follower's memory, and the disks are the follower's then.
    let refused = chains.change(leader, &film, (1_500, 100), true).unwrap_err();
    assert!(refused.to_string().contains("member 0 is fully promised"), "{refused}");
    assert_eq!(chains.counts(), (2, 1), "he keeps what he had");
    assert!(chains.adds_up());
    // A little back he is a follower himself.
    chains.change(leader, &film, (60, 100), true).unwrap();
    assert!(chains.adds_up());
    assert_eq!((disk(&chains, 101), chains.counts()), (1_000, (2, 1)));
    chains.release(follower);
    chains.change(leader, &film, (1_500, 100), true).unwrap();
    assert_eq!((disk(&chains, 599), disk(&chains, 600)), (1_000, 0));
}

#[test]
fn who_steps_down_alone_is_not_refused_though_too_much_is_promised() {
    let (mut chains, high) = (machine(4, 4_000 * MIB), film(&[3; 300]));
    let viewer = open(&mut chains, &high, 0).unwrap();
    let mut less = chains.ledger().capacities().clone();
    less.members.iter_mut().for_each(|member| member.round_ns = 1);
    assert!(!chains.set_capacities(less).is_empty());
    chains.change(viewer, &film(&[2; 300]), (10, 10), true).unwrap();
    assert_eq!(disk(&chains, 20), 2_000);
}

#[test]
fn who_is_ahead_or_finds_a_gap_reads_for_himself() {
    let (mut chains, film) = (machine(2, 4_000 * MIB), steady(600));
    open(&mut chains, &film, 100).unwrap();
    // Fifty rounds on: what lies between has to be read by the one behind, whoever is ahead.
    let ahead = chains.admit(Class::PERIODIC, &film, (50, 100), true, "film").unwrap();
    assert_eq!((disk(&chains, 200), chains.counts()), (2_000, (2, 0)));
    let behind = chains.admit(Class::PERIODIC, &film, (0, 100), false, "film");
    assert!(behind.is_err(), "what lies between is not in memory, and the disks are full");
    chains.release(ahead);
    chains.admit(Class::PERIODIC, &film, (0, 100), false, "film").unwrap();
    assert_eq!(chains.counts(), (2, 0));
    assert!(chains.adds_up());
}

#[test]
fn who_began_together_can_meet_another_chain() {
    let (mut chains, film) = (machine(4, 4_000 * MIB), steady(600));
    let mut begin = |now, is_held| {
        chains.advance(now);
        chains.admit(Class::PERIODIC, &film, (0, now), is_held, "film").unwrap()
    };
    // The beginning is not in memory any more when the second one comes, whom a third one follows in the same second.
    let (first, second, _third) = (begin(10, true), begin(110, false), begin(110, true));
    let meeting = chains.next_meeting(0).unwrap();
    assert_eq!((meeting.ahead, meeting.behind), (first, chains.chain_of(second).unwrap()));
    assert!(chains.merge(&meeting) && chains.adds_up());
    assert_eq!((chains.counts(), chains.next_meeting(0)), ((3, 1), None));
}

#[test]
fn without_a_count_of_memory_nobody_follows() {
    let (mut chains, film) = (machine(1, reel_qos::UNLIMITED), steady(100));
    open(&mut chains, &film, 0).unwrap();
    assert!(open(&mut chains, &film, 1).is_err());
}

/// How many viewers are let in who come to one of `films` titles in turn, `apart` rounds one after another, if `follows` says who is charged with memory.
fn let_in(
    (disks, memory_mib): (u64, u64),
    (films, apart): (usize, u64),
    follows: impl Fn(&Chains, &Demand, u64, (usize, u64)) -> bool,
) -> usize {
    let mut chains = machine(disks, memory_mib * MIB);
    let films: Vec<Arc<Demand>> = (0..films).map(|_| steady(600)).collect();
    let mut now = 0;
    for count in 0..2_000 {
        chains.advance(now);
        let (film, at) = (&films[count % films.len()], (0, now));
        let ahead = chains.next_ahead(Class::PERIODIC, film, at, None);
        let is_held = ahead.is_some_and(|(_, chain)| follows(&chains, film, chain, at));
        if chains.admit(Class::PERIODIC, film, at, is_held, "film").is_err() {
            return count;
        }
        now += if count % films.len() + 1 == films.len() { apart } else { 0 };
        if now > 500 {
            return count;
        }
    }
    2_000
}

#[test]
fn whoever_is_charged_with_what_is_plentiful_leaves_room_for_others() {
    for (disks, memory_mib) in
        [10, 100, 1_000].into_iter().flat_map(|disks| [200, 400, 1_000, 4_000].map(|mib| (disks, mib)))
    {
        for crowd in [(1, 0), (1, 5), (10, 0), (10, 2), (10, 20), (50, 5)] {
            let count = |follows: fn(&Chains, &Demand, u64, (usize, u64)) -> bool| {
                let_in((disks, memory_mib), crowd, follows)
            };
            let best = count(|_, _, _, _| false).max(count(|_, _, _, _| true));
            let weighed =
                count(|chains, film, chain, at| chains.is_worth_following(Class::PERIODIC, film, chain, at));
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
    Open { film: usize, from_round: usize, is_held: bool },
    Change { which: usize, film: usize, from_round: usize },
    Release { which: usize },
    Meet { from: u64 },
    Advance { rounds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let (film, from_round) = (0..4_usize, 0..60_usize);
    prop_oneof![
        10 => (film.clone(), from_round.clone(), prop::bool::weighted(0.8))
            .prop_map(|(film, from_round, is_held)| Step::Open { film, from_round, is_held }),
        4 => (any::<usize>(), film, from_round)
            .prop_map(|(which, film, from_round)| Step::Change { which, film, from_round }),
        3 => any::<usize>().prop_map(|which| Step::Release { which }),
        3 => any::<usize>().prop_map(|which| Step::Leave { which }),
        4 => (0..20_u64).prop_map(|from| Step::Meet { from }),
        4 => (0..6_u64).prop_map(|rounds| Step::Advance { rounds }),
    ]
}

/// Films: of the first, who reads for others asks more, and takes more memory than is sent; of the second, a part alone is shared, and the fourth is what is
/// asked by whoever plays something else in place of that part.
fn films() -> impl Strategy<Value = Vec<Arc<Demand>>> {
    prop::collection::vec(prop::collection::vec(0..4_u32, 40..80), 3).prop_map(|films| {
        let mut all: Vec<Arc<Demand>> = films.iter().map(|reads| film(reads)).collect();
        let more: Vec<u32> = films[0].iter().map(|reads| reads + reads % 2).collect();
        let reads: Vec<DiskDemand> = more.iter().map(|&reads| DiskDemand::scattered(reads, MIB)).collect();
        let shared = Demand::new(vec![reads; MEMBERS], vec![2 * MIB; more.len()], MIB);
        all[0] = Arc::new(Demand::clone(&all[0]).with_shared(&shared, &nothing(), &nothing()));
        let (ladder, lower) = ladder(&films[1]);
        all[1] = ladder;
        all.push(lower);
        all
    })
}

fn nothing() -> Demand {
    Demand::peak_of(&[])
}

/// So many reads of each member in each round, one of them, if any, always of something else than what can be shared; and what is left of them if half of what
/// can be shared is read in its place.
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
fn who_shares_a_part_keeps_the_rest_to_himself_and_leaves_unrefused() {
    // Nine reads a round: four of the shared part, two in its place, one always.
    let (high, lower) = ladder(&[5; 600]);
    let mut chains = machine(11, 4_000 * MIB);
    let all: Vec<ReservationId> =
        (0..3).map(|viewer| open(&mut chains, &high, viewer * 10).unwrap()).collect();
    // One of them reads the shared part, and need not hold what it would read in its place; the others may.
    assert_eq!((disk(&chains, 50), chains.counts()), ((4 + 2 * 2 + 3) * 1_000, (3, 1)));
    assert!(open(&mut chains, &high, 30).is_err(), "no room for what he would hold for himself");
    assert!(chains.adds_up());
    // The leader takes something else: what he asks, he has, though nothing is free; the next one reads for the last.
    chains.leave(all[0], &lower).unwrap();
    assert_eq!((disk(&chains, 50), chains.counts()), (11_000, (3, 1)));
    assert!(chains.adds_up() && !chains.is_sharing(all[0]) && chains.is_sharing(all[2]));
    // And the last one is charged with the whole again, as one who is alone; nothing happens to him if he leaves nobody.
    chains.leave(all[1], &lower).unwrap();
    assert_eq!((disk(&chains, 50), chains.counts()), ((3 + 3 + 5) * 1_000, (3, 0)));
    chains.leave(all[2], &lower).unwrap();
    assert_eq!(disk(&chains, 50), 11_000);
    all.iter().for_each(|stream| assert!(chains.release(*stream)));
    assert_eq!((disk(&chains, 50), chains.adds_up()), (0, true));
}

#[test]
fn who_reads_for_others_asks_more_only_while_there_are_others() {
    let reads = |count| vec![DiskDemand::scattered(count, MIB); 100];
    let shared = Demand::new(vec![reads(2); MEMBERS], vec![2 * MIB; 100], MIB);
    let film = Arc::new(Demand::clone(&steady(100)).with_shared(&shared, &nothing(), &nothing()));
    let mut chains = machine(2, 4_000 * MIB);
    open(&mut chains, &film, 0).unwrap();
    assert_eq!(disk(&chains, 50), 1_000);
    let follower = open(&mut chains, &film, 10).unwrap();
    assert_eq!(disk(&chains, 50), 2_000);
    // What is sent in fifty rounds takes twice as much memory; a window of it is as large.
    assert_eq!(chains.interval_bytes(), (10 + 40) * 2 * MIB + MIB);
    assert_eq!(chains.interval_bytes_with(chains.chain_of(follower).unwrap(), (0, 15)), 111 * MIB);
    chains.release(follower);
    assert_eq!((disk(&chains, 50), chains.interval_bytes()), (1_000, 0));
    assert!(chains.adds_up());
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
fn who_left_comes_back_into_a_full_house_with_what_he_kept() {
    let (high, lower) = halved();
    let mut chains = machine(6, 4_000 * MIB);
    open(&mut chains, &high, 0).unwrap();
    let last = open(&mut chains, &high, 10).unwrap();
    chains.advance(20);
    chains.leave(last, &lower).unwrap();
    assert_eq!(disk(&chains, 50), 6_000);
    chains.change(last, &high, (10, 20), true).unwrap();
    assert_eq!((disk(&chains, 50), chains.is_sharing(last), chains.adds_up()), (6_000, true, true));
}

#[test]
fn who_leaves_is_not_refused_where_too_much_is_promised() {
    let (high, lower) = halved();
    let mut chains = machine(12, 4_000 * MIB);
    let all: Vec<_> = (0..3).map(|number| open(&mut chains, &high, number * 10).unwrap()).collect();
    let mut less = chains.ledger().capacities().clone();
    less.members.iter_mut().for_each(|member| member.round_ns = 1);
    assert!(!chains.set_capacities(less).is_empty());
    chains.leave(all[1], &lower).unwrap();
    assert_eq!((chains.counts(), chains.adds_up()), ((3, 1), true));
    // What he did not hold he is refused as everybody else.
    assert!(chains.change(all[1], &high, (5, 20), false).is_err());
}

#[test]
fn nobody_follows_where_that_saves_nothing() {
    // What is read in place of the shared part is as much.
    let demand = Arc::new(reads(&[4; 600]).with_shared(&reads(&[5; 600]), &reads(&[4; 600]), &nothing()));
    let mut chains = machine(100, 4_000 * MIB);
    let leader = open(&mut chains, &demand, 0).unwrap();
    let chain = chains.chain_of(leader).unwrap();
    assert!(!chains.is_worth_following(Class::PERIODIC, &demand, chain, (0, 10)));
    let halved = halved().0;
    let leader = open(&mut chains, &halved, 0).unwrap();
    let chain = chains.chain_of(leader).unwrap();
    assert!(chains.is_worth_following(Class::PERIODIC, &halved, chain, (0, 10)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whoever comes, seeks and goes: the ledger is the sum of what is held, every stream has its disks from its chain, nothing is
    /// promised beyond what there is, a refusal changes nothing, and together nobody is charged more than all would be alone.
    #[test]
    fn no_stream_is_ever_without_disks(
        films in films(), memory in 60..400_u64, disks in 2..12_u64, steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut chains = machine(disks, memory * MIB);
        let (mut held, mut now): (Vec<(ReservationId, usize)>, u64) = (Vec::new(), 1_000);
        chains.advance(now);
        for step in steps {
            match step {
                Step::Open { film, from_round, is_held } => {
                    let place = (from_round, now);
                    let opened = chains.admit(Class::PERIODIC, &films[film], place, is_held, "film");
                    held.extend(opened.ok().map(|stream| (stream, film)));
                }
                Step::Change { which, film, from_round } if !held.is_empty() => {
                    let before = (chains.counts(), chains.interval_bytes(), disk(&chains, now + 5));
                    let which = which % held.len();
                    if chains.change(held[which].0, &films[film], (from_round, now), true).is_err() {
                        let after = (chains.counts(), chains.interval_bytes(), disk(&chains, now + 5));
                        prop_assert_eq!(before, after);
                    } else {
                        held[which].1 = film;
                    }
                }
                Step::Release { which } if !held.is_empty() => {
                    let (stream, _) = held.swap_remove(which % held.len());
                    chains.release(stream);
                }
                Step::Leave { which } if !held.is_empty() => {
                    let which = which % held.len();
                    let (stream, film) = held[which];
                    if film == 1 && chains.is_sharing(stream) {
                        prop_assert!(chains.leave(stream, &films[3]).is_ok());
                        prop_assert!(!chains.is_sharing(stream));
                        held[which].1 = 3;
                    }
                }
                Step::Meet { from } => {
                    let state = |chains: &Chains| {
                        let asked: Vec<u64> = (now..now + 90).map(|round| disk(chains, round)).collect();
                        (chains.counts(), chains.followers(), chains.interval_bytes(), asked)
                    };
                    let before = state(&chains);
                    if let Some(meeting) = chains.next_meeting(from) {
                        let with_bytes = chains.interval_bytes_merged(&meeting);
                        if chains.merge(&meeting) {
                            prop_assert_eq!(chains.followers(), before.1 + 1);
                            prop_assert_eq!(chains.interval_bytes(), with_bytes);
                            prop_assert_eq!(chains.chain_of(meeting.leader), chains.chain_of(meeting.ahead));
                        } else {
                            prop_assert_eq!(before, state(&chains));
                        }
                    }
                }
                Step::Advance { rounds } => {
                    now += rounds;
                    chains.advance(now);
                }
                Step::Change { .. } | Step::Release { .. } | Step::Leave { .. } => {}
            }
            prop_assert!(chains.adds_up());
            prop_assert!(chains.ledger().over_committed().is_empty());
            prop_assert!(chains.interval_bytes() <= memory * MIB / 2);
        }
        for (stream, _) in held {
            chains.release(stream);
        }
        prop_assert_eq!((chains.counts(), chains.interval_bytes()), ((0, 0), 0));
        prop_assert_eq!(chains.ledger().reservations().len(), 0);
    }

    /// Many in one place: that all places between the ends are charged covers each of them, and costs no more than the
    /// most that the film asks anywhere.
    #[test]
    fn a_crowd_is_charged_with_the_most_between_its_ends(reads in prop::collection::vec(0..9_u32, 40..120)) {
        let film = film(&reads);
        let mut chains = machine(9, 1 << 30);
        for viewer in 0..CHAIN_EXACT_STREAMS as u64 * 2 {
            open(&mut chains, &film, viewer / 2).unwrap();
            prop_assert!(chains.adds_up());
        }
        prop_assert_eq!(chains.counts().1, 1);
        let most = u64::from(reads.iter().copied().max().unwrap()) * 1_000;
        for round in 10..160 {
            prop_assert!(disk(&chains, round) <= most);
        }
    }
}
