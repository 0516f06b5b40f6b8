//! What the streams of a programme carry (ISO 13818-1 table 2-34, ETSI EN 300 468, ATSC A/52 and
//! A/53).

use super::tables::{ProgrammeMap, StreamEntry, descriptors};
use crate::{Codec, Hdr, hdr};

const REGISTRATION: u8 = 0x05;
const LANGUAGE: u8 = 0x0a;
const DVB_TELETEXT: u8 = 0x56;
const DVB_SUBTITLES: u8 = 0x59;
const DVB_AC3: u8 = 0x6a;
const DVB_EAC3: u8 = 0x7a;
const DOLBY_VISION: u8 = 0xb0;

/// A stream that Reel can store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    H264,
    Hevc,
    /// AAC in ADTS.
    Aac,
    /// AC-3 or E-AC-3: the frames show which.
    Ac3,
    /// MPEG audio; only layer III is stored.
    MpegAudio,
}

impl Carries {
    /// What a stream carries, or the name of what it carries if that is left out.
    pub(crate) fn classify(stream: &StreamEntry, map: &ProgrammeMap) -> Result<Self, &'static str> {
        let has = |tag: u8| descriptors(&stream.descriptors).any(|(found, _)| found == tag);
        let registered = |name: &[u8; 4]| is_registered(&stream.descriptors, name);
        let disc = is_registered(&map.descriptors, b"HDMV");
        let dolby_vision = Hdr { dolby_vision: dolby_vision(stream), ..Hdr::default() };
        if let Some(why) = hdr::no_base_layer(Codec::Hevc, &dolby_vision) {
            return Err(why);
        }
        match stream.kind {
            0x1b => Ok(Self::H264),
            0x24 => Ok(Self::Hevc),
            0x0f => Ok(Self::Aac),
            0x03 | 0x04 => Ok(Self::MpegAudio),
            0x81 | 0x87 => Ok(Self::Ac3),
            0x84 if disc => Ok(Self::Ac3),
            0x06 if has(DVB_AC3) || has(DVB_EAC3) || registered(b"AC-3") || registered(b"EAC3") => {
                Ok(Self::Ac3)
            }
            0x06 if registered(b"HEVC") || (registered(b"DOVI") && dolby_vision.dolby_vision.is_some()) => {
                Ok(Self::Hevc)
            }
            0x06 if has(DVB_TELETEXT) => Err("teletext"),
            0x06 if has(DVB_SUBTITLES) => Err("DVB subtitles, which are pictures"),
            0x06 if registered(b"Opus") => Err("Opus, which Reel takes from WebM or MP4 only"),
            0x01 | 0x02 => Err("MPEG-2 video, which Reel does not store"),
            0x10 => Err("MPEG-4 part 2 video, which Reel does not store"),
            0x11 | 0x1c => Err("AAC in LATM, which Reel does not store: remux it with ffmpeg -c copy to MP4"),
            0x82 | 0x85 | 0x86 | 0x8a if disc || stream.kind == 0x82 || stream.kind == 0x8a => {
                Err("DTS, which Reel does not store")
            }
            0x83 if disc => Err("TrueHD, which Reel does not store"),
            0x80 if disc => Err("uncompressed sound, which Reel does not store"),
            0x90..=0x92 if disc => Err("subtitles of a disc, which are pictures"),
            0xcf | 0xdb => Err("media encrypted sample by sample"),
            0x33 => Err("VVC, which Reel does not store"),
            _ => Err("data"),
        }
    }

    /// Its medium, for warnings.
    pub(crate) fn medium(self) -> &'static str {
        if self.is_video() { "pictures" } else { "sound" }
    }

    /// Whether it is video.
    pub(crate) fn is_video(self) -> bool {
        matches!(self, Self::H264 | Self::Hevc)
    }
}

/// Whether a stream's type is one of video, stored or not.
pub(crate) fn is_picture_type(kind: u8) -> bool {
    matches!(kind, 0x01 | 0x02 | 0x10 | 0x1b | 0x24 | 0x33 | 0xdb | 0xea)
}

