//! The sample description (`stsd`) of every codec Reel stores.

use super::Boxes;
use crate::hdr::{self, Base, DolbyVision};
use crate::{Audio, Codec, Hdr, Track, Video};

/// Writes the `stsd` box with one sample entry for each description of a track.
pub(crate) fn sample_description(boxes: &mut Boxes, descriptions: &[Track]) {
    boxes.full(b"stsd", 0, 0, |b| {
        b.u32(descriptions.len() as u32);
        descriptions.iter().for_each(|track| sample_entry(b, track));
    });
}

fn sample_entry(b: &mut Boxes, track: &Track) {
    match track.codec {
        Codec::H264 => {
            let kind = if in_band_parameter_sets(track) { b"avc3" } else { b"avc1" };
            visual(b, kind, track, |b| b.plain(b"avcC", |b| b.raw(&track.config)));
        }
        Codec::Hevc if in_band_parameter_sets(track) => {
            visual(b, b"hev1", track, |b| b.plain(b"hvcC", |b| b.raw(&track.config)));
        }
        Codec::Hevc => {
            visual(b, b"hvc1", track, |b| b.plain(b"hvcC", |b| b.raw(&complete_arrays(&track.config))));
        }
        Codec::Av1 => visual(b, b"av01", track, |b| b.plain(b"av1C", |b| b.raw(&track.config))),
        Codec::Vp9 => visual(b, b"vp09", track, |b| b.plain(b"vpcC", |b| b.raw(&track.config))),
        Codec::Aac => audio(b, b"mp4a", track, |b| elementary_stream(b, 0x40, &track.config)),
        Codec::Mp3 => audio(b, b"mp4a", track, |b| elementary_stream(b, mp3_object_type(track), &[])),
        Codec::Ac3 => audio(b, b"ac-3", track, |b| b.plain(b"dac3", |b| b.raw(&track.config))),
        Codec::Eac3 => audio(b, b"ec-3", track, |b| b.plain(b"dec3", |b| b.raw(&track.config))),
        Codec::Flac => audio(b, b"fLaC", track, |b| b.plain(b"dfLa", |b| b.raw(&track.config))),
        Codec::Opus => audio(b, b"Opus", track, |b| b.plain(b"dOps", |b| b.raw(&track.config))),
        // Text is stored as a WebVTT file, never in boxes. An empty description keeps this
        // function total.
        Codec::WebVtt => {}
    }
}

/// Whether the decoder configuration of an H.264 or HEVC track has no parameter sets, so that they
/// must be in the samples (`avc3`, `hev1`: ISO/IEC 14496-15, 5.4.2 and 8.4.1).
pub(crate) fn in_band_parameter_sets(track: &Track) -> bool {
    match track.codec {
        Codec::H264 => track.config.get(5).is_none_or(|count| count & 0x1f == 0),
        Codec::Hevc => track.config.get(22).is_none_or(|arrays| *arrays == 0),
        _ => false,
    }
}

/// ObjectTypeIndication of an MP3 track: MPEG-1 (0x6B) or, for the low sample rates, MPEG-2 audio
/// (0x69).
pub(crate) fn mp3_object_type(track: &Track) -> u8 {
    match &track.audio {
        Some(audio) if audio.sample_rate < 32_000 => 0x69,
        _ => 0x6b,
    }
}

/// The `hvcC` body with `array_completeness` set for parameter sets, which `hvc1` requires (ISO/IEC
/// 14496-15, 8.3.3.1.3) and Apple's decoders insist on. Sets repeated in the samples do no harm.
fn complete_arrays(config: &[u8]) -> Vec<u8> {
    let mut config = config.to_vec();
    let arrays = config.get(22).copied().unwrap_or(0);
    let mut at = 23;
    for _ in 0..arrays {
        let Some(&[kind, high, low]) =
            config.get(at..at + 3).and_then(|head| <&[u8; 3]>::try_from(head).ok())
        else {
            break;
        };
        if (32..=34).contains(&(kind & 0x3f)) {
            config[at] |= 0x80;
        }
        at += 3;
        for _ in 0..u16::from_be_bytes([high, low]) {
            let Some(&[high, low]) = config.get(at..at + 2).and_then(|head| <&[u8; 2]>::try_from(head).ok())
            else {
                return config;
            };
            at += 2 + usize::from(u16::from_be_bytes([high, low]));
        }
    }
    config
}

fn visual(boxes: &mut Boxes, kind: &[u8; 4], track: &Track, config: impl FnOnce(&mut Boxes)) {
    let Some(video) = &track.video else { return };
    let dolby_vision = hdr::signalled(track);
    let kind = match dolby_vision {
        Some((_, Base::None)) => hdr::entry_name(track.codec, in_band_parameter_sets(track)).as_bytes(),
        _ => kind.as_slice(),
    };
    boxes.plain(kind.first_chunk().unwrap_or(b"free"), |b| {
        b.zeros(6);
        b.u16(1); // data_reference_index
        b.zeros(16);
        b.u16(video.width.min(0xffff) as u16);
        b.u16(video.height.min(0xffff) as u16);
        b.u32(0x0048_0000); // 72 dpi, as every writer states
        b.u32(0x0048_0000);
        b.u32(0);
        b.u16(1); // frame_count
        b.zeros(32); // compressorname
        b.u16(0x0018); // depth: colour without alpha
        b.u16(0xffff); // pre_defined = -1
        config(b);
        pixel_aspect(b, video);
        colour(b, video);
        dynamic_range(b, video.hdr, dolby_vision.map(|(found, _)| found));
    });
}

