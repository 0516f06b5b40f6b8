//! Starts and seeks for which there is no room at once.

use reel_admit::limits::SEND_LEAD_NS;
use reel_admit::{OpenRefused, Permit, Session, SessionClient, Sessions, SessionsConfig, TrackSpan};
use reel_cache::MediaKind;
use reel_qos::limits::ROUND_NS;
use reel_qos::{AdmitError, Capacities, Class, ClassTable, ClientShare, Demand, Resource, UNLIMITED};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const NOW_NS: u64 = 1_000 * ROUND_NS + 300_000_000;
/// What the network carries for viewers in a round.
const ROOM_BYTES: u64 = 1_700_000;
const WAIT_S: u64 = 8;

fn waiting(start_wait_s: u64) -> Sessions<()> {
    waiting_with(start_wait_s, ClientShare::ALL)
}

fn waiting_with(start_wait_s: u64, client_share: ClientShare) -> Sessions<()> {
    let capacities = Capacities {
        members: Vec::new(),
        network_bytes: ROOM_BYTES * 20 / 17,
        core_ns: UNLIMITED,
        core_mib_ns: vec![0],
        local_front_ends: Vec::new(),
        arena_bytes: UNLIMITED,
    };
    Sessions::new(SessionsConfig {
        sessions_max: 100,
        idle_max_ns: 3_600 * ROUND_NS,
        capacities: Some(capacities),
        classes: ClassTable::default(),
        start_wait_s,
        client_share,
    })
}

/// Opens a title whose renditions send these bytes in each round.
fn open(sessions: &Sessions<()>, renditions: &[&[u64]]) -> Result<Arc<Session<()>>, OpenRefused> {
    let demand = |bytes: &&[u64]| Arc::new(Demand::new(Vec::new(), bytes.to_vec(), 1));
    let offers: Arc<[Arc<Demand>]> = renditions.iter().map(demand).collect();
    sessions.open("film", Arc::new(()), offers, SessionClient::new(CLIENT, Class::PERIODIC), NOW_NS)
}

fn segment(number: u64) -> TrackSpan {
    let from_ns = number * 4 * ROUND_NS;
    TrackSpan { kind: MediaKind::Video, from_ns, until_ns: from_ns + 4 * ROUND_NS }
}

fn request(sessions: &Sessions<()>, session: &Session<()>, number: u64, now_ns: u64) -> Permit {
    sessions.request(session, None, &segment(number), now_ns).unwrap()
}

/// The most that is promised of the network in any round from `now_ns` on.
fn peak(sessions: &Sessions<()>, now_ns: u64) -> u64 {
    let usage = sessions.admission().usage(now_ns);
    usage.iter().find(|usage| usage.resource == Resource::Network).unwrap().peak_used
}

#[test]
fn a_session_waits_for_the_first_second_with_room() {
    let sessions = waiting(WAIT_S);
    open(&sessions, &[&[ROOM_BYTES; 5]]).unwrap();
    let second = open(&sessions, &[&[ROOM_BYTES; 3]]).unwrap();
    assert_eq!(second.start_ns(NOW_NS), 1_005 * ROUND_NS);
    // In order of arrival: the next one comes after it, although it has less to play.
    let third = open(&sessions, &[&[ROOM_BYTES; 1]]).unwrap();
    assert_eq!(third.start_ns(NOW_NS), 1_008 * ROUND_NS);
    // What fits beside them does not wait.
    assert_eq!(open(&sessions, &[&[0, 0]]).unwrap().start_ns(NOW_NS), NOW_NS);
    let summary = sessions.list(NOW_NS).into_iter().find(|summary| summary.key == third.key()).unwrap();
    assert_eq!(summary.starts_in_ns, 1_008 * ROUND_NS - NOW_NS);
    assert!(peak(&sessions, NOW_NS) <= ROOM_BYTES && sessions.admission().adds_up());
}

