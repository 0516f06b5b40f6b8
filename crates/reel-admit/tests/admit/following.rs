//! A session behind another one that plays the same is charged with no disks if what lies between
//! is in memory. It finds that in memory, whatever other clients do.
//!
//! The disks of these tests carry one viewer. Segments do not end where stripes do.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use crate::cinema::{Cinema, Core, Ends, MEMBERS, Manners, STRIPE_BYTES};
use reel_admit::{
    Choices, Loss, Permit, Session, Sessions, SessionsConfig, Sharing, Stretch, TrackSpan, demand,
    shared_demand,
};
use reel_cache::{Body, Due, MediaKind, Part, Ramp, SharedTrack, SharedTracks, Units};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Capacities, Class, ClassTable, Demand, DiskPrice, MemberCapacity, Resource, UNLIMITED};
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

struct Hall {
    cinema: Cinema,
    units: Units,
    sessions: Sessions<()>,
    core: Core,
    choices: Choices,
    /// The sessions do not know that two of them play the same title.
    alone: bool,
    now_ns: u64,
}

type Seat = Arc<Session<()>>;

impl Hall {
    fn new(buffers: usize) -> Hall {
        Hall::carrying(1, buffers)
    }

    /// A `Hall` whose disks carry this many viewers.
    fn carrying(viewers: u64, buffers: usize) -> Hall {
        Hall::showing(&[FILM], viewers, buffers)
    }

    /// A `Hall` that shows the title in these renditions, whose disks carry this many viewers of
    /// the best.
    fn showing(renditions: &[usize], viewers: u64, buffers: usize) -> Hall {
        let lengths = [FILM_BYTES, OTHER_BYTES, FILM_BYTES / 2].map(|bytes| bytes as usize);
        let cinema = Cinema::new(&lengths, buffers * BUFFER_BYTES, None).on_flash();
        let units = cinema.units(4);
        let depth = units.depth();
        let stretch = |object: usize, segment: u64| Stretch {
            map: &cinema.objects[object],
            range: range(object, segment),
            from_ns: segment.saturating_sub(1) * SEGMENT_NS,
            due_ns: (segment * SEGMENT_NS).saturating_sub(ROUND_NS),
            duration_ns: SEGMENT_NS,
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
                map: Arc::clone(&cinema.objects[object]),
                starts: starts.collect(),
                track_ns: SEGMENTS * SEGMENT_NS,
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
        });
        let (sessions, core) = (sessions.reading(&units), Core::new(&units, 1));
        Hall { cinema, units, sessions, core, choices, alone: false, now_ns: START_NS }
    }

    fn open(&self) -> Option<Seat> {
        let who = (IpAddr::V4(Ipv4Addr::LOCALHOST), Class::PERIODIC);
        let choices = if self.alone {
            let demands = self.choices.demands.iter().map(|demand| Arc::new(Demand::clone(demand)));
            Choices::from(demands.collect::<Arc<[_]>>())
        } else {
            self.choices.clone()
        };
        self.sessions.open("film", Arc::new(()), choices, who, self.now_ns).ok()
    }

    /// Requests a segment and waits for it. Returns how many units were read for it.
    fn plays(&mut self, seat: &Seat, segment: u64) -> u64 {
        self.plays_in(FILM, seat, segment)
    }

    /// The same in one rendition.
    fn plays_in(&mut self, object: usize, seat: &Seat, segment: u64) -> u64 {
        self.ask_in(object, seat, segment).unwrap();
        let range = range(object, segment);
        let body = Body::new([Part::Object(Arc::clone(&self.cinema.objects[object]), range.clone())]);
        let film_ns = SEGMENTS * SEGMENT_NS;
        let reads_on = self.sessions.plays(seat, MediaKind::Video, (&body, 0), film_ns, self.now_ns);
        let bytes = self.cinema.bytes[object][range.start as usize..range.end as usize].to_vec();
        let ramp = Ramp { due_ns: self.now_ns, duration_ns: SEGMENT_NS, bytes: range.end - range.start };
        let before = self.reads();
        self.core.watch_on(body, bytes, Due::Ramp(ramp), reads_on);
        self.comes();
        self.reads() - before
    }

    fn request(&self, seat: &Seat, segment: u64) -> Option<Permit> {
        self.ask_in(FILM, seat, segment)
    }

    fn ask_in(&self, object: usize, seat: &Seat, segment: u64) -> Option<Permit> {
        let from_ns = segment * SEGMENT_NS;
        let span = TrackSpan { kind: MediaKind::Video, from_ns, until_ns: from_ns + SEGMENT_NS };
        let choice = usize::from(object == LOWER);
        self.sessions.request(seat, Some(choice), &span, self.now_ns).ok()
    }

    /// A client to which nothing was promised reads all of the other object.
    fn noise(&mut self) {
        for stripe in 0..OTHER_BYTES as usize / STRIPE_BYTES {
            let from = stripe * STRIPE_BYTES;
            let body = self.cinema.whole(OTHER).slice(from as u64..(from + STRIPE_BYTES) as u64);
            self.core.watch(body, self.cinema.bytes[OTHER][from..from + STRIPE_BYTES].to_vec());
            self.comes();
        }
    }

    fn comes(&mut self) {
        let ends = self.core.play(Manners::default());
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
        core_mib_ns: 1,
        arena_bytes: units.budget().promisable() as u64 * units.buffer_bytes(),
    }
}

