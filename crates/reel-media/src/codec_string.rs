//! The `codecs` parameter of RFC 6381 for every codec Reel stores, as HLS and DASH write it.

use crate::cmaf::{in_band_parameter_sets, mp3_object_type};
use crate::hdr::{self, Base, DolbyVision};
use crate::{Codec, Track, TrackIndex};

/// What a player needs to decide whether it can decode the track, for example `avc1.640028`.
pub fn codec_string(track: &Track) -> String {
    if let Some((found, Base::None)) = hdr::signalled(track) {
        return dolby_vision(track, found);
    }
    let config = track.config.as_slice();
    match track.codec {
        Codec::H264 => h264(config, in_band_parameter_sets(track)),
        Codec::Hevc => hevc(config, in_band_parameter_sets(track)),
        Codec::Av1 => av1(track),
        Codec::Vp9 => vp9(config),
        Codec::Aac => format!("mp4a.40.{}", aac_object_type(config)),
        Codec::Mp3 => format!("mp4a.{:02X}", mp3_object_type(track)),
        Codec::Ac3 => "ac-3".into(),
        Codec::Eac3 => "ec-3".into(),
        Codec::Flac => "fLaC".into(),
        Codec::Opus => "opus".into(),
        Codec::WebVtt => "wvtt".into(),
    }
}

/// What a player needs to decide whether it can decode the track from its beginning to its end:
/// each different [`codec_string`] of its descriptions.
pub(crate) fn codec_strings(track: &TrackIndex) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for number in 1..track.changes.len() + 2 {
        let codec = codec_string(&track.described(number));
        if !all.contains(&codec) {
            all.push(codec);
        }
    }
    all
}

/// What a player with Dolby Vision can decode beyond [`codec_string`], and the brand of the colours
/// without it, for example `dvh1.08.06` and `db1p`.
pub(crate) fn supplemental_codec(track: &Track) -> Option<(String, &'static str)> {
    match hdr::signalled(track) {
        Some((found, Base::Branded(brand))) => Some((dolby_vision(track, found), brand)),
        _ => None,
    }
}

/// Dolby Vision Streams Within the HTTP Live Streaming Format, 4.2.
fn dolby_vision(track: &Track, found: DolbyVision) -> String {
    let name = hdr::entry_name(track.codec, in_band_parameter_sets(track));
    format!("{name}.{:02}.{:02}", found.profile, found.level)
}

/// ISO/IEC 14496-15, annex E.2: profile, constraints and level as in `avcC`.
fn h264(config: &[u8], in_band: bool) -> String {
    let kind = if in_band { "avc3" } else { "avc1" };
    format!("{kind}.{:02X}{:02X}{:02X}", byte(config, 1), byte(config, 2), byte(config, 3))
}

/// ISO/IEC 14496-15, annex E.3: profile space and number, compatibility flags in reverse bit order,
/// tier and level, constraint bytes without trailing zeros.
fn hevc(config: &[u8], in_band: bool) -> String {
    let kind = if in_band { "hev1" } else { "hvc1" };
    let first = byte(config, 1);
    let space = ["", "A", "B", "C"][usize::from(first >> 6)];
    let compatible = u32::from_be_bytes([byte(config, 2), byte(config, 3), byte(config, 4), byte(config, 5)]);
    let tier = if first & 0x20 == 0 { 'L' } else { 'H' };
    let mut text =
        format!("{kind}.{space}{}.{:X}.{tier}{}", first & 0x1f, compatible.reverse_bits(), byte(config, 12));
    let constraints = config.get(6..12).unwrap_or_default();
    let used = constraints.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
    for constraint in &constraints[..used] {
        text += &format!(".{constraint:X}");
    }
    text
}

/// AV1 in ISOBMFF, section 5. The optional part is written if it differs from its default
/// (8-bit-style 4:2:0, BT.709, studio range).
fn av1(track: &Track) -> String {
    let (second, third) = (byte(&track.config, 1), byte(&track.config, 2));
    let (profile, level) = (second >> 5, second & 0x1f);
    let tier = if third & 0x80 == 0 { 'M' } else { 'H' };
    let depth = match (third & 0x40 != 0, third & 0x20 != 0) {
        (true, true) => 12,
        (true, false) => 10,
        (false, _) => 8,
    };
    let monochrome = third >> 4 & 1;
    let (x, y, position) = (third >> 3 & 1, third >> 2 & 1, third & 3);
    // The chroma sample position is stated only for 4:2:0.
    let position = if x == 1 && y == 1 { position } else { 0 };
    let colour = track.video.as_ref().and_then(|video| video.colour);
    let (primaries, transfer, matrix, full) = colour.map_or((1, 1, 1, false), |colour| {
        (colour.primaries, colour.transfer, colour.matrix, colour.full_range)
    });
    let mut text = format!("av01.{profile}.{level:02}{tier}.{depth:02}");
    let plain = monochrome == 0 && x == 1 && y == 1 && position == 0;
    if !plain || (primaries, transfer, matrix, full) != (1, 1, 1, false) {
        let full = u8::from(full);
        text += &format!(".{monochrome}.{x}{y}{position}.{primaries:02}.{transfer:02}.{matrix:02}.{full}");
    }
    text
}