#[test]
fn media_of_a_waiting_session_comes_with_its_start_and_its_schedule_begins_there() {
    let sessions = waiting(WAIT_S);
    open(&sessions, &[&[ROOM_BYTES; 5]]).unwrap();
    let session = open(&sessions, &[&[ROOM_BYTES; 60]]).unwrap();
    let start_ns = 1_005 * ROUND_NS;
    let first = request(&sessions, &session, 0, NOW_NS + ROUND_NS / 10);
    assert!(first.begins && first.start_ns == start_ns && first.due_ns >= start_ns);
    // A client that fetches ahead moves nothing.
    for number in 1..4 {
        let ahead = request(&sessions, &session, number, NOW_NS + ROUND_NS / 5);
        assert_eq!((ahead.begins, ahead.start_ns), (false, start_ns));
        assert_eq!(ahead.due_ns, start_ns + number * 4 * ROUND_NS - SEND_LEAD_NS);
    }
    // When it plays, nothing waits any more.
    let later_ns = start_ns + 2 * ROUND_NS;
    sessions.tick(later_ns);
    assert_eq!(request(&sessions, &session, 4, later_ns).start_ns, later_ns);
    assert_eq!(session.start_ns(later_ns), later_ns);
    assert!(sessions.admission().adds_up());
}

#[test]
fn a_start_that_is_too_far_away_is_refused_at_once() {
    for (start_wait_s, rounds) in [(WAIT_S, 9), (0, 1)] {
        let sessions = waiting(start_wait_s);
        open(&sessions, &[&vec![ROOM_BYTES; rounds]]).unwrap();
        let refused = open(&sessions, &[&[ROOM_BYTES; 3]]).unwrap_err();
        assert_eq!(refused.retry_after_s(), rounds as u64);
        assert!(matches!(refused, OpenRefused::NotAdmitted(AdmitError::Refused(_))), "{refused}");
        assert_eq!(sessions.len(), 1);
    }
}

/// A title in segments of four seconds: the first one is sent in two seconds, and so is the second.
fn in_segments(round_bytes: u64, segments: usize) -> Arc<[Arc<Demand>]> {
    let mut bytes = vec![2 * round_bytes; 4];
    bytes.resize(4 * segments, round_bytes);
    Arc::from([Arc::new(Demand::new(Vec::new(), bytes, 1).in_segments(4))])
}

#[test]
fn a_title_that_fills_the_network_begins_with_a_segment_that_is_sent_as_slowly_as_it_is_shown() {
    let sessions = waiting(WAIT_S);
    let open = |offers| {
        let client = SessionClient::new(CLIENT, Class::PERIODIC);
        sessions.open("film", Arc::new(()), offers, client, NOW_NS)
    };
    let session = open(in_segments(ROOM_BYTES, 10)).unwrap();
    let start_ns = 1_004 * ROUND_NS;
    assert_eq!((session.start_ns(NOW_NS), peak(&sessions, NOW_NS)), (start_ns, ROOM_BYTES));
    let first = request(&sessions, &session, 0, NOW_NS);
    assert_eq!((first.begins, first.start_ns, first.spread_until_ns), (true, NOW_NS, Some(start_ns)));
    // The next one is requested when the first is there, and nothing of it is spread.
    let second = request(&sessions, &session, 1, start_ns);
    assert_eq!((second.begins, second.spread_until_ns), (false, None));
    assert_eq!(second.due_ns, start_ns + 4 * ROUND_NS - SEND_LEAD_NS);
    assert!(sessions.admission().adds_up());
    sessions.close(&session.key());
    // What does not fit even so is refused, and what fits at once is not spread.
    assert!(open(in_segments(ROOM_BYTES + 1, 10)).is_err());
    let quick = open(in_segments(ROOM_BYTES / 2, 10)).unwrap();
    let first = request(&sessions, &quick, 0, NOW_NS);
    assert_eq!((quick.start_ns(NOW_NS), first.spread_until_ns), (NOW_NS, None));
}

