//! What a reader holds is what its viewer was promised, also while a member is lost.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use proptest::prelude::*;
use reel_admit::limits::STEADY_ROUNDS;
use reel_admit::{Loss, Stretch, demand, steady_demand};
use reel_cache::{Body, Depth, Due, Part, Ramp, RowKind, Units};
use reel_fixture::{ClientBehaviour, Core, MEMBERS, STRIPE_BYTES, VolumeFixture};
use reel_qos::limits::ROUND_NS;
use reel_qos::{
    Capacities, Class, ClassTable, Demand, DiskPrice, Ledger, MemberCapacity, Resource, Starts, UNLIMITED,
};
use reel_volume::{Geometry, GeometryFields};
use std::ops::Range;
use std::sync::Arc;

const FILM: usize = 400_000;
/// Three units of data and one of parity.
const DATA: usize = 3;

fn stretch(fixture: &VolumeFixture, range: Range<u64>, duration_ns: u64) -> Stretch<'_> {
    Stretch { map: &fixture.objects[0], range, from_ns: 0, due_ns: ROUND_NS, duration_ns, with_parity: false }
}

fn depth(fixture: &VolumeFixture) -> Depth {
    Depth::of(fixture.volume.disks().is_rotational())
}

/// The same as packets of a cast, with parity.
fn cast(fixture: &VolumeFixture, range: Range<u64>, duration_ns: u64) -> Stretch<'_> {
    Stretch { with_parity: true, ..stretch(fixture, range, duration_ns) }
}

fn promised_bytes(fixture: &VolumeFixture, range: Range<u64>, duration_ns: u64) -> u64 {
    held_bytes(fixture, stretch(fixture, range, duration_ns))
}

fn held_bytes(fixture: &VolumeFixture, stretch: Stretch<'_>) -> u64 {
    demand(MEMBERS, depth(fixture), [stretch], Loss::AnyOne).unwrap().held_bytes()
}

fn buffers_max(fixture: &VolumeFixture, range: &Range<u64>, duration_ns: u64) -> usize {
    let bytes = range.end - range.start;
    depth(fixture).buffers_max(fixture.volume.geometry(), RowKind::Data, bytes, duration_ns) as usize
}

fn watch(core: &mut Core, fixture: &VolumeFixture, range: Range<u64>, duration_ns: u64) {
    let bytes = range.end - range.start;
    let expected = fixture.bytes[0][range.start as usize..range.end as usize].to_vec();
    let body = Body::new([Part::Object(Arc::clone(&fixture.objects[0]), range)]);
    let due = Due::Ramp(Ramp { due_ns: ROUND_NS, duration_ns, bytes });
    core.watch_due(body, expected, Class::PERIODIC, due);
}

/// A table whose readers may hold this many buffers together.
fn units_for(fixture: &VolumeFixture, buffers: usize) -> Units {
    let total = fixture.volume.arena().usage().buffers_total;
    let units = fixture.units(total - buffers);
    assert_eq!(units.budget().total(), buffers);
    units
}

/// All viewers begin at once and take what is shown as fast as it is shown. No viewer can need
/// more.
#[test]
fn viewers_with_all_of_the_memory_promised_get_their_bytes_in_time_whichever_member_is_lost() {
    const VIEWERS: u64 = 40;
    /// 10 ms each: a stripe in 2 s.
    const TURN_BYTES: usize = STRIPE_BYTES / 200;
    /// The time that a read may take.
    const TURNS_LATE_MAX: usize = 20;
    for lost in [None, Some(0), Some(1), Some(2), Some(3)] {
        let fixture = VolumeFixture::new(&[FILM], 4 << 20, lost).on_flash();
        let range = 1000..FILM as u64;
        let duration_ns = (range.end - range.start) * 10_000_000 / TURN_BYTES as u64;
        let promised_bytes = promised_bytes(&fixture, range.clone(), duration_ns);
        let units = units_for(
            &fixture,
            (VIEWERS * promised_bytes / fixture.volume.geometry().unit_bytes() as u64) as usize,
        );
        // Three units that are sent, and their parity.
        assert_eq!(units.budget().total() as u64, VIEWERS * (DATA as u64 + 1));
        let mut core = Core::new(&units, 7);
        core.pace = Some(TURN_BYTES);
        (0..VIEWERS).for_each(|_| watch(&mut core, &fixture, range.clone(), duration_ns));
        let mut ends = reel_fixture::Ends::default();
        while ends.complete < VIEWERS as usize {
            core.turn(ClientBehaviour::default(), &mut ends);
            core.settle(&mut ends);
        }
        assert!(core.most_late <= TURNS_LATE_MAX, "{} without {lost:?}", core.most_late);
        // The next stripe was read while the one before it was sent.
        assert!(core.most_held >= 2 * DATA, "{} without {lost:?}", core.most_held);
    }
}

