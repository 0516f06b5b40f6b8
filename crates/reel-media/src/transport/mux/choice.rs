//! Which tracks of a title a transport stream carries, and how (ISO 13818-1 table 2-34).

use super::error::MuxError;
use super::framing::Framing;
use super::opus;
use crate::input::ts::tables::StreamEntry;
use crate::language::iso_639_2;
use crate::progressive::default_selection;
use crate::{Codec, TitleIndex, Track, TrackIndex, TrackKind, limits};

/// PID of the pictures. Those of sound follow.
const FIRST_PID: u16 = 0x100;
/// stream_id of pictures, and of the first sound of MPEG (ISO 13818-1 table 2-22).
const PICTURES_ID: u8 = 0xe0;
const SOUND_ID: u8 = 0xc0;
/// stream_id of everything else (private_stream_1).
const PRIVATE_ID: u8 = 0xbd;

const REGISTRATION: u8 = 0x05;
const LANGUAGE: u8 = 0x0a;
/// A descriptor of DVB with a tag of its own (ETSI EN 300 468 section 6.2.18.1).
const EXTENSION: u8 = 0x7f;
/// The tag in it that ffmpeg uses for the channels of Opus.
const OPUS_CHANNELS: u8 = 0x80;

/// A track that is carried.
#[derive(Debug)]
pub(super) struct Chosen {
    /// Its number in the title.
    pub(super) track: usize,
    /// stream_id of its PES packets.
    pub(super) stream_id: u8,
    /// Its entry in the map.
    pub(super) entry: StreamEntry,
}

/// The tracks of a title that are carried, pictures first, and warnings about those that are not.
pub(super) fn choose(index: &TitleIndex) -> Result<(Vec<Chosen>, Vec<String>), MuxError> {
    let mut warnings = Vec::new();
    let mut chosen: Vec<Chosen> = Vec::new();
    let mut refused = None;
    for number in default_selection(index) {
        let track = &index.tracks[number];
        let is_sound = track.track.kind == TrackKind::Audio;
        if is_sound && chosen.len() > limits::MUX_SOUND_TRACKS {
            warnings.push(format!("sound is left out: more than {} tracks", limits::MUX_SOUND_TRACKS));
            break;
        }
        match carried(track) {
            Ok(()) => {
                let pid = FIRST_PID + u16::from(is_sound) + sounds(&chosen);
                chosen.push(Chosen {
                    track: number,
                    stream_id: stream_id(&track.track, sounds(&chosen) as u8),
                    entry: entry(&track.track, pid),
                });
            }
            Err(what) if is_sound => {
                warnings.push(format!("sound is left out: a transport stream cannot carry {what}"));
                refused = Some(what);
            }
            Err(what) => return Err(MuxError::NotCarried { what }),
        }
        if track.track.needs_dolby_vision() {
            warnings.push("receivers without Dolby Vision show wrong colours".to_owned());
        }
    }
    if index.of_kind(TrackKind::Subtitle).next().is_some() {
        warnings.push("subtitles are left out".to_owned());
    }
    if chosen.is_empty() {
        let what = refused.unwrap_or_else(|| "a title without pictures and sound".to_owned());
        return Err(MuxError::NotCarried { what });
    }
    Ok((chosen, warnings))
}

/// Whether a stream of these tracks of a file can be made, as far as their first decoder
/// configurations show it.
///
/// # Errors
/// [`MuxError::NotCarried`] if the pictures cannot be carried, or there are none and no sound can.
pub fn check_carried(tracks: &[Track]) -> Result<(), MuxError> {
    let of = |kind| tracks.iter().filter(move |track: &&Track| track.kind == kind);
    let can = |track: &Track| can_carry(track.codec, &track.config);
    let refused = |what| Err(MuxError::NotCarried { what });
    let mut of_sound = of(TrackKind::Audio).map(can);
    match of(TrackKind::Video).map(can).collect::<Result<Vec<()>, String>>() {
        Err(what) => refused(what),
        Ok(pictures) if !pictures.is_empty() => Ok(()),
        Ok(_) => match of_sound.next() {
            Some(Err(what)) if of_sound.all(|other| other.is_err()) => refused(what),
            _ => Ok(()),
        },
    }
}

/// How many of the tracks are sound.
fn sounds(chosen: &[Chosen]) -> u16 {
    chosen.iter().filter(|track| track.stream_id != PICTURES_ID).count() as u16
}

/// Whether every decoder configuration of a track can be carried; its codec and the reason if not.
fn carried(track: &TrackIndex) -> Result<(), String> {
    let changes = track.changes.iter().map(|change| &change.config);
    [&track.track.config]
        .into_iter()
        .chain(changes)
        .try_for_each(|config| can_carry(track.track.codec, config))
}

fn can_carry(codec: Codec, config: &[u8]) -> Result<(), String> {
    let unknown = codec == Codec::Opus && opus::channel_code(config).is_none();
    let framing = if unknown { Err("its channels have no code") } else { Framing::new(codec, config) };
    framing.map(|_| ()).map_err(|why| format!("{} ({why})", name(codec)))
}

fn name(codec: Codec) -> &'static str {
    match codec {
        Codec::Aac => "AAC",
        Codec::Ac3 => "AC-3",
        Codec::Av1 => "AV1",
        Codec::Eac3 => "E-AC-3",
        Codec::Flac => "FLAC",
        Codec::H264 => "H.264",
        Codec::Hevc => "HEVC",
        Codec::Mp3 => "MP3",
        Codec::Opus => "Opus",
        Codec::Vp9 => "VP9",
        Codec::WebVtt => "WebVTT",
    }
}

/// The stream_id of a track, which is sound number `sound` if it is sound.
fn stream_id(track: &Track, sound: u8) -> u8 {
    match track.codec {
        Codec::H264 | Codec::Hevc => PICTURES_ID,
        Codec::Aac | Codec::Mp3 => SOUND_ID + sound % 32,
        _ => PRIVATE_ID,
    }
}

/// The entry of a track in the map. AC-3 has the types and the registration of ATSC A/52 annex A,
/// which receivers of DVB also know.
fn entry(track: &Track, pid: u16) -> StreamEntry {
    let registration = |name: &[u8; 4]| [&[REGISTRATION, 4], &name[..]].concat();
    let low_rate = track.audio.as_ref().is_some_and(|audio| audio.sample_rate < 32_000);
    let (kind, mut descriptors) = match track.codec {
        Codec::H264 => (0x1b, Vec::new()),
        Codec::Hevc => (0x24, Vec::new()),
        Codec::Aac => (0x0f, Vec::new()),
        Codec::Mp3 => (if low_rate { 0x04 } else { 0x03 }, Vec::new()),
        Codec::Ac3 => (0x81, registration(b"AC-3")),
        Codec::Eac3 => (0x87, registration(b"EAC3")),
        Codec::Opus => {
            let code = opus::channel_code(&track.config).unwrap_or_default();
            (0x06, [&registration(b"Opus")[..], &[EXTENSION, 2, OPUS_CHANNELS, code]].concat())
        }
        // Refused before.
        Codec::Av1 | Codec::Flac | Codec::Vp9 | Codec::WebVtt => (0x06, Vec::new()),
    };
    if let Some(language) = track.language.as_deref().filter(|_| track.kind == TrackKind::Audio) {
        // audio_type 0: not said.
        descriptors.extend([LANGUAGE, 4]);
        descriptors.extend(iso_639_2(language));
        descriptors.push(0);
    }
    StreamEntry { kind, pid, descriptors }
}
