//! io_uring with registered buffers, and a portable driver with the same interface.
//!
//! A [`Ring`] belongs to one thread. That thread pushes [`Op`]s and waits for their [`Done`]s.
//! Other threads may only wake it, by its [`Waker`]. The ring owns everything that an operation
//! points to (file, buffer, lease, bytes) from `push` until the `Done` returns it, so no caller can
//! free or change memory that a device is using.
//!
//! Two drivers give the same results. One is io_uring, where the arena is registered once and disk
//! transfers use the registration. The other is epoll with a few threads for files, for systems
//! where io_uring is missing or forbidden.

mod arena_map;
mod error;
pub mod limits;
mod op;
mod portable;
mod ring;
mod slab;
mod source_group;
mod tcp_info;
mod train;
mod uring;
mod waker;

pub use error::RingError;
pub use op::{Chunk, Done, Op};
pub use ring::{Driver, DriverChoice, Ring, RingConfig};
pub use source_group::join_source_group;
pub use tcp_info::{TcpStatus, segment_bytes, tcp_status};
pub use train::{Train, pages_touched};
pub use waker::Waker;
