//! Every limit of this crate, with its reason.

use std::time::Duration;

/// The most submission entries of a ring: the kernel's own bound.
pub const ENTRIES_MAX: u32 = 32_768;

/// Completion entries per submission entry. Idle sockets keep far more operations in flight than there are
/// entries; what does not fit waits in the kernel's overflow list, which is slower but loses nothing.
pub const COMPLETIONS_PER_ENTRY: u32 = 4;

/// The most pieces of one send. The kernel's UIO_MAXIOV; a longer send is cut here and reported as partial.
pub const SEND_CHUNKS_MAX: usize = 1024;

/// The most bytes of one send of a single chunk: the kernel itself never transfers 2 GiB or more at once.
pub const SEND_BYTES_MAX: usize = 1 << 30;

/// The most bytes of a train: the largest UDP datagram over IPv4 (RFC 768, RFC 791); the kernel holds a train to it.
pub const TRAIN_BYTES_MAX: usize = 65_507;

/// The most packets of a train: the kernel's UDP_MAX_SEGMENTS, 64 in Linux 4.18 and 128 today.
pub const TRAIN_PACKETS_MAX: usize = 64;

/// The most pages of a train that is lent: the kernel's MAX_SKB_FRAGS, 17 unless it was configured larger. Beyond it the
/// send would fail with EMSGSIZE.
pub const TRAIN_LENT_PAGES_MAX: usize = 17;

/// The largest registered piece of the arena: the kernel's bound per buffer.
pub const REGISTERED_PIECE_BYTES_MAX: usize = 1 << 30;

/// The most registered pieces: the kernel's IORING_MAX_REG_BUFFERS.
pub const REGISTERED_PIECES_MAX: usize = 1 << 14;

/// Waits between attempts to register memory. The kernel gives back the locked memory of a closed ring some
/// time after the close, so a quick restart can see ENOMEM that passes by itself.
pub const REGISTER_RETRIES: [Duration; 5] = [
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];

/// The most completions one `wait` hands out, so that a flood cannot keep the caller from its other work.
pub const DONE_PER_WAIT_MAX: usize = 4096;

/// How long a dropped ring waits for what is in flight before it leaks that memory. A disk may take tens of
/// seconds for one bad sector; beyond that a leak is better than a process that does not end.
pub const DROP_WAIT_MAX: Duration = Duration::from_secs(60);

/// The same if all that is in flight is memory of zero-copy sends, which peers have not acknowledged: whoever has not by then may take
/// minutes, and a program that ends waits for nobody's network.
pub const LENT_DROP_WAIT_MAX: Duration = Duration::from_secs(1);

/// Threads of the portable driver that read, write and sync files: enough to keep one disk busy.
pub const PORTABLE_FILE_THREADS: usize = 4;

/// Events the portable driver takes from the kernel at a time.
pub const PORTABLE_EVENTS_PER_WAIT: usize = 256;

/// How often a ring that breaks is replaced in its life. Each time may cost the memory of what was on its way; what breaks so often has a
/// cause that only a restart can remove.
pub const RENEWALS_MAX: u32 = 16;

/// For so long after a ring was replaced, the old one's read of the wake-up counter may still take a call away, so nobody sleeps longer
/// than the second figure at a time. The kernel ends what is left of a closed ring within milliseconds.
pub const RENEWED_FOR: Duration = Duration::from_secs(1);

/// See [`RENEWED_FOR`].
pub const RENEWED_SLEEP_MAX: Duration = Duration::from_millis(10);
