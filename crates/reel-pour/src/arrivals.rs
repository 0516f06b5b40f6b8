//! When the messages of a program may be taken, and when their bytes are due. Pure.

use crate::terms::PourTerms;

/// The arrivals of a stream (LBAP; Govindan, section 3.1). The logical arrival of a message is the
/// time at which it comes, or that at which the rate has room for it after the ones before it, if
/// that is later: l(i) = max(a(i), l(i-1) + size(i-1) / R).
#[derive(Clone, Debug)]
pub struct Arrivals {
    bytes_per_s: u64,
    workahead_bytes: u64,
    delay_ns: u64,
    /// When the program was last not ahead of its rate, and what it has sent since: the next
    /// logical arrival without an error of rounding that grows.
    since_ns: u64,
    bytes: u64,
}

impl Arrivals {
    /// A stream that begins now.
    pub fn new(terms: &PourTerms, now_ns: u64) -> Arrivals {
        let PourTerms { bytes_per_s, workahead_bytes, delay_ns, .. } = *terms;
        Arrivals { bytes_per_s: bytes_per_s.max(1), workahead_bytes, delay_ns, since_ns: now_ns, bytes: 0 }
    }

    /// When the next message may be taken: when no more bytes than the workahead have come before
    /// their time.
    pub fn ready_ns(&self) -> u64 {
        let ahead_ns = self.time_of(self.workahead_bytes);
        self.next_ns().saturating_sub(ahead_ns)
    }

    /// Takes a message, and returns when it is due at viewers.
    pub fn take(&mut self, bytes: u64, now_ns: u64) -> u64 {
        if self.next_ns() <= now_ns {
            (self.since_ns, self.bytes) = (now_ns, 0);
        }
        let logical_ns = self.next_ns();
        self.bytes = self.bytes.saturating_add(bytes);
        logical_ns.saturating_add(self.delay_ns)
    }

    /// The logical arrival of the next byte, if that comes at once.
    fn next_ns(&self) -> u64 {
        self.since_ns.saturating_add(self.time_of(self.bytes))
    }

    /// How long so many bytes take at the rate.
    fn time_of(&self, bytes: u64) -> u64 {
        let ns = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn terms(bytes_per_s: u64, workahead_bytes: u64) -> PourTerms {
        let content_type = "video/mp2t".to_owned();
        PourTerms { bytes_per_s, workahead_bytes, delay_ns: SECOND_NS, content_type }
    }

    /// The worked example of the thesis (figure 2.4): R is half a message a second.
    #[test]
    fn logical_arrivals_are_those_of_the_thesis() {
        let mut arrivals = Arrivals::new(&terms(1, 100), 0);
        let mut logical_ms = |at_ms: u64| (arrivals.take(2, at_ms * 1_000_000) - SECOND_NS) / 1_000_000;
        assert_eq!([500, 3000, 3250, 4500].map(&mut logical_ms), [500, 3000, 5000, 7000]);
    }

    #[test]
    fn a_program_that_is_ahead_by_more_than_it_may_has_to_wait() {
        let mut arrivals = Arrivals::new(&terms(1000, 500), 0);
        assert_eq!(arrivals.ready_ns(), 0);
        arrivals.take(500, 0);
        assert_eq!(arrivals.ready_ns(), 0, "500 bytes may come before their time");
        arrivals.take(1000, 0);
        assert_eq!(arrivals.ready_ns(), SECOND_NS, "1500 have come, and 500 may");
        // A pause is not made up for.
        assert_eq!(arrivals.take(100, 10 * SECOND_NS), 11 * SECOND_NS);
        assert_eq!(arrivals.ready_ns(), 10 * SECOND_NS + SECOND_NS / 10 - SECOND_NS / 2);
    }

    proptest! {
        /// No interval holds more than R t + W and one message, if messages are taken only when
        /// they may be (invariant I2), and what is due grows.
        #[test]
        fn the_bound_of_arrivals_holds(
            rate in 100..1_000_000_u64,
            workahead in 0..100_000_u64,
            messages in prop::collection::vec((1..20_000_u64, 0..200_000_000_u64), 1..60),
        ) {
            let mut arrivals = Arrivals::new(&terms(rate, workahead), 0);
            let (mut now_ns, mut before_ns) = (0, 0);
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (bytes, pause_ns) in messages {
                now_ns = (now_ns + pause_ns).max(arrivals.ready_ns());
                let due_ns = arrivals.take(bytes, now_ns);
                prop_assert!(due_ns >= before_ns && due_ns >= now_ns + SECOND_NS);
                before_ns = due_ns;
                taken.push((now_ns, bytes));
            }
            for first in 0..taken.len() {
                let mut sum = 0;
                for &(at_ns, bytes) in &taken[first..] {
                    let t_ns = u128::from(at_ns - taken[first].0);
                    let may = u128::from(workahead) + u128::from(rate) * t_ns / 1_000_000_000 + 1;
                    prop_assert!(u128::from(sum) <= may + 20_000, "{sum} of {may}");
                    sum += bytes;
                }
            }
        }
    }
}