/// VP Codec ISO Media File Format Binding, "Codecs Parameter String".
fn vp9(config: &[u8]) -> String {
    let (profile, level, third) = (byte(config, 4), byte(config, 5), byte(config, 6));
    let (depth, chroma, full) = (third >> 4, third >> 1 & 7, third & 1);
    let (primaries, transfer, matrix) = (byte(config, 7), byte(config, 8), byte(config, 9));
    let mut text = format!("vp09.{profile:02}.{level:02}.{depth:02}");
    // 1 is 4:2:0 with co-located chroma. 2 means "unspecified" in the colour fields, which adds no
    // information either.
    let said = [primaries, transfer, matrix].iter().any(|code| !matches!(code, 0..=2));
    if chroma > 1 || full == 1 || said {
        text += &format!(".{chroma:02}.{primaries:02}.{transfer:02}.{matrix:02}.{full:02}");
    }
    text
}

/// audioObjectType of an AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1).
fn aac_object_type(config: &[u8]) -> u8 {
    match byte(config, 0) >> 3 {
        // An empty configuration cannot be played; LC is the most likely type.
        0 => 2,
        31 => 32 + ((byte(config, 0) & 7) << 3 | byte(config, 1) >> 5),
        object_type => object_type,
    }
}

fn byte(config: &[u8], at: usize) -> u8 {
    config.get(at).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Audio, Colour, TrackKind, Video};

    fn track(codec: Codec, config: &[u8]) -> Track {
        Track {
            kind: TrackKind::Video,
            codec,
            config: config.to_vec(),
            timescale: 1,
            language: None,
            name: None,
            default: false,
            forced: false,
            video: Some(Video {
                width: 1,
                height: 1,
                pixel_aspect: (1, 1),
                rotation: 0,
                colour: None,
                hdr: crate::Hdr::default(),
            }),
            audio: Some(Audio { channels: 2, sample_rate: 44_100, sample_bits: 16, priming: 0 }),
        }
    }

    fn text(codec: Codec, config: &[u8]) -> String {
        codec_string(&track(codec, config))
    }

    #[test]
    fn h264() {
        assert_eq!(text(Codec::H264, &[1, 0x64, 0, 0x28, 0xff, 0xe1]), "avc1.640028");
        assert_eq!(text(Codec::H264, &[1, 0x42, 0xc0, 0x1e, 0xff, 0xe0]), "avc3.42C01E");
    }

    #[test]
    fn hevc() {
        let mut config = vec![1, 0x01, 0x60, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 93];
        config.resize(22, 0);
        config.push(3);
        assert_eq!(text(Codec::Hevc, &config), "hvc1.1.6.L93.90");
        config[1] = 0x62;
        config[2] = 0x20;
        config[6] = 0xb0;
        config[8] = 1;
        config[22] = 0;
        assert_eq!(text(Codec::Hevc, &config), "hev1.A2.4.H93.B0.0.1");
    }

    #[test]
    fn av1() {
        assert_eq!(text(Codec::Av1, &[0x81, 0x04, 0x0c, 0]), "av01.0.04M.08");
        let mut hdr = track(Codec::Av1, &[0x81, 0x0d, 0x4e, 0]);
        let colour = Colour { primaries: 9, transfer: 16, matrix: 9, full_range: false };
        hdr.video.as_mut().expect("a video").colour = Some(colour);
        assert_eq!(codec_string(&hdr), "av01.0.13M.10.0.112.09.16.09.0");
    }

    #[test]
    fn vp9() {
        assert_eq!(text(Codec::Vp9, &[1, 0, 0, 0, 0, 31, 0x82, 1, 1, 1, 0, 0]), "vp09.00.31.08");
        assert_eq!(
            text(Codec::Vp9, &[1, 0, 0, 0, 2, 10, 0xa3, 9, 16, 9, 0, 0]),
            "vp09.02.10.10.01.09.16.09.01"
        );
    }

    #[test]
    fn audio() {
        assert_eq!(text(Codec::Aac, &[0x11, 0x90]), "mp4a.40.2");
        assert_eq!(text(Codec::Aac, &[0x2b, 0x92, 0x08, 0x00]), "mp4a.40.5");
        assert_eq!(text(Codec::Aac, &[0xf9, 0x40]), "mp4a.40.42"); // xHE-AAC, the escaped form
        assert_eq!(text(Codec::Mp3, &[]), "mp4a.6B");
        assert_eq!(text(Codec::Opus, &[]), "opus");
        // No configuration, however short, makes this fail.
        for codec in [Codec::H264, Codec::Hevc, Codec::Av1, Codec::Vp9, Codec::Aac] {
            assert!(!text(codec, &[]).is_empty());
        }
    }
}
