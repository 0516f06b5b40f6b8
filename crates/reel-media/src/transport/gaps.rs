//! How often something comes that receivers wait for.

use super::TICKS_PER_S;

/// What receivers wait for must come at least so often.
const EVERY: u64 = TICKS_PER_S / 10;

/// Times between what receivers wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gaps {
    longest: u64,
    too_long: u64,
}

impl Gaps {
    /// One more time, in ticks of 27 MHz.
    pub(super) fn add(&mut self, ticks: u64) {
        self.longest = self.longest.max(ticks);
        self.too_long += u64::from(ticks > EVERY);
    }

    /// A warning about `what`, if it comes too rarely.
    pub(super) fn warning(self, what: &str) -> Option<String> {
        let (longest_ms, times) = (self.longest / (TICKS_PER_S / 1000), self.too_long);
        (times > 0).then(|| {
            format!(
                "{what} come more than 100 ms apart at {times} places, up to {longest_ms} ms: receivers that join \
                 wait longer, and some lose the clock"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_longer_times_are_warned_of() {
        let mut gaps = Gaps::default();
        gaps.add(EVERY);
        assert_eq!(gaps.warning("tables"), None);
        gaps.add(EVERY * 25 / 10);
        let text = gaps.warning("tables").expect("a warning");
        assert!(text.contains("1 places, up to 250 ms"), "{text}");
    }
}
