//! What the engine does with deliveries, buffers and time. The clock is the test's own.

use crate::clip::{Clip, PANICS_AT, SEGMENT_NS};
use crate::front_end::{FrontEnd, UPLINK};
use reel_admit::{Sessions, SessionsConfig};
use reel_cache::{Body, Due, Units};
use reel_fixture::{STRIPE_BYTES, VolumeFixture};
use reel_play::limits::{PREFETCH_EVERY_NS, PRESSURE_EVERY_NS, RELEASE_AFTER_NS};
use reel_play::{DeliveryOrder, DeliveryPolicy, MediaRequest, NewDelivery, Readiness, TransferSchedule};
use reel_qos::{Class, ClassTable, ClientShare};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub(crate) const SEGMENT: u64 = 3 * STRIPE_BYTES as u64;
/// The windows of two readers: four stripes of three units each.
const READER_BUFFERS: usize = 24;

pub(crate) fn sessions() -> Arc<Sessions<Clip>> {
    let classes = ClassTable::default();
    let config = SessionsConfig {
        sessions_max: 9,
        idle_max_ns: 3_600_000_000_000,
        capacities: None,
        classes,
        start_wait_s: 0,
        client_share: ClientShare::ALL,
    };
    Arc::new(Sessions::new(config))
}

pub(crate) fn segment(number: usize) -> MediaRequest {
    MediaRequest::Segment { track: 0, number, bytes: SEGMENT }
}

/// A download that belongs to no session.
fn download(front: &mut FrontEnd, tag: u64, clip: &Clip) -> reel_play::DeliveryId {
    let new = NewDelivery {
        tag,
        session: None,
        policy: DeliveryPolicy::without_deadline(Class::APERIODIC),
        body: clip.file.body.clone(),
        preamble_bytes: 0,
        file_offset: 0,
        in_runs: true,
        path: UPLINK,
    };
    front.engine.open(new, front.now_ns)
}

pub(crate) fn with(arena_bytes: usize, lost: Option<usize>) -> (VolumeFixture, Units) {
    let fixture = VolumeFixture::new(&[4 * SEGMENT as usize, 4 * SEGMENT as usize], arena_bytes, lost);
    let units = fixture.units(8);
    (fixture, units)
}

#[test]
fn an_engine_in_which_a_call_panicked_is_not_sound_and_gives_everything_back() {
    let (fixture, units) = with(8 << 20, None);
    let clip = Clip::of(&fixture, 0, SEGMENT);
    let mut front = FrontEnd::new(&units, &sessions());
    let session = front.open(&clip);
    let delivery = front.download(1, &clip);
    front.engine.fill(delivery, front.now_ns);
    assert!(front.engine.is_sound() && units.budget().reserved() > 0);
    let now_ns = front.now_ns;
    let call = AssertUnwindSafe(|| front.engine.policy(&session, &segment(PANICS_AT), now_ns));
    assert!(catch_unwind(call).is_err());
    assert!(!front.engine.is_sound());
    assert!(!units.is_poisoned(), "it held nothing that others share");
    drop(front);
    assert_eq!(units.budget().reserved(), 0);
}

#[test]
fn all_deliveries_of_a_tag_end_at_once() {
    let (fixture, units) = with(8 << 20, None);
    let clip = Clip::of(&fixture, 0, SEGMENT);
    let mut front = FrontEnd::new(&units, &sessions());
    let deliveries = [7, 7, 8].map(|tag| download(&mut front, tag, &clip));
    front.engine.close_tagged(7);
    assert_eq!(front.engine.len(), 1);
    assert!(front.engine.class(deliveries[2]).is_some());
}

/// A client that stops in the middle, and one that takes all, of a body that is made meanwhile.
#[test]
fn a_body_that_grows_is_delivered_as_it_comes() {
    let (_fixture, units) = with(8 << 20, None);
    let mut front = FrontEnd::new(&units, &sessions());
    let mut rng = reel_testkit::Rng::new(7);
    let mut expected = b"head".to_vec();
    front.begin(1, Body::text(&b"head"[..]), 0, DeliveryPolicy::interactive(), None);
    let delivery = front.clients[&1].delivery;
    front.engine.stay_open(delivery);
    for step in 0..200 {
        let room = rng.below(3000) as usize;
        let client = front.clients.get_mut(&1).unwrap();
        client.stops_at = (step % 3 == 0).then_some(client.has.len() + room);
        assert!(front.pump(1), "more may come");
        let has = &front.clients[&1].has;
        assert!(expected.starts_with(has), "step {step}");
        assert!(step % 3 == 0 || has.len() == expected.len(), "step {step}: all that was made");
        assert_eq!(front.engine.unsent_bytes(delivery), (expected.len() - has.len()) as u64);
        let length = rng.below(5000) as usize;
        let more = rng.bytes(length);
        expected.extend_from_slice(&more);
        let due_ns = (step % 2 == 0).then_some(front.now_ns + step);
        front.engine.append(delivery, Body::text(more), Class::PERIODIC, due_ns);
        let order = front.engine.order(delivery);
        assert_eq!(order, Some(due_ns.map_or(DeliveryOrder::Background, DeliveryOrder::Due)));
    }
    front.clients.get_mut(&1).unwrap().stops_at = None;
    assert!(front.pump(1), "it waits for the end");
    front.engine.complete(delivery);
    assert!(!front.pump(1) && front.clients[&1].has == expected);
}

