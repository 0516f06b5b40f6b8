//! Streams in step, as a receiver sees them. The clock is the test's own, and answers of disks are
//! held back by the test.

use crate::core::Core;
use reel_arena::mms::Ending;
use reel_cache::{Arrival, Units};
use reel_fixture::VolumeFixture;
use reel_play::{StepSource, StepTimes};
use reel_qos::Class;
use reel_serve::streams::{Offer, Outlet, Settled, StepOpening, StreamId};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;
/// What people do not notice between lips and voice (Halvorsen).
const IN_STEP_NS: u64 = 80 * MS;
/// The server looks at its streams this often.
const LOOK_NS: u64 = 20 * MS;
const PICTURE_NS: u64 = 40 * MS;
const PICTURE_BYTES: u64 = 4_000;
/// A frame of sound at 48 kHz.
const SOUND_NS: u64 = 1_024 * 1_000_000_000 / 48_000;
const SOUND_BYTES: u64 = 340;

/// A message that was shown.
#[derive(Clone, Copy, Debug)]
struct Shown {
    /// The media time that it covers.
    media_ns: u64,
    until_ns: u64,
    due_ns: u64,
    at_ns: u64,
}

/// A receiver that shows each message when it is due, and gives it back then.
struct Receiver {
    now_ns: Rc<Cell<u64>>,
    /// Bytes and time of a sample.
    sample: (u64, u64),
    /// Media time, due time, bytes.
    held: VecDeque<(u64, u64, u64)>,
    done_bytes: u64,
    shown: Rc<std::cell::RefCell<Vec<Shown>>>,
    /// It shows nothing until then.
    stalls_until_ns: Rc<Cell<u64>>,
    moved_ns: Rc<Cell<u64>>,
}

impl Receiver {
    /// Shows what is due.
    fn play(&mut self) {
        let now_ns = self.now_ns.get();
        while now_ns >= self.stalls_until_ns.get()
            && let Some((media_ns, due_ns, bytes)) = self.held.front().copied()
            && due_ns <= now_ns
        {
            self.held.pop_front();
            self.done_bytes += bytes;
            // Messages begin with samples.
            let until_ns = media_ns + bytes.div_ceil(self.sample.0) * self.sample.1;
            self.shown.borrow_mut().push(Shown { media_ns, until_ns, due_ns, at_ns: now_ns });
        }
    }
}

impl Outlet for Receiver {
    fn offer(&mut self, _: &Offer<'_>) -> u64 {
        panic!("a stream in step has media times");
    }

    fn offer_in_step(&mut self, offer: &Offer<'_>, media_ns: u64) -> u64 {
        let bytes = offer.chunk.len() as u64;
        if self.held.len() >= 128 {
            return 0;
        }
        self.held.push_back((media_ns, offer.due_ns, bytes));
        bytes
    }

    fn clock_moved(&mut self, by_ns: u64) {
        self.moved_ns.set(self.moved_ns.get() + by_ns);
        self.held.iter_mut().for_each(|(_, due_ns, _)| *due_ns += by_ns);
    }

    fn done_bytes(&mut self) -> Result<u64, Ending> {
        self.play();
        Ok(std::mem::take(&mut self.done_bytes))
    }

    fn settle(&mut self, _: bool) -> Settled {
        Settled::default()
    }

    fn end(&mut self, _: Ending) -> bool {
        false
    }
}

/// What a test sees of a stream.
struct Seen {
    shown: Rc<std::cell::RefCell<Vec<Shown>>>,
    stalls_until_ns: Rc<Cell<u64>>,
    moved_ns: Rc<Cell<u64>>,
}

/// A set of pictures and sound of so many seconds.
struct Set {
    now_ns: Rc<Cell<u64>>,
    core: Core<Receiver>,
    ids: Vec<StreamId>,
    seen: Vec<Seen>,
    /// Answers of disks are held back.
    is_held: bool,
    held: Vec<Arrival>,
    /// The most that one stream was ahead of the other at any time.
    skew_ns: u64,
}

