//! What a ledger reports about itself.

use crate::claim::Reservation;
use crate::ledger::{Ledger, ReservationId};
use crate::resource::{Overcommitment, Resource, ResourceUsage, UNLIMITED};
use crate::timeline::Timeline;
use crate::{Class, Demand};
use std::sync::Arc;

/// One reservation.
#[derive(Clone, Copy, Debug)]
pub struct ReservationView<'a> {
    /// Its name.
    pub id: ReservationId,
    /// For display.
    pub label: &'a str,
    /// The class whose share it uses.
    pub class: Class,
    /// Its demand.
    pub demand: &'a Arc<Demand>,
    /// The round of the demand that is on `start_round`.
    pub from_round: usize,
    /// Its first round.
    pub start_round: u64,
    /// The round after its last.
    pub end_round: u64,
}

impl Ledger {
    /// What is reserved of each resource for all classes together: in this round, and at most in
    /// any later one. Resources in the order media memory, network, core, members; after each
    /// member its bytes, if they have a limit of their own.
    pub fn usage(&self, now_round: u64) -> Vec<ResourceUsage> {
        let classes: Vec<Class> = self.account_classes().collect();
        self.usage_of_all(&classes, now_round)
    }

    /// The same for one class alone, beside its own share. Media memory is that of all classes.
    pub fn usage_of(&self, class: Class, now_round: u64) -> Vec<ResourceUsage> {
        self.usage_of_all(&[class], now_round)
    }

    /// What is reserved of a resource in a round: for one class, or for all. 0 in rounds that are
    /// past or later than any reservation.
    pub fn used(&self, class: Option<Class>, resource: Resource, round: u64) -> u64 {
        if round < self.now_round || round >= self.horizon() {
            return 0;
        }
        let at = |timeline: &Timeline| timeline.at(round);
        let series = resource.series();
        match class {
            Some(class) => self.timeline(class, series).map_or(0, at),
            None if series == 0 => self.arena.at(round),
            None => self.accounts.iter().filter_map(|account| account.get(series)).map(at).sum(),
        }
    }

    /// All reservations, the oldest first.
    pub fn reservations(&self) -> impl ExactSizeIterator<Item = ReservationView<'_>> {
        self.reservations.iter().map(|(&id, reservation)| view(id, reservation))
    }

    /// One reservation; `None` if it has ended.
    pub fn view(&self, id: ReservationId) -> Option<ReservationView<'_>> {
        self.reservations.get(&id).map(|reservation| view(id, reservation))
    }

    /// Where more is reserved than the capacity.
    pub fn over_committed(&self) -> Vec<Overcommitment> {
        let mut all = Vec::new();
        for series in 0..self.capacities.series() {
            let resource = Resource::of_series(series);
            if resource == Resource::Arena {
                all.extend(self.over(None, resource, &self.arena, self.capacities.share(resource, 1000)));
                continue;
            }
            for class in self.account_classes() {
                if let Some(timeline) = self.timeline(class, series) {
                    all.extend(self.over(Some(class), resource, timeline, self.capacity(class, series)));
                }
            }
        }
        all
    }

    /// Whether every timeline is the sum of the reservations. If not, this crate has a bug. For
    /// simulations and tests, since it takes as long as making all of them again.
    pub fn adds_up(&self) -> bool {
        let mut recounted = Ledger::new(self.capacities.clone(), self.rounds);
        recounted.now_round = self.now_round;
        recounted.set_classes(self.classes.clone());
        recounted.accounts.resize_with(self.accounts.len().max(recounted.accounts.len()), Vec::new);
        for (account, mine) in recounted.accounts.iter_mut().zip(&self.accounts) {
            *account = mine.iter().map(|timeline| Timeline::new(timeline.len())).collect();
        }
        for (&id, reservation) in &self.reservations {
            recounted.enter(id, reservation.clone());
        }
        recounted.accounts == self.accounts && recounted.arena == self.arena && recounted.ends == self.ends
    }

    fn usage_of_all(&self, classes: &[Class], now_round: u64) -> Vec<ResourceUsage> {
        let now_round = now_round.max(self.now_round);
        let one = |series: usize| {
            let resource = Resource::of_series(series);
            let timelines: Vec<&Timeline> = match resource {
                Resource::Arena => vec![&self.arena],
                _ => classes.iter().filter_map(|&class| self.timeline(class, series)).collect(),
            };
            let capacity = match resource {
                Resource::Arena => self.capacities.share(resource, 1000),
                _ => classes
                    .iter()
                    .fold(0, |sum: u64, &class| sum.saturating_add(self.capacity(class, series))),
            };
            let rounds = usize::try_from(self.horizon().saturating_sub(now_round)).unwrap_or(usize::MAX);
            let mut sums = vec![0_u64; rounds];
            for timeline in timelines {
                let used = timeline.pieces(now_round, rounds).into_iter().flatten();
                sums.iter_mut().zip(used).for_each(|(sum, &used)| *sum += used);
            }
            let (peak, peak_used) = peak(&sums);
            let used = sums.first().copied().unwrap_or(0);
            ResourceUsage { resource, used, capacity, peak_used, peak_round: now_round + peak as u64 }
        };
        let is_there = |&series: &usize| self.capacities.counts(Resource::of_series(series));
        (0..self.capacities.series()).filter(is_there).map(one).collect()
    }

    fn over(
        &self,
        class: Option<Class>,
        resource: Resource,
        timeline: &Timeline,
        capacity: u64,
    ) -> Option<Overcommitment> {
        if capacity == UNLIMITED {
            return None;
        }
        let rounds = usize::try_from(self.horizon() - self.now_round).unwrap_or(usize::MAX);
        let (mut over, mut worst) = (0, (0, capacity));
        let used = timeline.pieces(self.now_round, rounds).into_iter().flatten();
        for (place, &used) in used.enumerate() {
            if used > capacity {
                over += 1;
                if used > worst.1 {
                    worst = (place, used);
                }
            }
        }
        (over > 0).then(|| Overcommitment {
            class,
            resource,
            rounds: over,
            worst_round: self.now_round + worst.0 as u64,
            used: worst.1,
            capacity,
        })
    }

    /// The classes that are or were periodic.
    fn account_classes(&self) -> impl Iterator<Item = Class> {
        let open = |(index, account): (usize, &Vec<Timeline>)| {
            if account.is_empty() { None } else { Class::new(index) }
        };
        self.accounts.iter().enumerate().filter_map(open)
    }
}

/// The place and the value of the first highest.
fn peak(values: &[u64]) -> (usize, u64) {
    let highest = values.iter().copied().max().unwrap_or(0);
    let place = values.iter().position(|&value| value == highest).unwrap_or(0);
    (place, highest)
}

fn view(id: ReservationId, reservation: &Reservation) -> ReservationView<'_> {
    ReservationView {
        id,
        label: &reservation.label,
        class: reservation.class,
        demand: &reservation.demand,
        from_round: reservation.from_round,
        start_round: reservation.start_round,
        end_round: reservation.end_round,
    }
}
