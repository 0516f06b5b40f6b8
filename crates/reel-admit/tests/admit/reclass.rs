//! Sessions that continue in another class: admitted there in one step, or left as they were.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use crate::sessions::{CLIENT, MEMBERS, ROUNDS, START_NS, segment};
use proptest::prelude::*;
use reel_admit::limits::{ALLOWANCE_NS, MOVE_COST_NS};
use reel_admit::{
    Choices, OpenRefused, ReservationState, Session, SessionClient, Sessions, SessionsConfig, TrackSpan,
};
use reel_cache::MediaKind;
use reel_qos::limits::ROUND_NS;
use reel_qos::{
    AdmitError, Capacities, Class, ClassSpec, ClassTable, ClientShare, Demand, DiskPrice, Kind,
    MemberCapacity, Resource, UNLIMITED,
};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

const FILM_BPS: u64 = 8_000_000;

fn gold() -> Class {
    Class::new(3).unwrap()
}

/// Two classes with deadlines, whose networks carry so many streams of 8 Mb/s each.
fn table(streams: u64, client_share: ClientShare) -> Sessions<()> {
    let price = DiskPrice { read_request_ns: 1, read_mib_ns: 1, ..DiskPrice::FREE };
    let capacities = Capacities {
        members: vec![MemberCapacity { price, round_ns: ROUND_NS }; MEMBERS],
        network_bytes: streams * FILM_BPS / 8 * 5 / 2,
        core_ns: UNLIMITED,
        core_mib_ns: vec![0],
        local_front_ends: Vec::new(),
        arena_bytes: 1 << 40,
    };
    let class = |name: &str, kind, permille| ClassSpec::new(name, kind, permille);
    let classes = vec![
        class("periodic", Kind::Periodic, 400),
        class("interactive", Kind::Interactive, 100),
        class("aperiodic", Kind::Aperiodic, 100),
        class("gold", Kind::Periodic, 400),
    ];
    Sessions::new(SessionsConfig {
        sessions_max: 1_000,
        idle_max_ns: 3_600 * ROUND_NS,
        capacities: Some(capacities),
        classes: ClassTable::new(classes).unwrap(),
        start_wait_s: 0,
        client_share,
    })
}

fn film() -> Arc<[Arc<Demand>]> {
    Arc::new([Arc::new(Demand::constant(MEMBERS, FILM_BPS, 264 << 10, ROUNDS, 1 << 20))])
}

/// What is promised of the title in a class.
fn offers(class: Class) -> Choices {
    match class {
        Class::APERIODIC | Class::INTERACTIVE => Choices::none(),
        _ => film().into(),
    }
}

fn open(sessions: &Sessions<()>, class: Class, client: IpAddr) -> Result<Arc<Session<()>>, OpenRefused> {
    sessions.open("film", Arc::new(()), offers(class), SessionClient::new(client, class), START_NS)
}

fn change(
    sessions: &Sessions<()>,
    session: &Session<()>,
    class: Class,
    now_ns: u64,
) -> Result<bool, OpenRefused> {
    sessions.change_class(session, class, offers(class), now_ns)
}

fn state_of(sessions: &Sessions<()>, session: &Session<()>, now_ns: u64) -> (Class, ReservationState) {
    let all = sessions.list(now_ns);
    let summary = all.iter().find(|summary| summary.key == session.key()).unwrap();
    (summary.class, summary.reservation)
}

/// A client that plays its title as one file, from here on.
fn at(media_ns: u64) -> TrackSpan {
    TrackSpan { kind: MediaKind::Video, from_ns: media_ns, until_ns: media_ns }
}

#[test]
fn a_session_takes_its_place_in_another_class_with_it() {
    let sessions = table(1, ClientShare::ALL);
    let session = open(&sessions, Class::PERIODIC, CLIENT).unwrap();
    sessions.request(&session, Some(0), &segment(0), START_NS).unwrap();
    let now_ns = START_NS + 3 * ROUND_NS;
    assert_eq!(change(&sessions, &session, gold(), now_ns), Ok(true));
    assert_eq!(state_of(&sessions, &session, now_ns), (gold(), ReservationState::Reserved));
    // The old class has room for another one again, and the new one has none.
    open(&sessions, Class::PERIODIC, CLIENT).unwrap();
    assert!(open(&sessions, gold(), CLIENT).is_err());
    let permit = sessions.request(&session, Some(0), &segment(1), now_ns + ROUND_NS).unwrap();
    assert_eq!((permit.class, permit.is_displaced), (gold(), false));
    assert!(sessions.admission().adds_up());
    assert!(sessions.close(&session.key()) && sessions.admission().adds_up());
    open(&sessions, gold(), CLIENT).unwrap();
}

