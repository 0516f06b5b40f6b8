//! A demand on the clock: what is to be reserved, and what was.

use crate::resource::{Capacities, Resource};
use crate::{Class, Demand, Sender};
use std::sync::Arc;

/// The part of a demand that is not in the past, on the clock, for a class that may have
/// reservations.
#[derive(Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) demand: &'a Demand,
    pub(crate) class: Class,
    pub(crate) front_end: usize,
    /// The round of the demand that is on `start_round`.
    pub(crate) from_round: usize,
    /// Never before the ledger's present.
    pub(crate) start_round: u64,
    pub(crate) rounds: usize,
    /// What must stay free beside it, by series, in each resource's unit; a series that is missing
    /// may be used up.
    pub(crate) kept: &'a [u64],
}

/// From where on a demand is played, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DemandStart {
    /// The round of the demand that is on `start_round`.
    pub from_round: usize,
    /// The absolute round.
    pub start_round: u64,
    /// Whether the client has what is shown there. Otherwise that is sent, too.
    pub has_shown: bool,
    /// The first segment is sent over so many rounds before `start_round`. That is only for a
    /// stream that begins with it.
    pub early_rounds: u64,
}

impl DemandStart {
    /// A client that has nothing yet.
    pub const fn new(from_round: usize, start_round: u64) -> DemandStart {
        DemandStart { from_round, start_round, has_shown: false, early_rounds: 0 }
    }

    /// A client that has nothing yet, and to which the first segment is sent over so many rounds
    /// from `now_round` on.
    pub const fn spread(now_round: u64, early_rounds: u64) -> DemandStart {
        let start_round = now_round.saturating_add(early_rounds);
        DemandStart { from_round: 0, start_round, has_shown: false, early_rounds }
    }

    /// The first round in which something is sent.
    pub(crate) fn first_round(&self) -> u64 {
        self.start_round.saturating_sub(self.early_rounds)
    }

    /// A client that plays on: round 0 of the demand was, or will be, in the round `epoch`.
    pub fn playing_on(epoch: i64, now_round: u64) -> DemandStart {
        let at = i64::try_from(now_round).unwrap_or(i64::MAX).saturating_sub(epoch);
        let (from_round, start_round) = match usize::try_from(at) {
            Ok(from_round) => (from_round, now_round),
            Err(_) => (0, now_round.saturating_add(at.unsigned_abs())),
        };
        DemandStart { from_round, start_round, has_shown: true, early_rounds: 0 }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Reservation {
    pub(crate) demand: Arc<Demand>,
    pub(crate) class: Class,
    pub(crate) front_end: usize,
    pub(crate) from_round: usize,
    pub(crate) start_round: u64,
    pub(crate) end_round: u64,
    pub(crate) label: Box<str>,
}

/// Rounds that are priced at a time: few enough for the first-level cache.
const TOGETHER: usize = 256;

impl Claim<'_> {
    /// Calls `each` with the costs of a resource, some rounds at a time, and the absolute round of
    /// the first of them, until it returns `false`. It is not called if nothing is needed.
    pub(crate) fn for_each_cost(
        &self,
        prices: &Capacities,
        series: usize,
        mut each: impl FnMut(u64, &[u64]) -> bool,
    ) {
        let resource = Resource::of_series(series);
        if !self.demand.needs(resource, (prices, self.front_end)) {
            return;
        }
        let mut costs = [0; TOGETHER];
        for done in (0..self.rounds).step_by(TOGETHER) {
            let costs = &mut costs[..TOGETHER.min(self.rounds - done)];
            self.demand.write_costs(resource, (prices, self.front_end), self.from_round + done, costs);
            if !each(self.start_round + done as u64, costs) {
                return;
            }
        }
    }

    /// The costs of a resource in all rounds.
    pub(crate) fn costs(&self, prices: &Capacities, series: usize) -> Vec<u64> {
        let mut costs = vec![0; self.rounds];
        let prices = (prices, self.front_end);
        self.demand.write_costs(Resource::of_series(series), prices, self.from_round, &mut costs);
        costs
    }
}

impl Reservation {
    pub(crate) fn new(claim: &Claim<'_>, demand: &Arc<Demand>, label: Box<str>) -> Reservation {
        Reservation {
            demand: demand.clone(),
            class: claim.class,
            front_end: claim.front_end,
            from_round: claim.from_round,
            start_round: claim.start_round,
            end_round: claim.start_round + claim.rounds as u64,
            label,
        }
    }

    /// The same reservation with the rest of another demand, from `start` on.
    pub(crate) fn replaced_by(&self, demand: &Arc<Demand>, start: DemandStart) -> Reservation {
        let from_round = start.from_round.min(demand.rounds());
        let rounds = demand.rounds() - from_round;
        let start_round = start.start_round;
        let Sender { class, front_end } = self.sender();
        let claim = Claim { demand, class, front_end, from_round, start_round, rounds, kept: &[] };
        Reservation::new(&claim, demand, self.label.clone())
    }

    /// Who it is charged to.
    pub(crate) fn sender(&self) -> Sender {
        Sender { class: self.class, front_end: self.front_end }
    }

    /// The part that is not in the past.
    pub(crate) fn rest(&self, now_round: u64) -> Claim<'_> {
        let start_round = self.start_round.max(now_round);
        Claim {
            demand: &self.demand,
            class: self.class,
            front_end: self.front_end,
            from_round: self.from_round.saturating_add((start_round - self.start_round) as usize),
            start_round,
            rounds: self.end_round.saturating_sub(start_round) as usize,
            kept: &[],
        }
    }
}
