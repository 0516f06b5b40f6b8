//! The form `ts` of a title: a transport stream stored as it is.

use crate::error::LibraryError;
use crate::library::Library;
use crate::limits::{EXPORT_CHUNK_BYTES, STREAM_INDEX_BYTES_MAX};
use crate::merged::is_merged;
use crate::stream_places::StreamPlaces;
use crate::title::Title;
use reel_media::transport::{SYMBOL_PAYLOAD_BYTES, StreamIndex};
use reel_qos::Class;
use reel_rt::lock;
use reel_volume::{ObjectMap, Role, STREAM_INDEX_NUMBER, STREAM_NUMBER, Sums, TitleRecord};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::{Arc, Weak};

/// An opened transport stream. While it exists, its bytes stay in place.
pub struct Stream {
    /// Its title, without the tracks of the other form.
    pub title: Arc<Title>,
    /// When its packets are due, and where receivers may join.
    pub index: Arc<StreamIndex>,
    /// Where its bytes are.
    pub map: Arc<ObjectMap>,
    /// Where its packets are in these bytes.
    pub places: StreamPlaces,
}

/// Streams that may be open, by title.
pub(crate) type OpenedStreams = HashMap<String, Weak<Stream>>;

impl Stream {
    /// A text that changes with the stored bytes: their number, and the checksums of their
    /// checksums that the catalogue has.
    pub fn stamp(&self) -> String {
        let mut object = self.title.record().object(Role::Track, STREAM_NUMBER);
        let mut stamp = format!("{:x}", self.map.bytes());
        while let Some(record) = object {
            object = match &record.sums {
                Sums::Object(sums) => Some(&**sums),
                Sums::Inline(sums) => {
                    sums.iter().for_each(|sum| stamp.push_str(&format!("-{sum:x}")));
                    None
                }
            };
        }
        stamp
    }

    /// The stream of a title that is in no library. For simulations: symbols of the map may be
    /// shorter than what they stand for.
    pub fn simulated(record: TitleRecord, index: StreamIndex, map: Arc<ObjectMap>) -> Stream {
        let places = StreamPlaces::simulated(*map.geometry());
        Stream { title: Arc::new(Title::of_stream(Arc::new(record))), index: Arc::new(index), map, places }
    }
}

impl Library {
    /// The form `ts` of a title. All who have it open share one [`Stream`], and so its units in
    /// memory.
    ///
    /// # Errors
    /// If there is no such title, it has no such form, or its index is damaged.
    pub fn stream(&self, id: &str) -> Result<Arc<Stream>, LibraryError> {
        if is_merged(id) {
            let reason =
                "its parts are merged from their tracks, not from transport streams (form ts)".to_owned();
            return Err(LibraryError::NotMerged { id: id.to_owned(), reason });
        }
        let record = self.record(id)?;
        let opened = |streams: &OpenedStreams| {
            let stream = streams.get(id)?.upgrade()?;
            (**stream.title.record() == *record).then_some(stream)
        };
        if let Some(stream) = opened(&lock(&self.streams)) {
            return Ok(stream);
        }
        // Without the lock: its index is read.
        let stream = Arc::new(self.open_stream(id, Arc::clone(&record))?);
        let mut streams = lock(&self.streams);
        if let Some(other) = opened(&streams) {
            return Ok(other);
        }
        streams.retain(|_, stream| stream.strong_count() > 0);
        streams.insert(id.to_owned(), Arc::downgrade(&stream));
        Ok(stream)
    }

    fn open_stream(&self, id: &str, record: Arc<TitleRecord>) -> Result<Stream, LibraryError> {
        let title = Arc::new(Title::of_stream(Arc::clone(&record)));
        let Some(object) = record.object(Role::Track, STREAM_NUMBER) else {
            return Err(LibraryError::NoStream { id: id.to_owned() });
        };
        let index = self.stream_index(&record)?.ok_or_else(|| incomplete(id, "index of its stream"))?;
        let geometry = *self.volume().geometry();
        let places =
            StreamPlaces::new(geometry).ok_or_else(|| incomplete(id, "symbols that hold a stream"))?;
        if object.bytes != places.object_bytes(index.packets) {
            return Err(incomplete(id, "stream that its index describes"));
        }
        Ok(Stream { title, index: Arc::new(index), map: self.volume().map(object)?, places })
    }

    /// Whether the volume still has this stream of a title: it was not removed, and not replaced.
    pub fn has_stream(&self, title: &Title) -> bool {
        let place = |record: &TitleRecord| {
            let object = record.object(Role::Track, STREAM_NUMBER)?;
            Some((object.bytes, object.first_slot()?))
        };
        let now = self.record(title.id()).ok();
        now.and_then(|record| place(&record)).is_some_and(|now| place(title.record()) == Some(now))
    }

    /// Writes the form `ts` of a title: exactly the packets that were ingested, read in class
    /// aperiodic. Returns their bytes. `progress` is called with the bytes done and the bytes in
    /// all.
    ///
    /// # Errors
    /// As [`Library::stream`], or if it cannot be read or `output` fails.
    pub fn export_stream(
        &self,
        id: &str,
        output: &mut dyn Write,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<u64, LibraryError> {
        let stream = self.stream(id)?;
        let Stream { index, map, places, .. } = &*stream;
        let total = index.bytes();
        let range = 0..map.bytes();
        let mut reader = self.volume().reader(Arc::clone(map), range, Class::APERIODIC).in_runs();
        let symbol_bytes = places.symbol_bytes();
        let mut symbols = vec![0; symbol_bytes * (EXPORT_CHUNK_BYTES / symbol_bytes).max(1)];
        let mut done = 0;
        while done < total {
            let left = (total - done).div_ceil(SYMBOL_PAYLOAD_BYTES as u64) as usize;
            let count = (symbols.len() / symbol_bytes).min(left) * symbol_bytes;
            reader
                .read_exact(&mut symbols[..count])
                .map_err(|source| LibraryError::Read { id: id.to_owned(), source })?;
            for symbol in symbols[..count].chunks_exact(symbol_bytes) {
                let bytes = (total - done).min(SYMBOL_PAYLOAD_BYTES as u64);
                output.write_all(&symbol[..bytes as usize]).map_err(LibraryError::Output)?;
                done += bytes;
            }
            progress(done, total);
        }
        output.flush().map_err(LibraryError::Output)?;
        Ok(done)
    }

    /// The index of the form `ts` of a title; `None` if it has none.
    pub(crate) fn stream_index(&self, record: &TitleRecord) -> Result<Option<StreamIndex>, LibraryError> {
        let Some(object) = record.object(Role::Index, STREAM_INDEX_NUMBER) else { return Ok(None) };
        let what = (STREAM_INDEX_BYTES_MAX, Class::INTERACTIVE);
        let bytes = self.whole(&record.id, object, "index of the stream", what)?;
        let damaged = |source| LibraryError::Index { id: record.id.clone(), source };
        StreamIndex::decode(&bytes).map(Some).map_err(damaged)
    }
}

/// Whether a title has the form `ts` alone.
pub(crate) fn is_stream_only(record: &TitleRecord) -> bool {
    record.object(Role::Index, 0).is_none() && record.object(Role::Track, STREAM_NUMBER).is_some()
}

fn incomplete(id: &str, what: &'static str) -> LibraryError {
    LibraryError::Incomplete { id: id.to_owned(), what }
}
