//! The demand of a title is what reading it costs, whichever member is lost.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use reel_admit::limits::{ROUNDS_MAX, SEND_LEAD_NS, START_BOUND_NS, STEADY_ROUNDS};
use reel_admit::{Loss, Stretch, demand, shared_demand, steady_demand};
use reel_cache::{Body, Depth, Due, Part, RowKind};
use reel_fixture::{ClientBehaviour, Core, IN_TIME_NS, MEMBERS, STRIPE_BYTES, VolumeFixture};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Demand, DiskDemand};
use reel_volume::{Geometry, GeometryFields};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

const FILM: usize = 700_000;
/// Rotational members.
const DISKS: Depth = Depth::of(true);
const SEGMENT_NS: u64 = 4 * ROUND_NS;

/// Segments of uneven lengths, four seconds each.
fn segments() -> Vec<Range<u64>> {
    let lengths = [90_000, 36_000, 5, 200_000, 60_001, 313_994];
    assert_eq!(lengths.iter().sum::<u64>(), FILM as u64);
    let mut at = 0;
    lengths.map(|length| (at, at += length).0..at).to_vec()
}

fn of(fixture: &VolumeFixture, segments: &[Range<u64>]) -> Demand {
    let stretches = segments.iter().zip(0..).map(|(range, number): (_, u64)| Stretch {
        map: &fixture.objects[0],
        range: range.clone(),
        from_ns: number.saturating_sub(1) * SEGMENT_NS,
        due_ns: number * SEGMENT_NS,
        duration_ns: SEGMENT_NS,
        with_parity: false,
    });
    demand(MEMBERS, DISKS, stretches, Loss::AnyOne).unwrap()
}

fn total(rounds: &[DiskDemand]) -> DiskDemand {
    rounds.iter().fold(DiskDemand::default(), |sum, round| DiskDemand {
        reads: sum.reads + round.reads,
        seeks: sum.seeks + round.seeks,
        bytes: sum.bytes + round.bytes,
    })
}

/// Plays the segments one after another, none from memory. Returns what each member was asked for.
fn played(fixture: &VolumeFixture) -> Vec<(u64, u64)> {
    let before = fixture.reads();
    for range in segments() {
        let units = fixture.units(8);
        let mut core = Core::new(&units, 1);
        let expected = fixture.bytes[0][range.start as usize..range.end as usize].to_vec();
        core.watch_in_time(Body::new([Part::Object(Arc::clone(&fixture.objects[0]), range)]), expected);
        assert_eq!(core.play(ClientBehaviour::default()).complete, 1);
        drop(core);
        drop(units);
        assert_eq!(fixture.buffers_taken(), 0);
    }
    let after = fixture.reads();
    before.iter().zip(&after).map(|(a, b)| (b.0 - a.0, b.1 - a.1)).collect()
}

#[test]
fn playing_needs_no_more_than_was_demanded() {
    let fixture = VolumeFixture::new(&[FILM], 8 << 20, None);
    let demand = of(&fixture, &segments());
    let mut reads_healthy = 0;
    for (member, (reads, bytes)) in played(&fixture).into_iter().enumerate() {
        let demanded = total(demand.reads(member));
        assert!(reads <= u64::from(demanded.reads) && bytes <= demanded.bytes, "member {member}");
        reads_healthy += reads;
    }
    // The demand is not far above it: three of the four units of a stripe are data.
    let demanded: u64 = (0..MEMBERS).map(|member| u64::from(total(demand.reads(member)).reads)).sum();
    assert!(reads_healthy * 10 >= demanded * 6, "{reads_healthy} of {demanded}");
}

#[test]
fn playing_with_any_one_member_lost_needs_no_more_than_was_demanded() {
    for lost in 0..MEMBERS {
        let fixture = VolumeFixture::new(&[FILM], 8 << 20, Some(lost));
        let demand = of(&fixture, &segments());
        for (member, (reads, bytes)) in played(&fixture).into_iter().enumerate() {
            let demanded = total(demand.reads(member));
            assert!(
                reads <= u64::from(demanded.reads) && bytes <= demanded.bytes,
                "member {member} without {lost}: {reads} reads of {bytes} bytes, {demanded:?} demanded"
            );
        }
    }
}

