//! From stored samples to the access units of elementary streams.

use super::opus;
use crate::Codec;
use crate::codec::avc_config::AvcConfig;
use crate::codec::config::audio_specific::RATES;
use crate::codec::hevc::{self, HevcConfig};
use crate::codec::nal::length_prefixed;
use crate::codec::{adts, bits::Bits};

/// access_unit_delimiter of H.264 with any slice type (ITU-T H.264 section 7.3.2.4).
const H264_DELIMITER: &[u8] = &[0x09, 0xf0];
/// The same of HEVC (ITU-T H.265 section 7.3.2.5).
const HEVC_DELIMITER: &[u8] = &[0x46, 0x01, 0x50];
const START_CODE: [u8; 4] = [0, 0, 0, 1];
/// Frames of ADTS have 13 bits for their length (ISO 13818-7 section 6.2).
const ADTS_FRAME_BYTES_MAX: usize = (1 << 13) - 1;

/// How the samples of a track become access units. It follows from the decoder configuration.
#[derive(Debug)]
pub(super) enum Framing {
    /// Byte stream (annex B) with parameter sets before each key frame.
    Pictures(Pictures),
    /// AAC in ADTS: its header with an empty frame.
    Adts([u8; adts::HEADER_BYTES]),
    /// Frames that have headers of their own.
    Plain,
    /// Opus with a control header before each packet.
    Opus,
}

/// The configuration of H.264 or HEVC.
#[derive(Debug)]
pub(super) struct Pictures {
    is_hevc: bool,
    /// Bytes of the length before each unit of a sample.
    length_bytes: usize,
    /// Parameter sets as a byte stream.
    sets: Vec<u8>,
}

impl Framing {
    /// For a codec and its decoder configuration; the reason if it cannot be carried.
    pub(super) fn new(codec: Codec, config: &[u8]) -> Result<Framing, &'static str> {
        match codec {
            Codec::H264 => {
                let config = AvcConfig::parse(config).ok_or("its configuration (avcC) is damaged")?;
                let sets: Vec<&[u8]> = config.sps.iter().chain(&config.pps).copied().collect();
                Ok(Framing::Pictures(Pictures::new(false, config.length_bytes, &sets)))
            }
            Codec::Hevc => {
                let config = HevcConfig::parse(config).ok_or("its configuration (hvcC) is damaged")?;
                Ok(Framing::Pictures(Pictures::new(true, config.length_bytes, &config.units)))
            }
            Codec::Aac => adts_header(config).map(Framing::Adts),
            Codec::Mp3 | Codec::Ac3 | Codec::Eac3 => Ok(Framing::Plain),
            Codec::Opus => Ok(Framing::Opus),
            Codec::Av1 | Codec::Flac | Codec::Vp9 | Codec::WebVtt => Err("no receiver expects it there"),
        }
    }

    /// Appends the access unit of a sample; `false` if the sample is too large for its framing.
    pub(super) fn write(&self, sample: &[u8], sync: bool, target: &mut Vec<u8>) -> bool {
        match self {
            Framing::Pictures(pictures) => pictures.write(sample, sync, target),
            Framing::Adts(header) => {
                let bytes = sample.len() + header.len();
                if bytes > ADTS_FRAME_BYTES_MAX {
                    return false;
                }
                let [a, b, c, d, _, _, g] = *header;
                let length = bytes as u32;
                let low = (length << 5) as u8;
                target.extend([a, b, c, d | (length >> 11) as u8, (length >> 3) as u8, low | 0x1f, g]);
                target.extend_from_slice(sample);
            }
            Framing::Plain => target.extend_from_slice(sample),
            Framing::Opus => {
                opus::control_header(sample.len(), target);
                target.extend_from_slice(sample);
            }
        }
        true
    }
}

impl Pictures {
    fn new(is_hevc: bool, length_bytes: usize, units: &[&[u8]]) -> Pictures {
        let mut sets = Vec::new();
        units.iter().for_each(|unit| push_unit(unit, &mut sets));
        Pictures { is_hevc, length_bytes, sets }
    }

    /// The delimiter comes first, then the parameter sets if the sample is a key frame without its
    /// own.
    fn write(&self, sample: &[u8], sync: bool, target: &mut Vec<u8>) {
        let units = || length_prefixed(sample, self.length_bytes).filter(|unit| !unit.is_empty());
        push_unit(if self.is_hevc { HEVC_DELIMITER } else { H264_DELIMITER }, target);
        if sync && !units().any(|unit| self.is_sequence_set(unit)) {
            target.extend_from_slice(&self.sets);
        }
        units().filter(|unit| !self.is_delimiter(unit)).for_each(|unit| push_unit(unit, target));
    }

    fn is_delimiter(&self, unit: &[u8]) -> bool {
        if self.is_hevc { unit[0] >> 1 & 0x3f == 35 } else { unit[0] & 0x1f == 9 }
    }

    fn is_sequence_set(&self, unit: &[u8]) -> bool {
        if self.is_hevc { hevc::kind(unit) == Some(33) } else { unit[0] & 0x1f == 7 }
    }
}

fn push_unit(unit: &[u8], target: &mut Vec<u8>) {
    target.extend(START_CODE);
    target.extend_from_slice(unit);
}

