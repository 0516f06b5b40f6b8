//! Renditions of one title: players may switch between them at any fragment border, so the borders
//! must agree.

use crate::TrackIndex;
use std::time::Duration;

/// Where two renditions differ. The text is for the person who encodes them.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misaligned {
    /// A segment starts at different times.
    #[error(
        "rendition {other} does not line up with rendition 1: segment {segment} starts at {other_at:?} instead of \
             {first_at:?}; {REMEDY}"
    )]
    Border {
        /// The rendition that differs, counted from 1 in the order given.
        other: usize,
        /// Segment, counted from 1.
        segment: usize,
        /// Where it starts in rendition 1.
        first_at: Duration,
        /// Where it starts in the other one.
        other_at: Duration,
    },
    /// One rendition has more segments than the other.
    #[error(
        "rendition {other} does not line up with rendition 1: it has {other_count} segments (until {other_end:?}) \
             instead of {first_count} (until {first_end:?}); {REMEDY}"
    )]
    Count {
        /// The rendition that differs, counted from 1 in the order given.
        other: usize,
        /// Segments of rendition 1.
        first_count: usize,
        /// Segments of the other one.
        other_count: usize,
        /// End of rendition 1.
        first_end: Duration,
        /// End of the other one.
        other_end: Duration,
    },
}

const REMEDY: &str = "encode all of them from the same source with the same fixed key frame distance, for example \
                    ffmpeg -g 96 -keyint_min 96 -sc_threshold 0";

/// Checks that all video renditions have the same segment borders: as many segments, each starting
/// within half a frame (of the slower one; 10 ms if the rate is unknown) of the first rendition's.
///
/// # Errors
/// If a rendition differs from the first one.
pub fn align(renditions: &[&TrackIndex]) -> Result<(), Misaligned> {
    let Some((first, others)) = renditions.split_first() else { return Ok(()) };
    for (i, other) in others.iter().enumerate() {
        pair(first, other, i + 2)?;
    }
    Ok(())
}

fn pair(first: &TrackIndex, other: &TrackIndex, number: usize) -> Result<(), Misaligned> {
    let tolerance_ns = half_frame_ns(first).max(half_frame_ns(other));
    for (i, (a, b)) in first.fragments.iter().zip(&other.fragments).enumerate() {
        let (first_ns, other_ns) = (first.nanoseconds(a.time), other.nanoseconds(b.time));
        if first_ns.abs_diff(other_ns) > tolerance_ns {
            return Err(Misaligned::Border {
                other: number,
                segment: i + 1,
                first_at: shown(first_ns),
                other_at: shown(other_ns),
            });
        }
    }
    if first.fragments.len() != other.fragments.len() {
        return Err(Misaligned::Count {
            other: number,
            first_count: first.fragments.len(),
            other_count: other.fragments.len(),
            first_end: shown(first.nanoseconds(first.end)),
            other_end: shown(other.nanoseconds(other.end)),
        });
    }
    Ok(())
}

fn half_frame_ns(track: &TrackIndex) -> u64 {
    track.frame_rate.map_or(10_000_000, |rate| {
        u64::from(rate.denominator) * 500_000_000 / u64::from(rate.numerator.max(1))
    })
}

/// People compare milliseconds.
fn shown(ns: u64) -> Duration {
    Duration::from_millis((ns + 500_000) / 1_000_000)
}
