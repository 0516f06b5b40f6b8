//! How many viewers more.

use crate::claim::Claim;
use crate::ledger::Ledger;
use crate::limits::RESERVATIONS_MAX;
use crate::resource::{Resource, UNLIMITED};
use crate::{AdmitError, Class, Demand};

/// When the viewers start that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starts {
    /// All in the same round: their peaks coincide. So many are certain to be admitted.
    Together,
    /// Spread evenly over the length of the title: each round carries the average. The long-term
    /// capacity of a machine, as exact as the spread is even.
    Spread,
    /// Each at a time of its own: what they need falls together in some rounds, and the more so the
    /// fewer they are. As many are admitted of viewers who press play one after another.
    Apart,
}

/// By how many standard deviations the fullest round that is promised needs more than the average.
/// It would be three among all rounds of a title; that viewers wait for a later start lowers it.
/// Found with simulated viewers who come at random (`told.rs` of reel-sim).
const CHANCE: f64 = 1.6;

/// How many, and why not more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How many can be admitted beside the present reservations.
    pub viewers: u64,
    /// What stops the next one; `None` if nothing but the number of reservations does.
    pub stopped_by: Option<Resource>,
}

impl Ledger {
    /// How many more viewers of this demand can be admitted, from now on. If several resources stop
    /// the same number, the first is named.
    ///
    /// # Errors
    /// As of [`admit`](Self::admit), but never [`AdmitError::Refused`].
    pub fn how_many(&self, class: Class, demand: &Demand, starts: Starts) -> Result<Answer, AdmitError> {
        let claim = self.claim(class, demand, 0, self.now_round)?;
        let places = RESERVATIONS_MAX.saturating_sub(self.reservations.len()) as u64;
        let mut answer = Answer { viewers: places, stopped_by: None };
        for series in 0..self.capacities.series() {
            let resource = Resource::of_series(series);
            let capacity = self.capacity(class, series);
            if capacity == UNLIMITED || !demand.needs(resource, (&self.capacities, claim.front_end)) {
                continue;
            }
            let viewers = match starts {
                Starts::Together => self.together(&claim, series, capacity, answer.viewers),
                Starts::Spread => self.spread(&claim, series, capacity, answer.viewers, 0.0),
                Starts::Apart => self.spread(&claim, series, capacity, answer.viewers, CHANCE),
            };
            if viewers < answer.viewers {
                answer = Answer { viewers, stopped_by: Some(resource) };
            }
        }
        Ok(answer)
    }

    /// The least quotient of what is available and the cost. Division is slow: it is done only
    /// where the count found so far does not fit. (Counts are at most 2^16 and costs below 2^46.)
    fn together(&self, claim: &Claim<'_>, series: usize, capacity: u64, most: u64) -> u64 {
        let mut viewers = most;
        self.each_available(claim, series, capacity, |available, cost| {
            if cost * viewers > available {
                viewers = available / cost;
            }
        });
        viewers
    }

    /// How many need no more than what is left in the fullest round, if that is as fuller than the
    /// average round as `chance` standard deviations of the cost: `n` viewers at random times need
    /// `n` times the mean, with a deviation of that of one viewer times the root of `n`.
    fn spread(&self, claim: &Claim<'_>, series: usize, capacity: u64, most: u64, chance: f64) -> u64 {
        let (mut least, mut sum, mut squares, mut rounds) = (u64::MAX, 0_u128, 0.0, 0_u128);
        self.each_available(claim, series, capacity, |available, cost| {
            least = least.min(available);
            sum += u128::from(cost);
            squares += cost as f64 * cost as f64;
            rounds += 1;
        });
        if sum == 0 {
            return most;
        }
        let even = (u128::from(least) * rounds / sum).min(most.into()) as u64;
        let mean = sum as f64 / rounds as f64;
        let more = chance * (squares / rounds as f64 - mean * mean).max(0.0).sqrt();
        // mean * n + more * sqrt(n) = least
        let root = ((more * more + 4.0 * mean * least as f64).sqrt() - more) / (2.0 * mean);
        if more > 0.0 { even.min((root * root) as u64) } else { even }
    }

    fn each_available(
        &self,
        claim: &Claim<'_>,
        series: usize,
        capacity: u64,
        mut each: impl FnMut(u64, u64),
    ) {
        let Some(timeline) = self.timeline(claim.class, series) else { return };
        claim.for_each_cost(&self.capacities, series, |start_round, costs| {
            timeline.beside(start_round, costs, |_, used, cost| each(capacity.saturating_sub(used), cost));
            true
        });
    }
}
