//! Media memory: one memfd arena, its buffers and leases.
//!
//! All media bytes of the process lie in one shared mapping, so that the same pages can be filled by the disk,
//! sent by the network and mapped by other processes. The region is cut in equal **buffers**; a buffer can be
//! cut further in equal **cells** for small things. A piece (buffer or cell) is either free or in one of the
//! [`State`]s of the MARS memory-mapped buffers ("mmbuf": Buddhikot, Chen, Wu, Parulkar, "Enhancements to 4.4
//! BSD UNIX for Efficient Networked Multimedia in Project MARS", 1998).
//!
//! A piece has two faces and is always seen through exactly one of them: a [`Buffer`] (one owner, writable) or
//! any number of [`Lease`]s (shared, immutable). The memory comes back when the last of them is dropped.
//!
//! ```
//! use reel_arena::{Arena, ArenaConfig};
//! let arena = Arena::new(ArenaConfig { buffer_bytes: 65536, buffer_count: 4, cells_per_buffer: 4, huge_pages: false })?;
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
pub use state::State;
