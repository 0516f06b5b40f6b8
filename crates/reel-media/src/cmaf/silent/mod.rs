//! Frames of sound that decode to silence, in every codec of sound that browsers play.

mod aac;
mod bits;
mod flac;
mod mp3;
mod opus;

use crate::Codec;

/// How the frames of a track are coded, and what silence is in that coding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coding {
    kind: Kind,
    /// Samples of a frame of silence.
    pub(super) samples: u64,
    /// Samples of a second.
    pub(super) rate: u64,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Aac(aac::Layout),
    Flac(flac::Stream),
    Mp3(mp3::Head),
    Opus(opus::Streams),
}

impl Coding {
    /// The coding of a track with this decoder configuration, of which `frame` is one. `None` if no
    /// silence is known for it.
    pub(super) fn of(codec: Codec, config: &[u8], frame: &[u8]) -> Option<Coding> {
        let (kind, samples, rate) = match codec {
            Codec::Aac => {
                let (layout, rate) = aac::Layout::of(config)?;
                (Kind::Aac(layout), aac::FRAME_SAMPLES, rate)
            }
            Codec::Flac => {
                let (stream, samples, rate) = flac::Stream::of(config, frame)?;
                (Kind::Flac(stream), samples, rate)
            }
            Codec::Mp3 => {
                let (head, samples, rate) = mp3::Head::of(frame)?;
                (Kind::Mp3(head), samples, rate)
            }
            Codec::Opus => {
                let streams = opus::Streams::of(config)?;
                (Kind::Opus(streams), opus::FRAME_SAMPLES, crate::codec::opus::SAMPLE_RATE.into())
            }
            _ => return None,
        };
        Some(Coding { kind, samples, rate })
    }

    /// The same, with silence that comes before the first frame of sound.
    pub(super) fn before(self, frame: &[u8]) -> Coding {
        match self.kind {
            Kind::Opus(streams) => Coding { kind: Kind::Opus(streams.before(frame)), ..self },
            _ => self,
        }
    }

    /// Samples of a frame of sound in this coding.
    pub(super) fn samples_of(&self, frame: &[u8]) -> u64 {
        let own = match self.kind {
            Kind::Aac(_) | Kind::Mp3(_) => None,
            Kind::Flac(_) => crate::codec::flac::StreamInfo::frame_samples(frame),
            Kind::Opus(_) => crate::codec::opus::packet_samples(frame),
        };
        own.map_or(self.samples, u64::from)
    }

    /// A frame of silence, which begins with this sample of the track.
    pub(super) fn silence(&self, first_sample: u64) -> Vec<u8> {
        match self.kind {
            Kind::Aac(layout) => layout.silence(),
            Kind::Flac(stream) => stream.silence(first_sample, self.samples),
            Kind::Mp3(head) => head.silence(),
            Kind::Opus(streams) => streams.silence(),
        }
    }
}
