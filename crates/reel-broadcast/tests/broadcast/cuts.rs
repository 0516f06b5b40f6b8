//! Cuts at key frames, and clients of streams of variable rate.

use proptest::prelude::*;
use reel_broadcast::{BroadcastError, Cut, Schedule, Visit};

use super::schemes;

const S: u64 = 1_000_000_000;

/// Key frames at random distances, and the length of the stream.
fn key_frames() -> impl Strategy<Value = (Vec<u64>, u64)> {
    let distances = proptest::collection::vec(1_u64..10 * S, 1..200);
    distances.prop_map(|distances| {
        let mut time = 0;
        let mut times = vec![0];
        times.extend(distances.iter().map(|distance| {
            time += distance;
            time
        }));
        let end = times.pop().unwrap_or(1);
        (times, end)
    })
}

proptest! {
    #[test]
    fn segments_begin_at_key_frames_and_never_before_their_time(
        (times, end) in key_frames(),
        segments in 1_u32..60,
    ) {
        let Ok(cut) = Cut::new(&times, end, segments) else { return Ok(()) };
        prop_assert_eq!(cut.segments(), segments);
        let mut last_end = 0;
        for segment in 1..=segments {
            let (begins, ends) = cut.times_ns(segment).unwrap();
            prop_assert_eq!(begins, last_end);
            prop_assert!(begins < ends && ends - begins <= cut.longest_ns());
            prop_assert_eq!(times[cut.first_key_frame(segment).unwrap()], begins);
            prop_assert!(begins >= cut.slot_ns() * u64::from(segment - 1));
            last_end = ends;
        }
        prop_assert_eq!(last_end, end);
        prop_assert_eq!(cut.times_ns(0), None);
        prop_assert_eq!(cut.times_ns(segments + 1), None);
    }

    /// Continuous playing one slot behind, by the real times of the segments: each is complete at
    /// the end of its slot, before the time of its first picture.
    #[test]
    fn no_client_of_a_variable_rate_is_late(
        (times, end) in key_frames(),
        segments in 1_u32..60,
        scheme in schemes(),
        arrival_slot in 0_u64..1 << 20,
    ) {
        let Ok(cut) = Cut::new(&times, end, segments) else { return Ok(()) };
        let visit = Visit::new(&Schedule::new(scheme, segments).unwrap(), arrival_slot);
        let starts_ns = (arrival_slot + 1) * cut.slot_ns();
        for segment in &visit.segments {
            let complete_ns = (segment.received_slot + 1) * cut.slot_ns();
            let (begins_ns, _) = cut.times_ns(segment.segment).unwrap();
            prop_assert!(complete_ns <= starts_ns + begins_ns);
        }
    }

    #[test]
    fn any_times_are_cut_or_refused(
        times in proptest::collection::vec(0_u64..50, 0..20),
        end in 0_u64..60,
        segments in 0_u32..20,
    ) {
        let _ = Cut::new(&times, end, segments);
    }

    #[test]
    fn a_slot_carries_its_segment(end in 1_u64..10_000 * S, bytes in 0_u64..1 << 40) {
        let cut = Cut::new(&[0], end, 1).unwrap();
        let bits = u128::from(cut.slot_bps(bytes)) * u128::from(cut.slot_ns()) / u128::from(S);
        prop_assert!(bits + 1 >= u128::from(bytes) * 8);
    }
}

#[test]
fn borders_are_the_next_key_frames() {
    let times: Vec<u64> = [0, 4, 9, 10, 17, 21].map(|time| time * S).to_vec();
    let cut = Cut::new(&times, 30 * S, 3).unwrap();
    let borders: Vec<_> = (1..=3).map(|segment| cut.times_ns(segment).unwrap().0 / S).collect();
    assert_eq!(borders, [0, 10, 21]);
    assert_eq!((cut.slot_ns(), cut.longest_ns()), (10 * S, 11 * S));
    assert_eq!(cut.slot_bps(10_000_000), 8_000_000);
}

#[test]
fn key_frames_that_are_too_far_apart_are_refused() {
    let times: Vec<u64> = [0, 4, 9, 10, 17, 21].map(|time| time * S).to_vec();
    let refused = |segment, segments| Err(BroadcastError::KeyFrames { segment, segments });
    assert_eq!(Cut::new(&times, 30 * S, 10), refused(3, 10));
    assert_eq!(Cut::new(&[0, 5 * S], 30 * S, 3), refused(2, 3));
    assert_eq!(Cut::new(&[0, 5 * S, 5 * S], 30 * S, 3), Err(BroadcastError::Order(2)));
    assert_eq!(Cut::new(&[0, 30 * S], 30 * S, 3), Err(BroadcastError::Order(1)));
}

/// A year in as many segments as there may be does not overflow.
#[test]
fn the_longest_stream_is_cut() {
    let year = reel_broadcast::limits::DURATION_NS_MAX;
    let times: Vec<u64> = (0..8192).map(|number| year / 8192 * number).collect();
    let cut = Cut::new(&times, year, 4096).unwrap();
    assert!(cut.longest_ns() < year / 2048);
}
