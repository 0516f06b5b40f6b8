//! A session behind another one that plays the same is charged with no disks if what lies between
//! is in memory. It finds that in memory, whatever other clients do.
//!
//! The disks of these tests carry one viewer. Segments do not end where stripes do.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use reel_admit::{
    Choices, Client, Loss, Permit, Session, SessionClient, Sessions, SessionsConfig, Sharing, Stretch,
    TrackSpan, demand, shared_demand,
};
use reel_cache::{Body, Due, MediaKind, Part, Ramp, SharedTrack, SharedTracks, Units};
use reel_fixture::{ClientBehaviour, Core, Ends, MEMBERS, STRIPE_BYTES, VolumeFixture};
use reel_qos::limits::ROUND_NS;
use reel_qos::{
    Capacities, Class, ClassTable, ClientShare, Demand, DiskPrice, MemberCapacity, Resource, UNLIMITED,
};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const SEGMENTS: u64 = 30;
const SEGMENT_NS: u64 = 4 * ROUND_NS;
const SEGMENT_BYTES: u64 = STRIPE_BYTES as u64 * 388 / 100;
const FILM_BYTES: u64 = SEGMENTS * SEGMENT_BYTES;
/// Bytes of the object that other clients read.
const OTHER_BYTES: u64 = 200 * STRIPE_BYTES as u64;
/// The objects: the title in one rendition, what other clients read, and the title in a lower
/// rendition.
const FILM: usize = 0;
const OTHER: usize = 1;
const LOWER: usize = 2;
const START_NS: u64 = 1_000 * ROUND_NS;
const BUFFER_BYTES: usize = 12_288;
/// The time of a read. One viewer is counted with one read of a member in a round.
const READ_NS: u64 = 900_000;

struct TestServer {
    fixture: VolumeFixture,
    units: Units,
    sessions: Sessions<()>,
    core: Core,
    choices: Choices,
    /// The sessions do not know that two of them play the same title.
    alone: bool,
    now_ns: u64,
}

type OpenSession = Arc<Session<()>>;

impl TestServer {
    fn new(buffers: usize) -> TestServer {
        TestServer::carrying(1, buffers)
    }

    /// A `TestServer` whose disks carry this many viewers.
    fn carrying(viewers: u64, buffers: usize) -> TestServer {
        TestServer::with_renditions(&[FILM], viewers, buffers)
    }

    /// A `TestServer` that has the title in these renditions, and whose disks carry this many
    /// viewers of the best.
    fn with_renditions(renditions: &[usize], viewers: u64, buffers: usize) -> TestServer {
        let lengths = [FILM_BYTES, OTHER_BYTES, FILM_BYTES / 2].map(|bytes| bytes as usize);
        let fixture = VolumeFixture::new(&lengths, buffers * BUFFER_BYTES, None).on_flash();
        let units = fixture.units(4);
        let depth = units.depth();
        let stretch = |object: usize, segment: u64| Stretch {
            map: &fixture.objects[object],
            range: range(object, segment),
            from_ns: segment.saturating_sub(1) * SEGMENT_NS,
            due_ns: (segment * SEGMENT_NS).saturating_sub(ROUND_NS),
            duration_ns: SEGMENT_NS,
            with_parity: false,
        };
        let stretches = |object| (0..SEGMENTS).map(move |segment| stretch(object, segment));
        let plain = |object| demand(MEMBERS, depth, stretches(object), Loss::AnyOne).unwrap();
        let nothing = Demand::peak_of(&[]);
        let choice = |place: usize| {
            let object = renditions[place];
            let lower = renditions.get(place + 1).map_or_else(|| nothing.clone(), |lower| plain(*lower));
            let whole = Demand::peak_of(&[&plain(object), &lower]);
            let shared = shared_demand(MEMBERS, depth, stretches(object)).unwrap();
            let starts = (0..SEGMENTS).map(|segment| (segment * SEGMENT_NS, range(object, segment).start));
            let track = SharedTrack {
                kind: MediaKind::Video,
                map: Arc::clone(&fixture.objects[object]),
                starts: starts.collect(),
                track_ns: SEGMENTS * SEGMENT_NS,
                with_parity: false,
            };
            let tracks = Some(Arc::new(SharedTracks::new(vec![track])));
            (Arc::new(whole.with_shared(&shared, &lower, &nothing)), tracks)
        };
        let (demands, shared): (Vec<_>, Vec<_>) = (0..renditions.len()).map(choice).unzip();
        let choices = Choices { demands: demands.into(), shared: shared.into() };
        let plain = &choices.demands[0];
        let most = (0..MEMBERS).flat_map(|member| plain.reads(member)).map(|read| read.reads).max().unwrap();
        // The periodic class has 70 % of a round; transfers cost next to nothing.
        let round_ns = (u64::from(most) * READ_NS + 10_000) * viewers * 10 / 7;
        let sessions = Sessions::new(SessionsConfig {
            sessions_max: 100,
            idle_max_ns: u64::MAX,
            capacities: Some(capacities(&units, round_ns)),
            classes: ClassTable::default(),
            start_wait_s: 0,
            client_share: ClientShare::ALL,
        });
        let (sessions, core) = (sessions.reading(&units), Core::new(&units, 1));
        TestServer { fixture, units, sessions, core, choices, alone: false, now_ns: START_NS }
    }

