//! Gives every sample its duration: holds one sample per track until the next one is known.

use crate::{Description, Packet, Sample};
use std::collections::VecDeque;

/// A sample whose duration may not be known yet.
pub(crate) struct Timed {
    /// Decoding time.
    pub(crate) dts: i64,
    /// Presentation time.
    pub(crate) pts: i64,
    /// Decoding can start here.
    pub(crate) sync: bool,
    /// The duration if no sample follows.
    pub(crate) nominal: u32,
    /// The sample's bytes.
    pub(crate) data: Vec<u8>,
    /// How the track is coded from here on, if that changes.
    pub(crate) change: Option<Box<Description>>,
}

/// A sample that is ready, with the index of its track.
pub(crate) struct Ready {
    /// Index of the track.
    pub(crate) track: usize,
    /// Times and marks.
    pub(crate) sample: Sample,
    /// The sample's bytes.
    pub(crate) data: Vec<u8>,
    /// How the track is coded from here on, if that changes.
    pub(crate) change: Option<Box<Description>>,
}

impl Ready {
    /// The sample as a packet, and its bytes.
    pub(crate) fn packet(self) -> (Packet, Vec<u8>) {
        (Packet { track: self.track, sample: self.sample, change: self.change }, self.data)
    }
}

/// One held sample per track, and the samples that are ready.
#[derive(Default)]
pub(crate) struct Spacing {
    held: Vec<Option<Timed>>,
    ready: VecDeque<Ready>,
}

impl Spacing {
    /// For `tracks` tracks.
    pub(crate) fn new(tracks: usize) -> Self {
        Self { held: (0..tracks).map(|_| None).collect(), ready: VecDeque::new() }
    }

    /// Takes the next sample of a track; the one before it becomes ready. Decoding times that
    /// decrease are raised.
    pub(crate) fn push(&mut self, track: usize, mut next: Timed) {
        if let Some(previous) = self.held[track].take() {
            next.dts = next.dts.max(previous.dts);
            let duration = u32::try_from(next.dts - previous.dts).unwrap_or(u32::MAX);
            self.ready.push_back(ready(track, previous, duration));
        }
        self.held[track] = Some(next);
    }

    /// Adds a sample that need not wait for the next one.
    pub(crate) fn push_ready(&mut self, track: usize, timed: Timed) {
        let duration = timed.nominal;
        self.ready.push_back(ready(track, timed, duration));
    }

    /// No sample follows: held samples get their nominal duration.
    pub(crate) fn finish(&mut self) {
        for (track, held) in self.held.iter_mut().enumerate() {
            if let Some(last) = held.take() {
                let duration = last.nominal;
                self.ready.push_back(ready(track, last, duration));
            }
        }
    }

    /// The next ready sample.
    pub(crate) fn pop(&mut self) -> Option<Ready> {
        self.ready.pop_front()
    }
}

fn ready(track: usize, timed: Timed, duration: u32) -> Ready {
    let sample = Sample { dts: timed.dts, pts: timed.pts, duration, sync: timed.sync };
    Ready { track, sample, data: timed.data, change: timed.change }
}
