//! What a stream needs of the machine, round by round.

use crate::DiskPrice;
use crate::limits::{DEMAND_ROUNDS_MAX, ROUND_COST_MAX, ROUND_NS};
use crate::resource::{Capacities, Resource};
use std::sync::Arc;

/// Reads of one member in one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskDemand {
    /// How many requests.
    pub reads: u32,
    /// How many seeks: the requests that do not continue another one requested at the same time.
    pub seeks: u32,
    /// How many bytes in all of them.
    pub bytes: u64,
}

impl DiskDemand {
    /// Requests far from each other.
    pub const fn scattered(reads: u32, bytes: u64) -> DiskDemand {
        DiskDemand { reads, seeks: reads, bytes }
    }

    /// The more of both, in every part.
    pub(crate) fn most(&self, other: &DiskDemand) -> DiskDemand {
        let DiskDemand { reads, seeks, bytes } = *other;
        DiskDemand {
            reads: self.reads.max(reads),
            seeks: self.seeks.max(seeks),
            bytes: self.bytes.max(bytes),
        }
    }

    /// All of them together.
    fn sum(all: &[DiskDemand]) -> DiskDemand {
        all.iter().fold(DiskDemand::default(), |sum, more| DiskDemand {
            reads: sum.reads.saturating_add(more.reads),
            seeks: sum.seeks.saturating_add(more.seeks),
            bytes: sum.bytes.saturating_add(more.bytes),
        })
    }

    fn least(&self, other: &DiskDemand) -> DiskDemand {
        let DiskDemand { reads, seeks, bytes } = *other;
        DiskDemand {
            reads: self.reads.min(reads),
            seeks: self.seeks.min(seeks),
            bytes: self.bytes.min(bytes),
        }
    }

    fn without(&self, less: &DiskDemand) -> DiskDemand {
        DiskDemand {
            reads: self.reads.saturating_sub(less.reads),
            seeks: self.seeks.saturating_sub(less.seeks),
            bytes: self.bytes.saturating_sub(less.bytes),
        }
    }
}

/// What a stream needs, round by round from its start: round 0 is media time 0.
///
/// It is made once for a title and a choice of its tracks, never changes, and is shared by all
/// streams of these. It counts reads and bytes, not time: their cost is known to the ledger, and
/// may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    members: Vec<Vec<DiskDemand>>,
    sent_bytes: Vec<u64>,
    held_bytes: u64,
    rounds: usize,
    average_bps: u64,
    /// The reads of each member in all rounds together.
    reads_total: Vec<DiskDemand>,
    sent_total: u64,
    /// How many rounds before it is shown the first byte of what is shown at once is sent.
    ahead_rounds: usize,
    parts: Option<Arc<Parts>>,
}

/// A demand of which one part can be read by one stream for several.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    /// The demand of the stream that reads that part for several.
    shared: Demand,
    /// What every stream needs for itself beside others, if that includes reads.
    beside: Option<Arc<Demand>>,
}

impl Demand {
    /// Reads of each member in each round (`members[member][round]`), bytes sent in each round, and
    /// bytes of media memory held from the first round to the last. Lists that are shorter than the
    /// longest need nothing in the rounds they lack.
    pub fn new(mut members: Vec<Vec<DiskDemand>>, mut sent_bytes: Vec<u64>, held_bytes: u64) -> Demand {
        let rounds = members.iter().map(Vec::len).fold(sent_bytes.len(), usize::max);
        let kept = rounds.min(DEMAND_ROUNDS_MAX);
        members.iter_mut().for_each(|member| member.resize(kept, DiskDemand::default()));
        sent_bytes.resize(kept, 0);
        Demand::of_rounds(members, sent_bytes, held_bytes, rounds)
    }

