//! How much a session is sent as promised beyond what it was promised. Pure.
//!
//! What was promised is a title, once, at its pace. A player asks for a segment again when a line
//! broke or for another quality of it, and goes elsewhere as often as a hand moves. A script could
//! do either without end, on as many connections as it likes, and every answer would be due at
//! once: before what others were promised. So there is so much of it, and more as time passes; who
//! has used it up is sent what nobody else wants, until he plays on.

use crate::limits::ALLOWANCE_NS;

/// Of one session.
#[derive(Debug)]
pub(crate) struct Allowance {
    left_ns: u64,
    at_ns: u64,
}

impl Allowance {
    /// A full one.
    pub(crate) fn new(now_ns: u64) -> Self {
        Self { left_ns: ALLOWANCE_NS, at_ns: now_ns }
    }

    /// Takes so much media time of it; takes nothing and says so if there is less. A second brings
    /// back a second. All of it is enough for anything: a segment may be longer.
    pub(crate) fn takes(&mut self, media_ns: u64, now_ns: u64) -> bool {
        let passed_ns = now_ns.saturating_sub(self.at_ns);
        self.at_ns = self.at_ns.max(now_ns);
        self.left_ns = self.left_ns.saturating_add(passed_ns).min(ALLOWANCE_NS);
        let left_ns = self.left_ns.checked_sub(media_ns.min(ALLOWANCE_NS));
        self.left_ns = left_ns.unwrap_or(self.left_ns);
        left_ns.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn what_is_used_up_comes_back_with_time() {
        let mut allowance = Allowance::new(SECOND_NS);
        assert!(allowance.takes(ALLOWANCE_NS, SECOND_NS));
        assert!(allowance.takes(0, SECOND_NS), "who asks for what is new needs none");
        assert!(!allowance.takes(1, SECOND_NS));
        assert!(!allowance.takes(4 * SECOND_NS, 4 * SECOND_NS));
        assert!(allowance.takes(4 * SECOND_NS, 5 * SECOND_NS), "what was refused cost nothing");
        assert!(!allowance.takes(1, 5 * SECOND_NS));
    }

    #[test]
    fn there_is_never_more_than_all_of_it_and_no_clock_brings_any() {
        let mut allowance = Allowance::new(SECOND_NS);
        assert!(allowance.takes(SECOND_NS, 1_000_000 * SECOND_NS));
        assert!(!allowance.takes(ALLOWANCE_NS, 1_000_000 * SECOND_NS));
        assert!(allowance.takes(ALLOWANCE_NS - SECOND_NS, 0), "a clock that went back");
        assert!(!allowance.takes(1, 0) && !allowance.takes(1, 1_000_000 * SECOND_NS));
    }

    #[test]
    fn a_segment_that_is_longer_takes_all_of_it() {
        let mut allowance = Allowance::new(0);
        assert!(allowance.takes(u64::MAX, 0) && !allowance.takes(1, 0));
        assert!(!allowance.takes(u64::MAX, ALLOWANCE_NS - 1) && allowance.takes(u64::MAX, ALLOWANCE_NS));
    }
}
