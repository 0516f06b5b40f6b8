//! Members that are lost, slow or silent: what it costs to do without them, and that no reader
//! waits for them.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use reel_cache::limits::{AROUND_AGAIN_NS, READER_STRIPES_MAX, SLOW_AWAY_NS, STALL_NS};
use reel_disk::Fault;
use reel_fixture::{ClientBehaviour, Core, Ends, MEMBERS, STRIPE_BYTES, VolumeFixture};
use reel_qos::Class;
use std::sync::atomic::{AtomicU64, Ordering};

const FILM: usize = 600_000;
const STRIPES: u64 = FILM.div_ceil(STRIPE_BYTES) as u64;
const SECOND_NS: u64 = 1_000_000_000;

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn reads(fixture: &VolumeFixture) -> Vec<u64> {
    fixture.volume.disks().stats().iter().map(|stats| stats.reads).collect()
}

/// Reads of each member for viewers while `work` is done.
fn reads_of(fixture: &VolumeFixture, work: impl FnOnce()) -> Vec<u64> {
    let before = fixture.reads();
    work();
    fixture.reads().iter().zip(before).map(|(after, before)| after.0 - before.0).collect()
}

#[test]
fn a_lost_member_costs_every_other_one_read_for_each_stripe() {
    for lost in 0..MEMBERS {
        let fixture = VolumeFixture::new(&[FILM], 8 << 20, Some(lost));
        let units = fixture.units(8);
        let counts = reads_of(&fixture, || {
            let mut core = Core::new(&units, 1);
            core.watch_in_time(fixture.whole(0), fixture.bytes[0].clone());
            assert_eq!(core.play(ClientBehaviour::default()).complete, 1);
        });
        for (member, count) in counts.into_iter().enumerate() {
            // Where the lost unit is parity, the others of the stripe are not read for it.
            let at_most = if member == lost { 0 } else { STRIPES };
            assert!(count <= at_most, "{count} reads of member {member}, {STRIPES} stripes");
            assert!(member == lost || count >= STRIPES - STRIPES / MEMBERS as u64 - 1, "{count}");
        }
        drop(units);
        assert_eq!(fixture.buffers_taken(), 0);
    }
}

#[test]
fn viewers_on_several_cores_share_what_is_decoded() {
    let fixture = VolumeFixture::new(&[FILM], 8 << 20, Some(1));
    let units = fixture.units(8);
    let decoded = fixture.volume.counters().rows_decoded.get();
    let counts = reads_of(&fixture, || fixture.play_on_four_cores(&units));
    assert!(counts.iter().all(|&count| count <= STRIPES), "{counts:?}");
    let decoded = fixture.volume.counters().rows_decoded.get() - decoded;
    assert!(decoded <= STRIPES * 3, "{decoded} rows were computed more than once");
    drop(units);
    assert_eq!(fixture.buffers_taken(), 0);
}

/// The clock stands still except for the moments that are set here. So a read is overdue only when
/// the test makes it so.
#[test]
fn a_read_is_read_around_at_half_its_lead_and_the_late_answer_only_gives_its_buffer_back() {
    let fixture = VolumeFixture::new(&[STRIPE_BYTES], 8 << 20, None);
    let units = fixture.units(8);
    let mut core = Core::new(&units, 1);
    let (slow, _) = fixture.objects[0].unit_at(0, 1);
    // The clock stands still for as long as the test takes: what is played was decoded.
    core.hold(slow);
    core.watch_in_class(fixture.whole(0), fixture.bytes[0].clone(), Class::PERIODIC, 400_000_000);
    let mut ends = Ends::default();
    core.turn(ClientBehaviour::default(), &mut ends);
    assert_eq!(core.fetcher.next_due_ns(), Some(200_000_000));
    core.wait_until(ClientBehaviour::default(), |core| core.fetcher.in_flight() == 1);
    core.now_ns = 199_999_999;
    core.turn(ClientBehaviour::default(), &mut ends);
    assert_eq!(load(&units.counters().read_around), 0);
    core.now_ns = 200_000_000;
    assert_eq!(core.play(ClientBehaviour::default()).complete, 1);
    assert_eq!((load(&units.counters().read_around), load(&units.counters().stalled)), (1, 0));
    assert_eq!(units.counters().deadline_misses.each_ref().map(load).iter().sum::<u64>(), 0);
    assert_eq!(fixture.volume.counters().rows_decoded.get(), 3);
    assert_eq!(core.fetcher.in_flight(), 0);
    assert_eq!(units.budget().reserved(), 1, "the buffer with the outstanding request stays reserved");
    core.release_all();
    core.wait_until(ClientBehaviour::default(), |_| units.budget().reserved() == 0);
    drop((core, units));
    assert_eq!(fixture.buffers_taken(), 0, "the late answer gives its buffer back");
}