    fn open(&self) -> Option<OpenSession> {
        let who = SessionClient::new(IpAddr::V4(Ipv4Addr::LOCALHOST), Class::PERIODIC);
        let choices = if self.alone {
            let demands = self.choices.demands.iter().map(|demand| Arc::new(Demand::clone(demand)));
            Choices::from(demands.collect::<Arc<[_]>>())
        } else {
            self.choices.clone()
        };
        self.sessions.open("film", Arc::new(()), choices, who, self.now_ns).ok()
    }

    /// Requests a segment and waits for it. Returns how many units were read for it.
    fn plays(&mut self, session: &OpenSession, segment: u64) -> u64 {
        self.plays_in(FILM, session, segment)
    }

    /// The same in one rendition.
    fn plays_in(&mut self, object: usize, session: &OpenSession, segment: u64) -> u64 {
        self.ask_in(object, session, segment).unwrap();
        let range = range(object, segment);
        let body = Body::new([Part::Object(Arc::clone(&self.fixture.objects[object]), range.clone())]);
        let film_ns = SEGMENTS * SEGMENT_NS;
        let reads_on = self.sessions.plays(session, MediaKind::Video, &body, 0, film_ns, self.now_ns);
        let bytes = self.fixture.bytes[object][range.start as usize..range.end as usize].to_vec();
        let ramp = Ramp { due_ns: self.now_ns, duration_ns: SEGMENT_NS, bytes: range.end - range.start };
        let before = self.reads();
        self.core.watch_on(body, bytes, Due::Ramp(ramp), reads_on);
        self.comes();
        self.reads() - before
    }

    fn request(&self, session: &OpenSession, segment: u64) -> Option<Permit> {
        self.ask_in(FILM, session, segment)
    }

    fn ask_in(&self, object: usize, session: &OpenSession, segment: u64) -> Option<Permit> {
        let from_ns = segment * SEGMENT_NS;
        let span = TrackSpan { kind: MediaKind::Video, from_ns, until_ns: from_ns + SEGMENT_NS };
        let choice = usize::from(object == LOWER);
        self.sessions.request(session, Some(choice), &span, self.now_ns).ok()
    }

    /// A client to which nothing was promised reads all of the other object.
    fn noise(&mut self) {
        for stripe in 0..OTHER_BYTES as usize / STRIPE_BYTES {
            let from = stripe * STRIPE_BYTES;
            let body = self.fixture.whole(OTHER).slice(from as u64..(from + STRIPE_BYTES) as u64);
            self.core.watch_in_time(body, self.fixture.bytes[OTHER][from..from + STRIPE_BYTES].to_vec());
            self.comes();
        }
    }

