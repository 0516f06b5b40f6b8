use crate::limits::{MMS_LOOK_MAX_NS, MMS_LOOK_MIN_NS};

/// How long to look for the other side before going to sleep.
///
/// Who sleeps for less than sleeping and being woken cost had better looked; who looks in vain had better slept. So the time to look is that
/// cost, as long as waits are short, and becomes shorter with each that was not: at most twice the cost of the best choice for each wait
/// (Karlin, Li, Manasse and Owicki, SOSP 1991, section 2), and next to nothing where the other side is slow.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    for_ns: u64,
}

impl Default for Look {
    fn default() -> Self {
        Self { for_ns: MMS_LOOK_MAX_NS }
    }
}

impl Look {
    /// How long to look, in nanoseconds.
    pub fn for_ns(&self) -> u64 {
        self.for_ns
    }

    /// A wait ended after `ns`, looking and sleeping together.
    pub fn waited(&mut self, ns: u64) {
        self.for_ns =
            if ns <= MMS_LOOK_MAX_NS { MMS_LOOK_MAX_NS } else { (self.for_ns / 2).max(MMS_LOOK_MIN_NS) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_that_are_long_are_slept_through_and_short_ones_are_not() {
        let mut look = Look::default();
        look.waited(1);
        assert_eq!(look.for_ns(), MMS_LOOK_MAX_NS, "it came at once");
        let mut looked_ns = 0;
        for _ in 0..1000 {
            looked_ns += look.for_ns();
            look.waited(20_000_000);
        }
        assert_eq!(look.for_ns(), MMS_LOOK_MIN_NS);
        assert!(looked_ns < 2 * MMS_LOOK_MAX_NS + 1000 * MMS_LOOK_MIN_NS, "{looked_ns} ns in vain");
        look.waited(MMS_LOOK_MAX_NS);
        assert_eq!(look.for_ns(), MMS_LOOK_MAX_NS, "looking would have found it");
    }
}
