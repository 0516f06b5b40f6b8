//! The titles of a volume, opened on demand and cached.

use crate::error::{IngestError, LibraryError, SubtitleError};
use crate::input::{IngestOptions, Ingested, Input, Progress};
use crate::limits::{
    INDEX_BYTES_MAX, MERGED_BYTES_MAX, OPENED_AHEAD_BYTES_MAX, OPENED_BYTES_MAX, POSTER_BYTES_MAX,
};
use crate::merged::{MergedTitles, is_merged};
use crate::naming::{clean_name, compared_file_name};
use crate::opened_titles::OpenedTitles;
use crate::poster::{Poster, PosterKind, make_poster};
use crate::removed::Removed;
use crate::stream::{OpenedStreams, is_stream_only};
use crate::subtitles::{self, SubtitleFile};
use crate::summary::{TitleSummary, summarise, unreadable};
use crate::title::{Title, merged_stamp, stamp};
use crate::warnings::{WARNINGS_BYTES_MAX, decode};
use crate::watch::{KnownTitles, Stamp, Watcher};
use reel_media::TitleIndex;
use reel_qos::Class;
use reel_rt::lock;
use reel_volume::{ObjectRecord, Role, SourceFile, TitleRecord, Volume, WARNINGS_NUMBER};
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// The titles of one volume. Methods may wait for disks unless stated otherwise.
pub struct Library {
    volume: Arc<Volume>,
    opened: Mutex<OpenedTitles>,
    pub(crate) streams: Mutex<OpenedStreams>,
    pub(crate) merged: Mutex<MergedTitles>,
    /// With the stamp of the record that each was made from. Not the record itself, since a record
    /// that is held keeps the title's space from being reused.
    summaries: Mutex<HashMap<String, (String, Arc<TitleSummary>)>>,
    /// Read on first use.
    removed: OnceLock<Mutex<Removed>>,
    /// Held while subtitles or a form are added: each addition begins with the record and the index
    /// that the last one made.
    additions: Mutex<()>,
}

impl Library {
    /// The library of an open volume. Nothing is read yet.
    pub fn new(volume: Arc<Volume>) -> Library {
        Library {
            volume,
            opened: Mutex::new(OpenedTitles::new(OPENED_BYTES_MAX)),
            streams: Mutex::default(),
            merged: Mutex::new(MergedTitles::new(MERGED_BYTES_MAX)),
            summaries: Mutex::default(),
            removed: OnceLock::new(),
            additions: Mutex::default(),
        }
    }

    /// The volume.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    /// A title with its index and the maps of all its objects, ready to be played. It is read once
    /// and cached, as far as memory for it allows ([`OPENED_BYTES_MAX`]). `A+B` opens a merged
    /// title: the pictures of A with the sound of B.
    ///
    /// # Errors
    /// If there is no such title, a part of it is missing, too large or damaged, two titles cannot
    /// be merged, or the volume fails.
    pub fn open(&self, id: &str) -> Result<Arc<Title>, LibraryError> {
        if is_merged(id) {
            return self.open_merged(id);
        }
        let record = self.record(id)?;
        if let Some(title) = lock(&self.opened).find(&record) {
            return Ok(title);
        }
        self.load(record, Class::INTERACTIVE)
    }

    /// Opens a title before it is requested, in class aperiodic, so that its first client does not
    /// wait for a disk. `false` if there is no more memory for that ([`OPENED_AHEAD_BYTES_MAX`]).
    ///
    /// # Errors
    /// As [`Library::open`].
    pub fn open_ahead(&self, id: &str) -> Result<bool, LibraryError> {
        let record = self.record(id)?;
        let mut opened = lock(&self.opened);
        if opened.bytes() >= OPENED_AHEAD_BYTES_MAX {
            return Ok(false);
        }
        let is_open = opened.find(&record).is_some();
        drop(opened);
        if !is_open {
            self.load(record, Class::APERIODIC)?;
        }
        Ok(true)
    }

    /// The number of titles that are open; does not wait.
    pub fn opened_count(&self) -> usize {
        lock(&self.opened).len()
    }

    /// A title if it is already open; does not wait.
    pub fn opened(&self, id: &str) -> Option<Arc<Title>> {
        let record = self.record(id).ok()?;
        lock(&self.opened).find(&record)
    }

    /// The stamp that [`Title::stamp`] of this title has; does not wait.
    pub fn edition(&self, id: &str) -> Option<String> {
        if is_merged(id) {
            let parts = self.part_records(id).ok()?;
            return Some(merged_stamp(parts.map(|record| stamp(&record, Role::Index))));
        }
        self.volume.title(id).map(|record| stamp(&record, Role::Index))
    }