fn dynamic_range(boxes: &mut Boxes, hdr: Hdr, dolby_vision: Option<DolbyVision>) {
    if let Some(body) = hdr.mastering {
        boxes.plain(b"mdcv", |b| b.raw(&body));
    }
    if let Some((content, frame)) = hdr.light {
        boxes.plain(b"clli", |b| {
            b.u16(content);
            b.u16(frame);
        });
    }
    if let Some((found, record)) = dolby_vision.zip(hdr.dolby_vision) {
        boxes.plain(found.box_type(), |b| b.raw(&record));
    }
}

fn pixel_aspect(boxes: &mut Boxes, video: &Video) {
    boxes.plain(b"pasp", |b| {
        b.u32(video.pixel_aspect.0.max(1));
        b.u32(video.pixel_aspect.1.max(1));
    });
}

fn colour(boxes: &mut Boxes, video: &Video) {
    let Some(colour) = video.colour else { return };
    boxes.plain(b"colr", |b| {
        b.raw(b"nclx");
        b.u16(colour.primaries);
        b.u16(colour.transfer);
        b.u16(colour.matrix);
        b.u8(u8::from(colour.full_range) << 7);
    });
}

fn audio(boxes: &mut Boxes, kind: &[u8; 4], track: &Track, config: impl FnOnce(&mut Boxes)) {
    let Some(audio) = &track.audio else { return };
    boxes.plain(kind, |b| {
        b.zeros(6);
        b.u16(1); // data_reference_index
        b.zeros(8);
        b.u16(audio.channels);
        b.u16(if track.codec == Codec::Flac { audio.sample_bits } else { 16 });
        b.u32(0);
        b.u32(entry_sample_rate(track.codec, audio) << 16);
        config(b);
    });
}

/// The 16-bit sample rate of the entry. Opus always decodes at 48 kHz. Rates that do not fit are
/// halved until they do, as FLAC's mapping says; the decoder configuration has the true one.
fn entry_sample_rate(codec: Codec, audio: &Audio) -> u32 {
    let mut rate = if codec == Codec::Opus { 48_000 } else { audio.sample_rate };
    while rate > 0xffff {
        rate /= 2;
    }
    rate
}

/// `esds` (ISO/IEC 14496-14, 5.6) around a decoder-specific configuration.
fn elementary_stream(boxes: &mut Boxes, object_type: u8, config: &[u8]) {
    let mut decoder = vec![object_type, 0x15, 0, 0, 0]; // audio stream, bufferSizeDB unknown
    // Maximum and average bit rate are unknown when the init segment is written.
    decoder.extend_from_slice(&[0; 8]);
    if !config.is_empty() {
        descriptor(&mut decoder, 5, config);
    }
    let mut stream = vec![0, 0, 0]; // ES_ID, flags
    descriptor(&mut stream, 4, &decoder);
    descriptor(&mut stream, 6, &[2]); // SLConfig: predefined for MP4
    let mut all = Vec::new();
    descriptor(&mut all, 3, &stream);
    boxes.full(b"esds", 0, 0, |b| b.raw(&all));
}

fn descriptor(target: &mut Vec<u8>, tag: u8, body: &[u8]) {
    target.push(tag);
    let bytes = body.len();
    for shift in [21, 14, 7] {
        if bytes >> shift != 0 {
            target.push((bytes >> shift) as u8 & 0x7f | 0x80);
        }
    }
    target.push(bytes as u8 & 0x7f);
    target.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_have_variable_lengths() {
        let mut short = Vec::new();
        descriptor(&mut short, 5, &[1, 2]);
        assert_eq!(short, [5, 2, 1, 2]);
        let mut long = Vec::new();
        descriptor(&mut long, 5, &[0; 300]);
        assert_eq!(long[..3], [5, 0x82, 0x2c]);
    }

    #[test]
    fn arrays_of_parameter_sets_become_complete() {
        let mut config = vec![0; 23];
        config[22] = 2;
        config.extend_from_slice(&[0x20, 0, 1, 0, 2, 9, 9]); // a VPS
        config.extend_from_slice(&[0x27, 0, 0]); // prefix SEI stays as it is
        let complete = complete_arrays(&config);
        assert_eq!((complete[23], complete[30]), (0xa0, 0x27));
        // A cut-off configuration is copied without a panic.
        for end in 0..config.len() {
            assert_eq!(complete_arrays(&config[..end]).len(), end);
        }
    }
}
