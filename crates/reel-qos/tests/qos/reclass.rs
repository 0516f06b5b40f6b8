//! Streams change their classes: as one step, or not at all.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use proptest::prelude::*;
use reel_qos::limits::ROUND_NS;
use reel_qos::{
    AdmitError, Capacities, Class, ClassSpec, ClassTable, Demand, DemandStart, DiskDemand, DiskPrice, Kind,
    Ledger, MemberCapacity, ReservationId, Resource, Sender, SharedReservations,
};
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const ROUNDS: usize = 80;
const RESOURCES: [Resource; 5] =
    [Resource::Arena, Resource::Network, Resource::Core, Resource::Member(0), Resource::Member(1)];

fn gold() -> Class {
    Class::new(3).unwrap()
}

/// Two classes with deadlines, each of which has room for so many reads and MiB in a round. Both
/// share the memory.
fn two_classes(streams: u64, arena_bytes: u64) -> SharedReservations {
    let price = DiskPrice { read_request_ns: 1_000, ..DiskPrice::FREE };
    let capacities = Capacities {
        members: vec![MemberCapacity { price, round_ns: streams * 2_500 }; 2],
        network_bytes: streams * MIB * 5 / 2,
        core_ns: ROUND_NS,
        core_mib_ns: vec![1],
        local_front_ends: Vec::new(),
        arena_bytes,
    };
    let mut ledger = Ledger::new(capacities, ROUNDS);
    let class = |name: &str, kind, permille| ClassSpec::new(name, kind, permille);
    let classes = vec![
        class("periodic", Kind::Periodic, 400),
        class("interactive", Kind::Interactive, 100),
        class("aperiodic", Kind::Aperiodic, 100),
        class("gold", Kind::Periodic, 400),
    ];
    ledger.set_classes(ClassTable::new(classes).unwrap());
    SharedReservations::new(ledger)
}

/// So many reads of each member and MiB in each round, and a MiB of memory.
fn title(rounds: usize, streams: u32) -> Arc<Demand> {
    let reads = vec![DiskDemand::scattered(streams, MIB); rounds];
    Arc::new(Demand::new(vec![reads; 2], vec![u64::from(streams) * MIB; rounds], MIB))
}

fn used(reservations: &SharedReservations, class: Class, resource: Resource, round: u64) -> u64 {
    reservations.ledger().used(Some(class), resource, round)
}

#[test]
fn a_stream_that_takes_all_of_the_memory_needs_it_once() {
    let mut reservations = two_classes(1, MIB);
    let film = title(40, 1);
    let start = DemandStart::new(0, 0);
    let stream = reservations.admit(Class::PERIODIC, &film, start, false, "film").unwrap();
    assert!(reservations.admit(gold(), &film, start, false, "film").is_err(), "there is no memory for two");
    reservations.advance(10);
    reservations.reclass(stream, gold(), &film, DemandStart::playing_on(0, 10), false).unwrap();
    assert!(reservations.adds_up());
    for resource in [Resource::Network, Resource::Member(0), Resource::Member(1)] {
        assert_eq!(used(&reservations, Class::PERIODIC, resource, 20), 0);
        assert!(used(&reservations, gold(), resource, 20) > 0);
    }
    assert!(reservations.release(stream));
    let is_empty = |resource: &Resource| reservations.ledger().used(None, *resource, 20) == 0;
    assert!(RESOURCES.iter().all(is_empty) && reservations.adds_up());
}

/// The network would carry half of it, the members a fourth of its requests.
#[test]
fn a_refusal_says_what_all_of_the_stream_could_have_there() {
    let mut reservations = two_classes(6, 1 << 40);
    let (film, start) = (title(40, 4), DemandStart::new(0, 0));
    let stream = reservations.admit(Class::PERIODIC, &film, start, false, "film").unwrap();
    let other = Demand::new(vec![vec![DiskDemand::scattered(5, MIB); 40]; 2], vec![4 * MIB; 40], MIB);
    reservations.admit(gold(), &Arc::new(other), start, false, "other").unwrap();
    let fresh = reservations.ledger().check(gold(), &film, 0, 0).unwrap_err();
    let refused = reservations.reclass(stream, gold(), &film, start, false).unwrap_err();
    assert_eq!(refused, fresh, "as of a stream that was never there");
    let AdmitError::Refused(refusal) = refused else { panic!("{refused}") };
    assert!(matches!(refusal.resource, Resource::Member(_)), "{refusal}");
    assert_eq!(refusal.retry_after_s, Some(40), "when the other one has ended");
}

