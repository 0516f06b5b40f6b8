//! Reading ahead: when it starts, what it holds, and that it gives memory back to readers.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use reel_cache::limits::PREFETCH_HELD_NS;
use reel_cache::{Body, Part, Plan, Prefetcher, SessionKey, TrackOfSession, Units};
use reel_fixture::{ClientBehaviour, Core, STRIPE_BYTES, VolumeFixture};
use reel_qos::Class;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const SECOND_NS: u64 = 1_000_000_000;
const SEGMENT_BYTES: u64 = 3 * STRIPE_BYTES as u64 / 2;

fn key() -> SessionKey {
    "00112233445566778899aabbccddeeff".parse().unwrap()
}

fn track(track: usize) -> TrackOfSession {
    TrackOfSession { session: key(), track }
}

fn range(number: u64) -> Range<u64> {
    number * SEGMENT_BYTES..(number + 1) * SEGMENT_BYTES
}

fn plan(fixture: &VolumeFixture, number: u64, start_ns: u64) -> Plan {
    let body = Body::new([Part::Object(Arc::clone(&fixture.objects[0]), range(number))]);
    let class = Class::PERIODIC;
    Plan { body, class, start_ns, due_ns: start_ns + 4 * SECOND_NS, duration_ns: 4 * SECOND_NS }
}

fn play(fixture: &VolumeFixture, core: &mut Core, number: u64) {
    let bytes = range(number);
    let expected = fixture.bytes[0][bytes.start as usize..bytes.end as usize].to_vec();
    core.watch_in_time(Body::new([Part::Object(Arc::clone(&fixture.objects[0]), bytes)]), expected);
    assert_eq!(core.play(ClientBehaviour::default()).complete, 1);
}

/// Lets what was read ahead arrive.
fn settle(core: &mut Core, prefetcher: &mut Prefetcher) {
    while core.fetcher.in_flight() > 0 {
        core.turn(ClientBehaviour::default(), &mut reel_fixture::Ends::default());
    }
    core.turn(ClientBehaviour::default(), &mut reel_fixture::Ends::default());
    core.prefetched.drain(..).for_each(|fetched| prefetcher.fetched(&fetched));
}

#[test]
fn the_next_segment_is_in_memory_before_a_punctual_client_asks() {
    let fixture = VolumeFixture::new(&[8 * SEGMENT_BYTES as usize], 8 << 20, None);
    let units = fixture.units(8);
    let (mut core, mut prefetcher) = (Core::new(&units, 1), Prefetcher::default());
    prefetcher.plan(track(0), Some(plan(&fixture, 1, 5 * SECOND_NS)));
    prefetcher.turn(&mut core.fetcher, 5 * SECOND_NS - 1);
    assert_eq!(core.fetcher.in_flight(), 0, "not before its start time");
    assert_eq!(prefetcher.next_ns(), Some(5 * SECOND_NS));
    prefetcher.turn(&mut core.fetcher, 5 * SECOND_NS);
    settle(&mut core, &mut prefetcher);
    let reads = units.counters().reads.load(Ordering::Relaxed);
    assert!(reads > 0 && units.budget().reserved() > 0);
    play(&fixture, &mut core, 1);
    assert_eq!(
        units.counters().reads.load(Ordering::Relaxed),
        reads,
        "the client's own request reads nothing"
    );
}

#[test]
fn what_is_due_when_its_plan_starts_is_not_late_for_that() {
    let fixture = VolumeFixture::new(&[8 * SEGMENT_BYTES as usize], 8 << 20, None);
    let units = fixture.units(8);
    let (mut core, mut prefetcher) = (Core::new(&units, 1), Prefetcher::default());
    let plan = Plan { due_ns: SECOND_NS, ..plan(&fixture, 1, SECOND_NS) };
    prefetcher.plan(track(0), Some(plan));
    core.now_ns = SECOND_NS + SECOND_NS / 10;
    prefetcher.turn(&mut core.fetcher, core.now_ns);
    settle(&mut core, &mut prefetcher);
    assert!(units.counters().reads.load(Ordering::Relaxed) > 0);
    let misses = &units.counters().deadline_misses[Class::PERIODIC.index()];
    assert_eq!(misses.load(Ordering::Relaxed), 0);
}