    /// Whether there is such a title, or both parts of a merged one; does not wait.
    pub fn has(&self, id: &str) -> bool {
        if is_merged(id) { self.part_records(id).is_ok() } else { self.volume.title(id).is_some() }
    }

    /// Whether a title was made from exactly this file, even if it was removed since.
    pub fn knows(&self, stamp: &Stamp) -> bool {
        !self.titles_of(stamp).is_empty() || self.was_removed(stamp)
    }

    /// A watcher of a directory, for [`crate::watch()`]. The titles that it makes belong to this
    /// library.
    pub fn watcher(&self, dir: &Path) -> Watcher {
        let status = self.volume.status();
        Watcher::new(dir, &status.directory, &status.volume.to_string())
    }

    /// Summaries of all titles, by name. A title that cannot be read is listed with the reason.
    pub fn summaries(&self) -> Vec<Arc<TitleSummary>> {
        let records = self.volume.titles();
        let mut list: Vec<Arc<TitleSummary>> = records.iter().map(|record| self.summary_of(record)).collect();
        list.sort_by(|a, b| a.name.to_lowercase().cmp(&b.name.to_lowercase()).then_with(|| a.id.cmp(&b.id)));
        let mut kept = lock(&self.summaries);
        if kept.len() > records.len() {
            let present: HashSet<&str> = records.iter().map(|record| record.id.as_str()).collect();
            kept.retain(|id, _| present.contains(id.as_str()));
        }
        list
    }

    /// The summary of one title, which may be a merged one.
    ///
    /// # Errors
    /// [`LibraryError::NoSuchTitle`] if there is none. For a merged title, as [`Library::open`].
    pub fn summary(&self, id: &str) -> Result<Arc<TitleSummary>, LibraryError> {
        if is_merged(id) {
            return self.summary_of_merged(id);
        }
        Ok(self.summary_of(&self.record(id)?))
    }

    /// The kind of a title's poster, and a text that changes with its bytes; does not wait. The
    /// poster of a merged title is that of its pictures.
    ///
    /// # Errors
    /// If there is no such title, or its poster is missing.
    pub fn poster_mark(&self, id: &str) -> Result<(PosterKind, String), LibraryError> {
        let record = self.shown_record(id)?;
        let (kind, _) = artwork(&record)?;
        let mut mark = stamp(&record, Role::Artwork);
        if kind == PosterKind::Svg {
            // A card shows the name.
            let mut hasher = DefaultHasher::new();
            record.name.hash(&mut hasher);
            let _ = write!(mark, "-{:x}", hasher.finish());
        }
        Ok((kind, mark))
    }

    /// A title's poster, read in class interactive.
    ///
    /// # Errors
    /// If there is no such title, or its poster is missing, too large or cannot be read.
    pub fn poster(&self, id: &str) -> Result<Poster, LibraryError> {
        let record = self.shown_record(id)?;
        let (kind, object) = artwork(&record)?;
        if kind == PosterKind::Svg {
            // The name may be another one since it was drawn.
            return Ok(make_poster(&record.name, None, &[]).0);
        }
        let bytes = self.whole(&record.id, object, "poster", (POSTER_BYTES_MAX, Class::INTERACTIVE))?;
        Ok(Poster { kind, bytes })
    }

    /// The record of a title, or of the pictures of a merged one.
    fn shown_record(&self, id: &str) -> Result<Arc<TitleRecord>, LibraryError> {
        if !is_merged(id) {
            return self.record(id);
        }
        let [pictures, _] = self.part_records(id)?;
        Ok(pictures)
    }

    /// The kind of the poster of a title. A title without one is shown as a card.
    pub(crate) fn poster_kind(record: &TitleRecord) -> PosterKind {
        artwork(record).map_or(PosterKind::Svg, |(kind, _)| kind)
    }

    /// Removes a title from the catalogue, and records which file it was made from. Sessions that
    /// play it may finish; its space is free after that.
    ///
    /// # Errors
    /// If there is no such title, or the volume fails or may not be written.
    pub fn remove(&self, id: &str) -> Result<(), LibraryError> {
        let record = self.record(id)?;
        self.remove_remembered(&record)?;
        lock(&self.opened).forget(id);
        lock(&self.summaries).remove(id);
        Ok(())
    }

