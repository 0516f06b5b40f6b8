//! Limits and tuning of this crate, each with its reason.

use std::time::Duration;

// ---- Limits

/// The largest number of submission entries of a ring: the kernel's own bound.
pub const ENTRIES_MAX: u32 = 32_768;

/// The largest number of pieces of one send: the kernel's UIO_MAXIOV. A longer send is cut here and
/// reported as partial; a train, which cannot be sent in part, is refused.
pub const SEND_CHUNKS_MAX: usize = 1024;

/// The most bytes of one send of a single chunk: the kernel itself never transfers 2 GiB or more at
/// once.
pub const SEND_BYTES_MAX: usize = 1 << 30;

/// The most bytes of a train: the largest UDP datagram over IPv4 (RFC 768, RFC 791). The kernel
/// applies this bound to a train.
pub const TRAIN_BYTES_MAX: usize = 65_507;

/// The most packets of a train: the kernel's UDP_MAX_SEGMENTS, 64 in Linux 4.18 and 128 today.
pub const TRAIN_PACKETS_MAX: usize = 64;

/// The most pages of a train that is lent: the kernel's MAX_SKB_FRAGS, 17 unless it was configured
/// larger. A longer send would fail with EMSGSIZE.
pub const TRAIN_LENT_PAGES_MAX: usize = 17;

/// The most operations on files that the kernel runs beside each other although they block, each on
/// a thread of its own. More than all that is under way on the members of one ring. A thread costs
/// the kernel some 20 KiB, and exists only while something blocks.
pub const BLOCKING_OPS_MAX: u32 = 512;

/// The largest registered piece of the arena: the kernel's bound per buffer.
pub const REGISTERED_PIECE_BYTES_MAX: usize = 1 << 30;

/// The most registered pieces: the kernel's IORING_MAX_REG_BUFFERS.
pub const REGISTERED_PIECES_MAX: usize = 1 << 14;

/// How long a dropped ring waits for operations in flight before it leaks their memory. A disk may
/// take tens of seconds for one bad sector. Beyond that, a leak is better than a process that does
/// not end.
pub const DROP_WAIT_MAX: Duration = Duration::from_secs(60);

/// The same if everything in flight is memory of zero-copy sends that peers have not acknowledged.
/// A peer that has not acknowledged by then may take minutes, and a program that ends must not wait
/// for a network.
pub const LENT_DROP_WAIT_MAX: Duration = Duration::from_secs(1);

/// How often a ring may break and be replaced. Each replacement may cost the memory of the
/// operations in flight. If a ring breaks this often, only a restart can remove the cause.
pub const RENEWALS_MAX: u32 = 16;

// ---- Tuning

/// The most completions that one `wait` returns, so that a flood cannot keep the caller from its
/// other work.
pub const DONE_PER_WAIT_MAX: usize = 4096;

/// Completion entries per submission entry. Idle sockets keep far more operations in flight than
/// there are entries. Completions that do not fit wait in the kernel's overflow list, which is
/// slower but loses nothing.
pub const COMPLETIONS_PER_ENTRY: u32 = 4;

/// Pauses between attempts to register memory. The kernel returns the locked memory of a closed
/// ring some time after the close, so a quick restart can get an ENOMEM that passes by itself.
pub const REGISTER_RETRIES: [Duration; 5] = [
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];

/// Threads of the portable driver that read, write and sync files: enough to keep one disk busy.
pub const PORTABLE_FILE_THREADS: usize = 4;

/// Events that the portable driver takes from the kernel at a time.
pub const PORTABLE_EVENTS_PER_WAIT: usize = 256;

/// For this long after a ring was replaced, the old ring's read of the wake-up counter may still
/// consume a wake-up. So no wait sleeps longer than the second figure during this time. Likewise
/// the old ring's accept may be told of a connection and not take it, so accepts poll first. The
/// kernel ends the operations of a closed ring within milliseconds.
pub const RENEWED_FOR: Duration = Duration::from_secs(1);

/// See [`RENEWED_FOR`].
pub const RENEWED_SLEEP_MAX: Duration = Duration::from_millis(10);