    fn comes(&mut self) {
        let ends = self.core.play(ClientBehaviour::default());
        assert_eq!(ends, Ends { complete: 1, vanished: 0, lost: 0 });
    }

    fn passes(&mut self, segments: u64) {
        self.now_ns += segments * SEGMENT_NS;
        self.sessions.tick(self.now_ns);
        assert!(self.sessions.admission().adds_up());
    }

    fn reads(&self) -> u64 {
        self.units.counters().reads.load(Ordering::Relaxed)
    }

    /// The most of a member's time that is promised in a round from now on.
    fn promised_ns(&self) -> u64 {
        let usage = self.sessions.admission().usage(self.now_ns);
        usage.iter().find(|usage| usage.resource == Resource::Member(0)).unwrap().peak_used
    }

    /// Whether another session could be promised the best rendition without sharing.
    fn has_room(&mut self) -> bool {
        let alone = std::mem::replace(&mut self.alone, true);
        let other = self.open();
        self.alone = alone;
        other.is_some_and(|other| {
            self.sessions.close(&other.key());
            other.offered() == Some(0)
        })
    }

    fn sharing(&self) -> (usize, usize) {
        let Sharing { groups, followers, .. } = self.sessions.admission().sharing();
        (groups, followers)
    }
}

/// Members that have this much time in a round.
fn capacities(units: &Units, round_ns: u64) -> Capacities {
    let price = DiskPrice {
        read_request_ns: READ_NS,
        read_mib_ns: 1,
        write_request_ns: 1,
        write_mib_ns: 1,
        independent_limits: false,
    };
    Capacities {
        members: vec![MemberCapacity { price, round_ns }; MEMBERS],
        network_bytes: UNLIMITED,
        core_ns: UNLIMITED,
        core_mib_ns: vec![1],
        local_front_ends: Vec::new(),
        arena_bytes: units.budget().promisable() as u64 * units.buffer_bytes(),
    }
}

fn range(object: usize, segment: u64) -> Range<u64> {
    let bytes = if object == LOWER { SEGMENT_BYTES / 2 } else { SEGMENT_BYTES };
    segment * bytes..(segment + 1) * bytes
}

/// A leader that has requested this many segments, all read to the ends of units.
fn led(buffers: usize, segments: u64) -> (TestServer, OpenSession) {
    let mut server = TestServer::new(buffers);
    let leader = server.open().unwrap();
    for segment in 0..segments {
        server.plays(&leader, segment);
        server.now_ns += if segment == 0 { 0 } else { SEGMENT_NS };
    }
    (server, leader)
}

#[test]
fn the_disks_carry_one_session_that_shares_nothing() {
    let mut server = TestServer::new(600);
    server.alone = true;
    server.open().unwrap();
    assert!(server.open().is_none());
}

#[test]
fn a_new_session_finds_what_lies_between_whatever_others_read() {
    let (mut server, leader) = led(420, 4);
    let follower = server.open().unwrap();
    assert_eq!(server.sharing(), (1, 1));
    assert!(server.sessions.admission().sharing().interval_bytes > 0 && server.units.budget().kept() > 0);
    for segment in 0..12 {
        server.noise();
        assert_eq!(server.plays(&follower, segment), 0, "segment {segment}");
        server.plays(&leader, segment + 4);
        server.passes(1);
    }
    let counters = server.units.counters();
    assert!(counters.evictions.load(Ordering::Relaxed) > 0, "memory was short");
    assert_eq!(counters.kept_evictions.load(Ordering::Relaxed), 0);
    // What lies behind all sessions is not kept, so a session that begins now finds nothing.
    assert!(server.open().is_none());
    // When all have gone, nothing is kept.
    server.sessions.close(&leader.key());
    server.passes(20);
    assert_eq!((server.sharing(), server.units.budget().kept()), ((0, 0), 0));
}

