//! Whether an idle rotational disk waits a moment for the reader that it just served.
//!
//! An interactive transfer requests its next window when it has sent the last one, so for some
//! milliseconds none of its requests waits. An aperiodic request that is served then costs the
//! transfer two seeks: there and back (deceptive idleness; Iyer and Druschel, "Anticipatory
//! scheduling", SOSP 2001). So the device idles, for one seek at most. A reader that continues in
//! time pays for the wait from its share; it saved two seeks. If none does, the wait was in vain.
//! There is credit for little of that: a fiftieth of the time.

use crate::limits::{EXPECTED_CREDIT_NS, EXPECTED_PART};

/// What is expected.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// A request is expected since then.
    served_ns: u64,
    /// For so long.
    for_ns: u64,
    /// Since when another request has been kept waiting for it.
    idle_since_ns: Option<u64>,
    /// Time that may still pass for nothing, and when it was counted.
    credit_ns: u64,
    credited_ns: u64,
}

impl Expected {
    /// A reader was served and has no further request yet, on a device whose seeks take `seek_ns`.
    pub(super) fn served(&mut self, now_ns: u64, seek_ns: u64) {
        (self.served_ns, self.for_ns) = (now_ns, seek_ns);
    }

    /// Whether the device is kept for it now.
    pub(super) fn is_awaited(&mut self, now_ns: u64) -> bool {
        let more_ns = now_ns.saturating_sub(self.credited_ns) / EXPECTED_PART;
        self.credit_ns = self.credit_ns.saturating_add(more_ns).min(EXPECTED_CREDIT_NS);
        // Only whole parts are counted; frequent calls would otherwise never see one.
        self.credited_ns =
            if now_ns < self.credited_ns { now_ns } else { self.credited_ns + more_ns * EXPECTED_PART };
        // Not before it was served either: the clock may have gone back.
        let Some(waited_ns) = now_ns.checked_sub(self.served_ns) else { return false };
        let is_time = waited_ns < self.for_ns;
        let is_paid = self.idle_since_ns.is_some() || self.for_ns <= self.credit_ns;
        if is_time && is_paid {
            self.idle_since_ns.get_or_insert(now_ns);
        }
        is_time && is_paid
    }

    /// When the device is given to another request, if it is kept now.
    pub(super) fn until_ns(&self) -> Option<u64> {
        self.idle_since_ns.map(|_| self.served_ns.saturating_add(self.for_ns))
    }

    /// The request that was kept waiting is gone: the device is idle by itself.
    pub(super) fn none_waits(&mut self) {
        self.idle_since_ns = None;
    }

    /// The device continues, with the expected request or another one. Returns how long it was kept
    /// for a request that came.
    pub(super) fn ended(&mut self, now_ns: u64, arrived: bool) -> u64 {
        let idle_ns =
            self.idle_since_ns.take().map_or(0, |since_ns| now_ns.saturating_sub(since_ns).min(self.for_ns));
        self.for_ns = 0;
        if arrived {
            return idle_ns;
        }
        self.credit_ns = self.credit_ns.saturating_sub(idle_ns);
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const WAY_NS: u64 = 5 * MS;
    const START_NS: u64 = 1_000_000 * MS;

    #[test]
    fn a_reader_that_continues_pays_and_others_are_waited_for_a_few_times_only() {
        let (mut expected, mut now_ns) = (Expected::default(), START_NS);
        for _ in 0..100 {
            expected.served(now_ns, WAY_NS);
            assert!(expected.is_awaited(now_ns) && expected.is_awaited(now_ns + 3 * MS));
            assert_eq!(expected.until_ns(), Some(now_ns + WAY_NS));
            now_ns += 4 * MS;
            assert_eq!(expected.ended(now_ns, true), 4 * MS);
            assert!(!expected.is_awaited(now_ns) && expected.until_ns().is_none());
        }
        let in_vain = (0..100).filter(|_| {
            expected.served(now_ns, WAY_NS);
            let awaited = expected.is_awaited(now_ns);
            now_ns += WAY_NS;
            assert!(!expected.is_awaited(now_ns), "one seek and no longer");
            assert_eq!(expected.ended(now_ns, false), 0);
            awaited
        });
        let most = (EXPECTED_CREDIT_NS + 100 * 5 * MS / EXPECTED_PART) / (5 * MS);
        let count = in_vain.count() as u64;
        assert!((most - 1..=most).contains(&count), "{count} of {most}");
    }

    #[test]
    fn a_device_without_waiting_requests_is_not_kept() {
        let mut expected = Expected::default();
        expected.served(START_NS, WAY_NS);
        assert_eq!(expected.until_ns(), None);
        assert_eq!(expected.ended(START_NS + MS, true), 0, "no request was kept waiting");
        expected.served(START_NS, WAY_NS);
        assert!(!expected.is_awaited(START_NS - 1), "the clock went back");
        assert!(!expected.is_awaited(START_NS + WAY_NS));
    }

    proptest! {
        #[test]
        fn little_time_passes_for_nothing(steps in proptest::collection::vec((0_u64..20 * MS, 0_u64..40 * MS, any::<bool>()), 1..300)) {
            let (mut expected, mut now_ns, mut in_vain_ns) = (Expected::default(), START_NS, 0);
            for (later_ns, seek_ns, arrived) in steps {
                expected.served(now_ns, seek_ns);
                let begun_ns = now_ns;
                while expected.is_awaited(now_ns) && now_ns < begun_ns + later_ns {
                    now_ns += MS / 3;
                }
                let idle_ns = if expected.until_ns().is_some() { now_ns - begun_ns } else { 0 };
                prop_assert!(idle_ns <= seek_ns + MS / 3);
                if !arrived {
                    in_vain_ns += idle_ns.min(seek_ns);
                }
                expected.ended(now_ns, arrived);
                now_ns += later_ns;
            }
            prop_assert!(in_vain_ns <= EXPECTED_CREDIT_NS + (now_ns - START_NS) / EXPECTED_PART + MS);
        }
    }
}
