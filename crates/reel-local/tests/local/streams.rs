//! Streams in sets: which bytes come out, what is held, and what is left when they end.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use crate::core::{Core, NoTitle};
use reel_arena::mms::Ending;
use reel_cache::{Body, Part};
use reel_fixture::{STRIPE_BYTES, VolumeFixture};
use reel_play::{DeliveryPolicy, Event};
use reel_qos::Class;
use reel_ring::Chunk;
use reel_serve::streams::{Offer, Opening, Outlet, Settled, StreamId};
use reel_testkit::Rng;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A reader that takes pieces, keeps them for a while, and compares them only then.
struct Slow {
    expected: Vec<u8>,
    rng: Rng,
    room: usize,
    held: VecDeque<(u64, Chunk, u64)>,
    looked_at: u64,
    /// It claims to have finished with more than it was given.
    lies: bool,
    endings: Vec<Ending>,
}

impl Slow {
    fn new(expected: Vec<u8>, seed: u64) -> Slow {
        let rng = Rng::new(seed);
        Slow { expected, rng, room: 6, held: VecDeque::new(), looked_at: 0, lies: false, endings: Vec::new() }
    }
}

impl Outlet for Slow {
    fn offer(&mut self, offer: &Offer<'_>) -> u64 {
        if self.held.len() >= self.room {
            return 0;
        }
        let taken = 1 + self.rng.below(offer.chunk.len() as u64);
        self.held.push_back((offer.position, offer.chunk.clone(), taken));
        taken
    }

    fn done_bytes(&mut self) -> Result<u64, Ending> {
        if self.lies {
            return Ok(u64::MAX);
        }
        let mut done = 0;
        for _ in 0..self.rng.below(self.room as u64 + 1) {
            let Some((position, chunk, taken)) = self.held.pop_front() else { break };
            assert_eq!(position, self.looked_at, "in order, without a gap");
            let at = position as usize;
            assert!(chunk[..taken as usize] == self.expected[at..at + taken as usize], "other bytes at {at}");
            self.looked_at += taken;
            done += taken;
        }
        Ok(done)
    }

    fn settle(&mut self, _more: bool) -> Settled {
        Settled { ring: false, again: self.rng.below(4) == 0 }
    }

    fn end(&mut self, ending: Ending) -> bool {
        self.endings.push(ending);
        true
    }
}

impl Core<Slow> {
    fn open(&mut self, openings: impl IntoIterator<Item = Opening<NoTitle, Slow>>) -> Vec<StreamId> {
        self.streams.open(&mut self.engine, openings, 0)
    }

    fn take_arrivals(&mut self) {
        for arrival in self.arrivals.try_iter().collect::<Vec<_>>() {
            self.engine.arrived(arrival, 0);
        }
        self.engine.turn(0);
        while let Some(event) = self.engine.next_event() {
            assert!(!matches!(event, Event::Lost(..)), "{event:?}");
        }
    }

    /// Serves a set until all its streams have ended. Returns why each ended, in that order.
    fn serve(&mut self, mut set: Vec<StreamId>, in_two_calls: bool) -> Vec<(StreamId, Ending)> {
        let (mut ended, begun) = (Vec::new(), Instant::now());
        while !set.is_empty() {
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "nothing moves: {:?}",
                self.streams.state(&set)
            );
            self.take_arrivals();
            let batch = if in_two_calls {
                self.streams.read(&set, &mut self.engine, 0);
                self.streams.send(&set, &mut self.engine, 0)
            } else {
                self.streams.read_send(&set, &mut self.engine, 0)
            };
            for (id, ending) in batch.ended {
                self.streams.close(&[id], &mut self.engine, ending);
                set.retain(|other| *other != id);
                ended.push((id, ending));
            }
        }
        ended
    }
}

fn opening(body: Body, expected: Vec<u8>, seed: u64) -> Opening<NoTitle, Slow> {
    let outlet = Slow::new(expected, seed);
    let policy = DeliveryPolicy::without_deadline(Class::APERIODIC);
    Opening { session: None, body, position: 0, policy, chain_bytes_max: 1 << 20, outlet }
}

/// A head of bytes in memory, and an object after it.
fn with_head(fixture: &VolumeFixture, object: usize) -> (Body, Vec<u8>) {
    let head: Arc<[u8]> = Arc::from(&b"a head that the server made"[..]);
    let bytes = [&head[..], &fixture.bytes[object][..]].concat();
    (Body::new([Part::Bytes(Arc::clone(&head), 0..head.len())]).then(fixture.whole(object)), bytes)
}