#[test]
fn a_stream_leaves_those_that_it_shared_with() {
    let mut reservations = two_classes(2, 1 << 40);
    let film = title(60, 1);
    let admit = |reservations: &mut SharedReservations, round| {
        reservations.advance(round);
        let start = DemandStart::new(0, round);
        reservations.admit(Class::PERIODIC, &film, start, true, "film").unwrap()
    };
    let (first, second) = (admit(&mut reservations, 0), admit(&mut reservations, 5));
    assert!(reservations.is_sharing(first) && reservations.is_sharing(second));
    reservations.reclass(first, gold(), &film, DemandStart::playing_on(0, 5), true).unwrap();
    assert!(!reservations.is_sharing(first) && !reservations.is_sharing(second));
    for class in [Class::PERIODIC, gold()] {
        assert_eq!(used(&reservations, class, Resource::Member(0), 30), 1_000);
    }
    // Back again, it follows what it led.
    reservations.reclass(second, gold(), &film, DemandStart::playing_on(5, 5), true).unwrap();
    assert!(reservations.is_sharing(second));
    assert_eq!(used(&reservations, gold(), Resource::Member(0), 30), 1_000);
    assert_eq!(used(&reservations, Class::PERIODIC, Resource::Member(0), 30), 0);
    assert!(reservations.adds_up());
}

#[derive(Clone, Debug)]
enum Step {
    Open { is_gold: bool, title: usize, is_held: bool },
    Reclass { which: usize, is_gold: bool, title: usize, is_held: bool },
    End { which: usize },
    Advance { rounds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let open = (any::<bool>(), 0..3_usize, any::<bool>()).prop_map(|(is_gold, title, is_held)| Step::Open {
        is_gold,
        title,
        is_held,
    });
    let reclass = (any::<usize>(), any::<bool>(), 0..3_usize, any::<bool>())
        .prop_map(|(which, is_gold, title, is_held)| Step::Reclass { which, is_gold, title, is_held });
    prop_oneof![
        6 => open,
        6 => reclass,
        2 => any::<usize>().prop_map(|which| Step::End { which }),
        2 => (0..4_u64).prop_map(|rounds| Step::Advance { rounds }),
    ]
}

fn class_of(is_gold: bool) -> Class {
    if is_gold { gold() } else { Class::PERIODIC }
}

/// What is admitted, in a ledger that has never changed anything. All of it fits there.
fn again(
    reservations: &SharedReservations,
    held: &[(ReservationId, Class, Arc<Demand>)],
) -> SharedReservations {
    let mut fresh = two_classes(1, 0);
    fresh.set_capacities(reservations.ledger().capacities().clone());
    let now = reservations.ledger().now_round();
    fresh.advance(now);
    for (stream, class, demand) in held {
        if let Some(epoch) = reservations.epoch_of(*stream) {
            let start = DemandStart::playing_on(epoch, now);
            fresh.admit(Sender::from(*class), demand, start, false, "again").unwrap();
        }
    }
    fresh
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever streams come, change their classes and go: what is reserved is the sum of the
    /// streams that are admitted, each in its class, and a refused change leaves every bit of the
    /// ledger and of the groups as it was.
    #[test]
    fn what_is_reserved_is_the_sum_of_the_streams_in_their_classes(
        streams in 1..6_u64, memory in 2..60_u64, may_share in any::<bool>(),
        steps in prop::collection::vec(step(), 1..50),
    ) {
        let titles = [title(20, 1), title(30, 1), title(25, 2)];
        let mut reservations = two_classes(streams, memory * MIB);
        let mut held: Vec<(ReservationId, Class, Arc<Demand>)> = Vec::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Open { is_gold, title, is_held } => {
                    let (class, film) = (class_of(is_gold), &titles[title]);
                    let start = DemandStart::new(0, now);
                    let opened = reservations.admit(class, film, start, is_held && may_share, "title");
                    held.extend(opened.ok().map(|stream| (stream, class, Arc::clone(film))));
                }
                Step::Reclass { which, is_gold, title, is_held } if !held.is_empty() => {
                    let which = which % held.len();
                    let (stream, class, film) = &mut held[which];
                    let Some(epoch) = reservations.epoch_of(*stream) else { continue };
                    let before = format!("{reservations:?}");
                    let (wanted, other) = (class_of(is_gold), &titles[title]);
                    let start = DemandStart::playing_on(epoch, now);
                    match reservations.reclass(*stream, wanted, other, start, is_held && may_share) {
                        Ok(()) => (*class, *film) = (wanted, Arc::clone(other)),
                        Err(_) => prop_assert_eq!(before, format!("{reservations:?}")),
                    }
                }
                Step::End { which } if !held.is_empty() => {
                    let (stream, ..) = held.swap_remove(which % held.len());
                    reservations.release(stream);
                }
                Step::Advance { rounds } => {
                    now += rounds;
                    reservations.advance(now);
                    held.retain(|(stream, ..)| reservations.epoch_of(*stream).is_some());
                }
                Step::Reclass { .. } | Step::End { .. } => {}
            }
            prop_assert!(reservations.adds_up());
            if may_share {
                continue;
            }
            let fresh = again(&reservations, &held);
            for class in [Class::PERIODIC, gold()] {
                for (resource, round) in RESOURCES.iter().flat_map(|one| (now..now + 32).map(move |at| (*one, at))) {
                    let (is, sum) = (used(&reservations, class, resource, round), used(&fresh, class, resource, round));
                    prop_assert_eq!(is, sum, "{} in round {}", resource, round);
                }
            }
        }
    }
}
