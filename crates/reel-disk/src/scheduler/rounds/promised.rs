//! What is reserved until when, and what that leaves for others.

use reel_qos::limits::ROUND_NS;
use std::collections::BTreeMap;

use crate::limits::SLACK_ROUNDS;

/// Reserved device time, by the number of rounds that end before it is due: the work of key `e`
/// must be done by `e * ROUND_NS`.
#[derive(Debug, Default)]
pub(super) struct Promised {
    by_end: BTreeMap<u64, u64>,
    /// The sum of the work that is due by the end of `round`. It is kept because each choice needs
    /// it, and under overload a minute of rounds may be late.
    due_ns: u64,
    round: u64,
}

/// The device time that is available in the coming rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Device time that periodic classes may still claim in this round.
    pub(super) left_ns: i64,
    /// Device time that they may claim in every later one.
    pub(super) per_round_ns: u64,
    /// What is left of the work in the device.
    pub(super) device_ns: u64,
}

/// What [`Promised::outlook`] returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outlook {
    /// Device time that other requests may take without making reserved work late.
    pub(super) slack_ns: i64,
    /// Reserved work that is to be done by the end of this round.
    pub(super) due_ns: u64,
}

impl Promised {
    pub(super) fn add(&mut self, end: u64, cost_ns: u64) {
        let work = self.by_end.entry(end).or_default();
        *work = work.saturating_add(cost_ns);
        if is_due(end, self.round) {
            self.due_ns = self.due_ns.saturating_add(cost_ns);
        }
    }

    pub(super) fn remove(&mut self, end: u64, cost_ns: u64) {
        if let Some(work) = self.by_end.get_mut(&end) {
            *work = work.saturating_sub(cost_ns);
            if *work == 0 {
                self.by_end.remove(&end);
            }
            if is_due(end, self.round) {
                self.due_ns = self.due_ns.saturating_sub(cost_ns);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.by_end.clear();
        self.due_ns = 0;
    }

    /// Another round has begun.
    pub(super) fn begin_round(&mut self, round: u64) {
        (self.round, self.due_ns) = (round, self.due_by(round));
    }

    fn due_by(&self, round: u64) -> u64 {
        let due = self.by_end.range(..=round.saturating_add(1));
        due.fold(0, |sum: u64, (_, ns)| sum.saturating_add(*ns))
    }

    /// The least, over this round and those to come, of the time to its end less the work that is
    /// reserved until then. Work beyond what the periodic classes may claim is not reserved: too
    /// much of it does not use up the shares of other classes.
    pub(super) fn outlook(&self, now_ns: u64, budget: Budget) -> Outlook {
        let round = now_ns / ROUND_NS;
        let rest_ns = i128::from(ROUND_NS - now_ns % ROUND_NS) - i128::from(budget.device_ns);
        let budget_ns = u64::try_from(budget.left_ns).unwrap_or(0);
        let due_ns = if round == self.round { self.due_ns } else { self.due_by(round) };
        let mut work_ns = due_ns;
        let mut least_ns = i128::from(ROUND_NS);
        if due_ns > 0 {
            least_ns = least_ns.min(rest_ns - i128::from(due_ns.min(budget_ns)));
        }
        for (&end, &ns) in self.by_end.range(round.saturating_add(2)..).take(SLACK_ROUNDS) {
            let later = i128::from(end - round - 1);
            let claim_ns = i128::from(budget_ns) + later * i128::from(budget.per_round_ns);
            let until_ns = rest_ns + later * i128::from(ROUND_NS);
            if until_ns - claim_ns >= least_ns {
                // It only gets wider from here on: no round gives more to promises than it has.
                break;
            }
            work_ns = work_ns.saturating_add(ns);
            least_ns = least_ns.min(until_ns - i128::from(work_ns).min(claim_ns));
        }
        let slack_ns = i64::try_from(least_ns).unwrap_or(i64::MIN);
        Outlook { slack_ns, due_ns }
    }
}

/// Whether what is filed under `end` is to be done by the end of this round.
fn is_due(end: u64, round: u64) -> bool {
    end <= round.saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const WIDE: Budget = Budget { left_ns: 10 * ROUND_NS as i64, per_round_ns: ROUND_NS, device_ns: 0 };

    #[test]
    fn slack_is_the_least_over_the_rounds_to_come() {
        let mut promised = Promised::default();
        assert_eq!(promised.outlook(0, WIDE), Outlook { slack_ns: ROUND_NS as i64, due_ns: 0 });
        promised.add(1, 300 * MS);
        promised.add(3, 2_400 * MS);
        // This round leaves 600, the third 3000 - 100 - 2700 = 200.
        let outlook = promised.outlook(100 * MS, WIDE);
        assert_eq!(outlook, Outlook { slack_ns: 200 * MS as i64, due_ns: 300 * MS });
        let busy = Budget { device_ns: 250 * MS, ..WIDE };
        assert_eq!(promised.outlook(100 * MS, busy).slack_ns, -50 * MS as i64);
        promised.remove(3, 2_400 * MS);
        assert_eq!(promised.outlook(100 * MS, busy).slack_ns, 350 * MS as i64);
    }

    #[test]
    fn overload_claims_no_more_than_its_share() {
        let mut promised = Promised::default();
        promised.add(1, 90 * ROUND_NS);
        promised.add(2, 90 * ROUND_NS);
        let budget = Budget { left_ns: 700 * MS as i64, per_round_ns: 700 * MS, device_ns: 0 };
        assert_eq!(promised.outlook(0, budget).slack_ns, 300 * MS as i64);
        assert_eq!(promised.outlook(0, Budget { left_ns: -5, ..budget }).slack_ns, 1000 * MS as i64);
    }

    proptest! {
        #[test]
        fn it_is_what_the_definition_says(
            tasks in proptest::collection::vec((0_u64..40, 1_u64..2 * ROUND_NS), 0..30),
            now_ns in 0_u64..8 * ROUND_NS,
            left_ns in -1_000_000_i64..1_000_000_000,
            share in 1_u64..1000,
            device_ns in 0_u64..200 * MS,
        ) {
            let mut promised = Promised::default();
            tasks.iter().for_each(|&(end, ns)| promised.add(end, ns));
            let budget = Budget { left_ns, per_round_ns: share * ROUND_NS / 1000, device_ns };
            let round = now_ns / ROUND_NS;
            let mut expected = ROUND_NS as i64;
            for end in round + 1..round + 60 {
                let work: u64 = tasks.iter().filter(|&&(e, _)| e <= end).map(|&(_, ns)| ns).sum();
                let filed = tasks.iter().any(|&(e, _)| e == end || e < end && end == round + 1);
                let claim = left_ns.max(0) as u64 + (end - round - 1) * budget.per_round_ns;
                if filed {
                    let until = (end * ROUND_NS) as i64 - now_ns as i64 - device_ns as i64;
                    expected = expected.min(until - work.min(claim) as i64);
                }
            }
            prop_assert_eq!(promised.outlook(now_ns, budget).slack_ns, expected);
        }
    }
}
