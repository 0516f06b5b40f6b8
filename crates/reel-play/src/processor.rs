//! What sending costs the processors, learnt from what it has cost. Pure.

use crate::limits::{
    CORE_BUSY_PART, CORE_LOOK_NS, CORE_MIB_NS, CORE_MIB_TLS_NS, CORE_PRICE_FALL, CORE_PRICE_RISE,
    CORE_PRICE_SPAN,
};

/// The work since the server started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Processor time of the threads that serve.
    pub serve_ns: u64,
    /// Processor time of the threads that drive disks.
    pub disks_ns: u64,
    /// Bytes sent to viewers, downloads and all others.
    pub sent_bytes: u64,
}

/// The price of a MiB. On a slow processor, or over a network that takes small pieces, it is higher
/// than what was measured elsewhere. The ledger has the time of the serve threads, so the price is
/// counted in that time. Disk threads run on the same processors.
///
/// It is measured only while enough is sent: idle threads cost something, too, and a few small
/// requests cost much for each byte. It rises fast and falls slowly, and stays near what was
/// measured.
#[derive(Debug)]
pub struct ProcessorPrice {
    given_mib_ns: u64,
    mib_ns: u64,
    threads: u64,
    processors: u64,
    seen: Option<Done>,
}

impl ProcessorPrice {
    /// The price that is assumed until it is learnt, with TLS or without, of so many serve threads
    /// on so many processors.
    pub fn assumed(threads: usize, processors: usize, is_tls: bool) -> Self {
        Self::new(if is_tls { CORE_MIB_TLS_NS } else { CORE_MIB_NS }, threads, processors)
    }

    /// For a server with so many serve threads on so many processors, for which a MiB was measured
    /// to cost `mib_ns` of all of them.
    pub fn new(mib_ns: u64, threads: usize, processors: usize) -> Self {
        let (threads, processors) = (threads.max(1) as u64, processors.max(1) as u64);
        // More threads than processors do not have more time.
        let given_mib_ns = mib_ns.saturating_mul(threads.max(processors)) / processors;
        Self { given_mib_ns, mib_ns: given_mib_ns, threads, processors, seen: None }
    }

    /// Nanoseconds of serve threads for a MiB.
    pub fn mib_ns(&self) -> u64 {
        self.mib_ns
    }

    /// The same in the time of `other`'s threads: what takes the whole time of these threads takes
    /// the whole time of those. So front ends that share processors share one budget, and none is
    /// promised more than its own threads can do.
    pub fn mib_ns_beside(&self, other: &ProcessorPrice) -> u64 {
        self.mib_ns.saturating_mul(other.threads) / self.threads
    }

    /// Measures the work since the last call.
    pub fn update(&mut self, done: Done) {
        let Some(seen) = self.seen else {
            self.seen = Some(done);
            return;
        };
        let took_ns = done.at_ns.saturating_sub(seen.at_ns);
        if took_ns < CORE_LOOK_NS {
            return;
        }
        self.seen = Some(done);
        let bytes = done.sent_bytes.saturating_sub(seen.sent_bytes);
        let by_price_ns = (u128::from(bytes) * u128::from(self.mib_ns)) >> 20;
        if by_price_ns * u128::from(CORE_BUSY_PART) < u128::from(took_ns) * u128::from(self.threads) {
            return;
        }
        let serve_ns = done.serve_ns.saturating_sub(seen.serve_ns);
        let all_ns = serve_ns + done.disks_ns.saturating_sub(seen.disks_ns);
        let in_threads_ns = all_ns.saturating_mul(self.threads) / self.processors;
        let found = (u128::from(serve_ns.max(in_threads_ns)) << 20) / u128::from(bytes.max(1));
        let (least, most) =
            (self.given_mib_ns / CORE_PRICE_SPAN, self.given_mib_ns.saturating_mul(CORE_PRICE_SPAN));
        let found = u64::try_from(found).unwrap_or(u64::MAX).clamp(least, most);
        if found > self.mib_ns {
            self.mib_ns += (found - self.mib_ns).div_ceil(CORE_PRICE_RISE);
        } else {
            self.mib_ns -= (self.mib_ns - found) / CORE_PRICE_FALL;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;
    const GIVEN_NS: u64 = 600_000;

    /// So many seconds, in each of which so many MiB are sent, at so much time of serve threads and
    /// disk threads for each MiB.
    fn play(price: &mut ProcessorPrice, done: &mut Done, seconds: u64, mib: u64, each_ns: (u64, u64)) {
        for _ in 0..=seconds {
            price.update(*done);
            done.at_ns += SECOND_NS;
            done.sent_bytes += mib << 20;
            done.serve_ns += mib * each_ns.0;
            done.disks_ns += mib * each_ns.1;
        }
    }

    #[test]
    fn the_price_rises_soon_on_a_slow_processor_and_falls_slowly_on_a_fast_one() {
        let (mut price, mut done) = (ProcessorPrice::new(GIVEN_NS, 2, 2), Done::default());
        assert_eq!(price.mib_ns(), GIVEN_NS);
        play(&mut price, &mut done, 10, 1000, (900_000, 300_000));
        assert!((1_100_000..=1_200_000).contains(&price.mib_ns()), "{}", price.mib_ns());
        play(&mut price, &mut done, 10, 1000, (400_000, 100_000));
        assert!(price.mib_ns() > 900_000, "{}", price.mib_ns());
        play(&mut price, &mut done, 200, 1000, (400_000, 100_000));
        assert!((500_000..520_000).contains(&price.mib_ns()), "{}", price.mib_ns());
    }

    #[test]
    fn the_price_stays_near_what_was_measured() {
        let (mut price, mut done) = (ProcessorPrice::new(GIVEN_NS, 1, 4), Done::default());
        play(&mut price, &mut done, 100, 1000, (u64::MAX / 1_000_000, 0));
        assert_eq!(price.mib_ns(), GIVEN_NS * CORE_PRICE_SPAN);
        play(&mut price, &mut done, 1000, 10_000, (0, 0));
        let least = GIVEN_NS / CORE_PRICE_SPAN;
        assert!((least..least + CORE_PRICE_FALL).contains(&price.mib_ns()), "{}", price.mib_ns());
    }

    #[test]
    fn the_price_is_not_learnt_while_little_is_sent() {
        let (mut price, mut done) = (ProcessorPrice::new(GIVEN_NS, 2, 2), Done::default());
        play(&mut price, &mut done, 100, 100, (8_000_000, 2_000_000));
        play(&mut price, &mut done, 100, 0, (0, 0));
        assert_eq!(price.mib_ns(), GIVEN_NS);
    }

    #[test]
    fn threads_have_no_more_than_the_processors_that_they_run_on() {
        assert_eq!(ProcessorPrice::new(GIVEN_NS, 8, 2).mib_ns(), 4 * GIVEN_NS);
        assert_eq!(ProcessorPrice::new(GIVEN_NS, 2, 8).mib_ns(), GIVEN_NS);
        // Disk threads on processors of their own take nothing from the serve thread.
        let (mut price, mut done) = (ProcessorPrice::new(GIVEN_NS, 1, 4), Done::default());
        play(&mut price, &mut done, 300, 1000, (700_000, 700_000));
        assert!((690_000..=700_000).contains(&price.mib_ns()), "{}", price.mib_ns());
    }
}
