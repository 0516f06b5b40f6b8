//! Every limit of this crate, with its reason.

/// Timers fired per turn; the rest waits one turn, so that a burst cannot keep completions and messages waiting.
pub const TIMERS_PER_TURN_MAX: usize = 1024;

/// The longest name of a thread that the kernel shows: 15 bytes. Longer names are cut.
pub const THREAD_NAME_BYTES_MAX: usize = 15;

/// The longest sleep. A thread that wakes once a minute for nothing costs nothing, and a lost wake-up (which the
/// waker's argument excludes) would heal.
pub const SLEEP_MAX_NS: u64 = 60_000_000_000;

/// Tasks of one agenda: the connections that one core may hold, with room to spare; their queues then take a few megabytes.
pub const TASKS_MAX: usize = 1 << 16;
