//! Any body, read in any steps beside any others, from members in any state: the right bytes, and
//! all memory given back.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use reel_cache::{Body, Due, Part, RowKind};
use reel_disk::Fault;
use reel_fixture::{BUFFERS, ClientBehaviour, Core, Ends, MEMBERS, STRIPE_BYTES, VolumeFixture};
use reel_testkit::Rng;
use std::sync::Arc;

const LENGTHS: [usize; 5] = [1, 100, STRIPE_BYTES, STRIPE_BYTES + 1, 400_000];

#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    viewers: usize,
    parts: usize,
    spare_buffers: usize,
    behaviour: ClientBehaviour,
    fault: Option<(usize, Fault)>,
}

fn cases() -> impl Strategy<Value = Case> {
    let fault = prop_oneof![
        Just(Fault::FailReads),
        Just(Fault::CorruptReads),
        Just(Fault::Vanish),
        Just(Fault::Delay { delay_ns: 1_000_000 }),
        (0u64..400_000).prop_map(|at| Fault::FailRange((1 << 20) + at..(1 << 20) + at + 9_000)),
        (0u64..400_000).prop_map(|at| Fault::CorruptRange((1 << 20) + at..(1 << 20) + at + 9_000)),
    ];
    let behaviour = (prop_oneof![Just(0u64), Just(1)], 0u64..30)
        .prop_map(|(vanish, stall)| ClientBehaviour { vanish, stall });
    (
        any::<u64>(),
        1usize..8,
        1usize..12,
        4..BUFFERS - 3,
        behaviour,
        proptest::option::of((0..MEMBERS, fault)),
    )
        .prop_map(|(seed, viewers, parts, spare_buffers, behaviour, fault)| Case {
            seed,
            viewers,
            parts,
            spare_buffers,
            behaviour,
            fault,
        })
}

/// A body of random parts and its bytes.
fn body(fixture: &VolumeFixture, rng: &mut Rng, parts: usize) -> (Body, Vec<u8>) {
    let mut expected = Vec::new();
    let mut all = Vec::new();
    for _ in 0..parts {
        let object = rng.below(LENGTHS.len() as u64) as usize;
        let map = &fixture.objects[object];
        let kind = rng.below(5);
        if kind == 0 {
            let length = rng.below(5_000) as usize;
            let bytes: Arc<[u8]> = rng.bytes(length).into();
            let from = rng.below(bytes.len() as u64 + 1) as usize;
            expected.extend_from_slice(&bytes[from..]);
            all.push(Part::Bytes(Arc::clone(&bytes), from..bytes.len()));
        } else if kind == 1 {
            let symbol_bytes = map.geometry().symbol_bytes();
            let count = 1 + rng.below(symbol_bytes as u64) as usize;
            let symbols = fixture.bytes[object].chunks(symbol_bytes);
            let bytes: Vec<u8> = symbols.flat_map(|it| &it[..count.min(it.len())]).copied().collect();
            assert_eq!(RowKind::Payload(count as u32).object_bytes(map), bytes.len() as u64);
            let from = rng.below(bytes.len() as u64 + 1);
            let to = from + rng.below(bytes.len() as u64 - from + 1).min(150_000);
            expected.extend_from_slice(&bytes[from as usize..to as usize]);
            all.push(Part::Payload(Arc::clone(map), count as u32, from..to));
        } else {
            let parity = (kind == 2).then(|| fixture.parity_bytes(object));
            let bytes = parity.as_ref().unwrap_or(&fixture.bytes[object]);
            let from = rng.below(bytes.len() as u64 + 1);
            let to = from + rng.below(bytes.len() as u64 - from + 1).min(150_000);
            expected.extend_from_slice(&bytes[from as usize..to as usize]);
            let part = if parity.is_some() { Part::Parity } else { Part::Object };
            all.push(part(Arc::clone(map), from..to));
        }
    }
    let whole = Body::new(all);
    let from = rng.below(whole.bytes() + 1) / 4;
    (whole.slice(from..whole.bytes()), expected.split_off(from as usize))
}

fn play(fixture: &VolumeFixture, case: &Case) {
    if let Some((member, fault)) = &case.fault {
        fixture.faults.inject(*member, fault.clone());
    }
    let units = fixture.units(case.spare_buffers);
    let mut core = Core::new(&units, case.seed);
    let mut rng = Rng::new(case.seed ^ 1);
    for _ in 0..case.viewers {
        let (body, expected) = body(fixture, &mut rng, case.parts);
        // Some viewers read units to their ends, as if others played the same. Some read only what
        // they want.
        core.watch_on(body, expected, Due::After(1), rng.below(2) == 0);
    }
    let ends = core.play(case.behaviour);
    assert_eq!(ends.lost, 0);
    assert_eq!(ends.complete + ends.vanished, case.viewers);
    // Buffers of reads for viewers that left stay reserved until the reads are answered.
    core.wait_until(ClientBehaviour::default(), |_| units.budget().reserved() == 0);
    assert_eq!(units.budget().waiting_readers(), 0);
    drop((core, units));
    (0..MEMBERS).for_each(|member| fixture.faults.clear(member));
    assert_eq!(fixture.buffers_taken(), 0);
}

fn play_all(fixture: &VolumeFixture, cases_max: u32, faults: bool) {
    let config = Config { cases: cases_max, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&cases(), |mut case| {
            if !faults {
                case.fault = None;
            }
            play(fixture, &case);
            Ok(())
        })
        .unwrap();
}

#[test]
fn any_body_from_members_that_fail_are_slow_or_return_wrong_data() {
    play_all(&VolumeFixture::new(&LENGTHS, 0, None), 150, true);
}

#[test]
fn any_body_while_a_member_is_missing() {
    play_all(&VolumeFixture::new(&LENGTHS, 0, Some(1)), 60, false);
}

#[test]
fn any_body_in_plenty_of_memory() {
    play_all(&VolumeFixture::new(&LENGTHS, 4 << 20, None), 60, true);
}

#[test]
fn two_lost_rows_end_the_readers_that_need_them_and_are_not_remembered() {
    let fixture = VolumeFixture::new(&LENGTHS, 0, None);
    let units = fixture.units(8);
    let mut core = Core::new(&units, 7);
    fixture.faults.inject(0, Fault::FailReads);
    fixture.faults.inject(1, Fault::FailReads);
    for _ in 0..20 {
        core.watch(fixture.whole(4), fixture.bytes[4].clone());
    }
    assert_eq!(core.play(ClientBehaviour::default()), Ends { complete: 0, vanished: 0, lost: 20 });
    (0..2).for_each(|member| fixture.faults.clear(member));
    for _ in 0..20 {
        core.watch(fixture.whole(4), fixture.bytes[4].clone());
    }
    assert_eq!(
        core.play(ClientBehaviour::default()),
        Ends { complete: 20, vanished: 0, lost: 0 },
        "no failure is kept"
    );
    drop((core, units));
    assert_eq!(fixture.buffers_taken(), 0);
}
