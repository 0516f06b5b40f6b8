//! The resources of the machine, and how much of each there is.

use crate::DiskPrice;
use crate::limits::{ROUND_COST_MAX, ROUND_NS};
use std::fmt;

/// A capacity that is not known: no stream is refused because of it.
pub const UNLIMITED: u64 = u64::MAX;

/// Something that can be used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Media memory: bytes held.
    Arena,
    /// The network: bytes sent in a round.
    Network,
    /// The serve threads: nanoseconds of processor in a round.
    Core,
    /// The member of this place in the volume: nanoseconds of device time in a round. If its
    /// requests and bytes have independent limits ([`DiskPrice::independent_limits`]), those of its
    /// requests.
    Member(usize),
    /// The bytes of the member of this place, if they have a limit independent of its requests:
    /// nanoseconds in a round.
    MemberBytes(usize),
}

/// How much of every resource there is: all of it, not yet divided among classes. The ledger
/// divides by the shares of its class table, so that a change of shares is not a change of
/// capacities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacities {
    /// Each member of the volume, in its order.
    pub members: Vec<MemberCapacity>,
    /// Bytes that can be sent in a round; [`UNLIMITED`] where the rate is not known.
    pub network_bytes: u64,
    /// Nanoseconds that the serve threads of the first front end have in a round. All front ends
    /// are charged to these.
    pub core_ns: u64,
    /// Nanoseconds of processor that sending a MiB costs each of the front ends. One that is
    /// missing costs as much as the first.
    pub core_mib_ns: Vec<u64>,
    /// The front ends whose clients are on this machine. What these front ends send and take uses
    /// nothing of the network.
    pub local_front_ends: Vec<usize>,
    /// Bytes of media memory that sessions may hold; all periodic classes share them.
    pub arena_bytes: u64,
}

/// What one member can do in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberCapacity {
    /// What its reads cost, at the quantile admission counts with.
    pub price: DiskPrice,
    /// Device nanoseconds in a round, for all classes together:
    /// [`ROUND_NS`](crate::limits::ROUND_NS), or less where a part is kept back.
    pub round_ns: u64,
}

/// How much of a resource is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceUsage {
    /// Of what.
    pub resource: Resource,
    /// Reserved in the requested round, in the resource's unit.
    pub used: u64,
    /// What can be reserved in a round; [`UNLIMITED`] where it is not known.
    pub capacity: u64,
    /// The most that is reserved in this or any later round.
    pub peak_used: u64,
    /// The first round in which that is.
    pub peak_round: u64,
}

/// More is reserved than the capacity: a capacity shrank or a price rose after the reservation was
/// made. The reservations stay. It is up to the operator, or to the cause of the change, what to
/// end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overcommitment {
    /// The class whose share it is; `None` for media memory, which all classes share.
    pub class: Option<crate::Class>,
    /// Of what.
    pub resource: Resource,
    /// In how many rounds.
    pub rounds: u64,
    /// The first of the worst of them.
    pub worst_round: u64,
    /// What is reserved there, in the resource's unit.
    pub used: u64,
    /// What could be.
    pub capacity: u64,
}

/// The order in which a ledger keeps its timelines: first those that every machine has, since
/// members may be added.
pub(crate) const SERIES_BEFORE_MEMBERS: usize = 3;

/// Timelines of each member: its requests, or all of its time; and its bytes, empty unless they
/// have a limit of their own.
const SERIES_OF_MEMBER: usize = 2;

impl Resource {
    /// The timeline of this place.
    pub(crate) const fn of_series(series: usize) -> Resource {
        match series {
            0 => Resource::Arena,
            1 => Resource::Network,
            2 => Resource::Core,
            series => {
                let place = series - SERIES_BEFORE_MEMBERS;
                let member = place / SERIES_OF_MEMBER;
                if place.is_multiple_of(SERIES_OF_MEMBER) {
                    Resource::Member(member)
                } else {
                    Resource::MemberBytes(member)
                }
            }
        }
    }

    /// The place of its timeline; of a member that cannot exist, a place that does not exist.
    pub(crate) const fn series(self) -> usize {
        match self {
            Resource::Arena => 0,
            Resource::Network => 1,
            Resource::Core => 2,
            Resource::Member(member) => first_series(member),
            Resource::MemberBytes(member) => first_series(member).saturating_add(1),
        }
    }

