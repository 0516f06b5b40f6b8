//! Sessions: their table, and what is promised to them while their clients play, seek and leave.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use reel_admit::limits::{
    BELOW_SEGMENTS, CLIENT_PART, LATE_STAYS_NS, PAUSE_GRACE_NS, ROUNDS_MAX, SEND_LEAD_NS,
    SESSIONS_PER_CLIENT_MAX, UNSTARTED_PER_CLIENT_MAX,
};
use reel_admit::{
    Choices, Client, OpenRefused, Permit, ReservationState, Session, SessionClient, Sessions, SessionsConfig,
    TrackSpan,
};
use reel_cache::{Body, MediaKind};
use reel_qos::limits::ROUND_NS;
use reel_qos::{
    AdmitError, Capacities, Class, ClassTable, ClientShare, DEADLINE_NONE_NS, Demand, DiskPrice,
    MemberCapacity, Resource, UNLIMITED,
};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

pub(crate) const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub(crate) const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
pub(crate) const START_NS: u64 = 1_000 * ROUND_NS + 300_000_000;
pub(crate) const MEMBERS: usize = 5;
/// A title of ten minutes.
pub(crate) const ROUNDS: usize = 600;

/// A table that can promise this many streams of 8 Mb/s. The network is the scarce resource.
pub(crate) fn promising(streams: u64) -> Sessions<()> {
    shared_out(streams, ClientShare::ALL)
}

/// The same, of which one client may hold a share.
pub(crate) fn shared_out(streams: u64, client_share: ClientShare) -> Sessions<()> {
    waiting(streams, client_share, 0)
}

/// The same, whose starts wait for so many seconds.
pub(crate) fn waiting(streams: u64, client_share: ClientShare, start_wait_s: u64) -> Sessions<()> {
    let price = DiskPrice {
        read_request_ns: 1,
        read_mib_ns: 1,
        write_request_ns: 1,
        write_mib_ns: 1,
        independent_limits: false,
    };
    let capacities = Capacities {
        members: vec![MemberCapacity { price, round_ns: ROUND_NS }; MEMBERS],
        // The periodic class has 85 % of the network.
        network_bytes: (streams * 1_000_000 * 20).div_ceil(17),
        core_ns: UNLIMITED,
        core_mib_ns: vec![0],
        local_front_ends: Vec::new(),
        arena_bytes: UNLIMITED,
    };
    let capacities = Some(capacities);
    let config = SessionsConfig { capacities, client_share, start_wait_s, ..config(10_000) };
    Sessions::new(config)
}

pub(crate) fn table(sessions_max: usize, capacities: Option<Capacities>) -> Sessions<()> {
    Sessions::new(SessionsConfig { capacities, ..config(sessions_max) })
}

fn config(sessions_max: usize) -> SessionsConfig {
    SessionsConfig {
        sessions_max,
        idle_max_ns: 3_600 * ROUND_NS,
        capacities: None,
        classes: ClassTable::default(),
        start_wait_s: 0,
        client_share: ClientShare::ALL,
    }
}

fn of(rates_bps: &[u64]) -> Arc<[Arc<Demand>]> {
    rates_bps
        .iter()
        .map(|rate_bps| Arc::new(Demand::constant(MEMBERS, *rate_bps, 264 << 10, ROUNDS, 1 << 20)))
        .collect()
}

/// The demand of a title that sends these bytes in each round.
pub(crate) fn of_bytes(sent_bytes: Vec<u64>) -> Arc<Demand> {
    Arc::new(Demand::new(vec![Vec::new(); MEMBERS], sent_bytes, 1 << 20))
}

pub(crate) fn open_for(
    sessions: &Sessions<()>,
    rates_bps: &[u64],
    client: IpAddr,
    now_ns: u64,
) -> Result<Arc<Session<()>>, OpenRefused> {
    sessions.open("film", Arc::new(()), of(rates_bps), SessionClient::new(client, Class::PERIODIC), now_ns)
}

pub(crate) fn open(sessions: &Sessions<()>, rates_bps: &[u64]) -> Result<Arc<Session<()>>, OpenRefused> {
    open_for(sessions, rates_bps, CLIENT, START_NS)
}

pub(crate) fn segment(number: u64) -> TrackSpan {
    let from_ns = number * 4 * ROUND_NS;
    TrackSpan { kind: MediaKind::Video, from_ns, until_ns: from_ns + 4 * ROUND_NS }
}

/// Two sessions whose titles have busy and quiet seconds. Each is quiet while the other is busy. At
/// any other offset both would not fit.
pub(crate) fn at_capacity(
    is_busy: impl Fn(u64) -> u64,
) -> (Sessions<()>, Arc<Session<()>>, Arc<Session<()>>) {
    let sessions = promising(2);
    let open = |client, odd: u64| {
        let bytes = (0..ROUNDS as u64).map(|round| 500_000 + (is_busy(round) + odd) % 2 * 1_000_000);
        let film = Arc::from([of_bytes(bytes.collect())]);
        sessions
            .open("film", Arc::new(()), film, SessionClient::new(client, Class::PERIODIC), START_NS)
            .unwrap()
    };
    let (one, other) = (open(CLIENT, 0), open(OTHER, 1));
    (sessions, one, other)
}

