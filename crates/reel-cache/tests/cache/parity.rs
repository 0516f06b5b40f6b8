//! Parity rows as payload: the exclusive or of the data rows, whichever member is lost, and each
//! unit read once for data and parity together.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use reel_cache::{Body, Due, Part, RowKind, Units};
use reel_disk::Fault;
use reel_fixture::{ClientBehaviour, Core, Ends, IN_TIME_NS, VolumeFixture};
use reel_qos::Class;
use reel_testkit::Rng;
use reel_volume::GeometryFields;
use std::ops::Range;
use std::sync::Arc;

const GEOMETRIES: [GeometryFields; 2] = [GeometryFields::ts(4), GeometryFields::cmaf(5)];
const STRIPES: u64 = 6;
const ARENA_BYTES: usize = 64 << 20;

/// An object whose last stripe is not full, on members of which one may be lost.
fn stored(geometry: GeometryFields, lost_member: Option<usize>) -> VolumeFixture {
    let row_bytes = geometry.symbol_bytes * geometry.row_symbols;
    let stripe_bytes = row_bytes * geometry.unit_rows * geometry.data_rows;
    let bytes = STRIPES as usize * stripe_bytes - stripe_bytes / 2;
    VolumeFixture::with_geometry(geometry, &[bytes], ARENA_BYTES, lost_member)
}

/// The bytes `range` of the parity rows, for a reader that reads units to their ends or not.
fn watch(core: &mut Core, fixture: &VolumeFixture, range: Range<u64>, reads_on: bool) {
    let expected = fixture.parity_bytes(0)[range.start as usize..range.end as usize].to_vec();
    let body = Body::new([Part::Parity(Arc::clone(&fixture.objects[0]), range)]);
    core.watch_on(body, expected, Due::After(IN_TIME_NS), reads_on);
}

fn watch_data(core: &mut Core, fixture: &VolumeFixture, range: Range<u64>) {
    let expected = fixture.bytes[0][range.start as usize..range.end as usize].to_vec();
    core.watch_on(
        Body::new([Part::Object(Arc::clone(&fixture.objects[0]), range)]),
        expected,
        Due::After(IN_TIME_NS),
        false,
    );
}

fn play(core: &mut Core) {
    let ends = core.play(ClientBehaviour::default());
    assert_eq!((ends.lost, ends.vanished), (0, 0));
}

/// The member that holds the parity of a stripe.
fn parity_member(fixture: &VolumeFixture, stripe: u64) -> usize {
    fixture.objects[0].unit_at(stripe, fixture.volume.geometry().data_rows()).0
}

fn reads(fixture: &VolumeFixture) -> Vec<u64> {
    fixture.reads().into_iter().map(|(reads, _)| reads).collect()
}

/// Reads of each member while `work` is done.
fn reads_of(fixture: &VolumeFixture, work: impl FnOnce()) -> Vec<u64> {
    let before = reads(fixture);
    work();
    reads(fixture).iter().zip(before).map(|(after, before)| after - before).collect()
}

fn decoded(fixture: &VolumeFixture) -> u64 {
    fixture.volume.counters().rows_decoded.get()
}

fn ends_without_memory(fixture: &VolumeFixture, core: Core, units: Units) {
    drop(core);
    assert_eq!((units.budget().reserved(), units.budget().waiting_readers()), (0, 0));
    drop(units);
    assert_eq!(fixture.buffers_taken(), 0);
}

#[test]
fn any_range_of_parity_is_the_exclusive_or_of_data_rows_whichever_member_is_lost() {
    for geometry in GEOMETRIES {
        for lost in [None].into_iter().chain((0..geometry.members).map(Some)) {
            let fixture = stored(geometry, lost);
            let parity_bytes = RowKind::Parity.object_bytes(&fixture.objects[0]);
            assert_eq!(parity_bytes, fixture.parity_bytes(0).len() as u64);
            assert_eq!(parity_bytes, STRIPES * RowKind::Parity.stripe_bytes(fixture.volume.geometry()));
            let units = fixture.units(8);
            let mut core = Core::new(&units, 7);
            let mut rng = Rng::new(lost.map_or(0, |lost| lost as u64 + 1));
            for number in 0..12 {
                let from = rng.below(parity_bytes);
                let to = from + 1 + rng.below(parity_bytes - from);
                watch(&mut core, &fixture, from..to, number % 2 == 0);
            }
            core.watch_in_time(fixture.whole_parity(0), fixture.parity_bytes(0));
            play(&mut core);
            ends_without_memory(&fixture, core, units);
        }
    }
}