#[test]
fn the_first_answer_of_a_hedged_read_counts() {
    let fixture = VolumeFixture::new(&[STRIPE_BYTES], 8 << 20, None);
    let units = fixture.units(8);
    let mut core = Core::new(&units, 1);
    let (slow, _) = fixture.objects[0].unit_at(0, 1);
    let (parity, _) = fixture.objects[0].unit_at(0, 3);
    core.hold(slow);
    core.watch_in_class(fixture.whole(0), fixture.bytes[0].clone(), Class::PERIODIC, 400_000_000);
    core.turn(ClientBehaviour::default(), &mut Ends::default());
    core.wait_until(ClientBehaviour::default(), |core| core.fetcher.in_flight() == 1);
    core.now_ns = 200_000_000;
    // The answer of the slow member comes, but that of the parity does not.
    core.hold(parity);
    core.turn(ClientBehaviour::default(), &mut Ends::default());
    assert_eq!(load(&units.counters().read_around), 1);
    core.release(slow);
    assert_eq!(core.play(ClientBehaviour::default()).complete, 1);
    assert_eq!(fixture.volume.counters().rows_decoded.get(), 0, "its own member was first");
    drop((core, units));
    assert_eq!(fixture.buffers_taken(), 0);
}

#[test]
fn only_one_member_at_a_time_is_read_around() {
    let fixture = VolumeFixture::new(&[STRIPE_BYTES], 8 << 20, None);
    let units = fixture.units(8);
    let mut core = Core::new(&units, 1);
    for position in 0..3 {
        let (member, _) = fixture.objects[0].unit_at(0, position);
        core.hold(member);
    }
    core.watch_in_class(fixture.whole(0), fixture.bytes[0].clone(), Class::PERIODIC, 400_000_000);
    core.turn(ClientBehaviour::default(), &mut Ends::default());
    core.now_ns = 200_000_000;
    core.turn(ClientBehaviour::default(), &mut Ends::default());
    assert_eq!(load(&units.counters().read_around), 1, "two other members are as late");
    core.release_all();
    assert_eq!(core.play(ClientBehaviour::default()).complete, 1);
    drop((core, units));
    assert_eq!(fixture.buffers_taken(), 0);
}

/// If all members are late, the cause is the load. To read around one of them would only add to it.
#[test]
fn no_member_is_read_around_while_others_are_as_late() {
    const WINDOW: usize = READER_STRIPES_MAX * STRIPE_BYTES;
    let fixture = VolumeFixture::new(&[4 * WINDOW], 8 << 20, None);
    let units = fixture.units(8);
    let mut core = Core::new(&units, 1);
    let around = |core: &mut Core, window: usize| {
        (0..MEMBERS).for_each(|member| core.hold(member));
        let range = window * WINDOW..(window + 1) * WINDOW;
        let body = fixture.whole(0).slice(range.start as u64..range.end as u64);
        core.watch_in_class(body, fixture.bytes[0][range].to_vec(), Class::PERIODIC, 400_000_000);
        core.turn(ClientBehaviour::default(), &mut Ends::default());
        // Half of their lead time is over.
        core.now_ns += 200_000_000;
        core.turn(ClientBehaviour::default(), &mut Ends::default());
        core.release_all();
        assert_eq!(core.play(ClientBehaviour::default()).complete, 1);
        load(&units.counters().read_around)
    };
    let before = around(&mut core, 0);
    assert!(before > 0, "at first it is not known how late the others are");
    for window in 1..4 {
        assert_eq!(around(&mut core, window), before, "window {window}");
    }
    drop((core, units));
    assert_eq!(fixture.buffers_taken(), 0);
}

/// A slow member is left alone. It is read again when the others miss their deadlines without it,
/// long before its time is over.
#[test]
fn a_slow_member_is_read_again_when_the_others_miss_deadlines_without_it() {
    const WINDOW: usize = READER_STRIPES_MAX * STRIPE_BYTES;
    const WINDOWS: usize = 20;
    let fixture = VolumeFixture::new(&[2 * WINDOWS * WINDOW], 16 << 20, None);
    let units = fixture.units(8);
    let mut core = Core::new(&units, 1);
    // Half of the time after which a member counts as silent passes between the requests and the
    // answers.
    const PASSES_NS: u64 = STALL_NS / 2;
    let play = |core: &mut Core, late: &[usize], window: usize, due_ns: u64, left: usize| {
        late.iter().for_each(|&member| core.hold(member));
        let range = window * WINDOW..(window + 1) * WINDOW;
        let body = fixture.whole(0).slice(range.start as u64..range.end as u64);
        core.watch_in_class(body, fixture.bytes[0][range].to_vec(), Class::PERIODIC, due_ns);
        core.turn(ClientBehaviour::default(), &mut Ends::default());
        core.wait_until(ClientBehaviour::default(), |core| core.fetcher.in_flight() <= left);
        core.now_ns += PASSES_NS;
        core.turn(ClientBehaviour::default(), &mut Ends::default());
        if late.len() == MEMBERS {
            core.release_all();
        }
        assert_eq!(core.play(ClientBehaviour::default()).complete, 1);
        // The member answers, but late.
        core.release_all();
        core.wait_until(ClientBehaviour::default(), |_| units.budget().reserved() == 0);
    };
    let left_alone = (0..WINDOWS).find(|&window| {
        play(&mut core, &[1], window, 2 * PASSES_NS, READER_STRIPES_MAX);
        units.is_degraded()
    });
    assert!(left_alone.is_some(), "it was late repeatedly");
    let all: Vec<usize> = (0..MEMBERS).collect();
    let begun_ns = core.now_ns;
    let again = (WINDOWS..2 * WINDOWS).find(|&window| {
        play(&mut core, &all, window, PASSES_NS / 2, usize::MAX);
        !units.is_degraded()
    });
    assert!(again.is_some() && core.now_ns - begun_ns < SLOW_AWAY_NS, "{again:?}");
    assert_eq!(load(&units.counters().stalled), 0, "no member was silent");
    drop((core, units));
}

