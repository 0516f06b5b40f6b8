//! Every bound of this room, with its reason.

/// Stripes a reader keeps planned ahead of the socket while memory allows. Three: one being sent, one ready behind it, one on
/// its way from the disks; more would only hold memory that other viewers need.
pub const READER_STRIPES_MAX: usize = 3;

/// Most steps a reader plans ahead; a plain MP4 file is a list of small parts, each a step of its own.
pub const READER_STEPS_MAX: usize = 16;

/// Most chunks handed to one send. The kernel takes 1024 vectors; 64 rows of 44 KiB are 2.8 MiB, more than any socket takes at once.
pub const SEND_CHUNKS_MAX: usize = 64;

/// Most bytes handed to one send, so that one fast client does not hold the core for long.
pub const SEND_BYTES_MAX: usize = 1 << 20;

/// Shards of the table of shared units: enough that cores rarely meet, few enough to walk.
pub const UNIT_SHARDS: usize = 16;

/// Units of one shard looked at in search of one to let go: nearly always the first will do. When viewers hold all of them, a
/// search must not keep the other cores from the table.
pub const EVICTION_LOOKS_MAX: usize = 64;

/// Sessions of one title by one client address; a player that reconnects needs a handful, a script thousands.
pub const SESSIONS_PER_CLIENT_MAX: usize = 256;

/// Bytes of a session key before encoding: 128 bits cannot be guessed.
pub const SESSION_KEY_BYTES: usize = 16;

/// A member that has answered nobody for so long stalls. A healthy hard disk answers something every 20 ms even with a
/// full queue, and an SSD that collects garbage is back after some tens of them; retries within a drive, a bus reset or a
/// hung controller take seconds.
pub const STALL_NS: u64 = 250_000_000;

/// Reads are read around this long before their deadline at the earliest. A scheduler serves a read in the last round that
/// ends before its deadline, if it is busy: before that, no answer means nothing.
pub const AROUND_LEAD_MAX_NS: u64 = 2 * reel_qos::limits::ROUND_NS;

/// Who could not be read around, for want of memory or because another member is, tries again after this time.
pub const AROUND_AGAIN_NS: u64 = 20_000_000;
