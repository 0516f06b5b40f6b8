//! Many readers in little memory: which of them share, which of them wait, and that none waits for
//! ever.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use reel_cache::{Body, Part};
use reel_disk::Fault;
use reel_fixture::{BUFFERS, ClientBehaviour, Core, Ends, STRIPE_BYTES, VolumeFixture};
use reel_qos::Class;
use reel_testkit::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const FILM: usize = 600_000;

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[test]
fn viewers_of_one_film_on_several_cores_read_it_once() {
    let fixture = VolumeFixture::new(&[FILM], 8 << 20, None);
    let units = fixture.units(8);
    fixture.play_on_four_cores(&units);
    let stripes = FILM.div_ceil(STRIPE_BYTES) as u64;
    let (reads, shared) =
        (load(&units.counters().reads), load(&units.counters().hits) + load(&units.counters().joins));
    assert!(reads <= stripes * 3, "{reads} reads of {} units", stripes * 3);
    assert_eq!(load(&units.counters().evictions), 0);
    assert!(shared >= reads * 15, "{shared} shared, {reads} read");
    assert_eq!(units.budget().reserved(), 0);
    drop(units);
    assert_eq!(fixture.buffers_taken(), 0);
}

#[test]
fn many_cores_in_little_memory_all_finish() {
    for fault in [None, Some(Fault::FailReads), Some(Fault::CorruptReads)] {
        let fixture = VolumeFixture::new(&[FILM, 200_000], 0, None);
        if let Some(fault) = fault {
            fixture.faults.inject(2, fault);
        }
        // Enough for one stripe at a time, and one decoding.
        let units = fixture.units(BUFFERS - 4);
        thread::scope(|scope| {
            for seed in 0..3 {
                let (fixture, units) = (&fixture, &units);
                scope.spawn(move || {
                    let mut core = Core::new(units, seed);
                    for viewer in 0..6 {
                        core.watch(fixture.whole(viewer % 2), fixture.bytes[viewer % 2].clone());
                    }
                    let ends = core.play(ClientBehaviour { vanish: 0, stall: 5 });
                    assert_eq!(ends, Ends { complete: 6, vanished: 0, lost: 0 });
                });
            }
        });
        assert!(load(&units.counters().evictions) > 0, "the film is larger than the memory");
        assert_eq!((units.budget().reserved(), units.budget().waiting_readers()), (0, 0));
        drop(units);
        assert_eq!(fixture.buffers_taken(), 0);
    }
}

/// Small steps come and go all the time. A reader that needs all memory at once must get its turn.
#[test]
fn a_reader_that_needs_much_gets_its_turn_beside_readers_that_need_little() {
    let fixture = VolumeFixture::new(&[FILM], 0, None);
    let units = fixture.units(BUFFERS - 3);
    let mut core = Core::new(&units, 1);
    let mut rng = Rng::new(5);
    for _ in 0..4 {
        let mut expected = Vec::new();
        let parts: Vec<Part> = (0..3_000)
            .map(|_| {
                let at = rng.below(FILM as u64 - 100);
                expected.extend_from_slice(&fixture.bytes[0][at as usize..at as usize + 10]);
                Part::Object(Arc::clone(&fixture.objects[0]), at..at + 10)
            })
            .collect();
        core.watch(Body::new(parts), expected);
    }
    // Takes all of the budget for each stripe.
    let large = core.watch(fixture.whole(0), fixture.bytes[0].clone());
    let mut ends = Ends::default();
    while core.is_watching(large) {
        core.turn(ClientBehaviour::default(), &mut ends);
        assert_eq!(ends.complete, usize::from(!core.is_watching(large)), "the small ones were served first");
    }
    assert_eq!(core.play(ClientBehaviour { vanish: 10, stall: 0 }).lost, 0);
}

#[test]
fn readers_that_joined_the_reads_of_a_core_that_ends_read_themselves() {
    let fixture = VolumeFixture::new(&[FILM], 1 << 20, None);
    let units = fixture.units(4);
    let (mut ends, mut first, mut second) = (Ends::default(), Core::new(&units, 1), Core::new(&units, 2));
    first.hold_all();
    first.watch(fixture.whole(0), fixture.bytes[0].clone());
    first.turn(ClientBehaviour::default(), &mut ends);
    assert!(first.fetcher.in_flight() > 0);
    second.watch(fixture.whole(0), fixture.bytes[0].clone());
    second.turn(ClientBehaviour::default(), &mut ends);
    assert_eq!(second.fetcher.in_flight(), 0, "it joined");
    drop(first);
    let ends = second.play(ClientBehaviour::default());
    assert_eq!((ends.lost, ends.complete), (0, 1), "the abandoned units are read again");
    drop((second, units));
    assert_eq!(fixture.buffers_taken(), 0);
}

/// Two viewers of one read: only the one whose deadline has passed has missed it.
#[test]
fn only_the_viewer_whose_deadline_has_passed_misses_it() {
    let fixture = VolumeFixture::new(&[20_000], 1 << 20, None);
    let units = fixture.units(4);
    let mut core = Core::new(&units, 1);
    core.watch_in_class(fixture.whole(0), fixture.bytes[0].clone(), Class::APERIODIC, u64::MAX);
    core.watch_in_class(fixture.whole(0), fixture.bytes[0].clone(), Class::PERIODIC, 10);
    core.watch_in_class(fixture.whole(0), fixture.bytes[0].clone(), Class::INTERACTIVE, 20);
    core.hold_all();
    core.turn(ClientBehaviour::default(), &mut Ends::default());
    core.now_ns = 15;
    core.release_all();
    assert_eq!(core.play(ClientBehaviour::default()).complete, 3);
    let misses = units.counters().deadline_misses.each_ref().map(load);
    assert_eq!(misses[Class::PERIODIC.index()], 3, "three units of one stripe");
    assert_eq!((misses[Class::INTERACTIVE.index()], misses[Class::APERIODIC.index()]), (0, 0));
}
