//! Whether starts of admitted sessions wait only for one another. The count is kept here,
//! independently of the scheduler that must ensure it.

use crate::limits::{BEGINNING_ROUNDS, SHARE_KEPT_PERCENT};
use reel_disk::limits::NO_DEADLINE_ROUNDS;
use reel_qos::limits::ROUND_NS;
use reel_qos::{Class, ClassTable, DEADLINE_NONE_NS};

/// The starts that one member reads.
#[derive(Debug)]
pub(crate) struct StartWaits {
    /// The part of the class that they are in.
    share_permille: u64,
    /// Device time that starts took, and interactive clients that had waited so long that they came
    /// before.
    took_ns: u64,
    /// Until when the device was not itself, or the class had another share.
    settled_ns: u64,
}

/// What a request that begins waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartWait {
    since_ns: u64,
    took_before_ns: u64,
}

impl StartWaits {
    pub(crate) fn new(classes: &ClassTable) -> StartWaits {
        let mut start_waits = StartWaits { share_permille: 0, took_ns: 0, settled_ns: 0 };
        start_waits.forget(classes, 0);
        start_waits
    }

    /// Starts counting again: the device has another speed, or shares have changed.
    pub(crate) fn forget(&mut self, classes: &ClassTable, now_ns: u64) {
        self.share_permille = classes.spec(Class::INTERACTIVE).share_permille.into();
        self.settled_ns = now_ns;
    }

    /// A request comes, or becomes urgent: whether it begins something.
    pub(crate) fn asked(&self, class: Class, deadline_ns: u64, now_ns: u64) -> Option<StartWait> {
        let begins = class == Class::INTERACTIVE && deadline_ns != DEADLINE_NONE_NS;
        begins.then_some(StartWait { since_ns: now_ns, took_before_ns: self.took_ns })
    }

    /// The device has answered an interactive request that waited for so long, after so much time
    /// of its own.
    pub(crate) fn took(&mut self, begins: bool, waited_ns: u64, took_ns: u64) {
        if begins || waited_ns + ROUND_NS > NO_DEADLINE_ROUNDS * ROUND_NS {
            self.took_ns += took_ns;
        }
    }

    /// One that begins goes to the device. If it waited for longer than those before it take with
    /// their class's share of the device: for how long, and what they took.
    pub(crate) fn left(&self, start_wait: StartWait, now_ns: u64) -> Option<(u64, u64)> {
        let StartWait { since_ns, took_before_ns } = start_wait;
        let (waited_ns, took_ns) = (now_ns - since_ns, self.took_ns - took_before_ns);
        let kept_permille = self.share_permille * SHARE_KEPT_PERCENT / 100;
        let most_ns = took_ns * 1000 / kept_permille.max(1) + BEGINNING_ROUNDS * ROUND_NS;
        (since_ns >= self.settled_ns && waited_ns > most_ns).then_some((waited_ns, took_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_waits_for_other_work_than_starts_is_noticed() {
        let second_ns = ROUND_NS;
        let mut start_waits = StartWaits::new(&ClassTable::default());
        assert!(
            start_waits.asked(Class::INTERACTIVE, DEADLINE_NONE_NS, 0).is_none(),
            "an interactive client"
        );
        assert!(start_waits.asked(Class::PERIODIC, 5, 0).is_none());
        let start_wait = start_waits.asked(Class::INTERACTIVE, 5, 0).expect("it begins");
        assert_eq!(start_waits.left(start_wait, 3 * second_ns), None);
        assert_eq!(start_waits.left(start_wait, 4 * second_ns), Some((4 * second_ns, 0)));
        start_waits.took(false, second_ns, second_ns);
        assert!(start_waits.left(start_wait, 4 * second_ns).is_some(), "interactive clients do not count");
        start_waits.took(true, second_ns, second_ns / 5);
        assert_eq!(start_waits.left(start_wait, 4 * second_ns), None);
        assert!(start_waits.left(start_wait, 9 * second_ns).is_some());
        start_waits.forget(&ClassTable::default(), second_ns);
        assert_eq!(start_waits.left(start_wait, 9 * second_ns), None);
    }
}
