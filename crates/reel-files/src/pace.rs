//! How fast the bytes of a stream are given to its reader. Pure: the time is an argument.

use crate::limits::LEAD;
use crate::times::{FileTimes, scaled};
use std::time::{Duration, Instant};

/// The pace of a stream from one of its bytes on: that of its title, or a constant rate where that
/// is faster. In both, what is shown in the first [`LEAD`] is there at once.
#[derive(Debug)]
pub(crate) struct Pace {
    began: Instant,
    byte: u64,
    rate_bps: Option<u64>,
}

impl Pace {
    /// From a byte on.
    pub(crate) fn new(byte: u64, rate_bps: Option<u64>, now: Instant) -> Pace {
        Pace { began: now, byte, rate_bps }
    }

    /// The first byte that may not be given yet.
    pub(crate) fn until(&self, times: &FileTimes, now: Instant) -> u64 {
        let ns = nanoseconds(now.saturating_duration_since(self.began) + LEAD);
        let of_title = times.byte_at(times.at_ns(self.byte).saturating_add(ns));
        let of_rate = self.rate_bps.map_or(0, |rate_bps| scaled(ns, rate_bps, 8_000_000_000));
        of_title.max(self.byte.saturating_add(of_rate)).min(times.bytes())
    }

    /// When all bytes before this one may be given.
    pub(crate) fn when(&self, times: &FileTimes, byte: u64) -> Instant {
        let of_title = times.at_ns(byte).saturating_sub(times.at_ns(self.byte));
        let more = u128::from(byte.saturating_sub(self.byte)) * 8_000_000_000;
        let of_rate = |rate_bps: u64| u64::try_from(more.div_ceil(rate_bps.into())).unwrap_or(u64::MAX);
        let ns = of_title.min(self.rate_bps.map_or(u64::MAX, of_rate));
        let after = Duration::from_nanos(ns).saturating_sub(LEAD);
        // A clock does not count as far as a server may say.
        self.began.checked_add(after).unwrap_or(self.began + Duration::from_secs(1 << 30))
    }

    /// The reader asks for this byte now. One that was away for longer than [`LEAD`] does not catch
    /// up.
    pub(crate) fn asked(&mut self, times: &FileTimes, byte: u64, now: Instant) {
        if now > self.when(times, byte) + LEAD {
            *self = Pace::new(byte, self.rate_bps, now);
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::times::tests::any_times;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A hundred seconds of a byte each millisecond, but ten a millisecond in the second half.
    fn times() -> FileTimes {
        let second_ns = 1_000_000_000;
        FileTimes::new(550_000, 100 * second_ns, vec![(0, 0), (50_000, 50 * second_ns)]).expect("times")
    }

    #[test]
    fn bytes_come_as_they_are_shown_and_two_seconds_before() {
        let (times, now) = (times(), Instant::now());
        let pace = Pace::new(0, None, now);
        let until = |seconds| pace.until(&times, now + SECOND * seconds);
        assert_eq!([0, 10, 48, 58, 98, 200].map(until), [2_000, 12_000, 50_000, 150_000, 550_000, 550_000]);
        assert_eq!(pace.when(&times, 2_000), now);
        assert_eq!(pace.when(&times, 150_000), now + SECOND * 58);
        // From another place on.
        let pace = Pace::new(50_000, None, now);
        assert_eq!(pace.until(&times, now + SECOND), 80_000);
    }

    #[test]
    fn a_rate_makes_it_faster_and_never_slower() {
        let (times, now) = (times(), Instant::now());
        // 5,000 bytes a second.
        let pace = Pace::new(0, Some(40_000), now);
        let until = |seconds| pace.until(&times, now + SECOND * seconds);
        assert_eq!([0, 8, 98].map(until), [10_000, 50_000, 550_000]);
        assert_eq!(pace.when(&times, 50_000), now + SECOND * 8);
    }

    #[test]
    fn a_reader_that_was_away_does_not_catch_up() {
        let (times, now) = (times(), Instant::now());
        let mut pace = Pace::new(0, None, now);
        pace.asked(&times, 5_000, now + SECOND * 5);
        assert_eq!(pace.until(&times, now + SECOND * 5), 7_000, "it was there in time");
        pace.asked(&times, 7_000, now + SECOND * 40);
        assert_eq!(pace.until(&times, now + SECOND * 40), 9_000);
    }

    proptest! {
        #[test]
        fn a_byte_may_be_given_when_the_pace_says_and_not_a_second_earlier(
            times in any_times(), from in 0.0..1.0, to in 0.0..1.0, rate_bps in prop::option::of(1_u64..1_000_000_000)
        ) {
            let now = Instant::now();
            let [from, to] = [from, to].map(|part| (times.bytes() as f64 * part) as u64);
            let byte = from.max(to);
            let pace = Pace::new(from, rate_bps, now);
            let when = pace.when(&times, byte);
            prop_assert!(pace.until(&times, when) >= byte);
            let before = when - SECOND;
            if byte > from && before > now {
                prop_assert!(pace.until(&times, before) < byte);
            }
        }
    }
}