#[test]
fn a_session_with_a_gap_before_it_is_charged_in_full() {
    // All of it was there, and some of it is not any more.
    let (mut server, leader) = led(420, 4);
    server.noise();
    server.noise();
    assert!(server.units.counters().evictions.load(Ordering::Relaxed) > 0, "memory was short");
    assert!(server.open().is_none());
    server.sessions.close(&leader.key());
    assert!(server.open().is_some());
}

#[test]
fn a_session_alone_at_capacity_reads_only_its_own_rows_and_has_no_follower() {
    let mut server = TestServer::new(600);
    let leader = server.open().unwrap();
    server.passes(0);
    for segment in 0..3 {
        server.plays(&leader, segment);
    }
    assert!(server.open().is_none(), "units in which two segments meet are not whole");
}

#[test]
fn a_session_that_comes_to_where_another_has_been_follows_from_there() {
    let mut server = TestServer::carrying(2, 600);
    let ahead = server.open().unwrap();
    server.plays(&ahead, 10);
    let behind = server.open().unwrap();
    for segment in 0..9 {
        assert!(server.plays(&behind, segment) > 0, "no session has been there");
        server.passes(1);
        server.plays(&ahead, segment + 11);
        assert_eq!(server.sharing(), (0, 0), "segment {segment}");
    }
    let before_ns = server.promised_ns();
    // The last request of the session behind reaches to where the other one began.
    server.plays(&behind, 9);
    server.passes(1);
    server.plays(&ahead, 20);
    assert_eq!(server.sharing(), (1, 1));
    assert!(server.promised_ns() * 2 <= before_ns, "the disks are charged once");
    for segment in 10..18 {
        server.noise();
        assert_eq!(server.plays(&behind, segment), 0, "segment {segment}");
        server.passes(1);
        server.plays(&ahead, segment + 11);
    }
    assert_eq!(server.units.counters().kept_evictions.load(Ordering::Relaxed), 0);
    // They separate as any other sessions do.
    server.sessions.close(&ahead.key());
    server.passes(0);
    assert_eq!(server.sharing(), (0, 0));
}

#[test]
fn when_the_leader_leaves_its_disk_time_goes_to_the_follower() {
    let (mut server, leader) = led(420, 4);
    let follower = server.open().unwrap();
    server.plays(&follower, 0);
    server.sessions.close(&leader.key());
    assert_eq!(server.sharing(), (0, 0));
    server.passes(0);
    assert!((1..4).all(|segment| server.plays(&follower, segment) == 0), "what was read is there");
    server.passes(1);
    assert!(server.plays(&follower, 4) > 0);
    server.alone = true;
    assert!(server.open().is_none(), "the disks are not free");
}

#[test]
fn a_seek_without_disk_time_leaves_the_session_where_it_was() {
    let (mut server, leader) = led(420, 4);
    let follower = server.open().unwrap();
    server.plays(&follower, 0);
    let seek = server.request(&leader, 20).unwrap();
    assert!(seek.is_displaced, "the follower needs the disk time, too");
    assert_eq!(server.sharing(), (1, 1));
    // A position behind another session is possible.
    server.plays(&follower, 1);
    assert!(server.request(&leader, 0).is_some());
    assert_eq!(server.sharing(), (1, 1));
    server.passes(0);
    server.noise();
    assert!((1..4).all(|segment| server.plays(&leader, segment) == 0));
    // A client that is paused for long follows again if it can.
    server.now_ns += SEGMENT_NS;
    for segment in 2..6 {
        server.plays(&follower, segment);
    }
    server.sessions.close(&leader.key());
    let third = server.open().unwrap();
    assert_eq!(server.sharing(), (1, 1));
    assert!((0..6).all(|segment| server.plays(&third, segment) == 0));
}

