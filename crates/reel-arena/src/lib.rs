//! Media memory: one memfd arena, its buffers and leases.
//!
//! All media bytes of the process lie in one shared mapping. So the disk can fill, the network can
//! send and other processes can map the same pages. The region is cut into equal **buffers**. A
//! buffer can be cut into equal **cells** for small pieces. A piece (buffer or cell) is either free
//! or in one of the [`PieceState`]s of the MARS memory-mapped buffers ("mmbuf": Buddhikot, Chen,
//! Wu, Parulkar, "Enhancements to 4.4 BSD UNIX for Efficient Networked Multimedia in Project MARS",
//! 1998).
//!
//! A piece is always held in exactly one of two forms: a [`Buffer`] (one owner, writable) or any
//! number of [`Lease`]s (shared, immutable). The memory is free again when the last of them is
//! dropped.
//!
//! ```
//! use reel_arena::{Arena, ArenaConfig};
//! let (buffer_bytes, buffer_count) = (65536, 4);
//! let shape = ArenaConfig { buffer_bytes, buffer_count, cells_per_buffer: 4, huge_pages: false };
//! let arena = Arena::new(shape)?;
//! let mut buffer = arena.take(4096).expect("the arena is empty");
//! buffer[..5].copy_from_slice(b"bytes");
//! let lease = buffer.freeze();
//! let part = lease.slice(1..3);
//! drop(lease);
//! assert_eq!(&part[..], b"yt");
//! # Ok::<(), reel_arena::ArenaError>(())
//! ```

mod arena;
mod buffer;
mod error;
mod free;
mod lease;
pub mod limits;
pub mod mms;
mod region;
mod shared;
mod state;

pub use arena::{Arena, ArenaConfig, ArenaUsage};
pub use buffer::Buffer;
pub use error::ArenaError;
pub use lease::{Lease, Sending};
pub use region::{PageKind, Region};
pub use shared::{Others, SharedMemory};
pub use state::PieceState;
