//! Segments of a stream of variable rate.
//!
//! Segments are to have equal times d, and to begin at key frames, so that each can be decoded by
//! itself. Segment i + 1 therefore begins at the first key frame at or after i x d, never before.
//! A slot lasts d, whatever the segment's own playing time is: its bytes are sent at a constant
//! rate in d. Segment i is complete after i slots. It is played from one slot after the start of
//! the first slot plus the time of its key frame, which is (i - 1) x d or later: in time. If
//! borders were moved to earlier key frames, or slots lasted as long as the longest segment, later
//! segments would be late.

use crate::error::BroadcastError;
use crate::limits::{DURATION_NS_MAX, SEGMENTS_MAX};

/// The segments of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Numbers of key frames at which segments begin, in order.
    first_key_frames: Vec<usize>,
    /// The times of these, and the end of the stream.
    borders_ns: Vec<u64>,
}

impl Cut {
    /// Cuts a stream into `segments` segments at its key frames (times from the start, ascending).
    /// The first segment begins at time 0, whether there is a key frame or not.
    ///
    /// # Errors
    /// If a segment would have no key frame, the times are not ascending or not before the end, or
    /// the length or the number of segments is out of range.
    pub fn new(key_frames_ns: &[u64], duration_ns: u64, segments: u32) -> Result<Cut, BroadcastError> {
        if !(1..=DURATION_NS_MAX).contains(&duration_ns) {
            return Err(BroadcastError::Duration(duration_ns));
        }
        if !(1..=SEGMENTS_MAX).contains(&segments) {
            return Err(BroadcastError::Segments(u64::from(segments)));
        }
        let wrong = |(number, time): (usize, &u64)| {
            *time >= duration_ns || number.checked_sub(1).is_some_and(|last| key_frames_ns[last] >= *time)
        };
        if let Some(number) = (0..).zip(key_frames_ns).position(wrong) {
            return Err(BroadcastError::Order(number));
        }
        let mut cut = Cut { first_key_frames: vec![0], borders_ns: vec![0] };
        for border in 1..segments {
            let nominal_ns = (u128::from(duration_ns) * u128::from(border)).div_ceil(u128::from(segments));
            let number = key_frames_ns.partition_point(|time| u128::from(*time) < nominal_ns);
            match (key_frames_ns.get(number), cut.borders_ns.last()) {
                (Some(time), Some(last)) if time > last => {
                    cut.first_key_frames.push(number);
                    cut.borders_ns.push(*time);
                }
                // The last segment has no key frame, or begins where this one does.
                (None, _) => return Err(BroadcastError::KeyFrames { segment: border + 1, segments }),
                _ => return Err(BroadcastError::KeyFrames { segment: border, segments }),
            }
        }
        cut.borders_ns.push(duration_ns);
        Ok(cut)
    }

    /// The number of segments.
    pub fn segments(&self) -> u32 {
        self.first_key_frames.len() as u32
    }

    /// The number of the key frame at which a segment (from 1) begins; 0 for the first segment.
    pub fn first_key_frame(&self, segment: u32) -> Option<usize> {
        self.first_key_frames.get((segment as usize).checked_sub(1)?).copied()
    }

    /// When a segment (from 1) begins and ends in the stream.
    pub fn times_ns(&self, segment: u32) -> Option<(u64, u64)> {
        let end = segment as usize;
        Some((*self.borders_ns.get(end.checked_sub(1)?)?, *self.borders_ns.get(end)?))
    }

    /// The length of a slot: the longest with which every segment is complete when it is played,
    /// and the client waits no longer than with segments of equal times.
    pub fn slot_ns(&self) -> u64 {
        self.borders_ns.last().map_or(0, |end| end / u64::from(self.segments().max(1)))
    }

    /// The playing time of the longest segment. It may exceed that of a slot.
    pub fn longest_ns(&self) -> u64 {
        self.borders_ns.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    }

    /// The constant rate at which a segment of so many bytes is sent within a slot, rounded up.
    pub fn slot_bps(&self, bytes: u64) -> u64 {
        let bits_per_s = u128::from(bytes) * 8 * 1_000_000_000;
        u64::try_from(bits_per_s.div_ceil(u128::from(self.slot_ns().max(1)))).unwrap_or(u64::MAX)
    }
}
