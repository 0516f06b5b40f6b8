//! Transfers that take turns: the right bytes, equal shares, nobody held up, and all memory back.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod cinema;

use cinema::{Cinema, Core, Ends, MEMBERS, Manners, Random, STRIPE_BYTES};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use reel_disk::Fault;
use reel_stream::{Body, Part, Transfers};
use std::sync::Arc;

const LENGTHS: [usize; 4] = [700_000, 100, 500_000 + STRIPE_BYTES, 640_001];
/// Room for runs of more than the least.
const ARENA_BYTES: usize = 24 << 20;

/// Pictures and sound by turns, as in a film as one file, and some bytes of the server's own.
fn film(cinema: &Cinema, random: &mut Random) -> (Body, Vec<u8>) {
    let (mut at, mut parts, mut expected) = ([0_usize; 2], Vec::new(), Vec::new());
    let own: Arc<[u8]> = random.bytes(300).into();
    expected.extend_from_slice(&own);
    parts.push(Part::Bytes(own, 0..300));
    for number in 0.. {
        let track = number % 2;
        let object = [0, 2][track];
        let bytes = [60_000, 9_000][track] + random.below(5_000) as usize;
        let (from, to) = (at[track], (at[track] + bytes).min(LENGTHS[object]));
        if track == 0 && from == to {
            return (Body::new(parts), expected);
        }
        expected.extend_from_slice(&cinema.bytes[object][from..to]);
        parts.push(Part::Object(Arc::clone(&cinema.objects[object]), from as u64..to as u64));
        at[track] = to;
    }
    unreachable!("the pictures end")
}

#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    transfers: usize,
    viewers: usize,
    spare_buffers: usize,
    manners: Manners,
    fault: Option<(usize, Fault)>,
}

fn cases(buffers: usize) -> impl Strategy<Value = Case> {
    let fault = prop_oneof![
        Just(Fault::FailReads),
        Just(Fault::CorruptReads),
        Just(Fault::Vanish),
        Just(Fault::Delay { delay_ns: 1_000_000 }),
    ];
    let manners =
        (prop_oneof![Just(0u64), Just(1)], 0u64..30).prop_map(|(vanish, stall)| Manners { vanish, stall });
    // From plenty of memory to nearly none.
    let spare = prop_oneof![Just(4), buffers - 40..buffers - 12];
    (any::<u64>(), 1usize..6, 0usize..4, spare, manners, proptest::option::of((0..MEMBERS, fault))).prop_map(
        |(seed, transfers, viewers, spare_buffers, manners, fault)| Case {
            seed,
            transfers,
            viewers,
            spare_buffers,
            manners,
            fault,
        },
    )
}

fn play(cinema: &Cinema, case: &Case) {
    if let Some((member, fault)) = &case.fault {
        cinema.faults.inject(*member, fault.clone());
    }
    let (units, transfers) = (cinema.units(case.spare_buffers), Transfers::default());
    let mut core = Core::new(&units, case.seed);
    let mut random = Random(case.seed ^ 1);
    for _ in 0..case.transfers {
        let (body, expected) = film(cinema, &mut random);
        core.transfer(body, expected, &transfers);
    }
    for _ in 0..case.viewers {
        let (body, expected) = film(cinema, &mut random);
        core.watch(body, expected);
    }
    let ends = core.play(case.manners);
    assert_eq!(ends.lost, 0);
    assert_eq!(ends.complete + ends.vanished, case.transfers + case.viewers);
    assert_eq!((units.budget().reserved(), units.budget().starved()), (0, 0));
    assert_eq!(transfers.view().transfers, 0);
    drop((core, units));
    (0..MEMBERS).for_each(|member| cinema.faults.clear(member));
    assert_eq!(cinema.buffers_taken(), 0);
}

#[test]
fn films_come_whole_beside_viewers_faults_and_those_who_dawdle() {
    let cinema = Cinema::new(&LENGTHS, ARENA_BYTES, None);
    let buffers = cinema.volume.arena().usage().buffers_total;
    let config = Config { cases: 60, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&cases(buffers), |case| {
            play(&cinema, &case);
            Ok(())
        })
        .unwrap();
}

#[test]
fn films_come_whole_while_a_member_is_away() {
    let cinema = Cinema::new(&LENGTHS, ARENA_BYTES, Some(1));
    let buffers = cinema.volume.arena().usage().buffers_total;
    let config = Config { cases: 20, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&cases(buffers), |case| {
            play(&cinema, &Case { fault: None, ..case });
            Ok(())
        })
        .unwrap();
}

#[test]
fn turns_are_runs_and_not_stripes() {
    let cinema = Cinema::new(&LENGTHS, ARENA_BYTES, None);
    let (units, transfers) = (cinema.units(4), Transfers::default());
    let mut core = Core::new(&units, 5);
    let mut bytes = 0;
    for object in [0, 2, 3] {
        let (body, expected) = (cinema.whole(object), cinema.bytes[object].clone());
        bytes += expected.len();
        core.transfer(body, expected, &transfers);
    }
    let ends = core.play(Manners::default());
    assert_eq!(ends, Ends { complete: 3, ..Ends::default() });
    let view = transfers.view();
    assert!(view.run.stripes > 8, "{view:?}");
    // The last turn of each may be short.
    let least = (bytes as u64).div_ceil(view.run.bytes);
    assert!((least..=least + 6).contains(&view.turns), "{view:?} for {bytes} bytes");
}

#[test]
fn who_takes_nothing_holds_nobody_up() {
    let cinema = Cinema::new(&LENGTHS, ARENA_BYTES, None);
    let (units, transfers) = (cinema.units(4), Transfers::default());
    let mut core = Core::new(&units, 6);
    // More than turns can be under way.
    for _ in 0..4 {
        let lazy = core.transfer(cinema.whole(0), cinema.bytes[0].clone(), &transfers);
        core.let_lie(lazy);
    }
    let diligent = core.transfer(cinema.whole(3), cinema.bytes[3].clone(), &transfers);
    core.wait_until(Manners::default(), |core| !core.is_watching(diligent));
    assert_eq!(transfers.view().transfers, 4);
}
