//! Sessions whose clients jump to where there is no room: they keep what they hold, and are sent
//! what no other session needs.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use crate::sessions::{
    OTHER, START_NS, at_capacity, by_chance, is_displaced, network_used, open, open_for, promising,
    reservation, segment,
};
use reel_admit::ReservationState;
use reel_admit::limits::DISPLACED_ASKS_NS;
use reel_qos::Class;
use reel_qos::limits::ROUND_NS;
use std::net::{IpAddr, Ipv4Addr};

/// Each of these was refused for a part of its segments: a session on a full server that jumps
/// about in all of its renditions, a segment of four seconds each quarter of a second.
#[test]
fn a_session_is_not_refused_its_own_segments_on_a_full_server() {
    let sessions = promising(20);
    let ladder = [8_000_000, 4_000_000, 2_000_000];
    let session = open(&sessions, &ladder).unwrap();
    assert_eq!(session.offered(), Some(0));
    let mut displaced = 0;
    for request in 0..480u64 {
        let now_ns = START_NS + request * ROUND_NS / 4;
        // New sessions take all that is left, also what this one gives back.
        for host in 0..3 {
            let client = IpAddr::V4(Ipv4Addr::new(127, 1, request as u8, host));
            let _ = open_for(&sessions, &ladder, client, now_ns);
        }
        let chance = request.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let span = segment(chance % 150);
        sessions.touch(&session.key(), now_ns);
        let permit = sessions.request(&session, Some((chance >> 16) as usize % 3), &span, now_ns);
        displaced += u64::from(permit.expect("it was admitted").is_displaced);
        sessions.tick(now_ns);
        assert!(sessions.admission().adds_up());
    }
    assert!(displaced > 20, "{displaced} times there was no room");
}

#[test]
fn a_displaced_session_keeps_what_it_holds_and_is_promised_again_when_there_is_room() {
    let (sessions, session, other) = at_capacity(by_chance);
    sessions.request(&session, Some(0), &segment(0), START_NS).unwrap();
    sessions.request(&other, Some(0), &segment(0), START_NS).unwrap();
    let used = network_used(&sessions, START_NS);
    let seek_ns = START_NS + ROUND_NS;
    let seek = sessions.request(&session, Some(0), &segment(50), seek_ns).unwrap();
    assert!(seek.begins && seek.is_displaced && seek.class == Class::INTERACTIVE, "its viewer waits");
    assert_eq!(reservation(&sessions, &session, seek_ns), ReservationState::Displaced);
    assert_eq!(network_used(&sessions, START_NS), used, "it holds what it had");
    for number in 51..54 {
        assert!(is_displaced(sessions.request(&session, Some(0), &segment(number), seek_ns)), "{number}");
    }
    assert_eq!(sessions.list(seek_ns).iter().map(|of| of.position_ns / ROUND_NS).max(), Some(200));
    sessions.close(&other.key());
    let now_ns = seek_ns + 4 * ROUND_NS;
    assert!(is_displaced(sessions.request(&session, Some(0), &segment(54), now_ns)), "it asked just now");
    let now_ns = seek_ns + DISPLACED_ASKS_NS;
    let permit = sessions.request(&session, Some(0), &segment(55), now_ns).unwrap();
    assert!(!permit.is_displaced && permit.class == Class::PERIODIC);
    assert_eq!(reservation(&sessions, &session, now_ns), ReservationState::Reserved);
    assert!(sessions.admission().adds_up());
}

#[test]
fn a_displaced_session_that_pauses_is_refused_as_any_other() {
    let (sessions, session, _other) = at_capacity(by_chance);
    sessions.request(&session, Some(0), &segment(0), START_NS).unwrap();
    assert!(sessions.request(&session, Some(0), &segment(50), START_NS).unwrap().is_displaced);
    let later_ns = START_NS + 60 * ROUND_NS;
    sessions.tick(later_ns);
    assert_eq!(reservation(&sessions, &session, later_ns), ReservationState::Paused);
    open_for(&sessions, &[8_000_000], OTHER, later_ns).expect("its reservation is free");
    sessions.request(&session, Some(0), &segment(51), later_ns).unwrap_err();
}
