//! Clients that fetch segments in parallel, that fetch pictures only, and that jump to the end.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use crate::sessions::{ROUNDS, START_NS, fetch, open, promising, reservation};
use proptest::prelude::*;
use reel_admit::ReservationState;
use reel_admit::limits::{PARALLEL_SEGMENTS, PAUSE_GRACE_NS};
use reel_cache::MediaKind;

const SILENT_NS: u64 = START_NS + PAUSE_GRACE_NS + 1;
const SEGMENTS: u64 = ROUNDS as u64 / 4;

/// Segments of a title in groups, each in its own order.
fn in_parallel() -> impl Strategy<Value = Vec<u64>> {
    let order = Just((0..PARALLEL_SEGMENTS).collect::<Vec<_>>()).prop_shuffle();
    prop::collection::vec(order, SEGMENTS.div_ceil(PARALLEL_SEGMENTS) as usize).prop_map(|orders| {
        let numbered = orders
            .into_iter()
            .zip(0..)
            .flat_map(|(order, group)| order.into_iter().map(move |place| group * PARALLEL_SEGMENTS + place));
        numbered.filter(|number| *number < SEGMENTS).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_was_fetched_in_parallel_to_the_end_needs_nothing_any_more(
        pictures in in_parallel(), sound in in_parallel(),
    ) {
        let sessions = promising(1);
        let session = open(&sessions, &[8_000_000]).unwrap();
        let together = pictures.chunks(PARALLEL_SEGMENTS as usize).zip(sound.chunks(PARALLEL_SEGMENTS as usize));
        for (pictures, sound) in together {
            sessions.tick(SILENT_NS);
            fetch(&sessions, &session, MediaKind::Video, pictures.iter().copied());
            fetch(&sessions, &session, MediaKind::Audio, sound.iter().copied());
        }
        sessions.tick(SILENT_NS);
        prop_assert_eq!(reservation(&sessions, &session, SILENT_NS), ReservationState::Delivered);
    }
}

#[test]
fn what_was_fetched_to_the_end_without_sound_needs_nothing_any_more() {
    let sessions = promising(1);
    let session = open(&sessions, &[8_000_000]).unwrap();
    fetch(&sessions, &session, MediaKind::Video, 0..SEGMENTS - 1);
    sessions.tick(SILENT_NS);
    assert_eq!(reservation(&sessions, &session, SILENT_NS), ReservationState::Reserved);
    fetch(&sessions, &session, MediaKind::Video, [SEGMENTS - 1]);
    sessions.tick(SILENT_NS);
    assert_eq!(reservation(&sessions, &session, SILENT_NS), ReservationState::Delivered);
}

#[test]
fn who_has_jumped_to_the_end_needs_both_pictures_and_sound() {
    for (first, second) in [(MediaKind::Audio, MediaKind::Video), (MediaKind::Video, MediaKind::Audio)] {
        let sessions = promising(1);
        let session = open(&sessions, &[8_000_000]).unwrap();
        let state = || {
            sessions.tick(SILENT_NS);
            reservation(&sessions, &session, SILENT_NS)
        };
        fetch(&sessions, &session, MediaKind::Video, 0..2);
        fetch(&sessions, &session, MediaKind::Audio, 0..2);
        fetch(&sessions, &session, first, [SEGMENTS - 1]);
        assert_eq!(state(), ReservationState::Reserved, "{second:?} comes next");
        fetch(&sessions, &session, second, [SEGMENTS - 1]);
        assert_eq!(state(), ReservationState::Delivered);
    }
}
