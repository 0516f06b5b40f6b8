//! Silence in the gaps of AAC-LC sound.
//!
//! Chromium plays the frames of sound that it has without pauses, also where their times have one:
//! after a gap, sound is ahead of the pictures until the viewer seeks. Frames that decode to
//! silence keep both in step in every player, and cost a few bytes each.

use super::silent_frame::silent_frame;
use crate::{Codec, Packet, Sample, Track, limits};

/// Samples of a frame.
const FRAME_SAMPLES: u64 = 1024;
/// Times may be inaccurate by a part of a frame.
const ROUNDING_SAMPLES: u64 = FRAME_SAMPLES / 8;
/// Sound of a lower rate may have more in its frames than its configuration says (spectral band
/// replication), and then frames of silence of another kind.
const LEAST_RATE: u64 = 32_000;
/// In a coarser one, frames would have hardly any time.
const LEAST_TIMESCALE: u32 = 1000;
const RATES: [u64; 6] = [96_000, 88_200, 64_000, 48_000, 44_100, LEAST_RATE];

/// What is known of the sound of one track.
#[derive(Debug)]
pub(super) struct Silence {
    codec: Codec,
    timescale: u32,
    /// The frames as they are coded now; `None` if their gaps are not filled.
    kind: Option<Kind>,
    /// A frame that follows the last one at once.
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

/// How frames are coded.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// channelConfiguration of ISO 14496-3, table 1.19.
    layout: u8,
    rate: u64,
    timescale: u64,
}

impl Silence {
    pub(super) fn new(track: &Track) -> Self {
        let &Track { codec, timescale, .. } = track;
        let kind = Kind::of(codec, timescale, &track.config);
        Self { codec, timescale, kind, due: None, in_order: 0, added: 0, rest_samples: 0 }
    }

    /// The next frame of sound, as long as it is heard, with silence in the gaps before and after
    /// it. `None` if there is no gap to fill.
    ///
    /// Containers state a gap in two ways: the frame before it lasts for so long, or ends before
    /// the next one begins.
    pub(super) fn fill(&mut self, packet: &Packet) -> Option<Vec<Part>> {
        let sample = packet.sample;
        // Coded as the sound before.
        let before = self.kind.zip(self.gap_before(&sample));
        if let Some(description) = &packet.change {
            self.kind = Kind::of(self.codec, self.timescale, &description.config);
        }
        self.due = self.kind.map(|kind| after(sample, sample.duration.max(kind.begin(1))));
        let silent_before = before.map_or(0, |(kind, gap)| kind.frames(gap.duration));
        let silent_after = self.kind.map_or(0, |kind| kind.frames(sample.duration).saturating_sub(1));
        if !self.accept(silent_before + silent_after) {
            return None;
        }
        let mut parts = match before.filter(|_| silent_before > 0) {
            Some((kind, gap)) => kind.silence(packet, &self.split(kind, gap)),
            None => Vec::new(),
        };
        let frames = match self.kind.filter(|_| silent_after > 0) {
            Some(kind) => self.split(kind, sample),
            None => vec![sample],
        };
        let (heard, silent) = frames.split_first().unwrap_or((&sample, &[]));
        parts.push(Part { packet: Packet { sample: *heard, ..packet.clone() }, silence: None });
        parts.extend(self.kind.into_iter().flat_map(|kind| kind.silence(packet, silent)));
        Some(parts)
    }

    /// The frames in the time of a sample that has a gap, or is one.
    fn split(&mut self, kind: Kind, sample: Sample) -> Vec<Sample> {
        let samples = kind.samples(sample.duration) + self.rest_samples;
        let count = (samples + ROUNDING_SAMPLES) / FRAME_SAMPLES;
        // Each has some time.
        let count = if kind.begin(count.saturating_sub(1)) < sample.duration { count } else { count - 1 };
        self.rest_samples = samples.saturating_sub(count * FRAME_SAMPLES);
        kind.split(sample, count)
    }

    /// The time between the sound before and a frame.
    fn gap_before(&self, sample: &Sample) -> Option<Sample> {
        let due = self.due?;
        let duration = u32::try_from(sample.dts - due.dts).ok()?;
        Some(Sample { duration, ..due })
    }

