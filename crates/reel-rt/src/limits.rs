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

/// The longest section of a task, from one yield point to the next: what an upcall may have to wait for its own core. Longer ones are
/// counted. A fifth of the shortest period that is promised (1 ms), and time to checksum and send a megabyte.
pub const SECTION_NS_MAX: u64 = 200_000;

/// Tasks run for so long before completions and messages are looked at: one long section, or many short ones, for which one look at
/// the ring (a system call of about 0.2 us) is then cheap.
pub const TASKS_TURN_NS: u64 = 200_000;

/// Bytes that tasks have given to sockets after which the ring is looked at: the kernel copies them when the ring is entered, so they belong to
/// the turn's time, and a copy makes 2 to 4 GB/s. One large send ends a turn; many small ones go down together.
pub const TURN_SEND_BYTES: usize = 512 * 1024;

/// How long the first of those who have no deadline may be passed over; then it is lent one section. So however busy a core is with better work,
/// background work has one section in this time, 2 to 5 % of it (with the sends that belong to a section), and as much has what people wait for.
pub const LINE_WAIT_NS: u64 = 10_000_000;