    /// Its code in problem documents, in the API and in the labels of metrics.
    pub const fn code(self) -> &'static str {
        match self {
            Resource::Arena => "memory",
            Resource::Network => "network",
            Resource::Core => "processor",
            Resource::Member(_) => "disk",
            Resource::MemberBytes(_) => "disk-bytes",
        }
    }

    /// The member that it is a part of, if it is one.
    pub const fn member(self) -> Option<usize> {
        match self {
            Resource::Member(member) | Resource::MemberBytes(member) => Some(member),
            Resource::Arena | Resource::Network | Resource::Core => None,
        }
    }

    /// An amount of it, with its unit, in words.
    pub fn amount(self, amount: u64) -> String {
        let number = amount as f64;
        match self {
            Resource::Member(_) | Resource::MemberBytes(_) => {
                format!("{:.1} ms of device time", number / 1e6)
            }
            Resource::Core => format!("{:.1} ms of processor time", number / 1e6),
            Resource::Network | Resource::Arena => format!("{:.2} MB", number / 1e6),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Arena => f.write_str("media memory"),
            Resource::Network => f.write_str("the network"),
            Resource::Core => f.write_str("the processor"),
            Resource::Member(member) => write!(f, "member {member}"),
            Resource::MemberBytes(member) => write!(f, "the bytes of member {member}"),
        }
    }
}

impl MemberCapacity {
    /// A member that can be promised at these costs and is now found to have those: never less than
    /// the first.
    ///
    /// A member that was not rotational does not become rotational by being slower. Beyond a
    /// threshold, its price alone would say so; then seeks would be counted in place of requests,
    /// and more would be reserved of a device that can do less. So it keeps its price, and has less
    /// time to give.
    pub fn found(measured: DiskPrice, found: DiskPrice) -> MemberCapacity {
        let price = measured.slower(found);
        if price.is_rotational() == measured.is_rotational() {
            return MemberCapacity { price, round_ns: ROUND_NS };
        }
        // Fits: it is never more than the round.
        let part =
            |was: u64, is: u64| (u128::from(ROUND_NS) * u128::from(was) / u128::from(is.max(1))) as u64;
        let requests_ns = part(measured.read_request_ns, price.read_request_ns);
        let bytes_ns = part(measured.read_mib_ns.max(1), price.read_mib_ns);
        MemberCapacity { price: measured, round_ns: requests_ns.min(bytes_ns) }
    }
}

impl Capacities {
    /// Nanoseconds of processor that sending a MiB costs a front end.
    pub(crate) fn core_mib_ns_of(&self, front_end: usize) -> u64 {
        self.core_mib_ns.get(front_end).or(self.core_mib_ns.first()).copied().unwrap_or(0)
    }

    /// Whether the clients of a front end are on this machine.
    pub(crate) fn is_local(&self, front_end: usize) -> bool {
        self.local_front_ends.contains(&front_end)
    }

    /// How many timelines it takes to keep account of these.
    pub(crate) fn series(&self) -> usize {
        SERIES_BEFORE_MEMBERS + SERIES_OF_MEMBER * self.members.len()
    }

    /// Whether there is such a resource: the bytes of members only where they have a limit of their
    /// own.
    pub(crate) fn counts(&self, resource: Resource) -> bool {
        match resource {
            Resource::MemberBytes(member) => {
                self.members.get(member).is_some_and(|member| member.price.independent_limits)
            }
            _ => true,
        }
    }

    /// Whether some member is rotational, by the cost of its reads.
    pub fn is_rotational(&self) -> bool {
        self.members.iter().any(|member| member.price.is_rotational())
    }

    /// The whole of a resource in a round; nothing of a member that is not there.
    pub fn whole(&self, resource: Resource) -> u64 {
        match resource {
            Resource::Arena => self.arena_bytes,
            Resource::Network => self.network_bytes,
            Resource::Core => self.core_ns,
            Resource::Member(member) | Resource::MemberBytes(member) => {
                self.members.get(member).map_or(0, |member| member.round_ns)
            }
        }
    }

    /// What may be reserved of a resource in a round for a class with this share. Memory is not
    /// time that passes: an idle share of it could not be lent, so all classes have the whole.
    pub(crate) fn share(&self, resource: Resource, permille: u32) -> u64 {
        let whole = self.whole(resource);
        if whole == UNLIMITED && permille > 0 {
            return UNLIMITED;
        }
        let part = match resource {
            Resource::Arena => whole,
            _ => (u128::from(whole) * u128::from(permille) / 1000) as u64,
        };
        part.min(ROUND_COST_MAX - 1)
    }
}

const fn first_series(member: usize) -> usize {
    member.saturating_mul(SERIES_OF_MEMBER).saturating_add(SERIES_BEFORE_MEMBERS)
}
