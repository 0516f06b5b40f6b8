//! Who comes behind somebody who plays the same is promised no disks if what lies between is in memory, and finds it there, whatever others do.
//!
//! The disks of this cinema carry one viewer. Segments do not end where stripes do.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod cinema;

use cinema::{Cinema, Core, Ends, MEMBERS, Manners, STRIPE_BYTES};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Capacities, Class, ClassTable, Demand, DiskPrice, MemberCapacity, Resource, UNLIMITED};
use reel_stream::{
    Ask, Body, Choices, Due, Loss, OneWay, Part, Permit, Ramp, Session, Sessions, SessionsConfig, Sharing,
    Strand, Stretch, Units, WayTrack, demand, shared_demand,
};
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
        let lengths = [FILM_BYTES as usize, OTHER_BYTES as usize];
        let cinema = Cinema::new(&lengths, buffers * BUFFER_BYTES, None).without_arms();
        let units = cinema.units(4);
        let map = &cinema.objects[0];
        let stretch = |segment: u64| Stretch {
            map,
            range: range(segment),
            from_ns: segment.saturating_sub(1) * SEGMENT_NS,
            due_ns: (segment * SEGMENT_NS).saturating_sub(ROUND_NS),
            duration_ns: SEGMENT_NS,
        };
        let depth = units.depth();
        let plain = demand(MEMBERS, depth, (0..SEGMENTS).map(stretch), Loss::AnyOne).unwrap();
        let shared = shared_demand(MEMBERS, depth, (0..SEGMENTS).map(stretch)).unwrap();
        let most = (0..MEMBERS).flat_map(|member| plain.reads(member)).map(|read| read.reads).max().unwrap();
        let track = WayTrack {
            strand: Strand::Picture,
            map: Arc::clone(map),
            starts: (0..SEGMENTS).map(|segment| (segment * SEGMENT_NS, range(segment).start)).collect(),
            track_ns: SEGMENTS * SEGMENT_NS,
        };
        let demands = Arc::from([Arc::new(plain.with_shared(&shared))]);
        let choices = Choices { demands, one_way: Some(Arc::new(OneWay::new(vec![track]))) };
        let price = DiskPrice {
            read_request_ns: READ_NS,
            read_mib_ns: 1,
            write_request_ns: 1,
            write_mib_ns: 1,
            apart: false,
        };
        // The periodic class has 70 % of a round; what transfers cost is next to nothing.
        let round_ns = (u64::from(most) * READ_NS + 10_000) * viewers * 10 / 7;
        let sessions = Sessions::new(SessionsConfig {
            sessions_max: 100,
            idle_max_ns: u64::MAX,
            capacities: Some(Capacities {
                members: vec![MemberCapacity { price, round_ns }; MEMBERS],
                network_bytes: UNLIMITED,
                core_ns: UNLIMITED,
                core_mib_ns: 1,
                arena_bytes: units.budget().promisable() as u64 * units.buffer_bytes(),
            }),
            classes: ClassTable::default(),
        });
        let (sessions, core) = (sessions.reading(&units), Core::new(&units, 1));
        Hall { cinema, units, sessions, core, choices, alone: false, now_ns: START_NS }
    }

    fn open(&self) -> Option<Seat> {
        let who = (IpAddr::V4(Ipv4Addr::LOCALHOST), Class::PERIODIC);
        let choices = if self.alone {
            let demand = Demand::clone(&self.choices.demands[0]);
            Choices::from(Arc::from([Arc::new(demand)]))
        } else {
            self.choices.clone()
        };
        self.sessions.open("film", Arc::new(()), choices, who, self.now_ns).ok()
    }

    /// A segment is asked for, and comes; how many units were read for it.
    fn plays(&mut self, seat: &Seat, segment: u64) -> u64 {
        self.ask(seat, segment).unwrap();
        let body = Body::new([Part::Object(Arc::clone(&self.cinema.objects[0]), range(segment))]);
        let film_ns = SEGMENTS * SEGMENT_NS;
        let reads_on = self.sessions.plays(seat, Strand::Picture, (&body, 0), film_ns, self.now_ns);
        let bytes = self.cinema.bytes[0][range(segment).start as usize..range(segment).end as usize].to_vec();
        let ramp = Ramp { due_ns: self.now_ns, duration_ns: SEGMENT_NS, bytes: SEGMENT_BYTES };
        let before = self.reads();
        self.core.watch_on(body, bytes, Due::Ramp(ramp), reads_on);
        self.comes();
        self.reads() - before
    }

    fn ask(&self, seat: &Seat, segment: u64) -> Option<Permit> {
        let from_ns = segment * SEGMENT_NS;
        let ask = Ask { strand: Strand::Picture, from_ns, until_ns: from_ns + SEGMENT_NS };
        self.sessions.ask(seat, None, &ask, self.now_ns).ok()
    }

    /// Somebody who was promised nothing reads all of something else.
    fn noise(&mut self) {
        for stripe in 0..OTHER_BYTES as usize / STRIPE_BYTES {
            let from = stripe * STRIPE_BYTES;
            let body = self.cinema.whole(1).slice(from as u64..(from + STRIPE_BYTES) as u64);
            self.core.watch(body, self.cinema.bytes[1][from..from + STRIPE_BYTES].to_vec());
            self.comes();
        }
    }

    fn comes(&mut self) {
        let ends = self.core.play(Manners::default());
        assert_eq!(ends, Ends { complete: 1, vanished: 0, lost: 0 });
    }

    fn passes(&mut self, segments: u64) {
        self.now_ns += segments * SEGMENT_NS;
        self.sessions.tend(self.now_ns);
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

    fn sharing(&self) -> (usize, usize) {
        let Sharing { chains, followers, .. } = self.sessions.sharing();
        (chains, followers)
    }
}

fn range(segment: u64) -> Range<u64> {
    segment * SEGMENT_BYTES..(segment + 1) * SEGMENT_BYTES
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