#[test]
fn segments_and_files_are_delivered_whole_and_with_a_lost_member() {
    for lost in [None, Some(1)] {
        let (fixture, units) = with(8 << 20, lost);
        let clip = Clip::of(&fixture, 0, SEGMENT);
        let mut front = FrontEnd::new(&units, &sessions());
        let session = front.open(&clip);
        for number in 1..=4 {
            front.request(1, &session, &segment(number));
            let from = (number - 1) * SEGMENT as usize;
            assert!(front.play(1) == fixture.bytes[0][from..from + SEGMENT as usize], "segment {number}");
            front.now_ns += SEGMENT_NS;
        }
        front.request(2, &session, &MediaRequest::File(5..4 * SEGMENT));
        assert!(front.play(2) == fixture.bytes[0][5..], "the file from byte 5 on");
        assert!(front.engine.is_empty());
        drop((front, units));
        assert_eq!(fixture.buffers_taken(), 0);
    }
}

#[test]
fn what_begins_is_interactive_and_what_continues_is_due() {
    let (fixture, units) = with(8 << 20, None);
    let clip = Clip::of(&fixture, 0, SEGMENT);
    let mut front = FrontEnd::new(&units, &sessions());
    let session = front.open(&clip);
    front.request(1, &session, &segment(1));
    assert_eq!(front.engine.order(front.delivery(1)), Some(DeliveryOrder::Interactive));
    front.play(1);
    front.now_ns += 1_000_000_000;
    front.request(1, &session, &segment(2));
    let Some(DeliveryOrder::Due(due_ns)) = front.engine.order(front.delivery(1)) else {
        panic!("a segment that continues from the last one is due at a time")
    };
    assert!((front.now_ns..front.now_ns + 2 * SEGMENT_NS).contains(&due_ns), "{due_ns}");
    let bulk = download(&mut front, 2, &clip);
    assert_eq!(front.engine.order(bulk), Some(DeliveryOrder::Background));
}

/// (N, d): what has no deadline sends N bytes, then nothing for d. What a viewer plays does not
/// pause, and neither does what a person waits for.
#[test]
fn transfers_pause_after_each_run_and_viewers_never() {
    const PAUSE_NS: u64 = 5_000_000;
    let (fixture, units) = with(8 << 20, None);
    let clip = Clip::of(&fixture, 0, SEGMENT);
    let mut front = FrontEnd::new(&units, &sessions());
    let schedule = TransferSchedule { run_bytes: SEGMENT, pause_ns: PAUSE_NS };
    front.counters.transfers.set(schedule);
    let session = front.open(&clip);
    for (client, number) in [(1, 1), (2, 2)] {
        front.request(client, &session, &segment(number));
        front.play(client);
        front.now_ns += 1_000_000_000;
    }
    assert_eq!(front.counters.transfers.sent_bytes(), 0, "nothing of it was a transfer");

    let bulk = front.download(3, &clip);
    front.pump(3);
    let (mut pauses, mut before) = (0, 0);
    for _ in 0..1000 {
        front.turn();
        if front.engine.reads_in_flight() > 0 {
            continue;
        }
        if front.clients[&3].is_done {
            break;
        }
        let run_bytes = (front.bytes_of(3) - before) as u64;
        assert!((SEGMENT..2 * SEGMENT).contains(&run_bytes), "{run_bytes}");
        let early_ns = front.now_ns + PAUSE_NS - 1;
        front.engine.tick(early_ns);
        assert!(front.engine.next_event().is_none(), "not before its time");
        assert_eq!(front.engine.fill(bulk, early_ns), Some(Readiness::Waiting));
        (pauses, before) = (pauses + 1, front.bytes_of(3));
        front.now_ns += PAUSE_NS;
        front.engine.tick(front.now_ns);
        front.proceed();
    }
    assert!(front.clients[&3].is_done);
    assert!((2..=4).contains(&pauses), "{pauses} pauses in four segments");
    assert!(front.clients[&3].has == fixture.bytes[0]);
    assert_eq!(front.counters.transfers.sent_bytes(), 4 * SEGMENT);
    assert_eq!(front.counters.transfers.local_bytes(), 0);
}

