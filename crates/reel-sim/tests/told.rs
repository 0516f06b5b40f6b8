//! As many viewers are admitted one after another as `capacity` tells.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use reel_admit::limits::{CLIENT_SHARE_PERMILLE, START_WAIT_S};
use reel_admit::{Choices, Loss, SessionClient, Sessions, SessionsConfig, steady_demand};
use reel_cache::{Depth, MediaKind};
use reel_code::Code;
use reel_play::{Ladder, LadderTrack, network_bytes};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Capacities, Class, ClassTable, ClientShare, DiskPrice, MemberCapacity, UNLIMITED};
use reel_sim::device::{DeviceSpec, HddSpec, SsdSpec, ThrottledSpec};
use reel_sim::probe::price;
use reel_testkit::Rng;
use reel_volume::{Extent, Geometry, GeometryFields, ObjectLayout, ObjectMap, VolumeCounters};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

const MEMBERS: usize = 5;
const SEGMENT_S: u64 = 4;
/// Longer than it takes until the server is full.
const SEGMENTS: u64 = 400;
/// Between two viewers that press play.
const APART_NS: u64 = 2 * ROUND_NS;
const BEGIN_NS: u64 = 1_000 * ROUND_NS;
const ARRIVALS: [Arrivals; 4] =
    [Arrivals::Regular, Arrivals::Random(1), Arrivals::Random(2), Arrivals::Random(3)];
/// Disks are full before it is.
const UNLIMITED_LINK: u64 = 100_000_000_000;

/// When viewers press play.
#[derive(Clone, Copy, Debug)]
enum Arrivals {
    /// At equal times.
    Regular,
    /// At random, by this seed.
    Random(u64),
}

/// What `capacity` tells of a server, and how many viewers it admits.
#[derive(Debug)]
struct Found {
    told: u64,
    at_once: u64,
    waited: u64,
}

impl Found {
    /// Whether as many are admitted as were told: within one, or so many thousandths fewer or more.
    fn is_as_told(&self, [fewer, more]: [u64; 2]) -> bool {
        let (admitted, told) = (self.at_once + self.waited, self.told);
        let bound = |permille: u64| (told * permille / 1000).max(1);
        admitted + bound(fewer) >= told && admitted <= told + bound(more)
    }
}

fn geometry() -> Geometry {
    Geometry::new(GeometryFields::cmaf(MEMBERS)).unwrap()
}

/// A title of a steady rate in segments of four seconds.
fn title(rate_bps: u64, depth: Depth) -> Choices {
    let (geometry, bytes) = (geometry(), rate_bps / 8 * SEGMENT_S);
    let slots = geometry.stripes(bytes * SEGMENTS);
    let map = Arc::new(ObjectMap::simulated(ObjectLayout {
        id: 1,
        name: "film".to_owned(),
        geometry,
        code: Code::Xor,
        bytes: bytes * SEGMENTS,
        extents: vec![Extent { first_slot: 0, slots }],
        sums: vec![0; (slots * geometry.stripe_rows() as u64) as usize].into(),
        data_offset: 0,
        counters: Arc::new(VolumeCounters::default()),
    }));
    let segment = |number: u64| {
        let shown_ns = |number: u64| number * SEGMENT_S * ROUND_NS;
        (number * bytes..(number + 1) * bytes, shown_ns(number)..shown_ns(number + 1))
    };
    let segments = (0..SEGMENTS).map(segment).collect();
    let pictures = vec![LadderTrack { kind: MediaKind::Video, map: &map, segments }];
    Ladder { pictures, sound: Vec::new(), depth, sent_factor: 1 }.choices().unwrap()
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Found { told, at_once, waited } = self;
        write!(f, "told {told}, admitted {}, of these after a wait {waited}", at_once + waited)
    }
}

