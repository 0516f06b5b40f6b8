//! Sample entries: how the samples of a track are coded (ISO/IEC 14496-12, 8.5.2; QuickTime File
//! Format, sound v0 to v2).

use super::atom::{Atom, Children, FourCc, malformed};
use super::esds::{self, Stream};
use crate::codec::config::{self, ConfigError, Sound, audio_specific};
use crate::codec::vui::reduced;
use crate::codec::{h264, hevc};
use crate::{Audio, Codec, Colour, Hdr, MediaError, Video, limits};

/// The codecs that Reel stores, for messages about others.
pub(super) const TAKEN_VIDEO: &str = "H.264, HEVC, AV1 or VP9";
/// See [`TAKEN_VIDEO`].
pub(super) const TAKEN_AUDIO: &str = "AAC, Opus, AC-3, E-AC-3, MP3 or FLAC";
/// See [`TAKEN_VIDEO`].
pub(super) const TAKEN_TEXT: &str = "timed text (tx3g) or WebVTT";

/// A parsed sample entry.
pub(super) enum Entry {
    /// Reel stores such samples.
    Taken(Box<Description>),
    /// Reel does not store them; the end of a sentence that says why.
    Left(String),
}

/// How samples are coded.
#[derive(Clone, Debug, Default)]
pub(super) struct Description {
    pub(super) codec: Option<Codec>,
    pub(super) config: Vec<u8>,
    pub(super) video: Option<Video>,
    pub(super) audio: Option<Audio>,
    /// Every cue is shown even when subtitles are off.
    pub(super) forced: bool,
    /// How the text of a cue is stored in its sample.
    pub(super) text: Option<Text>,
    /// No pixel aspect was stated, so it follows from the size in the track header.
    pub(super) aspect_open: bool,
    /// What the person who ingests should know.
    pub(super) warnings: Vec<String>,
}

/// Encodings of subtitles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// 3GPP timed text.
    Tx3g,
    /// WebVTT in ISO/IEC 14496-30.
    Wvtt,
}

/// Bytes of the fields with which every sample entry begins: reserved, and the data reference that
/// holds the samples.
const HEAD_BYTES: usize = 8;
/// Bytes of VisualSampleEntry before its boxes.
const VISUAL_BYTES: usize = 78;