/// No two positions of a title are alike for long.
pub(crate) fn by_chance(round: u64) -> u64 {
    round.wrapping_mul(2_654_435_761) >> 7 & 1
}

pub(crate) fn reservation(sessions: &Sessions<()>, session: &Session<()>, now_ns: u64) -> ReservationState {
    sessions.list(now_ns).into_iter().find(|summary| summary.key == session.key()).unwrap().reservation
}

/// Whether a request is answered without a reservation and without a deadline.
pub(crate) fn is_displaced(permit: Result<Permit, AdmitError>) -> bool {
    let permit = permit.expect("a session that holds something is not refused");
    permit.is_displaced && permit.class == Class::APERIODIC && permit.due_ns == DEADLINE_NONE_NS
}

pub(crate) fn network_used(sessions: &Sessions<()>, now_ns: u64) -> u64 {
    let usage = sessions.admission().usage(now_ns);
    usage.iter().find(|usage| usage.resource == Resource::Network).unwrap().used
}

#[test]
fn a_session_is_found_until_it_is_idle_for_too_long() {
    let sessions = table(10, None);
    let key = open(&sessions, &[]).unwrap().key();
    let later_ns = START_NS + 3_600 * ROUND_NS;
    assert!(sessions.touch(&key, later_ns).is_some());
    assert!(sessions.touch(&key, later_ns + 3_600 * ROUND_NS).is_some());
    assert!(sessions.touch(&key, later_ns + 3 * 3_600 * ROUND_NS).is_none());
    assert!(sessions.is_empty());
}

#[test]
fn a_session_that_was_silent_for_too_long_is_opened_again_if_there_is_room() {
    let sessions = promising(1);
    let session = open(&sessions, &[8_000_000]).unwrap();
    let key = session.key();
    session.may_return_to("first".to_owned());
    assert_eq!(sessions.former(&key), None);
    let later_ns = START_NS + 3 * 3_600 * ROUND_NS;
    sessions.tick(later_ns);
    let former = sessions.former(&key).unwrap();
    assert_eq!((&former.title_id[..], &former.edition[..]), ("film", "first"));
    let again = || {
        let client = SessionClient::new(CLIENT, former.class);
        sessions.open_as(key, "film", Arc::new(()), of(&[8_000_000]), client, later_ns)
    };
    let other = open_for(&sessions, &[8_000_000], OTHER, later_ns).unwrap();
    again().unwrap_err();
    assert!(sessions.former(&key).is_some(), "it may still be opened when there is room");
    sessions.close(&other.key());
    let first = again().unwrap();
    assert!(sessions.former(&key).is_none());
    // Another request of the same player.
    assert!(Arc::ptr_eq(&first, &again().unwrap()) && sessions.len() == 1);
    assert!(sessions.admission().adds_up());
    sessions.close(&key);
    assert!(sessions.former(&key).is_none(), "its client has closed it");
}

#[test]
fn sending_keeps_a_session_from_growing_idle() {
    let sessions = table(10, None);
    let session = open(&sessions, &[]).unwrap();
    session.sent(7, START_NS + 3_000 * ROUND_NS);
    let later_ns = START_NS + 4_000 * ROUND_NS;
    assert!(sessions.touch(&session.key(), later_ns).is_some());
    assert_eq!(sessions.list(later_ns)[0].sent_bytes, 7);
}

#[test]
fn a_full_table_refuses_and_says_when_to_ask_again() {
    let sessions = table(2, None);
    open(&sessions, &[]).unwrap();
    open(&sessions, &[]).unwrap();
    let refused = open(&sessions, &[]).unwrap_err();
    assert_eq!(refused, OpenRefused::Full { max: 2, retry_after_s: 3_600 });
    open_for(&sessions, &[], CLIENT, START_NS + 3_601 * ROUND_NS)
        .expect("the others are idle for too long by now");
}

#[test]
fn one_address_cannot_take_the_whole_table() {
    let sessions = table(SESSIONS_PER_CLIENT_MAX * 2, None);
    let first = open(&sessions, &[]).unwrap();
    for _ in 1..SESSIONS_PER_CLIENT_MAX {
        open(&sessions, &[]).unwrap();
    }
    assert!(matches!(open(&sessions, &[]), Err(OpenRefused::Client { .. })));
    open_for(&sessions, &[], OTHER, START_NS).unwrap();
    assert!(sessions.close(&first.key()) && !sessions.close(&first.key()));
    open(&sessions, &[]).expect("the count of the address went down with its session");
}

fn open_title(sessions: &Sessions<()>, title_id: &str, client: &str) -> Result<(), OpenRefused> {
    let who = SessionClient::new(client.parse::<IpAddr>().unwrap(), Class::PERIODIC);
    sessions.open(title_id, Arc::new(()), of(&[]), who, START_NS).map(drop)
}

