//! What the headers of frames of sound say: that they are coded in another way than the first ones
//! of their track, or are damaged. Decoders can follow the former, but the decoder configuration of
//! the track stays; they leave out the latter.

use super::warnings::Warnings;
use crate::codec::{ac3, flac, mp3};
use crate::{Codec, Track, times};

/// Compares the frames of a track of sound with the first one.
pub(crate) struct SoundHeaders {
    codec: Codec,
    /// What the first frame states.
    described: Option<Stated>,
    /// Frames that state another rate or other channels.
    others: u64,
    /// The first of them: milliseconds, and what it states.
    first: Option<(i64, Stated)>,
    /// Frames whose headers can be read.
    good: u64,
    /// Damaged frames, and when the first of them would be heard.
    damaged: Option<(u64, i64)>,
}

/// What the header of a frame states.
#[derive(Clone, Copy)]
struct Stated {
    /// Samples per second; 0 if the codec states them elsewhere.
    rate: u32,
    channels: u16,
    /// Samples per channel.
    samples: u32,
}

impl SoundHeaders {
    /// For a track whose frames have headers.
    pub(crate) fn new(track: &Track) -> Option<Self> {
        let codec = track.codec;
        matches!(codec, Codec::Mp3 | Codec::Ac3 | Codec::Eac3 | Codec::Flac).then_some(Self {
            codec,
            described: None,
            others: 0,
            first: None,
            good: 0,
            damaged: None,
        })
    }

    /// The tables of the file describe the frames from the next one on.
    pub(crate) fn restart(&mut self) {
        self.described = None;
    }

    /// Takes a sample that is heard at `at_ms`.
    pub(crate) fn see(&mut self, data: &[u8], at_ms: i64) {
        let Some(stated) = Stated::by(self.codec, data) else {
            let (count, first_ms) = self.damaged.unwrap_or((0, at_ms));
            self.damaged = Some((count + 1, first_ms));
            return;
        };
        self.good += 1;
        let described = *self.described.get_or_insert(stated);
        if (stated.rate, stated.channels) != (described.rate, described.channels) {
            self.others += 1;
            self.first = self.first.or(Some((at_ms, stated)));
        }
    }

    /// The warnings about track `number`.
    pub(crate) fn warn(&self, number: u64, warnings: &mut Warnings) {
        if let Some((at_ms, Stated { rate, channels, .. })) = self.first {
            let (at, frames) = (times::at(at_ms, 1000), times::counted(self.others, "frame"));
            warnings.add(format!(
                "the sound of track {number} changes at {at} to {channels} channels at {rate} Hz, for {frames} in \
                 all: no new decoder configuration begins there, and some players cannot follow"
            ));
        }
        // Where most frames are of another form, nothing is known.
        let damaged = self.damaged.filter(|(count, _)| *count < self.good);
        if let Some(((count, at_ms), described)) = damaged.zip(self.described) {
            let place = if count == 1 { "at" } else { "the first at" };
            let length = match described.rate {
                0 => String::new(),
                rate => {
                    format!(" ({:.3} s)", (count * u64::from(described.samples)) as f64 / f64::from(rate))
                }
            };
            warnings.add(format!(
                "the sound of track {number} has damaged frames that cannot be heard: {}{length}, {place} {}",
                times::counted(count, "frame"),
                times::at(at_ms, 1000)
            ));
        }
    }
}

impl Stated {
    /// `None` if the header of the frame is damaged.
    fn by(codec: Codec, data: &[u8]) -> Option<Self> {
        match codec {
            Codec::Mp3 => mp3::Header::parse(data)
                .filter(|header| header.layer == 3 && header.frame_bytes <= data.len())
                .map(|header| Self {
                    rate: header.sample_rate,
                    channels: header.channels,
                    samples: header.samples,
                }),
            Codec::Ac3 | Codec::Eac3 => {
                let bytes: usize = ac3::frames(data).map(|frame| frame.frame_bytes).sum();
                let samples =
                    ac3::frames(data).filter(ac3::Frame::starts_unit).map(|frame| frame.samples()).sum();
                // Padding may follow the frames.
                let is_whole = data.get(bytes..)?.iter().all(|byte| *byte == 0);
                let (frame, channels) = ac3::Frame::parse(data).zip(ac3::channels(data))?;
                is_whole.then_some(Self { rate: frame.sample_rate, channels, samples })
            }
            _ => flac::StreamInfo::frame_samples(data).map(|samples| Self { rate: 0, channels: 0, samples }),
        }
    }
}
