//! Where a reader is in a file, learnt from reads. Pure.
//!
//! A kernel reads ahead, several ranges at a time, and they arrive in any order. Together they are
//! one run: one place at which the file is read from front to back. A thumbnailer begins a few runs
//! and leaves them at once. A player stays with one, or leaves it for another one when it seeks.

use crate::limits::{READ_BYTES_MAX, REQUESTS_MAX};
use std::cmp::Reverse;
use std::ops::Range;

/// Reads of one reader of one file.
#[derive(Debug, Default)]
pub struct Reader {
    runs: Vec<Run>,
    /// The run that is played, by when it began.
    played: Option<u64>,
    /// A place is held for this reader: its first read plays.
    is_expected: bool,
    /// Runs that have begun.
    begun: u64,
}

/// What a read is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Of a look, which may become playing. A person waits for it.
    Looks,
    /// Of more than a look, at a place where nothing is played.
    Copies,
    /// Of what is played. Up to `position` the file was read without a gap.
    Plays {
        /// The offset.
        position: u64,
    },
}

/// One place at which a file is read from front to back.
#[derive(Debug)]
struct Run {
    number: u64,
    begin: u64,
    begun_ns: u64,
    /// Up to here there is no gap.
    front: u64,
    /// When `front` last moved.
    moved_ns: u64,
    /// Ranges beyond a gap, in order, none of which touch.
    beyond: Vec<Range<u64>>,
    /// When there was first something beyond a gap.
    gap_ns: u64,
    /// The length of the longest read.
    longest: u64,
}

/// Runs that are remembered.
const RUNS_MAX: usize = 4;
/// How far a read may be beyond the front, or behind it, and still belong to a run: as far as a
/// client may have reads under way on one connection.
const REORDERED_BYTES_MAX: u64 = REQUESTS_MAX as u64 * READ_BYTES_MAX as u64;
/// A gap that is not read for so long was jumped over. Reads that were sent together arrive within
/// milliseconds.
const REORDERED_NS_MAX: u64 = 250_000_000;
/// A read that is no more than so many reads beyond the front has overtaken those before it,
/// however long nothing was read. A kernel that has enough ahead is quiet, and then sends several
/// reads at once over its connections. A player that seeks goes farther.
const OVERTAKEN_MAX: u64 = 4;
/// Ranges beyond gaps that are remembered.
const BEYOND_MAX: usize = 64;
/// A run is played when it has lasted so long, and so much of the film was read in it.
const PLAYS_AFTER_NS: u64 = 1_000_000_000;
/// Another run is played only when the one before was not read for so long. A kernel finishes reads
/// after its player has sought.
const LEFT_AFTER_NS: u64 = 1_000_000_000;
/// A look is no longer than this: a second of the largest films.
const LOOK_BYTES_MAX: u64 = 16 << 20;

impl Reader {
    /// The next read plays, wherever it is.
    pub fn expect(&mut self) {
        self.is_expected = true;
    }

    /// A range is read. `media_ns` gives the media time of an offset.
    pub fn reads(&mut self, range: &Range<u64>, media_ns: impl Fn(u64) -> u64, now_ns: u64) -> Reading {
        let at = self.run_of(range, now_ns);
        let position = self.runs[at].front.min(range.start);
        self.runs[at].add(range, now_ns);
        let at = self.join(at, now_ns);
        let (number, looked) = (self.runs[at].number, self.runs[at].front - self.runs[at].begin);
        if self.played != Some(number) && self.plays(at, media_ns, now_ns) {
            self.played = Some(number);
        }
        if self.played == Some(number) {
            return Reading::Plays { position };
        }
        if looked <= LOOK_BYTES_MAX { Reading::Looks } else { Reading::Copies }
    }

    /// The run that a range belongs to, or a new one.
    fn run_of(&mut self, range: &Range<u64>, now_ns: u64) -> usize {
        self.runs.iter_mut().for_each(|run| run.jump(range.start, now_ns));
        let runs = self.runs.iter().enumerate().filter(|(_, run)| run.has(range, now_ns));
        // A run that was left may be near, too, where its file is read for the second time.
        let distance = |run: &Run| (self.played != Some(run.number), range.start.abs_diff(run.front));
        if let Some((at, _)) = runs.min_by_key(|(_, run)| (distance(run), Reverse(run.moved_ns))) {
            return at;
        }
        if self.runs.len() >= RUNS_MAX {
            let played = self.played;
            let others = self.runs.iter().enumerate().filter(|(_, run)| Some(run.number) != played);
            let oldest = others.min_by_key(|(_, run)| run.moved_ns).map_or(0, |(at, _)| at);
            self.runs.remove(oldest);
        }
        self.begun += 1;
        self.runs.push(Run {
            number: self.begun,
            begin: range.start,
            begun_ns: now_ns,
            front: range.start,
            moved_ns: now_ns,
            beyond: Vec::new(),
            gap_ns: now_ns,
            longest: 0,
        });
        self.runs.len() - 1
    }