#[test]
fn a_client_that_runs_ahead_makes_prefetching_needless() {
    let fixture = VolumeFixture::new(&[8 * SEGMENT_BYTES as usize], 8 << 20, None);
    let units = fixture.units(8);
    let (mut core, mut prefetcher) = (Core::new(&units, 1), Prefetcher::default());
    for number in 0..6 {
        prefetcher.plan(track(0), Some(plan(&fixture, number + 1, (number + 1) * 4 * SECOND_NS)));
        prefetcher.turn(&mut core.fetcher, 0);
    }
    prefetcher.plan(track(0), None);
    prefetcher.turn(&mut core.fetcher, 100 * SECOND_NS);
    assert_eq!((prefetcher.started, prefetcher.is_empty()), (0, true));
}

#[test]
fn a_segment_that_is_not_requested_is_dropped() {
    let fixture = VolumeFixture::new(&[8 * SEGMENT_BYTES as usize], 8 << 20, None);
    let units = fixture.units(8);
    let (mut core, mut prefetcher) = (Core::new(&units, 1), Prefetcher::default());
    prefetcher.plan(track(0), Some(plan(&fixture, 1, 0)));
    prefetcher.turn(&mut core.fetcher, 0);
    settle(&mut core, &mut prefetcher);
    let over_ns = 8 * SECOND_NS + PREFETCH_HELD_NS;
    prefetcher.turn(&mut core.fetcher, over_ns - 1);
    assert!(units.budget().reserved() > 0);
    prefetcher.turn(&mut core.fetcher, over_ns);
    assert_eq!((units.budget().reserved(), prefetcher.is_empty()), (0, true));
}

#[test]
fn prefetching_never_takes_what_readers_need() {
    let fixture = VolumeFixture::new(&[8 * SEGMENT_BYTES as usize], 0, None);
    let units = fixture.units(4);
    let (mut core, mut prefetcher) = (Core::new(&units, 1), Prefetcher::default());
    let taken = units.budget().reserve(units.budget().total() * 15 / 16).unwrap();
    prefetcher.plan(track(0), Some(plan(&fixture, 1, 0)));
    prefetcher.turn(&mut core.fetcher, 0);
    assert_eq!(core.fetcher.in_flight(), 0, "memory is not plentiful");
    drop(taken);
    prefetcher.plan(track(0), Some(plan(&fixture, 1, 0)));
    prefetcher.turn(&mut core.fetcher, 0);
    settle(&mut core, &mut prefetcher);
    assert!(units.budget().reserved() > 0);
    prefetcher.release();
    assert_eq!((units.budget().reserved(), prefetcher.is_empty()), (0, true));
}

/// A plan whose first reads stay unanswered until [`Core::release_all`].
fn prefetch_under_way(fixture: &VolumeFixture, units: &Units) -> (Core, Prefetcher) {
    let (mut core, mut prefetcher) = (Core::new(units, 1), Prefetcher::default());
    core.hold_all();
    prefetcher.plan(track(0), Some(plan(fixture, 1, 0)));
    prefetcher.turn(&mut core.fetcher, 0);
    (core, prefetcher)
}

#[test]
fn reads_under_way_are_not_dropped_for_other_readers() {
    let fixture = VolumeFixture::new(&[8 * SEGMENT_BYTES as usize], 8 << 20, None);
    let units = fixture.units(8);
    let (mut core, mut prefetcher) = prefetch_under_way(&fixture, &units);
    let reserved = units.budget().reserved();
    assert!(core.fetcher.in_flight() > 0 && reserved > 0);
    prefetcher.release();
    assert_eq!((prefetcher.len(), units.budget().reserved()), (1, reserved), "that would free no memory");
    core.release_all();
    settle(&mut core, &mut prefetcher);
    assert_eq!(units.budget().reserved(), reserved, "the segment is held for its client");
    prefetcher.release();
    assert_eq!((units.budget().reserved(), prefetcher.is_empty()), (0, true));
}

#[test]
fn reads_that_no_client_needs_stay_reserved_until_they_are_answered() {
    let fixture = VolumeFixture::new(&[8 * SEGMENT_BYTES as usize], 8 << 20, None);
    let units = fixture.units(8);
    let (mut core, mut prefetcher) = prefetch_under_way(&fixture, &units);
    let reserved = units.budget().reserved();
    // The client seeks, and has left when that is over.
    prefetcher.plan(track(0), None);
    prefetcher.plan(track(0), None);
    assert!(prefetcher.is_empty());
    assert_eq!((core.fetcher.in_flight(), units.budget().reserved()), (reserved, reserved));
    core.release_all();
    core.wait_until(ClientBehaviour::default(), |core| core.fetcher.in_flight() == 0);
    assert_eq!(units.budget().reserved(), 0);
}

