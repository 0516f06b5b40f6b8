//! Limits and tuning of this laboratory, each with its reason.

// ---- Limits

/// Threads, usually one of a process, that share one processor. All of their pages are read when
/// the next one is chosen. A home server has Reel and a few programs that read streams.
pub const MEMBERS_MAX: usize = 16;

/// Steps of its future that a member publishes (its L table). Tasks of equal delay need one step,
/// so this is also how many different delay bounds are published exactly.
pub const STEPS_MAX: usize = 16;

/// Lines by which others wake one member: the bits of a word.
pub const LINES_MAX: usize = 64;

// ---- Tuning

/// Time between two checks of a watchdog. A member that was asked for the processor and has not
/// checked for a whole interval loses it. This is longer than any section that is allowed, and
/// short beside the buffers of a player.
pub const WATCHDOG_INTERVAL_NS: u64 = 50_000_000;
