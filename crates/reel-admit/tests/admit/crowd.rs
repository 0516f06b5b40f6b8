//! Many viewers of one title, at as many positions, cost the disks what one of them costs, with
//! memory for what lies between the first and the last.
//!
//! Time is simulated. Viewers start over [`OVER_NS`]. Each requests a segment when the one before
//! it begins to be shown. What it will request next is read ahead, as a server does. Segments do
//! not end where stripes do.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use reel_admit::limits::SEND_LEAD_NS;
use reel_admit::{Session, SessionClient, Sessions, SessionsConfig};
use reel_cache::{Body, Due, MediaKind, Part, Plan, Prefetcher, Ramp, TrackOfSession, Units};
use reel_fixture::{ClientBehaviour, Core, Ends, STRIPE_BYTES, VolumeFixture};
use reel_qos::{Class, ClassTable, ClientShare};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const SECOND_NS: u64 = 1_000_000_000;
const SEGMENTS: u64 = 20;
const SEGMENT_NS: u64 = 4 * SECOND_NS;
const SEGMENT_BYTES: u64 = STRIPE_BYTES as u64 * 188 / 100;
/// The time over which viewers start.
const OVER_NS: u64 = 40 * SECOND_NS;
const VIEWERS: u64 = 50;
/// Bytes of a unit, and of the buffer that holds it.
const UNIT_BYTES: u64 = 12_000;
const BUFFER_BYTES: u64 = 12_288;
/// Buffers that readers do not get.
const SPARE: u64 = 8;
/// How often reading ahead is checked.
const LOOK_NS: u64 = SECOND_NS / 10;

/// Units between the first viewer and the last, and in the segment that the first one has
/// requested.
fn wave_front() -> u64 {
    (OVER_NS / SEGMENT_NS + 1) * SEGMENT_BYTES / UNIT_BYTES
}

struct Crowd {
    fixture: VolumeFixture,
    units: Units,
    sessions: Sessions<()>,
    core: Core,
    prefetcher: Prefetcher,
    looked_ns: u64,
    /// The most buffers that were taken at one time.
    taken: u64,
}

impl Crowd {
    /// With memory for this many units.
    fn new(buffers: u64) -> Crowd {
        let arena_bytes = (buffers + SPARE) * BUFFER_BYTES;
        let fixture = VolumeFixture::new(&[(SEGMENTS * SEGMENT_BYTES) as usize], arena_bytes as usize, None);
        let units = fixture.units(SPARE as usize);
        let classes = ClassTable::default();
        let config = SessionsConfig {
            sessions_max: VIEWERS as usize,
            idle_max_ns: u64::MAX,
            capacities: None,
            classes,
            start_wait_s: 0,
            client_share: ClientShare::ALL,
        };
        let sessions = Sessions::new(config).before(units.audience());
        let core = Core::new(&units, 1);
        Crowd { fixture, units, sessions, core, prefetcher: Prefetcher::default(), looked_ns: 0, taken: 0 }
    }

    fn body(&self, bytes: Range<u64>) -> Body {
        Body::new([Part::Object(Arc::clone(&self.fixture.objects[0]), bytes)])
    }

    /// All viewers play the title.
    fn plays(&mut self, reads_ahead: bool) {
        let starts_ns = |viewer: u64| SECOND_NS + viewer * OVER_NS / VIEWERS;
        let open = |viewer: u64| {
            let who = SessionClient::new(IpAddr::V4(Ipv4Addr::from(viewer as u32)), Class::PERIODIC);
            self.sessions.open("film", Arc::new(()), Arc::from([]), who, starts_ns(viewer)).unwrap()
        };
        let open: Vec<Arc<Session<()>>> = (0..VIEWERS).map(open).collect();
        // The second segment is requested when the first is shown, which is at once.
        let asks = |viewer| {
            (0..SEGMENTS).map(move |segment: u64| {
                (starts_ns(viewer) + segment.saturating_sub(1) * SEGMENT_NS, viewer, segment)
            })
        };
        let mut asks: Vec<(u64, u64, u64)> = (0..VIEWERS).flat_map(asks).collect();
        asks.sort_unstable();
        for (at_ns, viewer, segment) in asks {
            self.passes(at_ns);
            let session = &open[viewer as usize];
            if reads_ahead {
                let due_ns = starts_ns(viewer) + segment * SEGMENT_NS;
                let plan = (segment + 1 < SEGMENTS).then(|| Plan {
                    body: self.body(range(segment + 1)),
                    class: Class::PERIODIC,
                    start_ns: due_ns.saturating_sub(SEND_LEAD_NS).max(at_ns),
                    due_ns: due_ns + SEGMENT_NS - SEND_LEAD_NS,
                    duration_ns: SEGMENT_NS,
                });
                self.prefetcher.plan(TrackOfSession { session: session.key(), track: 0 }, plan);
            }
            self.takes(session, segment, at_ns);
            if segment + 1 == SEGMENTS {
                self.sessions.close(&session.key());
            }
        }
    }

