//! The samples of one track, fragment by fragment, at the times of a transport stream.

use super::error::MuxError;
use super::framing::Framing;
use crate::cmaf::{StoredSample, stored_samples};
use crate::{TrackIndex, limits};
use std::collections::VecDeque;
use std::ops::Range;

/// Ticks of time stamps in a second (ISO 13818-1 section 2.4.3.7).
pub(super) const STAMPS_PER_S: u32 = 90_000;

/// Bytes that framing adds to a frame of sound, but for what grows with its size.
const SOUND_HEADER_BYTES: usize = 8;

/// A sample, with times in 90 kHz ticks from the start of the presentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timed {
    pub(super) dts: i64,
    pub(super) pts: i64,
    /// Time until the next sample in decoding order.
    pub(super) ticks: i64,
    pub(super) sync: bool,
}

/// The fragments of a track, of which one is held in memory.
#[derive(Debug)]
pub(super) struct Fragments<'a> {
    /// Number of the track in the title.
    number: usize,
    track: &'a TrackIndex,
    /// The next fragment that is wanted.
    next: usize,
    bytes: Vec<u8>,
    samples: VecDeque<(StoredSample, Range<usize>)>,
    framing: Framing,
}

impl<'a> Fragments<'a> {
    /// Those of a track whose configurations can be carried.
    pub(super) fn new(number: usize, track: &'a TrackIndex) -> Result<Fragments<'a>, MuxError> {
        let framing = framing(number, track, 0)?;
        Ok(Fragments { number, track, next: 0, bytes: Vec::new(), samples: VecDeque::new(), framing })
    }

    /// The fragment that must be supplied before anything more is known.
    pub(super) fn wanted(&self) -> Option<usize> {
        (self.samples.is_empty() && self.next < self.track.fragments.len()).then_some(self.next)
    }

    /// Takes the bytes of the wanted fragment.
    pub(super) fn supply(&mut self, bytes: Vec<u8>) -> Result<(), MuxError> {
        let (fragment, number) = (self.next, self.number);
        let damaged = |what| MuxError::Fragment { track: number, fragment, what };
        let stated = self.track.fragments.get(fragment).ok_or(damaged("it was not wanted"))?;
        if u64::from(stated.bytes) > limits::MUX_FRAGMENT_BYTES || bytes.len() != stated.bytes as usize {
            return Err(damaged("its size is not that of the index, or too large"));
        }
        let header_bytes = stated.header_bytes as usize;
        let (header, payload) =
            bytes.split_at_checked(header_bytes).ok_or(damaged("its header does not fit"))?;
        let samples = stored_samples(header, payload.len()).ok_or(damaged("its header is not readable"))?;
        if samples.len() != stated.samples as usize || samples.is_empty() {
            return Err(damaged("it has not as many samples as the index says"));
        }
        // Otherwise slots without end would be made up to a time that no sample of the title has.
        let latest = self.track.media_offset.saturating_add(self.track.end).saturating_add(self.margin());
        if samples.iter().any(|sample| sample.decode_time > latest) {
            return Err(damaged("a time is after the end of the track"));
        }
        let mut end = header_bytes;
        self.samples = samples
            .into_iter()
            .map(|sample| {
                let start = end;
                end += sample.bytes as usize;
                (sample, start..end)
            })
            .collect();
        if self.track.init_of(fragment) != self.track.init_of(fragment.saturating_sub(1)) {
            self.framing = framing(number, self.track, fragment)?;
        }
        self.bytes = bytes;
        self.next += 1;
        Ok(())
    }

    /// The next sample that is held.
    pub(super) fn peek(&self) -> Option<Timed> {
        self.samples.front().map(|(sample, _)| self.timed(sample))
    }

    /// Bytes of the next access unit, at most; only for sound.
    pub(super) fn next_bytes(&self) -> usize {
        self.samples.front().map_or(0, |(_, range)| range.len() + range.len() / 255 + SOUND_HEADER_BYTES)
    }

    /// By how much decoding times are after presentation times among the samples that are held, in
    /// 90 kHz ticks.
    pub(super) fn late_by(&self) -> i64 {
        let late = self.samples.iter().map(|(sample, _)| self.timed(sample)).map(|at| at.dts - at.pts);
        late.max().unwrap_or(0).clamp(0, LATE_MAX)
    }

    /// Takes the next sample and appends its access unit; `None` in place of the sample if it is
    /// too large for its framing.
    pub(super) fn take(&mut self, target: &mut Vec<u8>) -> Option<Timed> {
        let (sample, range) = self.samples.pop_front()?;
        let timed = self.timed(&sample);
        let bytes = self.bytes.get(range).unwrap_or_default();
        self.framing.write(bytes, sample.sync, target).then_some(timed)
    }

    /// How far decoding times may be after the end of the presentation, in ticks of the track.
    fn margin(&self) -> u64 {
        u64::from(self.track.track.timescale) * limits::MUX_MARGIN_S
    }

    fn timed(&self, sample: &StoredSample) -> Timed {
        // Within limits: the index was checked, and so were the sums of durations.
        let decode_time = i128::from(sample.decode_time) - i128::from(self.track.media_offset);
        let stamp = |ticks: i128| {
            let scale = i128::from(self.track.track.timescale.max(1));
            let exact = ticks * i128::from(STAMPS_PER_S);
            (exact + scale / 2).div_euclid(scale).clamp(-TIME_MAX, TIME_MAX) as i64
        };
        let dts = stamp(decode_time);
        let pts = stamp(decode_time + i128::from(sample.composition));
        let ticks = stamp(decode_time + i128::from(sample.duration)) - dts;
        Timed { dts, pts, ticks, sync: sample.sync }
    }
}

/// Latest time either side of zero.
const TIME_MAX: i128 = limits::OUT_SECONDS as i128 * STAMPS_PER_S as i128;

/// Longest time by which decoding times are made earlier. Pictures wait for at most 16 others.
const LATE_MAX: i64 = 10 * STAMPS_PER_S as i64;

/// How the samples of a fragment become access units.
fn framing(number: usize, track: &TrackIndex, fragment: usize) -> Result<Framing, MuxError> {
    let described = track.described(track.init_of(fragment));
    Framing::new(described.codec, &described.config).map_err(|what| MuxError::Fragment {
        track: number,
        fragment,
        what,
    })
}
