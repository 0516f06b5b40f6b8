//! Makes the form `ts` of a title that came in another container: its stored tracks are
//! multiplexed.

use crate::error::{IngestError, LibraryError, StreamError};
use crate::export::skip;
use crate::input::Stop;
use crate::library::Library;
use crate::store::Store;
use crate::stream_places::StreamPlaces;
use crate::stream_store::places;
use crate::stream_writer::{StoredStream, StreamWriter};
use crate::title::Title;
use crate::warnings;
use reel_media::TitleIndex;
use reel_media::transport::{Multiplexer, MuxStep, PACKET_BYTES, StreamIndex, TICKS_PER_S, WantedFragment};
use reel_qos::Class;
use reel_volume::{ObjectEntry, ObjectReader, ObjectRecord, Role, STREAM_NUMBER, Volume};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Read;
use std::sync::Arc;

/// A form `ts` that was added to a title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedStream {
    /// Its index: packets, duration and rates.
    pub index: StreamIndex,
    /// What is left out of it, or may disturb receivers.
    pub warnings: Vec<String>,
}

impl AddedStream {
    /// How long it is sent, in seconds.
    pub fn duration_s(&self) -> f64 {
        self.index.duration_ticks() as f64 / TICKS_PER_S as f64
    }
}

impl Library {
    /// Makes the form `ts` of a stored title from its tracks, and adds it to the title in one step.
    /// Sessions that play the title continue. `progress` is called with the nanoseconds of the
    /// title that are done, and all of them. Ends when `stop` is raised.
    ///
    /// # Errors
    /// If there is no such title, it has this form, a transport stream cannot carry it, the symbols
    /// of the volume are too small, or the volume fails, is full or may not be written. The title
    /// is as it was then.
    pub fn add_stream(
        &self,
        id: &str,
        stop: &Stop,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<AddedStream, StreamError> {
        let title = self.open_new_stream(id)?;
        let places = places(self.volume())?;
        let source = Tracks { volume: self.volume(), index: title.index(), objects: &title.record().objects };
        let stored = source.multiplex(id, places, stop, progress)?;
        if stop.is_stopped() {
            return Err(IngestError::Cancelled.into());
        }
        let _additions = self.lock_additions();
        // Subtitles may have been added meanwhile, but the tracks must be the same.
        let record = self.record(id)?;
        let is_made_of = |entry: &&ObjectEntry| entry.role == Role::Track;
        let tracks = title.record().objects.iter().filter(is_made_of);
        if tracks.into_iter().any(|track| !record.objects.contains(track)) {
            return Err(StreamError::Changed { id: id.to_owned() });
        }
        refuse_second(&record.objects, id)?;
        let StoredStream { mut objects, index, warnings } = stored;
        if !warnings.is_empty() {
            let of_form = warnings.iter().map(|text| format!("form ts: {text}"));
            let all: Vec<String> =
                self.warnings(&record, Class::APERIODIC)?.into_iter().chain(of_form).collect();
            objects.extend(warnings::entry(&Store::new(self.volume()), &all)?);
        }
        self.volume().replace_objects(&record, objects).map_err(IngestError::from)?;
        Ok(AddedStream { index, warnings })
    }

    /// A title that has no form `ts`.
    fn open_new_stream(&self, id: &str) -> Result<Arc<Title>, StreamError> {
        refuse_second(&self.record(id)?.objects, id)?;
        Ok(self.open(id)?)
    }
}

fn refuse_second(objects: &[ObjectEntry], id: &str) -> Result<(), StreamError> {
    let is_stream = |entry: &ObjectEntry| (entry.role, entry.number) == (Role::Track, STREAM_NUMBER);
    if objects.iter().any(is_stream) {
        return Err(StreamError::Exists { id: id.to_owned() });
    }
    Ok(())
}

/// The stored tracks of a title, also before it is published.
pub(crate) struct Tracks<'a> {
    pub(crate) volume: &'a Volume,
    pub(crate) index: &'a TitleIndex,
    pub(crate) objects: &'a [ObjectEntry],
}

impl Tracks<'_> {
    /// Stores a transport stream of the tracks. `name` is for errors.
    pub(crate) fn multiplex(
        &self,
        name: &str,
        places: StreamPlaces,
        stop: &Stop,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<StoredStream, IngestError> {
        let failed = |source| IngestError::Multiplex { file: name.to_owned(), source };
        let mut mux = Multiplexer::new(self.index).map_err(failed)?;
        let needed_bytes = places.object_bytes(mux.estimated_bytes().div_ceil(PACKET_BYTES as u64));
        let free_bytes = self.volume.free_bytes();
        if needed_bytes > free_bytes {
            return Err(IngestError::NoSpace { needed_bytes, free_bytes });
        }
        let mut readers = HashMap::new();
        let mut writer = StreamWriter::new(self.volume, places)?;
        let mut packets = Vec::new();
        loop {
            if stop.is_stopped() {
                return Err(IngestError::Cancelled);
            }
            match mux.step(&mut packets).map_err(failed)? {
                MuxStep::Packets(_) => {}
                MuxStep::Wants(wanted) => {
                    let bytes = self.read(wanted, &mut readers, name)?;
                    mux.supply(bytes).map_err(failed)?;
                    progress(mux.position_ns(), self.index.duration_ns);
                }
                MuxStep::End => break,
            }
            writer.write(&packets)?;
            packets.clear();
        }
        progress(self.index.duration_ns, self.index.duration_ns);
        let (index, warnings) = mux.finish().map_err(failed)?;
        writer.finish(name, index, warnings)
    }

    /// The bytes of a fragment. Each track is read forwards by one reader.
    fn read(
        &self,
        WantedFragment { track, fragment }: WantedFragment,
        readers: &mut HashMap<usize, (u64, ObjectReader)>,
        name: &str,
    ) -> Result<Vec<u8>, IngestError> {
        let missing = || incomplete(name);
        let track_index = self.index.tracks.get(track).ok_or_else(missing)?;
        let range = track_index.segment_range(fragment + 1).ok_or_else(missing)?;
        let (position, reader) = match readers.entry(track) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let object = self.object(track_index.object).ok_or_else(missing)?;
                let map = self.volume.map(object)?;
                let whole = 0..map.bytes();
                entry.insert((0, self.volume.reader(map, whole, Class::APERIODIC).in_runs()))
            }
        };
        let failed = |source| IngestError::Stored(LibraryError::Read { id: name.to_owned(), source });
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let before = range.start.checked_sub(*position).ok_or_else(missing)?;
        skip(reader, before).and_then(|()| reader.read_exact(&mut bytes)).map_err(failed)?;
        *position = range.end;
        Ok(bytes)
    }

    fn object(&self, number: u32) -> Option<&ObjectRecord> {
        let is_it = |entry: &&ObjectEntry| (entry.role, entry.number) == (Role::Track, number);
        self.objects.iter().find(is_it).map(|entry| &entry.object)
    }
}

fn incomplete(name: &str) -> IngestError {
    let what = "fragment that its index describes";
    IngestError::Stored(LibraryError::Incomplete { id: name.to_owned(), what })
}
