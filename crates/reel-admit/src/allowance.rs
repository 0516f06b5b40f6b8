//! How much a session is sent as promised beyond its reservation. Pure.
//!
//! The reservation covers a title, once, at its pace. A player requests a segment again when a
//! connection broke or for another quality of it. A player also seeks as often as a viewer's hand
//! moves. A script could do either without end, on any number of connections. Every answer would be
//! due at once, before what other sessions were promised. So the allowance is limited, and grows as
//! time passes. A session that has used it up is sent only with resources that no other session
//! needs, until it plays on.

use crate::limits::ALLOWANCE_NS;

/// The allowance of one session.
#[derive(Debug)]
pub(crate) struct Allowance {
    left_ns: u64,
    at_ns: u64,
}

impl Allowance {
    /// A full allowance.
    pub(crate) fn new(now_ns: u64) -> Self {
        Self { left_ns: ALLOWANCE_NS, at_ns: now_ns }
    }

    /// Takes this much media time from the allowance; if less is left, takes nothing and returns
    /// `false`. Each second brings back a second. A full allowance is enough for any request, since
    /// a segment may be longer than the allowance.
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
    fn a_used_allowance_comes_back_with_time() {
        let mut allowance = Allowance::new(SECOND_NS);
        assert!(allowance.takes(ALLOWANCE_NS, SECOND_NS));
        assert!(allowance.takes(0, SECOND_NS), "a request for new media time needs no allowance");
        assert!(!allowance.takes(1, SECOND_NS));
        assert!(!allowance.takes(4 * SECOND_NS, 4 * SECOND_NS));
        assert!(allowance.takes(4 * SECOND_NS, 5 * SECOND_NS), "what was refused cost nothing");
        assert!(!allowance.takes(1, 5 * SECOND_NS));
    }

    #[test]
    fn the_allowance_never_exceeds_its_maximum_and_a_clock_step_adds_nothing() {
        let mut allowance = Allowance::new(SECOND_NS);
        assert!(allowance.takes(SECOND_NS, 1_000_000 * SECOND_NS));
        assert!(!allowance.takes(ALLOWANCE_NS, 1_000_000 * SECOND_NS));
        assert!(allowance.takes(ALLOWANCE_NS - SECOND_NS, 0), "the clock went back");
        assert!(!allowance.takes(1, 0) && !allowance.takes(1, 1_000_000 * SECOND_NS));
    }

    #[test]
    fn a_segment_longer_than_the_allowance_takes_all_of_it() {
        let mut allowance = Allowance::new(0);
        assert!(allowance.takes(u64::MAX, 0) && !allowance.takes(1, 0));
        assert!(!allowance.takes(u64::MAX, ALLOWANCE_NS - 1) && allowance.takes(u64::MAX, ALLOWANCE_NS));
    }
}