fn range(object: usize, segment: u64) -> Range<u64> {
    let bytes = if object == LOWER { SEGMENT_BYTES / 2 } else { SEGMENT_BYTES };
    segment * bytes..(segment + 1) * bytes
}

/// A leader that has requested this many segments, all read to the ends of units.
fn led(buffers: usize, segments: u64) -> (Hall, Seat) {
    let mut hall = Hall::new(buffers);
    let leader = hall.open().unwrap();
    for segment in 0..segments {
        hall.plays(&leader, segment);
        hall.now_ns += if segment == 0 { 0 } else { SEGMENT_NS };
    }
    (hall, leader)
}

#[test]
fn the_disks_carry_one_session_that_shares_nothing() {
    let mut hall = Hall::new(600);
    hall.alone = true;
    hall.open().unwrap();
    assert!(hall.open().is_none());
}

#[test]
fn a_new_session_finds_what_lies_between_whatever_others_read() {
    let (mut hall, leader) = led(420, 4);
    let follower = hall.open().unwrap();
    assert_eq!(hall.sharing(), (1, 1));
    assert!(hall.sessions.admission().sharing().interval_bytes > 0 && hall.units.budget().kept() > 0);
    for segment in 0..12 {
        hall.noise();
        assert_eq!(hall.plays(&follower, segment), 0, "segment {segment}");
        hall.plays(&leader, segment + 4);
        hall.passes(1);
    }
    let counters = hall.units.counters();
    assert!(counters.evictions.load(Ordering::Relaxed) > 0, "memory was short");
    assert_eq!(counters.kept_evictions.load(Ordering::Relaxed), 0);
    // What lies behind all sessions is not kept, so a session that begins now finds nothing.
    assert!(hall.open().is_none());
    // When all have gone, nothing is kept.
    hall.sessions.close(&leader.key());
    hall.passes(20);
    assert_eq!((hall.sharing(), hall.units.budget().kept()), ((0, 0), 0));
}

#[test]
fn a_session_with_a_gap_before_it_is_charged_in_full() {
    // All of it was there, and some of it is not any more.
    let (mut hall, leader) = led(420, 4);
    hall.noise();
    hall.noise();
    assert!(hall.units.counters().evictions.load(Ordering::Relaxed) > 0, "memory was short");
    assert!(hall.open().is_none());
    hall.sessions.close(&leader.key());
    assert!(hall.open().is_some());
}

#[test]
fn a_session_alone_at_capacity_reads_only_its_own_rows_and_has_no_follower() {
    let mut hall = Hall::new(600);
    let leader = hall.open().unwrap();
    hall.passes(0);
    for segment in 0..3 {
        hall.plays(&leader, segment);
    }
    assert!(hall.open().is_none(), "units in which two segments meet are not whole");
}

