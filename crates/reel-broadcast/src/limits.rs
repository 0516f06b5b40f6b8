//! Limits of schedules and tuning of their examination, each with its reason.

// ---- Limits

/// Most segments of a schedule. Two hours in 4096 segments have slots of 1.8 s. Key frames are
/// about as far apart, so shorter segments could not be cut.
pub const SEGMENTS_MAX: u32 = 4096;
/// Most channels of a schedule: the staggered scheme has as many as segments. A plan shows what
/// that costs; what a server sends has limits of its own.
pub const CHANNELS_MAX: u32 = SEGMENTS_MAX;
/// Longest title, as for stored streams: a year.
pub const DURATION_NS_MAX: u64 = 366 * 86_400 * 1_000_000_000;

// ---- Tuning

/// How long before its first slot a client joins: routers and switches take some tenths of a
/// second. Clients wait so much longer than two slots.
pub const JOIN_NS: u64 = 500_000_000;

/// Steps (start slots times segments) that the search for the largest client buffer may take: some
/// hundredths of a second. It suffices for every `fast` schedule, and for recursive frequency
/// splitting on up to 5 channels. With 6, a schedule repeats after 2,497,294,800 slots, and a bound
/// is computed.
pub const BUFFER_STEPS_MAX: u64 = 1 << 23;
