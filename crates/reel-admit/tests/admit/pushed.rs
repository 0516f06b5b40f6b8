//! Sessions of what the server sends by the clock.

use super::sessions::{START_NS, network_used, of_bytes, promising, reservation};
use reel_admit::{Client, OpenRefused, ReservationState, Session, SessionClient, Sessions};
use reel_qos::Class;
use reel_qos::limits::ROUND_NS;
use std::sync::Arc;

/// Rounds of the cast.
const CAST: u64 = 100;

/// What it sends in each round: so much that two do not fit.
const BYTES: u64 = 1_500_000;

fn open(sessions: &Sessions<()>, start_ns: u64, now_ns: u64) -> Result<Arc<Session<()>>, OpenRefused> {
    let offers: Arc<[_]> = Arc::from([of_bytes(vec![BYTES; CAST as usize])]);
    let client = SessionClient::new(Client::Server, Class::PERIODIC);
    sessions.open_pushed("film", Arc::new(()), offers.into(), client, start_ns, now_ns)
}

#[test]
fn it_holds_its_reservation_to_its_end_without_a_request() {
    let sessions = promising(2);
    let session = open(&sessions, START_NS, START_NS).unwrap();
    let permit = sessions.push(&session, 0..CAST * ROUND_NS, START_NS).unwrap();
    assert_eq!((permit.class, permit.begins, permit.is_displaced), (Class::PERIODIC, false, false));
    assert!(permit.due_ns <= START_NS);
    for round in 1..CAST {
        let now_ns = START_NS + round * ROUND_NS;
        session.sent(BYTES, now_ns);
        sessions.tick(now_ns);
        assert_eq!(reservation(&sessions, &session, now_ns), ReservationState::Reserved, "round {round}");
        assert_eq!(network_used(&sessions, now_ns), BYTES, "round {round}");
    }
    assert!(matches!(open(&sessions, START_NS, START_NS + ROUND_NS), Err(OpenRefused::NotAdmitted(_))));
}

/// The next pass of a loop is promised while this one is sent, and only if it fits.
#[test]
fn what_follows_is_reserved_in_advance() {
    let sessions = promising(2);
    let first = open(&sessions, START_NS, START_NS).unwrap();
    sessions.push(&first, 0..CAST * ROUND_NS, START_NS).unwrap();
    let next_ns = START_NS + CAST * ROUND_NS;
    let half_ns = START_NS + CAST / 2 * ROUND_NS;
    assert!(matches!(open(&sessions, half_ns, START_NS), Err(OpenRefused::NotAdmitted(_))));
    let next = open(&sessions, next_ns, START_NS).unwrap();
    assert!(next.start_ns(START_NS) == next_ns);
    for round in 0..CAST {
        let now_ns = START_NS + round * ROUND_NS;
        first.sent(1, now_ns);
        sessions.touch(&next.key(), now_ns);
        sessions.tick(now_ns);
    }
    assert_eq!(reservation(&sessions, &next, next_ns), ReservationState::Reserved);
    sessions.close(&first.key());
    let permit = sessions.push(&next, 0..CAST * ROUND_NS, next_ns).unwrap();
    assert!(!permit.is_displaced && permit.due_ns <= next_ns);
    assert_eq!(network_used(&sessions, next_ns), BYTES);
}

#[test]
fn a_pause_releases_everything_and_it_continues_where_it_is_told() {
    let sessions = promising(2);
    let session = open(&sessions, START_NS, START_NS).unwrap();
    sessions.push(&session, 0..CAST * ROUND_NS, START_NS).unwrap();
    let paused_ns = START_NS + 10 * ROUND_NS;
    sessions.pause(&session);
    assert_eq!(network_used(&sessions, paused_ns), 0);
    assert_eq!(reservation(&sessions, &session, paused_ns), ReservationState::Paused);
    // Another one takes the room meanwhile.
    let other = open(&sessions, paused_ns, paused_ns).unwrap();
    let refused = sessions.push(&session, 10 * ROUND_NS..CAST * ROUND_NS, paused_ns);
    assert!(refused.is_err(), "there is no room");
    sessions.close(&other.key());
    let again_ns = paused_ns + 5 * ROUND_NS;
    let permit = sessions.push(&session, 10 * ROUND_NS..CAST * ROUND_NS, again_ns).unwrap();
    assert!(!permit.is_displaced && permit.due_ns <= again_ns);
    // What is left is 90 rounds.
    assert_eq!(network_used(&sessions, again_ns + 80 * ROUND_NS), BYTES);
    assert!(sessions.admission().adds_up());
    // A seek to where there is room keeps the reservation.
    let permit = sessions.push(&session, 50 * ROUND_NS..CAST * ROUND_NS, again_ns + ROUND_NS).unwrap();
    assert!(!permit.is_displaced);
    sessions.close(&session.key());
    let permit = sessions.push(&session, 0..ROUND_NS, again_ns).unwrap();
    assert_eq!((permit.class, sessions.len()), (Class::APERIODIC, 0));
}

/// A session of a poured stream: what follows for hours is reserved, but only while a response is
/// under way.
#[test]
fn one_that_needs_answers_is_released_when_it_has_none() {
    let sessions = promising(2);
    let session = open(&sessions, START_NS, START_NS).unwrap();
    session.needs_answers();
    sessions.push(&session, 0..CAST * ROUND_NS, START_NS).unwrap();
    let tick = |from: u64, until: u64| {
        for round in from..until {
            sessions.tick(START_NS + round * ROUND_NS);
        }
        network_used(&sessions, START_NS + until * ROUND_NS)
    };
    assert_eq!(tick(0, 3), BYTES, "its client may come");
    assert_eq!(tick(3, 12), 0, "it did not");
    // It comes all the same, while there is room, and stays although nothing is sent for long.
    let answer = session.answers();
    sessions.push(&session, 0..CAST * ROUND_NS, START_NS + 12 * ROUND_NS).unwrap();
    assert_eq!(tick(12, 40), BYTES);
    drop(answer);
    assert_eq!(tick(40, 52), 0);
    assert!(sessions.admission().adds_up() && sessions.len() == 1);
}

/// The share of one client binds viewers, not what the operator has asked for.
#[test]
fn the_server_has_no_share() {
    let client = Client::Server;
    assert_eq!(client.to_string(), "this server");
    let sessions = promising(2);
    for number in 0..20 {
        let start_ns = START_NS + number * (CAST + 1) * ROUND_NS;
        assert!(open(&sessions, start_ns, START_NS).is_ok(), "pass {number}");
    }
}