/// Reads a video sample entry.
pub(super) fn video(entry: &Atom<'_>) -> Result<Entry, MediaError> {
    refuse_protected(entry)?;
    let mut fields = entry.fields();
    let (name, codec) = match &entry.kind.0 {
        b"avc1" | b"avc3" | b"dva1" | b"dvav" => (b"avcC", Codec::H264),
        b"hvc1" | b"hev1" | b"dvh1" | b"dvhe" => (b"hvcC", Codec::Hevc),
        b"av01" | b"dav1" => (b"av1C", Codec::Av1),
        b"vp09" => (b"vpcC", Codec::Vp9),
        _ => return Ok(Entry::Left(not_taken("video", entry.kind, TAKEN_VIDEO))),
    };
    fields.skip(24)?;
    let [width, height] = [fields.u16()?, fields.u16()?].map(u32::from);
    for (side, what) in [(width, "the width of the picture"), (height, "the height of the picture")] {
        if side == 0 {
            return Err(malformed(entry.offset, format!("{what} is 0")));
        }
        let limit = limits::MP4_PICTURE_SIDE;
        if side > limit {
            return Err(MediaError::Limit { what, value: side.into(), limit: limit.into() });
        }
    }
    let boxes = || entry.children_after(VISUAL_BYTES);
    let config = match boxes()?.find(name)? {
        // The first picture tells. ffmpeg writes such entries before it has one.
        None if matches!(codec, Codec::Av1 | Codec::Vp9) => None,
        Some(found) if found.body.is_empty() && matches!(codec, Codec::Av1 | Codec::Vp9) => None,
        _ => Some(config_box(entry, boxes()?, name)?),
    };
    let (hdr, damaged) = super::hdr::read(boxes()?)?;
    if let Some(why) = without_base(entry, codec, &hdr) {
        return Ok(Entry::Left(why.to_owned()));
    }
    let mut colour = colour(boxes()?)?;
    if let Some(config) = &config {
        let bad = |error: ConfigError| malformed(config.offset, error.to_string());
        match codec {
            Codec::H264 => drop(config::video::avcc(config.body).map_err(bad)?),
            Codec::Hevc => config::video::hvcc(config.body).map_err(bad)?,
            Codec::Av1 => config::video::av1c(config.body).map_err(bad)?,
            _ => colour = colour.or(config::video::vpcc(config.body).map_err(bad)?),
        }
    }
    let mut config = config.map_or_else(Vec::new, |config| config.body.to_vec());
    // The parameter sets may state what the boxes leave open.
    let (coded_aspect, coded_colour) = coded(codec, &config);
    let colour = colour.or(coded_colour);
    let aspect = match boxes()?.find(b"pasp")? {
        Some(pasp) => {
            let mut fields = pasp.fields();
            Some((fields.u32()?, fields.u32()?)).filter(|(across, down)| *across > 0 && *down > 0)
        }
        None => None,
    }
    .or(coded_aspect);
    let pixel_aspect = aspect.map_or((1, 1), reduced);
    if codec == Codec::Hevc {
        // Version 0 dates from the draft and is otherwise the same. The code below knows only
        // version 1.
        config[0] = 1;
    }
    let video = Video { width, height, pixel_aspect, rotation: 0, colour, hdr };
    let damaged = damaged.map(|name| format!("the values of its `{name}` box are impossible and ignored"));
    let warnings = damaged.into_iter().chain(crate::hdr::warning(codec, &video)).collect();
    Ok(Entry::Taken(Box::new(Description {
        codec: Some(codec),
        config,
        video: Some(video),
        aspect_open: aspect.is_none(),
        warnings,
        ..Description::default()
    })))
}