    /// A stream of constant rate from `members` members, striped over all of them with one row of
    /// parity, in units of `unit_bytes`, and without the borders of segments. Every stripe costs
    /// one read of a whole unit on each member: that is the most that the loss of any one member
    /// can cause.
    pub fn constant(
        members: usize,
        rate_bps: u64,
        unit_bytes: u64,
        rounds: usize,
        held_bytes: u64,
    ) -> Demand {
        let kept = rounds.min(DEMAND_ROUNDS_MAX);
        let round_bytes = u128::from(rate_bps) * u128::from(ROUND_NS) / 8;
        let upto = |round: usize| u128::from(round as u64) * round_bytes / 1_000_000_000;
        let stripe_bytes = stripe_bytes(members, unit_bytes);
        let stripes_upto = |round: usize| upto(round).div_ceil(stripe_bytes);
        let sent = (0..kept).map(|round| saturated(upto(round + 1) - upto(round))).collect();
        let reads: Vec<DiskDemand> =
            (0..kept).map(|r| whole_units(stripes_upto(r + 1) - stripes_upto(r), unit_bytes)).collect();
        Demand::of_rounds(vec![reads; members], sent, held_bytes, rounds)
    }

    /// In every round the largest of these demands: for a stream that may switch among them.
    pub fn peak_of(all: &[&Demand]) -> Demand {
        Demand::merged(all, |a, b| a.max(b))
    }

    /// What all of these need together: tracks that are played at once.
    pub fn sum_of(all: &[&Demand]) -> Demand {
        Demand::merged(all, u64::saturating_add)
    }

    /// The same stream, with a part that one such stream can read for several.
    /// - `part`: the reads of the stream that does so. Its `sent_bytes` are the memory that the
    ///   data takes.
    /// - `always`: the reads of each stream beside that part.
    /// - `instead`: the reads of a stream in place of that part, if it does not continue with the
    ///   others.
    ///
    /// The stream itself is `always` plus the larger of `part` and `instead`.
    pub fn with_shared(self, part: &Demand, instead: &Demand, always: &Demand) -> Demand {
        let beside = Demand::sum_of(&[instead, always]);
        let beside = self.with_reads(&beside, DiskDemand::least);
        // The stream that reads for the others holds what it would read instead as well.
        let reads = part.with_reads(instead, DiskDemand::without);
        // Alone again, it must not need more than it holds.
        let most = Demand::peak_of(&[&self.with_reads(&beside, DiskDemand::without), &reads]);
        let shared = self.with(most.members, part.sent_bytes.clone(), part.held_bytes);
        let needs_beside = beside.members.iter().flatten().any(|reads| *reads != DiskDemand::default());
        let parts = Parts { shared, beside: needs_beside.then(|| Arc::new(beside)) };
        Demand { parts: Some(Arc::new(parts)), ..self }
    }

    /// The same stream, sent in segments that are shown for at most so many rounds. A stream that
    /// begins in its middle is sent the segment that is shown there, too.
    pub fn in_segments(self, rounds: usize) -> Demand {
        Demand { ahead_rounds: rounds, ..self }
    }

    /// The same stream on a network that counts `factor` bytes for each byte of it. Simulations use
    /// it whose objects are smaller than those that they stand for.
    pub fn sent_as(mut self, factor: u64) -> Demand {
        let sent_bytes = self.sent_bytes.iter().map(|bytes| bytes.saturating_mul(factor)).collect();
        let members = std::mem::take(&mut self.members);
        let Demand { parts, ahead_rounds, held_bytes, rounds, .. } = self;
        Demand { parts, ahead_rounds, ..Demand::of_rounds(members, sent_bytes, held_bytes, rounds) }
    }

    /// The same stream on a network that is sent so many bytes in each round. A stream that the
    /// server sends by the clock has its packets, with their headers, at known times.
    pub fn sending(mut self, sent_bytes: Vec<u64>) -> Demand {
        let members = std::mem::take(&mut self.members);
        let Demand { ahead_rounds, held_bytes, .. } = self;
        Demand { ahead_rounds, ..Demand::new(members, sent_bytes, held_bytes) }
    }

    /// What one of several such streams needs in order to read for all of them, beside what each
    /// holds for itself: see [`with_shared`](Self::with_shared). Without that, the whole demand.
    pub fn shared(&self) -> &Demand {
        self.parts.as_deref().map_or(self, |parts| &parts.shared)
    }

    /// What each stream holds for itself beside others, if that is anything of the disks.
    pub(crate) fn beside(&self) -> Option<&Arc<Demand>> {
        self.parts.as_deref()?.beside.as_ref()
    }

    /// How many rounds it lasts. More than [`DEMAND_ROUNDS_MAX`] are counted but not kept: no
    /// ledger has timelines that long.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// How many members it reads from.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// Reads of a member, round by round; empty for a member that it does not know.
    pub fn reads(&self, member: usize) -> &[DiskDemand] {
        self.members.get(member).map_or(&[], Vec::as_slice)
    }

