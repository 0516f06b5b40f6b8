//! The tables: every window of i slots holds segment i, and no slot has two meanings.

use proptest::prelude::*;
use reel_broadcast::limits::{CHANNELS_MAX, SEGMENTS_MAX};
use reel_broadcast::{BroadcastError, Schedule, Scheme, Table};

use super::{WIDTHS, schemes, skyscrapers};

/// The slots, from `from_slot` on, that are looked at one by one: two windows of the last segment.
fn slots(schedule: &Schedule, from_slot: u64) -> std::ops::Range<u64> {
    from_slot..from_slot + 2 * u64::from(schedule.segments())
}

/// Every window of i slots holds segment i, looked up slot by slot on all channels.
fn windows_hold_their_segments(schedule: &Schedule, from_slot: u64) -> Result<(), TestCaseError> {
    let mut last_seen = vec![from_slot; schedule.segments() as usize];
    for slot in slots(schedule, from_slot) {
        for channel in 0..schedule.channels().len() {
            if let Some(segment) = schedule.segment_at(channel, slot) {
                last_seen[segment as usize - 1] = slot + 1;
            }
        }
        for (segment, seen) in (1_u64..).zip(&last_seen) {
            prop_assert!(
                slot + 1 - seen < segment,
                "segment {segment} is not in the {segment} slots to {slot}"
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_window_of_i_slots_holds_segment_i(
        scheme in prop_oneof![
            Just(Scheme::Staggered), Just(Scheme::Fast), Just(Scheme::RecursiveFrequencySplitting)
        ],
        segments in 1_u32..90,
        from_slot in 0_u64..1 << 40,
    ) {
        let schedule = Schedule::new(scheme, segments).unwrap();
        windows_hold_their_segments(&schedule, from_slot)?;
    }

    /// Its periods are longer than the numbers of some of its segments, but clients begin at loops.
    #[test]
    fn a_skyscraper_sends_each_channel_once_around(
        scheme in skyscrapers(),
        segments in 1_u32..400,
        from_slot in 0_u64..1 << 40,
    ) {
        let schedule = Schedule::new(scheme, segments).unwrap();
        let mut next = 1;
        for table in schedule.channels() {
            let Table::Loop { first, segments: count, period, offset } = *table else { panic!("{table:?}") };
            prop_assert!(first == next && count <= period && offset == 0);
            prop_assert!(WIDTHS.contains(&period));
            let start = from_slot.next_multiple_of(u64::from(period));
            for place in 0..period {
                let sent = table.segment_at(start + u64::from(place));
                prop_assert_eq!(sent, (place < count).then_some(first + place));
            }
            next += count;
        }
        prop_assert_eq!(next, segments + 1);
    }

    /// What a table lists is what it sends, and no two entries meet in a slot.
    #[test]
    fn entries_and_slots_agree(scheme in schemes(), segments in 1_u32..120, from_slot in 0_u64..1 << 40) {
        let schedule = Schedule::new(scheme, segments).unwrap();
        for table in schedule.channels() {
            for repeat in table.repeats() {
                let slot = repeat.slot_from(from_slot);
                prop_assert!((from_slot..from_slot + u64::from(repeat.period)).contains(&slot));
                prop_assert_eq!(slot % u64::from(repeat.period), u64::from(repeat.offset));
                prop_assert_eq!(table.segment_at(slot), Some(repeat.segment));
                prop_assert!(repeat.offset < repeat.period);
            }
            for slot in slots(&schedule, from_slot) {
                let here = |repeat: &reel_broadcast::Repeat| repeat.slot_from(slot) == slot;
                let sent: Vec<u32> = table.repeats().filter(here).map(|repeat| repeat.segment).collect();
                prop_assert!(sent.len() <= 1, "{:?} in slot {}", sent, slot);
                prop_assert_eq!(table.segment_at(slot), sent.first().copied());
            }
        }
    }

    #[test]
    fn a_schedule_has_as_few_channels_as_carry_its_segments(scheme in schemes(), segments in 1_u32..700) {
        let channels = Schedule::new(scheme, segments).unwrap().channels().len() as u32;
        prop_assert!(Schedule::segments_of(scheme, channels).unwrap() >= segments);
        prop_assert!(Schedule::segments_of(scheme, channels - 1).unwrap() < segments);
    }

    #[test]
    fn a_linear_channel_sends_all_segments_in_turn(segments in 1_u32..200, slot in 0_u64..1 << 40) {
        let schedule = Schedule::new(Scheme::Linear, segments).unwrap();
        prop_assert_eq!(schedule.channels().len(), 1);
        prop_assert_eq!(schedule.segment_at(0, slot), Some((slot % u64::from(segments)) as u32 + 1));
    }
}

/// The largest schedules, by their entries: a segment's period is at most its number, and the
/// periods of a channel leave room for each other.
#[test]
fn the_largest_schedules_obey_the_law() {
    for scheme in [Scheme::Fast, Scheme::RecursiveFrequencySplitting] {
        let schedule = Schedule::new(scheme, SEGMENTS_MAX).unwrap();
        let mut segments = Vec::new();
        for table in schedule.channels() {
            let mut used = 0.0;
            for repeat in table.repeats() {
                assert!(repeat.period <= repeat.segment);
                used += 1.0 / f64::from(repeat.period);
                segments.push(repeat.segment);
            }
            assert!(used < 1.0 + 1e-9, "{scheme}: {used}");
        }
        segments.sort_unstable();
        assert!(segments.into_iter().eq(1..=SEGMENTS_MAX));
    }
}

#[test]
fn sizes_out_of_range_are_refused() {
    for segments in [0, SEGMENTS_MAX + 1] {
        let refused = Schedule::new(Scheme::Fast, segments);
        assert_eq!(refused, Err(BroadcastError::Segments(u64::from(segments))));
    }
    let skyscraper = Scheme::Skyscraper { width: 13 };
    assert_eq!(Schedule::new(skyscraper, 10), Err(BroadcastError::Width(13)));
    assert_eq!(Schedule::segments_of(skyscraper, 10), Err(BroadcastError::Width(13)));
    for scheme in [Scheme::Staggered, Scheme::Fast, Scheme::RecursiveFrequencySplitting, Scheme::Linear] {
        assert_eq!(Schedule::segments_of(scheme, 0), Ok(0));
        for channels in [CHANNELS_MAX, u32::MAX] {
            assert_eq!(Schedule::segments_of(scheme, channels), Ok(SEGMENTS_MAX), "{scheme}");
        }
    }
}
