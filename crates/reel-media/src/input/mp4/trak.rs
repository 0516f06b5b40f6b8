//! One track of the `moov` box: its headers, its sample entry, its tables and its edit list.

use super::atom::{Atom, FourCc, malformed};
use super::cuts::Cuts;
use super::edits::Edit;
use super::entry::{self, Description, Entry, Text};
use super::language;
use super::tables::{RawSample, SampleTables, first_description};
use crate::codec::vui::reduced;
use crate::{MediaError, Track, TrackKind, limits};
use std::sync::Arc;

/// What the headers of the movie state for its tracks.
pub(super) struct Movie {
    /// The bytes of the `moov` box and their offset in the file.
    pub(super) moov: Arc<Vec<u8>>,
    pub(super) offset: u64,
    /// Ticks per second of edit durations.
    pub(super) timescale: u32,
    /// Rotation of the whole movie, in degrees.
    pub(super) rotation: u16,
    /// The file is QuickTime, not ISO.
    pub(super) quicktime: bool,
    /// Tracks that hold chapters of other tracks.
    pub(super) chapters: Vec<u32>,
}

/// A parsed track.
pub(super) enum Parsed {
    /// Reel stores it.
    Taken(Box<MediaTrack>),
    /// It holds the chapters of other tracks.
    Chapters(Box<MediaTrack>),
    /// Reel leaves it out; a sentence that says why.
    Left(String),
    /// The same for video in a codec that Reel does not store.
    NoPictures(String),
    /// Its samples are encrypted, by this scheme.
    Encrypted { id: u32, scheme: String },
}

/// Still pictures, which sound files carry as a track to show their cover.
const COVERS: [&[u8; 4]; 2] = [b"jpeg", b"png "];

/// A track that Reel stores.
pub(super) struct MediaTrack {
    pub(super) id: u32,
    pub(super) track: Track,
    pub(super) text: Option<Text>,
    pub(super) tables: Arc<SampleTables>,
    pub(super) edit: Edit,
    /// What its edit list cuts out of the middle, once it is known.
    pub(super) cuts: Option<Arc<Cuts>>,
    /// The other forms of the samples: the descriptions that differ from that of `track`.
    pub(super) others: Vec<crate::Description>,
    /// For each entry of `stsd`, its form: 0 for that of `track`, else its place in `others`, from
    /// 1. `None` for one that cannot follow.
    pub(super) forms: Vec<Option<usize>>,
    /// For pictures: how many video tracks come before it in the file.
    pub(super) position: usize,
    /// What the person who ingests should know.
    pub(super) warnings: Vec<String>,
}

impl MediaTrack {
    /// The form of a sample; `None` if it cannot be decoded beside the others. An entry that the
    /// file does not have is taken for the first one.
    pub(super) fn form(&self, sample: &RawSample) -> Option<usize> {
        self.forms.get(sample.description.saturating_sub(1) as usize).copied().unwrap_or(Some(0))
    }
}

/// `tkhd`.
struct TrackHeader {
    id: u32,
    enabled: bool,
    rotation: Option<u16>,
    /// Size for display, pixels.
    size: (u32, u32),
}

/// Handler names without information about the track, in lower case. Any name with "handler" in it
/// is one too.
const MEANINGLESS_NAMES: [&str; 8] =
    ["", "core media", "gpac", "mainconcept", "vide", "soun", "stereo", "mono"];
const MAX_NAME_CHARS: usize = 200;

/// The number of pictures in the tables of a `trak` box; `None` if it is no video track.
pub(super) fn pictures(trak: &Atom<'_>) -> Option<u32> {
    let mdia = trak.child(b"mdia").ok()??;
    let (handler, _) = handler(&mdia.child(b"hdlr").ok()??, false).ok()?;
    let count = || {
        let stbl = mdia.child(b"minf").ok()??.child(b"stbl").ok()??;
        let (_, _, mut fields) = stbl.child(b"stsz").ok()??.full().ok()?;
        fields.skip(4).ok()?;
        fields.u32().ok()
    };
    (handler.0 == *b"vide").then(|| count().unwrap_or(0))
}

