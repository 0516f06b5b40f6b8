//! Whether a member answers: a disk that sleeps is not a disk that hangs.

use crate::limits::{IDLE_NS, SILENT_NS, WAKE_MAX_NS, WAKING_SHOWN_NS};

/// Whether a member answers its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemberActivity {
    /// It has answered a while ago, or is expected to at any moment.
    #[default]
    Active,
    /// It has had no request for [`IDLE_NS`] and may sleep.
    Idle,
    /// It was idle, and its first request since is not answered yet: the disk may be spinning up.
    Waking,
    /// It has requests and answers none: for [`WAKE_MAX_NS`] if it was idle, else for
    /// [`SILENT_NS`].
    Silent,
}

/// The activity of one member, by the times at which its device gets and answers requests.
#[derive(Clone, Copy, Debug)]
pub struct ActivityTracker {
    /// Whether its disk may sleep at all.
    may_sleep: bool,
    /// Requests in the device.
    requests: u32,
    /// When it answered last or, if it had no request then, got the next one.
    since_ns: u64,
    /// Whether it was idle when it got the requests that it has.
    was_idle: bool,
}

impl MemberActivity {
    /// Whether a request may wait for a disk that spins up.
    pub fn may_sleep(self) -> bool {
        matches!(self, MemberActivity::Idle | MemberActivity::Waking)
    }

    /// The state in one word.
    pub fn as_str(self) -> &'static str {
        match self {
            MemberActivity::Active => "active",
            MemberActivity::Idle => "idle",
            MemberActivity::Waking => "waking",
            MemberActivity::Silent => "silent",
        }
    }
}

impl ActivityTracker {
    /// A member that answered last at `answered_ns`. Only a rotational disk sleeps.
    pub fn new(may_sleep: bool, answered_ns: u64) -> Self {
        Self { may_sleep, requests: 0, since_ns: answered_ns, was_idle: false }
    }

    /// Whether its disk may sleep from here on: its price is known, or another disk has taken its
    /// place.
    pub fn set_may_sleep(&mut self, may_sleep: bool) {
        self.may_sleep = may_sleep;
    }

    /// The device is given a request.
    pub fn begun(&mut self, now_ns: u64) {
        if self.requests == 0 {
            self.was_idle = self.activity(now_ns) == MemberActivity::Idle;
            self.since_ns = now_ns;
        }
        self.requests += 1;
    }

    /// The device has answered a request, with success or failure. `true` if the disk was waking:
    /// the time of this request says nothing about the next one.
    pub fn answered(&mut self, now_ns: u64) -> bool {
        let waited_ns = now_ns.saturating_sub(self.since_ns);
        let has_woken = self.was_idle && waited_ns >= WAKING_SHOWN_NS;
        self.requests = self.requests.saturating_sub(1);
        (self.since_ns, self.was_idle) = (self.since_ns.max(now_ns), false);
        has_woken
    }

    /// What it does now.
    pub fn activity(&self, now_ns: u64) -> MemberActivity {
        let quiet_ns = now_ns.saturating_sub(self.since_ns);
        match (self.requests > 0, self.was_idle) {
            (false, _) if self.may_sleep && quiet_ns >= IDLE_NS => MemberActivity::Idle,
            (true, true) if quiet_ns >= WAKE_MAX_NS => MemberActivity::Silent,
            (true, true) if quiet_ns >= WAKING_SHOWN_NS => MemberActivity::Waking,
            (true, false) if quiet_ns >= SILENT_NS => MemberActivity::Silent,
            _ => MemberActivity::Active,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A member that answered last a while before it gets a request at this time.
    fn asked(may_sleep: bool, quiet_ns: u64, at_ns: u64) -> ActivityTracker {
        let mut tracker = ActivityTracker::new(may_sleep, at_ns - quiet_ns);
        tracker.begun(at_ns);
        tracker
    }

    #[test]
    fn a_member_that_was_idle_is_waking_until_its_first_answer() {
        let mut tracker = ActivityTracker::new(true, 5);
        assert_eq!(tracker.activity(4 + IDLE_NS), MemberActivity::Active);
        assert_eq!(tracker.activity(5 + IDLE_NS), MemberActivity::Idle);
        let at_ns = 3 * IDLE_NS;
        tracker.begun(at_ns);
        tracker.begun(at_ns + WAKING_SHOWN_NS);
        assert_eq!(tracker.activity(at_ns + WAKING_SHOWN_NS - 1), MemberActivity::Active);
        assert_eq!(tracker.activity(at_ns + WAKING_SHOWN_NS), MemberActivity::Waking);
        assert_eq!(tracker.activity(at_ns + WAKE_MAX_NS - 1), MemberActivity::Waking);
        assert!(tracker.answered(at_ns + WAKE_MAX_NS - 1), "it says nothing about requests");
        assert!(!tracker.answered(at_ns + WAKE_MAX_NS), "the next one does");
        assert_eq!(tracker.activity(at_ns + WAKE_MAX_NS), MemberActivity::Active);
    }

    #[test]
    fn an_awake_disk_that_was_idle_does_not_count_as_woken() {
        let mut tracker = asked(true, IDLE_NS, 2 * IDLE_NS);
        assert!(!tracker.answered(2 * IDLE_NS + WAKING_SHOWN_NS - 1));
    }

    #[test]
    fn a_member_that_hangs_is_silent_in_bounded_time_whether_it_was_idle_or_not() {
        let at_ns = 10 * IDLE_NS;
        let was_idle = asked(true, IDLE_NS, at_ns);
        assert_eq!(was_idle.activity(at_ns + WAKE_MAX_NS), MemberActivity::Silent);
        let was_active = asked(true, IDLE_NS - 1, at_ns);
        assert_eq!(was_active.activity(at_ns + SILENT_NS - 1), MemberActivity::Active);
        assert_eq!(was_active.activity(at_ns + SILENT_NS), MemberActivity::Silent);
        // Whatever it is asked meanwhile.
        let mut asked_again = was_idle;
        asked_again.begun(at_ns + WAKE_MAX_NS - 1);
        assert_eq!(asked_again.activity(at_ns + WAKE_MAX_NS), MemberActivity::Silent);
    }

    #[test]
    fn a_member_that_answers_others_is_active() {
        let mut tracker = asked(true, 1, IDLE_NS);
        (0..100).for_each(|_| tracker.begun(IDLE_NS));
        for second in 1..100 {
            let at_ns = IDLE_NS + second * (SILENT_NS - 1);
            assert_eq!(tracker.activity(at_ns), MemberActivity::Active);
            tracker.answered(at_ns);
        }
    }

    #[test]
    fn flash_does_not_sleep() {
        let flash = asked(false, 100 * IDLE_NS, 200 * IDLE_NS);
        assert_eq!(flash.activity(200 * IDLE_NS + SILENT_NS), MemberActivity::Silent);
        assert_eq!(ActivityTracker::new(false, 0).activity(u64::MAX), MemberActivity::Active);
        let mut known = ActivityTracker::new(true, 0);
        known.set_may_sleep(false);
        assert_eq!(known.activity(u64::MAX), MemberActivity::Active);
    }

    #[test]
    fn a_clock_that_steps_back_changes_nothing() {
        let mut tracker = asked(true, IDLE_NS, 2 * IDLE_NS);
        assert_eq!(tracker.activity(0), MemberActivity::Active);
        assert!(!tracker.answered(0));
        assert_eq!(tracker.activity(2 * IDLE_NS), MemberActivity::Active);
    }
}