/// Why a track of Dolby Vision cannot be played without another one; `None` if it can.
fn without_base(entry: &Atom<'_>, codec: Codec, hdr: &Hdr) -> Option<&'static str> {
    let of_dolby = matches!(&entry.kind.0, b"dva1" | b"dvav" | b"dvh1" | b"dvhe" | b"dav1");
    if of_dolby && hdr.dolby_vision.is_none() {
        return Some("it is Dolby Vision without its configuration (`dvcC`)");
    }
    crate::hdr::no_base_layer(codec, hdr)
}

/// Reads a sound sample entry. `table_version` is that of the `stsd` box that contains it.
pub(super) fn sound(entry: &Atom<'_>, table_version: u8) -> Result<Entry, MediaError> {
    refuse_protected(entry)?;
    let mut fields = entry.fields();
    fields.skip(HEAD_BYTES)?;
    let version = fields.u16()?;
    fields.skip(6)?;
    let mut channels = fields.u16()?;
    fields.skip(6)?;
    let mut sample_rate = fields.u32()? >> 16;
    // Version 1 of ISO entries, which requires version 1 of the table, has no further fields;
    // QuickTime's has.
    if version == 1 && table_version == 0 {
        fields.skip(16)?;
    } else if version == 2 {
        fields.skip(4)?;
        sample_rate = f64::from_bits(fields.u64()?) as u32;
        channels = u16::try_from(fields.u32()?).unwrap_or(0);
        fields.skip(20)?;
    }
    let boxes = || fields.children();
    let stated = Sound { channels, sample_rate, sample_bits: 16 };
    let whole = |name: &[u8; 4], read: fn(&[u8]) -> Result<Sound, ConfigError>, codec| {
        let config = config_box(entry, boxes(), name)?;
        let sound = read(config.body).map_err(|error| malformed(config.offset, error.to_string()))?;
        Ok(taken(codec, config.body, sound))
    };
    let has = |name| Ok::<_, MediaError>(boxes().find(name)?.is_some());
    match &entry.kind.0 {
        b"mp4a" => mpeg4(entry, boxes, stated),
        b".mp3" | b"ms\0\x55" => Ok(taken(Codec::Mp3, &[], stated)),
        b"Opus" => whole(b"dOps", config::opus::parse, Codec::Opus),
        b"fLaC" => whole(b"dfLa", config::flac::parse, Codec::Flac),
        // QuickTime needs no configuration of AC-3, and ffmpeg writes none into such files.
        b"ac-3" if !has(b"dac3")? => Ok(taken(Codec::Ac3, &[], stated)),
        b"ec-3" if !has(b"dec3")? => Ok(taken(Codec::Eac3, &[], stated)),
        b"ac-3" => whole(b"dac3", config::ac3::dac3, Codec::Ac3),
        b"ec-3" => whole(b"dec3", config::ac3::dec3, Codec::Eac3),
        _ => Ok(Entry::Left(not_taken("sound", entry.kind, TAKEN_AUDIO))),
    }
}

/// Reads a sample entry of a text, subtitle or caption track.
pub(super) fn text(entry: &Atom<'_>) -> Result<Entry, MediaError> {
    refuse_protected(entry)?;
    let (text, forced) = match &entry.kind.0 {
        b"tx3g" => {
            let mut fields = entry.fields();
            fields.skip(HEAD_BYTES)?;
            // displayFlags of QuickTime's subtitle sample data: bit 31, all samples are forced.
            (Text::Tx3g, fields.u32()? >> 31 == 1)
        }
        // QuickTime's own text; its samples hold the text as 3GPP's do.
        b"text" => (Text::Tx3g, false),
        b"wvtt" => (Text::Wvtt, false),
        _ => return Ok(Entry::Left(not_taken("text", entry.kind, TAKEN_TEXT))),
    };
    let description =
        Description { codec: Some(Codec::WebVtt), forced, text: Some(text), ..Description::default() };
    Ok(Entry::Taken(Box::new(description)))
}

/// Pixel aspect and colour from the first sequence parameter set of a configuration.
fn coded(codec: Codec, config: &[u8]) -> (Option<(u32, u32)>, Option<Colour>) {
    match codec {
        Codec::H264 => h264::AvcConfig::parse(config)
            .and_then(|config| h264::Sps::parse(config.sps.first()?))
            .map(|sps| (sps.pixel_aspect, sps.colour)),
        Codec::Hevc => hevc::HevcConfig::parse(config)
            .and_then(|config| config.sps())
            .map(|sps| (sps.pixel_aspect, sps.colour)),
        _ => None,
    }
    .unwrap_or_default()
}

fn mpeg4<'a>(entry: &Atom<'a>, boxes: impl Fn() -> Children<'a>, stated: Sound) -> Result<Entry, MediaError> {
    // QuickTime keeps the descriptor in a `wave` box.
    let esds = match boxes().find(b"esds")? {
        Some(esds) => esds,
        None => match boxes().find(b"wave")? {
            Some(wave) => wave.required(b"esds")?,
            None => config_box(entry, boxes(), b"esds")?,
        },
    };
    let Stream { object_type, config } = esds::parse(&esds)?;
    if config.len() > limits::MP4_CONFIG_BYTES {
        return Err(config_limit(config.len()));
    }
    match object_type {
        esds::AAC | esds::AAC_MAIN | esds::AAC_LC | esds::AAC_SSR => {
            let config = match config {
                [] => {
                    let of = audio_specific::LOW_COMPLEXITY;
                    audio_specific::plain(of, stated.sample_rate, stated.channels).ok_or_else(|| {
                        malformed(
                            esds.offset,
                            "AAC without a configuration, and rate and channels imply none",
                        )
                    })?
                }
                config => config.to_vec(),
            };
            match audio_specific::parse(&config).map_err(|error| malformed(esds.offset, error.to_string()))? {
                Some(mut sound) => {
                    if sound.channels == 0 {
                        sound.channels = stated.channels.max(1);
                    }
                    Ok(taken(Codec::Aac, &config, sound))
                }
                None => {
                    let what = format!("MPEG-4 sound that is not AAC is not among {TAKEN_AUDIO}");
                    Ok(Entry::Left(what))
                }
            }
        }
        esds::MPEG2_AUDIO | esds::MPEG1_AUDIO => Ok(taken(Codec::Mp3, &[], stated)),
        other => {
            let what =
                format!("sound coded as `mp4a` with object type 0x{other:02x} is not among {TAKEN_AUDIO}");
            Ok(Entry::Left(what))
        }
    }
}

