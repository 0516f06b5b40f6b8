//! Silence where sound is missing: before it begins, in its gaps, and after it ends.
//!
//! Chromium plays the frames of sound that it has without pauses, also where their times have one:
//! after a gap, sound is ahead of the pictures until the viewer seeks. A source buffer has no media
//! where one of its tracks has none (W3C Media Source Extensions, `HTMLMediaElement` extensions):
//! what is shown before the sound begins is skipped, and playback ends or waits for ever where the
//! sound ends. Frames that decode to silence keep all in step in every player, and cost a few bytes
//! each.

use super::lane::Instant;
use super::silent::Coding;
use crate::{Codec, Packet, Sample, Track, limits};

/// Times may be inaccurate by this part of a frame, as a divisor.
const ROUNDING: u64 = 8;
/// In a coarser one, frames would have hardly any time.
const LEAST_TIMESCALE: u32 = 1000;

/// What is known of the sound of one track.
#[derive(Debug)]
pub(super) struct Silence {
    track: usize,
    codec: Codec,
    timescale: u32,
    config: Vec<u8>,
    /// The frames as they are coded now; `None` if their gaps are not filled.
    kind: Option<Kind>,
    /// A frame that follows the last one at once; `None` before the first.
    due: Option<Sample>,
    /// Frames without a gap beside them, less the others. Long steps are no gaps if most are long.
    in_order: i64,
    /// Frames that were added.
    added: u64,
    /// Samples that filled gaps are longer than their frames, all together: without them, what is
    /// left of many gaps would add up. As long as a frame, they are one more frame in the next gap.
    rest_samples: u64,
}

/// A frame of sound, or of silence.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) packet: Packet,
    /// The bytes of a frame of silence; `None` for the sound itself.
    pub(super) silence: Option<Vec<u8>>,
}

/// How frames are coded, and their times.
#[derive(Clone, Copy, Debug)]
struct Kind {
    coding: Coding,
    timescale: u64,
}

impl Silence {
    pub(super) fn new(number: usize, track: &Track) -> Self {
        let &Track { codec, timescale, .. } = track;
        let config = track.config.clone();
        let (kind, due) = (None, None);
        Self { track: number, codec, timescale, config, kind, due, in_order: 0, added: 0, rest_samples: 0 }
    }

    /// The next frame of sound, as long as it is heard, with silence before and after it. `None` if
    /// nothing is missing there.
    ///
    /// Containers state a gap in two ways: the frame before it lasts for so long, or ends before
    /// the next one begins.
    pub(super) fn fill(&mut self, packet: &Packet, frame: &[u8]) -> Option<Vec<Part>> {
        let sample = packet.sample;
        let is_first = self.due.is_none();
        let before = self.kind;
        if let Some(description) = &packet.change {
            self.config.clone_from(&description.config);
        }
        self.kind = Kind::of(self.codec, self.timescale, &self.config, frame);
        // Coded as the sound before.
        let first = self.kind.map(|kind| Kind { coding: kind.coding.before(frame), ..kind });
        let before = before.filter(|_| !is_first).or(first).zip(self.gap_before(&sample));
        let own = self.kind.map_or(0, |kind| kind.ticks(kind.coding.samples_of(frame)));
        self.due = Some(after(sample, sample.duration.max(own)));
        // A start that is hardly late stays: players allow for it.
        let is_late = i64::from(self.timescale) * limits::LATE_MS / 1000 < sample.dts;
        let before = before.filter(|_| !is_first || is_late);
        let silent_before = before.map_or(0, |(kind, gap)| kind.frames(gap.duration));
        let tail = after(Sample { duration: sample.duration.saturating_sub(own), ..sample }, own);
        let silent_after = self.kind.map_or(0, |kind| kind.frames(tail.duration));
        if !self.accept(silent_before + silent_after, is_first) {
            return None;
        }
        let mut parts = before.map_or_else(Vec::new, |(kind, gap)| self.silence(kind, gap));
        let heard = if silent_after > 0 { Sample { duration: own, ..sample } } else { sample };
        parts.push(Part { packet: Packet { sample: heard, ..packet.clone() }, silence: None });
        if let Some(kind) = self.kind.filter(|_| silent_after > 0) {
            parts.extend(self.silence(kind, tail));
        }
        Some(parts)
    }

    /// Silence from the end of the sound to that of the title, if that is much later.
    pub(super) fn fill_to(&mut self, end: Instant) -> Vec<Part> {
        let Some((kind, due)) = self.kind.zip(self.due) else { return Vec::new() };
        let missing = u32::try_from(end.in_clock(self.timescale) - due.pts).unwrap_or(0);
        let is_much = i64::from(missing) * 1000 > i64::from(self.timescale) * limits::PAUSE_MS;
        if !is_much || !self.accept(kind.frames(missing), false) {
            return Vec::new();
        }
        self.silence(kind, Sample { duration: missing, ..due })
    }

