//! How much sound before a place a decoder needs, so that what follows is as if it began earlier.
//!
//! Players that know no edit list of fragments (ffmpeg, GStreamer) let this part be heard, so it is
//! not longer than the codec asks for.

use super::config::audio_specific;
use crate::{Codec, Track};

/// Samples of one access unit of AAC-LC; the decoder mixes it with the one before.
const AAC_UNIT_SAMPLES: i64 = 1024;
/// Samples of one sync frame of AC-3; the decoder mixes its first block with the one before.
const AC3_FRAME_SAMPLES: i64 = 1536;
/// RFC 7845, 4.6: 80 ms, as a part of a second.
const OPUS_PARTS: i64 = 25;
/// The part of a second, as a divisor, for all others. The bit reservoir of MP3 reaches back 511
/// bytes, which are nine frames at 32 kb/s. Spectral band replication needs a header, which comes
/// every few units.
const OTHER_PARTS: i64 = 4;

/// Ticks of the track's timescale.
pub(crate) fn ticks(track: &Track) -> i64 {
    let timescale = i64::from(track.timescale);
    let rate = track.audio.as_ref().map_or(0, |audio| i64::from(audio.sample_rate)).max(1);
    let samples = |samples: i64| (samples * timescale).div_euclid(rate) + 1;
    match track.codec {
        Codec::Flac => 0,
        Codec::Aac if audio_specific::is_low_complexity_alone(&track.config) => samples(AAC_UNIT_SAMPLES),
        Codec::Ac3 | Codec::Eac3 => samples(AC3_FRAME_SAMPLES),
        Codec::Opus => timescale * 2 / OPUS_PARTS,
        _ => timescale / OTHER_PARTS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Audio, TrackKind};

    fn ticks_of(codec: Codec, config: &[u8], sample_rate: u32, timescale: u32) -> i64 {
        ticks(&Track {
            kind: TrackKind::Audio,
            codec,
            config: config.to_vec(),
            timescale,
            language: None,
            name: None,
            default: false,
            forced: false,
            video: None,
            audio: Some(Audio { channels: 2, sample_rate, sample_bits: 16, priming: 0 }),
        })
    }

    #[test]
    fn aac_needs_the_unit_before_unless_bands_may_be_replicated() {
        let plain = audio_specific::plain(2, 48_000, 2).unwrap();
        assert_eq!(ticks_of(Codec::Aac, &plain, 48_000, 48_000), 1025);
        assert_eq!(ticks_of(Codec::Aac, &plain, 48_000, 1000), 22);
        // As ffmpeg writes it: the extension says that there is none.
        let said = [0x11, 0x90, 0x56, 0xe5, 0x00];
        assert_eq!(ticks_of(Codec::Aac, &said, 48_000, 48_000), 1025);
        // Announced for old decoders, announced, and possible without.
        let backward = [0x13, 0x10, 0x56, 0xe5, 0x98];
        let announced = [0x2b, 0x11, 0x88, 0x00];
        let low_rate = audio_specific::plain(2, 24_000, 2).unwrap();
        for (config, rate) in [(&backward[..], 48_000), (&announced, 48_000), (&low_rate, 24_000)] {
            assert_eq!(ticks_of(Codec::Aac, config, rate, rate), i64::from(rate) / 4, "{config:x?}");
        }
    }

    #[test]
    fn others_need_what_their_codec_says() {
        assert_eq!(ticks_of(Codec::Flac, &[], 44_100, 44_100), 0);
        assert_eq!(ticks_of(Codec::Ac3, &[], 48_000, 48_000), 1537);
        assert_eq!(ticks_of(Codec::Opus, &[], 48_000, 48_000), 3840);
        assert_eq!(ticks_of(Codec::Mp3, &[], 44_100, 44_100), 11_025);
    }
}
