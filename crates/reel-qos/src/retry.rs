//! When to try again: the first later start at which a demand fits beside the present reservations.

use crate::limits::{RETRY_CELLS_MAX, RETRY_WATCHES};
use crate::resource::Resource;
use crate::timeline::{Timeline, exceeds};

/// One resource as a demand sees it.
pub(crate) struct ResourceNeed<'a> {
    pub(crate) resource: Resource,
    /// What is reserved.
    pub(crate) timeline: &'a Timeline,
    /// What is needed, from the start on.
    pub(crate) costs: Vec<u64>,
    /// What can be reserved in a round.
    pub(crate) capacity: u64,
    /// The most that is needed in a round; not above the capacity, or no start would fit.
    pub(crate) peak: u64,
}

/// A round in which a start failed, and what it has left.
#[derive(Clone, Copy)]
struct Watch {
    need: usize,
    round: u64,
    available: u64,
}

/// The first start after `start_round` at which all needs fit. When [`RETRY_CELLS_MAX`] cells have
/// been checked, the first that has not been ruled out. From `horizon` on nothing is reserved.
///
/// A start that fails in some round rules out all later ones up to that which puts something small
/// enough, or nothing, on that round. Rounds in which even the peak would fit need no check; after
/// the last other one everything fits.
pub(crate) fn first_start(mut needs: Vec<ResourceNeed<'_>>, start_round: u64, horizon: u64) -> u64 {
    let mut budget = Budget(RETRY_CELLS_MAX);
    let mut start = start_round.saturating_add(1);
    let mut ends: Vec<u64> = Vec::with_capacity(needs.len());
    needs.retain(|need| match need.last_hot_round(start, horizon, &mut budget) {
        Some(round) => {
            ends.push(round + 1);
            true
        }
        None => false,
    });
    let mut watches: Vec<Watch> = Vec::with_capacity(RETRY_WATCHES);
    while let Some(failed) = failure(&needs, &ends, start, &watches, &mut budget) {
        let costs = &needs[failed.need].costs[..=(failed.round - start) as usize];
        let smaller = costs.iter().rev().position(|&cost| cost <= failed.available);
        start = match smaller {
            Some(later) => start + later as u64,
            None => failed.round + 1,
        };
        budget.take(smaller.unwrap_or(costs.len()));
        watches.retain(|watch| watch.round >= start && watch.round != failed.round);
        watches.truncate(RETRY_WATCHES - 1);
        watches.insert(0, failed);
        if budget.is_used_up() {
            break;
        }
    }
    start
}

/// Where this start fails, if it does: first where others have.
fn failure(
    needs: &[ResourceNeed<'_>],
    ends: &[u64],
    start: u64,
    watches: &[Watch],
    budget: &mut Budget,
) -> Option<Watch> {
    budget.take(1 + watches.len());
    let fails = |watch: &&Watch| {
        let index = watch.round.checked_sub(start).and_then(|index| usize::try_from(index).ok());
        let cost = index.and_then(|index| needs[watch.need].costs.get(index));
        cost.is_some_and(|&cost| cost > watch.available)
    };
    if let Some(watch) = watches.iter().find(fails) {
        return Some(*watch);
    }
    needs.iter().zip(ends).enumerate().find_map(|(index, (need, &end))| {
        let rounds = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
        let costs = &need.costs[..rounds.min(need.costs.len())];
        let place = need.timeline.conflict(start, costs, need.capacity);
        budget.take(place.unwrap_or(costs.len()));
        let round = start + place? as u64;
        let available = need.capacity.saturating_sub(need.timeline.at(round));
        Some(Watch { need: index, round, available })
    })
}

impl ResourceNeed<'_> {
    /// The last round before the horizon in which the peak would not fit. If it takes too long to
    /// find, the last of all.
    fn last_hot_round(&self, start: u64, horizon: u64, budget: &mut Budget) -> Option<u64> {
        let rounds = usize::try_from(horizon.saturating_sub(start)).unwrap_or(usize::MAX);
        if rounds == 0 {
            return None;
        }
        let [first, second] = self.timeline.pieces(start, rounds);
        budget.take(rounds);
        if budget.is_used_up() {
            return Some(horizon - 1);
        }
        let is_hot = |&used: &u64| exceeds(self.peak, used, self.capacity);
        let place = second
            .iter()
            .rposition(is_hot)
            .map(|place| first.len() + place)
            .or_else(|| first.iter().rposition(is_hot))?;
        Some(start + place as u64)
    }
}

/// What may still be spent on the search.
struct Budget(usize);

impl Budget {
    fn take(&mut self, cells: usize) {
        self.0 = self.0.saturating_sub(cells);
    }

    fn is_used_up(&self) -> bool {
        self.0 == 0
    }
}