#[test]
fn a_steady_title_demands_the_same_in_every_round() {
    let fixture = one();
    // Four stripes in four seconds: a rotational disk reads a window of them, flash reads two at
    // once.
    let segments: Vec<Range<u64>> = (0..4)
        .map(|number| number * 4 * STRIPE_BYTES as u64..(number + 1) * 4 * STRIPE_BYTES as u64)
        .collect();
    for depth in [Depth::of(true), Depth::of(false)] {
        let stretches = segments.iter().zip(0..).map(|(range, number): (_, u64)| Stretch {
            map: &fixture.objects[0],
            range: range.clone(),
            from_ns: number.saturating_sub(1) * SEGMENT_NS,
            due_ns: number * SEGMENT_NS,
            duration_ns: SEGMENT_NS,
            with_parity: false,
        });
        let demand = demand(MEMBERS, depth, stretches, Loss::AnyOne).unwrap();
        for member in 0..MEMBERS {
            let reads: Vec<u32> = demand.reads(member).iter().map(|round| round.reads).collect();
            // What is shown first is requested at once.
            let steady = &reads[4..12];
            assert!(steady.iter().all(|reads| *reads == 1), "{depth:?}: {reads:?}");
        }
    }
}

#[test]
fn a_title_longer_than_a_day_has_no_demand() {
    let fixture = one();
    let stretch = |due_ns| Stretch {
        map: &fixture.objects[0],
        range: 0..10,
        from_ns: 0,
        due_ns,
        duration_ns: 0,
        with_parity: false,
    };
    assert!(demand(MEMBERS, DISKS, [stretch((ROUNDS_MAX - 1) * ROUND_NS)], Loss::AnyOne).is_some());
    assert!(demand(MEMBERS, DISKS, [stretch(ROUNDS_MAX * ROUND_NS)], Loss::AnyOne).is_none());
    assert!(demand(MEMBERS, DISKS, [stretch(u64::MAX)], Loss::AnyOne).is_none());
}

#[test]
fn a_steady_rate_has_the_demand_of_a_title_of_that_rate() {
    let fixture = one();
    // Seven segments of 100,000 bytes, with borders anywhere in stripes.
    let segments: Vec<Range<u64>> = (0..7).map(|number| number * 100_000..(number + 1) * 100_000).collect();
    let stretches = segments.iter().zip(0..).map(|(range, number): (_, u64)| Stretch {
        map: &fixture.objects[0],
        range: range.clone(),
        from_ns: number * SEGMENT_NS,
        due_ns: (number + 1) * SEGMENT_NS - SEND_LEAD_NS,
        duration_ns: SEGMENT_NS,
        with_parity: false,
    });
    let film = demand(MEMBERS, DISKS, stretches, Loss::AnyOne).unwrap();
    let steady = steady_demand(fixture.objects[0].geometry(), DISKS, 200_000, Loss::AnyOne);
    assert_eq!(steady.rounds(), STEADY_ROUNDS);
    assert_eq!(steady.average_bps(), 200_000);
    assert_eq!(steady.held_bytes(), film.held_bytes());
    for round in 0..7 * 4 - 1 {
        // A film begins, and a stream that was cut out of its middle does not.
        if round >= 4 {
            assert_eq!(steady.sent_bytes()[round], film.sent_bytes()[round], "round {round}");
        }
        for member in 0..MEMBERS {
            assert_eq!(steady.reads(member)[round], film.reads(member)[round], "round {round} of {member}");
        }
    }
}

