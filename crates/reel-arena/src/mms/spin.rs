use crate::limits::{MMS_SPIN_MAX_NS, MMS_SPIN_MIN_NS};

/// How long to poll for the other side before going to sleep.
///
/// If a wait is shorter than the cost of sleeping and being woken, polling is better; if it is
/// longer, sleeping is better. So the polling time is that cost as long as waits are short, and
/// becomes shorter with each long wait. Each wait costs at most twice the best choice (Karlin, Li,
/// Manasse and Owicki, SOSP 1991, section 2), and the polling costs almost nothing where the other
/// side is slow.
#[derive(Clone, Copy, Debug)]
pub struct SpinTime {
    for_ns: u64,
}

impl Default for SpinTime {
    fn default() -> Self {
        Self { for_ns: MMS_SPIN_MAX_NS }
    }
}

impl SpinTime {
    /// How long to poll, in nanoseconds.
    pub fn for_ns(&self) -> u64 {
        self.for_ns
    }

    /// Records that a wait ended after `ns`, polling and sleeping together.
    pub fn waited(&mut self, ns: u64) {
        self.for_ns =
            if ns <= MMS_SPIN_MAX_NS { MMS_SPIN_MAX_NS } else { (self.for_ns / 2).max(MMS_SPIN_MIN_NS) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_waits_are_slept_through_and_short_ones_are_polled() {
        let mut spin = SpinTime::default();
        spin.waited(1);
        assert_eq!(spin.for_ns(), MMS_SPIN_MAX_NS, "the waits were short");
        let mut polled_ns = 0;
        for _ in 0..1000 {
            polled_ns += spin.for_ns();
            spin.waited(20_000_000);
        }
        assert_eq!(spin.for_ns(), MMS_SPIN_MIN_NS);
        assert!(polled_ns < 2 * MMS_SPIN_MAX_NS + 1000 * MMS_SPIN_MIN_NS, "{polled_ns} ns in vain");
        spin.waited(MMS_SPIN_MAX_NS);
        assert_eq!(spin.for_ns(), MMS_SPIN_MAX_NS, "polling would have found it");
    }
}
