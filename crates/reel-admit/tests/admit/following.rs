//! Who comes behind somebody who plays the same is promised no disks if what lies between is in
//! memory, and finds it there, whatever others do.
//!
//! The disks of this cinema carry one viewer. Segments do not end where stripes do.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use crate::cinema::{Cinema, Core, Ends, MEMBERS, Manners, STRIPE_BYTES};
use reel_admit::{
    Ask, Loss, Permit, Session, Sessions, SessionsConfig, Sharing, Stretch, demand, shared_demand,
};
use reel_cache::{Body, Choices, Due, MediaKind, Part, Ramp, SharedTrack, SharedTracks, Units};
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
/// What others read.
const OTHER_BYTES: u64 = 200 * STRIPE_BYTES as u64;
/// The objects: the film in one rendition, what others read, and the film in a lower rendition.
const FILM: usize = 0;
const OTHER: usize = 1;
const LOWER: usize = 2;
const START_NS: u64 = 1_000 * ROUND_NS;
const BUFFER_BYTES: usize = 12_288;
/// A read, of which a member is counted with one in a round for one viewer.
const READ_NS: u64 = 900_000;

struct Hall {
    cinema: Cinema,
    units: Units,
    sessions: Sessions<()>,
    core: Core,
    choices: Choices,
    /// What is played is of another title each time, for all that the sessions know.
    alone: bool,
    now_ns: u64,
}

type Seat = Arc<Session<()>>;

impl Hall {
    fn new(buffers: usize) -> Hall {
        Hall::carrying(1, buffers)
    }

    /// One whose disks carry so many viewers.
    fn carrying(viewers: u64, buffers: usize) -> Hall {
        Hall::showing(&[FILM], viewers, buffers)
    }

