//! What tests, the simulator and the tools share, so that each job is done once.
//!
//! No product crate depends on it, except for its tests. Everything here but [`http`] is pure: no
//! I/O, no clock, no threads.
#![forbid(unsafe_code)]

mod disk;
mod histogram;
pub mod http;
pub mod limits;
mod playlist;
mod rng;
mod url;
mod zipf;

pub use disk::{Begun, DiskModel, ModelledDisk};
pub use histogram::{Histogram, Percentiles};
pub use playlist::{Master, Media, Piece, Playlist, Variant};
pub use rng::{Rng, mix};
pub use url::Url;
pub use zipf::Zipf;
