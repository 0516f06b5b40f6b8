//! What only the frames of a track tell: the layer of MPEG audio, whose layers share their name,
//! the configuration of AC-3 and E-AC-3 in QuickTime files, which state none, and that of AV1 and
//! VP9 in files whose header was written before the first picture.

use super::plan::Walk;
use crate::codec::{ac3, av1, mp3, vp9};
use crate::{Codec, MediaError, Source, Track, limits};

/// Frames a second of which the level of VP9 is stated where the rate is not known yet: no film has
/// more.
const UNKNOWN_RATE: f64 = 60.0;

/// Describes a track by the first of its frames with a readable header. `Some` says why the track
/// is left out.
pub(super) fn describe(
    track: &mut Track,
    mut walk: Walk,
    source: &mut dyn Source,
) -> Result<Option<String>, MediaError> {
    let (needed, name) = match track.codec {
        Codec::Mp3 => (mp3::HEADER_BYTES, "MPEG audio"),
        Codec::Ac3 | Codec::Eac3 if track.config.is_empty() => (limits::AC3_SAMPLE_BYTES, "AC-3"),
        Codec::Av1 if track.config.is_empty() => (limits::MP4_FIRST_PICTURE_BYTES, "AV1"),
        Codec::Vp9 if track.config.is_empty() => (limits::MP4_FIRST_PICTURE_BYTES, "VP9"),
        _ => return Ok(None),
    };
    let mut frame = Vec::new();
    for _ in 0..limits::MP4_PROBE_SAMPLES {
        let Some(sample) = walk.next(source)? else { break };
        frame.resize(needed.min(sample.bytes as usize), 0);
        source.read_at(sample.offset, &mut frame)?;
        let described = match track.codec {
            Codec::Mp3 => by_mp3(track, &frame),
            Codec::Av1 => by_av1(track, &frame),
            Codec::Vp9 => by_vp9(track, &frame),
            _ => by_ac3(track, &frame),
        };
        if let Some(outcome) = described {
            return Ok(outcome.err());
        }
    }
    Ok(Some(format!("none of its first samples is a frame of {name}")))
}

/// `None` if it is no frame.
fn by_mp3(track: &mut Track, frame: &[u8]) -> Option<Result<(), String>> {
    let header = mp3::Header::parse(frame)?;
    if header.layer != 3 {
        let layer = header.layer;
        return Some(Err(format!(
            "it is MPEG audio of layer {layer}, of which Reel takes only layer 3 (MP3)"
        )));
    }
    if let Some(audio) = &mut track.audio {
        (audio.sample_rate, audio.channels) = (header.sample_rate, header.channels);
    }
    Some(Ok(()))
}

/// `None` if it is no frame.
fn by_ac3(track: &mut Track, frame: &[u8]) -> Option<Result<(), String>> {
    let header = ac3::Frame::parse(frame)?;
    let channels = ac3::channels(frame)?;
    (track.codec, track.config) = match header.enhanced {
        true => (Codec::Eac3, ac3::dec3(frame)?),
        false => (Codec::Ac3, ac3::dac3(&header)),
    };
    if let Some(audio) = &mut track.audio {
        (audio.sample_rate, audio.channels) = (header.sample_rate, channels);
    }
    Some(Ok(()))
}

/// `None` if it begins no sequence.
fn by_av1(track: &mut Track, frame: &[u8]) -> Option<Result<(), String>> {
    track.config = av1::av1_config(frame)?;
    let colour = av1::sequence_header(frame)?.colour;
    if let Some(video) = &mut track.video {
        video.colour = video.colour.or(colour);
    }
    Some(Ok(()))
}

/// `None` if it is no key frame.
fn by_vp9(track: &mut Track, frame: &[u8]) -> Option<Result<(), String>> {
    let key = vp9::KeyFrame::parse(frame)?;
    let video = track.video.as_mut()?;
    video.colour = video.colour.or(key.colour);
    track.config = key.vpcc(UNKNOWN_RATE, None, video.colour);
    Some(Ok(()))
}