    /// Joins a run with those that begin where it has arrived: they were begun by reads that came
    /// before their turn. A run that was left long ago is none of those. Returns where it is now.
    fn join(&mut self, at: usize, now_ns: u64) -> usize {
        let mut run = self.runs.remove(at);
        let follows = |run: &Run, other: &Run| {
            (run.begin..=run.front).contains(&other.begin)
                && now_ns.saturating_sub(other.moved_ns) <= REORDERED_NS_MAX
        };
        while let Some(other) = self.runs.iter().position(|other| follows(&run, other)) {
            let other = self.runs.remove(other);
            run.front = run.front.max(other.front);
            run.begun_ns = run.begun_ns.min(other.begun_ns);
            run.longest = run.longest.max(other.longest);
            run.gap_ns = run.gap_ns.max(other.gap_ns);
            other.beyond.into_iter().for_each(|range| run.add_beyond(range));
            run.fill();
            if self.played == Some(other.number) {
                self.played = Some(run.number);
            }
        }
        self.runs.push(run);
        self.runs.len() - 1
    }

    /// Whether a run that was not played until now is.
    fn plays(&mut self, at: usize, media_ns: impl Fn(u64) -> u64, now_ns: u64) -> bool {
        if std::mem::take(&mut self.is_expected) {
            return true;
        }
        let played = self.runs.iter().find(|run| Some(run.number) == self.played);
        if played.is_some_and(|run| now_ns.saturating_sub(run.moved_ns) < LEFT_AFTER_NS) {
            return false;
        }
        let run = &self.runs[at];
        let read_ns = media_ns(run.front).saturating_sub(media_ns(run.begin));
        let lasted_ns = now_ns.saturating_sub(run.begun_ns);
        read_ns.min(lasted_ns) >= PLAYS_AFTER_NS
    }
}

impl Run {
    /// Whether a range belongs to this run: it is near the front, and no gap was jumped over.
    fn has(&self, range: &Range<u64>, now_ns: u64) -> bool {
        let longest = self.longest.max(range.end - range.start);
        let overtakes = range.start <= self.front.saturating_add(longest.saturating_mul(OVERTAKEN_MAX));
        range.start.abs_diff(self.front) <= REORDERED_BYTES_MAX && (overtakes || !self.is_old(now_ns))
    }

    fn add(&mut self, range: &Range<u64>, now_ns: u64) {
        self.longest = self.longest.max(range.end - range.start);
        if range.start > self.front {
            if self.beyond.is_empty() {
                self.gap_ns = now_ns;
            }
            return self.add_beyond(range.clone());
        }
        // A range before the first one was overtaken by it.
        self.begin = self.begin.min(range.start);
        let before = self.front;
        self.front = self.front.max(range.end);
        self.fill();
        if self.front > before {
            self.moved_ns = now_ns;
        }
    }

    /// Remembers a range beyond a gap, as one with those that it touches.
    fn add_beyond(&mut self, range: Range<u64>) {
        let from = self.beyond.partition_point(|other| other.end < range.start);
        let to = self.beyond.partition_point(|other| other.start <= range.end);
        let touched = &self.beyond[from..to];
        let start = touched.first().map_or(range.start, |first| first.start.min(range.start));
        let end = touched.last().map_or(range.end, |last| last.end.max(range.end));
        if from < to || self.beyond.len() < BEYOND_MAX {
            self.beyond.splice(from..to, std::iter::once(start..end));
        }
    }

    /// Before a read at `start`: a gap that was not read for long was jumped over, so the run
    /// continues with what was read beyond it. What is beyond `start` is not reached yet.
    fn jump(&mut self, start: u64, now_ns: u64) {
        while self.is_old(now_ns) && self.beyond.first().is_some_and(|next| next.start <= start) {
            let next = self.beyond.remove(0);
            (self.begin, self.front) = (next.start, next.end);
            (self.begun_ns, self.moved_ns) = (self.gap_ns, self.gap_ns);
        }
    }