/// Viewers at addresses of their own press play one after another, more than are told.
fn find(link_bps: u64, rate_bps: u64, price: DiskPrice, arrivals: Arrivals) -> Found {
    let depth = Depth::of(price.is_rotational());
    let capacities = Capacities {
        members: vec![MemberCapacity { price, round_ns: ROUND_NS }; MEMBERS],
        network_bytes: network_bytes(link_bps),
        core_ns: UNLIMITED,
        core_mib_ns: Vec::new(),
        local_front_ends: Vec::new(),
        arena_bytes: UNLIMITED,
    };
    let sessions: Sessions<()> = Sessions::new(SessionsConfig {
        sessions_max: 1 << 16,
        idle_max_ns: u64::MAX,
        capacities: Some(capacities),
        classes: ClassTable::default(),
        start_wait_s: START_WAIT_S,
        client_share: ClientShare::permille(CLIENT_SHARE_PERMILLE),
    });
    let steady = steady_demand(&geometry(), depth, rate_bps, Loss::AnyOne);
    let told = sessions.admission().how_many(Class::PERIODIC, &steady).unwrap().unwrap().viewers;
    let offers = title(rate_bps, depth);
    // More often if there are too many for one title's length.
    let apart_ns = APART_NS.min(SEGMENTS * SEGMENT_S * ROUND_NS * 3 / 4 / told.max(1));
    let mut found = Found { told, at_once: 0, waited: 0 };
    let mut times = times(apart_ns, arrivals);
    for number in 0..told + told / 5 + 5 {
        let now_ns = times.next().unwrap();
        let address = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number as u32));
        let client = SessionClient::new(address, Class::PERIODIC);
        if let Ok(session) = sessions.open("film", Arc::new(()), offers.clone(), client, now_ns) {
            let waits = session.start_ns(now_ns) > now_ns;
            (found.at_once, found.waited) =
                (found.at_once + u64::from(!waits), found.waited + u64::from(waits));
        }
    }
    found
}

/// When viewers come who are so far apart on average.
fn times(apart_ns: u64, arrivals: Arrivals) -> impl Iterator<Item = u64> {
    let (mut rng, mut now_ns) =
        (Rng::new(if let Arrivals::Random(seed) = arrivals { seed } else { 0 }), BEGIN_NS);
    std::iter::repeat_with(move || {
        let part = match arrivals {
            Arrivals::Regular => 1.0,
            // The times between the events of a Poisson process.
            Arrivals::Random(_) => -(rng.range(1, 1 << 40) as f64 / (1_u64 << 40) as f64).ln(),
        };
        now_ns += (part * apart_ns as f64) as u64;
        now_ns
    })
}

#[test]
fn as_many_are_admitted_as_a_link_is_told_to_carry() {
    for link_mbps in [20, 50, 100, 1_000] {
        for rate_kbps in [2_500, 5_100, 8_000, 12_000, 15_900] {
            for arrivals in ARRIVALS {
                let found = find(link_mbps * 1_000_000, rate_kbps * 1_000, DiskPrice::FREE, arrivals);
                let case = format!("{link_mbps} Mb/s, {rate_kbps} kb/s, {arrivals:?}: {found}");
                println!("{case}");
                assert!(found.is_as_told([20, 20]), "{case}");
                // Also a title whose start needs more than the whole link for two seconds.
                assert!(found.at_once + found.waited > 0 || found.told == 0, "{case}");
            }
        }
    }
}

/// What falls together by chance differs between runs, most on disks that carry few.
/// Viewers who come exactly two seconds apart, in titles of segments of four, fall together less on
/// hard disks, and more on throttled ones.
#[test]
fn as_many_are_admitted_as_disks_are_told_to_carry() {
    let [hdd, ssd, throttled] = [
        DeviceSpec::Hdd(HddSpec::default()),
        DeviceSpec::Ssd(SsdSpec::default()),
        DeviceSpec::Throttled(ThrottledSpec::default()),
    ];
    let cases =
        [(hdd, [[35, 90], [20, 120]]), (ssd, [[20, 20], [20, 25]]), (throttled, [[35, 40], [105, 60]])];
    for (device, [random, regular]) in cases {
        let price = price(&device, 8, &Rng::new(1));
        for rate_kbps in [2_500, 5_100, 16_000] {
            for arrivals in ARRIVALS {
                let bound = if matches!(arrivals, Arrivals::Regular) { regular } else { random };
                let found = find(UNLIMITED_LINK, rate_kbps * 1_000, price, arrivals);
                let case = format!("{}, {rate_kbps} kb/s, {arrivals:?}: {found}", device.name());
                println!("{case}");
                assert!(found.is_as_told(bound), "{case}");
            }
        }
    }
}