    /// One that shows the film in these renditions, whose disks carry so many viewers of the best.
    fn showing(renditions: &[usize], viewers: u64, buffers: usize) -> Hall {
        let lengths = [FILM_BYTES, OTHER_BYTES, FILM_BYTES / 2].map(|bytes| bytes as usize);
        let cinema = Cinema::new(&lengths, buffers * BUFFER_BYTES, None).without_arms();
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
                strand: MediaKind::Video,
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
        // The periodic class has 70 % of a round; what transfers cost is next to nothing.
        let round_ns = (u64::from(most) * READ_NS + 10_000) * viewers * 10 / 7;
        let sessions = Sessions::new(SessionsConfig {
            sessions_max: 100,
            idle_max_ns: u64::MAX,
            capacities: Some(capacities(&units, round_ns)),
            classes: ClassTable::default(),
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

    /// A segment is asked for, and comes; how many units were read for it.
    fn plays(&mut self, seat: &Seat, segment: u64) -> u64 {
        self.plays_in(FILM, seat, segment)
    }

    /// The same in a rendition.
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

    fn ask(&self, seat: &Seat, segment: u64) -> Option<Permit> {
        self.ask_in(FILM, seat, segment)
    }

    fn ask_in(&self, object: usize, seat: &Seat, segment: u64) -> Option<Permit> {
        let from_ns = segment * SEGMENT_NS;
        let ask = Ask { strand: MediaKind::Video, from_ns, until_ns: from_ns + SEGMENT_NS };
        let choice = usize::from(object == LOWER);
        self.sessions.ask(seat, Some(choice), &ask, self.now_ns).ok()
    }

    /// Somebody who was promised nothing reads all of something else.
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
        assert!(self.sessions.adds_up());
    }

    fn reads(&self) -> u64 {
        self.units.counters().reads.load(Ordering::Relaxed)
    }

    /// The most of a member's time that is promised in a round from now on.
    fn promised_ns(&self) -> u64 {
        let usage = self.sessions.usage(self.now_ns);
        usage.iter().find(|usage| usage.resource == Resource::Member(0)).unwrap().peak_used
    }

    /// Whether somebody else could be promised the best rendition by himself.
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
        let Sharing { chains, followers, .. } = self.sessions.sharing();
        (chains, followers)
    }
}

/// Members that have so much time in a round.
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

/// A leader that has asked for so many segments, all read to the ends of units.
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
fn the_disks_carry_one_who_plays_what_nobody_else_does() {
    let mut hall = Hall::new(600);
    hall.alone = true;
    hall.open().unwrap();
    assert!(hall.open().is_none());
}

#[test]
fn a_newcomer_finds_what_lies_between_whatever_others_read() {
    let (mut hall, leader) = led(420, 4);
    let follower = hall.open().unwrap();
    assert_eq!(hall.sharing(), (1, 1));
    assert!(hall.sessions.sharing().interval_bytes > 0 && hall.units.budget().kept() > 0);
    for segment in 0..12 {
        hall.noise();
        assert_eq!(hall.plays(&follower, segment), 0, "segment {segment}");
        hall.plays(&leader, segment + 4);
        hall.passes(1);
    }
    let counters = hall.units.counters();
    assert!(counters.evictions.load(Ordering::Relaxed) > 0, "memory was short");
    assert_eq!(counters.kept_evictions.load(Ordering::Relaxed), 0);
    // What lies behind all of them is kept for nobody: who begins now finds nothing.
    assert!(hall.open().is_none());
    // When all have gone, nothing is kept.
    hall.sessions.close(&leader.key());
    hall.passes(20);
    assert_eq!((hall.sharing(), hall.units.budget().kept()), ((0, 0), 0));
}

#[test]
fn who_finds_a_gap_is_charged_as_everybody_else() {
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
fn who_plays_alone_in_a_full_house_reads_no_more_than_his_and_nobody_follows_him() {
    let mut hall = Hall::new(600);
    let leader = hall.open().unwrap();
    hall.passes(0);
    for segment in 0..3 {
        hall.plays(&leader, segment);
    }
    assert!(hall.open().is_none(), "units in which segments meet are not whole");
}

#[test]
fn who_comes_to_where_another_has_been_follows_from_there() {
    let mut hall = Hall::carrying(2, 600);
    let ahead = hall.open().unwrap();
    hall.plays(&ahead, 10);
    let behind = hall.open().unwrap();
    for segment in 0..9 {
        assert!(hall.plays(&behind, segment) > 0, "nobody has been there");
        hall.passes(1);
        hall.plays(&ahead, segment + 11);
        assert_eq!(hall.sharing(), (0, 0), "segment {segment}");
    }
    let before_ns = hall.promised_ns();
    // What he has asked for last reaches to where the other one began.
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
    // They part as everybody does.
    hall.sessions.close(&ahead.key());
    hall.passes(0);
    assert_eq!(hall.sharing(), (0, 0));
}

#[test]
fn when_the_leader_leaves_the_disks_are_the_followers() {
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
    assert!(hall.open().is_none(), "they are not free");
}

#[test]
fn who_cannot_have_disks_for_where_he_seeks_stays_where_he_was() {
    let (mut hall, leader) = led(420, 4);
    let follower = hall.open().unwrap();
    hall.plays(&follower, 0);
    assert!(hall.ask(&leader, 20).is_none(), "the disks are his follower's, too");
    assert_eq!(hall.sharing(), (1, 1));
    // A place behind somebody is another matter.
    hall.plays(&follower, 1);
    assert!(hall.ask(&leader, 0).is_some());
    assert_eq!(hall.sharing(), (1, 1));
    hall.passes(0);
    hall.noise();
    assert!((1..4).all(|segment| hall.plays(&leader, segment) == 0));
    // Who is paused for long follows again if he can.
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

/// A hall in which one follows another in the best rendition, and somebody has taken what was left.
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
fn who_shares_the_best_rendition_takes_a_lower_one_without_asking() {
    let (mut hall, [leader, follower, other]) = full_ladder();
    // The house is full, and he asks for something that nobody shares with him.
    for segment in 1..4 {
        hall.passes(1);
        hall.plays(&leader, segment + 3);
        hall.plays(&other, segment);
        assert!(hall.plays_in(LOWER, &follower, segment) > 0, "nobody has read that");
        assert_eq!(hall.sharing(), (0, 0));
    }
    assert!(!hall.has_room(), "what was promised is his own and the leader's");
    // He comes back behind the leader, if all is there.
    hall.passes(1);
    hall.plays(&leader, 7);
    hall.plays(&other, 4);
    assert_eq!(hall.plays(&follower, 4), 0);
    assert_eq!(hall.sharing(), (1, 1));
    // The leader may take a lower one as well: then he who is behind reads.
    hall.passes(1);
    assert!(hall.plays_in(LOWER, &leader, 8) > 0);
    assert_eq!(hall.sharing(), (0, 0));
    assert!((5..8).all(|segment| hall.plays(&follower, segment) == 0), "what was read is there");
    assert!(hall.plays(&follower, 8) > 0);
}

#[test]
fn who_took_a_lower_rendition_asks_for_the_best_one_again() {
    let (mut hall, [leader, follower, _other]) = full_ladder();
    hall.passes(1);
    hall.plays(&leader, 4);
    hall.plays_in(LOWER, &follower, 1);
    // He whom he followed has gone, and others have come.
    hall.sessions.close(&leader.key());
    assert!(std::iter::from_fn(|| hall.open()).count() > 0);
    assert!(hall.ask_in(FILM, &follower, 2).is_none(), "nothing is left");
    assert!(hall.plays_in(LOWER, &follower, 2) > 0, "he keeps what he has");
}

/// A leader of the best rendition, and so many who follow him, each in his ninth segment.
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
fn who_left_follows_again_though_nothing_is_free() {
    let (mut hall, leader, followers) = followed(2);
    let (follower, last) = (&followers[0], &followers[1]);
    // There is as much as those three are promised, and no more.
    let round_ns = (hall.promised_ns() + 10) * 10 / 7;
    hall.sessions.set_capacities(capacities(&hall.units, round_ns));
    hall.passes(1);
    hall.plays(&leader, 12);
    hall.plays(last, 9);
    hall.plays_in(LOWER, follower, 9);
    assert_eq!(hall.sharing(), (1, 1));
    hall.passes(1);
    hall.plays(&leader, 13);
    hall.plays(last, 10);
    assert!(hall.ask_in(FILM, follower, 10).is_some(), "he holds what he needs beside the others");
    assert_eq!(hall.sharing(), (1, 2));
}

#[test]
fn a_refused_seek_into_a_lower_rendition_leaves_him_where_he_is() {
    let (mut hall, leader, followers) = followed(1);
    // The leader goes back behind him, so there is somebody until after his end; and so are others.
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
