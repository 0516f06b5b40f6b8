//! MP4 and QuickTime files (ISO/IEC 14496-12, 14496-14, 14496-15, QuickTime File Format).
//!
//! `moov` is held in memory and its tables are walked in place; the media is read only sample by
//! sample. Opening walks all tables and fragments once, so that a file that is cut off or
//! contradicts itself is refused before anything is stored. Of a file with fragments that is cut
//! off, the whole fragments are taken.

mod atom;
mod demux;
mod edits;
mod entry;
mod esds;
mod fragments;
mod language;
mod layout;
mod plan;
mod preroll;
mod tables;
mod trak;

use crate::input::warnings::Warnings;
use crate::{Demux, MediaError, Source, TrackKind, limits};
use atom::{Atom, FourCc, malformed};
use fragments::{Defaults, Fragments};
use std::sync::Arc;
use trak::{MediaTrack, Movie, Parsed};

/// Opens a file that begins like one of this family.
pub(super) fn open(mut source: Box<dyn Source>) -> Result<Box<dyn Demux>, MediaError> {
    let layout = layout::read(source.as_mut())?;
    let (offset, bytes) = layout.moov;
    // The limit on `moov` was checked with the layout, and the file is at least that long.
    let mut moov = vec![0; bytes as usize];
    source.read_at(offset, &mut moov)?;
    let moov = Arc::new(moov);
    let root = Atom { kind: FourCc(*b"moov"), body: &moov, offset };
    if root.child(b"cmov")?.is_some() {
        return Err(malformed(
            offset,
            "the `moov` box is compressed (`cmov`): rewrite the file with a current program",
        ));
    }
    let mut warnings = Warnings::default();
    layout.warning.into_iter().for_each(|warning| warnings.add(warning));
    let tracks = tracks(&root, &moov, layout.quicktime, &mut warnings)?;
    if has_cover(&root) {
        warnings.add("the cover picture in the metadata (`covr`) is not stored".to_owned());
    }
    let defaults = match root.child(b"mvex")? {
        Some(mvex) => trex(&mvex)?,
        None => Vec::new(),
    };
    let fragments = Fragments::whole(layout.moofs, defaults, layout.cut_at, source.as_mut())?;
    let fragments = Arc::new(fragments);
    demux::Mp4::start(source, tracks, &fragments, warnings).map(|mp4| Box::new(mp4) as Box<dyn Demux>)
}

fn tracks(
    root: &Atom<'_>,
    moov: &Arc<Vec<u8>>,
    quicktime: bool,
    warnings: &mut Warnings,
) -> Result<Vec<MediaTrack>, MediaError> {
    let mut movie = Movie {
        moov: Arc::clone(moov),
        offset: root.offset,
        timescale: 0,
        rotation: 0,
        quicktime,
        chapters: Vec::new(),
    };
    if let Some(mvhd) = root.child(b"mvhd")? {
        (movie.timescale, movie.rotation) = movie_header(&mvhd)?;
    }
    let mut traks = Vec::new();
    for atom in root.children() {
        let atom = atom?;
        if atom.kind.0 == *b"trak" {
            movie.chapters.extend(trak::chapters_of(&atom)?);
            traks.push(atom);
        }
    }
    if traks.len() > limits::TRACKS {
        let (value, limit) = (traks.len() as u64, limits::TRACKS as u64);
        return Err(MediaError::Limit { what: "the number of tracks", value, limit });
    }
    let mut tracks: Vec<MediaTrack> = Vec::new();
    let mut pictures_refused = None;
    for trak in &traks {
        match trak::parse(trak, &movie)? {
            Parsed::Taken(track) => {
                track.warning.iter().for_each(|warning| warnings.add(warning.clone()));
                tracks.push(*track);
            }
            Parsed::Left(why) => warnings.add(why),
            Parsed::NoPictures(why) => {
                warnings.add(why.clone());
                pictures_refused = Some(why);
            }
        }
    }
    // Sound alone is not what the owner of a film expects.
    if let Some(why) = pictures_refused
        && !tracks.iter().any(|track| track.track.kind == TrackKind::Video)
    {
        return Err(MediaError::NoTracks(why));
    }
    if traks.is_empty() {
        warnings.add("the file has no tracks at all".to_owned());
    }
    Ok(tracks)
}

/// Whether the metadata for players (`udta/meta/ilst`) hold a cover. Damage in them means no cover,
/// because they are no part of the film.
fn has_cover(moov: &Atom<'_>) -> bool {
    let cover = || {
        let udta = moov.child(b"udta").ok()??;
        let meta = udta.child(b"meta").ok()??;
        // Version and flags come before the children, but not in QuickTime.
        let ilst = meta.children_after(4).ok().and_then(|children| children.find(b"ilst").ok()?);
        let ilst = ilst.or_else(|| meta.child(b"ilst").ok()?)?;
        ilst.child(b"covr").ok()?
    };
    cover().is_some()
}

fn trex(mvex: &Atom<'_>) -> Result<Vec<Defaults>, MediaError> {
    let mut list = Vec::new();
    for atom in mvex.children() {
        let atom = atom?;
        if atom.kind.0 == *b"trex" && list.len() < limits::TRACKS {
            list.push(Defaults::parse(&atom)?);
        }
    }
    Ok(list)
}

fn movie_header(mvhd: &Atom<'_>) -> Result<(u32, u16), MediaError> {
    let (version, _, mut fields) = mvhd.full()?;
    fields.skip(if version == 1 { 16 } else { 8 })?;
    let timescale = fields.u32()?;
    fields.skip(if version == 1 { 8 } else { 4 } + 16)?;
    let mut matrix = [0; 9];
    for cell in &mut matrix {
        *cell = fields.i32()?;
    }
    Ok((timescale, trak::rotation(matrix).unwrap_or(0)))
}
