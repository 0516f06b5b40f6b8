//! Deliveries that share a link. The clock is the test's own.

use crate::clip::Clip;
use crate::front_end::FrontEnd;
use reel_admit::{Choices, Sessions, SessionsConfig};
use reel_cache::Units;
use reel_fixture::{STRIPE_BYTES, VolumeFixture};
use reel_play::limits::{LINK_GRANT_BYTES_MIN, LINK_LOOK_MAX_NS};
use reel_play::{MediaRequest, Uplink, UplinkRate};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Capacities, ClassTable, Demand, UNLIMITED};
use std::sync::Arc;

const SEGMENT: u64 = 3 * STRIPE_BYTES as u64;
/// As fast as it carries four segments in a second.
const LINK_BPS: u64 = 4 * 8 * SEGMENT;
const STEP_NS: u64 = LINK_LOOK_MAX_NS / 2;

/// Sessions that are promised memory, and as much of all else as they want.
fn sessions(units: &Units) -> Arc<Sessions<Clip>> {
    sessions_on(units, UNLIMITED)
}

/// The same with a network of so many bytes in a round.
fn sessions_on(units: &Units, network_bytes: u64) -> Arc<Sessions<Clip>> {
    let capacities = Capacities {
        members: Vec::new(),
        network_bytes,
        core_ns: UNLIMITED,
        core_mib_ns: Vec::new(),
        local_front_ends: Vec::new(),
        arena_bytes: units.budget().promisable() as u64 * units.buffer_bytes(),
    };
    let config = SessionsConfig {
        sessions_max: 9,
        idle_max_ns: 3_600_000_000_000,
        capacities: Some(capacities),
        classes: ClassTable::default(),
        start_wait_s: 8,
        client_share: reel_qos::ClientShare::ALL,
    };
    Arc::new(Sessions::new(config).reading(units))
}

/// A title that is promised: a stripe of memory, and nothing that could run out.
fn promised(fixture: &VolumeFixture, object: usize, units: &Units) -> Arc<Clip> {
    let demand = Demand::new(Vec::new(), vec![SEGMENT / 4; 16], 3 * units.buffer_bytes());
    Clip::offering(fixture, object, SEGMENT, Choices::from(Arc::from([Arc::new(demand)])))
}

/// Lets time pass until `until_ns`, or until client 1 has its response.
fn pass(front: &mut FrontEnd, until_ns: u64, client: Option<u64>) {
    while front.now_ns < until_ns && !client.is_some_and(|client| front.is_done(client)) {
        // Reads are not what this test is about: they take no time.
        while front.engine.reads_in_flight() > 0 {
            front.turn();
        }
        front.now_ns += STEP_NS;
        front.engine.tick(front.now_ns);
        front.proceed();
    }
}

fn with() -> (VolumeFixture, Units) {
    let fixture = VolumeFixture::new(&[4 * SEGMENT as usize, 4 * SEGMENT as usize], 8 << 20, None);
    let units = fixture.units(8);
    (fixture, units)
}

#[test]
fn downloads_take_no_more_than_the_link_carries_and_share_it() {
    let (fixture, units) = with();
    let uplink = Uplink::of(UplinkRate::Known(LINK_BPS));
    let mut front = FrontEnd::new(&units, &sessions(&units)).behind(&uplink);
    let clip = Clip::of(&fixture, 0, SEGMENT);
    for client in 0..4 {
        front.download(client, &clip);
        front.pump(client);
    }
    let until_ns = front.now_ns + ROUND_NS;
    pass(&mut front, until_ns, None);
    let taken: Vec<usize> = (0..4).map(|client| front.bytes_of(client)).collect();
    let sum: usize = taken.iter().sum();
    let carried = 4 * SEGMENT as usize;
    assert!(sum <= carried + LINK_GRANT_BYTES_MIN as usize, "{taken:?}");
    assert!(sum >= carried * 9 / 10, "{taken:?}");
    let most = *taken.iter().max().expect("four");
    let least = *taken.iter().min().expect("four");
    assert!(most - least <= LINK_GRANT_BYTES_MIN as usize, "{taken:?}");
    assert_eq!(uplink.waiting(), 4);
}

/// The start of a promised session is sent with the share of its class: three downloads leave it
/// 850 of 925 parts. In the order of arrival it would take more than a second.
#[test]
fn a_session_begins_in_time_beside_downloads() {
    let (fixture, units) = with();
    let uplink = Uplink::of(UplinkRate::Known(LINK_BPS));
    let mut front = FrontEnd::new(&units, &sessions(&units)).behind(&uplink);
    for client in 2..5 {
        front.download(client, &Clip::of(&fixture, 0, SEGMENT));
        front.pump(client);
    }
    let until_ns = front.now_ns + ROUND_NS;
    pass(&mut front, until_ns, None);
    let session = front.open(&promised(&fixture, 1, &units));
    let begun_ns = front.now_ns;
    front.request(1, &session, &MediaRequest::Segment { track: 0, number: 1, bytes: SEGMENT });
    front.pump(1);
    pass(&mut front, begun_ns + 10 * ROUND_NS, Some(1));
    let took_ns = front.now_ns - begun_ns;
    assert!(front.is_done(1) && took_ns < ROUND_NS / 2, "{took_ns}");
}

