//! Front end for programs on this machine: their streams go through shared memory. `reel-client` is
//! the other side.
#![forbid(unsafe_code)]

pub mod limits;
mod metrics;
mod outlet;
mod programs;

pub use metrics::LocalMetrics;
pub use outlet::{ArenaMap, MappedOutlet};
pub use programs::{LocalCounters, LocalFrontEnd};
