//! Clients from every start slot: never late one slot behind, and never more than two tuners for a
//! skyscraper.

use proptest::prelude::*;
use reel_broadcast::{ClientRule, Schedule, Scheme, Visit};

use super::{WIDTHS, schemes, skyscrapers};

/// A client that knows nothing but the tables: it listens to the channels of the visit while the
/// visit says so, and keeps what it hears.
fn heard(schedule: &Schedule, visit: &Visit) -> Vec<Option<u64>> {
    let mut complete = vec![None; schedule.segments() as usize];
    for tuning in &visit.tunings {
        for slot in tuning.from_slot..tuning.until_slot {
            if let Some(segment) = schedule.segment_at(tuning.channel as usize, slot) {
                complete[segment as usize - 1].get_or_insert(slot);
            }
        }
    }
    complete
}

fn check(schedule: &Schedule, arrival_slot: u64) -> Result<(), TestCaseError> {
    let visit = Visit::new(schedule, arrival_slot);
    prop_assert_eq!(visit.late(), None);
    prop_assert!(visit.tuners() <= schedule.client_channels());
    prop_assert_eq!(visit.segments.len(), schedule.segments() as usize);
    prop_assert!(visit.tunings.iter().all(|tuning| tuning.from_slot >= arrival_slot));
    let heard = heard(schedule, &visit);
    for (number, times) in (0_u32..).zip(&visit.segments) {
        prop_assert_eq!(times.segment, number + 1);
        prop_assert_eq!(times.played_slot, arrival_slot + 1 + u64::from(number));
        prop_assert_eq!(heard[number as usize], Some(times.received_slot));
        prop_assert!(times.received_slot < times.played_slot);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn no_client_is_late_one_slot_behind(
        scheme in schemes(),
        segments in 1_u32..200,
        arrival_slot in 0_u64..1 << 40,
    ) {
        check(&Schedule::new(scheme, segments).unwrap(), arrival_slot)?;
    }

    #[test]
    fn two_tuners_suffice_for_a_skyscraper(
        scheme in skyscrapers(),
        segments in 1_u32..4096,
        arrival_slot in 0_u64..1 << 40,
    ) {
        let visit = Visit::new(&Schedule::new(scheme, segments).unwrap(), arrival_slot);
        prop_assert!(visit.tuners() <= 2);
        prop_assert_eq!(visit.late(), None);
    }

    /// A buffer is never below one segment, nor above the title.
    #[test]
    fn buffers_are_what_is_received_and_not_played(
        scheme in schemes(),
        segments in 1_u32..120,
        arrival_slot in 0_u64..1 << 40,
    ) {
        let schedule = Schedule::new(scheme, segments).unwrap();
        let visit = Visit::new(&schedule, arrival_slot);
        let kept_at_end = |slot: u64| {
            let kept = |times: &&reel_broadcast::SegmentTimes| {
                times.received_slot <= slot && times.played_slot > slot
            };
            visit.segments.iter().filter(kept).count() as u32
        };
        let slots = arrival_slot..arrival_slot + u64::from(segments);
        prop_assert_eq!(slots.map(kept_at_end).max(), Some(visit.buffer_segments()));
    }

    /// Whether it is exact or a bound.
    #[test]
    fn no_client_needs_more_than_the_largest_buffer(
        scheme in schemes(),
        segments in 1_u32..600,
        arrival_slot in 0_u64..1 << 40,
    ) {
        let schedule = Schedule::new(scheme, segments).unwrap();
        let most = schedule.buffer().segments;
        for slot in arrival_slot..arrival_slot + 50 {
            prop_assert!(Visit::new(&schedule, slot).buffer_segments() <= most);
        }
    }

    #[test]
    fn a_linear_client_receives_each_segment_once_from_where_the_channel_is(
        segments in 1_u32..200,
        arrival_slot in 0_u64..1 << 40,
    ) {
        let schedule = Schedule::new(Scheme::Linear, segments).unwrap();
        let visit = Visit::new(&schedule, arrival_slot);
        let received: Vec<u32> = visit.segments.iter().map(|times| times.segment).collect();
        let sent: Vec<u32> = (arrival_slot..arrival_slot + u64::from(segments))
            .filter_map(|slot| schedule.segment_at(0, slot))
            .collect();
        prop_assert_eq!(received, sent);
        prop_assert_eq!(visit.late(), None);
        prop_assert_eq!(schedule.buffer().segments, 1);
    }
}

/// Every start slot of a whole period, for every width.
#[test]
fn a_two_tuner_skyscraper_client_is_never_late_from_any_start_slot() {
    for width in WIDTHS {
        let schedule = Schedule::new(Scheme::Skyscraper { width }, 240).unwrap();
        assert_eq!(schedule.client_rule(), ClientRule::TwoTuners);
        for slot in 0..schedule.period().unwrap() {
            let visit = Visit::new(&schedule, slot);
            assert_eq!(visit.late(), None, "width {width}, slot {slot}");
            assert!(visit.tuners() <= 2, "width {width}, slot {slot}");
        }
    }
}

/// A client that is late is found: the laws above can fail.
#[test]
fn a_late_segment_is_found() {
    let schedule = Schedule::new(Scheme::Fast, 15).unwrap();
    let mut visit = Visit::new(&schedule, 7);
    assert_eq!(visit.late(), None);
    visit.segments[4].received_slot = visit.segments[4].played_slot;
    assert_eq!(visit.late().map(|times| times.segment), Some(5));
}