fn fixture(seconds: u64) -> VolumeFixture {
    let bytes = |sample_bytes, sample_ns| (seconds * 1_000 * MS / sample_ns * sample_bytes) as usize;
    VolumeFixture::new(&[bytes(PICTURE_BYTES, PICTURE_NS), bytes(SOUND_BYTES, SOUND_NS)], 8 << 20, None)
}

/// A stream of samples of one length, from a media time on.
fn source(
    fixture: &VolumeFixture,
    object: usize,
    (sample_bytes, sample_ns): (u64, u64),
    from_ns: u64,
) -> StepSource {
    let body = fixture.whole(object);
    let file_bytes = body.bytes();
    let from = from_ns / sample_ns * sample_bytes;
    let times: Arc<[(u64, u64)]> =
        (0..file_bytes / sample_bytes).map(|sample| (sample * sample_bytes, sample * sample_ns)).collect();
    let body = body.slice(from..file_bytes);
    StepSource { body, head_bytes: 0, from, file_bytes, times: StepTimes::of_file(times), demand: None }
}

impl Set {
    fn open(fixture: &VolumeFixture, units: &Units, from_ns: u64, begin_ns: u64) -> Set {
        let now_ns = Rc::new(Cell::new(begin_ns));
        let mut core = Core::new(units);
        let session = core.session(Class::PERIODIC, begin_ns);
        let terms = core.engine.step_terms(&session, from_ns, begin_ns).unwrap();
        assert_eq!(terms.class, Class::PERIODIC, "nothing is refused, and nothing reserved");
        let mut seen = Vec::new();
        let sources = [(PICTURE_BYTES, PICTURE_NS), (SOUND_BYTES, SOUND_NS)].into_iter().enumerate();
        let sources = sources.map(|(object, sample)| {
            let shown = Rc::default();
            let (stalls_until_ns, moved_ns) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            seen.push(Seen {
                shown: Rc::clone(&shown),
                stalls_until_ns: Rc::clone(&stalls_until_ns),
                moved_ns: Rc::clone(&moved_ns),
            });
            let (held, done_bytes, now_ns) = (VecDeque::new(), 0, Rc::clone(&now_ns));
            let receiver = Receiver { now_ns, sample, held, done_bytes, shown, stalls_until_ns, moved_ns };
            (source(fixture, object, sample, from_ns), receiver)
        });
        let sources = sources.collect();
        let opening = StepOpening { session, from_ns, terms, sources };
        let ids = core.streams.open_in_step(&mut core.engine, opening, begin_ns);
        Set { now_ns, core, ids, seen, is_held: false, held: Vec::new(), skew_ns: 0 }
    }

    /// Lets time pass: receivers show what is due, and the server looks from time to time. What
    /// was requested of disks is there within the look, unless answers are held back.
    fn run(&mut self, for_ns: u64) {
        let until_ns = self.now_ns.get() + for_ns;
        while self.now_ns.get() < until_ns {
            self.now_ns.set(self.now_ns.get() + 5 * MS);
            for id in &self.ids {
                if let Some(receiver) = self.core.streams.outlet_mut(*id) {
                    receiver.play();
                }
            }
            self.compare();
            if self.now_ns.get().is_multiple_of(LOOK_NS) {
                self.look();
            }
        }
    }

    /// How far apart the two are now, as long as both play.
    fn compare(&mut self) {
        let now = self.seen.iter().map(|seen| seen.shown.borrow().last().copied());
        let now: Vec<Shown> = now.flatten().collect();
        if let ([one, other], 2) = (&now[..], self.ids.len()) {
            let ahead_ns = |one: &Shown, other: &Shown| one.media_ns.saturating_sub(other.until_ns);
            self.skew_ns = ahead_ns(one, other).max(ahead_ns(other, one)).max(self.skew_ns);
        }
    }

    fn look(&mut self) {
        let (now_ns, begun) = (self.now_ns.get(), Instant::now());
        loop {
            let came: Vec<Arrival> = self.core.arrivals.try_iter().collect();
            self.held.extend(came);
            if !self.is_held {
                for arrival in self.held.drain(..) {
                    self.core.engine.arrived(arrival, now_ns);
                }
            }
            self.core.engine.tick(now_ns);
            self.core.engine.turn(now_ns);
            while self.core.engine.next_event().is_some() {}
            let batch = self.core.streams.read_send(&self.ids, &mut self.core.engine, now_ns);
            for (id, ending) in batch.ended {
                assert_eq!(ending, Ending::Complete);
                self.core.streams.close(&[id], &mut self.core.engine, ending);
                self.ids.retain(|other| *other != id);
            }
            if self.is_held || self.core.engine.reads_in_flight() == 0 {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "reads stay under way");
            std::thread::yield_now();
        }
    }