#[test]
fn a_lost_member_changes_only_the_parity_that_it_held() {
    for geometry in GEOMETRIES {
        for lost in 0..geometry.members {
            let fixture = stored(geometry, Some(lost));
            let units = fixture.units(8);
            let mut core = Core::new(&units, 7);
            let held = (0..STRIPES).filter(|stripe| parity_member(&fixture, *stripe) == lost).count() as u64;
            let rows = decoded(&fixture);
            let counts = reads_of(&fixture, || {
                watch(&mut core, &fixture, 0..RowKind::Parity.object_bytes(&fixture.objects[0]), false);
                play(&mut core);
            });
            assert_eq!(decoded(&fixture) - rows, held * geometry.unit_rows as u64);
            // One read where the parity is there, and otherwise one of each data unit.
            let expected = STRIPES - held + held * geometry.data_rows as u64;
            assert_eq!(counts.iter().sum::<u64>(), expected, "{counts:?} without {lost}");
            ends_without_memory(&fixture, core, units);
        }
    }
}

#[test]
fn a_wrong_parity_row_is_computed_from_the_data_rows() {
    for geometry in GEOMETRIES {
        let fixture = stored(geometry, None);
        let row_bytes = fixture.volume.geometry().row_bytes() as u64;
        // One byte of the third row of the parity of stripe 1.
        let (member, unit) = fixture.objects[0].unit_at(1, geometry.data_rows);
        let wrong = unit + 2 * row_bytes + 5;
        fixture.faults.inject(member, Fault::CorruptRange(wrong..wrong + 1));
        let units = fixture.units(8);
        let mut core = Core::new(&units, 7);
        let before = (decoded(&fixture), fixture.volume.counters().checksum_failures.get());
        core.watch_in_time(fixture.whole_parity(0), fixture.parity_bytes(0));
        play(&mut core);
        let after = (decoded(&fixture), fixture.volume.counters().checksum_failures.get());
        assert_eq!((after.0 - before.0, after.1 - before.1), (1, 1));
        ends_without_memory(&fixture, core, units);
    }
}

/// The clock stands still except for the moments that are set here.
#[test]
fn parity_of_a_slow_member_is_read_around() {
    let fixture = stored(GeometryFields::ts(4), None);
    let units = fixture.units(8);
    let mut core = Core::new(&units, 1);
    let stripe_bytes = RowKind::Parity.stripe_bytes(fixture.volume.geometry());
    let slow = parity_member(&fixture, 0);
    core.hold(slow);
    let body = Body::new([Part::Parity(Arc::clone(&fixture.objects[0]), 0..stripe_bytes)]);
    let expected = fixture.parity_bytes(0)[..stripe_bytes as usize].to_vec();
    let rows = decoded(&fixture);
    core.watch_in_class(body, expected, Class::PERIODIC, 400_000_000);
    core.turn(ClientBehaviour::default(), &mut Ends::default());
    assert_eq!(core.fetcher.next_due_ns(), Some(200_000_000));
    core.now_ns = 200_000_000;
    play(&mut core);
    assert_eq!(decoded(&fixture) - rows, fixture.volume.geometry().unit_rows() as u64);
    core.release(slow);
    core.wait_until(ClientBehaviour::default(), |_| units.budget().reserved() == 0);
    ends_without_memory(&fixture, core, units);
}

#[test]
fn data_and_its_parity_cost_each_member_one_read_for_each_stripe() {
    for geometry in GEOMETRIES {
        for lost in [None].into_iter().chain((0..geometry.members).map(Some)) {
            let fixture = stored(geometry, lost);
            let of = fixture.volume.geometry();
            let (data, parity) = (RowKind::Data.matrix_bytes(of), RowKind::Parity.matrix_bytes(of));
            // From the second matrix of the second stripe to the first one of the fourth.
            let matrices = of.unit_rows() as u64 + 1..3 * of.unit_rows() as u64 + 1;
            let units = fixture.units(8);
            let mut core = Core::new(&units, 7);
            let counts = reads_of(&fixture, || {
                watch_data(&mut core, &fixture, matrices.start * data..matrices.end * data);
                watch(&mut core, &fixture, matrices.start * parity..matrices.end * parity, false);
                play(&mut core);
            });
            for (member, count) in counts.into_iter().enumerate() {
                let expected = if lost == Some(member) { 0 } else { 3 };
                assert_eq!(count, expected, "member {member} without {lost:?}");
            }
            ends_without_memory(&fixture, core, units);
        }
    }
}