/// The record that a DOVI_video_stream_descriptor states (Dolby Vision Streams Within the MPEG-2
/// Transport Stream Format, 2.2).
pub(crate) fn dolby_vision(stream: &StreamEntry) -> Option<[u8; 24]> {
    let (_, body) = descriptors(&stream.descriptors).find(|(tag, _)| *tag == DOLBY_VISION)?;
    let (head, rest) = body.split_first_chunk::<4>()?;
    // Without a base layer, the PID of the stream with it comes before the last byte.
    let rest = if head[3] & 1 == 0 { rest.get(2..)? } else { rest };
    hdr::record(&[head.as_slice(), &[rest.first().copied().unwrap_or(0)]].concat())
}

/// ISO 639-2 language of a stream.
pub(crate) fn language(stream: &StreamEntry) -> Option<String> {
    let (_, body) = descriptors(&stream.descriptors).find(|(tag, _)| *tag == LANGUAGE)?;
    let code = body.get(..3)?.to_ascii_lowercase();
    let code = String::from_utf8(code).ok()?;
    (code.bytes().all(|byte| byte.is_ascii_lowercase()) && code != "und").then_some(code)
}

fn is_registered(bytes: &[u8], name: &[u8; 4]) -> bool {
    descriptors(bytes).any(|(tag, body)| tag == REGISTRATION && body.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_descriptors() {
        let entry =
            |kind, descriptors: &[u8]| StreamEntry { kind, pid: 256, descriptors: descriptors.to_vec() };
        let map = |descriptors: &[u8]| ProgrammeMap {
            number: 1,
            clock_pid: 0x1fff,
            descriptors: descriptors.to_vec(),
            streams: Vec::new(),
        };
        let (plain, disc) = (map(&[]), map(b"\x05\x04HDMV"));
        let classify = |kind, descriptors: &[u8], map| Carries::classify(&entry(kind, descriptors), map);
        assert_eq!(classify(0x1b, &[], &plain), Ok(Carries::H264));
        assert_eq!(classify(0x06, &[0x7a, 1, 0], &plain), Ok(Carries::Ac3));
        assert_eq!(classify(0x06, b"\x05\x04EAC3", &plain), Ok(Carries::Ac3));
        assert_eq!(classify(0x06, b"\x05\x04HEVC", &plain), Ok(Carries::Hevc));
        assert_eq!(classify(0x06, &[0x56, 0], &plain), Err("teletext"));
        assert!(classify(0x06, &[0x59, 0], &plain).unwrap_err().contains("DVB subtitles"));
        assert_eq!(classify(0x06, &[], &plain), Err("data"));
        assert_eq!(classify(0x84, &[], &disc), Ok(Carries::Ac3));
        assert!(classify(0x86, &[], &disc).unwrap_err().contains("DTS"));
        assert_eq!(classify(0x86, &[], &plain), Err("data"), "splice information");
        assert_eq!(language(&entry(0x0f, b"\x0a\x04DEU\0")).as_deref(), Some("deu"));
        // Profile 5; a base layer and its enhancement in another stream (profile 7); cut off.
        let dolby = |body: &[u8]| dolby_vision(&entry(0x24, &[&[0xb0, body.len() as u8], body].concat()));
        assert_eq!(
            dolby(&[1, 0, 10, 53, 0x0f]).map(|record| record[..5].to_vec()),
            Some(vec![1, 0, 10, 53, 0x0f])
        );
        assert_eq!(classify(0x06, b"\x05\x04DOVI\xb0\x05\x01\0\x0a\x35\0", &plain), Ok(Carries::Hevc));
        let base = b"\xb0\x05\x01\0\x0e\x35\x60";
        assert_eq!(classify(0x24, base, &plain), Ok(Carries::Hevc));
        let enhancement = b"\xb0\x07\x01\0\x0e\x36\x80\x88\x60";
        assert!(classify(0x24, enhancement, &plain).unwrap_err().contains("enhancement layer"));
        for end in 0..5 {
            assert_eq!(dolby(&[1, 0, 10, 53][..end.min(4)]).is_some(), end == 4);
        }
        assert_eq!(language(&entry(0x0f, b"\x0a\x04und\0")), None);
    }
}