#[test]
fn the_sessions_of_an_address_are_counted_for_each_title() {
    let sessions = table(SESSIONS_PER_CLIENT_MAX * 4, None);
    for _ in 0..SESSIONS_PER_CLIENT_MAX {
        open_title(&sessions, "a", "10.0.0.1").unwrap();
    }
    assert!(matches!(open_title(&sessions, "a", "10.0.0.1"), Err(OpenRefused::Client { .. })));
    open_title(&sessions, "b", "10.0.0.1").expect("a household behind one address plays other titles, too");
    assert!(
        matches!(open_title(&sessions, "a", "::ffff:10.0.0.1"), Err(OpenRefused::Client { .. })),
        "the same address, by the other family"
    );
}

#[test]
fn one_address_leaves_half_of_the_table_to_others() {
    let sessions = table(SESSIONS_PER_CLIENT_MAX * 2 * CLIENT_PART, None);
    for title in ["a", "b"] {
        (0..SESSIONS_PER_CLIENT_MAX).for_each(|_| open_title(&sessions, title, "10.0.0.1").unwrap());
    }
    assert!(matches!(open_title(&sessions, "c", "10.0.0.1"), Err(OpenRefused::Client { held: 512 })));
    open_title(&sessions, "c", "10.0.0.2").unwrap();
}

#[test]
fn a_gateway_may_have_the_whole_table_and_nothing_beyond() {
    let gateways = vec!["10.0.0.0/30".parse().unwrap(), "2001:db8:7::1".parse().unwrap()];
    let sessions = table(SESSIONS_PER_CLIENT_MAX * 4, None).for_gateways(gateways);
    for _ in 0..SESSIONS_PER_CLIENT_MAX {
        open_title(&sessions, "a", "10.0.0.9").unwrap();
    }
    assert!(matches!(open_title(&sessions, "a", "10.0.0.9"), Err(OpenRefused::Client { .. })));
    for number in 0..SESSIONS_PER_CLIENT_MAX * 3 {
        open_title(&sessions, "a", ["10.0.0.2", "2001:db8:7::1"][number % 2]).unwrap();
    }
    assert!(matches!(open_title(&sessions, "a", "10.0.0.2"), Err(OpenRefused::Full { .. })));
}

#[test]
fn a_network_of_version_six_is_one_client() {
    let sessions = table(SESSIONS_PER_CLIENT_MAX * 4, None);
    for host in 0..SESSIONS_PER_CLIENT_MAX {
        open_title(&sessions, "a", &format!("2001:db8:0:7::{host:x}")).unwrap();
    }
    assert!(matches!(open_title(&sessions, "a", "2001:db8:0:7:8::9"), Err(OpenRefused::Client { .. })));
    open_title(&sessions, "a", "2001:db8:0:8::1").expect("the network beside it");
}

#[test]
fn programs_of_two_users_are_counted_separately() {
    let sessions = table(SESSIONS_PER_CLIENT_MAX * 4, None);
    let open = |user| {
        let who = SessionClient::new(Client::User(user), Class::PERIODIC);
        sessions.open("a", Arc::new(()), of(&[]), who, START_NS).map(drop)
    };
    (0..SESSIONS_PER_CLIENT_MAX).for_each(|_| open(1000).unwrap());
    assert!(matches!(open(1000), Err(OpenRefused::Client { .. })));
    open(1001).expect("another user");
    open_title(&sessions, "a", "10.0.0.1").expect("an address");
}

#[test]
fn a_network_of_version_six_reserves_for_few_that_have_not_asked() {
    let sessions = promising(1_000);
    let open = |host: usize| {
        let client = format!("2001:db8::{host:x}").parse().unwrap();
        open_for(&sessions, &[8_000_000], client, START_NS)
    };
    for host in 0..UNSTARTED_PER_CLIENT_MAX {
        open(host).unwrap();
    }
    let refused = open(UNSTARTED_PER_CLIENT_MAX).unwrap_err();
    assert_eq!(refused, OpenRefused::Unstarted { held: UNSTARTED_PER_CLIENT_MAX });
}

#[test]
fn a_session_that_does_not_fit_is_refused_with_what_would() {
    let sessions = promising(2);
    open(&sessions, &[8_000_000]).unwrap();
    let half = open(&sessions, &[8_000_000, 4_000_000]).unwrap();
    assert_eq!(half.offered(), Some(0));
    let Err(OpenRefused::NotAdmitted(AdmitError::Refused(refusal))) = open(&sessions, &[8_000_000]) else {
        panic!("it was admitted")
    };
    assert_eq!(refusal.resource, Resource::Network);
    assert!(refusal.retry_after_s.is_some() && refusal.grantable_bps < 8_000_000, "{refusal}");
}