/// Reads a `trak` box. `position` is the number of video tracks before it.
pub(super) fn parse(trak: &Atom<'_>, movie: &Movie, position: usize) -> Result<Parsed, MediaError> {
    let header = header(&trak.required(b"tkhd")?)?;
    let id = header.id;
    let mdia = trak.required(b"mdia")?;
    let (handler, handler_name) = handler(&mdia.required(b"hdlr")?, movie.quicktime)?;
    let left = |why: String| Ok(Parsed::Left(format!("track {id} is left out: {why}")));
    let chapters = movie.chapters.contains(&id);
    let kind = match kind_of(handler) {
        Ok(kind) => kind,
        Err(why) => return left(why),
    };
    if chapters && kind != TrackKind::Subtitle {
        return left("it holds pictures or sound of chapters".to_owned());
    }
    let minf = mdia.required(b"minf")?;
    let stbl = minf.required(b"stbl")?;
    let stsd = stbl.required(b"stsd")?;
    let (table_version, entries) = descriptions(&stsd)?;
    let elsewhere = references_elsewhere(&minf)?;
    let chosen = first_description(&stbl)?.saturating_sub(1) as usize;
    let Some(entry) = entries.get(chosen).or(entries.first()) else {
        return left("it has no sample description".to_owned());
    };
    let read = match kind {
        TrackKind::Video => entry::video(entry),
        TrackKind::Audio => entry::sound(entry, table_version),
        TrackKind::Subtitle => entry::text(entry),
    };
    let mut description = match read {
        Ok(Entry::Taken(description)) => *description,
        Ok(Entry::Left(why)) if kind == TrackKind::Video && !COVERS.contains(&&entry.kind.0) => {
            return Ok(Parsed::NoPictures(format!("track {id} cannot be stored: {why}")));
        }
        Ok(Entry::Left(why)) => return left(why),
        Err(MediaError::Encrypted { scheme, .. }) => return Ok(Parsed::Encrypted { id, scheme }),
        Err(error) => return Err(error),
    };
    if is_elsewhere(&elsewhere, entry)? {
        return left("its media lies in another file".to_owned());
    }
    let (timescale, packed) = media_header(&mdia.required(b"mdhd")?)?;
    let turned = turn(&mut description, &header, movie);
    let warnings = turned.into_iter().chain(std::mem::take(&mut description.warnings));
    let warnings = warnings.map(|warning| format!("track {id}: {warning}")).collect();
    let extended = match mdia.child(b"elng")? {
        Some(elng) => language::extended(elng.full()?.2.rest()),
        None => None,
    };
    let udta = trak.child(b"udta")?;
    let Description { codec: Some(codec), config, video, audio, forced, text, .. } = description else {
        return left("it has no codec".to_owned());
    };
    let track = Track {
        kind,
        codec,
        config,
        timescale,
        language: extended.or_else(|| language::packed(packed, movie.quicktime)),
        name: stated_name(udta.as_ref()).or(handler_name),
        default: header.enabled,
        forced: forced || is_forced(udta.as_ref()),
        video,
        audio,
    };
    let (others, forms) = forms(&track, (&elsewhere, table_version), &entries, entry)?;
    let tables = Arc::new(SampleTables::parse(&movie.moov, movie.offset, &stbl)?);
    let edit = Edit::parse(trak, movie.timescale, timescale)?;
    let media =
        Box::new(MediaTrack { id, track, text, tables, edit, cuts: None, others, forms, position, warnings });
    Ok(if chapters { Parsed::Chapters(media) } else { Parsed::Taken(media) })
}

/// The version of the `stsd` box, and its entries.
fn descriptions<'a>(stsd: &Atom<'a>) -> Result<(u8, Vec<Atom<'a>>), MediaError> {
    let (version, _, mut fields) = stsd.full()?;
    fields.skip(4)?;
    let limit = limits::MP4_DESCRIPTIONS;
    let entries = fields.children().take(limit + 1).collect::<Result<Vec<_>, _>>()?;
    if entries.len() > limit {
        let what = "the number of sample descriptions of a track";
        return Err(MediaError::Limit { what, value: entries.len() as u64, limit: limit as u64 });
    }
    Ok((version, entries))
}