    /// Gives a title another name, made safe to display. Its id and its addresses stay.
    ///
    /// # Errors
    /// If there is no such title, or the volume fails or may not be written.
    pub fn rename(&self, id: &str, name: &str) -> Result<(), LibraryError> {
        Ok(self.volume.rename(id, &clean_name(name))?)
    }

    /// Adds subtitles to a stored title, in one step, as its last track. Sessions that play it
    /// continue without them. Returns what the person who adds them should know.
    ///
    /// # Errors
    /// If there is no such title, the file cannot be taken, the title has such subtitles already,
    /// or the volume fails, is full or may not be written.
    pub fn add_subtitles(&self, id: &str, file: &SubtitleFile) -> Result<Vec<String>, SubtitleError> {
        let _additions = self.lock_additions();
        let record = self.record(id)?;
        let index = self.index(&record, Class::INTERACTIVE)?;
        let warnings = self.warnings(&record, Class::INTERACTIVE)?;
        subtitles::add(&self.volume, &record, (index, warnings), file)
    }

    /// Held while objects are added to a title.
    pub(crate) fn lock_additions(&self) -> MutexGuard<'_, ()> {
        lock(&self.additions)
    }

    /// Records the file first: after a crash in between, a removed title whose file is not recorded
    /// would be ingested again. A record of a title that still exists does no harm.
    fn remove_remembered(&self, record: &TitleRecord) -> Result<(), LibraryError> {
        let stamp = source(record);
        let mut removed = lock(self.removed());
        let is_new = removed.remember(stamp.clone());
        let done = self.volume.remove(&record.id);
        // If the outcome of the removal is open, it may be in force, which shows at the next start.
        if done.is_err() && is_new && self.has(&record.id) && self.volume.status().read_only.is_none() {
            removed.forget(&stamp);
        }
        Ok(done?)
    }

    /// Ingests files as one title; see [`crate::ingest()`].
    ///
    /// # Errors
    /// As [`crate::ingest()`].
    pub fn ingest(
        &self,
        inputs: &[Input],
        options: &IngestOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Ingested, IngestError> {
        crate::ingest::ingest(&self.volume, inputs, options, progress)
    }

    /// The catalogue's record of a title; does not wait.
    ///
    /// # Errors
    /// [`LibraryError::NoSuchTitle`] if there is none.
    pub fn record(&self, id: &str) -> Result<Arc<TitleRecord>, LibraryError> {
        self.volume.title(id).ok_or_else(|| LibraryError::NoSuchTitle { id: id.to_owned() })
    }

    fn removed(&self) -> &Mutex<Removed> {
        self.removed.get_or_init(|| {
            let status = self.volume.status();
            Mutex::new(Removed::load(&status.directory, status.volume.to_string()))
        })
    }

    fn summary_of(&self, record: &Arc<TitleRecord>) -> Arc<TitleSummary> {
        if let Some((of, summary)) = lock(&self.summaries).get(&record.id)
            && *of == stamp(record, Role::Index)
            && summary.name == record.name
        {
            return summary.clone();
        }
        let poster = Self::poster_kind(record);
        let (mut summary, lasting) = match self.index(record, Class::INTERACTIVE) {
            Ok(index) => (summarise(record, &index, poster), true),
            // Not cached for disk errors: a disk may return, and the title with it. Errors in the
            // bytes themselves stay.
            Err(error) => {
                let lasting = matches!(error, LibraryError::Index { .. } | LibraryError::OnlyStream { .. });
                (unreadable(record, poster, error.to_string()), lasting)
            }
        };
        let lasting = self.summarise_stream(record, &mut summary) && lasting;
        let lasting = self.summarise_warnings(record, &mut summary) && lasting;
        let summary = Arc::new(summary);
        if lasting {
            lock(&self.summaries).insert(record.id.clone(), (stamp(record, Role::Index), summary.clone()));
        }
        summary
    }

    /// Adds the form `ts`, if the title has it. Returns whether the summary may be kept.
    fn summarise_stream(&self, record: &TitleRecord, summary: &mut TitleSummary) -> bool {
        match self.stream_index(record) {
            Ok(index) => {
                if let Some(index) = index {
                    summary.add_stream(&index, record);
                }
                true
            }
            Err(error) => {
                // The other form can be played all the same.
                tracing::warn!(title = record.id, %error, "the form ts of a title cannot be read");
                summary.problem = summary.problem.take().map(|_| error.to_string());
                matches!(error, LibraryError::Index { .. })
            }
        }
    }

    /// Adds the warnings of the ingest. Returns whether the summary may be kept.
    fn summarise_warnings(&self, record: &TitleRecord, summary: &mut TitleSummary) -> bool {
        match self.warnings(record, Class::INTERACTIVE) {
            Ok(warnings) => {
                summary.warnings = warnings;
                true
            }
            Err(error) => {
                tracing::warn!(title = record.id, %error, "the warnings of a title cannot be read");
                false
            }
        }
    }

    /// What was left out of a title or changed, as it was kept.
    pub(crate) fn warnings(&self, record: &TitleRecord, class: Class) -> Result<Vec<String>, LibraryError> {
        let Some(object) = record.object(Role::Index, WARNINGS_NUMBER) else { return Ok(Vec::new()) };
        Ok(decode(&self.whole(&record.id, object, "list of warnings", (WARNINGS_BYTES_MAX, class))?))
    }

    fn load(&self, record: Arc<TitleRecord>, class: Class) -> Result<Arc<Title>, LibraryError> {
        // Not under the lock: other callers must not wait for these disks. Of two openings at once,
        // both callers get the first that is done.
        let index = self.index(&record, class)?;
        let title = Arc::new(Title::load(&self.volume, record, index)?);
        let mut opened = lock(&self.opened);
        let title = opened.keep(title);
        // Removed meanwhile: this title must not keep its space from being reused.
        if !self.has(title.id()) {
            opened.forget(title.id());
        }
        Ok(title)
    }

    fn index(&self, record: &TitleRecord, class: Class) -> Result<TitleIndex, LibraryError> {
        let damaged = |source| LibraryError::Index { id: record.id.clone(), source };
        if is_stream_only(record) {
            return Err(LibraryError::OnlyStream { id: record.id.clone() });
        }
        let Some(object) = record.object(Role::Index, 0) else {
            return Err(LibraryError::Incomplete { id: record.id.clone(), what: "index" });
        };
        let bytes = self.whole(&record.id, object, "index", (INDEX_BYTES_MAX, class))?;
        TitleIndex::decode(&bytes).map_err(damaged)
    }

    /// The bytes of an object of a title, which is named `what`, up to a limit.
    pub(crate) fn whole(
        &self,
        id: &str,
        object: &ObjectRecord,
        what: &'static str,
        (limit, class): (u64, Class),
    ) -> Result<Vec<u8>, LibraryError> {
        if object.bytes > limit {
            return Err(LibraryError::TooLarge { id: id.to_owned(), what, bytes: object.bytes, limit });
        }
        let map = self.volume.map(object)?;
        let mut bytes = Vec::with_capacity(object.bytes as usize);
        let mut reader = self.volume.reader(map, 0..object.bytes, class);
        reader.read_to_end(&mut bytes).map_err(|source| LibraryError::Read { id: id.to_owned(), source })?;
        Ok(bytes)
    }
}

