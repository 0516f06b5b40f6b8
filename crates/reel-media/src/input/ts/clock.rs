//! The 33-bit clock of transport streams (ISO 13818-1 section 2.4.3.7) as one continuous line of 90
//! kHz ticks.
//!
//! The clock wraps every 26.5 hours and may jump where streams were joined. What follows a jump is
//! a new part of the programme: all its streams are moved by one amount, the least with which the
//! pictures continue after their end in the part before, and the sound about there. So sound and
//! picture keep their distance.
//!
//! A stream may be interleaved late, and continue the part before although another stream has begun
//! the new one. That is so if its time stamp is where the next sample of that part is due, unless
//! the tables show that the file was joined here.

use super::pes::Stamps;

/// Ticks per second of all time stamps.
pub(crate) const RATE: u32 = 90_000;
const WRAP: i64 = 1 << 33;
const JUMP_FORWARD: i64 = 10 * RATE as i64;
/// Without decoding times, the time stamps of pictures are not in order.
const UNORDERED_BACK: i64 = -(RATE as i64);
/// So many pictures in order show that all of the stream are.
const ORDER_PROOF: u32 = 32;
/// Stamps of sound that come so much before its end are inaccurate only.
const SOUND_BACK: i64 = -(RATE as i64) / 10;

/// Sound that is left out at most at a joint, so that pictures continue without a gap.
const SOUND_CUT: i64 = RATE as i64 / 5;

/// One stream's line.
#[derive(Debug)]
pub(crate) struct Line {
    video: bool,
    /// Usual distance between samples.
    pub(crate) step: i64,
    /// End of the sound so far.
    pub(crate) sound_end: Option<i64>,
    added: i64,
    part: u64,
    /// Latest decoding time of video, presentation time of sound.
    last: Option<i64>,
    /// The one before it.
    before_last: Option<i64>,
    latest_pts: i64,
    /// Decoding times are in order: they are stated, or have been in order so far.
    ordered: bool,
    /// Time stamps of pictures that followed each other in order, until one did not.
    in_order: Option<u32>,
    joints: u64,
}

/// Where the next sample of a stream is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    part: u64,
    at: i64,
}

/// The clock of a programme.
#[derive(Debug, Default)]
pub(crate) struct ProgrammeClock {
    lines: Vec<Line>,
    /// What is added to the time stamps of the newest part, modulo the wrap.
    added: i64,
    /// The latest time of some stream: a stream that begins later is placed near it.
    reference: Option<i64>,
    /// Where the newest part began, if tables showed a joint there.
    joint: Option<u64>,
    /// Number of jumps; the number of the newest part.
    pub(crate) jumps: u64,
}

impl Line {
    fn new(video: bool) -> Self {
        Self {
            video,
            step: 0,
            sound_end: None,
            added: 0,
            part: 0,
            last: None,
            before_last: None,
            latest_pts: 0,
            ordered: !video,
            in_order: Some(0),
            joints: 0,
        }
    }

    /// The latest place.
    pub(crate) fn last(&self) -> Option<i64> {
        self.last
    }

    /// Where the next sample of the part is due.
    pub(crate) fn next(&self) -> Option<Due> {
        self.last.map(|last| Due { part: self.part, at: self.due(last) })
    }

    /// Whether the latest sample, in the same part, is later than it was due: samples before it are
    /// missing.
    pub(crate) fn is_later_than(&self, due: Due) -> bool {
        // Sound may be cut a frame later.
        let slack = if self.video { self.step / 2 } else { 2 * self.step };
        self.ordered && self.part == due.part && self.last.is_some_and(|last| last - due.at > slack)
    }

    fn key(&self, stamps: Stamps) -> i64 {
        if self.video { stamps.dts } else { stamps.pts }
    }

    /// Where the next sample is due.
    fn due(&self, last: i64) -> i64 {
        if self.video { last + self.step } else { self.sound_end.unwrap_or(last + self.step) }
    }

    /// Whether `at` can follow in the same part.
    fn follows(&self, at: i64, last: i64) -> bool {
        self.is_after(at, last, SOUND_BACK)
    }