#[test]
fn a_ladder_is_offered_from_the_best_rendition_that_fits() {
    let sessions = promising(3);
    open(&sessions, &[16_000_000]).unwrap();
    let session = open(&sessions, &[16_000_000, 8_000_000, 4_000_000]).unwrap();
    assert_eq!(session.offered(), Some(1));
    let Err(OpenRefused::NotAdmitted(_)) = open(&sessions, &[8_000_000]) else { panic!("it was admitted") };
}

#[test]
fn a_reservation_ends_with_its_session() {
    let sessions = promising(1);
    let session = open(&sessions, &[8_000_000]).unwrap();
    assert!(open(&sessions, &[8_000_000]).is_err());
    sessions.close(&session.key());
    assert_eq!(network_used(&sessions, START_NS), 0);
    // A request that is still under way after the end must not reserve again.
    let permit = sessions.request(&session, Some(0), &segment(0), START_NS).unwrap();
    assert_eq!(
        (permit.class, permit.due_ns),
        (Class::APERIODIC, DEADLINE_NONE_NS),
        "it is not read in the periodic class either"
    );
    assert_eq!(network_used(&sessions, START_NS), 0);
    open(&sessions, &[8_000_000]).unwrap();
}

#[test]
fn segments_are_due_when_the_schedule_says_however_early_they_are_asked_for() {
    let sessions = promising(1);
    let session = open(&sessions, &[8_000_000]).unwrap();
    let first = sessions.request(&session, Some(0), &segment(0), START_NS).unwrap();
    assert!(first.begins && first.class == Class::INTERACTIVE && first.due_ns == START_NS);
    for number in 1..8 {
        let permit = sessions.request(&session, Some(0), &segment(number), START_NS).unwrap();
        assert!(!permit.begins && permit.class == Class::PERIODIC);
        assert_eq!(permit.due_ns, START_NS / ROUND_NS * ROUND_NS + segment(number).from_ns - SEND_LEAD_NS);
    }
}

/// A slow client keeps its reservation for a minute after all it requested should have been shown.
/// What trickles to it keeps its session, and no more than that.
#[test]
fn a_client_that_takes_a_byte_now_and_then_loses_its_reservation() {
    let sessions = promising(1);
    let session = open(&sessions, &[8_000_000]).unwrap();
    sessions.request(&session, Some(0), &segment(0), START_NS).unwrap();
    let state = |now_ns| sessions.list(now_ns)[0].reservation;
    let mut now_ns = START_NS;
    let dry_ns = START_NS + 4 * ROUND_NS;
    while now_ns < dry_ns + LATE_STAYS_NS - ROUND_NS {
        session.sent(1, now_ns);
        sessions.tick(now_ns);
        assert_eq!(state(now_ns), ReservationState::Reserved, "{} s", (now_ns - START_NS) / ROUND_NS);
        now_ns += ROUND_NS;
    }
    for _ in 0..5 {
        now_ns += ROUND_NS;
        session.sent(1, now_ns);
        sessions.tick(now_ns);
    }
    assert_eq!(state(now_ns), ReservationState::Paused);
    open_for(&sessions, &[8_000_000], OTHER, now_ns).unwrap();
}

#[test]
fn a_silent_client_loses_its_reservation_within_the_stated_time_and_is_admitted_again() {
    let sessions = promising(1);
    let session = open(&sessions, &[8_000_000]).unwrap();
    for number in 0..3 {
        sessions.request(&session, Some(0), &segment(number), START_NS).unwrap();
    }
    let dry_ns = START_NS / ROUND_NS * ROUND_NS + 12 * ROUND_NS;
    sessions.tick(dry_ns + PAUSE_GRACE_NS);
    assert_eq!(reservation(&sessions, &session, dry_ns), ReservationState::Reserved);
    let free_ns = dry_ns + PAUSE_GRACE_NS + 1;
    sessions.tick(free_ns);
    assert_eq!(reservation(&sessions, &session, free_ns), ReservationState::Paused);
    assert_eq!(network_used(&sessions, free_ns), 0);

    let other = open_for(&sessions, &[8_000_000], OTHER, free_ns).unwrap();
    let refused = sessions.request(&session, Some(0), &segment(3), free_ns).unwrap_err();
    assert!(matches!(refused, AdmitError::Refused(refusal) if refusal.resource == Resource::Network));
    sessions.close(&other.key());
    let again = sessions.request(&session, Some(0), &segment(3), free_ns).unwrap();
    assert!(!again.begins && again.class == Class::PERIODIC, "it continues in its own class");
    assert_eq!(reservation(&sessions, &session, free_ns), ReservationState::Reserved);
}

/// Requests segments of a track of a title of ten minutes at once, as a program does that fetches a
/// film. They are sent at once.
pub(crate) fn fetch(
    sessions: &Sessions<()>,
    session: &Session<()>,
    kind: MediaKind,
    segments: impl IntoIterator<Item = u64>,
) {
    let end_ns = segment(ROUNDS as u64 / 4 - 1).until_ns;
    for number in segments {
        let span = TrackSpan { kind, ..segment(number) };
        sessions.request(session, Some(0), &span, START_NS).unwrap();
        sessions.plays(session, kind, &Body::text(vec![0; 100]), 0, end_ns, START_NS);
    }
    session.sent(100, START_NS);
}

