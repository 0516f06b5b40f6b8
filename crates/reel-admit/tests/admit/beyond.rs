//! Sessions that take more than a title once and at its pace. They get as much as a player may
//! need, and beyond that no time of other sessions.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use reel_admit::limits::{ALLOWANCE_NS, PIECE_COST_NS_MIN};
use reel_admit::{Choices, Session, SessionClient, Sessions, SessionsConfig, TrackSpan};
use reel_cache::MediaKind;
use reel_qos::limits::ROUND_NS;
use reel_qos::{Class, ClassTable, ClientShare};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

const START_NS: u64 = 1_000 * ROUND_NS;
const SEGMENT_ROUNDS: u64 = 4;

/// Nothing is reserved, so each refusal is due to what the client does.
fn playing() -> (Sessions<()>, Arc<Session<()>>) {
    let sessions = Sessions::new(SessionsConfig {
        sessions_max: 10,
        idle_max_ns: 3_600 * ROUND_NS,
        capacities: None,
        classes: ClassTable::default(),
        start_wait_s: 0,
        client_share: ClientShare::ALL,
    });
    let client = SessionClient::new(IpAddr::V4(Ipv4Addr::LOCALHOST), Class::PERIODIC);
    let session = sessions.open("film", Arc::new(()), Choices::none(), client, START_NS).unwrap();
    (sessions, session)
}

fn segment(number: u64) -> TrackSpan {
    let from_ns = number * SEGMENT_ROUNDS * ROUND_NS;
    TrackSpan { kind: MediaKind::Video, from_ns, until_ns: from_ns + SEGMENT_ROUNDS * ROUND_NS }
}

/// A position in a title that is sent as one file.
fn point(media_ns: u64) -> TrackSpan {
    TrackSpan { kind: MediaKind::Video, from_ns: media_ns, until_ns: media_ns }
}

fn is_promised(sessions: &Sessions<()>, session: &Session<()>, span: TrackSpan, now_ns: u64) -> bool {
    sessions.request(session, None, &span, now_ns).unwrap().class == Class::PERIODIC
}

#[test]
fn a_segment_requested_repeatedly_is_not_promised_for_long() {
    let (sessions, session) = playing();
    assert!(is_promised(&sessions, &session, segment(0), START_NS));
    let again = (0..1_000).filter(|_| is_promised(&sessions, &session, segment(0), START_NS)).count() as u64;
    assert_eq!(again, ALLOWANCE_NS / (SEGMENT_ROUNDS * ROUND_NS));
    // The client still gets what was promised to it, and as time passes a bit more.
    let later_ns = START_NS + SEGMENT_ROUNDS * ROUND_NS;
    assert!(is_promised(&sessions, &session, segment(1), later_ns));
    assert!(is_promised(&sessions, &session, segment(1), later_ns));
    assert!(!is_promised(&sessions, &session, segment(1), later_ns));
    assert!(is_promised(&sessions, &session, segment(2), later_ns));
}

#[test]
fn a_range_of_a_file_requested_repeatedly_is_not_promised_for_long() {
    let (sessions, session) = playing();
    let range_ns = 6 * ROUND_NS;
    let mut ranges = 0;
    while is_promised(&sessions, &session, point(0), START_NS) {
        assert!(
            is_promised(&sessions, &session, point(range_ns), START_NS),
            "what follows in the range is new, or covered by the allowance"
        );
        ranges += 1;
        assert!(ranges < 1_000, "the allowance never ends");
    }
    assert_eq!(ranges, 1 + ALLOWANCE_NS / range_ns);
}

#[test]
fn a_client_that_jumps_faster_than_a_viewer_can_is_not_promised_every_position() {
    let (sessions, session) = playing();
    let jump = |number: u64| is_promised(&sessions, &session, segment(number % 2 * 100), START_NS);
    let jumps = (0..1_000).filter(|number| jump(*number)).count();
    assert!((50..=70).contains(&jumps), "{jumps}");
    // A viewer that searches for a minute, and then a player that continues.
    let (sessions, session) = playing();
    for number in 0..240 {
        let now_ns = START_NS + number * ROUND_NS / 2;
        assert!(
            is_promised(&sessions, &session, segment(number * 37 % 1000), now_ns) || number >= 120,
            "{number}"
        );
    }
    let now_ns = START_NS + 121 * ROUND_NS;
    assert!(is_promised(&sessions, &session, segment(500), now_ns));
    for number in 501..600 {
        assert!(is_promised(&sessions, &session, segment(number), now_ns), "{number}");
    }
}

#[test]
fn a_client_that_takes_each_segment_in_two_qualities_is_promised_both() {
    let (sessions, session) = playing();
    for number in 0..200 {
        let now_ns = START_NS + number * SEGMENT_ROUNDS * ROUND_NS;
        assert!(is_promised(&sessions, &session, segment(number), now_ns));
        assert!(is_promised(&sessions, &session, segment(number), now_ns + ROUND_NS));
    }
}

#[test]
fn a_client_that_tries_all_subtitle_languages_may_still_seek() {
    let (sessions, session) = playing();
    let text = TrackSpan { kind: MediaKind::Text, from_ns: 0, until_ns: 7_200 * ROUND_NS };
    assert!(is_promised(&sessions, &session, segment(0), START_NS));
    for _ in 0..30 {
        assert!(is_promised(&sessions, &session, text, START_NS));
    }
    assert!(is_promised(&sessions, &session, segment(100), START_NS));
}

#[test]
fn pictures_for_winding_are_allowed_at_the_pace_of_a_viewer() {
    let (sessions, session) = playing();
    for picture in 0..8 * 600 {
        assert!(
            sessions.allows_piece(&session, 1, START_NS + picture * PIECE_COST_NS_MIN),
            "picture {picture}"
        );
    }
    let spared =
        (0..10_000).filter(|_| sessions.allows_piece(&session, 1, START_NS + 600 * ROUND_NS)).count() as u64;
    assert!(spared <= ALLOWANCE_NS / PIECE_COST_NS_MIN, "{spared}");
}
