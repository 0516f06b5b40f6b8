//! The 33-bit clock of transport streams (ISO 13818-1 section 2.4.3.7) as one continuous line of 90
//! kHz ticks.
//!
//! The clock wraps every 26.5 hours and may jump where streams were joined. What follows a jump is
//! a new part of the programme: all its streams are moved by one amount, the least with which the
//! pictures continue after their end in the part before, and the sound about there. So sound and
//! picture keep their distance.
//!
//! A step forward is a jump if it is longer than [`JUMP_FORWARD`], unless it is a pause:
//! * The stream was silent beside others, and arrives where they are: a still, or a sound track
//!   that comes late.
//! * Pictures before it are shown there: a pause between reordered pictures.
//! * The clock reference (PCR) ran on from the sample before, and is near the new one.
//! * Nothing shows a joint: no counter of a stream or table breaks, nothing announces a
//!   discontinuity, and the next stamps of the stream continue there. Then one multiplexer wrote
//!   both sides of the step, and such a one announces a new time base (section 2.4.3.5). Its clock
//!   references say no more, because many write one only with each picture.
//!
//! A stream may be interleaved late, and continue the part before although another stream has begun
//! the new one. That is so if its time stamp is where the next sample of that part is due, unless
//! the tables show that the file was joined here.

use super::packet::Packet;
use super::pes::Stamps;

/// Ticks per second of all time stamps.
pub(crate) const RATE: u32 = 90_000;
/// Ticks of clock references in one of time stamps.
const REFERENCE_TICKS: u64 = 300;
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
    /// [`ProgrammeClock::breaks`] and [`ProgrammeClock::reference_breaks`] at the latest stamp.
    breaks: (u64, u64),
}