    /// Whether so many frames of silence are put beside the next frame of sound.
    fn accept(&mut self, silent: u64) -> bool {
        let is_usual = self.in_order > 0;
        self.in_order += if silent == 0 { 1 } else { -1 };
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
    fn of(codec: Codec, timescale: u32, config: &[u8]) -> Option<Self> {
        let is_plain = match config {
            [_, _] => true,
            // Spectral band replication is said to be absent.
            [_, _, 0x56, 0xe5, present, ..] => present & 0x80 == 0,
            _ => false,
        };
        if codec != Codec::Aac || !is_plain || timescale < LEAST_TIMESCALE {
            return None;
        }
        let (first, second) = (config[0], config[1]);
        let rate = *RATES.get(usize::from((first & 7) << 1 | second >> 7))?;
        // AAC-LC, with frames of 1024 samples and no extension.
        if first >> 3 != 2 || second & 7 != 0 {
            return None;
        }
        let layout = second >> 3 & 0xf;
        silent_frame(layout).map(|_| Self { layout, rate, timescale: u64::from(timescale) })
    }

    /// Where the `n`th frame begins, in ticks after the first.
    fn begin(&self, n: u64) -> u32 {
        // Fits: it is within the duration of a sample, or `n` is 1.
        ((n * FRAME_SAMPLES * self.timescale).div_ceil(self.rate)) as u32
    }

    /// How many samples a duration has.
    fn samples(&self, duration: u32) -> u64 {
        u64::from(duration) * self.rate / self.timescale
    }

    /// How many whole frames fit into a duration.
    fn frames(&self, duration: u32) -> u64 {
        (self.samples(duration) + ROUNDING_SAMPLES) / FRAME_SAMPLES
    }

    /// So many frames in the time of a sample. The last one takes the rest, or has less time.
    fn split(&self, sample: Sample, count: u64) -> Vec<Sample> {
        let part = |n| {
            let begin = self.begin(n).min(sample.duration);
            let end = if n + 1 == count { sample.duration } else { self.begin(n + 1).min(sample.duration) };
            Sample { duration: end - begin, ..after(sample, begin) }
        };
        (0..count).map(part).collect()
    }

    /// Silence at these times, in the track of a packet.
    fn silence(&self, packet: &Packet, times: &[Sample]) -> Vec<Part> {
        let part = |sample: &Sample| Part {
            packet: Packet { track: packet.track, sample: *sample, change: None },
            silence: silent_frame(self.layout),
        };
        times.iter().map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Audio, Description, TrackKind};

    const STEREO: [u8; 2] = [0x11, 0x90];
    const AUDIO: Audio = Audio { channels: 2, sample_rate: 48_000, sample_bits: 16, priming: 0 };

    fn silence(config: &[u8], timescale: u32) -> Silence {
        Silence::new(&Track {
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
        })
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
            filled = silence.fill(&packet(*dts, *duration));
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
        assert_eq!(coarse, Some(vec![(23, 24, None), (47, 23, Some(4)), (70, 28, Some(4))]));
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
                let parts = silence.fill(&packet(at, duration));
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
        assert_eq!(silence.fill(&packet(0, 1024)), None);
        let surround = Description { config: vec![0x11, 0xb0], video: None, audio: Some(AUDIO) };
        let change = Some(Box::new(surround));
        let changed = Packet { change: change.clone(), ..packet(2048, 1024) };
        let parts = silence.fill(&changed).expect("a gap");
        let stereo = parts[0].silence.clone();
        assert_eq!(parts.iter().map(seen).collect::<Vec<_>>(), [(1024, 1024, Some(6)), (2048, 1024, None)]);
        assert_eq!((&parts[0].packet.change, &parts[1].packet.change), (&None, &change));
        assert_eq!(silence.fill(&packet(3072, 1024)), None);
        let parts = silence.fill(&packet(4096, 2048)).expect("a gap");
        assert!(parts[1].silence.is_some() && parts[1].silence != stereo);
        // What cannot be filled.
        let mono = Description { config: vec![0x13, 0x08], video: None, audio: Some(AUDIO) };
        assert_eq!(silence.fill(&Packet { change: Some(Box::new(mono)), ..packet(6144, 2048) }), None);
        assert_eq!(silence.fill(&packet(16_384, 8192)), None);
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