#[test]
fn a_full_class_refuses_with_its_reason_and_the_session_keeps_what_it_had() {
    let sessions = table(1, ClientShare::ALL);
    let (session, other) =
        (open(&sessions, Class::PERIODIC, CLIENT).unwrap(), open(&sessions, gold(), CLIENT).unwrap());
    sessions.request(&session, Some(0), &segment(0), START_NS).unwrap();
    let before = format!("{:?}", sessions.admission());
    let refused = change(&sessions, &session, gold(), START_NS).unwrap_err();
    assert_eq!(format!("{:?}", sessions.admission()), before, "every bit of the ledger");
    let refusal = refused.refusal().unwrap();
    assert_eq!(refusal.resource, Resource::Network);
    assert!(refusal.retry_after_s.is_some() && refused.retry_after_s() > 0, "{refused}");
    assert_eq!(state_of(&sessions, &session, START_NS), (Class::PERIODIC, ReservationState::Reserved));
    let next = sessions.request(&session, Some(0), &segment(1), START_NS + ROUND_NS).unwrap();
    assert_eq!(next.class, Class::PERIODIC);
    assert!(sessions.close(&other.key()));
    assert_eq!(change(&sessions, &session, gold(), START_NS + ROUND_NS), Ok(true));
}

#[test]
fn a_session_gives_its_promise_up_and_gets_it_back_where_its_client_is() {
    let sessions = table(1, ClientShare::ALL);
    let session = open(&sessions, Class::PERIODIC, CLIENT).unwrap();
    sessions.request(&session, None, &at(0), START_NS).unwrap();
    change(&sessions, &session, Class::APERIODIC, START_NS + ROUND_NS).unwrap();
    assert_eq!(
        state_of(&sessions, &session, START_NS + ROUND_NS),
        (Class::APERIODIC, ReservationState::Unpromised)
    );
    let other = open(&sessions, Class::PERIODIC, CLIENT).unwrap();
    let (now_ns, place_ns) = (START_NS + 60 * ROUND_NS, 200 * ROUND_NS);
    session.is_at(place_ns);
    assert!(change(&sessions, &session, Class::PERIODIC, now_ns).is_err(), "another one has the place");
    assert_eq!(session.class(), Class::APERIODIC);
    assert!(sessions.close(&other.key()));
    change(&sessions, &session, Class::PERIODIC, now_ns).unwrap();
    let permit = sessions.request(&session, None, &at(place_ns), now_ns).unwrap();
    assert_eq!((permit.class, permit.is_displaced), (Class::PERIODIC, false), "it is no seek");
    // What is reserved ends with the title: 400 rounds later.
    let used = |round: u64| {
        let usage = sessions.admission().usage(now_ns + round * ROUND_NS);
        usage.iter().find(|usage| usage.resource == Resource::Network).unwrap().used
    };
    assert!(used(0) > 0 && sessions.admission().adds_up());
    assert_eq!(sessions.list(now_ns + 10 * ROUND_NS)[0].reservation, ReservationState::Reserved);
}

#[test]
fn a_paused_session_is_admitted_where_it_was_and_an_ended_one_is_not() {
    let sessions = table(1, ClientShare::ALL);
    let session = open(&sessions, Class::PERIODIC, CLIENT).unwrap();
    sessions.request(&session, Some(0), &segment(0), START_NS).unwrap();
    let now_ns = START_NS + 60 * ROUND_NS;
    sessions.tick(now_ns);
    assert_eq!(state_of(&sessions, &session, now_ns).1, ReservationState::Paused);
    assert_eq!(change(&sessions, &session, gold(), now_ns), Ok(true));
    assert_eq!(state_of(&sessions, &session, now_ns), (gold(), ReservationState::Reserved));
    assert!(sessions.close(&session.key()));
    assert_eq!(change(&sessions, &session, Class::PERIODIC, now_ns), Ok(false));
    assert!(open(&sessions, gold(), CLIENT).is_ok() && sessions.admission().adds_up());
}

