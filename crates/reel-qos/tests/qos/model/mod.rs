//! The ledger again, as simple as possible: no timelines, every sum computed again from the list of
//! reservations.

use proptest::prelude::*;
use reel_qos::{
    Capacities, Class, ClassSpec, ClassTable, Demand, DiskDemand, DiskPrice, Kind, MemberCapacity,
    ReservationId, Resource,
};
use std::sync::Arc;

pub(crate) const ROUNDS: usize = 24;
pub(crate) const GOLD: usize = 3;

#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) id: ReservationId,
    pub(crate) part: Part,
}

/// A demand on the clock.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) demand: Arc<Demand>,
    pub(crate) class: Class,
    pub(crate) from_round: usize,
    pub(crate) start_round: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) capacities: Capacities,
    pub(crate) classes: ClassTable,
    pub(crate) now_round: u64,
    pub(crate) held: Vec<Held>,
}

impl Part {
    pub(crate) fn end_round(&self) -> u64 {
        self.start_round + self.demand.rounds().saturating_sub(self.from_round) as u64
    }

    pub(crate) fn later(&self, rounds: u64) -> Part {
        Part { start_round: self.start_round + rounds, ..self.clone() }
    }

    /// What it costs of a resource in an absolute round.
    /// The same with no byte to read or send.
    pub(crate) fn without_bytes(&self) -> Part {
        let no_bytes = |read: &DiskDemand| DiskDemand { bytes: 0, ..*read };
        let members =
            (0..self.demand.members()).map(|member| self.demand.reads(member).iter().map(no_bytes).collect());
        let sent = vec![0; self.demand.rounds()];
        let demand = Demand::new(members.collect(), sent, self.demand.held_bytes());
        Part { demand: Arc::new(demand), ..self.clone() }
    }

    pub(crate) fn cost(&self, capacities: &Capacities, resource: Resource, round: u64) -> u64 {
        if round < self.start_round || round >= self.end_round() {
            return 0;
        }
        let index = (round - self.start_round) as usize + self.from_round;
        let mib = |bytes: u64, price_ns: u64| (bytes * price_ns).div_ceil(1 << 20);
        let sent = self.demand.sent_bytes()[index];
        match resource {
            Resource::Arena => self.demand.held_bytes(),
            Resource::Network if capacities.local_front_ends.contains(&front_end_of(self.class)) => 0,
            Resource::Network => sent,
            Resource::Core => mib(sent, capacities.core_mib_ns[front_end_of(self.class)]),
            Resource::Member(member) | Resource::MemberBytes(member) => {
                self.demand.reads(member).get(index).map_or(0, |read| {
                    let price = capacities.members[member].price;
                    let requests_ns = u64::from(read.reads) * price.read_request_ns;
                    let bytes_ns = mib(read.bytes, price.read_mib_ns);
                    match (resource, price.independent_limits) {
                        (Resource::MemberBytes(_), true) => bytes_ns,
                        (Resource::MemberBytes(_), false) => 0,
                        (_, true) => requests_ns,
                        (_, false) => requests_ns + bytes_ns,
                    }
                })
            }
        }
    }
}

/// The front end that sends the streams of a class.
pub(crate) fn front_end_of(class: Class) -> usize {
    usize::from(class != Class::PERIODIC)
}

impl Model {
    pub(crate) fn resources(&self) -> Vec<Resource> {
        let members = (0..self.capacities.members.len())
            .flat_map(|member| [Resource::Member(member), Resource::MemberBytes(member)]);
        [Resource::Arena, Resource::Network, Resource::Core].into_iter().chain(members).collect()
    }

    pub(crate) fn capacity(&self, class: Class, resource: Resource) -> u64 {
        let share = u64::from(self.classes.spec(class).share_permille);
        match resource {
            Resource::Arena => self.capacities.arena_bytes,
            Resource::Network => self.capacities.network_bytes * share / 1000,
            Resource::Core => self.capacities.core_ns * share / 1000,
            Resource::Member(member) | Resource::MemberBytes(member) => {
                self.capacities.members[member].round_ns * share / 1000
            }
        }
    }