#[test]
fn what_was_delivered_to_the_end_needs_nothing_any_more() {
    let sessions = promising(1);
    let session = open(&sessions, &[8_000_000]).unwrap();
    let all = ROUNDS as u64 / 4;
    let silent_ns = START_NS + PAUSE_GRACE_NS + 1;
    let state = || {
        sessions.tick(silent_ns);
        reservation(&sessions, &session, silent_ns)
    };
    fetch(&sessions, &session, MediaKind::Video, 0..all);
    fetch(&sessions, &session, MediaKind::Audio, 0..all - 1);
    assert_eq!(state(), ReservationState::Reserved, "the last sound is missing");
    let under_way = session.answers();
    fetch(&sessions, &session, MediaKind::Audio, all - 1..all);
    assert_eq!(state(), ReservationState::Reserved, "a response is under way");
    drop(under_way);
    assert_eq!(state(), ReservationState::Delivered);
    assert_eq!(network_used(&sessions, silent_ns), 0);
    assert_eq!(sessions.list(silent_ns)[0].position_ns / ROUND_NS, 5, "its viewer may still see it");

    // On a full server, the end is sent again with what is left, and a seek is refused.
    let other = open_for(&sessions, &[8_000_000], OTHER, silent_ns).unwrap();
    let again = sessions.request(&session, Some(0), &segment(all - 1), silent_ns).unwrap();
    assert_eq!(again.class, Class::APERIODIC);
    sessions.request(&session, Some(0), &segment(20), silent_ns).unwrap_err();
    sessions.close(&other.key());
    sessions.request(&session, Some(0), &segment(20), silent_ns).unwrap();
    assert_eq!(reservation(&sessions, &session, silent_ns), ReservationState::Reserved);
    assert!(sessions.admission().adds_up());
}

#[test]
fn a_session_that_never_asks_holds_nothing_for_long() {
    let sessions = promising(1);
    let session = open(&sessions, &[8_000_000]).unwrap();
    let later_ns = START_NS + PAUSE_GRACE_NS + 1;
    sessions.tick(later_ns);
    assert_eq!(reservation(&sessions, &session, later_ns), ReservationState::Paused);
}

#[test]
fn ten_thousand_sessions_opened_and_dropped_leave_room_for_others() {
    let sessions = promising(1_000);
    let mut refused = 0;
    for number in 0..10_000u64 {
        // A minute in all.
        let now_ns = START_NS + number * 6_000_000;
        refused += u64::from(open_for(&sessions, &[8_000_000], CLIENT, now_ns).is_err());
        if number % 100 == 0 {
            sessions.tick(now_ns);
        }
        assert!(sessions.len() <= SESSIONS_PER_CLIENT_MAX);
        assert!(network_used(&sessions, now_ns) <= UNSTARTED_PER_CLIENT_MAX as u64 * 1_100_000);
    }
    assert!(refused > 9_000);
    open_for(&sessions, &[8_000_000], OTHER, START_NS + 60 * ROUND_NS)
        .expect("another address is not affected");
}

#[test]
fn a_seek_moves_the_reservation() {
    let sessions = promising(1);
    let session = open(&sessions, &[8_000_000]).unwrap();
    sessions.request(&session, Some(0), &segment(0), START_NS).unwrap();
    let seek = sessions.request(&session, Some(0), &segment(140), START_NS + ROUND_NS).unwrap();
    assert!(seek.begins);
    // Ten minutes less 560 seconds are left, and the rounds after them are free again.
    let after_ns = START_NS + 42 * ROUND_NS;
    sessions.tick(after_ns);
    assert_eq!(network_used(&sessions, after_ns), 0);
}

#[test]
fn an_admitted_session_begins_although_the_server_is_at_capacity_a_second_later() {
    let ask_after = |late_ns: u64| {
        // A second later neither fits beside the other.
        let (sessions, session, _other) = at_capacity(|round| round % 2);
        let permit = sessions.request(&session, Some(0), &segment(0), START_NS + late_ns);
        assert!(sessions.admission().adds_up());
        permit
    };
    let permit = ask_after(ROUND_NS).expect("it was admitted a second ago");
    assert!(permit.begins && permit.class == Class::INTERACTIVE);
    let permit = ask_after(3 * ROUND_NS).expect("it keeps what it has");
    assert!(permit.begins && permit.is_displaced, "three seconds later it is too late for that");
}