#[test]
fn windows_of_a_file_follow_their_client() {
    let fixture = VolumeFixture::new(&[8 * SEGMENT_BYTES as usize], 8 << 20, None);
    let mut prefetcher = Prefetcher::default();
    let name = track(usize::MAX);
    let near = |at: u64| move |end: u64| end <= at + 200;
    let next = |prefetcher: &Prefetcher, at| prefetcher.next_window(name, at, near(at));
    assert_eq!(next(&prefetcher, 700), Some(700), "nothing is read ahead yet");
    prefetcher.plan_window(name, 700..1700, plan(&fixture, 1, 0));
    assert_eq!(next(&prefetcher, 900), None, "enough of the window is left");
    assert_eq!(next(&prefetcher, 1500), Some(1700), "the window comes to its end");
    prefetcher.plan_window(name, 1700..2700, plan(&fixture, 2, 0));
    assert_eq!(next(&prefetcher, 1300), None, "the client is still in the window before");
    assert_eq!(next(&prefetcher, 2500), Some(2700));
    assert_eq!(next(&prefetcher, 600), Some(600), "a seek back");
    assert_eq!(next(&prefetcher, 9000), Some(9000), "a seek");
    assert_eq!(prefetcher.next_window(track(0), 900, near(900)), Some(900), "another track");
}

#[test]
fn a_window_gives_back_what_its_client_has_taken() {
    let fixture = VolumeFixture::new(&[8 * SEGMENT_BYTES as usize], 8 << 20, None);
    let units = fixture.units(8);
    let (mut core, mut prefetcher) = (Core::new(&units, 1), Prefetcher::default());
    let name = track(usize::MAX);
    let whole = Body::new([Part::Object(Arc::clone(&fixture.objects[0]), 0..4 * STRIPE_BYTES as u64)]);
    let plan = Plan { body: whole, ..plan(&fixture, 0, 0) };
    prefetcher.plan_window(name, 0..4 * STRIPE_BYTES as u64, plan);
    prefetcher.turn(&mut core.fetcher, 0);
    settle(&mut core, &mut prefetcher);
    let all = units.budget().reserved();
    assert!(all > 0 && all.is_multiple_of(4));
    for (offset, left) in
        [(0, 4), (STRIPE_BYTES as u64 - 1, 4), (STRIPE_BYTES as u64, 3), (3 * STRIPE_BYTES as u64, 1)]
    {
        prefetcher.passed(name, offset);
        assert_eq!(units.budget().reserved(), all / 4 * left, "at {offset}");
    }
    prefetcher.passed(name, 4 * STRIPE_BYTES as u64);
    assert_eq!(units.budget().reserved(), 0);
}

#[test]
fn with_little_memory_a_window_is_short() {
    let fixture = VolumeFixture::new(&[8 * SEGMENT_BYTES as usize], 0, None);
    let units = fixture.units(4);
    let (mut core, mut prefetcher) = (Core::new(&units, 1), Prefetcher::default());
    let name = track(usize::MAX);
    let bytes = 8 * STRIPE_BYTES as u64;
    let body = Body::new([Part::Object(Arc::clone(&fixture.objects[0]), 0..bytes)]);
    let total = units.budget().total();
    let _taken = units.budget().reserve(total * 5 / 8).unwrap();
    prefetcher.plan_window(name, 0..bytes, Plan { body, ..plan(&fixture, 0, 0) });
    prefetcher.turn(&mut core.fetcher, 0);
    settle(&mut core, &mut prefetcher);
    let reserved = units.budget().reserved();
    assert!(reserved > total * 5 / 8 && reserved * 8 <= total * 7, "{reserved} of {total}");
    let end = (0..=bytes).find(|&at| prefetcher.next_window(name, at, |end| end <= at) == Some(at));
    assert!(
        end.is_some_and(|end| end > 0 && end < bytes),
        "the next window begins where this one ends: {end:?}"
    );
}