#[test]
fn memory_that_readers_hold_cannot_be_kept() {
    let (server, _leader) = led(420, 4);
    let budget = server.units.budget();
    let held = budget.reserve(budget.total() - budget.promised() - 10).unwrap();
    assert!(server.open().is_none());
    drop(held);
    assert!(server.open().is_some());
}

/// A `TestServer` in which one session follows another in the best rendition, and a third has taken
/// what was left.
fn full_ladder() -> (TestServer, [OpenSession; 3]) {
    let mut server = TestServer::with_renditions(&[FILM, LOWER], 2, 600);
    let leader = server.open().unwrap();
    for segment in 0..4 {
        server.plays(&leader, segment);
        server.passes(u64::from(segment > 0));
    }
    let follower = server.open().unwrap();
    assert_eq!((server.sharing(), follower.offered()), ((1, 1), Some(0)));
    server.alone = true;
    let other = server.open().unwrap();
    assert!(!server.has_room());
    server.plays(&follower, 0);
    server.plays(&other, 0);
    (server, [leader, follower, other])
}

#[test]
fn a_session_that_shares_the_best_rendition_takes_a_lower_one_without_admission() {
    let (mut server, [leader, follower, other]) = full_ladder();
    // The server is at capacity, and the follower requests what no other session shares.
    for segment in 1..4 {
        server.passes(1);
        server.plays(&leader, segment + 3);
        server.plays(&other, segment);
        assert!(server.plays_in(LOWER, &follower, segment) > 0, "no session has read that");
        assert_eq!(server.sharing(), (0, 0));
    }
    assert!(!server.has_room(), "the reservations are its own and the leader's");
    // The follower comes back behind the leader, if everything is there.
    server.passes(1);
    server.plays(&leader, 7);
    server.plays(&other, 4);
    assert_eq!(server.plays(&follower, 4), 0);
    assert_eq!(server.sharing(), (1, 1));
    // The leader may take a lower one as well. Then the follower reads.
    server.passes(1);
    assert!(server.plays_in(LOWER, &leader, 8) > 0);
    assert_eq!(server.sharing(), (0, 0));
    assert!((5..8).all(|segment| server.plays(&follower, segment) == 0), "what was read is there");
    assert!(server.plays(&follower, 8) > 0);
}

#[test]
fn a_session_that_took_a_lower_rendition_is_admitted_again_to_the_best() {
    let (mut server, [leader, follower, _other]) = full_ladder();
    server.passes(1);
    server.plays(&leader, 4);
    server.plays_in(LOWER, &follower, 1);
    // The leader has gone, and other sessions have started.
    server.sessions.close(&leader.key());
    assert!(std::iter::from_fn(|| server.open()).count() > 0);
    assert!(server.ask_in(FILM, &follower, 2).unwrap().is_displaced, "nothing is left");
    assert!(server.plays_in(LOWER, &follower, 2) > 0, "it keeps what it has");
}

/// A leader of the best rendition, and this many followers, each in its ninth segment.
fn followed(count: usize) -> (TestServer, OpenSession, Vec<OpenSession>) {
    let mut server = TestServer::with_renditions(&[FILM, LOWER], 2, 600);
    let leader = server.open().unwrap();
    for segment in 0..4 {
        server.plays(&leader, segment);
        server.passes(u64::from(segment > 0));
    }
    let followers: Vec<OpenSession> = (0..count).map(|_| server.open().unwrap()).collect();
    assert_eq!(server.sharing(), (1, count));
    for segment in 0..9 {
        server.passes(u64::from(segment > 0));
        server.plays(&leader, segment + 3);
        followers.iter().for_each(|follower| assert_eq!(server.plays(follower, segment), 0));
    }
    (server, leader, followers)
}