#[test]
fn a_session_that_falls_behind_at_capacity_continues_with_its_reservation() {
    let (sessions, session, other) = at_capacity(by_chance);
    sessions.request(&session, Some(0), &segment(0), START_NS).unwrap();
    sessions.request(&other, Some(0), &segment(0), START_NS).unwrap();
    // Its link stands still for three seconds, and then it shows nineteen seconds in twenty.
    let mut late_ns = 3 * ROUND_NS;
    for number in 1..20 {
        late_ns += ROUND_NS / 5;
        let now_ns = START_NS + number * 4 * ROUND_NS + late_ns;
        let permit = sessions.request(&session, Some(0), &segment(number), now_ns).expect("it was admitted");
        assert!(permit.class == Class::PERIODIC && permit.due_ns == now_ns && !permit.begins);
        sessions.request(&other, Some(0), &segment(number), now_ns - late_ns).unwrap();
        sessions.touch(&session.key(), now_ns);
        sessions.touch(&other.key(), now_ns);
        sessions.tick(now_ns);
        assert!(sessions.admission().adds_up());
        assert!(
            [&session, &other]
                .iter()
                .all(|of| reservation(&sessions, of, now_ns) == ReservationState::Reserved)
        );
    }
    // What is more than a minute late is not covered by the reservation any more, and there is no
    // room for another one.
    let now_ns = START_NS + 80 * ROUND_NS + LATE_STAYS_NS + ROUND_NS;
    assert!(is_displaced(sessions.request(&session, Some(0), &segment(20), now_ns)));
}

#[test]
fn a_buffer_that_grows_at_capacity_loses_nothing() {
    let sessions = promising(2);
    // Half a stream for five minutes, then one and a half.
    let film = [vec![500_000; 300], vec![1_500_000; 300]].concat();
    let session = sessions
        .open(
            "film",
            Arc::new(()),
            Arc::from([of_bytes(film)]),
            SessionClient::new(CLIENT, Class::PERIODIC),
            START_NS,
        )
        .unwrap();
    let mut now_ns = START_NS;
    let mut number = 0;
    let mut play = |ahead: u64, now_ns: u64| {
        while number * 4 * ROUND_NS <= now_ns - START_NS + ahead * ROUND_NS {
            sessions.request(&session, Some(0), &segment(number), now_ns).unwrap();
            number += 1;
        }
    };
    for _ in 0..60 {
        play(30, now_ns);
        now_ns += ROUND_NS;
    }
    // Another session fits until just before the title needs more, and half a minute sooner it does
    // not fit beside that.
    let short = Arc::from([of_bytes(vec![1_000_000; 230])]);
    sessions.open("short", Arc::new(()), short, SessionClient::new(OTHER, Class::PERIODIC), now_ns).unwrap();
    play(60, now_ns);
    assert_eq!(reservation(&sessions, &session, now_ns), ReservationState::Reserved);
}

#[test]
fn below_its_rendition_a_session_gives_back_and_going_up_is_admitted_again() {
    let sessions = promising(2);
    let session = open(&sessions, &[16_000_000, 4_000_000]).unwrap();
    assert_eq!(session.offered(), Some(0));
    for number in 0..=u64::from(BELOW_SEGMENTS) {
        sessions.request(&session, Some(1), &segment(number), START_NS).unwrap();
    }
    assert!(network_used(&sessions, START_NS) < 1_000_000);
    let other = open_for(&sessions, &[8_000_000], OTHER, START_NS).unwrap();
    let up = segment(u64::from(BELOW_SEGMENTS) + 1);
    assert!(is_displaced(sessions.request(&session, Some(0), &up, START_NS)));
    let again = segment(u64::from(BELOW_SEGMENTS) + 2);
    let lower = sessions.request(&session, Some(1), &again, START_NS).unwrap();
    assert_eq!(lower.class, Class::PERIODIC, "what it holds stays as it was");
    sessions.close(&other.key());
    let up = segment(u64::from(BELOW_SEGMENTS) + 3);
    sessions.request(&session, Some(0), &up, START_NS).unwrap();
    assert!(network_used(&sessions, START_NS) > 1_500_000);
}

#[test]
fn a_session_that_returns_closer_to_capacity_is_promised_the_rendition_that_fits() {
    let sessions = promising(2);
    let session = open(&sessions, &[16_000_000, 12_000_000, 4_000_000]).unwrap();
    sessions.request(&session, Some(0), &segment(0), START_NS).unwrap();
    let later_ns = START_NS + 100 * ROUND_NS;
    sessions.tick(later_ns);
    let _other = open_for(&sessions, &[8_000_000], OTHER, later_ns).expect("the first session is paused");
    sessions.touch(&session.key(), later_ns);
    for choice in [0, 1] {
        assert!(sessions.request(&session, Some(choice), &segment(1), later_ns).is_err(), "{choice}");
        assert_eq!(reservation(&sessions, &session, later_ns), ReservationState::Paused);
    }
    sessions.request(&session, Some(2), &segment(1), later_ns).expect("there is room for it");
    assert_eq!(reservation(&sessions, &session, later_ns), ReservationState::Reserved);
    assert!(network_used(&sessions, later_ns) > 1_400_000 && sessions.admission().adds_up());
    assert!(is_displaced(sessions.request(&session, Some(1), &segment(2), later_ns)));
    let permit = sessions.request(&session, Some(2), &segment(3), later_ns).unwrap();
    assert_eq!(permit.class, Class::PERIODIC, "what it holds stays as it was");
}

