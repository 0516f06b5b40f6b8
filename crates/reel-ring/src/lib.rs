//! io_uring with registered buffers, and a portable driver with the same face.
//!
//! A [`Ring`] belongs to one thread. That thread pushes [`Op`]s and waits for their [`Done`]s; other threads may
//! only wake it, by its [`Waker`]. The ring owns everything an op points to - file, buffer, lease, bytes - from
//! `push` until the `Done` hands it back, so no caller can free or change memory a device is using.
//!
//! There are two drivers with the same results: io_uring, where the arena is registered once and disk transfers
//! use the registration; and epoll with a few threads for files, where io_uring is missing or forbidden.

mod arena_map;
mod error;
pub mod limits;
mod op;
mod portable;
mod ring;
mod segment;
mod slab;
mod train;
mod uring;
mod waker;

pub use error::RingError;
pub use op::{Chunk, Done, Op};
pub use ring::{Driver, DriverChoice, Ring, RingConfig};
pub use segment::segment_bytes;
pub use train::{Train, pages_touched};
pub use waker::Waker;