    /// Bytes sent, round by round.
    pub fn sent_bytes(&self) -> &[u64] {
        &self.sent_bytes
    }

    /// For how many rounds a segment of the stream is shown at most; 0 if it is not sent in
    /// segments.
    pub fn segment_rounds(&self) -> usize {
        self.ahead_rounds
    }

    /// See [`in_segments`](Self::in_segments).
    pub(crate) fn ahead_rounds(&self) -> usize {
        self.ahead_rounds
    }

    /// Bytes of media memory held from the first round to the last.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Bits sent in a second, on average over the whole of it.
    pub fn average_bps(&self) -> u64 {
        self.average_bps
    }

    /// Bytes sent in all rounds together.
    pub(crate) fn sent_total(&self) -> u64 {
        self.sent_total
    }

    /// Reads of a member in all rounds together; none of a member that it does not know.
    pub(crate) fn reads_total(&self, member: usize) -> DiskDemand {
        self.reads_total.get(member).copied().unwrap_or_default()
    }

    /// Whether it needs anything of this resource in any round, where there is such a resource, if
    /// this front end sends it.
    pub(crate) fn needs(&self, resource: Resource, (prices, front_end): (&Capacities, usize)) -> bool {
        match resource {
            Resource::Arena => self.held_bytes > 0,
            Resource::Network => !prices.is_local(front_end),
            Resource::Core => true,
            Resource::Member(member) => member < self.members.len(),
            Resource::MemberBytes(member) => member < self.members.len() && prices.counts(resource),
        }
    }

    /// Writes the costs of the rounds from `from_round` on of a resource, in its unit, at these
    /// prices, for a stream that this front end sends. It fills `costs`, which must be within the
    /// demand. No cost is above [`ROUND_COST_MAX`].
    pub(crate) fn write_costs(
        &self,
        resource: Resource,
        (prices, front_end): (&Capacities, usize),
        from_round: usize,
        costs: &mut [u64],
    ) {
        if costs.is_empty() {
            return;
        }
        match resource {
            Resource::Arena => costs.fill(self.held_bytes.min(ROUND_COST_MAX)),
            Resource::Network if prices.is_local(front_end) => costs.fill(0),
            Resource::Network => {
                let sent = self.sent_bytes[from_round..].iter();
                costs.iter_mut().zip(sent).for_each(|(cost, &bytes)| *cost = bytes.min(ROUND_COST_MAX));
            }
            Resource::Core => {
                let price = DiskPrice { read_mib_ns: prices.core_mib_ns_of(front_end), ..DiskPrice::FREE };
                let sent = self.sent_bytes[from_round..].iter();
                costs.iter_mut().zip(sent).for_each(|(cost, &bytes)| {
                    *cost = price.read_ns(bytes).min(ROUND_COST_MAX);
                });
            }
            Resource::Member(member) | Resource::MemberBytes(member) if prices.counts(resource) => {
                let part = usize::from(matches!(resource, Resource::MemberBytes(_)));
                match (self.members.get(member), prices.members.get(member)) {
                    (Some(reads), Some(member)) => {
                        costs.iter_mut().zip(&reads[from_round..]).for_each(|(cost, read)| {
                            *cost = member.price.demand_parts_ns(read)[part].min(ROUND_COST_MAX);
                        });
                    }
                    _ => costs.fill(0),
                }
            }
            Resource::Member(_) | Resource::MemberBytes(_) => costs.fill(0),
        }
    }

    /// What a stream of a lower rate would need as well in a round: memory and requests. Bytes of
    /// it would be fewer.
    pub(crate) fn fixed_cost(&self, resource: Resource, prices: &Capacities, round: usize) -> u64 {
        match resource {
            Resource::Arena => self.held_bytes.min(ROUND_COST_MAX),
            Resource::Network | Resource::Core => 0,
            Resource::Member(member) | Resource::MemberBytes(member) => {
                let part = usize::from(matches!(resource, Resource::MemberBytes(_)));
                let requests = self.reads(member).get(round).map(|reads| DiskDemand { bytes: 0, ..*reads });
                let price = prices.members.get(member).map(|member| member.price);
                let cost =
                    price.zip(requests).map(|(price, requests)| price.demand_parts_ns(&requests)[part]);
                cost.unwrap_or(0).min(ROUND_COST_MAX)
            }
        }
    }