/// What was sent stays in memory while nothing else needs it.
#[test]
fn lost_parity_is_computed_from_data_in_memory() {
    for geometry in GEOMETRIES {
        let lost = 2;
        let fixture = stored(geometry, Some(lost));
        let units = fixture.units(8);
        let mut core = Core::new(&units, 7);
        core.watch_in_time(fixture.whole(0), fixture.bytes[0].clone());
        play(&mut core);
        let counts = reads_of(&fixture, || {
            // The last stripe is not full, so not all of its data was read.
            let range = 0..(STRIPES - 1) * RowKind::Parity.stripe_bytes(fixture.volume.geometry());
            watch(&mut core, &fixture, range, false);
            play(&mut core);
        });
        // Each stripe has a unit on the lost member. So its parity was read to compute its data, or
        // is computed from its data now.
        assert_eq!(counts, vec![0; geometry.members]);
        ends_without_memory(&fixture, core, units);
    }
}

/// Where disks are short. Data that was sent stays in memory while nothing else needs it.
#[test]
fn parity_can_be_computed_from_its_data_in_place_of_a_read() {
    for geometry in GEOMETRIES {
        for lost in [None, Some(1)] {
            let fixture = stored(geometry, lost);
            let of = fixture.volume.geometry();
            let full = STRIPES - 1;
            let (data, parity) = (RowKind::Data.stripe_bytes(of), RowKind::Parity.stripe_bytes(of));
            let units = fixture.units(8);
            let mut core = Core::new(&units, 7);
            core.fetcher.compute_parity(true);
            let counts = reads_of(&fixture, || {
                watch_data(&mut core, &fixture, 0..full * data);
                watch(&mut core, &fixture, 0..full * parity, false);
                play(&mut core);
            });
            let computed = fixture.volume.counters().rows_computed.get();
            let (reads, rows) = match lost {
                None => (full * of.data_rows() as u64, full * of.unit_rows() as u64),
                // What is lost is computed from the other units of its stripe, parity included.
                Some(_) => (full * (of.width() as u64 - 1), 0),
            };
            assert_eq!((counts.iter().sum::<u64>(), computed), (reads, rows), "{counts:?} without {lost:?}");
            ends_without_memory(&fixture, core, units);
        }
    }
}

#[test]
fn parity_whose_data_is_not_in_memory_is_read_also_where_disks_are_short() {
    let fixture = stored(GEOMETRIES[0], None);
    let units = fixture.units(8);
    let mut core = Core::new(&units, 7);
    core.fetcher.compute_parity(true);
    let counts = reads_of(&fixture, || {
        core.watch_in_time(fixture.whole_parity(0), fixture.parity_bytes(0));
        play(&mut core);
    });
    assert_eq!(counts.iter().sum::<u64>(), STRIPES);
    assert_eq!(fixture.volume.counters().rows_computed.get(), 0);
    ends_without_memory(&fixture, core, units);
}

/// A wrong row of data would make wrong parity. It is found, computed from the stored parity, and
/// both are sent as they were written.
#[test]
fn parity_of_damaged_data_is_what_was_written() {
    let fixture = stored(GEOMETRIES[0], None);
    let (of, stripe) = (fixture.volume.geometry(), 1_u64);
    let (member, unit) = fixture.objects[0].unit_at(stripe, 2);
    let wrong = unit + of.row_bytes() as u64 + 9;
    fixture.faults.inject(member, Fault::CorruptRange(wrong..wrong + 1));
    let (data, parity) = (RowKind::Data.stripe_bytes(of), RowKind::Parity.stripe_bytes(of));
    let units = fixture.units(8);
    let mut core = Core::new(&units, 7);
    core.fetcher.compute_parity(true);
    watch_data(&mut core, &fixture, stripe * data..(stripe + 1) * data);
    watch(&mut core, &fixture, stripe * parity..(stripe + 1) * parity, false);
    play(&mut core);
    assert!(fixture.volume.counters().checksum_failures.get() > 0);
    ends_without_memory(&fixture, core, units);
}
