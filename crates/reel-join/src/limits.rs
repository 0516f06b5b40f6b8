//! Limits and tuning of this crate, each with its reason.

use reel_play::limits::LINK_URGENT_NS;
use reel_udp::limits::{UDP_HURRY, UDP_TRAIN_NS};

const SECOND_NS: u64 = 1_000_000_000;

// ---- Limits

/// Outlets of one session that may be open at once. Each one can be behind the others by all that
/// the chain holds, and none of them costs the disks more than one does. Those that have ended are
/// listed until others take their places.
pub const OUTLETS_MAX: usize = 8;

/// Outlets of all sessions that may be open at once: each has a descriptor and perhaps a write that
/// a disk does not answer.
pub const OUTLETS_OF_ALL_MAX: usize = 64;

/// Chains of joins may hold at most one part in so many of what readers may hold. A viewer beside
/// them finds memory.
pub const JOIN_MEMORY_SHARE: usize = 4;

/// Most bytes of a destination, as it is written: `file:` and the longest name of a file, with
/// escapes to spare.
pub const DESTINATION_BYTES_MAX: usize = 1024;

/// The longest name of a file (`NAME_MAX` of Linux).
pub const NAME_BYTES_MAX: usize = 255;

/// How often another name is tried for a part while other servers write into the same directory.
pub const PART_NAMES_MAX: u32 = 64;

/// How long a connection may take to be made: a request that waits for it has a place of the API.
pub const CONNECT_NS: u64 = 5 * SECOND_NS;

/// Bytes that a connection of this machine holds beyond the chain while its other end reads
/// nothing. The kernel doubles it for its own use. There is no distance for which more is needed,
/// and a destination that stands still is noticed early.
pub const SEND_BUFFER_BYTES: usize = 128 << 10;

/// How long a request to join waits for the thread of joins: as long as a player waits for a first
/// answer.
pub const JOIN_ANSWER_NS: u64 = 10 * SECOND_NS;

/// How long a branch may keep another one waiting, where nothing has a deadline: a disk that is
/// busy answers within this time.
pub const BRANCH_BYTE_MAX_NS: u64 = SECOND_NS;

/// The same where bytes have deadlines, in sum. It is half of [`JOIN_LEAD_NS`], so bytes of the
/// other branches are not late because of it.
pub const BRANCH_HOLD_MAX_NS: u64 = SECOND_NS;

/// What is due after more than this time may wait for the link to other machines while other
/// branches wait for it: the chain gets ahead by no less, so nothing of theirs is late. What was
/// promised waits no longer than that ([`reel_play::limits::LINK_URGENT_NS`]).
pub const LINK_AHEAD_NS: u64 = LINK_URGENT_NS;

/// What is added to that sum is forgotten so many times more slowly: a branch may keep others
/// waiting for a tenth of the time.
pub const BRANCH_HOLD_FORGOTTEN: u64 = 10;

/// How long a branch may take nothing while others wait for memory, as streams of programs may.
pub const BRANCH_HELD_UNDER_PRESSURE_MAX_NS: u64 = 5 * SECOND_NS;

/// Packets of a transport stream in a datagram: as many as fit in 1500 bytes with the headers of
/// RTP, UDP and IP (RFC 2250, section 2: whole packets).
pub const DATAGRAM_PACKETS: usize = 7;

/// Bytes that a socket for datagrams holds at most: two of the longest trains, with what the kernel
/// books for them. The pace is kept before it, so more would only hide that the way is too slow.
pub const DATAGRAM_SEND_BUFFER_BYTES: usize = 256 << 10;

/// The longest lease of a session's outlets, in seconds.
pub const LEASE_S_MAX: u32 = 3600;

// ---- Tuning

/// How long before a datagram is due it leaves at least: half of [`JOIN_LEAD_NS`]. The other half
/// is for what comes late from the disks, and this one for the link and for a machine that stands
/// still. What was promised is granted at once from then on ([`LINK_AHEAD_NS`]). Where stretches of
/// the title are longer, it leaves as long before, and is offered a second before that.
pub const DATAGRAM_AHEAD_NS: u64 = JOIN_LEAD_NS / 2;

/// How much faster than its clock a stream that is behind may be sent, as a fraction; as for casts.
pub const DATAGRAM_HURRY: (u64, u64) = UDP_HURRY;

/// How much of a stream leaves as one train; as for casts.
pub const DATAGRAM_TRAIN_NS: u64 = UDP_TRAIN_NS;

/// How long before a byte is due it is sent at most: a destination that stands still for a second
/// gets nothing late.
pub const JOIN_LEAD_NS: u64 = 2 * SECOND_NS;

/// How often streams are looked at, for bytes whose time has come and for branches that are slow. A
/// hundredth of the lead.
pub const JOIN_TICK_NS: u64 = SECOND_NS / 50;

/// How often it is looked whether sessions still exist.
pub const SESSION_LOOK_NS: u64 = SECOND_NS / 10;

/// How often a chain of a poured stream is given more at once, while its branches take it. After
/// that it is the turn of others.
pub const FEEDS_PER_TURN: usize = 8;

/// A branch that sends nothing for so long pauses, as its report has it. Less is the time between
/// two calls.
pub const PAUSE_NOTED_NS: u64 = SECOND_NS / 10_000;

/// Runs and pauses that a branch's report is a mean of.
pub const RUNS_REMEMBERED: u64 = 16;

/// Threads that write files: a disk is kept busy by two, and one more begins and ends files.
pub const WRITERS: usize = 3;

/// Writes that may wait: one of each outlet, and its end.
pub const WRITES_MAX: usize = 2 * OUTLETS_OF_ALL_MAX;

/// A file's bytes are made durable, and leave the page cache, whenever so many were written. More
/// would push media of other files out, and a disk would stand still for them at the end.
pub const DIRTY_BYTES_MAX: u64 = 8 << 20;
