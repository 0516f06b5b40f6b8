//! The server on simulated disks, clients and time: one seed is one run.
//!
//! Real are the schedulers of `reel-disk`, the ledger of `reel-qos`, all of `reel-volume`, and
//! units, readers and sessions of `reel-cache` and `reel-admit`. Simulated are devices, clients and
//! the clock. `docs/design/simulator.md` says what the models leave out.
#![forbid(unsafe_code)]

mod beginnings;
mod capacity;
pub mod changes;
pub mod client;
pub mod content;
mod core;
mod crash;
mod desk;
pub mod device;
pub mod disks;
pub mod fault;
pub mod journal;
mod library;
pub mod limits;
mod medium;
mod member;
pub mod probe;
mod report;
pub mod scale;
mod scenario;
mod shares;
pub mod shelf;
mod stage;
mod still;
pub mod title;
mod upkeep;
mod world;

pub use report::{Broken, Report};
pub use scenario::Scenario;
pub use world::World;
