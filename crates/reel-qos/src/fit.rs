//! The decision: does it fit, and if not, where is it the tightest.

use crate::claim::{Claim, Reservation};
use crate::ledger::{Ledger, seconds};
use crate::resource::{Resource, UNLIMITED};
use crate::retry::{ResourceNeed, first_start};
use crate::timeline::exceeds;
use crate::{Demand, Refusal};

/// The place where the smallest part of the demand is available.
#[derive(Clone, Copy)]
struct Tightest {
    resource: Resource,
    round: u64,
    asked: u64,
    available: u64,
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
            let has = if old.demand.needs(Resource::of_series(series), &self.capacities) {
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
        let capacity = self.capacity(claim.class, series);
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

    fn refusal(&self, claim: &Claim<'_>) -> Option<Refusal> {
        let needs: Vec<ResourceNeed<'_>> =
            (0..self.capacities.series()).filter_map(|series| self.need(claim, series)).collect();
        let tightest =
            needs.iter().fold(None, |tightest, need| tighter(need, claim.start_round, tightest))?;
        let never = needs.iter().any(|need| need.peak > need.capacity);
        let retry = (!never).then(|| first_start(needs, claim.start_round, self.horizon()));
        Some(Refusal {
            resource: tightest.resource,
            round: tightest.round,
            asked: tightest.asked,
            available: tightest.available,
            grantable_bps: tightest.part_of(claim.demand),
            retry_after_s: retry.map(|start_round| seconds(start_round - claim.start_round)),
        })
    }

    fn need<'a>(&'a self, claim: &Claim<'_>, series: usize) -> Option<ResourceNeed<'a>> {
        let resource = Resource::of_series(series);
        let capacity = self.capacity(claim.class, series);
        if capacity == UNLIMITED || !claim.demand.needs(resource, &self.capacities) {
            return None;
        }
        let costs = claim.costs(&self.capacities, series);
        let peak = costs.iter().copied().max().unwrap_or(0);
        let timeline = self.timeline(claim.class, series)?;
        Some(ResourceNeed { resource, timeline, costs, capacity, peak })
    }
}

impl Tightest {
    fn part_of(&self, demand: &Demand) -> u64 {
        let part = u128::from(demand.average_bps()) * u128::from(self.available) / u128::from(self.asked);
        part as u64
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
