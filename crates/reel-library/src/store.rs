//! The objects of a title while it is written.

use crate::error::IngestError;
use reel_media::cmaf::Piece;
use reel_qos::Class;
use reel_volume::{ObjectEntry, ObjectRecord, ObjectWriter, Role, Volume};

/// Where the pieces of a title go.
pub(crate) trait Sink {
    /// Begins a new file with `tracks` tracks.
    fn begin_rendition(&mut self, tracks: usize);

    /// Appends to a track's object.
    fn write(&mut self, piece: &Piece) -> Result<(), IngestError>;

    /// Ends the file. `kept` says which tracks the index has; what was written of others is freed.
    fn end_rendition(&mut self, kept: &[bool]) -> Result<(), IngestError>;
}

/// Counts the bytes of a title, and stores none.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    tracks: Vec<u64>,
    finished: u64,
}

impl Counted {
    /// The bytes of the tracks that were kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.finished
    }
}

impl Sink for Counted {
    fn begin_rendition(&mut self, tracks: usize) {
        self.tracks = vec![0; tracks];
    }

    fn write(&mut self, piece: &Piece) -> Result<(), IngestError> {
        if let Some(bytes) = self.tracks.get_mut(piece.track) {
            *bytes += piece.bytes.len() as u64;
        }
        Ok(())
    }

    fn end_rendition(&mut self, kept: &[bool]) -> Result<(), IngestError> {
        let bytes = self.tracks.iter().zip(kept).filter(|(_, kept)| **kept).map(|(bytes, _)| bytes);
        self.finished += bytes.sum::<u64>();
        Ok(())
    }
}

/// Writers of the current rendition and the finished objects. If it is dropped before the title is
/// published, everything written is freed.
pub(crate) struct Store<'v> {
    volume: &'v Volume,
    writers: Vec<Option<ObjectWriter>>,
    finished: Vec<ObjectRecord>,
}

impl<'v> Store<'v> {
    pub(crate) fn new(volume: &'v Volume) -> Store<'v> {
        Store { volume, writers: Vec::new(), finished: Vec::new() }
    }

    /// Writes an object at once.
    pub(crate) fn whole(&self, bytes: &[u8]) -> Result<ObjectRecord, IngestError> {
        let mut writer = self.volume.writer(Class::APERIODIC)?;
        writer.write(bytes)?;
        Ok(writer.finish()?)
    }

    /// The finished track objects, numbered as [`reel_media::TitleIndex::assemble`] numbers them.
    pub(crate) fn tracks(&mut self) -> Result<Vec<ObjectEntry>, IngestError> {
        let entry = |(number, object)| ObjectEntry { role: Role::Track, number: number as u32, object };
        Ok(std::mem::take(&mut self.finished).into_iter().enumerate().map(entry).collect())
    }
}

impl Sink for Store<'_> {
    fn begin_rendition(&mut self, tracks: usize) {
        self.writers = (0..tracks).map(|_| None).collect();
    }

    fn write(&mut self, piece: &Piece) -> Result<(), IngestError> {
        let Some(slot) = self.writers.get_mut(piece.track) else {
            return Err(IngestError::internal("a piece belongs to a track that was not declared"));
        };
        // Only tracks that have bytes get a writer: each holds a few stripes of arena memory.
        let writer = match slot {
            Some(writer) => writer,
            None => slot.insert(self.volume.writer(Class::APERIODIC)?),
        };
        writer.write(&piece.bytes)?;
        Ok(())
    }

    fn end_rendition(&mut self, kept: &[bool]) -> Result<(), IngestError> {
        for (writer, kept) in std::mem::take(&mut self.writers).into_iter().zip(kept) {
            match writer {
                Some(writer) if *kept => self.finished.push(writer.finish()?),
                None if *kept => return Err(IngestError::internal("a track of the index has no bytes")),
                _ => {}
            }
        }
        Ok(())
    }
}