#[test]
fn a_session_that_steps_down_a_little_late_is_not_refused() {
    let sessions = promising(3);
    // Busy and quiet seconds in turn: a second later the demand is different.
    let film = |least: u64| of_bytes((0..ROUNDS as u64).map(|round| least + round % 2 * 1_000_000).collect());
    let offers = Arc::from([film(1_000_000), film(500_000)]);
    let (who, start_ns) = (SessionClient::new(CLIENT, Class::PERIODIC), START_NS);
    let session = sessions.open("film", Arc::new(()), offers, who, start_ns).unwrap();
    sessions.request(&session, Some(0), &segment(0), start_ns).unwrap();
    // Another session takes what it leaves in its quiet seconds.
    let rest = of_bytes((0..ROUNDS as u64).map(|round| 2_000_000 - round % 2 * 1_000_000).collect());
    sessions
        .open("other", Arc::new(()), Arc::from([rest]), SessionClient::new(OTHER, Class::PERIODIC), start_ns)
        .unwrap();
    let used = network_used(&sessions, start_ns + ROUND_NS);
    for number in 1..=2 * u64::from(BELOW_SEGMENTS) {
        // Its buffer is empty, and each request comes a second after its segment should be shown.
        let now_ns = start_ns + (number * 4 + 1) * ROUND_NS;
        sessions.request(&session, Some(1), &segment(number), now_ns).expect("it gives something back");
    }
    let now_ns = start_ns + (8 * u64::from(BELOW_SEGMENTS) + 1) * ROUND_NS;
    assert!(network_used(&sessions, now_ns) <= used, "it keeps what it may not exchange");
}

#[test]
fn one_client_has_sessions_of_two_classes() {
    let sessions = promising(1);
    open(&sessions, &[8_000_000]).unwrap();
    let bulk = sessions
        .open("film", Arc::new(()), of(&[]), SessionClient::new(CLIENT, Class::APERIODIC), START_NS)
        .unwrap();
    assert_eq!(reservation(&sessions, &bulk, START_NS), ReservationState::Unpromised);
    assert_eq!(bulk.class(), Class::APERIODIC);
}

#[test]
fn a_title_longer_than_can_be_promised_is_refused() {
    let sessions = promising(100);
    let rounds = ROUNDS_MAX as usize + 1;
    let long = Arc::new(Demand::constant(MEMBERS, 1_000, 264 << 10, rounds, 1 << 20));
    let opened = sessions.open(
        "film",
        Arc::new(()),
        Arc::from([long]),
        SessionClient::new(CLIENT, Class::PERIODIC),
        START_NS,
    );
    assert!(matches!(opened, Err(OpenRefused::NotAdmitted(_))));
    assert!(sessions.is_empty() && network_used(&sessions, START_NS) == 0);
}

#[test]
fn a_clock_that_steps_breaks_nothing() {
    let sessions = promising(2);
    let session = open(&sessions, &[8_000_000]).unwrap();
    for now_ns in [START_NS, 5, START_NS + 3_000 * ROUND_NS, START_NS, 0] {
        sessions.tick(now_ns);
        let _ = sessions.request(&session, Some(0), &segment(1), now_ns);
        sessions.list(now_ns);
    }
    sessions.close(&session.key());
    assert_eq!(network_used(&sessions, START_NS + 3_000 * ROUND_NS), 0);
}

#[test]
fn another_language_needs_no_new_reservation_at_capacity() {
    let (sessions, session, _other) = at_capacity(by_chance);
    let sound = |number| TrackSpan { kind: MediaKind::Audio, ..segment(number) };
    for number in 0..18 {
        sessions.request(&session, Some(0), &segment(number), START_NS).unwrap();
        sessions.request(&session, None, &sound(number), START_NS).unwrap();
    }
    // The player has discarded all sound that it had, and has half a minute of pictures.
    let now_ns = START_NS + 43 * ROUND_NS;
    let permit = sessions.request(&session, None, &sound(10), now_ns).expect("it is what was promised");
    assert!(permit.begins && permit.class == Class::INTERACTIVE, "the viewer waits for it");
    for number in 11..18 {
        let permit = sessions.request(&session, None, &sound(number), now_ns).unwrap();
        assert!(!permit.begins && permit.class == Class::PERIODIC);
    }
    let due_ns = START_NS / ROUND_NS * ROUND_NS + 72 * ROUND_NS - SEND_LEAD_NS;
    let permit = sessions.request(&session, Some(0), &segment(18), now_ns).expect("pictures continue");
    assert_eq!((permit.begins, permit.due_ns), (false, due_ns));
}

