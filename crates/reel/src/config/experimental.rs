//! `[experimental]`: settings for experiments, not for servers.

use reel_disk::Policy;
use reel_ring::DriverChoice;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// `[experimental]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ExperimentalSection {
    /// The priority of serve threads over all ordinary threads (SCHED_FIFO); 0 for ordinary ones.
    pub(crate) real_time_priority: usize,
    /// The kernel interface of the threads.
    pub(crate) driver: DriverName,
    /// The most packets that casts send at once, of those that are due within 10 ms; 0 for 40.
    pub(crate) cast_train_packets: usize,
    /// The policy that decides which request a disk gets next.
    #[serde(deserialize_with = "policy")]
    pub(crate) policy: Policy,
}

/// The kernel interface of the threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DriverName {
    /// io_uring. Where it is not available, epoll and threads with a warning.
    #[default]
    Auto,
    /// io_uring only: without it the server does not start.
    Uring,
    /// epoll and threads.
    Portable,
}

impl From<DriverName> for DriverChoice {
    fn from(name: DriverName) -> Self {
        match name {
            DriverName::Auto => Self::Auto,
            DriverName::Uring => Self::Uring,
            DriverName::Portable => Self::Portable,
        }
    }
}

fn policy<'de, D: Deserializer<'de>>(source: D) -> Result<Policy, D::Error> {
    String::deserialize(source)?.parse().map_err(D::Error::custom)
}