    /// Frames of silence in the time of a sample, if it is long enough for one.
    fn silence(&mut self, kind: Kind, gap: Sample) -> Vec<Part> {
        if kind.frames(gap.duration) == 0 {
            return Vec::new();
        }
        let times = self.split(kind, gap);
        let part = |sample: Sample| Part {
            packet: Packet { track: self.track, sample, change: None },
            silence: Some(kind.coding.silence(kind.samples_before(sample.pts))),
        };
        times.into_iter().map(part).collect()
    }

    /// The frames in the time of a sample. The last one takes the rest, or has less time.
    fn split(&mut self, kind: Kind, gap: Sample) -> Vec<Sample> {
        let samples = kind.samples(gap.duration) + self.rest_samples;
        let count = (samples + kind.rounding()) / kind.coding.samples;
        let begin = |n: u64| kind.ticks(n * kind.coding.samples);
        // Each has some time.
        let count = if begin(count.saturating_sub(1)) < gap.duration { count } else { count - 1 };
        self.rest_samples = samples.saturating_sub(count * kind.coding.samples);
        let part = |n| {
            let end = if n + 1 == count { gap.duration } else { begin(n + 1).min(gap.duration) };
            Sample { duration: end - begin(n).min(gap.duration), ..after(gap, begin(n).min(gap.duration)) }
        };
        (0..count).map(part).collect()
    }

    /// The time between the sound before, or the start of the title, and a frame.
    fn gap_before(&self, sample: &Sample) -> Option<Sample> {
        let due = self.due.unwrap_or(Sample { dts: 0, pts: 0, ..*sample });
        let duration = u32::try_from(sample.dts - due.dts).ok()?;
        Some(Sample { duration, ..due })
    }

    /// Whether so many frames of silence are put beside the next frame of sound.
    fn accept(&mut self, silent: u64, is_first: bool) -> bool {
        let is_usual = self.in_order > 0 || is_first;
        match silent {
            0 => self.in_order += 1,
            _ if is_first => {}
            _ => self.in_order -= 1,
        }
        let is_accepted = silent > 0 && is_usual && self.added + silent <= limits::SILENT_FRAMES;
        self.added += if is_accepted { silent } else { 0 };
        is_accepted
    }
}

/// What begins so many ticks after a sample.
fn after(sample: Sample, ticks: u32) -> Sample {
    let (dts, pts) = (sample.dts + i64::from(ticks), sample.pts + i64::from(ticks));
    Sample { dts, pts, ..sample }
}

impl Kind {
    fn of(codec: Codec, timescale: u32, config: &[u8], frame: &[u8]) -> Option<Self> {
        let coding = Coding::of(codec, config, frame).filter(|_| timescale >= LEAST_TIMESCALE)?;
        Some(Self { coding, timescale: timescale.into() })
    }

    /// The ticks of so many samples.
    fn ticks(&self, samples: u64) -> u32 {
        // Fits: it is within the duration of a sample, or one frame.
        (samples * self.timescale).div_ceil(self.coding.rate) as u32
    }

    /// How many samples a duration has.
    fn samples(&self, duration: u32) -> u64 {
        u64::from(duration) * self.coding.rate / self.timescale
    }

    /// The samples of the track before a time.
    fn samples_before(&self, time: i64) -> u64 {
        // Fits: times were checked when the samples were added.
        (u128::from(time.max(0) as u64) * u128::from(self.coding.rate) / u128::from(self.timescale)) as u64
    }

    /// How many whole frames fit into a duration.
    fn frames(&self, duration: u32) -> u64 {
        (self.samples(duration) + self.rounding()) / self.coding.samples
    }

    fn rounding(&self) -> u64 {
        self.coding.samples / ROUNDING
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Audio, Description, TrackKind};

    const STEREO: [u8; 2] = [0x11, 0x90];
    const AUDIO: Audio = Audio { channels: 2, sample_rate: 48_000, sample_bits: 16, priming: 0 };

    fn silence(config: &[u8], timescale: u32) -> Silence {
        Silence::new(
            0,
            &Track {
                kind: TrackKind::Audio,
                codec: Codec::Aac,
                config: config.to_vec(),
                timescale,
                language: None,
                name: None,
                default: true,
                forced: false,
                video: None,
                audio: Some(AUDIO),
            },
        )
    }

    fn packet(dts: i64, duration: u32) -> Packet {
        Packet { track: 0, sample: Sample { dts, pts: dts, duration, sync: true }, change: None }
    }

    /// Time, duration and size of silence for each part; the sound itself has no silence.
    type Seen = (i64, u32, Option<usize>);

    /// What becomes of the last of some frames: their times and durations.
    fn fill(mut silence: Silence, frames: &[(i64, u32)]) -> Option<Vec<Seen>> {
        let mut filled = None;
        for (dts, duration) in frames {
            filled = silence.fill(&packet(*dts, *duration), &[]);
        }
        filled.map(|parts| parts.iter().map(seen).collect())
    }

    fn seen(part: &Part) -> Seen {
        let Sample { pts, duration, .. } = part.packet.sample;
        (pts, duration, part.silence.as_ref().map(Vec::len))
    }

    /// The last of frames that follow each other at once, with these durations.
    fn fill_long(silence: Silence, durations: &[u32]) -> Option<Vec<Seen>> {
        let starts = durations.iter().scan(0, |at, duration| {
            let start = *at;
            *at += i64::from(*duration);
            Some((start, *duration))
        });
        fill(silence, &starts.collect::<Vec<_>>())
    }

