//! Downloads in runs: the right bytes, long runs for clients that take them, no reader held up, and
//! all memory given back.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use reel_cache::{Body, Part};
use reel_disk::Fault;
use reel_fixture::{ClientBehaviour, Core, Ends, MEMBERS, STRIPE_BYTES, VolumeFixture};
use reel_testkit::Rng;
use std::sync::Arc;

const LENGTHS: [usize; 4] = [700_000, 100, 500_000 + STRIPE_BYTES, 3_000_001];
/// Enough memory for long runs.
const ARENA_BYTES: usize = 24 << 20;

/// Pictures and sound by turns, as in a title as one file, and some bytes that the server makes.
fn film(fixture: &VolumeFixture, rng: &mut Rng) -> (Body, Vec<u8>) {
    let (mut at, mut parts, mut expected) = ([0_usize; 2], Vec::new(), Vec::new());
    let own: Arc<[u8]> = rng.bytes(300).into();
    expected.extend_from_slice(&own);
    parts.push(Part::Bytes(own, 0..300));
    for number in 0.. {
        let track = number % 2;
        let object = [0, 2][track];
        let bytes = [60_000, 9_000][track] + rng.below(5_000) as usize;
        let (from, to) = (at[track], (at[track] + bytes).min(LENGTHS[object]));
        if track == 0 && from == to {
            return (Body::new(parts), expected);
        }
        expected.extend_from_slice(&fixture.bytes[object][from..to]);
        parts.push(Part::Object(Arc::clone(&fixture.objects[object]), from as u64..to as u64));
        at[track] = to;
    }
    unreachable!("the pictures end")
}

#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    downloads: usize,
    viewers: usize,
    spare_buffers: usize,
    behaviour: ClientBehaviour,
    fault: Option<(usize, Fault)>,
}

fn cases(buffers: usize) -> impl Strategy<Value = Case> {
    let fault = prop_oneof![
        Just(Fault::FailReads),
        Just(Fault::CorruptReads),
        Just(Fault::Vanish),
        Just(Fault::Delay { delay_ns: 1_000_000 }),
    ];
    let behaviour = (prop_oneof![Just(0u64), Just(1)], 0u64..30)
        .prop_map(|(vanish, stall)| ClientBehaviour { vanish, stall });
    // From plenty of memory to nearly none.
    let spare = prop_oneof![Just(4), buffers - 40..buffers - 12];
    (any::<u64>(), 1usize..6, 0usize..4, spare, behaviour, proptest::option::of((0..MEMBERS, fault)))
        .prop_map(|(seed, downloads, viewers, spare_buffers, behaviour, fault)| Case {
            seed,
            downloads,
            viewers,
            spare_buffers,
            behaviour,
            fault,
        })
}

fn play(fixture: &VolumeFixture, case: &Case) {
    // Those of a case that failed: what proptest shrinks to would mean nothing.
    (0..MEMBERS).for_each(|member| fixture.faults.clear(member));
    if let Some((member, fault)) = &case.fault {
        fixture.faults.inject(*member, fault.clone());
    }
    let units = fixture.units(case.spare_buffers);
    let mut core = Core::new(&units, case.seed);
    let mut rng = Rng::new(case.seed ^ 1);
    for _ in 0..case.downloads {
        let (body, expected) = film(fixture, &mut rng);
        core.download(body, expected);
    }
    for _ in 0..case.viewers {
        let (body, expected) = film(fixture, &mut rng);
        core.watch(body, expected);
    }
    let ends = core.play(case.behaviour);
    assert_eq!(ends.lost, 0);
    assert_eq!(ends.complete + ends.vanished, case.downloads + case.viewers);
    // Buffers of reads for viewers that left stay reserved until the reads are answered.
    core.wait_until(ClientBehaviour::default(), |_| units.budget().reserved() == 0);
    assert_eq!((units.budget().waiting_readers(), units.runs().readers()), (0, 0));
    drop((core, units));
    (0..MEMBERS).for_each(|member| fixture.faults.clear(member));
    assert_eq!(fixture.buffers_taken(), 0);
}

