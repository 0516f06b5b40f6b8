//! Why there is no such schedule.

use crate::limits::{JOIN_NS, SEGMENTS_MAX};

/// Why a schedule, a plan or a cut cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BroadcastError {
    /// Too many segments, or none.
    #[error("{0} segments; a schedule has 1 to {SEGMENTS_MAX}: ask for a longer wait")]
    Segments(u64),
    /// Scheme `skyscraper` has no such width.
    #[error("a skyscraper cannot have width {0}; use 1, 2, 5, 12, 25, 52, 105 or 212")]
    Width(u32),
    /// There is no scheme of this name.
    #[error("there is no scheme {0:?}; use staggered, fast, rfs, skyscraper, skyscraper-WIDTH or linear")]
    Scheme(String),
    /// A title without length, or too long.
    #[error("a title of {0} ns cannot be planned; a length of up to a year is needed")]
    Duration(u64),
    /// A wait of zero.
    #[error("a wait must be above zero; a client waits for the next slot at least")]
    NoWait,
    /// A wait that is too short to join.
    #[error("a wait of {:.3} s is too short: clients join {:.1} s before a slot begins, and wait for two slots", *.0 as f64 / 1e9, JOIN_NS as f64 / 1e9)]
    NoTimeToJoin(u64),
    /// A stream without rate.
    #[error("the rate of the title is not known, so its bandwidth cannot be planned")]
    NoRate,
    /// The bandwidth is below that of one channel, or of the smallest schedule.
    #[error("{bps} b/s are less than {scheme} needs for this title, {needed_bps} b/s; allow more bandwidth")]
    Bandwidth {
        /// The scheme's name.
        scheme: String,
        /// Bits per second that were given.
        bps: u64,
        /// Bits per second of the smallest schedule.
        needed_bps: u64,
    },
    /// A linear channel is joined where it is, so no wait for its beginning can be chosen.
    #[error("a linear channel is joined where it is, so its wait cannot be bounded; use another scheme")]
    LinearWait,
    /// Between two borders there is no key frame.
    #[error(
        "segment {segment} of {segments} would be empty: its key frames are too far apart; ask for a longer wait"
    )]
    KeyFrames {
        /// The segment that would be empty.
        segment: u32,
        /// Segments that were asked for.
        segments: u32,
    },
    /// Times of key frames are not in order, or lie beyond the end of the title.
    #[error("the time of key frame {0} is not after the one before it, or not before the end of the title")]
    Order(usize),
}