/// A start needs no more than twice the rate, and a segment is complete when it is shown.
#[test]
fn the_first_segment_is_spread_over_the_bound_of_a_start() {
    let fixture = one();
    let sent = |segment_s: u64| -> Vec<u64> {
        let stretches = (0..4_u64).map(|number| Stretch {
            map: &fixture.objects[0],
            range: number * 12_000..(number + 1) * 12_000,
            from_ns: number.saturating_sub(1) * segment_s * ROUND_NS,
            due_ns: (number * segment_s * ROUND_NS).saturating_sub(SEND_LEAD_NS),
            duration_ns: segment_s * ROUND_NS,
            with_parity: false,
        });
        demand(MEMBERS, DISKS, stretches, Loss::AnyOne).unwrap().sent_bytes()[..6].to_vec()
    };
    assert_eq!(sent(4), [6_000, 6_000, 6_000, 6_000, 3_000, 3_000]);
    assert_eq!(sent(6), [6_000, 6_000, 3_000, 3_000, 3_000, 3_000]);
    // There is no time for the second segment after the first one.
    assert_eq!(sent(2), [12_000, 12_000, 6_000, 6_000, 6_000, 6_000]);
    assert_eq!(sent(3), [10_000, 10_000, 4_000, 4_000, 4_000, 4_000]);
}

#[test]
fn while_no_member_is_lost_parity_is_not_read_but_passed_over_by_heads() {
    let geometry = Geometry::new(GeometryFields::cmaf(5)).unwrap();
    let unit_bytes = geometry.unit_bytes() as u64;
    // Four stripes for a segment, with segment borders at stripe ends: one run. Two of the four may
    // have their parity between two units of the run.
    let rate_bps = geometry.stripe_bytes() as u64 * 8;
    let of = |loss| steady_demand(&geometry, DISKS, rate_bps, loss);
    let degraded = of(Loss::AnyOne);
    let (flash, arms) = (of(Loss::NoMember { arms: false }), of(Loss::NoMember { arms: true }));
    let segments = STEADY_ROUNDS as u64 / 4;
    for member in 0..5 {
        let totals = [&degraded, &flash, &arms].map(|demand| total(demand.reads(member)));
        assert!(totals.iter().all(|total| u64::from(total.seeks) == segments), "{totals:?}");
        let units = totals.map(|total| total.bytes as f64 / unit_bytes as f64 / segments as f64);
        for (units, expected) in units.into_iter().zip([4.0, 3.2, 3.6]) {
            assert!((units - expected).abs() < 0.01, "{units} instead of {expected}");
        }
        assert_eq!(totals[1].reads, totals[2].reads);
    }
}

/// Bytes of a matrix of data in the fixture.
const MATRIX_BYTES: u64 = STRIPE_BYTES as u64 / 3;
/// Whole ones in the object. Its last stripe has one of them.
const MATRICES: u64 = FILM as u64 / MATRIX_BYTES;

/// A cast of consecutive stretches.
fn cast(fixture: &VolumeFixture, borders: &[u64], with_parity: bool, loss: Loss) -> Demand {
    demand(MEMBERS, DISKS, stretches_of_cast(fixture, borders, with_parity), loss).unwrap()
}

fn stretches_of_cast<'a>(
    fixture: &'a VolumeFixture,
    borders: &'a [u64],
    with_parity: bool,
) -> impl Iterator<Item = Stretch<'a>> {
    borders.windows(2).zip(0..).map(move |(pair, number): (_, u64)| Stretch {
        map: &fixture.objects[0],
        range: pair[0]..pair[1],
        from_ns: number.saturating_sub(1) * SEGMENT_NS,
        due_ns: number * SEGMENT_NS,
        duration_ns: SEGMENT_NS,
        with_parity,
    })
}

