//! Limits and tuning of this crate, each with its reason.

const SECOND_NS: u64 = 1_000_000_000;

// ---- Limits

/// Listening sockets of one front end. HTTP has two, with and without TLS.
pub const LISTENERS_MAX: usize = 8;

/// Connections that one client may have as long as any place is free: a browser opens six, and a
/// player beside it one or two.
pub const CLIENT_CONNECTIONS_MIN: usize = 8;

/// Connections that may be about to end for others at once. Until they have ended, there are so
/// many more than there may be.
pub const LEAVING_MAX: usize = 64;

/// How long responses and streams may take to end after the server was asked to stop.
pub const DRAIN_TIME_MAX_NS: u64 = 10 * SECOND_NS;

/// Titles that may wait to be opened.
pub const OPENINGS_MAX: usize = 4 * 1024;

/// Most bytes of a header of the PROXY protocol. Addresses take 36, and proxies add names and
/// certificates.
pub const PROXY_HEADER_BYTES_MAX: usize = 4096;

/// Most addresses of `X-Forwarded-For` or `Forwarded` that are looked at: more proxies than stand
/// behind each other.
pub const FORWARDED_MAX: usize = 32;

/// Most bytes of the path below which clients see a server: longer than any that a person types.
/// It is written once for each address of a list.
pub const BASE_PATH_BYTES_MAX: usize = 256;

/// How long a client waits for its title to be opened: as long as a player waits for a first
/// answer. A member that hangs can hold all threads that open titles, and then no other title is
/// opened either.
pub const OPENING_TIME_MAX_NS: u64 = 10 * SECOND_NS;

/// After how many panics a title is set aside. The first one can be a coincidence.
pub const TITLE_PANICS_MAX: u32 = 2;

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

/// The clock of streams in step stands when a byte of one is so much later than those of the
/// others: two looks. With the time to the next look, that stays within 80 ms, by which people do
/// not notice that lips and voice differ (Halvorsen).
pub const STEP_LATE_NS: u64 = SECOND_NS / 25;

/// It also stands when a program still has what was due [`STEP_LATE_NS`] ago, and has given nothing
/// of that stream back for this long: the time of two messages. A program that is always late by
/// the same time does not slow the clock down.
pub const STEP_STALL_NS: u64 = SECOND_NS / 12;

/// It stands when nothing of any stream of a set was given back for so long: its program is paused,
/// or all of its disks are late. Shorter pauses are caught up by the program.
pub const STEP_PAUSE_NS: u64 = SECOND_NS / 2;

/// Threads that write the playlists of long titles. The work of one is a second for a million
/// fragments; a second thread writes those of other titles meanwhile.
pub const WRITERS: usize = 2;

/// Playlists that may wait to be written.
pub const WRITINGS_MAX: usize = 1024;

/// Bytes that the readers of one network of clients may be sent as people who look at a file and
/// wait for it, beyond [`LOOKS_BYTES_PER_S`]: sixteen seeks in the largest films. Further reads
/// come as there is room.
pub const LOOKS_BYTES_MAX: u64 = 256 << 20;

/// How fast such looks may continue: a film of 64 Mb/s.
pub const LOOKS_BYTES_PER_S: u64 = 8 << 20;
