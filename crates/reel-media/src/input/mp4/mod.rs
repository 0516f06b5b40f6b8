//! MP4 and QuickTime files (ISO/IEC 14496-12, 14496-14, 14496-15, QuickTime File Format).
//!
//! `moov` is held in memory and its tables are walked in place; the media is read only sample by
//! sample. Opening walks all tables and fragments once, so that a file that is cut off or
//! contradicts itself is refused before anything is stored. Of a file with fragments that is cut
//! off, the whole fragments are taken.

mod atom;
mod chapters;
mod cover;
mod cuts;
mod damage;
mod demux;
mod edits;
mod ending;
mod entry;
mod esds;
mod films;
mod first_frame;
mod fragments;
mod hdr;
mod language;
mod layout;
mod notes;
mod parts;
mod plan;
mod preroll;
mod tables;
mod trak;

use crate::cover::CoverPlace;
use crate::input::chapters::Chapters;
use crate::input::stills;
use crate::input::warnings::Warnings;
use crate::{Demux, MediaError, Source, TrackKind, limits};
use atom::{Atom, FourCc, malformed};
use cuts::Cuts;
pub(super) use ending::ending;
use fragments::{Defaults, FilmOf};
use parts::Line;
use plan::Walk;
use std::sync::Arc;
use trak::{MediaTrack, Movie, Parsed};

/// Opens a file that begins like one of this family.
pub(super) fn open(mut source: Box<dyn Source>) -> Result<Box<dyn Demux>, MediaError> {
    let layout = layout::read(source.as_mut())?;
    let Some((film, (offset, bytes))) = films::first(&layout.films) else {
        return Err(malformed(source.bytes(), "there is no `moov` box"));
    };
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
    layout.warning.iter().for_each(|warning| warnings.add(warning.clone()));
    let cover = cover::place(&root).unwrap_or_else(|why| {
        warnings.add(why);
        None
    });
    let mut found = Found { cover, ..Found::default() };
    found.read(&root, &moov, layout.quicktime, &mut warnings)?;
    edits::settle(&mut found.tracks, &mut warnings);
    let defaults = match root.child(b"mvex")? {
        Some(mvex) => trex(&mvex)?,
        None => Vec::new(),
    };
    let mut films = films::follow(&layout, film, &mut found, source.as_mut(), &mut warnings)?;
    films[film] = Some(FilmOf { defaults, ..FilmOf::default() });
    let lines = lines(&found, !layout.moofs.is_empty(), source.as_mut())?;
    let fragments = Arc::new(parts::place(&layout, films, lines, source.as_mut())?);
    if let Some(media) = &mut found.chapters
        && let cuts::Found::Cuts(cuts) = Cuts::find(media, &fragments, source.as_mut())?
    {
        media.cuts = Some(Arc::new(cuts));
    }
    let chapters =
        match found.chapters.take().map(|media| chapters::of_track(&media, &fragments, source.as_mut())) {
            Some(Ok(chapters)) => chapters,
            Some(Err(error)) => {
                warnings.add(format!("the track of the chapters is damaged ({error}); they are left out"));
                Chapters::default()
            }
            None => chapters::nero(&root),
        };
    demux::Mp4::start(source, found, chapters, &fragments, warnings)
        .map(|mp4| Box::new(mp4) as Box<dyn Demux>)
}

/// What the `moov` box holds.
#[derive(Default)]
struct Found {
    /// The tracks that Reel stores.
    tracks: Vec<MediaTrack>,
    /// The first track that holds chapters.
    chapters: Option<Box<MediaTrack>>,
    cover: Option<CoverPlace>,
}

impl Found {
    fn read(
        &mut self,
        root: &Atom<'_>,
        moov: &Arc<Vec<u8>>,
        quicktime: bool,
        warnings: &mut Warnings,
    ) -> Result<(), MediaError> {
        let (movie, traks) = movie(root, moov, quicktime)?;
        let (mut pictures_refused, mut encrypted) = (None, None);
        let mut videos = 0;
        for trak in &traks {
            let pictures = trak::pictures(trak);
            let position = videos;
            videos += usize::from(pictures.is_some());
            match trak::parse(trak, &movie, position)? {
                Parsed::Taken(track) => {
                    track.warnings.iter().for_each(|warning| warnings.add(warning.clone()));
                    self.tracks.push(*track);
                }
                Parsed::Chapters(track) => self.chapters = self.chapters.take().or(Some(track)),
                Parsed::Left(why) if pictures == Some(1) => {
                    warnings.add(stills::of_other_codec(&why, position, &mut self.cover));
                }
                Parsed::Left(why) => warnings.add(why),
                Parsed::Encrypted { id, scheme } => {
                    warnings.add(crate::input::encrypted(u64::from(id), &scheme));
                    encrypted = encrypted.or(Some(MediaError::Encrypted { track: id, scheme }));
                }
                Parsed::NoPictures(why) => {
                    warnings.add(match pictures {
                        Some(1) => stills::of_other_codec(&why, position, &mut self.cover),
                        _ => why.clone(),
                    });
                    pictures_refused = Some(why);
                }
            }
        }
        let has = |kind| self.tracks.iter().any(|media| media.track.kind == kind);
        // Sound alone is not what the owner of a film expects.
        if let Some(why) = pictures_refused.filter(|_| !has(TrackKind::Video)) {
            return Err(MediaError::NoTracks(why));
        }
        // What is clear beside encrypted tracks is taken.
        if let Some(error) = encrypted.filter(|_| !has(TrackKind::Video) && !has(TrackKind::Audio)) {
            return Err(error);
        }
        if traks.is_empty() {
            warnings.add("the file has no tracks at all".to_owned());
        }
        Ok(())
    }
}

/// The headers of the movie, and its `trak` boxes.
fn movie<'a>(
    root: &Atom<'a>,
    moov: &Arc<Vec<u8>>,
    quicktime: bool,
) -> Result<(Movie, Vec<Atom<'a>>), MediaError> {
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
    Ok((movie, traks))
}

/// The tracks whose fragments are looked for, and where their samples without fragments end.
fn lines(found: &Found, has_fragments: bool, source: &mut dyn Source) -> Result<Vec<Line>, MediaError> {
    let mut lines = Vec::new();
    for media in found.tracks.iter().chain(found.chapters.as_deref()) {
        let mut line = Line::new(media.id, media.track.timescale, media.track.kind);
        if has_fragments && let Some((end, last, shown)) = Walk::table_end(media, source)? {
            (line.end, line.last, line.shown) = (Some(end), last, shown);
        }
        lines.push(line);
    }
    Ok(lines)
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