#[test]
fn a_session_that_left_follows_again_although_nothing_is_free() {
    let (mut server, leader, followers) = followed(2);
    let (follower, last) = (&followers[0], &followers[1]);
    // There is as much as is promised to those three, and no more.
    let round_ns = (server.promised_ns() + 10) * 10 / 7;
    server.sessions.admission().set_capacities(capacities(&server.units, round_ns));
    server.passes(1);
    server.plays(&leader, 12);
    server.plays(last, 9);
    server.plays_in(LOWER, follower, 9);
    assert_eq!(server.sharing(), (1, 1));
    server.passes(1);
    server.plays(&leader, 13);
    server.plays(last, 10);
    assert!(server.ask_in(FILM, follower, 10).is_some(), "it holds what it needs beside the others");
    assert_eq!(server.sharing(), (1, 2));
}

#[test]
fn a_refused_seek_into_a_lower_rendition_leaves_the_session_where_it_is() {
    let (mut server, leader, followers) = followed(1);
    // The leader seeks back behind the follower, so its reservation lasts until after the
    // follower's end. The reservations of the other sessions last as long.
    server.plays(&leader, 1);
    server.alone = true;
    let mut others = Vec::new();
    for _ in 0..3 {
        server.now_ns += ROUND_NS;
        others.extend(std::iter::from_fn(|| server.open()));
    }
    assert!(server.ask_in(LOWER, &followers[0], 0).unwrap().is_displaced, "those rounds are taken");
    assert_eq!(server.sharing(), (1, 1));
}

impl TestServer {
    /// Opens a session that is sent by the clock from now on.
    fn cast(&self) -> Option<OpenSession> {
        let client = SessionClient::new(Client::Server, Class::PERIODIC);
        let (choices, now_ns) = (self.choices.clone(), self.now_ns);
        let session =
            self.sessions.open_pushed("film", Arc::new(()), choices, client, now_ns, now_ns).ok()?;
        self.sessions.push(&session, 0..SEGMENTS * SEGMENT_NS, now_ns).ok()?;
        Some(session)
    }

    /// Sends a segment of it. Returns how many units were read for that.
    fn sends(&mut self, session: &OpenSession, segment: u64) -> u64 {
        let range = range(FILM, segment);
        let object = Arc::clone(&self.fixture.objects[FILM]);
        let body = Body::new([Part::Object(object, range.clone())]);
        self.sessions.passes(session, &body, SEGMENTS * SEGMENT_NS, self.now_ns);
        let bytes = self.fixture.bytes[FILM][range.start as usize..range.end as usize].to_vec();
        let ramp = Ramp { due_ns: self.now_ns, duration_ns: SEGMENT_NS, bytes: range.end - range.start };
        let before = self.reads();
        self.core.watch_on(body, bytes, Due::Ramp(ramp), true);
        self.comes();
        session.sent(range.end - range.start, self.now_ns);
        self.reads() - before
    }
}

/// No request says where they are.
#[test]
fn a_cast_behind_another_one_of_the_same_title_finds_it_in_memory() {
    let mut server = TestServer::new(420);
    let leader = server.cast().unwrap();
    for segment in 0..4 {
        server.sends(&leader, segment);
        server.passes(1);
    }
    let follower = server.cast().expect("the disks carry one, and it needs none");
    assert_eq!(server.sharing(), (1, 1));
    // So does a viewer of the same bytes.
    let viewer = server.open().expect("nor does that");
    assert_eq!((server.sharing(), server.plays(&viewer, 0)), ((1, 2), 0));
    server.sessions.close(&viewer.key());
    for segment in 0..8 {
        server.noise();
        assert_eq!(server.sends(&follower, segment), 0, "segment {segment}");
        server.sends(&leader, segment + 4);
        server.passes(1);
    }
    let counters = server.units.counters();
    assert!(counters.evictions.load(Ordering::Relaxed) > 0, "memory was short");
    assert_eq!(counters.kept_evictions.load(Ordering::Relaxed), 0);
    server.sessions.close(&leader.key());
    assert_eq!(server.sharing().0, 0);
    assert!((8..12).all(|segment| server.sends(&follower, segment) == 0), "what was read is there");
    assert!(server.sends(&follower, 14) > 0, "the disks are charged for it now");
}
