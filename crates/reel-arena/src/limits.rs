//! Every limit of this crate, with its reason.

/// Buffers and cells are multiples of this: the page size, and the strictest alignment direct I/O asks for.
pub const ALIGNMENT_BYTES: usize = 4096;

/// The largest buffer: one io_uring registration holds at most 1 GiB, and a buffer never straddles two.
pub const BUFFER_BYTES_MAX: usize = 1 << 30;

/// The most cells in a buffer: the free cells of a buffer are one 64-bit word.
pub const CELLS_PER_BUFFER_MAX: usize = 64;

/// The most pieces (cells of all buffers) in an arena: 2^24 pieces of side table cost 256 MiB, and no machine
/// in reach holds more memory than 2^24 useful pieces.
pub const PIECES_MAX: usize = 1 << 24;

/// The most descriptors in the ring of a memory-mapped stream that a reader believes: a window of stripes is some dozens of messages.
pub const MMS_SLOTS_MAX: u64 = 1 << 16;

/// How long a side of a memory-mapped stream looks for the other at most before it sleeps: what it takes to be woken, 5 to 27 microseconds
/// for a hundredth of messages on a virtual machine (docs/benchmarks.md, `mms`).
pub const MMS_LOOK_MAX_NS: u64 = 30_000;

/// And at least, however long the waits before were: time for some looks at a cache line of another processor.
pub const MMS_LOOK_MIN_NS: u64 = 500;