    /// Whether `at` can be the first of a part that another stream began.
    fn joins(&self, at: i64, last: i64) -> bool {
        self.is_after(at, last, -SOUND_CUT)
    }

    /// Whether `at` can come after `last`, sound with up to `sound_back` of its end again.
    fn is_after(&self, at: i64, last: i64, sound_back: i64) -> bool {
        let back = match (self.video, self.ordered) {
            (true, true) => at >= last,
            (true, false) => at - last >= UNORDERED_BACK,
            (false, _) => at - self.due(last).max(last) >= sound_back,
        };
        back && at - last <= JUMP_FORWARD
    }

    /// Whether the stamp before `at` was a damaged one, a little late, and `at` continues the one
    /// before that.
    fn returns(&self, at: i64, last: i64) -> bool {
        let back = (UNORDERED_BACK..0).contains(&(at - last));
        let steps = |before: i64| (1..=3 * self.step).contains(&(at - before));
        self.video && back && self.before_last.is_some_and(steps)
    }

    /// Whether `at` is where the next sample is due.
    fn continues(&self, at: i64, last: i64) -> bool {
        let slack = if self.video { self.step / 2 } else { self.step };
        (at - self.due(last)).abs() <= slack
    }

    /// The least that must be added to stamps so that they begin after the end.
    fn needs(&self, stamps: Stamps, last: i64, beside_video: bool) -> i64 {
        let after_last = self.due(last).max(last) - self.key(stamps);
        if !self.video {
            return after_last - if beside_video { SOUND_CUT } else { 0 };
        }
        // Pictures are decoded and shown after those before.
        let reorder = nearest(stamps.pts - stamps.dts, 0);
        after_last.max(self.latest_pts + self.step - (stamps.dts + reorder))
    }
}

impl ProgrammeClock {
    /// For streams of which these are video.
    pub(crate) fn new(video: impl Iterator<Item = bool>) -> Self {
        Self { lines: video.map(Line::new).collect(), ..Self::default() }
    }

    /// One more stream.
    pub(crate) fn add_line(&mut self, video: bool) {
        self.lines.push(Line::new(video));
    }

    /// The latest time of some stream.
    pub(crate) fn reference(&self) -> Option<i64> {
        self.reference
    }

    /// The line of a stream.
    pub(crate) fn line(&mut self, stream: usize) -> &mut Line {
        &mut self.lines[stream]
    }

    /// The place of time stamps of a stream on the line. `joints` counts the joints that tables
    /// showed; `ahead` finds the next time stamps of other streams.
    pub(crate) fn place(
        &mut self,
        stream: usize,
        stamps: Stamps,
        joints: u64,
        ahead: impl FnOnce() -> Vec<(usize, Stamps)>,
    ) -> Stamps {
        let line = &self.lines[stream];
        let key = line.key(stamps);
        let Some(last) = line.last else {
            let at = self.reference.map_or(key, |near| nearest(key + self.added, near));
            let (added, part) = (self.added, self.jumps);
            let line = &mut self.lines[stream];
            (line.added, line.part) = (added, part);
            return self.remember(stream, stamps, at, joints);
        };
        let at = nearest(key + line.added, last);
        if line.part < self.jumps {
            let moved = nearest(key + self.added, last);
            let joined = self.joint.is_some_and(|joint| joints >= joint);
            if (joined || !line.continues(at, last)) && line.joins(moved, last) {
                let (added, part) = (self.added, self.jumps);
                let line = &mut self.lines[stream];
                (line.added, line.part) = (added, part);
                return self.remember(stream, stamps, moved, joints);
            }
        }
        let joined = joints != line.joints;
        if !joined && line.returns(at, last) {
            return self.remember(stream, stamps, at, joints);
        }
        if line.follows(at, last) && !(joined && line.video && at < last) {
            return self.remember(stream, stamps, at, joints);
        }
        let Some(added) = self.joint_of(stream, stamps, last, joined, &ahead()) else {
            return self.remember(stream, stamps, at, joints);
        };
        self.added = added.rem_euclid(WRAP);
        self.jumps += 1;
        self.joint = joined.then_some(joints);
        let (added_now, part) = (self.added, self.jumps);
        let line = &mut self.lines[stream];
        (line.added, line.part) = (added_now, part);
        self.remember(stream, stamps, key + added, joints)
    }

