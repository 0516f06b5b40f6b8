//! Whether starts of admitted sessions wait only for one another. The count is kept here,
//! independently of the scheduler that must ensure it.

use crate::limits::{BEGINNING_ROUNDS, SHARE_KEPT_PERCENT};
use reel_disk::limits::NO_DEADLINE_ROUNDS;
use reel_qos::limits::ROUND_NS;
use reel_qos::{Class, ClassTable, DEADLINE_NONE_NS};

/// The beginnings that one member reads.
#[derive(Debug)]
pub(crate) struct Beginnings {
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
pub(crate) struct Beginning {
    since_ns: u64,
    took_before_ns: u64,
}

impl Beginnings {
    pub(crate) fn new(classes: &ClassTable) -> Beginnings {
        let mut beginnings = Beginnings { share_permille: 0, took_ns: 0, settled_ns: 0 };
        beginnings.forget(classes, 0);
        beginnings
    }

    /// Begins to count anew: the device is not itself, or shares have changed.
    pub(crate) fn forget(&mut self, classes: &ClassTable, now_ns: u64) {
        self.share_permille = classes.spec(Class::INTERACTIVE).share_permille.into();
        self.settled_ns = now_ns;
    }

    /// A request comes, or becomes urgent: whether it begins something.
    pub(crate) fn asked(&self, class: Class, deadline_ns: u64, now_ns: u64) -> Option<Beginning> {
        let begins = class == Class::INTERACTIVE && deadline_ns != DEADLINE_NONE_NS;
        begins.then_some(Beginning { since_ns: now_ns, took_before_ns: self.took_ns })
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
    pub(crate) fn left(&self, beginning: Beginning, now_ns: u64) -> Option<(u64, u64)> {
        let Beginning { since_ns, took_before_ns } = beginning;
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
        let mut beginnings = Beginnings::new(&ClassTable::default());
        assert!(beginnings.asked(Class::INTERACTIVE, DEADLINE_NONE_NS, 0).is_none(), "an interactive client");
        assert!(beginnings.asked(Class::PERIODIC, 5, 0).is_none());
        let beginning = beginnings.asked(Class::INTERACTIVE, 5, 0).expect("it begins");
        assert_eq!(beginnings.left(beginning, 3 * second_ns), None);
        assert_eq!(beginnings.left(beginning, 4 * second_ns), Some((4 * second_ns, 0)));
        beginnings.took(false, second_ns, second_ns);
        assert!(beginnings.left(beginning, 4 * second_ns).is_some(), "interactive clients do not count");
        beginnings.took(true, second_ns, second_ns / 5);
        assert_eq!(beginnings.left(beginning, 4 * second_ns), None);
        assert!(beginnings.left(beginning, 9 * second_ns).is_some());
        beginnings.forget(&ClassTable::default(), second_ns);
        assert_eq!(beginnings.left(beginning, 9 * second_ns), None);
    }
}