/// Casts with parity, each with a reader of data and one of parity, which begin at once. Parity is
/// taken as fast as data, so it ends earlier.
#[test]
fn casts_with_all_of_the_memory_promised_get_data_and_parity_in_time_whichever_member_is_lost() {
    const CASTS: u64 = 20;
    /// 10 ms each: a stripe of data in 2 s.
    const TURN_BYTES: usize = STRIPE_BYTES / 200;
    /// The time that a read may take.
    const TURNS_LATE_MAX: usize = 20;
    for lost in [None, Some(0), Some(1), Some(2), Some(3)] {
        let fixture = VolumeFixture::new(&[FILM], 4 << 20, lost).on_flash();
        let range = 0..FILM as u64;
        let duration_ns = FILM as u64 * 10_000_000 / TURN_BYTES as u64;
        let unit_bytes = fixture.volume.geometry().unit_bytes() as u64;
        let held_bytes = held_bytes(&fixture, cast(&fixture, range.clone(), duration_ns));
        // Three units that are sent with their parity, and parity with the three units that it is
        // computed from.
        assert_eq!(held_bytes, 2 * (DATA as u64 + 1) * unit_bytes);
        let units = units_for(&fixture, (CASTS * held_bytes / unit_bytes) as usize);
        let mut core = Core::new(&units, 7);
        core.pace = Some(TURN_BYTES);
        for _ in 0..CASTS {
            watch(&mut core, &fixture, range.clone(), duration_ns);
            let parity = fixture.parity_bytes(0);
            let bytes = parity.len() as u64;
            let due = Due::Ramp(Ramp { due_ns: ROUND_NS, duration_ns, bytes });
            core.watch_due(fixture.whole_parity(0), parity, Class::PERIODIC, due);
        }
        let mut ends = reel_fixture::Ends::default();
        while ends.complete < 2 * CASTS as usize {
            core.turn(ClientBehaviour::default(), &mut ends);
            core.settle(&mut ends);
        }
        assert!(core.most_late <= TURNS_LATE_MAX, "{} without {lost:?}", core.most_late);
    }
}

#[test]
fn a_rotational_disk_is_given_four_stripes_at_once() {
    let fixture = VolumeFixture::new(&[FILM], 2 << 20, None);
    let (range, duration_ns) = (0..FILM as u64, 8 * ROUND_NS);
    let unit_bytes = fixture.volume.geometry().unit_bytes() as u64;
    assert_eq!(promised_bytes(&fixture, range.clone(), duration_ns), (4 * DATA as u64 + 1) * unit_bytes);
    let units = fixture.units(8);
    let mut core = Core::new(&units, 7);
    watch(&mut core, &fixture, range, duration_ns);
    assert_eq!(core.play(ClientBehaviour::default()).complete, 1);
    assert!(core.most_held >= 4 * DATA, "{}", core.most_held);
}

#[test]
fn memory_carries_as_many_viewers_as_windows_fit_into_it() {
    let geometry = Geometry::new(GeometryFields::cmaf(5)).unwrap();
    let unit_bytes = geometry.unit_bytes() as u64;
    let viewers = |depth: Depth, rate_bps: u64, buffers: u64| {
        let price = DiskPrice {
            read_request_ns: 1,
            read_mib_ns: 1,
            write_request_ns: 1,
            write_mib_ns: 1,
            independent_limits: false,
        };
        let capacities = Capacities {
            members: vec![MemberCapacity { price, round_ns: ROUND_NS }; 5],
            network_bytes: UNLIMITED,
            core_ns: UNLIMITED,
            core_mib_ns: vec![1],
            local_front_ends: Vec::new(),
            arena_bytes: buffers * unit_bytes,
        };
        let mut ledger = Ledger::new(capacities, STEADY_ROUNDS);
        ledger.set_classes(ClassTable::default());
        let demand: Demand = steady_demand(&geometry, depth, rate_bps, Loss::AnyOne);
        let answer = ledger.how_many(Class::PERIODIC, &demand, Starts::Spread).unwrap();
        (answer.viewers, answer.stopped_by)
    };
    let memory = Some(Resource::Arena);
    // 4 GiB are 15,887 buffers of 264 KiB. On flash, a viewer needs a stripe and its parity.
    assert_eq!(viewers(Depth::of(false), 5_000_000, 15_887), (15_887 / 5, memory));
    assert_eq!(viewers(Depth::of(true), 5_000_000, 15_887), (15_887 / 17, memory));
    // At 60 Mb/s a stripe is shown in less time than a read may take.
    assert_eq!(viewers(Depth::of(false), 60_000_000, 15_887), (15_887 / 13, memory));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn a_reader_never_holds_more_than_its_window(
        from in 0..FILM as u64 - 1,
        bytes in 1..FILM as u64,
        duration_ms in 20_u64..20_000,
        lost in proptest::option::of(0..MEMBERS),
        seed in any::<u64>(),
        stall in 0_u64..30,
    ) {
        let fixture = VolumeFixture::new(&[FILM], 2 << 20, lost).on_flash();
        let (range, duration_ns) = (from..(from + bytes).min(FILM as u64), duration_ms * 1_000_000);
        let most = buffers_max(&fixture, &range, duration_ns);
        prop_assert!(most <= 4 * DATA + 1);
        let units = fixture.units(8);
        let mut core = Core::new(&units, seed);
        watch(&mut core, &fixture, range, duration_ns);
        prop_assert_eq!(core.play(ClientBehaviour { stall, ..ClientBehaviour::default() }).complete, 1);
        prop_assert!(core.most_held <= most, "{} of {most}", core.most_held);
        prop_assert_eq!(units.budget().reserved(), 0);
    }
}