/// What comes next in the file.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// The next time stamps of each stream.
    pub(crate) stamps: Vec<(usize, Stamps)>,
    /// A counter breaks before them.
    pub(crate) is_broken: bool,
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
    /// The latest clock reference (PCR), on the line of its breaks.
    clock_reference: Option<i64>,
    /// Places at which the clock reference began or jumped.
    reference_breaks: u64,
    /// Places at which a counter breaks or a discontinuity is announced.
    pub(crate) breaks: u64,
    /// Where the first new part begins.
    pub(crate) first_jump: Option<i64>,
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
            breaks: (0, 0),
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

    /// Whether `at` can follow in the same part, which has come to `now`.
    fn follows(&self, at: i64, last: i64, now: i64) -> bool {
        // Reordered pictures that are shown after a pause are decoded before it.
        let now = if self.video { now.max(self.latest_pts) } else { now };
        at - last.max(now) <= JUMP_FORWARD && self.is_after(at, last, SOUND_BACK)
    }

    /// Whether `at` can be the first of a part that another stream began, and that has come to
    /// `now`.
    fn joins(&self, at: i64, last: i64, now: i64) -> bool {
        at - last.max(now) <= JUMP_FORWARD && self.is_after(at, last, -SOUND_CUT)
    }

    /// Whether `at` can come after `last`, sound with up to `sound_back` of its end again.
    fn is_after(&self, at: i64, last: i64, sound_back: i64) -> bool {
        match (self.video, self.ordered) {
            (true, true) => at >= last,
            (true, false) => at - last >= UNORDERED_BACK,
            (false, _) => at - self.due(last).max(last) >= sound_back,
        }
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

    /// Takes a packet that may carry a clock reference.
    pub(crate) fn refer(&mut self, packet: &Packet) {
        if packet.discontinuity {
            self.breaks += 1;
            self.reference_breaks += 1;
        }
        let Some(stamp) = packet.clock().and_then(|clock| i64::try_from(clock / REFERENCE_TICKS).ok()) else {
            return;
        };
        let at = self.clock_reference.map_or(stamp, |last| nearest(stamp, last));
        if self.clock_reference.is_none_or(|last| !(0..=JUMP_FORWARD).contains(&(at - last))) {
            self.reference_breaks += 1;
        }
        self.clock_reference = Some(at);
    }

    /// The place of time stamps of a stream on the line. `joints` counts the joints that tables
    /// showed; `ahead` finds the next time stamps of other streams.
    pub(crate) fn place(
        &mut self,
        stream: usize,
        stamps: Stamps,
        joints: u64,
        ahead: impl FnOnce() -> Ahead,
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
            if (joined || !line.continues(at, last)) && line.joins(moved, last, self.now(self.jumps)) {
                let (added, part, breaks) = (self.added, self.jumps, self.breaks);
                let line = &mut self.lines[stream];
                (line.added, line.part) = (added, part);
                // Its counter broke at the joint that the others have passed.
                self.lines
                    .iter_mut()
                    .filter(|line| line.part == part)
                    .for_each(|line| line.breaks.0 = breaks);
                return self.remember(stream, stamps, moved, joints);
            }
        }
        let joined = joints != line.joints;
        if !joined && line.returns(at, last) {
            return self.remember(stream, stamps, at, joints);
        }
        if line.follows(at, last, self.now(line.part)) && !(joined && line.video && at < last) {
            return self.remember(stream, stamps, at, joints);
        }
        let ahead = ahead();
        if at > last && self.is_pause(stream, stamps, at, joined, &ahead) {
            return self.remember(stream, stamps, at, joints);
        }
        let Some(added) = self.joint_of(stream, stamps, last, joined, &ahead.stamps) else {
            return self.remember(stream, stamps, at, joints);
        };
        self.added = added.rem_euclid(WRAP);
        self.jumps += 1;
        self.first_jump.get_or_insert(key + added);
        self.joint = joined.then_some(joints);
        let (added_now, part) = (self.added, self.jumps);
        let line = &mut self.lines[stream];
        (line.added, line.part) = (added_now, part);
        self.remember(stream, stamps, key + added, joints)
    }

    /// The latest time of the streams in a part.
    fn now(&self, part: u64) -> i64 {
        let times = self.lines.iter().filter(|line| line.part == part).filter_map(|line| line.last);
        times.max().unwrap_or(i64::MIN / 2)
    }

    /// Whether a long step forward of a stream to `at` is a pause and no jump of the clock.
    fn is_pause(&self, stream: usize, stamps: Stamps, at: i64, joined: bool, ahead: &Ahead) -> bool {
        let line = &self.lines[stream];
        let (breaks, reference_breaks) = line.breaks;
        let is_near =
            |clock| (UNORDERED_BACK..=JUMP_FORWARD).contains(&(nearest(line.key(stamps), clock) - clock));
        if reference_breaks == self.reference_breaks && self.clock_reference.is_some_and(is_near) {
            return true;
        }
        if joined || breaks != self.breaks {
            return false;
        }
        let next = ahead.stamps.iter().find(|(other, _)| *other == stream);
        let next_step = next.map(|(_, next)| nearest(line.key(*next) + line.added, at) - at);
        match (next_step, ahead.is_broken) {
            (Some(step), false) => step >= UNORDERED_BACK,
            // The break is that of this step: the stream's own counter continues by chance.
            (None | Some(UNORDERED_BACK..=JUMP_FORWARD), true) => false,
            // The last one before a joint, or of all.
            _ => !self.others_continue(stream, &ahead.stamps),
        }
    }

    /// Whether other streams continue beside the samples of this one before its step: its stamp is
    /// damaged.
    fn others_continue(&self, stream: usize, ahead: &[(usize, Stamps)]) -> bool {
        let own = self.lines[stream].last.unwrap_or(0);
        ahead.iter().filter(|(other, _)| *other != stream).any(|(other, first)| {
            let theirs = self.lines.get(*other).and_then(|line| Some((line, line.last?)));
            theirs.is_some_and(|(line, last)| {
                let at = nearest(line.key(*first) + line.added, last);
                line.continues(at, last) && (at - own).abs() <= JUMP_FORWARD
            })
        })
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
        // A stream that was silent beside others begins where those end.
        let now = self.now(line.part);
        let silent = if now - last > JUMP_FORWARD { now - last } else { 0 };
        let mut is_alone = true;
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
            if (-JUMP_FORWARD..=JUMP_FORWARD + silent).contains(&(needed - least)) {
                added = added.max(needed);
                is_alone = false;
            }
        }
        Some(if is_alone { added + silent } else { added })
    }

    fn remember(&mut self, stream: usize, stamps: Stamps, at: i64, joints: u64) -> Stamps {
        let breaks = (self.breaks, self.reference_breaks);
        let line = &mut self.lines[stream];
        let placed = if line.video {
            line.in_order = line.in_order.filter(|_| line.last.is_none_or(|last| at >= last));
            line.in_order = line.in_order.map(|count| count.saturating_add(1));
            line.ordered |= stamps.pts != stamps.dts || line.in_order.is_some_and(|n| n >= ORDER_PROOF);
            Stamps { pts: nearest(stamps.pts - stamps.dts + at, at), dts: at }
        } else {
            Stamps { pts: at, dts: at }
        };
        line.latest_pts = line.last.map_or(placed.pts, |_| line.latest_pts.max(placed.pts));
        line.before_last = line.last.replace(at);
        line.joints = joints;
        line.breaks = breaks;
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
        let ahead = ahead.iter().map(|(other, stamp)| (*other, stamps(*stamp))).collect();
        clock.place(stream, stamps(stamp), 0, || Ahead { stamps: ahead, is_broken: true }).pts
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
        fn steps_are_kept_wherever_the_clock_starts(start in 0..WRAP, steps in proptest::collection::vec(0..WRAP / 2, 1..50)) {
            let mut clock = clock(&[true]);
            let mut at = put(&mut clock, 0, start, &[]);
            let mut stamp = start;
            for step in steps {
                stamp = (stamp + step) % WRAP;
                let stamps = Stamps { pts: stamp, dts: stamp };
                let next = clock.place(0, stamps, 0, Ahead::default).pts;
                prop_assert_eq!(next - at, step);
                at = next;
            }
        }

        // Within a part, samples follow within JUMP_FORWARD of the latest of all streams. At a
        // joint, the part before lasts for one more step, which is at most that long. What sound
        // needs to follow its own end is added, if that is no more than JUMP_FORWARD. The pictures
        // may have been shown out of order until there.
        #[test]
        fn time_increases_for_any_stamps(stamps in proptest::collection::vec((0..WRAP, 0..WRAP), 1..50)) {
            let mut clock = clock(&[true, false]);
            let mut before: Option<(i64, i64)> = None;
            for (stamp, of_sound) in stamps {
                let at = put(&mut clock, 0, stamp, &[(1, of_sound)]);
                let heard = put(&mut clock, 1, of_sound, &[]);
                if let Some((last, latest)) = before {
                    prop_assert!(at - last >= UNORDERED_BACK);
                    prop_assert!(at - latest <= 2 * JUMP_FORWARD - UNORDERED_BACK);
                }
                before = Some((at, at.max(heard).max(before.map_or(at, |(_, latest)| latest))));
            }
        }
    }
}
