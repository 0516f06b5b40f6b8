//! Limits and tuning of this crate, each with its reason.

// ---- Limits

/// The longest name of a thread that the kernel shows: 15 bytes. Longer names are cut.
pub const THREAD_NAME_BYTES_MAX: usize = 15;

/// Tasks of one agenda: the connections that one core may hold, with room to spare. Their queues
/// then take a few megabytes.
pub const TASKS_MAX: usize = 1 << 16;

/// How often a thread may begin again within [`RESTARTS_WITHIN_NS`] after panics. More panics have
/// a cause that does not pass by itself, and each of them interrupts the viewers of the thread.
pub const RESTARTS_MAX: usize = 4;

/// See [`RESTARTS_MAX`].
pub const RESTARTS_WITHIN_NS: u64 = 60_000_000_000;

// ---- Tuning

/// Timers fired per turn. The rest wait one turn, so that a burst cannot delay completions and
/// messages.
pub const TIMERS_PER_TURN_MAX: usize = 1024;

/// The longest sleep. A thread that wakes once a minute for nothing costs nothing, and a lost
/// wake-up (which the waker's design excludes) would be repaired.
pub const SLEEP_MAX_NS: u64 = 60_000_000_000;

/// The longest section of a task, from one yield point to the next: how long an upcall may have to
/// wait for its own core. Longer ones are counted. It is a fifth of the shortest period that can be
/// reserved (1 ms), and enough time to checksum and send a megabyte.
pub const SECTION_NS_MAX: u64 = 200_000;

/// Tasks run for this long before completions and messages are polled: one long section, or many
/// short ones. One poll of the ring (a system call of about 0.2 us) is then cheap.
pub const TASKS_TURN_NS: u64 = 200_000;

/// The ring is polled after tasks have given this many bytes to sockets. The kernel copies them
/// when the ring is entered, so they belong to the turn's time, and a copy makes 2 to 4 GB/s. One
/// large send ends a turn; many small ones are submitted together.
pub const TURN_SEND_BYTES: usize = 512 * 1024;

/// How long the first task of a queue without deadlines may be passed over. Then it gets one
/// section. So however busy a core is with better work, background work gets one section in this
/// time, which is 2 to 5 % of the core (with the sends that belong to a section). Interactive work
/// gets the same share.
pub const QUEUE_WAIT_NS: u64 = 10_000_000;

/// The share of a core, in thousandths, that interactive tasks may take before work ahead and
/// background tasks: that of the interactive class by default.
pub const INTERACTIVE_PERMILLE: u128 = 150;

/// What interactive tasks may take at once after a quiet time, and what they may owe after a long
/// section: some fifty handshakes.
pub const INTERACTIVE_BURST_NS: i64 = 50_000_000;

/// Nice value of background threads, the highest: the kernel gives such a thread a seventieth of
/// what a serve thread gets when both want the same processor, and wakes serve threads ahead of it.
/// `SCHED_IDLE` would give less than a three hundredth: a thread that holds a lock of the volume
/// would hold it for as long as viewers keep the processors busy.
pub const BACKGROUND_NICE: i32 = 19;