    /// Whether what is not read yet at the front is no longer under way.
    fn is_old(&self, now_ns: u64) -> bool {
        let changed_ns = if self.beyond.is_empty() { self.moved_ns } else { self.moved_ns.max(self.gap_ns) };
        now_ns.saturating_sub(changed_ns) > REORDERED_NS_MAX
    }

    /// Moves the front over the ranges that follow it.
    fn fill(&mut self) {
        while self.beyond.first().is_some_and(|next| next.start <= self.front) {
            self.front = self.front.max(self.beyond.remove(0).end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    /// A film of 8 Mb/s: a megabyte a second.
    fn media_ns(offset: u64) -> u64 {
        offset * 1000
    }

    fn reads(reader: &mut Reader, start: u64, bytes: u64, at_ms: u64) -> Reading {
        reader.reads(&(start..start + bytes), media_ns, at_ms * MS)
    }

    /// Plays from `start` for so long, at the film's pace; the last reading.
    fn play(reader: &mut Reader, start: u64, begin_ms: u64, for_ms: u64) -> Reading {
        let steps = (0..for_ms).step_by(50);
        steps.map(|ms| reads(reader, start + ms * 1000, 50_000, begin_ms + ms)).last().expect("a read")
    }

    #[test]
    fn a_player_is_known_after_a_second() {
        let mut reader = Reader::default();
        assert_eq!(play(&mut reader, 0, 0, 1000), Reading::Looks);
        assert_eq!(play(&mut reader, 1_000_000, 1000, 100), Reading::Plays { position: 1_050_000 });
        // It has paused.
        assert_eq!(reads(&mut reader, 1_100_000, 50_000, 90_000), Reading::Plays { position: 1_100_000 });
    }

    #[test]
    fn a_thumbnailer_never_plays_and_a_copy_is_no_long_look() {
        let mut reader = Reader::default();
        for (number, start) in [0, 100_000_000, 200_000_000, 300_000_000, 50_000_000].into_iter().enumerate()
        {
            for step in 0..20 {
                let reading = reads(&mut reader, start + step * 50_000, 50_000, number as u64 * 300 + step);
                assert_eq!(reading, Reading::Looks);
            }
        }
        let mut copy = Reader::default();
        let last = (0..400).map(|step| reads(&mut copy, step * 50_000, 50_000, step)).last();
        assert_eq!(last, Some(Reading::Copies), "all of it in less than a second");
    }

    #[test]
    fn a_seek_is_a_look_until_the_other_place_is_left() {
        for to in [3_000_000, 500_000_000] {
            let mut reader = Reader::default();
            play(&mut reader, 0, 0, 2000);
            assert_eq!(play(&mut reader, 2_000_000 + to, 2300, 900), Reading::Looks);
            let later = play(&mut reader, 2_900_000 + to, 3200, 500);
            assert_eq!(later, Reading::Plays { position: 3_350_000 + to });
        }
        // A look at the end of the file leaves what is played as it is.
        let mut reader = Reader::default();
        play(&mut reader, 0, 0, 2000);
        assert_eq!(reads(&mut reader, 900_000_000, 50_000, 2000), Reading::Looks);
        assert_eq!(reads(&mut reader, 2_000_000, 50_000, 2010), Reading::Plays { position: 2_000_000 });
    }

    #[test]
    fn a_jump_that_might_have_been_read_ahead_is_of_what_is_played() {
        for (jump, bytes) in [(1_000_000, 50_000), (10_000_000, 50_000), (15_000_000, 4096)] {
            let mut reader = Reader::default();
            play(&mut reader, 0, 0, 2000);
            let to = 2_000_000 + jump;
            for step in 0..200 {
                let reading = reads(&mut reader, to + step * bytes, bytes, 2050 + step * bytes / 1000);
                assert!(matches!(reading, Reading::Plays { .. }), "read {step} after {jump} bytes");
            }
            let (next, at_ms) = (to + 200 * bytes, 2050 + 200 * bytes / 1000);
            assert_eq!(reads(&mut reader, next, bytes, at_ms), Reading::Plays { position: next });
        }
    }

    #[test]
    fn looks_near_each_other_do_not_play() {
        let mut reader = Reader::default();
        for number in 0..40 {
            let reading = reads(&mut reader, number * 5_000_000, 500_000, number * 200);
            assert!(!matches!(reading, Reading::Plays { .. }), "look {number}: {reading:?}");
        }
    }

    #[test]
    fn reads_that_overtake_others_after_a_quiet_time_are_of_what_is_played() {
        let mut reader = Reader::default();
        play(&mut reader, 0, 0, 2000);
        for burst in 0..5 {
            let (front, at_ms) = (2_000_000 + burst * 2_000_000, 4000 + burst * 2000);
            for (place, position) in [(2, 0), (0, 0), (3, 1), (1, 1)] {
                let reading = reads(&mut reader, front + place * 500_000, 500_000, at_ms);
                assert_eq!(reading, Reading::Plays { position: front + position * 500_000 }, "read {place}");
            }
        }
    }

    #[test]
    fn a_file_that_is_read_for_the_second_time_is_played_from_where_it_is_read() {
        let mut reader = Reader::default();
        play(&mut reader, 1_000_000, 0, 30_000);
        // The first reads are too far back for what was played, and come to where that began.
        for step in 0..30 {
            let reading = reads(&mut reader, step * 50_000, 50_000, 60_000 + step * 20);
            assert_eq!(reading, Reading::Looks, "step {step}");
        }
        let later = play(&mut reader, 1_500_000, 61_000, 1000);
        assert_eq!(later, Reading::Plays { position: 2_450_000 });
        for second in 0..40 {
            let later = play(&mut reader, 2_500_000 + second * 1_000_000, 62_000 + second * 1000, 1000);
            assert_eq!(later, Reading::Plays { position: 3_450_000 + second * 1_000_000 });
        }
    }

    #[test]
    fn an_older_run_ahead_takes_no_reads_of_what_is_played() {
        let mut reader = Reader::default();
        play(&mut reader, 30_000_000, 0, 2000);
        play(&mut reader, 0, 4000, 1500);
        // For the older run, 14 MB are within what may be out of order.
        for step in 0..400 {
            let (start, at_ms) = (1_500_000 + step * 50_000, 5500 + step * 50);
            assert_eq!(reads(&mut reader, start, 50_000, at_ms), Reading::Plays { position: start });
        }
    }

    #[test]
    fn who_is_expected_plays_at_once() {
        let mut reader = Reader::default();
        reader.expect();
        assert_eq!(reads(&mut reader, 70_000_000, 50_000, 0), Reading::Plays { position: 70_000_000 });
    }

    proptest! {
        /// Reads of one kernel, a few under way, in any order: after a second all are of what
        /// is played, and the position is where there is no gap.
        #[test]
        fn reads_in_any_order_are_one_viewer(
            swaps in proptest::collection::vec(0_usize..16, 400),
            bytes in 4096_u64..700_000,
            first in 0_u64..1 << 40,
        ) {
            let mut order: Vec<u64> = (0..400).collect();
            for (at, swap) in swaps.iter().enumerate() {
                let other = (at + swap).min(399);
                // No read is more than 12 places from its own: for less than 250 ms.
                if order[at].abs_diff(other as u64) < 12 && order[other].abs_diff(at as u64) < 12 {
                    order.swap(at, other);
                }
            }
            let mut reader = Reader::default();
            let mut read = [false; 400];
            for (at, &number) in order.iter().enumerate() {
                let start = first + number * bytes;
                let begin = read.iter().position(|is_read| !is_read).unwrap_or(400) as u64;
                read[number as usize] = true;
                let ms = at as u64 * 10;
                match reads(&mut reader, start, bytes, ms) {
                    Reading::Plays { position } => {
                        prop_assert!(position <= start);
                        prop_assert!(position >= first + begin.min(number) * bytes, "behind a gap");
                        prop_assert!(position == first + begin * bytes, "{position} at {number}");
                    }
                    _ => prop_assert!(ms <= 1000 || bytes * at as u64 <= 2_000_000, "{number} of {ms} ms"),
                }
            }
        }

        #[test]
        fn no_reads_cost_much(
            starts in proptest::collection::vec((0_u64..u64::MAX / 2, 0_u64..1 << 20, 0_u64..400), 1..600),
        ) {
            let mut reader = Reader::default();
            let mut now_ms = 0;
            for (start, bytes, ms) in starts {
                now_ms += ms;
                reader.reads(&(start..start + bytes), |offset| offset, now_ms * MS);
                prop_assert!(reader.runs.len() <= RUNS_MAX);
                prop_assert!(reader.runs.iter().all(|run| run.beyond.len() <= 2 * BEYOND_MAX));
                prop_assert!(reader.runs.iter().all(|run| run.begin <= run.front));
            }
        }
    }
}
