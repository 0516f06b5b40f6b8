//! The policies by name.

use super::{DepthBound, Drr, Ordered, OrderedBy, Rounds, Scheduler};
use reel_qos::{ClassTable, DiskPrice};
use std::fmt;
use std::str::FromStr;

/// Which scheduler every member gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Two time frames with slack over deficit round robin: the one that keeps promises.
    #[default]
    Rounds,
    /// In the order of arrival.
    Fifo,
    /// Circular scan, blind to classes and deadlines.
    CScan,
    /// Deficit round robin between classes, circular scan within a round (MARS, section on disk
    /// queues).
    Drr,
    /// The earliest deadline first, blind to classes and places.
    Edf,
}

/// There is no policy of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no disk policy `{0}`; choose one of rounds, fifo, cscan, drr, edf")]
pub struct UnknownPolicy(String);

impl Policy {
    /// All of them, the default first.
    pub const ALL: [Policy; 5] = [Policy::Rounds, Policy::Fifo, Policy::CScan, Policy::Drr, Policy::Edf];

    /// The name used in configuration, metrics and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Rounds => "rounds",
            Policy::Fifo => "fifo",
            Policy::CScan => "cscan",
            Policy::Drr => "drr",
            Policy::Edf => "edf",
        }
    }

    /// An empty scheduler of this policy.
    pub fn scheduler(self, classes: &ClassTable, price: DiskPrice, bound: DepthBound) -> Box<dyn Scheduler> {
        match self {
            Policy::Rounds => Box::new(Rounds::new(classes, price, bound)),
            Policy::Fifo => Box::new(Ordered::new(OrderedBy::Arrival, classes, price, bound)),
            Policy::CScan => Box::new(Ordered::new(OrderedBy::Offset, classes, price, bound)),
            Policy::Drr => Box::new(Drr::new(classes, price, bound)),
            Policy::Edf => Box::new(Ordered::new(OrderedBy::Deadline, classes, price, bound)),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}
