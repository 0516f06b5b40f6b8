//! The class of a request: who waits for it, and how.

use std::fmt;

/// The deadline of a request that nobody waits for at a fixed time.
pub const DEADLINE_NONE_NS: u64 = u64::MAX;

/// The three kinds of traffic of Prism (ACM Multimedia 2001, section 3), most urgent first.
///
/// Every request carries its class from the client's door down to the member's queue; requests of
/// different classes are never merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Audio and video of an admitted session: has a deadline.
    Periodic,
    /// A person waits: low response time, no promise.
    Interactive,
    /// Everything else: downloads, ingest, checks. Throughput without starvation.
    Aperiodic,
}

impl Class {
    /// All classes, most urgent first.
    pub const ALL: [Class; 3] = [Class::Periodic, Class::Interactive, Class::Aperiodic];

    /// The position in [`Class::ALL`], for tables indexed by class.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name used in metrics, configuration and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Periodic => "periodic",
            Class::Interactive => "interactive",
            Class::Aperiodic => "aperiodic",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
