//! Traffic that is specified by three numbers instead of a demand curve: a laboratory, not part of
//! the server.
#![forbid(unsafe_code)]

use reel_qos::limits::{DEMAND_ROUNDS_MAX, ROUND_NS};
use reel_qos::{Demand, DiskDemand};

/// A linear bounded arrival process: in every interval of t seconds at most R x t + W messages of
/// at most M bytes arrive (Anderson's model, as used in Govindan, dissertation, 1992, chapter 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lbap {
    /// M: the largest message.
    pub message_bytes: u64,
    /// R: messages in 1000 seconds.
    pub rate_mhz: u64,
    /// W: how many messages may arrive ahead of the rate. With 0, no message conforms.
    pub workahead: u64,
}

/// The arrivals of one process, message by message: gives each its logical arrival, and says
/// whether it conforms to the specification.
#[derive(Clone, Debug)]
pub struct Arrivals {
    lbap: Lbap,
    /// The last logical arrival in nanoseconds, times `rate_mhz`: so 1/R is a whole number and
    /// nothing drifts.
    last: Option<u128>,
}

/// When a message counts as arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The logical arrival: never before the arrival, and at least 1/R after the logical arrival of
    /// the message before. `u64::MAX` if that is never.
    pub logical_ns: u64,
    /// Whether the process conforms to its specification with this message. If not, the message is
    /// counted nevertheless: it only delays the logical arrivals of those that follow.
    pub conforms: bool,
}

/// Nanoseconds in 1000 seconds: one message at a rate of 1 in 1000 seconds.
const PERIOD: u128 = 1_000_000_000_000;

impl Lbap {
    /// Bits in a second in the long run; as many as fit in a number if they are more.
    pub fn average_bps(&self) -> u64 {
        let bits = u128::from(self.message_bytes) * u128::from(self.rate_mhz);
        (bits.saturating_mul(8) / 1000).min(u64::MAX.into()) as u64
    }

    /// Bytes that a round must carry so that every message is served within 1/R of its logical
    /// arrival.
    pub fn round_bytes(&self) -> u64 {
        // A product that does not fit is more than any machine carries; it is rounded up more
        // coarsely.
        let bytes = u128::from(self.message_bytes) * u128::from(self.rate_mhz);
        let round_bytes = match bytes.checked_mul(u128::from(ROUND_NS)) {
            Some(product) => product.div_ceil(PERIOD),
            None => (bytes / PERIOD + 1).saturating_mul(u128::from(ROUND_NS)),
        };
        round_bytes.min(u64::MAX.into()) as u64
    }

    /// The demand of a stream that is this process, read in order from `members` members, striped
    /// over all of them with one row of parity, in units of `unit_bytes`.
    ///
    /// Every round needs what the process can bring in logical arrivals in any round, wherever its
    /// messages are in time. Each message is served within 1/R of its logical arrival (Govindan,
    /// dissertation, 1992, chapter 2). What arrives ahead is held: W messages, and the one that is
    /// being served.
    pub fn demand(&self, members: usize, unit_bytes: u64, rounds: usize) -> Demand {
        // Longer demands are refused, whatever their length.
        let rounds = rounds.min(DEMAND_ROUNDS_MAX + 1);
        let sent_bytes = self.round_bytes();
        let stripe_bytes = u128::from(unit_bytes.max(1)) * members.saturating_sub(1).max(1) as u128;
        let units = u128::from(sent_bytes).div_ceil(stripe_bytes);
        let bytes = units.saturating_mul(unit_bytes.into()).min(u64::MAX.into()) as u64;
        let reads = DiskDemand::scattered(units.min(u32::MAX.into()) as u32, bytes);
        let held_bytes = self.message_bytes.saturating_mul(self.workahead.saturating_add(1));
        Demand::new(vec![vec![reads; rounds]; members], vec![sent_bytes; rounds], held_bytes)
    }

    /// Starts to count arrivals.
    pub fn arrivals(self) -> Arrivals {
        Arrivals { lbap: self, last: None }
    }
}