#[test]
fn a_session_that_comes_to_where_another_has_been_follows_from_there() {
    let mut hall = Hall::carrying(2, 600);
    let ahead = hall.open().unwrap();
    hall.plays(&ahead, 10);
    let behind = hall.open().unwrap();
    for segment in 0..9 {
        assert!(hall.plays(&behind, segment) > 0, "no session has been there");
        hall.passes(1);
        hall.plays(&ahead, segment + 11);
        assert_eq!(hall.sharing(), (0, 0), "segment {segment}");
    }
    let before_ns = hall.promised_ns();
    // The last request of the session behind reaches to where the other one began.
    hall.plays(&behind, 9);
    hall.passes(1);
    hall.plays(&ahead, 20);
    assert_eq!(hall.sharing(), (1, 1));
    assert!(hall.promised_ns() * 2 <= before_ns, "the disks are charged once");
    for segment in 10..18 {
        hall.noise();
        assert_eq!(hall.plays(&behind, segment), 0, "segment {segment}");
        hall.passes(1);
        hall.plays(&ahead, segment + 11);
    }
    assert_eq!(hall.units.counters().kept_evictions.load(Ordering::Relaxed), 0);
    // They separate as any other sessions do.
    hall.sessions.close(&ahead.key());
    hall.passes(0);
    assert_eq!(hall.sharing(), (0, 0));
}

#[test]
fn when_the_leader_leaves_its_disk_time_goes_to_the_follower() {
    let (mut hall, leader) = led(420, 4);
    let follower = hall.open().unwrap();
    hall.plays(&follower, 0);
    hall.sessions.close(&leader.key());
    assert_eq!(hall.sharing(), (0, 0));
    hall.passes(0);
    assert!((1..4).all(|segment| hall.plays(&follower, segment) == 0), "what was read is there");
    hall.passes(1);
    assert!(hall.plays(&follower, 4) > 0);
    hall.alone = true;
    assert!(hall.open().is_none(), "the disks are not free");
}

#[test]
fn a_seek_without_disk_time_leaves_the_session_where_it_was() {
    let (mut hall, leader) = led(420, 4);
    let follower = hall.open().unwrap();
    hall.plays(&follower, 0);
    assert!(hall.request(&leader, 20).is_none(), "the follower needs the disk time, too");
    assert_eq!(hall.sharing(), (1, 1));
    // A position behind another session is possible.
    hall.plays(&follower, 1);
    assert!(hall.request(&leader, 0).is_some());
    assert_eq!(hall.sharing(), (1, 1));
    hall.passes(0);
    hall.noise();
    assert!((1..4).all(|segment| hall.plays(&leader, segment) == 0));
    // A client that is paused for long follows again if it can.
    hall.now_ns += SEGMENT_NS;
    for segment in 2..6 {
        hall.plays(&follower, segment);
    }
    hall.sessions.close(&leader.key());
    let third = hall.open().unwrap();
    assert_eq!(hall.sharing(), (1, 1));
    assert!((0..6).all(|segment| hall.plays(&third, segment) == 0));
}

#[test]
fn memory_that_readers_hold_cannot_be_kept() {
    let (hall, _leader) = led(420, 4);
    let budget = hall.units.budget();
    let held = budget.reserve(budget.total() - budget.promised() - 10).unwrap();
    assert!(hall.open().is_none());
    drop(held);
    assert!(hall.open().is_some());
}

/// A `Hall` in which one session follows another in the best rendition, and a third has taken what
/// was left.
fn full_ladder() -> (Hall, [Seat; 3]) {
    let mut hall = Hall::showing(&[FILM, LOWER], 2, 600);
    let leader = hall.open().unwrap();
    for segment in 0..4 {
        hall.plays(&leader, segment);
        hall.passes(u64::from(segment > 0));
    }
    let follower = hall.open().unwrap();
    assert_eq!((hall.sharing(), follower.offered()), ((1, 1), Some(0)));
    hall.alone = true;
    let other = hall.open().unwrap();
    assert!(!hall.has_room());
    hall.plays(&follower, 0);
    hall.plays(&other, 0);
    (hall, [leader, follower, other])
}

