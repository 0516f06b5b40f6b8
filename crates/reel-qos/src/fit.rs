//! The decision: does it fit, and if not, where is it the tightest.

use crate::Refusal;
use crate::claim::{Claim, Reservation};
use crate::ledger::{Ledger, seconds};
use crate::resource::{Resource, UNLIMITED};
use crate::retry::{ResourceNeed, first_start};
use crate::timeline::exceeds;

/// The place where the smallest part of the demand is available.
#[derive(Clone, Copy)]
struct Tightest {
    resource: Resource,
    round: u64,
    asked: u64,
    available: u64,
}

/// The part of what is asked for that is available.
#[derive(Clone, Copy)]
struct Part {
    available: u64,
    asked: u64,
}

impl Ledger {
    /// Fits, or is refused with all a refusal has to say.
    pub(crate) fn require(&self, claim: &Claim<'_>) -> Result<(), Refusal> {
        let tight = |&series: &usize| !self.fits(claim, series);
        match (0..self.capacities.series()).find(tight) {
            None => Ok(()),
            Some(_) => self.refusal(claim).map_or(Ok(()), Err),
        }
    }

    /// Whether it needs at most as much as the old one, in every round of every resource.
    pub(crate) fn needs_no_more(&self, claim: &Claim<'_>, old: &Reservation) -> bool {
        let old = old.rest(self.now_round);
        let end_round = claim.start_round + claim.rounds as u64;
        if claim.start_round < old.start_round || end_round > old.start_round + old.rounds as u64 {
            return false;
        }
        let later = (claim.start_round - old.start_round) as usize;
        let old = Claim { from_round: old.from_round + later, rounds: claim.rounds, ..old };
        (0..self.capacities.series()).all(|series| {
            let has = if old.demand.needs(Resource::of_series(series), (&self.capacities, old.front_end)) {
                old.costs(&self.capacities, series)
            } else {
                vec![0; claim.rounds]
            };
            let (mut done, mut no_more) = (0, true);
            claim.for_each_cost(&self.capacities, series, |_, costs| {
                no_more = costs.iter().zip(&has[done..]).all(|(new, old)| new <= old);
                done += costs.len();
                no_more
            });
            no_more
        })
    }

    fn fits(&self, claim: &Claim<'_>, series: usize) -> bool {
        let capacity = self.capacity_beside(claim, series);
        let mut fits = true;
        if capacity != UNLIMITED {
            claim.for_each_cost(&self.capacities, series, |start_round, costs| {
                fits = match self.timeline(claim.class, series) {
                    Some(timeline) => timeline.conflict(start_round, costs, capacity).is_none(),
                    None => false,
                };
                fits
            });
        }
        fits
    }

    /// What may be reserved of a resource without what must stay free beside the claim.
    fn capacity_beside(&self, claim: &Claim<'_>, series: usize) -> u64 {
        match self.capacity(claim.class, series) {
            UNLIMITED => UNLIMITED,
            capacity => capacity.saturating_sub(claim.kept.get(series).copied().unwrap_or(0)),
        }
    }

    fn refusal(&self, claim: &Claim<'_>) -> Option<Refusal> {
        let needs: Vec<ResourceNeed<'_>> =
            (0..self.capacities.series()).filter_map(|series| self.need(claim, series)).collect();
        let tightest =
            needs.iter().fold(None, |tightest, need| tighter(need, claim.start_round, tightest))?;
        let grantable_bps = self.grantable_bps(claim, &needs);
        let never = needs.iter().any(|need| need.peak > need.capacity);
        let retry = (!never).then(|| first_start(needs, claim.start_round, self.horizon()));
        Some(Refusal {
            resource: tightest.resource,
            round: tightest.round,
            asked: tightest.asked,
            available: tightest.available,
            grantable_bps,
            retry_after_s: retry.map(|start_round| seconds(start_round - claim.start_round)),
        })
    }

    /// The rate at which the same stream would fit: the least part, over all places where it does
    /// not fit, of what grows with the rate.
    fn grantable_bps(&self, claim: &Claim<'_>, needs: &[ResourceNeed<'_>]) -> u64 {
        let mut least: Option<Part> = None;
        for need in needs {
            need.timeline.beside(claim.start_round, &need.costs, |index, used, cost| {
                if !exceeds(cost, used, need.capacity) {
                    return;
                }
                let round = claim.from_round + index;
                let fixed = claim.demand.fixed_cost(need.resource, &self.capacities, round);
                let available = need.capacity.saturating_sub(used).saturating_sub(fixed);
                let part = Part { available, asked: cost.saturating_sub(fixed).max(1) };
                if least.is_none_or(|least| part.is_less(least)) {
                    least = Some(part);
                }
            });
        }
        least.map_or(0, |part| part.of_rate(claim.demand.average_bps()))
    }

    fn need<'a>(&'a self, claim: &Claim<'_>, series: usize) -> Option<ResourceNeed<'a>> {
        let resource = Resource::of_series(series);
        let capacity = self.capacity_beside(claim, series);
        if capacity == UNLIMITED || !claim.demand.needs(resource, (&self.capacities, claim.front_end)) {
            return None;
        }
        let costs = claim.costs(&self.capacities, series);
        let peak = costs.iter().copied().max().unwrap_or(0);
        let timeline = self.timeline(claim.class, series)?;
        Some(ResourceNeed { resource, timeline, costs, capacity, peak })
    }
}

impl Part {
    fn is_less(self, other: Part) -> bool {
        u128::from(self.available) * u128::from(other.asked)
            < u128::from(other.available) * u128::from(self.asked)
    }

    fn of_rate(self, rate_bps: u64) -> u64 {
        // Fits: it is less than the rate.
        (u128::from(rate_bps) * u128::from(self.available) / u128::from(self.asked)) as u64
    }
}

/// The tightest place so far, or a tighter one of this need. Only places where something does not
/// fit count: everywhere else the whole demand is available.
fn tighter(need: &ResourceNeed<'_>, start_round: u64, mut tightest: Option<Tightest>) -> Option<Tightest> {
    need.timeline.beside(start_round, &need.costs, |index, used, asked| {
        if !exceeds(asked, used, need.capacity) {
            return;
        }
        let available = need.capacity.saturating_sub(used);
        // available / asked < tightest.available / tightest.asked
        let is_tighter = tightest.is_none_or(|tightest| {
            u128::from(available) * u128::from(tightest.asked)
                < u128::from(tightest.available) * u128::from(asked)
        });
        if is_tighter {
            let round = start_round + index as u64;
            tightest = Some(Tightest { resource: need.resource, round, asked, available });
        }
    });
    tightest
}
