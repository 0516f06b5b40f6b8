//! Limits and tuning of this crate, each with its reason.

use std::num::NonZeroU64;

// ---- Limits

/// Casts at once, those that have ended included. Each has packets to send a hundred times in a
/// second, and all of them share one thread.
pub const CASTS_MAX: usize = 64;

/// Titles of a cast that follow each other. Each has its index in memory.
pub const CAST_TITLES_MAX: usize = 256;

/// Bytes of the name of a cast, which is a part of addresses.
pub const CAST_NAME_BYTES_MAX: usize = 64;

/// Channels of a cast that follows a schedule. Each has a group of its own; eight of them carry two
/// hours with a wait of half a minute.
pub const CAST_CHANNELS_MAX: usize = 64;

/// Passes of a title that are reserved together. The shortest title that is cast is a fraction of a
/// second long.
pub const CAST_PASSES_MAX: u64 = 1000;

// ---- Tuning

/// Packets that are due within this time leave as one train. It has to fit in every queue on the
/// path.
pub const CAST_TRAIN_NS: u64 = 10_000_000;

/// The most packets of a train: two rows of 20 symbols, 53 kB. The kernel takes 49 with one call;
/// more would only wait in the flow. At 100 Mb/s it is 4 ms, so a packet is 2 ms from the middle of
/// its train at most.
pub const CAST_TRAIN_PACKETS: NonZeroU64 = NonZeroU64::new(40).expect("more than none");

/// A train that is due within this time leaves with those that are due now, so that the thread
/// wakes up once for them. FEC goes with its media, and channels go together. It is a tenth of what
/// a train takes.
pub const CAST_TOGETHER_NS: u64 = 1_000_000;

/// A packet that leaves this much after it was due is counted as late. Receivers buffer some
/// hundred milliseconds, and a train is 10 ms.
pub const CAST_LATE_NS: u64 = 20_000_000;

/// A loop is reserved for at least so long in advance: what is asked for a minute before it is
/// needed is rarely refused, and a short title is not asked for every second.
pub const CAST_RESERVED_NS: u64 = 600_000_000_000;

/// How late passes may begin to be read and still leave on time: half of the time for which they
/// are read in advance.
pub const CAST_BEGUN_LATE_NS: u64 = reel_play::limits::PUSH_LEAD_NS / 2;

/// Time between sender reports (RFC 3550, section 6.2: five seconds at least).
pub const CAST_REPORT_NS: u64 = 5_000_000_000;

/// Time between announcements of a cast: as long as a person waits for a list. RFC 2974 starts from
/// five minutes, which was meant for events that are announced days before.
pub const ANNOUNCE_EVERY_NS: u64 = 5_000_000_000;

/// What all announcements together may take in bits per second (RFC 2974, section 3.1). One cast
/// takes a quarter of it; with 64 casts, each is announced about every 80 s.
pub const ANNOUNCE_BPS: u64 = 4000;

/// Time between looks at what changes slowly: sessions that were ended, the next pass of a loop.
pub const CAST_LOOK_NS: u64 = 1_000_000_000;

/// Packets that may go at once, for the uplink: what is due within a train of a fast stream.
pub const CAST_TRAIN_BYTES: u64 = 64 << 10;

/// The least rate at which a train leaves, in bits per second. Trains are spread by their times; a
/// train itself goes at once.
pub const CAST_TRAIN_BPS_MIN: u64 = 50_000_000;

/// Network routers that packets cross if nothing else is asked for: they stay in the first network.
pub const CAST_TTL: u8 = 1;
