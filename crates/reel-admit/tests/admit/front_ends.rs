//! What is reserved of the processors for sessions of several front ends.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use crate::sessions::{CLIENT, MEMBERS, ROUNDS, START_NS, of_bytes, segment, table};
use reel_admit::{Choices, SessionClient};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Capacities, Class, DiskPrice, MemberCapacity, Resource, UNLIMITED};
use std::sync::Arc;

#[test]
fn a_session_is_charged_with_the_price_of_the_front_end_that_sends_to_it() {
    let capacities = Capacities {
        members: vec![MemberCapacity { price: DiskPrice::FREE, round_ns: ROUND_NS }; MEMBERS],
        network_bytes: UNLIMITED,
        core_ns: ROUND_NS,
        core_mib_ns: vec![70_000_000, 7_000_000],
        local_front_ends: Vec::new(),
        arena_bytes: UNLIMITED,
    };
    let sessions = table(10_000, Some(capacities));
    let film = of_bytes(vec![1 << 20; ROUNDS]);
    let play = |front_end| {
        let client = SessionClient::new(CLIENT, Class::PERIODIC).through(front_end);
        sessions.open("film", Arc::new(()), Choices::from(Arc::from([film.clone()])), client, START_NS)
    };
    let used = || {
        let usage = sessions.admission().usage(START_NS);
        usage.iter().find(|usage| usage.resource == Resource::Core).unwrap().used
    };
    let cheap = play(1).unwrap();
    assert_eq!(used(), 7_000_000);
    let dear = play(0).unwrap();
    assert_eq!(used(), 77_000_000);
    // A jump changes nothing of that.
    sessions.request(&cheap, Some(0), &segment(0), START_NS).unwrap();
    sessions.request(&cheap, Some(0), &segment(40), START_NS + ROUND_NS).unwrap();
    assert_eq!(used(), 77_000_000);
    let mut held = vec![dear];
    held.extend(std::iter::repeat_with(|| play(0).ok()).map_while(|session| session));
    // Seven tenths of a second, less what the first one has.
    assert_eq!(held.len(), 9);
    assert!(play(1).is_ok());
    sessions.close(&cheap.key());
    assert_eq!(used(), 9 * 70_000_000 + 7_000_000);
}
