//! Viewers of one title at different positions share what one of them has read, beside other
//! clients that read something else.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use reel_admit::{Session, SessionClient, Sessions, SessionsConfig};
use reel_cache::{MediaKind, Units};
use reel_fixture::{ClientBehaviour, Core, Ends, STRIPE_BYTES, VolumeFixture};
use reel_qos::{Class, ClassTable, ClientShare};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const STRIPES: usize = 60;
const STRIPE_NS: u64 = 4_000_000_000;
/// Units of a stripe that are read while no member is missing.
const UNITS: u64 = 3;
/// How far the follower is behind, in stripes.
const LAG: usize = 6;
/// Stripes of the other object that another client reads meanwhile, for each stripe of the title.
const NOISE: usize = 6;
/// 72 buffers: the interval, a reader's window, and some.
const ARENA_BYTES: usize = 72 * 12_288;

struct TestServer {
    fixture: VolumeFixture,
    units: Units,
    sessions: Sessions<()>,
    core: Core,
    at: u64,
}

impl TestServer {
    fn new() -> TestServer {
        let fixture =
            VolumeFixture::new(&[STRIPES * STRIPE_BYTES, STRIPES * STRIPE_BYTES], ARENA_BYTES, None);
        let units = fixture.units(4);
        let classes = ClassTable::default();
        let config = SessionsConfig {
            sessions_max: 9,
            idle_max_ns: 3_600_000_000_000,
            capacities: None,
            classes,
            start_wait_s: 0,
            client_share: ClientShare::ALL,
        };
        let sessions = Sessions::new(config).before(units.audience());
        let core = Core::new(&units, 1);
        TestServer { fixture, units, sessions, core, at: 0 }
    }

    fn open(&self) -> Arc<Session<()>> {
        let who = SessionClient::new(IpAddr::V4(Ipv4Addr::LOCALHOST), Class::PERIODIC);
        self.sessions.open("film", Arc::new(()), Arc::from([]), who, self.at).unwrap()
    }

    /// Units read from the members to show a stripe of the title to a viewer, or to a client
    /// without a session.
    fn shows(&mut self, viewer: Option<&Session<()>>, stripe: usize) -> u64 {
        let film = self.fixture.whole(0);
        let from = stripe * STRIPE_BYTES;
        if let Some(viewer) = viewer {
            let film_ns = STRIPES as u64 * STRIPE_NS;
            self.sessions.plays(viewer, MediaKind::Video, &film, from as u64, film_ns, self.at);
        }
        self.reads(0, from..from + STRIPE_BYTES)
    }

    /// A client reads the other object.
    fn noise(&mut self, step: usize) {
        for stripe in 0..NOISE {
            let from = (step * NOISE + stripe) % STRIPES * STRIPE_BYTES;
            self.reads(1, from..from + STRIPE_BYTES);
        }
    }

    fn reads(&mut self, object: usize, range: std::ops::Range<usize>) -> u64 {
        let before = self.units.counters().reads.load(Ordering::Relaxed);
        let body = self.fixture.whole(object).slice(range.start as u64..range.end as u64);
        self.core.watch_in_time(body, self.fixture.bytes[object][range].to_vec());
        let ends = self.core.play(ClientBehaviour::default());
        assert_eq!(ends, Ends { complete: 1, vanished: 0, lost: 0 });
        self.units.counters().reads.load(Ordering::Relaxed) - before
    }
}

/// What a follower reads for each stripe, beside a leader and a client that reads much more than
/// both.
fn follower_reads(is_announced: bool) -> u64 {
    let mut server = TestServer::new();
    let (leader, follower) = (server.open(), server.open());
    let mut reads = 0;
    for step in 0..STRIPES + LAG {
        server.at += STRIPE_NS;
        if step < STRIPES {
            assert_eq!(server.shows(is_announced.then_some(&leader), step), UNITS, "stripe {step} is new");
        }
        server.noise(step);
        if let Some(stripe) = step.checked_sub(LAG) {
            reads += server.shows(is_announced.then_some(&follower), stripe);
        }
    }
    assert!(server.units.counters().evictions.load(Ordering::Relaxed) > 0, "memory was short");
    reads
}

#[test]
fn a_follower_within_the_interval_reads_no_disk() {
    // The audience knows nothing of the follower before its first request. What the leader read
    // until then may be gone.
    assert!(follower_reads(true) <= LAG as u64 * UNITS);
    assert!(follower_reads(false) * 10 >= STRIPES as u64 * UNITS * 9, "little stays by chance");
}

#[test]
fn a_leader_that_leaves_costs_its_follower_nothing_that_was_read() {
    let mut server = TestServer::new();
    let (leader, follower) = (server.open(), server.open());
    server.shows(Some(&follower), 0);
    for step in 1..=LAG {
        server.shows(Some(&leader), step);
    }
    server.sessions.close(&leader.key());
    for step in 1..=LAG + 3 {
        server.at += STRIPE_NS;
        server.noise(step);
        let expected = if step <= LAG { 0 } else { UNITS };
        assert_eq!(server.shows(Some(&follower), step), expected, "stripe {step}");
    }
}

#[test]
fn a_client_paused_for_long_keeps_no_memory() {
    let mut server = TestServer::new();
    let follower = server.open();
    for step in 0..LAG {
        server.shows(None, step);
    }
    server.shows(Some(&follower), 0);
    // The tick removes it from the audience after what it has is shown.
    server.at += 60 * STRIPE_NS;
    server.sessions.tick(server.at);
    (0..12).for_each(|step| server.noise(step));
    assert_eq!(server.shows(Some(&follower), 3), UNITS, "no session was known to need it");
}