    fn takes(&mut self, session: &Session<()>, segment: u64, at_ns: u64) {
        let film_ns = SEGMENTS * SEGMENT_NS;
        let body = self.body(range(segment));
        let reads_on = self.sessions.plays(session, MediaKind::Video, &body, 0, film_ns, at_ns);
        let ramp = Ramp { due_ns: at_ns, duration_ns: SEGMENT_NS, bytes: SEGMENT_BYTES };
        let bytes = self.bytes(range(segment));
        self.core.watch_on(body, bytes, Due::Ramp(ramp), reads_on);
        self.comes();
    }

    /// A client without a session reads a few bytes at some position.
    fn glances(&mut self, bytes: Range<u64>) {
        let (body, expected) = (self.body(bytes.clone()), self.bytes(bytes));
        self.core.watch_in_class(body, expected, Class::INTERACTIVE, SECOND_NS);
        self.comes();
    }

    /// Waits until the last request is answered.
    fn comes(&mut self) {
        let mut ends = Ends::default();
        while ends.complete == 0 {
            if !self.core.turn(ClientBehaviour::default(), &mut ends)
                && self.units.budget().waiting_readers() > 0
            {
                self.prefetcher.release();
            }
            self.take_ahead();
        }
        self.taken = self.taken.max(self.fixture.volume.arena().usage().buffers_taken as u64);
    }

    /// Reads ahead what is due to be read until then.
    fn passes(&mut self, at_ns: u64) {
        while self.looked_ns <= at_ns {
            self.core.now_ns = self.looked_ns;
            self.prefetcher.turn(&mut self.core.fetcher, self.looked_ns);
            while self.core.fetcher.in_flight() > 0 {
                self.core.turn(ClientBehaviour::default(), &mut Ends::default());
            }
            self.core.turn(ClientBehaviour::default(), &mut Ends::default());
            self.take_ahead();
            self.looked_ns += LOOK_NS;
        }
        self.core.now_ns = at_ns;
    }

    fn take_ahead(&mut self) {
        self.core.prefetched.drain(..).for_each(|fetched| self.prefetcher.fetched(&fetched));
    }

    fn bytes(&self, range: Range<u64>) -> Vec<u8> {
        self.fixture.bytes[0][range.start as usize..range.end as usize].to_vec()
    }

    fn reads(&self) -> u64 {
        self.units.counters().reads.load(Ordering::Relaxed)
    }
}

fn range(segment: u64) -> Range<u64> {
    segment * SEGMENT_BYTES..(segment + 1) * SEGMENT_BYTES
}

#[test]
fn many_viewers_of_one_title_read_it_once_with_memory_for_little_more_than_their_distance() {
    for reads_ahead in [false, true] {
        let mut crowd = Crowd::new(wave_front() * 12 / 10);
        crowd.plays(reads_ahead);
        let film = (SEGMENTS * SEGMENT_BYTES).div_ceil(UNIT_BYTES);
        assert!(crowd.units.counters().evictions.load(Ordering::Relaxed) > 0, "memory was short");
        assert_eq!(crowd.prefetcher.started > 0, reads_ahead);
        let reads = crowd.reads();
        assert!(reads * 10 <= film * 11, "{reads} units of {film} read, ahead: {reads_ahead}");
        assert!(crowd.taken <= wave_front() * 12 / 10, "{} of {}", crowd.taken, wave_front());
    }
}

#[test]
fn a_short_read_of_a_title_takes_nothing_from_its_viewers() {
    let mut crowd = Crowd::new(wave_front() * 2);
    let open = |viewer: u32| {
        let who = SessionClient::new(IpAddr::V4(Ipv4Addr::from(viewer)), Class::PERIODIC);
        crowd.sessions.open("film", Arc::new(()), Arc::from([]), who, 0).unwrap()
    };
    let (leader, follower) = (open(1), open(2));
    crowd.takes(&follower, 0, 1);
    crowd.takes(&leader, 5, 1);
    let before = crowd.reads();
    // The leader has begun within a stripe, and has a later row of the same unit.
    crowd.glances(range(5).start - 5_000..range(5).start - 4_900);
    assert_eq!(crowd.reads(), before + 1, "missing rows are read for it alone");
    crowd.takes(&follower, 5, 2);
    assert_eq!(crowd.reads(), before + 1, "the others stay");
}