    /// What a new part that begins with `stamps` adds to them; `None` if it is the sound alone that
    /// goes back a little.
    fn joint_of(
        &self,
        stream: usize,
        stamps: Stamps,
        last: i64,
        joined: bool,
        ahead: &[(usize, Stamps)],
    ) -> Option<i64> {
        let line = &self.lines[stream];
        let is_known =
            |(other, _): &&(usize, Stamps)| self.lines.get(*other).is_some_and(|line| line.last.is_some());
        let video = line.video || ahead.iter().filter(is_known).any(|(other, _)| self.lines[*other].video);
        let least = line.needs(stamps, last, video);
        let mut added = least;
        let back = nearest(line.key(stamps) + line.added, last) - line.due(last);
        let small = (UNORDERED_BACK..0).contains(&back);
        for (other, first) in ahead {
            let Some((theirs, their_last)) =
                self.lines.get(*other).and_then(|line| Some((line, line.last?))).filter(|_| *other != stream)
            else {
                continue;
            };
            let at = nearest(theirs.key(*first) + theirs.added, their_last);
            if !joined && theirs.continues(at, their_last) {
                if theirs.video && !line.video && small {
                    return None;
                }
                continue;
            }
            let needed = nearest(theirs.needs(*first, their_last, video), least);
            if (needed - least).abs() <= JUMP_FORWARD {
                added = added.max(needed);
            }
        }
        Some(added)
    }

    fn remember(&mut self, stream: usize, stamps: Stamps, at: i64, joints: u64) -> Stamps {
        let line = &mut self.lines[stream];
        let placed = if line.video {
            line.in_order = line.in_order.filter(|_| line.last.is_none_or(|last| at >= last));
            line.in_order = line.in_order.map(|count| count.saturating_add(1));
            line.ordered |= stamps.pts != stamps.dts || line.in_order.is_some_and(|n| n >= ORDER_PROOF);
            Stamps { pts: nearest(stamps.pts - stamps.dts + at, at), dts: at }
        } else {
            Stamps { pts: at, dts: at }
        };
        line.latest_pts = match line.last {
            Some(last) if (at - last).abs() <= JUMP_FORWARD => line.latest_pts.max(placed.pts),
            _ => placed.pts,
        };
        line.before_last = line.last.replace(at);
        line.joints = joints;
        if !line.video {
            // Until its frames are cut.
            line.sound_end = None;
        }
        self.reference = Some(at);
        placed
    }
}

