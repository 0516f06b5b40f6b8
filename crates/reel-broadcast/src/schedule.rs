//! The tables of all channels of a title, and what clients need.

use crate::error::BroadcastError;
use crate::limits::{BUFFER_STEPS_MAX, SEGMENTS_MAX};
use crate::scheme::Scheme;
use crate::schemes;
use crate::table::Table;
use crate::visit::Visit;

/// A schedule: a table for each channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    scheme: Scheme,
    segments: u32,
    channels: Vec<Table>,
}

/// Which channels a client receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRule {
    /// One, from the slot that the client joins at.
    OneChannel,
    /// All from the slot that the client joins at, each until the last of its segments is there.
    AllChannels,
    /// Two at a time. Each channel is received once around, from the last slot, not after its first
    /// segment is due, in which that segment is sent.
    TwoTuners,
}

/// The largest buffer of any client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// Segments. No client has more, from whichever slot on.
    pub segments: u32,
    /// Whether a client is known to have as many. If not, this is a bound.
    pub is_exact: bool,
}

impl Schedule {
    /// The schedule with the fewest channels for `segments` segments.
    ///
    /// # Errors
    /// If there are no segments or more than [`SEGMENTS_MAX`], or a skyscraper has a width outside
    /// its series.
    pub fn new(scheme: Scheme, segments: u32) -> Result<Schedule, BroadcastError> {
        if !(1..=SEGMENTS_MAX).contains(&segments) {
            return Err(BroadcastError::Segments(u64::from(segments)));
        }
        Ok(Schedule { scheme, segments, channels: schemes::tables(scheme, segments)? })
    }

    /// The number of segments that so many channels carry, at most [`SEGMENTS_MAX`]; 0 without a
    /// channel. A linear channel carries any number.
    ///
    /// # Errors
    /// If a skyscraper has a width outside its series.
    pub fn segments_of(scheme: Scheme, channels: u32) -> Result<u32, BroadcastError> {
        schemes::segments_of(scheme, channels)
    }

    /// The scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The number of segments.
    pub fn segments(&self) -> u32 {
        self.segments
    }

    /// The tables, one for each channel. The bandwidth, in units of the title's rate, is their
    /// number.
    pub fn channels(&self) -> &[Table] {
        &self.channels
    }

    /// What a channel sends in a slot: a segment from 1, or nothing.
    pub fn segment_at(&self, channel: usize, slot: u64) -> Option<u32> {
        self.channels.get(channel)?.segment_at(slot)
    }

    /// The slots after which everything repeats, if that is a number of 64 bits.
    pub fn period(&self) -> Option<u64> {
        let periods = self.channels.iter().flat_map(|table| table.repeats()).map(|repeat| repeat.period);
        periods.map(u64::from).try_fold(1, least_common_multiple)
    }

    /// Which channels a client receives.
    pub fn client_rule(&self) -> ClientRule {
        match self.scheme {
            Scheme::Staggered | Scheme::Linear => ClientRule::OneChannel,
            Scheme::Fast | Scheme::RecursiveFrequencySplitting => ClientRule::AllChannels,
            Scheme::Skyscraper { .. } => ClientRule::TwoTuners,
        }
    }

    /// Channels that a client receives at a time, at most.
    pub fn client_channels(&self) -> u32 {
        let channels = self.channels.len() as u32;
        match self.client_rule() {
            ClientRule::OneChannel => 1,
            ClientRule::AllChannels => channels,
            ClientRule::TwoTuners => channels.min(2),
        }
    }

    /// The largest buffer of a client that plays one slot behind. All start slots are examined if
    /// [`BUFFER_STEPS_MAX`] allows; otherwise the scheme's bound is given.
    pub fn buffer(&self) -> Buffer {
        let starts_max = BUFFER_STEPS_MAX / u64::from(self.segments);
        match self.period().filter(|period| *period <= starts_max) {
            Some(starts) => {
                let buffers = (0..starts).map(|slot| Visit::new(self, slot).buffer_segments());
                Buffer { segments: buffers.max().unwrap_or(0), is_exact: true }
            }
            None => {
                let segments = schemes::buffer_segments_max(self.scheme, self.segments);
                Buffer { segments, is_exact: false }
            }
        }
    }
}

fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    let (mut divisor, mut rest) = (a, b);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a.checked_mul(b / divisor)
}
