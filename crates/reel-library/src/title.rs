//! One opened title.

use crate::error::LibraryError;
use crate::limits::{MANIFEST_BYTES_A_FRAGMENT, PLAYLIST_BYTES_A_FRAGMENT, TEXT_FRAGMENTS_FREE};
use crate::naming::clean_name;
use reel_media::index::{MergeError, MergedIndex, MergedPart};
use reel_media::{Fragment, TitleIndex, TrackIndex, TrackKind};
use reel_volume::{ObjectEntry, ObjectMap, Role, STREAM_NUMBER, SourceFile, Sums, TitleRecord, Volume};
use std::sync::Arc;

/// Everything that is needed to play a title without asking a disk where its bytes are. While it
/// exists, the title's bytes stay in place, even after its removal.
pub struct Title {
    record: Arc<TitleRecord>,
    index: TitleIndex,
    maps: Vec<(Role, u32, Arc<ObjectMap>)>,
    memory_bytes: usize,
    /// Of a merged title: those whose pictures and whose sound are played.
    parts: Option<[Arc<Title>; 2]>,
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
        let is_played = |entry: &&ObjectEntry| match entry.role {
            Role::Track => entry.number != STREAM_NUMBER,
            Role::Tables => true,
            Role::Index | Role::Artwork => false,
        };
        for entry in record.objects.iter().filter(is_played) {
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
        }
        memory_bytes += index_bytes(&index);
        Ok(Title { record, index, maps, memory_bytes, parts: None })
    }

    /// The pictures of the first title with the sound of the second. It has their maps, and holds
    /// both. Its record is in no catalogue, and has no objects.
    pub(crate) fn merged(id: &str, parts: [Arc<Title>; 2]) -> Result<Title, MergeError> {
        let [pictures, sound] = &parts;
        let MergedIndex { index, objects } = TitleIndex::merged(&pictures.index, &sound.index)?;
        let mut maps = Vec::new();
        for (number, (part, object)) in (0..).zip(objects) {
            let part = if part == MergedPart::Pictures { pictures } else { sound };
            maps.extend(part.track_map(object).map(|map| (Role::Track, number, Arc::clone(map))));
        }
        for (number, part) in (0..).zip(&parts) {
            maps.extend(part.tables_map(0).map(|map| (Role::Tables, number, Arc::clone(map))));
        }
        Ok(Self::of_parts(id, parts, index, maps))
    }

    /// A merged title with this index and these maps.
    pub(crate) fn of_parts(
        id: &str,
        parts: [Arc<Title>; 2],
        index: TitleIndex,
        maps: Vec<(Role, u32, Arc<ObjectMap>)>,
    ) -> Title {
        let records = [&parts[0].record, &parts[1].record];
        let record = TitleRecord {
            id: id.to_owned(),
            name: clean_name(&records.map(|record| record.name.as_str()).join(" + ")),
            added_unix_s: records.iter().map(|record| record.added_unix_s).max().unwrap_or_default(),
            source: SourceFile::default(),
            objects: Vec::new(),
        };
        let memory_bytes = size_of::<Title>() + index_bytes(&index);
        Title { record: Arc::new(record), index, maps, memory_bytes, parts: Some(parts) }
    }

    /// Whether it is merged from exactly these openings.
    pub(crate) fn is_merged_of(&self, parts: &[Arc<Title>; 2]) -> bool {
        self.parts.as_ref().is_some_and(|own| own.iter().zip(parts).all(|(own, part)| Arc::ptr_eq(own, part)))
    }

    /// A title of which only a stream is used, which has maps of its own.
    pub(crate) fn of_stream(record: Arc<TitleRecord>) -> Title {
        Self::without_tracks(record, size_of::<Title>())
    }

    fn without_tracks(record: Arc<TitleRecord>, memory_bytes: usize) -> Title {
        Title { record, index: TitleIndex::default(), maps: Vec::new(), memory_bytes, parts: None }
    }

    /// What is played under this name and is not stored: a stream that a program pours.
    pub fn unstored(name: &str) -> Title {
        let (id, name) = (name.to_owned(), name.to_owned());
        let record =
            TitleRecord { id, name, added_unix_s: 0, source: SourceFile::default(), objects: Vec::new() };
        Title::of_stream(Arc::new(record))
    }

    /// A title that is never played.
    #[cfg(test)]
    pub(crate) fn for_tests(record: Arc<TitleRecord>, memory_bytes: usize) -> Title {
        Self::without_tracks(record, memory_bytes)
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.record.id
    }

    /// Its record in the catalogue. That of a merged title is in none, and has no objects.
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

    /// The map of the Tables object with this number ([`reel_media::cmaf::TableRange::object`]).
    pub fn tables_map(&self, object: u32) -> Option<&Arc<ObjectMap>> {
        self.map(Role::Tables, object)
    }

    /// A text for entity tags that is different for every title, also for two that have the same id
    /// one after the other.
    pub fn stamp(&self) -> String {
        match &self.parts {
            Some(parts) => merged_stamp([parts[0].stamp(), parts[1].stamp()]),
            None => stamp(&self.record, Role::Index),
        }
    }

    /// A text that changes with the bytes of the title as one MP4 file of this length. Unlike
    /// [`Title::stamp`], it stays when subtitles or a form are added.
    pub fn file_stamp(&self, bytes: u64) -> String {
        match &self.parts {
            Some(parts) => merged_stamp([parts[0].file_stamp(bytes), parts[1].file_stamp(bytes)]),
            None => file_stamp(&self.record, bytes),
        }
    }

    /// An estimate of the memory it takes.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    fn map(&self, role: Role, number: u32) -> Option<&Arc<ObjectMap>> {
        self.maps.iter().find(|(r, n, _)| (*r, *n) == (role, number)).map(|(_, _, map)| map)
    }
}