fn taken(codec: Codec, config: &[u8], sound: Sound) -> Entry {
    let Sound { channels, sample_rate, sample_bits } = sound;
    Entry::Taken(Box::new(Description {
        codec: Some(codec),
        config: config.to_vec(),
        audio: Some(Audio { channels, sample_rate, sample_bits, priming: 0 }),
        ..Description::default()
    }))
}

fn not_taken(kind: &str, coded: FourCc, instead: &str) -> String {
    format!("{kind} coded as `{coded}` is not among {instead}")
}

/// The decoder configuration of an entry that requires one.
fn config_box<'a>(entry: &Atom<'a>, boxes: Children<'a>, name: &[u8; 4]) -> Result<Atom<'a>, MediaError> {
    let found = boxes.find(name)?.ok_or_else(|| {
        let what = format!("the sample entry `{}` has no `{}` box", entry.kind, FourCc(*name));
        malformed(entry.offset, what)
    })?;
    if found.body.len() > limits::MP4_CONFIG_BYTES {
        return Err(config_limit(found.body.len()));
    }
    Ok(found)
}

fn config_limit(bytes: usize) -> MediaError {
    let what = "the number of bytes of a decoder configuration";
    MediaError::Limit { what, value: bytes as u64, limit: limits::MP4_CONFIG_BYTES as u64 }
}

/// `colr` (12.1.5): `nclx`, or QuickTime's `nclc` which has no range.
fn colour(boxes: Children<'_>) -> Result<Option<Colour>, MediaError> {
    for atom in boxes {
        let atom = atom?;
        if atom.kind.0 != *b"colr" {
            continue;
        }
        let mut fields = atom.fields();
        let kind = fields.array::<4>()?;
        if kind != *b"nclx" && kind != *b"nclc" {
            continue;
        }
        let [primaries, transfer, matrix] = [fields.u16()?, fields.u16()?, fields.u16()?];
        let full_range = kind == *b"nclx" && fields.u8()? >> 7 == 1;
        return Ok(Some(Colour { primaries, transfer, matrix, full_range }));
    }
    Ok(None)
}

/// Protected entries (8.12) state the scheme in `sinf/schm`; iTunes used its own before.
fn refuse_protected(entry: &Atom<'_>) -> Result<(), MediaError> {
    let scheme = match &entry.kind.0 {
        b"drms" | b"drmi" => "FairPlay".to_owned(),
        b"encv" => scheme(entry, VISUAL_BYTES),
        b"enca" => scheme(entry, 28),
        b"enct" | b"encs" => scheme(entry, HEAD_BYTES),
        _ => return Ok(()),
    };
    // The caller, which knows the track's number, sets it.
    Err(MediaError::Encrypted { track: 0, scheme })
}

fn scheme(entry: &Atom<'_>, head_bytes: usize) -> String {
    let found = || {
        let sinf = entry.children_after(head_bytes).ok()?.find(b"sinf").ok()??;
        let (_, _, mut fields) = sinf.child(b"schm").ok()??.full().ok()?;
        fields.array::<4>().ok()
    };
    found().map_or_else(|| "unknown scheme".to_owned(), |scheme| FourCc(scheme).to_string())
}
