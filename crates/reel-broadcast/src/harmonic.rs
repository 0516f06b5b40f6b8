//! Cautious harmonic broadcasting, the scheme of the INSTANCE thesis, as formulas.
//!
//! The thesis (section 4.2.2) sends segment 1 on channel 1 and segments 2 and 3 in turn on channel
//! 2, both at the title's rate, and segment i + 1 on channel i at the i-th part of the rate. Reel
//! sends whole segments in slots, so this scheme has no [`crate::Schedule`]; its cost is compared.

use crate::error::BroadcastError;
use crate::limits::SEGMENTS_MAX;
use crate::plan::Stream;

/// The scheme with a number of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CautiousHarmonic {
    segments: u32,
}

impl CautiousHarmonic {
    /// The scheme with `segments` segments.
    ///
    /// # Errors
    /// If there are none, or more than [`SEGMENTS_MAX`].
    pub fn new(segments: u32) -> Result<CautiousHarmonic, BroadcastError> {
        match segments {
            1..=SEGMENTS_MAX => Ok(CautiousHarmonic { segments }),
            _ => Err(BroadcastError::Segments(u64::from(segments))),
        }
    }

    /// The fewest segments with which clients wait for at most `wait_ns`. Clients wait for
    /// `wait_slots` slots: one in the thesis, which plays segment 1 as it arrives, and two if they
    /// play one slot behind.
    ///
    /// # Errors
    /// If that needs too many segments, or the wait is zero.
    pub fn for_wait(stream: Stream, wait_ns: u64, wait_slots: u32) -> Result<Self, BroadcastError> {
        Self::new(stream.segments(wait_slots, wait_ns)?)
    }

    /// The most segments that take at most `bandwidth_bps`.
    ///
    /// # Errors
    /// If that is less than the title's rate.
    pub fn for_bandwidth(stream: Stream, bandwidth_bps: u64) -> Result<Self, BroadcastError> {
        let units = bandwidth_bps as f64 / stream.rate_bps as f64;
        let fits = |segments: &u32| Self { segments: *segments }.bandwidth_units() <= units;
        match (1..=SEGMENTS_MAX).take_while(fits).last() {
            Some(segments) => Self::new(segments),
            None => Err(BroadcastError::Bandwidth {
                scheme: "cautious harmonic".to_owned(),
                bps: bandwidth_bps,
                needed_bps: stream.rate_bps,
            }),
        }
    }

    /// The number of segments.
    pub fn segments(&self) -> u32 {
        self.segments
    }

    /// The number of channels, of different rates.
    pub fn channels(&self) -> u32 {
        match self.segments {
            1 | 2 => self.segments,
            _ => self.segments - 1,
        }
    }

    /// The bandwidth in units of the title's rate: 1/2 + H(n - 1) (thesis, equation 4.1; its
    /// expansion there is misprinted). It holds for three segments and more. Clients receive all
    /// channels, so it is also what they receive at first.
    pub fn bandwidth_units(&self) -> f64 {
        match self.segments {
            1 | 2 => f64::from(self.segments),
            _ => 0.5 + (1..self.segments).map(|channel| 1.0 / f64::from(channel)).sum::<f64>(),
        }
    }

    /// The largest part of the title in memory of a client that plays as data arrives. Channels are
    /// received until their segments are there: channel 1 for one slot, channel 2 for two, and
    /// channel i for i slots. The most is at the end of a slot, since all rates are constant within
    /// slots.
    pub fn buffer_share(&self) -> f64 {
        let mut buffer: f64 = 0.0;
        let mut received = 0.0;
        for slot in 1..=self.segments {
            // Channels whose segments are not there yet: 2 while `slot` <= 2, i while `slot` <= i.
            let second = if slot <= 2 && self.segments > slot { 1.0 } else { 0.0 };
            let first = if slot == 1 { 1.0 } else { 0.0 };
            let others = (slot.max(3)..self.segments).map(|channel| 1.0 / f64::from(channel));
            received += first + second + others.sum::<f64>();
            buffer = buffer.max(received - f64::from(slot));
        }
        buffer / f64::from(self.segments)
    }
}