/// An estimate of the memory of an index, and of what is made from it.
fn index_bytes(index: &TitleIndex) -> usize {
    let of_track = |track: &TrackIndex| size_of_val(track) + track.fragments.len() * size_of::<Fragment>();
    index.tracks.iter().map(of_track).sum::<usize>() + text_bytes(index)
}

/// An estimate of the playlists and manifests of a title, which are kept while it is played. Those
/// of usual titles are small and not counted: most opened titles are not played.
fn text_bytes(index: &TitleIndex) -> usize {
    let fragments: usize = index.tracks.iter().map(|track| track.fragments.len()).sum();
    // There may be a manifest for each rendition that is offered.
    let manifests = index.of_kind(TrackKind::Video).count().max(1);
    let of_fragment = PLAYLIST_BYTES_A_FRAGMENT + manifests * MANIFEST_BYTES_A_FRAGMENT;
    fragments.saturating_sub(TEXT_FRAGMENTS_FREE).saturating_mul(of_fragment)
}

/// Changes with the bytes of a title: made from the time of publishing, its size, and a slot that
/// no other title can have had in the same second.
pub(crate) fn stamp(record: &TitleRecord, role: Role) -> String {
    stamp_of(record, role, record.bytes())
}

/// The stamp of a merged title: it changes with either part.
pub(crate) fn merged_stamp(parts: [String; 2]) -> String {
    parts.join("+")
}

/// See [`Title::file_stamp`].
pub(crate) fn file_stamp(record: &TitleRecord, bytes: u64) -> String {
    stamp_of(record, Role::Track, bytes)
}

fn stamp_of(record: &TitleRecord, role: Role, bytes: u64) -> String {
    let of_role = record.objects.iter().filter(|entry| entry.role == role);
    let entry = of_role.min_by_key(|entry| entry.number);
    let slot = entry.and_then(|entry| entry.object.first_slot()).unwrap_or_default();
    format!("{}-{:x}-{bytes:x}-{slot:x}", record.id, record.added_unix_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_media::cmaf::{CutPolicy, Packager};
    use reel_media::{Codec, Hdr, Packet, Sample, Track, Video, dash, hls};

    fn video() -> Track {
        let video = Video {
            width: 320,
            height: 180,
            pixel_aspect: (1, 1),
            rotation: 0,
            colour: None,
            hdr: Hdr::default(),
        };
        Track {
            kind: TrackKind::Video,
            codec: Codec::Vp9,
            config: Vec::new(),
            timescale: 1_000_000,
            language: None,
            name: None,
            default: true,
            forced: false,
            video: Some(video),
            audio: None,
        }
    }

    #[test]
    fn the_estimate_covers_the_texts_of_a_long_title() {
        let mut packager = Packager::new(vec![video()], CutPolicy::default()).expect("a track");
        let mut time = 0;
        for number in 0..2 * TEXT_FRAGMENTS_FREE {
            let duration = 10_000_003 - (number % 7) as u32;
            let sample = Sample { dts: time, pts: time, duration, sync: true };
            time += i64::from(duration);
            packager.push(&Packet { track: 0, sample, change: None }, &[7; 500]).expect("a picture");
            packager.take();
        }
        let (index, _) = TitleIndex::assemble(vec![packager.finish().expect("packed")]);
        assert!(index.tracks[0].fragments.len() >= 2 * TEXT_FRAGMENTS_FREE - 1);
        let texts = [hls::media(&index, 0), hls::iframes(&index, 0), Some(dash::manifest(&index))];
        let bytes: usize = texts.into_iter().flatten().map(|text| text.len()).sum();
        let counted = text_bytes(&index);
        assert!(counted + TEXT_FRAGMENTS_FREE * 200 >= bytes, "{counted} of {bytes} bytes are counted");
    }
}
