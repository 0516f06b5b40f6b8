//! The schedule for a wait or for a bandwidth, and what it costs.

use crate::error::BroadcastError;
use crate::limits::{DURATION_NS_MAX, JOIN_NS};
use crate::schedule::{Buffer, Schedule};
use crate::scheme::Scheme;

/// Slots that a receiver waits at most: one until a slot begins, and another because it plays one
/// slot behind.
const RECEIVER_SLOTS: u32 = 2;

/// The longest wait of receivers with slots of this length: see [`Plan::receivers_wait_ns`].
pub fn receivers_wait_ns(slot_ns: u64) -> u64 {
    slot_ns.saturating_mul(RECEIVER_SLOTS.into()).saturating_add(JOIN_NS)
}

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// Playing time.
    pub duration_ns: u64,
    /// Mean rate.
    pub rate_bps: u64,
}

/// A schedule for a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The stream.
    pub stream: Stream,
    /// The schedule.
    pub schedule: Schedule,
    /// The largest buffer of clients that play one slot behind.
    pub buffer: Buffer,
}

impl Stream {
    /// A stream that can be planned.
    ///
    /// # Errors
    /// If it has no length or no rate, or is longer than [`DURATION_NS_MAX`].
    pub fn new(duration_ns: u64, rate_bps: u64) -> Result<Stream, BroadcastError> {
        if !(1..=DURATION_NS_MAX).contains(&duration_ns) {
            return Err(BroadcastError::Duration(duration_ns));
        }
        if rate_bps == 0 {
            return Err(BroadcastError::NoRate);
        }
        Ok(Stream { duration_ns, rate_bps })
    }

    /// The fewest segments with which `slots` slots take at most `wait_ns`.
    pub(crate) fn segments(&self, slots: u32, wait_ns: u64) -> Result<u32, BroadcastError> {
        if wait_ns == 0 {
            return Err(BroadcastError::NoWait);
        }
        let segments = (u128::from(self.duration_ns) * u128::from(slots)).div_ceil(u128::from(wait_ns));
        u32::try_from(segments)
            .map_err(|_| BroadcastError::Segments(u64::try_from(segments).unwrap_or(u64::MAX)))
    }
}

impl Plan {
    /// A plan with a number of segments.
    ///
    /// # Errors
    /// As [`Schedule::new`].
    pub fn new(scheme: Scheme, stream: Stream, segments: u32) -> Result<Plan, BroadcastError> {
        let schedule = Schedule::new(scheme, segments)?;
        let buffer = schedule.buffer();
        Ok(Plan { stream, schedule, buffer })
    }

    /// The plan with the fewest segments whose clients wait for at most `wait_ns`: one slot for
    /// stock players of the staggered scheme, two for all others (see [`Scheme::wait_slots`]).
    ///
    /// # Errors
    /// If that needs too many segments, the wait is zero, the scheme is linear, or a skyscraper has
    /// a width outside its series.
    pub fn for_wait(scheme: Scheme, stream: Stream, wait_ns: u64) -> Result<Plan, BroadcastError> {
        if scheme == Scheme::Linear {
            return Err(BroadcastError::LinearWait);
        }
        Plan::new(scheme, stream, stream.segments(scheme.wait_slots(), wait_ns)?)
    }

    /// The plan with the fewest segments whose receivers ([`Plan::receivers_wait_ns`]) wait for at
    /// most `wait_ns`.
    ///
    /// # Errors
    /// As [`Plan::for_wait`], or if the wait is not longer than [`JOIN_NS`].
    pub fn for_receivers(scheme: Scheme, stream: Stream, wait_ns: u64) -> Result<Plan, BroadcastError> {
        if scheme == Scheme::Linear {
            return Err(BroadcastError::LinearWait);
        }
        let slots_ns = match wait_ns.checked_sub(JOIN_NS) {
            _ if wait_ns == 0 => return Err(BroadcastError::NoWait),
            None | Some(0) => return Err(BroadcastError::NoTimeToJoin(wait_ns)),
            Some(slots_ns) => slots_ns,
        };
        Plan::new(scheme, stream, stream.segments(RECEIVER_SLOTS, slots_ns)?)
    }

    /// The plan with the shortest wait that takes at most `bandwidth_bps`.
    ///
    /// # Errors
    /// If that is less than one channel, the scheme is linear, or a skyscraper has a width outside
    /// its series.
    pub fn for_bandwidth(scheme: Scheme, stream: Stream, bandwidth_bps: u64) -> Result<Plan, BroadcastError> {
        if scheme == Scheme::Linear {
            return Err(BroadcastError::LinearWait);
        }
        let channels = u32::try_from(bandwidth_bps / stream.rate_bps).unwrap_or(u32::MAX);
        match Schedule::segments_of(scheme, channels)? {
            0 => Err(BroadcastError::Bandwidth {
                scheme: scheme.to_string(),
                bps: bandwidth_bps,
                needed_bps: stream.rate_bps,
            }),
            segments => Plan::new(scheme, stream, segments),
        }
    }

    /// The length d of a slot, rounded down.
    pub fn slot_ns(&self) -> u64 {
        self.stream.duration_ns / u64::from(self.schedule.segments())
    }

    /// The longest time from joining to the first picture: d, or 2 d when clients play one slot
    /// behind.
    pub fn wait_ns(&self) -> u64 {
        self.slot_ns() * u64::from(self.schedule.scheme().wait_slots())
    }

    /// The longest time from the start of a receiver that joins [`JOIN_NS`] before a slot and plays
    /// one slot behind, to its first picture, in all schemes: `reel receive`.
    pub fn receivers_wait_ns(&self) -> u64 {
        receivers_wait_ns(self.slot_ns())
    }

    /// The largest part of the title in the memory of such a receiver.
    pub fn receivers_buffer_share(&self) -> f64 {
        f64::from(self.buffer.segments) / f64::from(self.schedule.segments())
    }

    /// The same in bytes, for segments of mean rate.
    pub fn receivers_buffer_bytes(&self) -> u64 {
        self.share_bytes(self.receivers_buffer_share())
    }

    /// What the server sends, on average over a segment of mean rate in every slot of all channels.
    pub fn bandwidth_bps(&self) -> u64 {
        self.stream.rate_bps.saturating_mul(self.schedule.channels().len() as u64)
    }

    /// What a client receives at most, likewise.
    pub fn client_bps(&self) -> u64 {
        self.stream.rate_bps.saturating_mul(u64::from(self.schedule.client_channels()))
    }

    /// The most segments in a client's memory: one less where clients play as data arrives.
    pub fn buffer_segments(&self) -> u32 {
        (self.buffer.segments + self.schedule.scheme().wait_slots()).saturating_sub(2)
    }

    /// The largest part of the title in a client's memory.
    pub fn buffer_share(&self) -> f64 {
        f64::from(self.buffer_segments()) / f64::from(self.schedule.segments())
    }

    /// The same in bytes, for segments of mean rate.
    pub fn buffer_bytes(&self) -> u64 {
        self.share_bytes(self.buffer_share())
    }

    fn share_bytes(&self, share: f64) -> u64 {
        let bytes = self.stream.duration_ns as f64 / 1e9 * self.stream.rate_bps as f64 / 8.0;
        (bytes * share).round() as u64
    }

    /// The segments that the same channels carry at most. With all of them, the wait is shortest.
    pub fn segments_max(&self) -> u32 {
        let channels = self.schedule.channels().len() as u32;
        let most = Schedule::segments_of(self.schedule.scheme(), channels);
        most.unwrap_or(self.schedule.segments())
    }
}
