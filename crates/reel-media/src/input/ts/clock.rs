//! The 33-bit clock of transport streams (ISO 13818-1 section 2.4.3.7) as one continuous line of 90
//! kHz ticks.
//!
//! The clock wraps every 26.5 hours and may jump where streams were joined. A step of more than ten
//! seconds forward or one second back is a jump. What follows is moved so that the stream continues
//! without a gap. The other streams of the programme are moved by the same amount when they make
//! the same jump.

/// Ticks per second of all time stamps.
pub(crate) const RATE: u32 = 90_000;
const WRAP: i64 = 1 << 33;
const JUMP_FORWARD: i64 = 10 * RATE as i64;
const JUMP_BACK: i64 = -(RATE as i64);

/// What the streams of a programme share.
#[derive(Debug, Default)]
pub(crate) struct ProgrammeClock {
    /// What the latest jump added to the clock, modulo the wrap.
    latest: i64,
    /// The latest time of some stream: a stream that begins later is placed near it.
    reference: Option<i64>,
    /// Number of jumps.
    pub(crate) jumps: u64,
}

/// The clock of one stream.
#[derive(Debug, Default)]
pub(crate) struct StreamClock {
    added: i64,
    last: Option<i64>,
}

impl StreamClock {
    /// The place of a time stamp on the line. `step` is the usual distance to the one before, for
    /// the case of a jump.
    pub(crate) fn place(&mut self, stamp: i64, step: i64, programme: &mut ProgrammeClock) -> i64 {
        let Some(last) = self.last else {
            self.added = programme.latest;
            let at = programme.reference.map_or(stamp, |near| nearest(stamp + self.added, near));
            return self.remember(at, programme);
        };
        let at = nearest(stamp + self.added, last);
        if is_step(at - last) {
            return self.remember(at, programme);
        }
        let after_latest = nearest(stamp + programme.latest, last);
        if is_step(after_latest - last) {
            self.added = programme.latest;
            return self.remember(after_latest, programme);
        }
        let at = last + step;
        self.added = (at - stamp).rem_euclid(WRAP);
        programme.latest = self.added;
        programme.jumps += 1;
        self.remember(at, programme)
    }

    /// The latest place.
    pub(crate) fn last(&self) -> Option<i64> {
        self.last
    }

    fn remember(&mut self, at: i64, programme: &mut ProgrammeClock) -> i64 {
        self.last = Some(at);
        programme.reference = Some(at);
        at
    }
}

/// The number nearest to `near` that equals `stamp` modulo the wrap.
pub(crate) fn nearest(stamp: i64, near: i64) -> i64 {
    let ahead = (stamp - near).rem_euclid(WRAP);
    near + if ahead >= WRAP / 2 { ahead - WRAP } else { ahead }
}

fn is_step(distance: i64) -> bool {
    (JUMP_BACK..=JUMP_FORWARD).contains(&distance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_streams_over_the_wrap() {
        let mut programme = ProgrammeClock::default();
        let (mut video, mut audio) = (StreamClock::default(), StreamClock::default());
        let start = WRAP - 3600;
        assert_eq!(video.place(start, 3600, &mut programme), start);
        assert_eq!(video.place(0, 3600, &mut programme), WRAP);
        assert_eq!(audio.place(WRAP - 1800, 1920, &mut programme), WRAP - 1800);
        assert_eq!(audio.place(120, 1920, &mut programme), WRAP + 120);
        assert_eq!(programme.jumps, 0);
    }

    #[test]
    fn both_streams_follow_one_jump() {
        let mut programme = ProgrammeClock::default();
        let (mut video, mut audio) = (StreamClock::default(), StreamClock::default());
        video.place(90_000, 3600, &mut programme);
        audio.place(90_500, 1920, &mut programme);
        assert_eq!(video.place(5_000_000, 3600, &mut programme), 93_600);
        assert_eq!(
            audio.place(5_000_420, 1920, &mut programme),
            94_020,
            "the same distance as in the new part"
        );
        assert_eq!(programme.jumps, 1);
    }

    proptest! {
        #[test]
        fn steps_are_kept_wherever_the_clock_starts(start in 0..WRAP, steps in proptest::collection::vec(0..JUMP_FORWARD, 1..50)) {
            let mut programme = ProgrammeClock::default();
            let mut clock = StreamClock::default();
            let mut at = clock.place(start, 1, &mut programme);
            let mut stamp = start;
            for step in steps {
                stamp = (stamp + step) % WRAP;
                let next = clock.place(stamp, 1, &mut programme);
                prop_assert_eq!(next - at, step);
                at = next;
            }
        }

        #[test]
        fn time_increases_for_any_stamps(stamps in proptest::collection::vec(0..WRAP, 1..50)) {
            let mut programme = ProgrammeClock::default();
            let mut clock = StreamClock::default();
            let mut last = None;
            for stamp in stamps {
                let at = clock.place(stamp, 3600, &mut programme);
                if let Some(last) = last {
                    prop_assert!(is_step(at - last));
                }
                last = Some(at);
            }
        }
    }
}
