//! Limits and tuning of this crate, each with its reason.

const SECOND_NS: u64 = 1_000_000_000;

// ---- Limits

/// Listening sockets of one front end. HTTP has two, with and without TLS.
pub const LISTENERS_MAX: usize = 8;

/// How long responses and streams may take to end after the server was asked to stop.
pub const DRAIN_TIME_MAX_NS: u64 = 10 * SECOND_NS;

/// Titles that may wait to be opened.
pub const OPENINGS_MAX: usize = 4 * 1024;

// ---- Tuning

/// Threads that open titles. Each waits for a few reads, on a busy hard disk for half a second. Two
/// threads opened about ten titles a second there.
pub const OPENERS: usize = 8;

/// Threads that open titles ahead, for some time after the start: their reads go to different
/// members.
pub const OPENERS_AHEAD: usize = 4;

/// When accepting fails because there are no free descriptors, it is tried again after this long.
pub const ACCEPT_RETRY_NS: u64 = SECOND_NS / 10;

/// How often a thread reports its processor time, from which the price of sending is learnt.
/// Housekeeping looks at it as often.
pub const REPORT_EVERY_NS: u64 = SECOND_NS / 4;