/// The header of an ADTS frame (ISO 13818-7 section 6.2) that says what an AudioSpecificConfig
/// says. Band replication is left to the decoder to find, as ADTS has no word for it.
fn adts_header(config: &[u8]) -> Result<[u8; adts::HEADER_BYTES], &'static str> {
    const DAMAGED: &str = "its configuration is damaged";
    const UNKNOWN: &str = "ADTS has no word for its kind of AAC";
    let (rate, samples) = adts::core_frame(config).ok_or(DAMAGED)?;
    let (object, layout) = object_and_layout(config).ok_or(DAMAGED)?;
    if !(1..=4).contains(&object) || samples != adts::FRAME_SAMPLES {
        return Err(UNKNOWN);
    }
    if !(1..=7).contains(&layout) {
        return Err("ADTS has no word for its channels");
    }
    let rate = RATES.iter().position(|known| *known == rate).ok_or("ADTS has no word for its sample rate")?;
    let (object, rate, layout) = (object as u8, rate as u8, layout as u8);
    // MPEG-4, no checksum, a buffer of variable rate, one block.
    Ok([0xff, 0xf1, (object - 1) << 6 | rate << 2 | layout >> 2, layout << 6, 0, 0x1f, 0xfc])
}

/// Audio object type of the core coder, and channel configuration (ISO 14496-3 section 1.6.2.1).
fn object_and_layout(config: &[u8]) -> Option<(u32, u32)> {
    const REPLICATED: [u32; 2] = [5, 29];
    let mut bits = Bits::new(config);
    let skip_rate = |bits: &mut Bits<'_>| match bits.take(4)? {
        15 => bits.skip(24),
        _ => Some(()),
    };
    let object = bits.take(5)?;
    if object == 31 {
        return Some((object, 0));
    }
    skip_rate(&mut bits)?;
    let layout = bits.take(4)?;
    if !REPLICATED.contains(&object) {
        return Some((object, layout));
    }
    skip_rate(&mut bits)?;
    Some((bits.take(5)?, layout))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::adts::Header;
    use crate::codec::config::audio_specific;

    fn framed(framing: &Framing, sample: &[u8], sync: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        assert!(framing.write(sample, sync, &mut bytes));
        bytes
    }

    #[test]
    fn aac_gets_the_header_of_its_configuration() {
        for (rate, channels) in [(48_000, 2), (44_100, 1), (96_000, 6), (8_000, 8)] {
            let config = audio_specific::plain(2, rate, channels).expect("a configuration");
            let framing = Framing::new(Codec::Aac, &config).expect("carried");
            for bytes in [1, 300, 8184] {
                let frame = framed(&framing, &vec![7; bytes], true);
                let header = Header::parse(&frame).expect("a header");
                assert_eq!((header.frame_bytes, header.blocks), (frame.len(), 1));
                assert_eq!((header.sample_rate(), header.channels()), (rate, Some(channels)));
                assert_eq!(header.audio_specific_config(), config);
            }
            assert!(!framing.write(&[7; 8185], true, &mut Vec::new()), "no room for its length");
        }
    }

    #[test]
    fn band_replication_is_carried_as_its_core() {
        let framing = Framing::new(Codec::Aac, &[0x2b, 0x11, 0x88, 0x00]).expect("HE-AAC is carried");
        let frame = framed(&framing, &[1, 2, 3], true);
        let header = Header::parse(&frame).expect("a header");
        assert_eq!((header.sample_rate(), header.object_type), (24_000, 2));
        for (config, why) in [
            (&[0x12, 0x14][..], "kind of AAC"),
            (&[0xf8, 0xe8, 0x50, 0x00], "kind of AAC"),
            (&[0x12, 0x00], "channels"),
            (&[0x17, 0x80, 0x00, 0x08, 0x10], "sample rate"),
            (&[0x12], "damaged"),
        ] {
            let refused = Framing::new(Codec::Aac, config).expect_err("not carried");
            assert!(refused.contains(why), "{config:x?}: {refused}");
        }
    }

    #[test]
    fn pictures_become_a_byte_stream() {
        let sets: [&[u8]; 2] = [&[0x67, 1, 2, 3], &[0x68, 4]];
        let framing = Framing::Pictures(Pictures::new(false, 2, &sets));
        let key = framed(&framing, &[0, 2, 0x09, 0x10, 0, 3, 0x65, 8, 9], true);
        let expected =
            b"\0\0\0\x01\x09\xf0\0\0\0\x01\x67\x01\x02\x03\0\0\0\x01\x68\x04\0\0\0\x01\x65\x08\x09";
        assert_eq!(key, expected, "its own delimiter is left out");
        let own = framed(&framing, &[0, 2, 0x67, 9, 0, 2, 0x65, 8], true);
        assert_eq!(own, b"\0\0\0\x01\x09\xf0\0\0\0\x01\x67\x09\0\0\0\x01\x65\x08");
        let other = framed(&framing, &[0, 0, 0, 2, 0x41, 7, 0, 9], false);
        assert_eq!(other, b"\0\0\0\x01\x09\xf0\0\0\0\x01\x41\x07", "an empty and a cut unit are left out");
    }
}