/// Whether two records describe the same bytes: an id may have been reused after a removal.
pub(crate) fn same(a: &Arc<TitleRecord>, b: &Arc<TitleRecord>) -> bool {
    Arc::ptr_eq(a, b) || **a == **b
}

impl KnownTitles for Library {
    fn titles_of(&self, stamp: &Stamp) -> Vec<String> {
        let titles = self.volume.titles();
        titles.iter().filter(|title| source(title) == *stamp).map(|title| title.id.clone()).collect()
    }

    fn source_of(&self, title: &str) -> Option<Stamp> {
        self.volume.title(title).map(|title| source(&title))
    }

    fn was_removed(&self, stamp: &Stamp) -> bool {
        lock(self.removed()).contains(stamp)
    }

    fn warnings_of(&self, title: &str) -> Vec<String> {
        let record = self.record(title);
        record.and_then(|record| self.warnings(&record, Class::APERIODIC)).unwrap_or_default()
    }
}

fn source(title: &TitleRecord) -> Stamp {
    let SourceFile { file_name, bytes, modified_unix_s } = title.source.clone();
    Stamp { file_name: compared_file_name(&file_name), bytes, modified_unix_s }
}

fn artwork(record: &TitleRecord) -> Result<(PosterKind, &ObjectRecord), LibraryError> {
    let mut pictures = record.objects.iter().filter(|entry| entry.role == Role::Artwork);
    pictures
        .find_map(|entry| PosterKind::from_number(entry.number).map(|kind| (kind, &entry.object)))
        .ok_or_else(|| LibraryError::Incomplete { id: record.id.clone(), what: "poster" })
}