#[test]
fn films_come_whole_beside_viewers_faults_and_slow_clients() {
    let fixture = VolumeFixture::new(&LENGTHS, ARENA_BYTES, None);
    let buffers = fixture.volume.arena().usage().buffers_total;
    let config = Config { cases: 60, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&cases(buffers), |case| {
            play(&fixture, &case);
            Ok(())
        })
        .unwrap();
}

#[test]
fn films_come_whole_while_a_member_is_missing() {
    let fixture = VolumeFixture::new(&LENGTHS, ARENA_BYTES, Some(1));
    let buffers = fixture.volume.arena().usage().buffers_total;
    let config = Config { cases: 20, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&cases(buffers), |case| {
            play(&fixture, &Case { fault: None, ..case });
            Ok(())
        })
        .unwrap();
}

/// A member that was not measured counts as a slow hard disk, so runs are worth their memory.
#[test]
fn a_client_that_takes_gets_long_runs_and_loses_them_when_it_stops() {
    let fixture = VolumeFixture::new(&LENGTHS, ARENA_BYTES, None);
    let units = fixture.units(4);
    let mut core = Core::new(&units, 5);
    let download = core.download(fixture.whole(3), fixture.bytes[3].clone());
    // More than a window of a reader with deadlines.
    let window = 4 * 3;
    core.wait_until(ClientBehaviour::default(), |core| core.fetcher.units().budget().reserved() > 2 * window);
    assert_eq!(units.runs().readers(), 1);
    core.stop_taking(download);
    core.wait_until(ClientBehaviour::default(), |core| core.fetcher.in_flight() == 0);
    assert!(units.budget().reserved() > 2 * window);
    // As a server does: it tries again while a unit that found no memory at first is still to come.
    for _ in 0..1000 {
        core.release_stopped();
        if units.runs().readers() == 0 {
            break;
        }
        core.turn(ClientBehaviour::default(), &mut Ends::default());
    }
    assert_eq!((units.budget().reserved(), units.runs().readers()), (0, 0));
}

#[test]
fn eighty_clients_that_take_nothing_do_not_hold_up_four_that_do() {
    let fixture = VolumeFixture::new(&LENGTHS, ARENA_BYTES, None);
    let units = fixture.units(4);
    let mut core = Core::new(&units, 6);
    for _ in 0..80 {
        let stopped = core.download(fixture.whole(0), fixture.bytes[0].clone());
        // These clients have sent requests, and never take any bytes.
        core.turn(ClientBehaviour { vanish: 0, stall: 0 }, &mut Ends::default());
        core.stop_taking(stopped);
    }
    let held = units.budget().reserved();
    assert!(held <= 80 * 5 * 3, "none of them has a long run: {held} buffers");
    let four: Vec<u64> = (0..4).map(|_| core.download(fixture.whole(3), fixture.bytes[3].clone())).collect();
    core.wait_until(ClientBehaviour::default(), |core| core.fetcher.units().runs().readers() > 0);
    core.wait_until(ClientBehaviour::default(), |core| four.iter().all(|one| !core.is_watching(*one)));
    assert_eq!(units.runs().readers(), 0);
}

/// One member fails, and the others answer nothing for a while: nothing is lost by that.
#[test]
fn films_come_whole_from_a_member_that_fails_beside_members_that_stall() {
    for fault in [Fault::FailReads, Fault::CorruptReads, Fault::Vanish] {
        for stalled in [vec![1], vec![1, 2], vec![1, 2, 3, 4]] {
            let fixture = VolumeFixture::new(&LENGTHS, ARENA_BYTES, None);
            fixture.faults.inject(0, fault.clone());
            stalled.iter().for_each(|member| fixture.faults.inject(*member, Fault::Stall));
            let units = fixture.units(4);
            let mut core = Core::new(&units, 7);
            let mut rng = Rng::new(3);
            for _ in 0..3 {
                let (body, expected) = film(&fixture, &mut rng);
                core.download(body, expected);
                let (body, expected) = film(&fixture, &mut rng);
                core.watch(body, expected);
            }
            let faults = fixture.faults.clone();
            let members = stalled.clone();
            let end = std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(800));
                members.iter().for_each(|member| faults.clear(*member));
            });
            let ends = core.play(ClientBehaviour::default());
            end.join().unwrap();
            assert_eq!((ends.lost, ends.complete), (0, 6), "{fault:?} {stalled:?}");
        }
    }
}
