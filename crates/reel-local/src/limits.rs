//! Limits and tuning of this crate, each with its reason.

const SECOND_NS: u64 = 1_000_000_000;

// ---- Limits

/// Messages of a program's stream that can be unread. It is more than a reader hands out at once,
/// because what the server makes comes in smaller pieces.
pub const PROGRAM_MESSAGES: u64 = 128;

/// Programs on this machine that may be connected at once.
pub const PROGRAMS_MAX: usize = 64;

/// Streams of one program. Each has 44 KiB of memory of its own and, while it is read, a window of
/// stripes of the arena.
pub const PROGRAM_STREAMS_MAX: usize = 64;

/// Poured streams that all programs together may read. Nothing of them is in the arena, and each
/// has 300 KiB of memory of its own: 38 MB for all.
pub const PROGRAM_LIVE_STREAMS_MAX: usize = 128;

/// Streams of programs may hold at most one part in so many of what readers may hold. A program's
/// memory cannot be taken back at once, so the rest is kept for viewers.
pub const PROGRAM_MEMORY_SHARE: usize = 2;

/// Most messages that are taken from one program in a row.
pub const PROGRAM_MESSAGES_PER_TURN: usize = 16;

/// How long a program may hold messages and give none back, unless sessions are forgotten sooner.
/// It is long, because a paused player reads nothing.
pub const PROGRAM_HELD_MAX_NS: u64 = 600 * SECOND_NS;

/// The same while others wait for memory. The memory of a socket can be taken back and read again.
/// The memory of a program cannot, because the program is looking at it.
pub const PROGRAM_HELD_UNDER_PRESSURE_MAX_NS: u64 = 5 * SECOND_NS;

/// Streams that are in step with each other. The answers to so many requests fit into a socket.
pub const PROGRAM_STEP_MAX: u16 = reel_client::limits::OPENS_UNANSWERED_MAX as u16;

/// Streams that one program may pour at once. Each is a look every tick, and two mappings.
pub const PROGRAM_POURS_MAX: usize = 16;

/// Most messages that are taken from one poured stream in a row: all that can be unread.
pub const POUR_MESSAGES_PER_TURN: usize = 256;

/// How often a stream that reads a poured one is given more in a row.
pub const FEEDS_PER_TURN: usize = 8;

// ---- Tuning

/// Bytes of a stream's own memory, for what the server makes itself: heads of files. It is small,
/// because every stream has it.
pub const PROGRAM_OWN_BYTES: usize = 32 * 1024;

/// The same of a stream that reads a poured one: all of its bytes pass through there.
pub const POURED_OWN_BYTES: usize = 256 * 1024;

/// The longest message in that memory: half of it can be read while the other half is written.
pub const PROGRAM_OWN_MESSAGE_BYTES: usize = 16 * 1024;

/// A program whose viewers have no more time than this rings with each message that it pours, which
/// is then taken at once. Those of others are looked for every [`PROGRAM_TICK_NS`]: that takes a
/// tenth of this time at most, and no calls.
pub const PROMPT_DELAY_NS: u64 = SECOND_NS / 2;

/// How often the streams of programs are polled. A reader that takes less than half its window (1
/// MiB) in this time, that is 26 MB/s, never has to ring.
pub const PROGRAM_TICK_NS: u64 = SECOND_NS / 50;