    pub(crate) fn used(
        &self,
        class: Class,
        resource: Resource,
        round: u64,
        but: Option<ReservationId>,
    ) -> u64 {
        let counts =
            |held: &&Held| Some(held.id) != but && (resource == Resource::Arena || held.part.class == class);
        let costs =
            self.held.iter().filter(counts).map(|held| held.part.cost(&self.capacities, resource, round));
        costs.sum()
    }

    /// Everything that would not fit: resource, round, needed, available. `from` cuts off what is
    /// in the past.
    pub(crate) fn short(
        &self,
        part: &Part,
        from: u64,
        but: Option<ReservationId>,
    ) -> Vec<(Resource, u64, u64, u64)> {
        let mut short = Vec::new();
        for resource in self.resources() {
            let capacity = self.capacity(part.class, resource);
            for round in from.max(part.start_round)..part.end_round() {
                let asked = part.cost(&self.capacities, resource, round);
                let used = self.used(part.class, resource, round, but);
                if asked > 0 && used + asked > capacity {
                    short.push((resource, round, asked, capacity.saturating_sub(used)));
                }
            }
        }
        short
    }

    /// Rounds until the same thing fits, tried one by one.
    pub(crate) fn wait(&self, part: &Part, but: Option<ReservationId>) -> Option<u64> {
        (1..1000).find(|&later| self.short(&part.later(later), self.now_round + later, but).is_empty())
    }

    pub(crate) fn advance(&mut self, now_round: u64) {
        self.now_round = self.now_round.max(now_round);
        self.held.retain(|held| held.part.end_round() > self.now_round);
    }
}

pub(crate) fn demand() -> impl Strategy<Value = Arc<Demand>> {
    let reads = (0_u32..3, 0_u64..6).prop_map(|(reads, bytes)| DiskDemand::scattered(reads, bytes));
    let member = prop::collection::vec(reads, 0..9);
    (prop::collection::vec(member, 0..3), prop::collection::vec(0_u64..7, 0..9), 0_u64..5)
        .prop_map(|(members, sent, held)| Arc::new(Demand::new(members, sent, held)))
}

/// Prices of 0 to 2 per read and per byte, and room for a handful.
pub(crate) fn capacities() -> impl Strategy<Value = Capacities> {
    let member = (0_u64..3, 0_u64..3, any::<bool>(), 8_u64..60).prop_map(
        |(read, byte, independent_limits, round_ns)| {
            let price = DiskPrice {
                read_request_ns: read,
                read_mib_ns: byte << 20,
                write_request_ns: 0,
                write_mib_ns: 0,
                independent_limits,
            };
            MemberCapacity { price, round_ns }
        },
    );
    let machine = (10_u64..60, 10_u64..60, [0_u64..3, 0_u64..3], any::<bool>(), 4_u64..30);
    (prop::collection::vec(member, 2), machine).prop_map(
        |(members, (network_bytes, core_ns, core_bytes, is_local, arena_bytes))| Capacities {
            members,
            network_bytes,
            core_ns,
            core_mib_ns: core_bytes.map(|byte| byte << 20).to_vec(),
            local_front_ends: if is_local { vec![1] } else { Vec::new() },
            arena_bytes,
        },
    )
}

/// Two periodic classes with all but a tenth between them.
pub(crate) fn classes() -> impl Strategy<Value = ClassTable> {
    (100_u32..800).prop_map(|share_permille| {
        ClassTable::new(vec![
            ClassSpec::new("periodic", Kind::Periodic, share_permille),
            ClassSpec::new("interactive", Kind::Interactive, 50),
            ClassSpec::new("aperiodic", Kind::Aperiodic, 50),
            ClassSpec::new("gold", Kind::Periodic, 900 - share_permille),
        ])
        .unwrap()
    })
}
