//! Limits of packaging, each with its reason.

/// Memory for the sample tables of one file: more than a day of 60 frames a second with B-frames and two
/// audio tracks. They are kept until the end because their boxes start with their counts.
pub(crate) const TABLES_BYTES: usize = 96 << 20;

/// Text of one subtitle track; a very talkative film has 200 KiB.
pub(crate) const TEXT_BYTES: usize = 16 << 20;

/// Decoder configuration of one track. The largest lawful ones (HEVC parameter sets, FLAC with a picture
/// removed) have a few kilobytes.
pub(crate) const CONFIG_BYTES: usize = 64 << 10;

/// Names and languages, in bytes; longer ones are cut at a character.
pub(crate) const NAME_BYTES: usize = 1024;

/// Language tags; RFC 5646 (4.4.1) asks for room for 35 letters.
pub(crate) const LANGUAGE_BYTES: usize = 64;

/// Tracks of one file or title.
pub(crate) const TRACKS: usize = 256;

/// Fragments of one track: more than a month at four seconds each.
pub(crate) const FRAGMENTS: usize = 1 << 20;

/// Bytes of one fragment, whatever the policy says: sizes in a fragment header have 32 bits.
pub(crate) const FRAGMENT_BYTES: usize = 1 << 30;

/// Largest time in ticks, either side of zero: nine years at a nanosecond a tick, and no sum of two of them overflows.
pub(crate) const TICKS: u64 = 1 << 58;