/// The different descriptions of a track beside that of `entry`, and which of them each entry is.
/// See [`MediaTrack`].
fn forms(
    track: &Track,
    (elsewhere, table_version): (&[bool], u8),
    entries: &[Atom<'_>],
    entry: &Atom<'_>,
) -> Result<(Vec<crate::Description>, Vec<Option<usize>>), MediaError> {
    let (mut others, mut forms): (Vec<crate::Description>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
    for other in entries {
        if other.kind == entry.kind && other.body == entry.body {
            forms.push(Some(0));
            continue;
        }
        let read = match track.kind {
            TrackKind::Video => entry::video(other),
            TrackKind::Audio => entry::sound(other, table_version),
            TrackKind::Subtitle => Ok(Entry::Left(String::new())),
        };
        // Whatever is wrong with an entry concerns only the samples that need it.
        let Ok(Entry::Taken(mut described)) = read else {
            forms.push(None);
            continue;
        };
        if described.codec != Some(track.codec) || is_elsewhere(elsewhere, other)? {
            forms.push(None);
            continue;
        }
        if let (Some(video), Some(first)) = (&mut described.video, &track.video) {
            video.rotation = first.rotation;
        }
        let Description { config, video, audio, .. } = *described;
        others.push(crate::Description { config, video, audio });
        forms.push(Some(others.len()));
    }
    Ok((others, forms))
}

/// What a track with this handler carries, or why it is left out.
fn kind_of(handler: FourCc) -> Result<TrackKind, String> {
    match &handler.0 {
        b"vide" => Ok(TrackKind::Video),
        b"soun" => Ok(TrackKind::Audio),
        b"sbtl" | b"subt" | b"text" | b"clcp" => Ok(TrackKind::Subtitle),
        b"tmcd" => Err("it holds time codes".to_owned()),
        b"hint" => Err("it holds hints for streaming".to_owned()),
        _ => Err(format!("it is neither picture, sound nor text (`{handler}`)")),
    }
}

/// Tracks that `tref/chap` of this track names.
pub(super) fn chapters_of(trak: &Atom<'_>) -> Result<Vec<u32>, MediaError> {
    let Some(tref) = trak.child(b"tref")? else { return Ok(Vec::new()) };
    let Some(chap) = tref.child(b"chap")? else { return Ok(Vec::new()) };
    Ok(chap
        .body
        .chunks_exact(4)
        .map(|id| u32::from_be_bytes([id[0], id[1], id[2], id[3]]))
        .take(64)
        .collect())
}

/// Clockwise rotation of a transformation matrix (6.2.2), in degrees; `None` if it does something
/// else.
pub(super) fn rotation(matrix: [i32; 9]) -> Option<u16> {
    let [a, b, _, c, d, ..] = matrix;
    match (a.signum(), b.signum(), c.signum(), d.signum()) {
        // A matrix of zeros would show nothing; writers that leave it out mean no rotation.
        (1, 0, 0, 1) | (0, 0, 0, 0) => Some(0),
        (0, 1, -1, 0) => Some(90),
        (-1, 0, 0, -1) => Some(180),
        (0, -1, 1, 0) => Some(270),
        _ => None,
    }
}

fn header(tkhd: &Atom<'_>) -> Result<TrackHeader, MediaError> {
    let (version, flags, mut fields) = tkhd.full()?;
    fields.skip(if version == 1 { 16 } else { 8 })?;
    let id = fields.u32()?;
    fields.skip(4 + if version == 1 { 8 } else { 4 } + 16)?;
    let mut matrix = [0; 9];
    for cell in &mut matrix {
        *cell = fields.i32()?;
    }
    let size = (fields.u32()? >> 16, fields.u32()? >> 16);
    Ok(TrackHeader { id, enabled: flags & 1 == 1, rotation: rotation(matrix), size })
}

fn media_header(mdhd: &Atom<'_>) -> Result<(u32, u16), MediaError> {
    let (version, _, mut fields) = mdhd.full()?;
    fields.skip(if version == 1 { 16 } else { 8 })?;
    let timescale = fields.u32()?;
    if timescale == 0 {
        return Err(malformed(mdhd.offset, "the timescale of a track is 0"));
    }
    fields.skip(if version == 1 { 8 } else { 4 })?;
    Ok((timescale, fields.u16()?))
}

fn handler(hdlr: &Atom<'_>, quicktime: bool) -> Result<(FourCc, Option<String>), MediaError> {
    let (_, _, mut fields) = hdlr.full()?;
    fields.skip(4)?;
    let kind = FourCc(fields.array()?);
    // The name may be missing.
    let rest = fields.rest().get(12..).unwrap_or_default();
    let name = match rest.split_first() {
        Some((length, counted)) if quicktime && usize::from(*length) <= counted.len() => {
            clean(&counted[..usize::from(*length)])
        }
        _ => clean(rest),
    };
    let telling = name.filter(|name| {
        let name = name.to_lowercase();
        !name.contains("handler")
            && !MEANINGLESS_NAMES.iter().any(|nothing| match *nothing {
                "" | "vide" | "soun" | "stereo" | "mono" => name == *nothing,
                maker => name.starts_with(maker),
            })
    });
    Ok((kind, telling))
}

/// The title in the track's user data.
fn stated_name(udta: Option<&Atom<'_>>) -> Option<String> {
    let name = udta?.child(b"name").ok()??;
    clean(name.body)
}

/// Text up to its final zero, without control characters and outer blanks; `None` if nothing is
/// left.
fn clean(bytes: &[u8]) -> Option<String> {
    let bytes = &bytes[bytes.iter().position(|byte| *byte != 0)?..];
    let text = String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next()?);
    let text: String = text.chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARS).collect();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// `kind` boxes (8.10.4) with the DASH role of forced subtitles.
fn is_forced(udta: Option<&Atom<'_>>) -> bool {
    udta.into_iter().flat_map(|udta| udta.children()).filter_map(Result::ok).any(|atom| {
        let body = atom.body.get(4..).unwrap_or_default();
        let mut parts = body.split(|byte| *byte == 0);
        atom.kind.0 == *b"kind"
            && parts.next() == Some(b"urn:mpeg:dash:role:2011")
            && parts.next().is_some_and(|role| role == b"forced-subtitle" || role == b"forced_subtitle")
    })
}

/// For each data reference, whether it points to another file (8.7.2): flag 1 means "in this file".
/// They are read once for all entries. One that is damaged, and those after it, count as this file.
fn references_elsewhere(minf: &Atom<'_>) -> Result<Vec<bool>, MediaError> {
    let Some(dinf) = minf.child(b"dinf")? else { return Ok(Vec::new()) };
    let Some(dref) = dinf.child(b"dref")? else { return Ok(Vec::new()) };
    let (_, _, mut fields) = dref.full()?;
    fields.skip(4)?;
    let points_away = |reference: Result<Atom<'_>, MediaError>| {
        let (_, flags, place) = reference.ok()?.full().ok()?;
        // Some QuickTime files have empty references without the flag; an empty reference is no
        // other file.
        Some(flags & 1 == 0 && place.rest().iter().any(|byte| *byte != 0))
    };
    Ok(fields.children().take(usize::from(u16::MAX)).map_while(points_away).collect())
}