impl Arrivals {
    /// Counts a message that arrived now. The clock may stand. If it goes back, the message counts
    /// as late as the one before.
    ///
    /// The recurrence is l(0) = a(0), l(i) = max(a(i), l(i-1) + 1/R). It equals a(i) + w(a(i))/R,
    /// with the workahead w taken just before the message is counted.
    pub fn arrive(&mut self, now_ns: u64) -> Arrival {
        let rate = u128::from(self.lbap.rate_mhz);
        if rate == 0 {
            let first = self.last.replace(0).is_none();
            let logical_ns = if first { now_ns } else { u64::MAX };
            return Arrival { logical_ns, conforms: first && self.lbap.workahead > 0 };
        }
        let now = u128::from(now_ns) * rate;
        let logical = match self.last {
            Some(last) => now.max(last.saturating_add(PERIOD)),
            None => now,
        };
        self.last = Some(logical);
        // The workahead before this message is (l - a) x R; with it, it is one more, and may be W
        // at most.
        let ahead = logical - now;
        let conforms = match self.lbap.workahead.checked_sub(1) {
            Some(before) => ahead <= u128::from(before) * PERIOD,
            None => false,
        };
        Arrival { logical_ns: logical.div_ceil(rate).min(u64::MAX.into()) as u64, conforms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    fn lbap(rate_mhz: u64, workahead: u64) -> Lbap {
        Lbap { message_bytes: 1000, rate_mhz, workahead }
    }

    #[test]
    fn the_worked_example_of_the_dissertation() {
        let mut arrivals = lbap(500, 3).arrivals();
        let actual = [S / 2, 3 * S, 3 * S + S / 4, 4 * S + S / 2];
        let logical = actual.map(|now_ns| arrivals.arrive(now_ns).logical_ns);
        assert_eq!(logical, [S / 2, 3 * S, 5 * S, 7 * S]);
    }

    #[test]
    fn the_example_needs_a_workahead_of_three() {
        let actual = [S / 2, 3 * S, 3 * S + S / 4, 4 * S + S / 2];
        let kept = |workahead| {
            let mut arrivals = lbap(500, workahead).arrivals();
            actual.map(|now_ns| arrivals.arrive(now_ns).conforms)
        };
        assert_eq!(kept(3), [true; 4]);
        assert_eq!(kept(2), [true, true, true, false]);
        assert_eq!(kept(0), [false; 4]);
    }

    #[test]
    fn a_rate_that_divides_no_second_does_not_drift() {
        // 30 messages in 1.001 seconds, as video has: 29970 in 1000 seconds.
        let mut arrivals = lbap(29_970, u64::MAX).arrivals();
        let last = (0..=29_970).map(|_| arrivals.arrive(0).logical_ns).last();
        assert_eq!(last, Some(1000 * S));
    }

    #[test]
    fn extreme_values_neither_panic_nor_overflow() {
        for rate_mhz in [0, 1, u64::MAX] {
            let all = Lbap { message_bytes: u64::MAX, rate_mhz, workahead: u64::MAX };
            let mut arrivals = all.arrivals();
            for now_ns in [u64::MAX, 0, 5, u64::MAX] {
                arrivals.arrive(now_ns);
            }
            assert_eq!(all.round_bytes() == 0, rate_mhz == 0);
            assert_eq!(all.average_bps() == 0, rate_mhz == 0);
        }
    }

    #[test]
    fn the_long_term_rate_is_m_times_r() {
        assert_eq!(lbap(30_000, 1).average_bps(), 240_000);
        assert_eq!(lbap(30_000, 1).round_bytes(), 30_000);
        assert_eq!(lbap(1, 1).round_bytes(), 1);
    }

    proptest! {
        /// A process that conforms to the recurrence conforms to the definition: N(t0, t1) <= R x
        /// (t1 - t0) + W in every interval.
        #[test]
        fn conforming_is_what_the_definition_says(
            rate_mhz in 1_u64..5000, workahead in 1_u64..5, gaps in prop::collection::vec(0_u64..4 * S, 1..12),
        ) {
            let times: Vec<u64> = gaps.iter().scan(0, |now, gap| { *now += gap; Some(*now) }).collect();
            let mut arrivals = lbap(rate_mhz, workahead).arrivals();
            let conforms = times.iter().all(|&now_ns| arrivals.arrive(now_ns).conforms);
            let within = (0..times.len()).all(|from| (from..times.len()).all(|to| {
                let brought = (to - from + 1) as u128 * PERIOD;
                brought <= u128::from(times[to] - times[from]) * u128::from(rate_mhz) + u128::from(workahead) * PERIOD
            }));
            prop_assert_eq!(conforms, within);
        }

        #[test]
        fn logical_arrivals_are_never_early_nor_closer_than_the_rate(
            rate_mhz in 1_u64..100_000, gaps in prop::collection::vec(0_u64..S, 2..20),
        ) {
            let mut arrivals = lbap(rate_mhz, 4).arrivals();
            let (mut now_ns, mut before) = (0, None::<u64>);
            for gap in gaps {
                now_ns += gap;
                let logical_ns = arrivals.arrive(now_ns).logical_ns;
                prop_assert!(logical_ns >= now_ns);
                if let Some(before) = before {
                    // Both are rounded up to a nanosecond.
                    prop_assert!(u128::from(logical_ns - before + 1) * u128::from(rate_mhz) >= PERIOD);
                }
                before = Some(logical_ns);
            }
        }
    }
}