/// Reads the data and the parity of one stretch after another, none from memory. Returns what each
/// member was asked for.
fn sent(fixture: &VolumeFixture, borders: &[u64]) -> Vec<(u64, u64)> {
    let before = fixture.reads();
    let (data, parity) = (&fixture.bytes[0], fixture.parity_bytes(0));
    let map = &fixture.objects[0];
    let parity_at = |at: u64| at / MATRIX_BYTES * RowKind::Parity.matrix_bytes(map.geometry());
    for pair in borders.windows(2) {
        let units = fixture.units(8);
        let mut core = Core::new(&units, 1);
        let (range, rows) = (pair[0]..pair[1], parity_at(pair[0])..parity_at(pair[1]));
        let expected = data[range.start as usize..range.end as usize].to_vec();
        let body = Body::new([Part::Object(Arc::clone(map), range)]);
        core.watch_on(body, expected, Due::After(IN_TIME_NS), false);
        let expected = parity[rows.start as usize..rows.end as usize].to_vec();
        let body = Body::new([Part::Parity(Arc::clone(map), rows)]);
        core.watch_on(body, expected, Due::After(IN_TIME_NS), false);
        assert_eq!(core.play(ClientBehaviour::default()).complete, 2);
        drop((core, units));
        assert_eq!(fixture.buffers_taken(), 0);
    }
    let after = fixture.reads();
    before.iter().zip(&after).map(|(a, b)| (b.0 - a.0, b.1 - a.1)).collect()
}

/// Cuts between whole matrices, as casts make them.
fn matrix_borders() -> impl Strategy<Value = Vec<u64>> {
    let cuts = proptest::collection::btree_set(1..MATRICES, 0..8);
    cuts.prop_map(|cuts| {
        let borders = [0].into_iter().chain(cuts).chain([MATRICES]);
        borders.map(|matrix| matrix * MATRIX_BYTES).collect()
    })
}

/// With all members there, a cast with parity reads what is demanded for that, to the byte. With
/// any one lost, it reads what is demanded of each other member with parity or without.
#[test]
fn a_cast_with_parity_reads_each_member_once_for_each_stripe_whichever_member_is_lost() {
    let config = Config { cases: 12, failure_persistence: None, ..Config::default() };
    for lost in [None].into_iter().chain((0..MEMBERS).map(Some)) {
        let fixture = VolumeFixture::new(&[FILM], 8 << 20, lost);
        TestRunner::new(config.clone())
            .run(&matrix_borders(), |borders| {
                let any_one = cast(&fixture, &borders, true, Loss::AnyOne);
                let healthy = cast(&fixture, &borders, true, Loss::NoMember { arms: false });
                let without = cast(&fixture, &borders, false, Loss::AnyOne);
                for (member, (reads, bytes)) in sent(&fixture, &borders).into_iter().enumerate() {
                    let most = total(any_one.reads(member));
                    prop_assert_eq!(most, total(without.reads(member)));
                    prop_assert_eq!(total(healthy.reads(member)), most);
                    let most =
                        if lost == Some(member) { (0, 0) } else { (u64::from(most.reads), most.bytes) };
                    prop_assert_eq!((reads, bytes), most, "member {} without {:?}", member, lost);
                }
                Ok(())
            })
            .unwrap();
    }
}

/// What a cast keeps in memory for those behind it: data and parity, so that they read neither.
#[test]
fn a_cast_keeps_data_and_parity_for_those_that_follow_it() {
    let fixture = one();
    let borders: Vec<u64> = (0..=MATRICES).map(|matrix| matrix * MATRIX_BYTES).collect();
    let shared = |with_parity| {
        let stretches = stretches_of_cast(fixture, &borders, with_parity);
        shared_demand(MEMBERS, DISKS, stretches).unwrap()
    };
    let (with, without) = (shared(true), shared(false));
    let kept = |demand: &Demand| demand.sent_bytes().iter().sum::<u64>();
    // Three rows of data to one of parity.
    assert!(kept(&with) >= kept(&without) / 3 * 4 - 4 * MATRICES, "{} and {}", kept(&with), kept(&without));
    for member in 0..MEMBERS {
        assert_eq!(total(with.reads(member)), total(without.reads(member)));
    }
}