#[test]
fn nothing_is_spread_for_clients_that_do_not_wait_or_that_jump() {
    let client = SessionClient::new(CLIENT, Class::PERIODIC);
    let offers = in_segments(ROOM_BYTES, 10);
    assert!(waiting(3).open("film", Arc::new(()), offers.clone(), client, NOW_NS).is_err());
    let sessions = waiting(WAIT_S);
    let session = sessions.open("film", Arc::new(()), offers, client, NOW_NS).unwrap();
    let jumped = request(&sessions, &session, 5, NOW_NS);
    assert_eq!(jumped.spread_until_ns, None);
    assert!(sessions.admission().adds_up());
}

#[test]
fn a_lower_rendition_now_is_preferred_and_the_soonest_start_otherwise() {
    let sessions = waiting(WAIT_S);
    let busy = [ROOM_BYTES, ROOM_BYTES, ROOM_BYTES / 2, ROOM_BYTES / 2];
    open(&sessions, &[&busy]).unwrap();
    // Both renditions have to wait; the lower one for less long.
    let session = open(&sessions, &[&[ROOM_BYTES; 3], &[ROOM_BYTES / 2; 3]]).unwrap();
    assert_eq!((session.offered(), session.start_ns(NOW_NS)), (Some(1), 1_002 * ROUND_NS));
    sessions.close(&session.key());
    let session = open(&sessions, &[&[ROOM_BYTES; 3], &[0, 0, ROOM_BYTES / 2]]).unwrap();
    assert_eq!((session.offered(), session.start_ns(NOW_NS)), (Some(1), NOW_NS));
}

#[test]
fn a_seek_waits_for_room_and_is_displaced_without_a_wait() {
    // Two titles that are quiet every other second, while the other one is busy.
    let busy = |odd: usize| -> Vec<u64> {
        (0..60).map(|round| ROOM_BYTES * ((round + odd) % 2 * 3 + 1) as u64 / 5).collect()
    };
    for start_wait_s in [0, WAIT_S] {
        let sessions = waiting(start_wait_s);
        let one = open(&sessions, &[&busy(0)]).unwrap();
        let other = open(&sessions, &[&busy(1)]).unwrap();
        request(&sessions, &one, 0, NOW_NS);
        request(&sessions, &other, 0, NOW_NS);
        // One second later both would be busy at the same time; a second after that they are not.
        let seek_ns = NOW_NS + 3 * ROUND_NS;
        let sought = sessions.request(&other, None, &segment(8), seek_ns);
        if start_wait_s == 0 {
            assert!(sought.unwrap().is_displaced);
            continue;
        }
        let (permit, start_ns) = (sought.unwrap(), 1_004 * ROUND_NS);
        assert!(permit.begins && permit.start_ns == start_ns && permit.due_ns >= start_ns);
        assert_eq!(request(&sessions, &other, 9, seek_ns).due_ns, start_ns + 4 * ROUND_NS - SEND_LEAD_NS);
        assert!(peak(&sessions, seek_ns) <= ROOM_BYTES && sessions.admission().adds_up());
    }
}

#[test]
fn a_client_that_never_comes_for_its_start_holds_nothing() {
    let sessions = waiting(WAIT_S);
    open(&sessions, &[&[ROOM_BYTES; 5]]).unwrap();
    open(&sessions, &[&[ROOM_BYTES; 60]]).unwrap();
    // Its client has time until the start, and as long as any other after that.
    for (after_s, used) in [(1, true), (7, true), (12, false)] {
        sessions.tick(NOW_NS + after_s * ROUND_NS);
        assert_eq!(peak(&sessions, NOW_NS + after_s * ROUND_NS) > 0, used, "after {after_s} s");
    }
}