#[test]
fn a_silent_member_is_not_asked_again_until_it_answers() {
    let fixture = VolumeFixture::new(&[FILM], 8 << 20, None);
    let units = fixture.units(8);
    let mut core = Core::new(&units, 1);
    let (silent, _) = fixture.objects[0].unit_at(0, 0);
    core.hold(silent);
    // No read has a deadline: only the silence counts.
    core.watch_in_class(fixture.whole(0), fixture.bytes[0].clone(), Class::INTERACTIVE, 60 * SECOND_NS);
    let mut ends = Ends::default();
    core.turn(ClientBehaviour::default(), &mut ends);
    core.now_ns = STALL_NS - 1;
    core.turn(ClientBehaviour::default(), &mut ends);
    assert_eq!(load(&units.counters().stalled), 0);
    core.now_ns = 2 * STALL_NS;
    core.turn(ClientBehaviour::default(), &mut ends);
    core.now_ns += STALL_NS;
    core.turn(ClientBehaviour::default(), &mut ends);
    assert_eq!(load(&units.counters().stalled), 1);
    assert!(units.is_degraded());
    assert_eq!(core.play(ClientBehaviour::default()).complete, 1);
    let asked = reads(&fixture)[silent];
    assert!(asked <= READER_STRIPES_MAX as u64, "it was asked {asked} times, of which one window was before");
    assert!(load(&units.counters().read_around) > 0);
    // Its answers come at last.
    core.release(silent);
    core.wait_until(ClientBehaviour::default(), |_| !units.is_degraded());
    let counts = reads_of(&fixture, || {
        let units = fixture.units(8);
        let mut core = Core::new(&units, 2);
        core.watch_in_time(fixture.whole(0), fixture.bytes[0].clone());
        assert_eq!(core.play(ClientBehaviour::default()).complete, 1);
    });
    assert!(counts[silent] > STRIPES / 2, "the member is read again");
    drop((core, units));
    assert_eq!(fixture.buffers_taken(), 0);
}

/// A member falls silent for good while no memory is left to read around it. Its reads have no
/// deadline, so nothing but the silence counts.
#[test]
fn a_silent_member_is_read_around_as_soon_as_there_is_memory() {
    let fixture = VolumeFixture::new(&[FILM], 8 << 20, None);
    let units = fixture.units(8);
    let mut core = Core::new(&units, 1);
    let (silent, _) = fixture.objects[0].unit_at(0, 0);
    core.hold(silent);
    let viewer =
        core.watch_in_class(fixture.whole(0), fixture.bytes[0].clone(), Class::INTERACTIVE, 60 * SECOND_NS);
    let mut ends = Ends::default();
    core.turn(ClientBehaviour::default(), &mut ends);
    let others: Vec<_> = std::iter::from_fn(|| units.budget().reserve(1)).collect();
    assert!(!others.is_empty());
    // Twice: answers of the other members may come between the first check and the second.
    for _ in 0..2 {
        core.now_ns += 2 * STALL_NS;
        core.turn(ClientBehaviour::default(), &mut ends);
    }
    assert_eq!(load(&units.counters().stalled), 1);
    assert_eq!(load(&units.counters().read_around), 0, "there is no memory");
    drop(others);
    let until_ns = core.now_ns + 60 * SECOND_NS;
    while core.is_watching(viewer) {
        core.now_ns += AROUND_AGAIN_NS;
        assert!(core.now_ns < until_ns, "it waits for the silent member");
        core.turn(ClientBehaviour::default(), &mut ends);
    }
    assert_eq!(ends.complete, 1);
    core.release_all();
    drop((core, units));
    assert_eq!(fixture.buffers_taken(), 0);
}

#[test]
fn a_member_that_fails_every_read_is_out_after_a_few() {
    let fixture = VolumeFixture::new(&[FILM], 8 << 20, None);
    let health = fixture.health();
    let units = fixture.units_with(8, health.clone());
    let mut core = Core::new(&units, 1);
    fixture.faults.inject(2, Fault::FailReads);
    core.watch(fixture.whole(0), fixture.bytes[0].clone());
    assert_eq!(core.play(ClientBehaviour::default()).complete, 1);
    assert!(!health.readable(2) && health.lost() == 1);
    assert_eq!(fixture.volume.counters().members_taken_out.get(), 1);
    // The next member that fails is one more than can be taken out, so reads continue to fail.
    fixture.faults.inject(1, Fault::FailReads);
    core.watch(fixture.whole(0), fixture.bytes[0].clone());
    core.play(ClientBehaviour::default());
    assert!(health.readable(1));
}