    /// The largest difference, in due time and in the time at which they were shown, of what is
    /// shown of one media time from `from_ns` on; and how many media times were compared.
    fn apart_from(&self, from_ns: u64) -> (u64, u64, usize) {
        let [pictures, sound] = &self.seen[..] else { panic!("two streams") };
        let (pictures, sound) = (pictures.shown.borrow(), sound.shown.borrow());
        let (mut due, mut shown, mut count) = (0, 0, 0);
        for picture in pictures.iter().filter(|picture| picture.media_ns >= from_ns) {
            // The message that has this media time.
            let after = sound.partition_point(|sound| sound.media_ns <= picture.media_ns);
            let Some(heard) = after.checked_sub(1).map(|place| sound[place]) else { continue };
            if after == sound.len() && picture.media_ns - heard.media_ns > 2 * PICTURE_NS {
                continue;
            }
            due = picture.due_ns.abs_diff(heard.due_ns).max(due);
            shown = picture.at_ns.abs_diff(heard.at_ns).max(shown);
            count += 1;
        }
        (due, shown, count)
    }

    fn assert_in_step(&self, from_ns: u64, at_least: usize) {
        let (due_ns, shown_ns, count) = self.apart_from(from_ns);
        assert!(due_ns <= IN_STEP_NS, "{due_ns} ns between the due times");
        assert!(shown_ns <= IN_STEP_NS, "{shown_ns} ns between what is shown");
        assert!(count >= at_least, "{count} media times were in both");
        assert!(self.skew_ns <= IN_STEP_NS, "{} ns apart at some time", self.skew_ns);
    }

    /// The media time up to which a stream was shown.
    fn media_ns(&self, stream: usize) -> u64 {
        self.seen[stream].shown.borrow().last().map_or(0, |shown| shown.media_ns)
    }
}

#[test]
fn streams_begin_and_stay_in_step() {
    let fixture = fixture(12);
    let units = fixture.units(8);
    let mut set = Set::open(&fixture, &units, 0, 1_000 * MS);
    set.run(14_000 * MS);
    assert!(set.ids.is_empty(), "both are complete: {:?}", set.core.streams.state(&set.ids));
    set.assert_in_step(0, 295);
    assert_eq!(set.seen[0].moved_ns.get(), 0, "nothing was late");
    // A fifth of a second after the opening, in real time from then on.
    let first = set.seen[0].shown.borrow()[0];
    assert_eq!((first.media_ns, first.at_ns), (0, 1_200 * MS));
    let last = *set.seen[0].shown.borrow().last().unwrap();
    assert_eq!(last.at_ns, 1_200 * MS + last.media_ns);
}

/// A seek is a set that begins at another media time, with which no sample of one of them begins.
#[test]
fn streams_begin_in_step_at_any_media_time() {
    let fixture = fixture(12);
    for from_ns in [40 * MS, 3_001 * MS, 7_777 * MS, 11_500 * MS] {
        let units = fixture.units(8);
        let mut set = Set::open(&fixture, &units, from_ns, 5_000 * MS);
        set.run(3_000 * MS);
        set.assert_in_step(from_ns, 10);
        let first = set.seen[1].shown.borrow()[0];
        assert_eq!(first.at_ns, 5_200 * MS);
        assert!(first.media_ns <= from_ns && from_ns < first.media_ns + SOUND_NS, "{first:?}");
    }
}