#[test]
fn a_change_is_a_move_of_which_a_session_has_so_many() {
    let sessions = table(1, ClientShare::ALL);
    let session = open(&sessions, Class::PERIODIC, CLIENT).unwrap();
    for number in 0..ALLOWANCE_NS / MOVE_COST_NS {
        let class = if number % 2 == 0 { gold() } else { Class::PERIODIC };
        assert_eq!(change(&sessions, &session, class, START_NS), Ok(true));
        assert_eq!(change(&sessions, &session, class, START_NS), Ok(true), "it has it already");
    }
    let refused = change(&sessions, &session, gold(), START_NS).unwrap_err();
    assert!(refused.is_of_client() && refused.retry_after_s() == 1, "{refused}");
    assert_eq!(session.class(), Class::PERIODIC);
    assert_eq!(change(&sessions, &session, gold(), START_NS + MOVE_COST_NS), Ok(true));
}

/// A client could open in one class what its share allows there, and change all to another one.
#[test]
fn the_share_of_a_client_binds_what_changes_its_class() {
    let sessions = table(20, ClientShare::permille(500));
    let client = |number| IpAddr::V4(Ipv4Addr::new(192, 0, 2, number));
    // Others leave little of the gold class.
    for number in 10..26 {
        open(&sessions, gold(), client(number)).unwrap();
    }
    let held: Vec<_> = (0..8).map(|_| open(&sessions, Class::PERIODIC, client(1)).unwrap()).collect();
    let refused = change(&sessions, &held[0], gold(), START_NS).unwrap_err();
    assert!(matches!(refused, OpenRefused::NotAdmitted(AdmitError::Share(_))), "{refused}");
    assert_eq!(held[0].class(), Class::PERIODIC);
    let single = open(&sessions, Class::PERIODIC, client(2)).unwrap();
    assert_eq!(change(&sessions, &single, gold(), START_NS), Ok(true), "the only one of its client");
    assert!(sessions.admission().adds_up());
}

#[derive(Clone, Debug)]
enum Step {
    Open(usize),
    Change { which: usize, class: usize },
    Request { which: usize, number: u64 },
    End(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_usize).prop_map(Step::Open),
        6 => (any::<usize>(), 0..4_usize).prop_map(|(which, class)| Step::Change { which, class }),
        4 => (any::<usize>(), 0..40_u64).prop_map(|(which, number)| Step::Request { which, number }),
        1 => any::<usize>().prop_map(Step::End),
        3 => (0..9_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Whatever sessions do: what is reserved is the sum of what they hold, a refused change leaves
    /// all of it as it was, and when all have ended, nothing is reserved.
    #[test]
    fn what_is_reserved_is_what_the_sessions_hold(
        streams in 1..4_u64, steps in prop::collection::vec(step(), 1..60),
    ) {
        let sessions = table(streams, ClientShare::ALL);
        let (mut all, mut now_ns) = (Vec::<Arc<Session<()>>>::new(), START_NS);
        for step in steps {
            match step {
                Step::Open(class) => {
                    let class = Class::new(class).unwrap();
                    let client = SessionClient::new(CLIENT, class);
                    all.extend(sessions.open("film", Arc::new(()), offers(class), client, now_ns).ok());
                }
                Step::Change { which, class } if !all.is_empty() => {
                    let (session, class) = (&all[which % all.len()], Class::new(class).unwrap());
                    let had = session.class();
                    // The ledger is at the present before it decides.
                    sessions.tick(now_ns);
                    let before = sessions.admission().usage(now_ns);
                    let changed = change(&sessions, session, class, now_ns);
                    prop_assert_eq!(session.class(), if changed.is_ok() { class } else { had });
                    if changed.is_err() {
                        prop_assert_eq!(before, sessions.admission().usage(now_ns));
                    }
                }
                Step::Request { which, number } if !all.is_empty() => {
                    let session = &all[which % all.len()];
                    if !matches!(session.class(), Class::APERIODIC | Class::INTERACTIVE) {
                        let _ = sessions.request(session, Some(0), &segment(number), now_ns);
                    }
                }
                Step::End(which) if !all.is_empty() => {
                    let session = all.swap_remove(which % all.len());
                    prop_assert!(sessions.close(&session.key()));
                }
                Step::Wait(rounds) => {
                    now_ns += rounds * ROUND_NS;
                    sessions.tick(now_ns);
                }
                Step::Change { .. } | Step::Request { .. } | Step::End(_) => {}
            }
            prop_assert!(sessions.admission().adds_up());
        }
        for session in &all {
            prop_assert!(sessions.close(&session.key()));
        }
        let is_free = sessions.admission().usage(now_ns).iter().all(|usage| usage.used == 0);
        prop_assert!(is_free && sessions.admission().adds_up());
    }
}