#[test]
fn a_session_that_shares_the_best_rendition_takes_a_lower_one_without_admission() {
    let (mut hall, [leader, follower, other]) = full_ladder();
    // The server is at capacity, and the follower requests what no other session shares.
    for segment in 1..4 {
        hall.passes(1);
        hall.plays(&leader, segment + 3);
        hall.plays(&other, segment);
        assert!(hall.plays_in(LOWER, &follower, segment) > 0, "no session has read that");
        assert_eq!(hall.sharing(), (0, 0));
    }
    assert!(!hall.has_room(), "the reservations are its own and the leader's");
    // The follower comes back behind the leader, if everything is there.
    hall.passes(1);
    hall.plays(&leader, 7);
    hall.plays(&other, 4);
    assert_eq!(hall.plays(&follower, 4), 0);
    assert_eq!(hall.sharing(), (1, 1));
    // The leader may take a lower one as well. Then the follower reads.
    hall.passes(1);
    assert!(hall.plays_in(LOWER, &leader, 8) > 0);
    assert_eq!(hall.sharing(), (0, 0));
    assert!((5..8).all(|segment| hall.plays(&follower, segment) == 0), "what was read is there");
    assert!(hall.plays(&follower, 8) > 0);
}

#[test]
fn a_session_that_took_a_lower_rendition_is_admitted_again_to_the_best() {
    let (mut hall, [leader, follower, _other]) = full_ladder();
    hall.passes(1);
    hall.plays(&leader, 4);
    hall.plays_in(LOWER, &follower, 1);
    // The leader has gone, and other sessions have started.
    hall.sessions.close(&leader.key());
    assert!(std::iter::from_fn(|| hall.open()).count() > 0);
    assert!(hall.ask_in(FILM, &follower, 2).is_none(), "nothing is left");
    assert!(hall.plays_in(LOWER, &follower, 2) > 0, "it keeps what it has");
}

/// A leader of the best rendition, and this many followers, each in its ninth segment.
fn followed(count: usize) -> (Hall, Seat, Vec<Seat>) {
    let mut hall = Hall::showing(&[FILM, LOWER], 2, 600);
    let leader = hall.open().unwrap();
    for segment in 0..4 {
        hall.plays(&leader, segment);
        hall.passes(u64::from(segment > 0));
    }
    let followers: Vec<Seat> = (0..count).map(|_| hall.open().unwrap()).collect();
    assert_eq!(hall.sharing(), (1, count));
    for segment in 0..9 {
        hall.passes(u64::from(segment > 0));
        hall.plays(&leader, segment + 3);
        followers.iter().for_each(|follower| assert_eq!(hall.plays(follower, segment), 0));
    }
    (hall, leader, followers)
}

#[test]
fn a_session_that_left_follows_again_although_nothing_is_free() {
    let (mut hall, leader, followers) = followed(2);
    let (follower, last) = (&followers[0], &followers[1]);
    // There is as much as is promised to those three, and no more.
    let round_ns = (hall.promised_ns() + 10) * 10 / 7;
    hall.sessions.admission().set_capacities(capacities(&hall.units, round_ns));
    hall.passes(1);
    hall.plays(&leader, 12);
    hall.plays(last, 9);
    hall.plays_in(LOWER, follower, 9);
    assert_eq!(hall.sharing(), (1, 1));
    hall.passes(1);
    hall.plays(&leader, 13);
    hall.plays(last, 10);
    assert!(hall.ask_in(FILM, follower, 10).is_some(), "it holds what it needs beside the others");
    assert_eq!(hall.sharing(), (1, 2));
}

#[test]
fn a_refused_seek_into_a_lower_rendition_leaves_the_session_where_it_is() {
    let (mut hall, leader, followers) = followed(1);
    // The leader seeks back behind the follower, so its reservation lasts until after the
    // follower's end. The reservations of the other sessions last as long.
    hall.plays(&leader, 1);
    hall.alone = true;
    let mut others = Vec::new();
    for _ in 0..3 {
        hall.now_ns += ROUND_NS;
        others.extend(std::iter::from_fn(|| hall.open()));
    }
    assert!(hall.ask_in(LOWER, &followers[0], 0).is_none(), "those rounds are taken");
    assert_eq!(hall.sharing(), (1, 1));
}