/// A client that reads a file without a session is found to play it: what is under way continues
/// with deadlines, and its bytes stay the same.
#[test]
fn a_delivery_under_way_continues_in_a_session() {
    let (fixture, units) = with(8 << 20, None);
    let clip = Clip::of(&fixture, 0, SEGMENT);
    let whole = clip.file.body.bytes();
    let mut front = FrontEnd::new(&units, &sessions());
    let bulk = front.download(1, &clip);
    let quarter = whole as usize / 4;
    front.stop_at(1, Some(quarter));
    front.pump(1);
    for _ in 0..10_000 {
        if front.bytes_of(1) == quarter {
            break;
        }
        front.turn();
    }
    assert_eq!(front.bytes_of(1), quarter);
    assert_eq!(front.engine.order(bulk), Some(DeliveryOrder::Background));
    let session = front.open(&clip);
    let now_ns = front.now_ns;
    assert!(front.engine.join(bulk, Arc::clone(&session), now_ns).expect("there is room"));
    assert!(matches!(front.engine.order(bulk), Some(DeliveryOrder::Due(_))));
    assert_eq!(front.engine.class(bulk), Some(Class::PERIODIC));
    // One that has a session keeps it.
    let other = front.open(&clip);
    assert!(!front.engine.join(bulk, other, now_ns).expect("there is room"));
    front.engine.release_deadlines(bulk, Class::APERIODIC);
    assert_eq!(front.engine.order(bulk), Some(DeliveryOrder::Background));
    front.stop_at(1, None);
    assert!(front.play(1) == fixture.bytes[0]);
}

/// A kernel reads ahead with several calls at once: one viewer, each of whose reads is due when its
/// own bytes are, whatever came before it.
#[test]
fn reads_in_any_order_are_due_by_their_own_bytes() {
    let (fixture, units) = with(8 << 20, None);
    let clip = Clip::of(&fixture, 0, SEGMENT);
    let mut front = FrontEnd::new(&units, &sessions());
    let session = front.open(&clip);
    let mut due_ns = |start: u64, position: u64| {
        let read = MediaRequest::Read { range: start..start + 4096, position };
        let policy = front.engine.policy(&session, &read, front.now_ns).expect("it is admitted");
        assert_eq!((policy.class, policy.is_displaced), (Class::PERIODIC, false));
        assert!(!policy.follows_client && policy.paced_bytes_per_s.is_none());
        let Due::Paced(pace) = policy.due else { panic!("{:?}", policy.due) };
        pace.due_ns + pace.media_ns(0) - pace.media_ns
    };
    let first_ns = due_ns(0, 0);
    let ahead_ns = due_ns(SEGMENT + 4096, 4096);
    assert!((first_ns + SEGMENT_NS / 2..=first_ns + SEGMENT_NS).contains(&ahead_ns), "{ahead_ns}");
    assert!(due_ns(4096, 4096) <= first_ns);
    assert_eq!(due_ns(SEGMENT, 8192), ahead_ns, "nothing has moved");
}

#[test]
fn the_next_segment_is_read_ahead_when_its_time_comes() {
    let (fixture, units) = with(8 << 20, None);
    let clip = Clip::of(&fixture, 0, SEGMENT);
    let mut front = FrontEnd::new(&units, &sessions());
    let session = front.open(&clip);
    front.request(1, &session, &segment(1));
    front.play(1);
    assert_eq!(front.engine.prefetched(), 0, "its time has not come");
    for _ in 0..200 {
        front.now_ns += PREFETCH_EVERY_NS;
        if front.engine.next_tick_ns().is_some_and(|at_ns| at_ns <= front.now_ns) {
            front.engine.tick(front.now_ns);
        }
        front.turn();
    }
    assert_eq!(front.engine.prefetched(), 1);
}