#[test]
fn parity_adds_memory_and_bytes_that_are_sent_are_those_of_packets() {
    let fixture = one();
    let borders = [0, 2 * MATRIX_BYTES, 50 * MATRIX_BYTES];
    let of = |with_parity, loss| cast(fixture, &borders, with_parity, loss);
    let healthy = Loss::NoMember { arms: true };
    let [with, without, alone] = [of(true, Loss::AnyOne), of(false, Loss::AnyOne), of(false, healthy)];
    assert_eq!(with.sent_bytes(), without.sent_bytes());
    // Four parity units of the window, and three units of data that one of them is computed from.
    let unit_bytes = fixture.volume.geometry().unit_bytes() as u64;
    assert_eq!(with.held_bytes(), without.held_bytes() + 7 * unit_bytes);
    // Seventeen stripes, the first of them for both stretches.
    let reads = |demand: &Demand| (0..MEMBERS).map(|member| total(demand.reads(member)).reads).sum::<u32>();
    assert_eq!((reads(&with), reads(&without)), (4 * 18, 4 * 18));
    assert_eq!((reads(&of(true, healthy)), reads(&alone)), (4 * 18, 3 * 18));
}

#[test]
fn a_rate_beyond_all_disks_is_counted_quickly() {
    let geometry = Geometry::new(GeometryFields::cmaf(5)).unwrap();
    let demand = steady_demand(&geometry, DISKS, 1_000_000_000_000, Loss::AnyOne);
    assert_eq!((demand.rounds(), demand.average_bps()), (8, 1_000_000_000_000));
    let stripes = 1_000_000_000_000 / 8 / geometry.stripe_bytes() as u64;
    let reads = u64::from(total(demand.reads(0)).reads);
    assert!((8 * stripes..8 * stripes + 16).contains(&reads), "{reads}");
    assert!(demand.reads(0).iter().all(|round| round.reads > 0), "spread over all rounds");
    assert_eq!(steady_demand(&geometry, DISKS, 0, Loss::AnyOne).average_bps(), 0);
}

fn one() -> &'static VolumeFixture {
    static ONE: OnceLock<VolumeFixture> = OnceLock::new();
    ONE.get_or_init(|| VolumeFixture::new(&[FILM], 0, None))
}

proptest! {
    #[test]
    fn every_byte_and_every_stripe_is_counted_once_and_in_time(
        cuts in proptest::collection::btree_set(1_u64..FILM as u64, 0..12),
        segment_ms in 1_u64..20_000,
    ) {
        let fixture = one();
        let borders: Vec<u64> = [0].into_iter().chain(cuts).chain([FILM as u64]).collect();
        let time = |number: u64| number * segment_ms * 1_000_000;
        let stretches: Vec<Stretch<'_>> = borders.windows(2).zip(0..).map(|(pair, number): (_, u64)| Stretch {
            map: &fixture.objects[0],
            range: pair[0]..pair[1],
            from_ns: time(number.saturating_sub(1)),
            due_ns: time(number),
            duration_ns: time(1),
            with_parity: false,
        }).collect();
        let stripe = STRIPE_BYTES as u64;
        let touched: u64 =
            stretches.iter().map(|s| (s.range.end - 1) / stripe - s.range.start / stripe + 1).sum();
        // The four stripes of a reader's window lie behind one another, so they need one seek. Then
        // the reader requests three at a time.
        let seeks: u64 = stretches
            .iter()
            .map(|s| (s.range.end - 1) / stripe - s.range.start / stripe + 1)
            .map(|stripes| 1 + stripes.saturating_sub(4).div_ceil(3))
            .sum();
        let last = stretches.last().unwrap();
        let last_ns = (last.due_ns + last.duration_ns.max(SEND_LEAD_NS)).max(START_BOUND_NS);
        let rounds = (last_ns / ROUND_NS + 1) as usize;
        let demand = demand(MEMBERS, DISKS, stretches, Loss::AnyOne).unwrap();
        prop_assert_eq!(demand.sent_bytes().iter().sum::<u64>(), FILM as u64);
        for member in 0..MEMBERS {
            prop_assert_eq!(u64::from(total(demand.reads(member)).reads), touched);
            prop_assert_eq!(u64::from(total(demand.reads(member)).seeks), seeks);
        }
        prop_assert!(demand.rounds() <= rounds);
    }
}
