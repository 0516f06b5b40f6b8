//! Limits and tuning of this crate, each with its reason.

const SECOND_NS: u64 = 1_000_000_000;

// ---- Limits

/// Memory for the windows of all poured streams: fourteen of 8 Mb/s with two seconds of delay. It
/// is set aside stream by stream, beside the arena.
pub const POUR_MEMORY_BYTES: u64 = 64 << 20;

/// Poured streams at once. Each is looked at 50 times a second.
pub const POURS_MAX: usize = 64;

/// Least rate: a stream of a bit more than nothing would never end its first message.
pub const POUR_BYTES_PER_S_MIN: u64 = 100;

/// Highest rate: 2 Gb/s, more than the window of a second can hold.
pub const POUR_BYTES_PER_S_MAX: u64 = 250_000_000;

/// Least delay: viewers are looked after 50 times a second, and the program's messages, too.
pub const POUR_DELAY_NS_MIN: u64 = SECOND_NS / 10;

/// Longest delay. What is to be kept for longer is to be stored.
pub const POUR_DELAY_NS_MAX: u64 = 10 * SECOND_NS;

/// Most bytes that may come before their time.
pub const POUR_WORKAHEAD_BYTES_MAX: u64 = 4 << 20;

/// The longest message of a program. A viewer gets whole messages.
pub const POUR_MESSAGE_BYTES_MAX: usize = 64 << 10;

/// The longest beginning of a fragmented MP4, which the server keeps for viewers that come later:
/// no longer than a message. Those of ffmpeg have 1.5 KB.
pub const HEAD_BYTES_MAX: usize = POUR_MESSAGE_BYTES_MAX;

/// The longest name.
pub const POUR_NAME_BYTES_MAX: usize = 64;

/// The longest media type.
pub const POUR_TYPE_BYTES_MAX: usize = 64;

/// What a message costs a window beside its bytes: its place, and the head of its memory. Without
/// it, messages of a byte would take sixty times the memory of the window.
pub const MESSAGE_COST_BYTES: u64 = 64;

// ---- Tuning

/// How long viewers may take for the rest of a stream that has ended, at least; else as long as its
/// delay. A disk to which it is written may take a second for one write.
pub const REST_NS_MIN: u64 = 2 * SECOND_NS;

/// The window holds so many times what comes within the delay: a viewer begins with one delay, and
/// may be behind by another one.
pub const POUR_WINDOW_DELAYS: u64 = 2;
