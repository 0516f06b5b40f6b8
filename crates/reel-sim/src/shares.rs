//! Whether the classes of one member get their shares while they need them. The count is kept here,
//! independently of the scheduler that must ensure it.

use crate::limits::{SHARE_KEPT_PERCENT, SHARE_ROUNDS};
use reel_qos::limits::CLASSES_MAX;
use reel_qos::{Class, ClassTable, Kind};

/// What each class waits for and got.
#[derive(Debug)]
pub(crate) struct Shares {
    lanes: [Lane; CLASSES_MAX],
    round: usize,
    /// Times that a class wanted its share for long enough to be looked at.
    pub(crate) checks: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    queued: u64,
    /// Something of the class has been waiting without a break since then.
    waiting_since_ns: Option<u64>,
    /// Device time that it took in the last rounds.
    given_ns: [u64; SHARE_ROUNDS],
}

impl Default for Shares {
    fn default() -> Self {
        Shares { lanes: [Lane::default(); CLASSES_MAX], round: 0, checks: 0 }
    }
}

impl Shares {
    pub(crate) fn queued(&mut self, class: Class, now_ns: u64) {
        let lane = &mut self.lanes[class.index()];
        lane.queued += 1;
        lane.waiting_since_ns.get_or_insert(now_ns);
    }

    /// A waiting request waits no more: it was given to the device, or changed its class.
    pub(crate) fn left(&mut self, class: Class) {
        let lane = &mut self.lanes[class.index()];
        lane.queued -= 1;
        if lane.queued == 0 {
            lane.waiting_since_ns = None;
        }
    }

    /// The device has answered one after so much time, since the answer before it or its own start.
    /// Shares are of what the device takes, whatever a request is thought to cost.
    pub(crate) fn took(&mut self, class: Class, took_ns: u64) {
        self.lanes[class.index()].given_ns[self.round] += took_ns;
    }

    /// Restarts the count, because the device has a fault.
    pub(crate) fn forget(&mut self, now_ns: u64) {
        for lane in &mut self.lanes {
            lane.waiting_since_ns = lane.waiting_since_ns.map(|_| now_ns);
        }
    }

    /// A round has ended. A class that wanted its share throughout the last rounds and did not get
    /// it: class, part got and due of the device time that was given to all, in thousandths.
    ///
    /// Periodic classes are left out: what is due far ahead waits by right, and what is due is
    /// looked after by its deadline.
    pub(crate) fn round_ended(
        &mut self,
        classes: &ClassTable,
        window_start_ns: u64,
    ) -> Option<(Class, u64, u64)> {
        let given = |lane: &Lane| lane.given_ns.iter().sum::<u64>();
        let all_ns: u64 = self.lanes.iter().map(given).sum();
        let mut taken = None;
        for (class, spec) in classes.iter().filter(|(_, spec)| spec.kind != Kind::Periodic) {
            let lane = &self.lanes[class.index()];
            if all_ns == 0 || lane.waiting_since_ns.is_none_or(|since_ns| since_ns > window_start_ns) {
                continue;
            }
            self.checks += 1;
            let permille = given(lane) * 1000 / all_ns;
            if permille * 100 < u64::from(spec.share_permille) * SHARE_KEPT_PERCENT {
                taken = taken.or(Some((class, permille, u64::from(spec.share_permille))));
            }
        }
        self.round = (self.round + 1) % SHARE_ROUNDS;
        self.lanes.iter_mut().for_each(|lane| lane.given_ns[self.round] = 0);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds in which an aperiodic request always waits and gets so much of a second.
    fn rounds(given_ns: u64) -> Option<(Class, u64, u64)> {
        let (mut shares, classes) = (Shares::default(), ClassTable::default());
        shares.queued(Class::APERIODIC, 0);
        let mut taken = None;
        for round in 1..20 {
            shares.queued(Class::APERIODIC, round);
            shares.left(Class::APERIODIC);
            shares.took(Class::APERIODIC, given_ns);
            shares.queued(Class::PERIODIC, round);
            shares.left(Class::PERIODIC);
            shares.took(Class::PERIODIC, 1000 - given_ns);
            taken = taken.or(shares.round_ended(&classes, round.saturating_sub(SHARE_ROUNDS as u64)));
        }
        taken
    }

    #[test]
    fn a_class_that_does_not_get_its_share_is_noticed() {
        assert_eq!(rounds(150), None);
        assert_eq!(rounds(50), Some((Class::APERIODIC, 50, 150)));
    }
}
