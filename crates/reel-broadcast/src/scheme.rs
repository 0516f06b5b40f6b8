//! The schemes and their names.

use std::fmt;
use std::str::FromStr;

use crate::error::BroadcastError;
use crate::schemes::is_skyscraper_width;

/// How segments are laid out on channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// The whole title on every channel, each one slot after the one before it. Stock players join
    /// when a channel begins.
    Staggered,
    /// Channel c (from 0) loops 2^c segments (Juhn and Tseng, fast data broadcasting, 1998).
    Fast,
    /// Recursive frequency splitting (Tseng, Yang and Chang, 2002): segment i repeats with a period
    /// of at most i that is a multiple of the period of a free place.
    RecursiveFrequencySplitting,
    /// Channels loop 1, 2, 2, 5, 5, 12, 12, 25, 25, ... segments, at most `width` (Hua and Sheu,
    /// skyscraper broadcasting, 1997). A client receives two channels at a time.
    Skyscraper {
        /// Most segments of a channel, one of the numbers of the series.
        width: u32,
    },
    /// Titles in turn on one channel, looped without gaps. A client joins where the channel is.
    Linear,
}

impl Scheme {
    /// The width of `skyscraper` without a number: 12 channels for two hours in 240 segments.
    pub const SKYSCRAPER_WIDTH: u32 = 52;

    /// Slots that a client waits at most, as papers count: one until a slot begins, and another in
    /// all schemes whose clients play one slot behind. Stock players play a staggered channel as it
    /// arrives. `reel receive` does not
    /// ([`Plan::receivers_wait_ns`](crate::Plan::receivers_wait_ns)).
    pub fn wait_slots(self) -> u32 {
        match self {
            Scheme::Staggered => 1,
            _ => 2,
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheme::Staggered => out.write_str("staggered"),
            Scheme::Fast => out.write_str("fast"),
            Scheme::RecursiveFrequencySplitting => out.write_str("rfs"),
            Scheme::Skyscraper { width } => write!(out, "skyscraper-{width}"),
            Scheme::Linear => out.write_str("linear"),
        }
    }
}

impl FromStr for Scheme {
    type Err = BroadcastError;

    fn from_str(text: &str) -> Result<Self, BroadcastError> {
        Ok(match text {
            "staggered" => Scheme::Staggered,
            "fast" => Scheme::Fast,
            "rfs" => Scheme::RecursiveFrequencySplitting,
            "skyscraper" => Scheme::Skyscraper { width: Self::SKYSCRAPER_WIDTH },
            "linear" => Scheme::Linear,
            _ => {
                let width = text.strip_prefix("skyscraper-").and_then(|width| width.parse().ok());
                let width = width.ok_or_else(|| BroadcastError::Scheme(text.to_owned()))?;
                if !is_skyscraper_width(width) {
                    return Err(BroadcastError::Width(width));
                }
                Scheme::Skyscraper { width }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["staggered", "fast", "rfs", "skyscraper-12", "skyscraper-52", "linear"] {
            assert_eq!(name.parse::<Scheme>().unwrap().to_string(), name);
        }
        assert_eq!("skyscraper".parse(), Ok(Scheme::Skyscraper { width: 52 }));
        assert_eq!("skyscraper-13".parse::<Scheme>(), Err(BroadcastError::Width(13)));
        for name in ["", "RFS", "skyscraper-", "skyscraper--1", "harmonic"] {
            assert_eq!(name.parse::<Scheme>(), Err(BroadcastError::Scheme(name.to_owned())));
        }
    }
}