#[test]
fn one_call_serves_many() {
    for in_two_calls in [false, true] {
        let fixture = VolumeFixture::new(&[300_000, 1, STRIPE_BYTES, 100_001], 8 << 20, None);
        let units = fixture.units(8);
        let mut core = Core::new(&units);
        let openings = (0..12).map(|number| {
            let (body, bytes) = with_head(&fixture, number % 4);
            opening(body, bytes, number as u64)
        });
        let set = core.open(openings.collect::<Vec<_>>());
        assert_eq!(core.streams.state(&set).into_iter().flatten().count(), 12);
        let ended = core.serve(set.clone(), in_two_calls);
        assert_eq!(ended.len(), 12);
        assert!(ended.iter().all(|(_, ending)| *ending == Ending::Complete));
        assert!(core.streams.is_empty());
        assert_eq!(core.streams.state(&set), vec![None; 12]);
        drop((core, units));
        assert_eq!(fixture.buffers_taken(), 0);
    }
}

#[test]
fn streams_share_the_smallest_arena() {
    let fixture = VolumeFixture::new(&[200_000, 150_000, 100_000], 0, None);
    let units = fixture.units(4);
    let mut core = Core::new(&units);
    let openings = (0..9).map(|number| {
        let (body, bytes) = with_head(&fixture, number % 3);
        opening(body, bytes, number as u64)
    });
    let set = core.open(openings.collect::<Vec<_>>());
    assert_eq!(core.serve(set, false).len(), 9);
    assert_eq!(units.budget().reserved(), 0);
    drop((core, units));
    assert_eq!(fixture.buffers_taken(), 0);
}

#[test]
fn a_chain_can_be_made_shorter() {
    let fixture = VolumeFixture::new(&[300_000], 8 << 20, None);
    let units = fixture.units(8);
    let mut core = Core::new(&units);
    let (body, bytes) = with_head(&fixture, 0);
    let set = core.open([opening(body, bytes, 1)]);
    core.streams.resize(&set, 5_000);
    let begun = Instant::now();
    let mut ended = false;
    while !ended {
        assert!(begun.elapsed() < Duration::from_secs(120), "nothing moves");
        core.take_arrivals();
        ended = !core.streams.read_send(&set, &mut core.engine, 0).ended.is_empty();
        let state = core.streams.state(&set)[0].unwrap();
        // One row more than the limit that was set, because rows come whole.
        assert!(state.chain_bytes < 5_000 + 4_000 && state.offered_bytes <= state.chain_bytes, "{state:?}");
    }
    assert_eq!(core.streams.state(&set)[0].unwrap().left_bytes, 0);
}

#[test]
fn a_reader_that_claims_too_much_ends_alone() {
    let fixture = VolumeFixture::new(&[300_000], 8 << 20, None);
    let units = fixture.units(8);
    let mut core = Core::new(&units);
    let openings = (0..3).map(|number| {
        let (body, bytes) = with_head(&fixture, 0);
        let mut opening = opening(body, bytes, number);
        opening.outlet.lies = number == 1;
        opening
    });
    let set = core.open(openings.collect::<Vec<_>>());
    let ended = core.serve(set.clone(), false);
    for (id, ending) in ended {
        assert_eq!(ending, if id == set[1] { Ending::BadCounter } else { Ending::Complete });
    }
}

#[test]
fn closing_gives_everything_back_at_any_time() {
    let fixture = VolumeFixture::new(&[300_000], 8 << 20, None);
    for turns in 0..12 {
        let units = fixture.units(8);
        let mut core = Core::new(&units);
        let (body, bytes) = with_head(&fixture, 0);
        let set = core.open([opening(body, bytes, turns)]);
        for _ in 0..turns {
            core.take_arrivals();
            let batch = core.streams.read_send(&set, &mut core.engine, 0);
            assert!(batch.ended.is_empty());
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(core.streams.close(&set, &mut core.engine, Ending::Closed), [true]);
        assert_eq!(
            core.streams.close(&set, &mut core.engine, Ending::Closed),
            [false],
            "the stream is closed already"
        );
        let begun = Instant::now();
        while core.engine.reads_in_flight() > 0 {
            core.take_arrivals();
            assert!(begun.elapsed() < Duration::from_secs(120), "reads stay under way");
        }
        assert_eq!(units.budget().reserved(), 0, "after {turns} turns");
        drop((core, units));
        assert_eq!(fixture.buffers_taken(), 0);
    }
}