    #[test]
    fn gaps_within_a_duration_are_filled_with_whole_frames() {
        assert_eq!(fill_long(silence(&STEREO, 48_000), &[1024, 1024]), None);
        assert_eq!(fill_long(silence(&STEREO, 48_000), &[1024, 1900]), None);
        let filled = Some(vec![(1024, 1024, None), (2048, 1024, Some(6)), (3072, 1100, Some(6))]);
        assert_eq!(fill_long(silence(&STEREO, 48_000), &[1024, 3148]), filled);
        assert_eq!(fill_long(silence(&[0x11, 0x90, 0x56, 0xe5, 0], 48_000), &[1024, 3148]), filled);
        // Frames of 23.2 ms in milliseconds.
        let coarse = fill_long(silence(&[0x12, 0x08], 1000), &[23, 75]);
        assert_eq!(coarse, Some(vec![(23, 24, None), (47, 24, Some(4)), (71, 27, Some(4))]));
        // Each frame between gaps.
        let again = fill_long(silence(&STEREO, 48_000), &[1024, 1024, 1024, 2048, 1024, 2048]);
        assert_eq!(again, Some(vec![(6144, 1024, None), (7168, 1024, Some(6))]));
    }

    #[test]
    fn gaps_between_frames_are_filled_with_whole_frames() {
        let filled = fill(silence(&STEREO, 48_000), &[(0, 1024), (1024 * 3 + 20, 1024)]);
        assert_eq!(
            filled,
            Some(vec![(1024, 1024, Some(6)), (2048, 1044, Some(6)), (1024 * 3 + 20, 1024, None)])
        );
        // A frame is heard whole, whatever its duration.
        assert_eq!(fill(silence(&STEREO, 48_000), &[(0, 1024), (1024, 0), (2048, 1024)]), None);
    }

    #[test]
    fn what_is_left_of_gaps_does_not_add_up() {
        let mut silence = silence(&STEREO, 48_000);
        let (mut at, mut frames, mut lag_max) = (0, 0, 0);
        for number in 0..500 {
            // Two frames, and after the second a gap of 1.6 frames.
            for duration in [1024, 1024 + 1638] {
                let parts = silence.fill(&packet(at, duration), &[]);
                let begun = parts.as_ref().map_or(1, Vec::len) as i64;
                for part in parts.into_iter().flatten() {
                    let Sample { pts, duration, .. } = part.packet.sample;
                    assert!(duration > 0 && pts >= at, "{number}: {part:?}");
                }
                (at, frames) = (at + i64::from(duration), frames + begun);
                lag_max = lag_max.max((at - frames * 1024).abs());
            }
        }
        assert!(lag_max <= 1024, "{lag_max} samples");
    }

    #[test]
    fn silence_is_coded_as_the_sound_before_it() {
        let mut silence = silence(&STEREO, 48_000);
        assert_eq!(silence.fill(&packet(0, 1024), &[]), None);
        let surround = Description { config: vec![0x11, 0xb0], video: None, audio: Some(AUDIO) };
        let change = Some(Box::new(surround));
        let changed = Packet { change: change.clone(), ..packet(2048, 1024) };
        let parts = silence.fill(&changed, &[]).expect("a gap");
        let stereo = parts[0].silence.clone();
        assert_eq!(parts.iter().map(seen).collect::<Vec<_>>(), [(1024, 1024, Some(6)), (2048, 1024, None)]);
        assert_eq!((&parts[0].packet.change, &parts[1].packet.change), (&None, &change));
        assert_eq!(silence.fill(&packet(3072, 1024), &[]), None);
        let parts = silence.fill(&packet(4096, 2048), &[]).expect("a gap");
        assert!(parts[1].silence.is_some() && parts[1].silence != stereo);
        // What cannot be filled.
        let mono = Description { config: vec![0x13, 0x08], video: None, audio: Some(AUDIO) };
        assert_eq!(silence.fill(&Packet { change: Some(Box::new(mono)), ..packet(6144, 2048) }, &[]), None);
        assert_eq!(silence.fill(&packet(16_384, 8192), &[]), None);
    }

    #[test]
    fn what_is_no_gap_stays_as_it_is() {
        assert_eq!(fill_long(silence(&STEREO, 48_000), &[2048, 2048, 2048]), None, "all are as long");
        assert_eq!(fill_long(silence(&STEREO, 48_000), &[1024, u32::MAX]), None, "more than the limit");
        let far = fill(silence(&STEREO, 48_000), &[(0, 1024), (i64::from(u32::MAX) * 4, 1024)]);
        assert_eq!(far, None, "more than the limit");
        for config in
            [&[0x2b, 0x11, 0x88, 0][..], &[0x13, 0x10], &[0x11, 0x90, 0x56, 0xe5, 0x80], &[0x11, 0x80]]
        {
            assert_eq!(fill_long(silence(config, 48_000), &[1024, 4096]), None, "{config:x?}");
        }
    }
}
