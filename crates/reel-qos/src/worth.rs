//! What a new stream should be charged with: memory for the interval to the stream ahead, or the
//! disks.

use crate::claim::DemandStart;
use crate::ledger::Ledger;
use crate::limits::{DEMAND_ROUNDS_MAX, REACH_ROUNDS};
use crate::shared::{Meeting, SharedReservations};
use crate::{Class, Demand, Resource};
use std::sync::Arc;

/// How much of a resource is reserved, and its capacity.
#[derive(Clone, Copy)]
struct Use {
    used: u64,
    capacity: u64,
}

impl SharedReservations {
    /// Whether a stream that could follow in `group` should do so, rather than be charged with the
    /// disks.
    ///
    /// Either memory or disks can be the reason why the next viewer is refused. So they are
    /// compared as parts of what may be reserved of each for a class. The stream follows
    /// - while the reserved part of the disks is larger than that of memory, including the
    ///   interval: then both are used up together;
    /// - otherwise if the interval takes a smaller part of the free memory than its reads of the
    ///   free disks. Between two streams that share already, the interval takes nothing.
    pub fn is_worth_following(&self, class: Class, demand: &Demand, group: u64, start: DemandStart) -> bool {
        let with_bytes = self.interval_bytes_with(group, start);
        self.is_worth(class, demand, start.from_round, with_bytes)
    }

    /// The same for a group that has come to where another one has been: it costs the disks nothing
    /// any more, and both are charged with memory for the interval.
    pub fn is_worth_merging(&self, meeting: &Meeting) -> bool {
        let Some((class, demand, from_round)) = self.played_by(meeting.leader) else { return false };
        self.is_worth(class, demand, from_round, self.interval_bytes_merged(meeting))
    }

    /// Whether intervals should take this many bytes in all, so that a stream with the rest of a
    /// demand reads nothing.
    fn is_worth(&self, class: Class, demand: &Demand, from_round: usize, with_bytes: u64) -> bool {
        let more_bytes = with_bytes.saturating_sub(self.interval_bytes());
        let ledger = self.ledger();
        let memory = ledger.use_of(class, Resource::Arena);
        let capacities = ledger.capacities();
        let parts = (0..capacities.members.len())
            .flat_map(|member| [Resource::Member(member), Resource::MemberBytes(member)])
            .filter(|&part| capacities.counts(part));
        let disks = parts.map(|part| (ledger.use_of(class, part), part));
        let Some((disks, fullest)) =
            disks.max_by(|(one, _), (other, _)| one.part(0).total_cmp(&other.part(0)))
        else {
            return false;
        };
        // A stream is charged with its reads beside others in any case.
        let [needs_ns, beside_ns] = [Some(demand), demand.beside().map(Arc::as_ref)]
            .map(|demand| demand.map_or(0, |demand| ledger.needs_on_average(demand, fullest, from_round)));
        let saves_ns = needs_ns.saturating_sub(beside_ns);
        saves_ns > 0 && memory.part(more_bytes) <= disks.part(0)
            || memory.part_of_free(more_bytes) <= disks.part_of_free(saves_ns)
    }
}

impl Use {
    /// The used part of the whole with this much more.
    fn part(self, more: u64) -> f64 {
        self.used.saturating_add(more) as f64 / self.capacity.max(1) as f64
    }

    /// What part that is of what is free; where nothing is, more than any, unless it is nothing.
    fn part_of_free(self, more: u64) -> f64 {
        match (more, self.capacity.saturating_sub(self.used)) {
            (0, _) => 0.0,
            (_, 0) => f64::INFINITY,
            (_, free) => more as f64 / free as f64,
        }
    }
}

impl Ledger {
    /// The most that is reserved, of the share of a class, in one of the rounds ahead for which
    /// clients fetch; of memory, for all classes.
    fn use_of(&self, class: Class, resource: Resource) -> Use {
        let of = Some(class).filter(|_| resource != Resource::Arena);
        let rounds = self.now_round()..self.now_round().saturating_add(REACH_ROUNDS as u64);
        let used = rounds.map(|round| self.used(of, resource, round)).max().unwrap_or(0);
        Use { used, capacity: self.capacity(class, resource.series()) }
    }

    /// What the rest of a demand costs of a resource in a round.
    fn needs_on_average(&self, demand: &Demand, resource: Resource, from_round: usize) -> u64 {
        let mut costs = vec![0; demand.rounds().min(DEMAND_ROUNDS_MAX).saturating_sub(from_round)];
        demand.write_costs(resource, (self.capacities(), 0), from_round, &mut costs);
        costs.iter().fold(0, |sum: u64, cost| sum.saturating_add(*cost)) / costs.len().max(1) as u64
    }
}
