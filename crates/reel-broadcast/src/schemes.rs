//! The generators of the schemes: tables of channels for a number of segments, and how many
//! segments a number of channels carries.

mod loops;
mod skyscraper;
mod splitting;
mod tree;

use crate::error::BroadcastError;
use crate::limits::SEGMENTS_MAX;
use crate::scheme::Scheme;
use crate::table::Table;

pub(crate) use skyscraper::is_width as is_skyscraper_width;

/// The tables of all channels for `segments` segments, at least 1.
pub(crate) fn tables(scheme: Scheme, segments: u32) -> Result<Vec<Table>, BroadcastError> {
    Ok(match scheme {
        Scheme::Staggered => loops::staggered(segments),
        Scheme::Linear => loops::linear(segments),
        Scheme::Fast => loops::fast(segments),
        Scheme::Skyscraper { width } => skyscraper::tables(segments, width)?,
        Scheme::RecursiveFrequencySplitting => splitting::tables(segments),
    })
}

/// Segments that `channels` channels carry, at most [`SEGMENTS_MAX`]; 0 without a channel.
pub(crate) fn segments_of(scheme: Scheme, channels: u32) -> Result<u32, BroadcastError> {
    Ok(match scheme {
        Scheme::Staggered => channels.min(SEGMENTS_MAX),
        Scheme::Linear if channels == 0 => 0,
        Scheme::Linear => SEGMENTS_MAX,
        Scheme::Fast => loops::fast_segments(channels),
        Scheme::Skyscraper { width } => skyscraper::segments_of(channels, width)?,
        Scheme::RecursiveFrequencySplitting => splitting::segments_of(channels),
    })
}

/// Segments that no client's buffer exceeds, if the tables are too long to be examined.
pub(crate) fn buffer_segments_max(scheme: Scheme, segments: u32) -> u32 {
    match scheme {
        // A channel brings one segment while another is played.
        Scheme::Staggered | Scheme::Linear => 1,
        // The tables are always examined; no buffer exceeds the title.
        Scheme::Fast => segments,
        // Hua and Sheu: a channel less one segment; and the one that is played.
        Scheme::Skyscraper { width } => width.min(segments),
        Scheme::RecursiveFrequencySplitting => splitting::buffer_segments_max(segments),
    }
}
