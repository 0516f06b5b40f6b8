//! Export: a title as one MP4 file.

use crate::error::LibraryError;
use crate::library::Library;
use crate::limits::EXPORT_CHUNK_BYTES;
use crate::naming::clean_name;
use crate::title::Title;
use reel_media::progressive::{ObjectRef, Part, default_selection, layout};
use reel_media::{TitleIndex, TrackIndex, TrackKind};
use reel_qos::Class;
use reel_volume::{ObjectReader, Volume};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::ops::Range;

impl Library {
    /// The tracks of a title that [`Library::export`] does not write, as texts for a person.
    ///
    /// # Errors
    /// If there is no such title or it cannot be opened.
    pub fn omitted_from_export(&self, id: &str) -> Result<Vec<String>, LibraryError> {
        Ok(left_out(self.open(id)?.index()))
    }

    /// Writes a title as a progressive MP4: the same bytes as its download, read in class
    /// aperiodic. Returns their number. `progress` is called with the bytes done and the bytes in
    /// all.
    ///
    /// # Errors
    /// If there is no such title, it cannot be opened or read, or `output` fails.
    pub fn export(
        &self,
        id: &str,
        output: &mut dyn Write,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<u64, LibraryError> {
        let title = self.open(id)?;
        let file = layout(title.index(), &default_selection(title.index()))
            .map_err(|source| LibraryError::Layout { id: id.to_owned(), source })?;
        let mut objects = Objects { volume: self.volume(), title: &title, open: HashMap::new() };
        let mut chunk = vec![0; EXPORT_CHUNK_BYTES];
        let mut done = 0;
        for part in file.parts() {
            match part {
                Part::Bytes(bytes, range) => {
                    output.write_all(&bytes[range.clone()]).map_err(LibraryError::Output)?;
                    done += range.len() as u64;
                }
                Part::Object { object, range } => {
                    let mut at = range.start;
                    while at < range.end {
                        let count = (range.end - at).min(chunk.len() as u64) as usize;
                        objects.read(*object, at, &mut chunk[..count])?;
                        output.write_all(&chunk[..count]).map_err(LibraryError::Output)?;
                        at += count as u64;
                        done += count as u64;
                        progress(done, file.bytes());
                    }
                }
            }
        }
        output.flush().map_err(LibraryError::Output)?;
        Ok(done)
    }
}

/// The tracks of a title that its export does not contain: other renditions, and subtitles.
fn left_out(index: &TitleIndex) -> Vec<String> {
    let chosen = default_selection(index);
    let tracks = index.tracks.iter().enumerate().filter(|(number, _)| !chosen.contains(number));
    let words = |track: &TrackIndex| match track.track.kind {
        TrackKind::Video => {
            let (width, height) = track.display_size().unwrap_or_default();
            format!("the rendition of {width}x{height}")
        }
        TrackKind::Audio => "audio".to_owned(),
        TrackKind::Subtitle => {
            let label = [&track.track.language, &track.track.name].into_iter().flatten();
            label.fold("subtitles".to_owned(), |words, label| format!("{words} {}", clean_name(label)))
        }
    };
    tracks.map(|(_, track)| words(track)).collect()
}

/// The objects of a title being read side by side. Each is read forwards by one reader, also across
/// fragment headers that are not needed, so that the reader can read ahead in runs.
struct Objects<'a> {
    volume: &'a Volume,
    title: &'a Title,
    open: HashMap<ObjectRef, (u64, ObjectReader)>,
}

impl Objects<'_> {
    fn read(&mut self, object: ObjectRef, at: u64, target: &mut [u8]) -> Result<(), LibraryError> {
        let failed = |source| LibraryError::Read { id: self.title.id().to_owned(), source };
        let (position, reader) = match self.open.remove(&object) {
            Some((position, reader)) if position <= at => (position, reader),
            _ => (at, self.reader(object, at)?),
        };
        let mut reader = reader;
        skip(&mut reader, at - position).map_err(failed)?;
        reader.read_exact(target).map_err(failed)?;
        self.open.insert(object, (at + target.len() as u64, reader));
        Ok(())
    }

    fn reader(&self, object: ObjectRef, at: u64) -> Result<ObjectReader, LibraryError> {
        let map = match object {
            ObjectRef::Tables(number) => self.title.tables_map(number),
            ObjectRef::Track(number) => self.title.track_map(number),
        };
        let missing = || LibraryError::Incomplete {
            id: self.title.id().to_owned(),
            what: "object that its index names",
        };
        let map = map.ok_or_else(missing)?;
        let range: Range<u64> = at..map.bytes();
        Ok(self.volume.reader(map.clone(), range, Class::APERIODIC).in_runs())
    }
}

/// Reads over bytes.
pub(crate) fn skip(reader: &mut ObjectReader, bytes: u64) -> io::Result<()> {
    let skipped = io::copy(&mut reader.take(bytes), &mut io::sink())?;
    if skipped < bytes { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}
