//! Frames of sound that are coded in another way than the first ones of their track. Their headers
//! say so, and decoders can follow, but the decoder configuration of the track stays.

use super::warnings::Warnings;
use crate::codec::{ac3, mp3};
use crate::{Codec, Track, times};

/// Compares the frames of a track of sound with the first one.
pub(crate) struct SoundHeaders {
    codec: Codec,
    /// Samples per second and channels of the first frame.
    described: Option<(u32, u16)>,
    /// Frames that state others.
    others: u64,
    /// The first of them: milliseconds, and what it states.
    first: Option<(i64, (u32, u16))>,
}

impl SoundHeaders {
    /// For a track whose frames have headers.
    pub(crate) fn new(track: &Track) -> Option<Self> {
        stated_by(track.codec, &[]).ok()?;
        Some(Self { codec: track.codec, described: None, others: 0, first: None })
    }

    /// The tables of the file describe the frames from the next one on.
    pub(crate) fn restart(&mut self) {
        self.described = None;
    }

    /// Takes a sample that is heard at `at_ms`. A damaged header states nothing.
    pub(crate) fn see(&mut self, data: &[u8], at_ms: i64) {
        let Ok(Some(stated)) = stated_by(self.codec, data) else { return };
        if stated != *self.described.get_or_insert(stated) {
            self.others += 1;
            self.first = self.first.or(Some((at_ms, stated)));
        }
    }

    /// The warning about track `number`, if there are such frames.
    pub(crate) fn warn(&self, number: u64, warnings: &mut Warnings) {
        let Some((at_ms, (rate, channels))) = self.first else { return };
        let at = times::at(at_ms, 1000);
        let frames = times::counted(self.others, "frame");
        warnings.add(format!(
            "the sound of track {number} changes at {at} to {channels} channels at {rate} Hz, for {frames} in \
             all: no new decoder configuration begins there, and some players cannot follow"
        ));
    }
}

/// Rate and channels that a frame states. An error is a codec whose frames do not.
fn stated_by(codec: Codec, data: &[u8]) -> Result<Option<(u32, u16)>, ()> {
    match codec {
        Codec::Mp3 => Ok(mp3::Header::parse(data)
            .filter(|header| header.layer == 3 && header.frame_bytes <= data.len())
            .map(|header| (header.sample_rate, header.channels))),
        Codec::Ac3 | Codec::Eac3 => {
            Ok(ac3::Frame::parse(data).map(|frame| frame.sample_rate).zip(ac3::channels(data)))
        }
        _ => Err(()),
    }
}
