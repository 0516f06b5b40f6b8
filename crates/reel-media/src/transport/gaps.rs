//! How often something comes that receivers wait for.

use super::TICKS_PER_S;
use crate::times::{self, Places};

/// What receivers wait for must come at least so often.
const EVERY: u64 = TICKS_PER_S / 10;

/// Times between what receivers wait for.
#[derive(Clone, Debug, Default)]
pub(super) struct Gaps {
    longest: u64,
    too_long: Places,
}

impl Gaps {
    /// It came at `from`, and next at `to`, in ticks of 27 MHz.
    pub(super) fn add(&mut self, from: u64, to: u64) {
        let ticks = to.saturating_sub(from);
        self.longest = self.longest.max(ticks);
        if ticks > EVERY {
            self.too_long.add(i64::try_from(from).ok());
        }
    }

    /// A warning about `what`, if it comes too rarely.
    pub(super) fn warning(&self, what: &str) -> Option<String> {
        let Places { count, first } = self.too_long;
        let first = times::at(first?, TICKS_PER_S as u32);
        let (longest_ms, places) = (self.longest / (TICKS_PER_S / 1000), times::counted(count, "place"));
        Some(format!(
            "{what} come more than 100 ms apart at {places}, first at {first}, up to {longest_ms} ms: receivers \
             that join wait longer, and some lose the clock"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_longer_times_are_warned_of() {
        let mut gaps = Gaps::default();
        gaps.add(0, EVERY);
        assert_eq!(gaps.warning("tables"), None);
        gaps.add(10 * EVERY, 10 * EVERY + EVERY * 25 / 10);
        let text = gaps.warning("tables").expect("a warning");
        assert!(text.contains("at one place, first at 00:00:01.000, up to 250 ms"), "{text}");
    }
}