#[test]
fn a_viewer_that_plays_on_is_not_told_to_wait() {
    let sessions = waiting(WAIT_S);
    open(&sessions, &[&[ROOM_BYTES / 2; 10]]).unwrap();
    let session = open(&sessions, &[&[ROOM_BYTES; 60], &[ROOM_BYTES / 2; 60]]).unwrap();
    assert_eq!(session.offered(), Some(1));
    sessions.request(&session, Some(1), &segment(0), NOW_NS).unwrap();
    // It is three seconds late, and requests the better rendition, for which there is room in three
    // more.
    let late_ns = NOW_NS + 7 * ROUND_NS;
    let permit = sessions.request(&session, Some(0), &segment(1), late_ns).unwrap();
    assert!(permit.start_ns <= late_ns && permit.is_displaced, "{permit:?}");
    assert_eq!(session.start_ns(late_ns), late_ns);
    assert!(peak(&sessions, late_ns) <= ROOM_BYTES && sessions.admission().adds_up());
}

#[test]
fn what_waits_counts_in_the_share_of_its_client() {
    let sessions = waiting_with(WAIT_S, ClientShare::permille(500));
    let open = |client: u8, bytes: &[u64]| {
        let demand: Arc<[Arc<Demand>]> = [Arc::new(Demand::new(Vec::new(), bytes.to_vec(), 1))].into();
        let client = SessionClient::new(IpAddr::from([192, 0, 2, client]), Class::PERIODIC);
        sessions.open("film", Arc::new(()), demand, client, NOW_NS)
    };
    open(1, &[ROOM_BYTES; 3]).unwrap();
    let waits = open(2, &[ROOM_BYTES * 2 / 5; 60]).unwrap();
    assert!(waits.start_ns(NOW_NS) > NOW_NS);
    open(2, &[ROOM_BYTES / 5; 60]).unwrap_err();
    // It leaves before its start, and holds nothing any more.
    sessions.close(&waits.key());
    open(2, &[ROOM_BYTES / 5; 60]).unwrap();
}

/// A client that leaves while it waits holds nothing any more. One that continues elsewhere keeps
/// its start.
#[test]
fn who_leaves_while_waiting_gives_its_room_to_others_at_once() {
    let sessions = waiting(WAIT_S);
    open(&sessions, &[&[ROOM_BYTES; 5]]).unwrap();
    let waits = open(&sessions, &[&[ROOM_BYTES; 60]]).unwrap();
    let asked_ns = NOW_NS + ROUND_NS / 10;
    let left_ns = asked_ns + ROUND_NS / 10;
    assert!(request(&sessions, &waits, 0, asked_ns).start_ns == 1_005 * ROUND_NS);
    let is_full = || open(&sessions, &[&[ROOM_BYTES; 3]]).is_err();
    // The client has requested something else since.
    sessions.left(&waits, asked_ns - 1, left_ns);
    assert!(is_full());
    // Another response waits for the same start, requested before the one that is left.
    let answers = waits.answers();
    sessions.left(&waits, asked_ns, left_ns);
    drop(answers);
    assert!(is_full());
    // That one is left, too. What was requested after it was left before it.
    sessions.left(&waits, asked_ns - 1, left_ns);
    let next = open(&sessions, &[&[ROOM_BYTES; 3]]).unwrap();
    assert_eq!(next.start_ns(NOW_NS), 1_005 * ROUND_NS);
    // It comes back, and waits for what is free then.
    let again = request(&sessions, &waits, 0, left_ns + ROUND_NS);
    assert_eq!(again.start_ns, 1_008 * ROUND_NS);
    assert!(sessions.admission().adds_up());
    // After its start, a client that left may come back within the usual time.
    sessions.left(&waits, left_ns + ROUND_NS, 1_008 * ROUND_NS);
    assert_eq!(waits.start_ns(NOW_NS), 1_008 * ROUND_NS);
    assert!(peak(&sessions, 1_008 * ROUND_NS) > 0);
}