/// Whether the samples of the entry lie in another file.
fn is_elsewhere(elsewhere: &[bool], entry: &Atom<'_>) -> Result<bool, MediaError> {
    let mut fields = entry.fields();
    fields.skip(6)?;
    let index = usize::from(fields.u16()?);
    Ok(index.checked_sub(1).and_then(|index| elsewhere.get(index)).copied().unwrap_or(false))
}

/// Applies the track header to the picture: rotation, and the pixel aspect if nothing else states
/// one.
fn turn(description: &mut Description, header: &TrackHeader, movie: &Movie) -> Option<String> {
    let video = description.video.as_mut()?;
    let (width, height) = header.size;
    if description.aspect_open && width > 0 && height > 0 {
        let stated = u64::from(width) * u64::from(video.height);
        let square = u64::from(video.width) * u64::from(height);
        // Sizes are whole pixels, and some writers round them to whole macroblocks: a difference of
        // two in a hundred is no aspect.
        if stated.abs_diff(square) * 50 > square {
            let aspect = reduced((width.saturating_mul(video.height), video.width.saturating_mul(height)));
            video.pixel_aspect = aspect;
        }
    }
    match header.rotation {
        Some(degrees) => {
            video.rotation = (degrees + movie.rotation) % 360;
            None
        }
        None => Some("its picture is mirrored or skewed by a matrix; that is not kept".to_owned()),
    }
}