/// The number nearest to `near` that equals `stamp` modulo the wrap.
pub(crate) fn nearest(stamp: i64, near: i64) -> i64 {
    let ahead = (stamp - near).rem_euclid(WRAP);
    near + if ahead >= WRAP / 2 { ahead - WRAP } else { ahead }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FRAME: i64 = 3600;

    fn clock(video: &[bool]) -> ProgrammeClock {
        let mut clock = ProgrammeClock::new(video.iter().copied());
        clock.lines.iter_mut().for_each(|line| line.step = FRAME);
        clock
    }

    fn put(clock: &mut ProgrammeClock, stream: usize, stamp: i64, ahead: &[(usize, i64)]) -> i64 {
        let stamps = |stamp| Stamps { pts: stamp, dts: stamp };
        let ahead = || ahead.iter().map(|(other, stamp)| (*other, stamps(*stamp))).collect();
        clock.place(stream, stamps(stamp), 0, ahead).pts
    }

    #[test]
    fn two_streams_over_the_wrap() {
        let mut clock = clock(&[true, false]);
        let start = WRAP - 3600;
        assert_eq!(put(&mut clock, 0, start, &[]), start);
        assert_eq!(put(&mut clock, 0, 0, &[]), WRAP);
        assert_eq!(put(&mut clock, 1, WRAP - 1800, &[]), WRAP - 1800);
        assert_eq!(put(&mut clock, 1, 120, &[]), WRAP + 120);
        assert_eq!(clock.jumps, 0);
    }

    #[test]
    fn both_streams_follow_one_jump_after_the_later_end() {
        let mut clock = clock(&[true, false]);
        put(&mut clock, 0, 90_000, &[]);
        put(&mut clock, 1, 99_000, &[]);
        clock.lines[0].ordered = true;
        // Sound ends at 102600, so some is left out; pictures come first in the new part.
        assert_eq!(put(&mut clock, 0, 5_000_000, &[(1, 5_000_420)]), 93_600);
        assert_eq!(put(&mut clock, 1, 5_000_420, &[]), 94_020, "the distance in the new part");
        // Back by half a second.
        assert_eq!(put(&mut clock, 1, 4_955_420, &[(0, 4_955_000)]), 97_620);
        assert_eq!(put(&mut clock, 0, 4_955_000, &[]), 97_200);
        assert_eq!(clock.jumps, 2);
    }

    #[test]
    fn sound_that_is_cut_at_a_joint_causes_no_other_jump() {
        let mut clock = clock(&[true, false]);
        put(&mut clock, 0, 90_000, &[]);
        put(&mut clock, 1, 105_000, &[]);
        clock.lines[0].ordered = true;
        // Sound ends at 108600, and 15000 of the new sound are before that.
        assert_eq!(put(&mut clock, 0, 5_000_000, &[(1, 5_000_000)]), 93_600);
        assert_eq!(put(&mut clock, 1, 5_000_000, &[]), 93_600);
        assert_eq!(put(&mut clock, 0, 5_003_600, &[(1, 5_003_600)]), 97_200);
        assert_eq!(clock.jumps, 1);
    }

    #[test]
    fn a_late_stream_continues_its_part() {
        let mut clock = clock(&[true, false]);
        put(&mut clock, 0, 90_000, &[]);
        put(&mut clock, 1, 86_400, &[]);
        assert_eq!(put(&mut clock, 0, 5_000_000, &[(1, 90_000)]), 93_600);
        assert_eq!(put(&mut clock, 1, 90_000, &[]), 90_000);
        assert_eq!(put(&mut clock, 1, 5_000_100, &[]), 93_700);
        assert_eq!(clock.jumps, 1);
    }

    #[test]
    fn a_damaged_stamp_moves_nothing() {
        let mut clock = clock(&[true, false]);
        clock.lines[0].ordered = true;
        for frame in 0..4 {
            put(&mut clock, 0, frame * FRAME, &[]);
            put(&mut clock, 1, frame * FRAME, &[]);
        }
        put(&mut clock, 0, 4 * FRAME + 45_000, &[]);
        assert_eq!(put(&mut clock, 0, 5 * FRAME, &[(1, 4 * FRAME)]), 5 * FRAME);
        assert_eq!(put(&mut clock, 1, 4 * FRAME, &[]), 4 * FRAME);
        assert_eq!(clock.jumps, 0);
    }

    proptest! {
        #[test]
        fn steps_are_kept_wherever_the_clock_starts(start in 0..WRAP, steps in proptest::collection::vec(0..JUMP_FORWARD, 1..50)) {
            let mut clock = clock(&[true]);
            let mut at = put(&mut clock, 0, start, &[]);
            let mut stamp = start;
            for step in steps {
                stamp = (stamp + step) % WRAP;
                let next = put(&mut clock, 0, stamp, &[]);
                prop_assert_eq!(next - at, step);
                at = next;
            }
        }

        // Within a part, samples follow within JUMP_FORWARD. At a joint, the part before lasts for
        // one more step, which is at most that long. What sound needs to follow its own end is
        // added, if that is no more than JUMP_FORWARD. The pictures may have been shown out of
        // order until there.
        #[test]
        fn time_increases_for_any_stamps(stamps in proptest::collection::vec((0..WRAP, 0..WRAP), 1..50)) {
            let mut clock = clock(&[true, false]);
            let mut last = None;
            for (stamp, of_sound) in stamps {
                let at = put(&mut clock, 0, stamp, &[(1, of_sound)]);
                put(&mut clock, 1, of_sound, &[]);
                if let Some(last) = last {
                    prop_assert!((UNORDERED_BACK..=2 * JUMP_FORWARD - UNORDERED_BACK).contains(&(at - last)));
                }
                last = Some(at);
            }
        }
    }
}