#[test]
fn a_late_segment_of_a_lower_rendition_counts_once() {
    let sessions = promising(3);
    // Busy and quiet seconds in turn: an odd number of seconds later the demand is different. The
    // lower rendition fits at any time.
    let best = of_bytes((0..ROUNDS as u64).map(|round| (1 + round % 2) * 1_000_000).collect());
    let offers = Arc::from([best, of_bytes(vec![400_000; ROUNDS])]);
    let session = sessions
        .open("film", Arc::new(()), offers, SessionClient::new(CLIENT, Class::PERIODIC), START_NS)
        .unwrap();
    sessions.request(&session, Some(0), &segment(0), START_NS).unwrap();
    let rest = of_bytes((0..ROUNDS as u64).map(|round| 2_000_000 - round % 2 * 1_000_000).collect());
    sessions
        .open("other", Arc::new(()), Arc::from([rest]), SessionClient::new(OTHER, Class::PERIODIC), START_NS)
        .unwrap();
    let reserved = |now_ns| sessions.list(now_ns).into_iter().find(|of| of.key == session.key()).unwrap();
    let before_bps = reserved(START_NS).rate_bps;
    for number in 1..u64::from(BELOW_SEGMENTS) {
        // So late that the schedule would have to move, which is refused.
        let now_ns = START_NS + (number * 4 + 3) * ROUND_NS;
        sessions.request(&session, Some(1), &segment(number), now_ns).expect("it was admitted");
        assert_eq!(reserved(now_ns).rate_bps, before_bps, "after {number}");
    }
}

#[test]
fn a_session_refused_after_the_end_of_its_title_holds_nothing() {
    let sessions = promising(1);
    let session = open(&sessions, &[8_000_000]).unwrap();
    sessions.request(&session, Some(0), &segment(0), START_NS).unwrap();
    let over_ns = START_NS + (ROUNDS as u64 + 100) * ROUND_NS;
    sessions.touch(&session.key(), over_ns);
    sessions.tick(over_ns);
    open_for(&sessions, &[8_000_000], OTHER, over_ns).unwrap();
    assert!(sessions.request(&session, Some(0), &segment(10), over_ns).is_err(), "the server is at capacity");
    assert_eq!(reservation(&sessions, &session, over_ns), ReservationState::Paused);
    assert!(sessions.admission().adds_up());
}

#[test]
fn a_late_session_plays_to_the_end_of_its_title_at_capacity() {
    let (sessions, session, other) = at_capacity(by_chance);
    let last = ROUNDS as u64 / 4 - 1;
    for number in 0..=last {
        let on_time_ns = START_NS + number * 4 * ROUND_NS;
        let now_ns = if number > 0 { on_time_ns + 4 * ROUND_NS } else { on_time_ns };
        sessions.request(&other, Some(0), &segment(number), on_time_ns).unwrap();
        if number == last {
            sessions.tick(now_ns);
            let next = open_for(&sessions, &[8_000_000], OTHER, now_ns);
            open_for(&sessions, &[8_000_000], OTHER, now_ns).and(next).expect("the promises have ended");
        }
        sessions.touch(&session.key(), now_ns);
        let permit = sessions.request(&session, Some(0), &segment(number), now_ns);
        permit.unwrap_or_else(|refused| panic!("segment {number}: {refused}"));
        let sound = TrackSpan { kind: MediaKind::Audio, ..segment(number) };
        sessions.request(&session, None, &sound, now_ns).unwrap_or_else(|refused| panic!("{refused}"));
    }
    assert!(sessions.admission().adds_up());
}

/// A client that opens a session need not say in which form it will play the title. Once it plays,
/// the reservation has that form.
#[test]
fn a_reservation_is_exchanged_for_another_form_until_one_is_played() {
    let sessions = promising(10);
    let (file, too_much) = (Choices::from(of(&[24_000_000])), Choices::from(of(&[88_000_000])));
    let session = open(&sessions, &[16_000_000, 8_000_000]).unwrap();
    let promised = |offers: Option<&Choices>| sessions.reserves_one_of(&session, offers, START_NS);
    assert!(!promised(None).unwrap(), "a form that cannot be promised");
    let refused = promised(Some(&too_much)).unwrap_err();
    assert!(matches!(refused, AdmitError::Refused(refusal) if refusal.resource == Resource::Network));
    assert_eq!(network_used(&sessions, START_NS), 2_000_000, "it keeps what it has");
    assert!(promised(Some(&file)).unwrap());
    assert_eq!(network_used(&sessions, START_NS), 3_000_000);
    sessions.request(&session, None, &segment(0), START_NS).unwrap();
    assert!(promised(Some(&file)).unwrap());
    let ladder = Choices::from(of(&[16_000_000, 8_000_000]));
    assert!(!promised(Some(&ladder)).unwrap(), "it plays the file");
    assert_eq!(network_used(&sessions, START_NS), 3_000_000);
    sessions.close(&session.key());
    assert_eq!(network_used(&sessions, START_NS), 0);
    assert!(!promised(Some(&ladder)).unwrap(), "a closed session is promised nothing");
    assert_eq!(network_used(&sessions, START_NS), 0);
    // Nothing is promised where there is no admission, so nothing counts as another form.
    let unbound = table(10, None);
    let session = open(&unbound, &[8_000_000]).unwrap();
    assert!(unbound.reserves_one_of(&session, Some(&file), START_NS).unwrap());
}
