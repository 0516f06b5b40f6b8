//! When the owner of a volume need not renew its record: pure.

use reel_disk::limits::WAKE_MAX_NS;

/// The rest of an owner that nothing is requested of, so that its disks can stop.
pub(crate) struct Rest {
    /// It rests when nothing was requested for so long; `None` if it never does.
    after_ns: Option<u64>,
    /// Answers of the members to others, at the last look.
    answers: u64,
    /// When they had last changed, or the right to write was wanted.
    used_ns: u64,
    rests: bool,
    /// When it last ended a rest.
    resumed_ns: Option<u64>,
}

impl Rest {
    pub(crate) fn new(after_ns: Option<u64>, now_ns: u64) -> Rest {
        Rest { after_ns, answers: 0, used_ns: now_ns, rests: false, resumed_ns: None }
    }

    /// Whether the record is renewed now. `answers` is how many requests of others the members have
    /// answered so far; `is_wanted`, whether a caller waits for the right to write.
    pub(crate) fn renews(&mut self, answers: u64, is_wanted: bool, now_ns: u64) -> bool {
        if answers != self.answers || is_wanted {
            (self.answers, self.used_ns) = (answers, now_ns);
        }
        let rests = self.after_ns.is_some_and(|after_ns| now_ns >= self.used_ns.saturating_add(after_ns));
        if std::mem::replace(&mut self.rests, rests) && !rests {
            self.resumed_ns = Some(now_ns);
        }
        !rests
    }

    /// Whether the right to write lacks only because it rests, or has not had the time to wake the
    /// members since.
    pub(crate) fn is_reason(&self, now_ns: u64) -> bool {
        self.rests
            || self.resumed_ns.is_some_and(|resumed_ns| now_ns < resumed_ns.saturating_add(WAKE_MAX_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn an_owner_that_nothing_is_requested_of_rests_until_something_is() {
        let mut rest = Rest::new(Some(10 * SECOND_NS), 0);
        assert!(rest.renews(5, false, SECOND_NS));
        assert!(rest.renews(5, false, 11 * SECOND_NS - 1));
        assert!(!rest.renews(5, false, 11 * SECOND_NS) && rest.is_reason(11 * SECOND_NS));
        assert!(!rest.renews(5, false, 1000 * SECOND_NS) && rest.is_reason(1000 * SECOND_NS));
        assert!(rest.renews(6, false, 1001 * SECOND_NS), "a read was answered");
        assert!(rest.is_reason(1001 * SECOND_NS));
        assert!(!rest.is_reason(1001 * SECOND_NS + WAKE_MAX_NS));
        assert!(!rest.renews(6, false, 1011 * SECOND_NS));
        assert!(rest.renews(6, true, 1012 * SECOND_NS), "a caller wants to write");
        assert!(rest.renews(6, false, 1022 * SECOND_NS - 1));
    }

    #[test]
    fn without_the_setting_an_owner_never_rests() {
        let mut rest = Rest::new(None, 0);
        assert!(rest.renews(0, false, u64::MAX) && !rest.is_reason(u64::MAX));
    }
}