/// Clients that take nothing hold all buffers; another one waits. When they have taken nothing for
/// long enough, their buffers are given to the one that waits.
#[test]
fn blocked_clients_give_their_buffers_to_one_that_waits() {
    let (fixture, _) = with(0, None);
    let units = fixture.units(fixture.volume.arena().usage().buffers_total - READER_BUFFERS);
    let clips = [0, 1].map(|object| Clip::of(&fixture, object, SEGMENT));
    let mut front = FrontEnd::new(&units, &sessions());
    let free = || units.budget().total() - units.budget().reserved();
    let mut blocked = Vec::new();
    while free() >= 3 && blocked.len() < 9 {
        let id = download(&mut front, 7 + blocked.len() as u64, &clips[0]);
        while front.engine.fill(id, front.now_ns) != Some(Readiness::Ready)
            || front.engine.reads_in_flight() > 0
        {
            front.turn();
        }
        front.engine.set_blocked(id, true, front.now_ns);
        blocked.push(id);
    }
    assert!(free() < 3, "less than a stripe is free");
    let session = front.open(&clips[1]);
    front.request(1, &session, &segment(1));
    front.turn();
    assert_eq!(front.engine.fill(front.delivery(1), front.now_ns), Some(Readiness::Waiting));
    assert_eq!(units.budget().waiting_readers(), 1, "it waits for buffers");
    front.now_ns += RELEASE_AFTER_NS;
    for _ in 0..1_000 {
        front.turn();
        front.now_ns += PRESSURE_EVERY_NS;
        front.engine.tick(front.now_ns);
        front.pump(1);
        if front.is_done(1) {
            break;
        }
    }
    assert!(front.is_done(1), "the client that waits is delivered to");
    // The others continue where they were: what was taken back is read again.
    let first = blocked[0];
    assert_eq!(front.engine.unsent_bytes(first), 4 * SEGMENT, "a blocked client has taken nothing");
    front.engine.set_blocked(first, false, front.now_ns);
    for _ in 0..1_000 {
        if front.engine.fill(first, front.now_ns) == Some(Readiness::Ready) {
            break;
        }
        front.turn();
        front.now_ns += PRESSURE_EVERY_NS;
        front.engine.tick(front.now_ns);
    }
    let chunk = front.engine.chunks(first).into_iter().next().expect("it is ready");
    assert!(chunk[..] == fixture.bytes[0][..chunk.len()]);
}

#[test]
fn deliveries_that_share_the_least_memory_all_end() {
    let (fixture, _) = with(0, None);
    let units = fixture.units(fixture.volume.arena().usage().buffers_total - READER_BUFFERS);
    let clips = [0, 1].map(|object| Clip::of(&fixture, object, SEGMENT));
    let mut front = FrontEnd::new(&units, &sessions());
    let opened: Vec<_> = clips.iter().map(|clip| front.open(clip)).collect();
    for client in 0..8 {
        front.request(client, &opened[client as usize % 2], &segment(1 + client as usize / 2));
        front.pump(client);
    }
    for _ in 0..10_000 {
        front.turn();
        front.now_ns += PRESSURE_EVERY_NS;
        front.engine.tick(front.now_ns);
        for client in 0..8 {
            front.pump(client);
        }
        if (0..8).all(|client| front.is_done(client)) {
            break;
        }
    }
    assert!((0..8).all(|client| front.is_done(client)), "none starves");
    assert_eq!(units.budget().reserved(), 0);
}

#[test]
fn a_session_knows_which_of_its_responses_are_under_way() {
    let (fixture, units) = with(8 << 20, None);
    let clip = Clip::of(&fixture, 0, SEGMENT);
    let mut front = FrontEnd::new(&units, &sessions());
    let session = front.open(&clip);
    let under_way = || Arc::strong_count(&session.answers()) - 2;
    assert_eq!(under_way(), 0);
    front.request(1, &session, &segment(1));
    front.request(2, &session, &segment(2));
    assert_eq!(under_way(), 2);
    front.play(1);
    front.play(2);
    assert_eq!(under_way(), 0);
}

#[test]
fn a_delivery_that_was_closed_is_forgotten() {
    let (fixture, units) = with(8 << 20, None);
    let clip = Clip::of(&fixture, 0, SEGMENT);
    let mut front = FrontEnd::new(&units, &sessions());
    let bulk = download(&mut front, 3, &clip);
    assert_eq!(front.engine.fill(bulk, front.now_ns), Some(Readiness::Waiting));
    let report = front.engine.close(bulk).expect("it was under way");
    assert!(!report.is_complete && report.media_bytes == 0 && report.class == Class::APERIODIC);
    assert!(front.engine.close(bulk).is_none());
    assert_eq!(front.engine.fill(bulk, front.now_ns), None);
    while front.engine.reads_in_flight() > 0 {
        front.turn();
    }
    assert_eq!(units.budget().reserved(), 0);
}
