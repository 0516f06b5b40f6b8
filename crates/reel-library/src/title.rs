//! One opened title.

use crate::error::LibraryError;
use reel_media::TitleIndex;
use reel_volume::{ObjectMap, Role, Sums, TitleRecord, Volume};
use std::sync::Arc;

/// Everything that is needed to play a title without asking a disk where its bytes are. While it
/// exists, the title's bytes stay in place, even after its removal.
pub struct Title {
    record: Arc<TitleRecord>,
    index: TitleIndex,
    maps: Vec<(Role, u32, Arc<ObjectMap>)>,
    memory_bytes: usize,
}

impl Title {
    pub(crate) fn load(
        volume: &Volume,
        record: Arc<TitleRecord>,
        index: TitleIndex,
    ) -> Result<Title, LibraryError> {
        let mut maps = Vec::new();
        let mut memory_bytes = size_of::<Title>();
        // Index and poster are read separately; playing needs the others.
        for entry in record.objects.iter().filter(|entry| matches!(entry.role, Role::Track | Role::Tables)) {
            memory_bytes += match &entry.object.sums {
                Sums::Inline(sums) => sums.len() * 4,
                Sums::Object(object) => usize::try_from(object.bytes).unwrap_or(usize::MAX / 2),
            };
            maps.push((entry.role, entry.number, volume.map(&entry.object)?));
        }
        for track in &index.tracks {
            let object = record.object(Role::Track, track.object);
            if object.is_none_or(|object| object.bytes != track.bytes) {
                return Err(LibraryError::Incomplete {
                    id: record.id.clone(),
                    what: "track that its index describes",
                });
            }
            memory_bytes += size_of_val(track) + track.fragments.len() * size_of::<reel_media::Fragment>();
        }
        Ok(Title { record, index, maps, memory_bytes })
    }

    /// A title that is never played.
    #[cfg(test)]
    pub(crate) fn for_tests(record: Arc<TitleRecord>, memory_bytes: usize) -> Title {
        Title { record, index: TitleIndex::default(), maps: Vec::new(), memory_bytes }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.record.id
    }

    /// Its record in the catalogue.
    pub fn record(&self) -> &Arc<TitleRecord> {
        &self.record
    }

    /// Its index.
    pub fn index(&self) -> &TitleIndex {
        &self.index
    }

    /// The map of the track object with this number ([`reel_media::TrackIndex::object`]).
    pub fn track_map(&self, object: u32) -> Option<&Arc<ObjectMap>> {
        self.map(Role::Track, object)
    }

    /// The map of the sample tables.
    pub fn tables_map(&self) -> Option<&Arc<ObjectMap>> {
        self.map(Role::Tables, 0)
    }

    /// A text for entity tags that is different for every title, also for two that have the same id
    /// one after the other.
    pub fn stamp(&self) -> String {
        stamp(&self.record, Role::Index)
    }

    /// An estimate of the memory it takes.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    fn map(&self, role: Role, number: u32) -> Option<&Arc<ObjectMap>> {
        self.maps.iter().find(|(r, n, _)| (*r, *n) == (role, number)).map(|(_, _, map)| map)
    }
}

/// Changes with the bytes of a title: made from the time of publishing, its size, and a slot that
/// no other title can have had in the same second.
pub(crate) fn stamp(record: &TitleRecord, role: Role) -> String {
    let object = record.objects.iter().find(|entry| entry.role == role).map(|entry| &entry.object);
    let slot = object.and_then(|object| object.first_slot()).unwrap_or_default();
    format!("{}-{:x}-{:x}-{slot:x}", record.id, record.added_unix_s, record.bytes())
}
