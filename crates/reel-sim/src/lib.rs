//! The server on simulated disks, clients and time: one seed is one run.
//!
//! Real are the schedulers of `reel-disk`, the ledger of `reel-qos`, all of `reel-volume`, units,
//! readers and sessions of `reel-cache` and `reel-admit`, and the streams of `reel-pour`. Simulated
//! are devices, clients, programs and the clock. `docs/design/simulator.md` says what the models
//! leave out.
#![forbid(unsafe_code)]

mod capacity;
mod casts;
mod casts_report;
pub mod changes;
pub mod client;
pub mod content;
mod cooperative_threads;
mod core;
mod crash;
pub mod device;
pub mod disks;
pub mod fault;
mod immediate;
pub mod journal;
mod library;
pub mod limits;
mod maintenance;
mod medium;
mod member;
mod mounted_report;
mod pours;
mod pours_report;
pub mod probe;
mod report;
pub mod scale;
mod scenario;
mod sessions;
mod shares;
mod simulation;
mod start_waits;
pub mod stored_titles;
pub mod title;

pub use casts::CastSpec;
pub use casts_report::CastsReport;
pub use mounted_report::{ExemptFileStalls, MountedReport};
pub use pours::PourSpec;
pub use pours_report::PoursReport;
pub use report::{Broken, Report};
pub use scenario::Scenario;
pub use simulation::Simulation;