    /// The same stream with other reads: in each round made of its own reads and those of another
    /// demand.
    fn with_reads(&self, other: &Demand, made: impl Fn(&DiskDemand, &DiskDemand) -> DiskDemand) -> Demand {
        let none = DiskDemand::default();
        let of_member = |(member, reads): (usize, &Vec<DiskDemand>)| -> Vec<DiskDemand> {
            let others = other.reads(member).iter().chain(std::iter::repeat(&none));
            reads.iter().zip(others).map(|(reads, others)| made(reads, others)).collect()
        };
        let members = self.members.iter().enumerate().map(of_member).collect();
        self.with(members, self.sent_bytes.clone(), self.held_bytes)
    }

    /// The same stream with another demand: for display it still has the same rate.
    pub(crate) fn with(
        &self,
        members: Vec<Vec<DiskDemand>>,
        sent_bytes: Vec<u64>,
        held_bytes: u64,
    ) -> Demand {
        let Demand { average_bps, ahead_rounds, .. } = *self;
        Demand { average_bps, ahead_rounds, ..Demand::new(members, sent_bytes, held_bytes) }
    }

    fn of_rounds(
        members: Vec<Vec<DiskDemand>>,
        sent_bytes: Vec<u64>,
        held_bytes: u64,
        rounds: usize,
    ) -> Demand {
        let bits: u128 = sent_bytes.iter().map(|&bytes| u128::from(bytes) * 8).sum();
        let ns = (sent_bytes.len() as u128 * u128::from(ROUND_NS)).max(1);
        let average_bps = saturated(bits.saturating_mul(1_000_000_000) / ns);
        let reads_total = members.iter().map(|reads| DiskDemand::sum(reads)).collect();
        let sent_total = saturated(bits / 8);
        let (ahead_rounds, parts) = (0, None);
        Demand {
            members,
            sent_bytes,
            held_bytes,
            rounds,
            average_bps,
            reads_total,
            sent_total,
            ahead_rounds,
            parts,
        }
    }

    fn merged(all: &[&Demand], merge: impl Fn(u64, u64) -> u64) -> Demand {
        let mut members = Vec::new();
        let mut sent_bytes: Vec<u64> = Vec::new();
        let (mut held_bytes, mut rounds) = (0, 0);
        let ahead_rounds = all.iter().map(|demand| demand.ahead_rounds).max().unwrap_or(0);
        for demand in all {
            members.resize_with(demand.members.len().max(members.len()), Vec::<DiskDemand>::new);
            for (into, from) in members.iter_mut().zip(&demand.members) {
                into.resize(from.len().max(into.len()), DiskDemand::default());
                for (into, from) in into.iter_mut().zip(from) {
                    into.reads = merge(into.reads.into(), from.reads.into()).min(u32::MAX.into()) as u32;
                    into.seeks = merge(into.seeks.into(), from.seeks.into()).min(u32::MAX.into()) as u32;
                    into.bytes = merge(into.bytes, from.bytes);
                }
            }
            sent_bytes.resize(demand.sent_bytes.len().max(sent_bytes.len()), 0);
            for (into, &from) in sent_bytes.iter_mut().zip(&demand.sent_bytes) {
                *into = merge(*into, from);
            }
            held_bytes = merge(held_bytes, demand.held_bytes);
            rounds = rounds.max(demand.rounds);
        }
        for member in &mut members {
            member.resize(sent_bytes.len(), DiskDemand::default());
        }
        Demand::of_rounds(members, sent_bytes, held_bytes, rounds).in_segments(ahead_rounds)
    }
}

/// What a stripe over this many members holds besides its parity.
fn stripe_bytes(members: usize, unit_bytes: u64) -> u128 {
    u128::from(unit_bytes.max(1)) * members.saturating_sub(1).max(1) as u128
}

fn whole_units(units: u128, unit_bytes: u64) -> DiskDemand {
    let bytes = saturated(units.saturating_mul(unit_bytes.into()));
    DiskDemand::scattered(units.min(u32::MAX.into()) as u32, bytes)
}

fn saturated(number: u128) -> u64 {
    number.min(u64::MAX.into()) as u64
}
