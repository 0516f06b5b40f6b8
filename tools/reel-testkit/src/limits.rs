//! Limits of the playlists that are read, each with its reason.

// ---- Limits

/// Most segments of one playlist: a day in segments of half a second.
pub const SEGMENTS_MAX: usize = 200_000;

/// Most renditions of one title.
pub const RENDITIONS_MAX: usize = 256;

/// Longest segment. What lasts longer is no stream.
pub const SEGMENT_NS_MAX: u64 = 600 * 1_000_000_000;

/// Longest answer that the plain HTTP client keeps.
pub const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Longest head of a response that the plain HTTP client reads; servers keep theirs below 16 KiB.
pub const HEAD_BYTES_MAX: u64 = 64 << 10;