#[test]
fn what_a_delivery_does_not_send_is_given_to_others() {
    let (fixture, units) = with();
    let uplink = Uplink::of(UplinkRate::Known(LINK_BPS));
    let mut front = FrontEnd::new(&units, &sessions(&units)).behind(&uplink);
    let clip = Clip::of(&fixture, 0, SEGMENT);
    let blocked: Vec<_> = (0..3).map(|client| front.download(client, &clip)).collect();
    front.download(3, &clip);
    for client in 0..4 {
        front.pump(client);
    }
    while front.engine.reads_in_flight() > 0 {
        front.turn();
    }
    // They wait for their turn, and their clients take nothing any more.
    for id in &blocked {
        front.engine.set_blocked(*id, true, front.now_ns);
    }
    let before = front.bytes_of(3);
    let until_ns = front.now_ns + ROUND_NS;
    pass(&mut front, until_ns, None);
    assert!(front.bytes_of(3) - before >= SEGMENT as usize * 85 / 100, "it has the link for itself");
    for id in blocked {
        front.engine.close(id);
    }
    assert_eq!(uplink.waiting(), 1);
}

#[test]
fn a_session_that_waits_for_its_start_is_sent_nothing_before() {
    let (fixture, units) = with();
    // Room for one session, which takes two rounds.
    let sessions = sessions_on(&units, SEGMENT * 20 / 17 + 20);
    let mut front = FrontEnd::new(&units, &sessions);
    let demand = Demand::new(Vec::new(), vec![SEGMENT; 2], 3 * units.buffer_bytes());
    let clip = Clip::offering(&fixture, 0, SEGMENT, Choices::from(Arc::from([Arc::new(demand)])));
    front.open(&clip);
    let session = front.open(&clip);
    let start_ns = (front.now_ns / ROUND_NS + 2) * ROUND_NS;
    assert_eq!(session.start_ns(front.now_ns), start_ns);
    for number in 1..=2 {
        let segment = MediaRequest::Segment { track: 0, number, bytes: SEGMENT };
        front.request(number as u64, &session, &segment);
        assert!(front.pump(number as u64), "it is not done");
    }
    pass(&mut front, start_ns - STEP_NS, None);
    assert_eq!((front.bytes_of(1), front.bytes_of(2), front.engine.reads_in_flight()), (0, 0, 0));
    // One of them is given up before the start.
    front.engine.close(front.delivery(2));
    pass(&mut front, start_ns + ROUND_NS, Some(1));
    assert!(front.is_done(1) && front.now_ns < start_ns + ROUND_NS / 2);
}

/// A segment of a second is due as soon as its session starts, so its client requests it in time.
/// It was read ahead after its deadline, because the wait was taken for time to read ahead.
#[test]
fn what_is_due_with_a_start_that_waits_is_not_read_ahead() {
    let (fixture, units) = with();
    let sessions = sessions_on(&units, SEGMENT * 20 / 17 + 20);
    let mut front = FrontEnd::new(&units, &sessions);
    let demand = Demand::new(Vec::new(), vec![SEGMENT; 4], 3 * units.buffer_bytes());
    let choices = Choices::from(Arc::from([Arc::new(demand)]));
    let clip = Arc::new(Clip::in_segments(&fixture, 0, (SEGMENT, ROUND_NS), choices));
    front.open(&clip);
    let session = front.open(&clip);
    let start_ns = session.start_ns(front.now_ns);
    assert!(start_ns > front.now_ns + 2 * ROUND_NS);
    front.request(1, &session, &MediaRequest::Segment { track: 0, number: 1, bytes: SEGMENT });
    front.pump(1);
    pass(&mut front, start_ns + ROUND_NS / 2, Some(1));
    assert!(front.is_done(1));
    assert_eq!(front.engine.prefetched(), 0);
}

#[test]
fn a_first_segment_that_is_spread_arrives_as_slowly_as_was_promised_although_the_link_is_free() {
    let (fixture, units) = with();
    let round_bytes = SEGMENT / 4;
    let sessions = sessions_on(&units, round_bytes * 20 / 17 + 20);
    let uplink = Uplink::of(UplinkRate::Known(LINK_BPS));
    let mut front = FrontEnd::new(&units, &sessions).behind(&uplink);
    let mut bytes = vec![2 * round_bytes; 4];
    bytes.resize(16, round_bytes);
    let demand = Demand::new(Vec::new(), bytes, 3 * units.buffer_bytes()).in_segments(4);
    let clip = Clip::offering(&fixture, 0, SEGMENT, Choices::from(Arc::from([Arc::new(demand)])));
    let session = front.open(&clip);
    let begun_ns = front.now_ns;
    let start_ns = session.start_ns(begun_ns);
    assert_eq!(start_ns / ROUND_NS, begun_ns / ROUND_NS + 4);
    front.request(1, &session, &MediaRequest::Segment { track: 0, number: 1, bytes: SEGMENT });
    front.pump(1);
    let half_ns = begun_ns + (start_ns - begun_ns) / 2;
    pass(&mut front, half_ns, None);
    let half = front.bytes_of(1) as u64;
    assert!((SEGMENT * 4 / 10..=SEGMENT * 6 / 10).contains(&half), "{half} of {SEGMENT}");
    pass(&mut front, start_ns + ROUND_NS, Some(1));
    assert!(front.is_done(1), "{} of {SEGMENT}", front.bytes_of(1));
    assert!(front.now_ns.abs_diff(start_ns) < ROUND_NS / 2, "{} and {start_ns}", front.now_ns);
    // What follows is sent as fast as the link allows.
    let second_ns = front.now_ns;
    front.request(2, &session, &MediaRequest::Segment { track: 0, number: 2, bytes: SEGMENT });
    front.pump(2);
    pass(&mut front, second_ns + 4 * ROUND_NS, Some(2));
    assert!(front.is_done(2) && front.now_ns - second_ns < ROUND_NS);
}
