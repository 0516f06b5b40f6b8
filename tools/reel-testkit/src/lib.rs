//! What tests, the simulator and the tools share, so that each job is done once.
//!
//! No product crate depends on it, except for its tests. Everything here but [`http`],
//! [`free_address`], [`run_in_own_mounts`], [`run_in_own_network`], [`run_in_own_process`] and
//! [`Capture::dissect`] is pure: no I/O, no clock, no threads.
#![forbid(unsafe_code)]

mod address;
mod capture;
mod disk;
mod histogram;
pub mod http;
pub mod limits;
mod own_mounts;
mod own_network;
mod own_process;
mod playlist;
mod ring;
mod rng;
mod url;
mod zipf;

pub use address::free_address;
pub use capture::Capture;
pub use disk::{Begun, DiskModel, ModelledDisk};
pub use histogram::{Histogram, Percentiles};
pub use own_mounts::run_in_own_mounts;
pub use own_network::run_in_own_network;
pub use own_process::run_in_own_process;
pub use playlist::{Master, Media, Piece, Playlist, Variant};
pub use ring::ring_or_skip;
pub use rng::{Rng, mix};
pub use url::Url;
pub use zipf::Zipf;
