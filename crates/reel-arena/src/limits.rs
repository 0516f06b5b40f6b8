//! Limits and tuning of this crate, each with its reason.

// ---- Limits

/// Buffers and cells are multiples of this: the page size, and the strictest alignment that direct
/// I/O needs.
pub const ALIGNMENT_BYTES: usize = 4096;

/// The largest buffer: one io_uring registration holds at most 1 GiB, and a buffer never straddles
/// two.
pub const BUFFER_BYTES_MAX: usize = 1 << 30;

/// The most cells in a buffer: the free cells of a buffer are one 64-bit word.
pub const CELLS_PER_BUFFER_MAX: usize = 64;

/// The most pieces (cells of all buffers) in an arena. The side table of 2^24 pieces costs 256 MiB,
/// and no available machine has memory for more useful pieces.
pub const PIECES_MAX: usize = 1 << 24;

/// The most descriptors in the ring of a memory-mapped stream that a reader accepts. A window of
/// stripes is some dozens of messages.
pub const MMS_SLOTS_MAX: u64 = 1 << 16;

// ---- Tuning

/// The longest time for which a side of a memory-mapped stream polls before it sleeps. It is the
/// cost of being woken: 5 to 27 microseconds for a hundredth of messages on a virtual machine
/// (docs/benchmarks.md, `mms`).
pub const MMS_SPIN_MAX_NS: u64 = 30_000;

/// The shortest such time, however long the waits before were: enough to poll a cache line of
/// another processor a few times.
pub const MMS_SPIN_MIN_NS: u64 = 500;