#[test]
fn a_receiver_that_stalls_has_the_other_one_wait() {
    let fixture = fixture(20);
    for stalled in [0, 1] {
        let units = fixture.units(8);
        let mut set = Set::open(&fixture, &units, 0, 0);
        set.run(4_000 * MS);
        set.seen[stalled].stalls_until_ns.set(set.now_ns.get() + 3_000 * MS);
        set.run(3_000 * MS);
        let other = set.media_ns(1 - stalled);
        assert!(other - set.media_ns(stalled) <= 3 * PICTURE_NS, "the other one waits");
        assert!(set.skew_ns > 0, "it was noticed after a moment");
        set.run(4_000 * MS);
        let moved_ns = set.seen[stalled].moved_ns.get();
        assert!((2_900 * MS..=3_100 * MS).contains(&moved_ns), "{moved_ns}");
        assert_eq!(set.seen[0].moved_ns.get(), set.seen[1].moved_ns.get());
        // From what was not shown before the clock stood.
        set.assert_in_step(other + PICTURE_NS, 90);
    }
}

/// A program that is busy for a moment is late with both, and makes up for it. One that is paused
/// finds the clock where it left it.
#[test]
fn a_program_that_is_late_with_both_keeps_them_in_step() {
    let fixture = fixture(20);
    let units = fixture.units(8);
    let mut set = Set::open(&fixture, &units, 0, 0);
    let stall = |set: &mut Set, for_ns| {
        let until_ns = set.now_ns.get() + for_ns;
        set.seen.iter().for_each(|seen| seen.stalls_until_ns.set(until_ns));
        set.run(for_ns);
    };
    set.run(2_000 * MS);
    for _ in 0..10 {
        stall(&mut set, 300 * MS);
        set.run(50 * MS);
    }
    assert_eq!(set.seen[0].moved_ns.get(), 0);
    stall(&mut set, 4_000 * MS);
    let (pictures, sound) = (set.media_ns(0), set.media_ns(1));
    assert!(pictures < 5_600 * MS, "{pictures}");
    set.run(2_000 * MS);
    let moved_ns = set.seen[0].moved_ns.get();
    assert!((3_900 * MS..=4_100 * MS).contains(&moved_ns), "{moved_ns}");
    assert_eq!(moved_ns, set.seen[1].moved_ns.get());
    set.assert_in_step(pictures.max(sound) + PICTURE_NS, 40);
}

#[test]
fn a_stream_whose_disk_is_late_has_the_other_one_wait() {
    let fixture = fixture(20);
    let units = fixture.units(8);
    let mut set = Set::open(&fixture, &units, 0, 0);
    set.run(4_000 * MS);
    set.is_held = true;
    // What was read ahead lasts for a while, of sound for longer.
    set.run(9_000 * MS);
    let (seen, heard) = (set.media_ns(0), set.media_ns(1));
    assert!(seen < 10_000 * MS, "pictures have stopped: {seen}");
    assert!(heard.abs_diff(seen) <= 3 * PICTURE_NS, "sound waits at {heard}, pictures at {seen}");
    let has_sound = set.core.streams.state(&set.ids)[1].unwrap().offered_bytes;
    assert!(has_sound > 0, "there is sound that is not shown");
    set.is_held = false;
    set.run(4_000 * MS);
    assert!(set.media_ns(0) > seen + 3_000 * MS, "it continues");
    set.assert_in_step(heard.max(seen) + PICTURE_NS, 70);
    assert!(set.seen[1].moved_ns.get() > 2_000 * MS);
}

#[test]
fn a_set_continues_when_one_stream_is_closed() {
    let fixture = fixture(6);
    let units = fixture.units(8);
    let mut set = Set::open(&fixture, &units, 0, 0);
    set.run(1_000 * MS);
    // It stalls for ever, and is closed.
    set.seen[1].stalls_until_ns.set(u64::MAX);
    set.run(2_000 * MS);
    let stood = set.media_ns(0);
    assert!(stood < 1_500 * MS, "{stood}");
    let sound = set.ids.remove(1);
    assert_eq!(set.core.streams.in_step_with(&[sound]).len(), 2);
    set.core.streams.close(&[sound], &mut set.core.engine, Ending::Closed);
    assert_eq!(set.core.streams.in_step_with(&set.ids), set.ids);
    set.run(6_000 * MS);
    assert!(set.ids.is_empty(), "pictures are complete");
    drop((set, units));
    assert_eq!(fixture.buffers_taken(), 0);
}
