//! Merged titles: `A+B` is the pictures of title A with the sound of title B, wherever a title that
//! is played is named. Nothing is stored for it, and no list has it.

use crate::error::LibraryError;
use crate::library::Library;
use crate::summary::{TitleSummary, summarise_merged};
use crate::title::Title;
use reel_media::index::MergeError;
use reel_rt::lock;
use reel_volume::TitleRecord;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Stands between the ids of the parts. The id of a title in a catalogue has no such character.
const BETWEEN: char = '+';

/// Merged titles that are open, by name. One is merged again when nothing holds it any more: that
/// reads no disk while its parts are open.
pub(crate) type MergedTitles = HashMap<String, Weak<Title>>;

/// Whether this is the name of a merged title, or of none.
pub fn is_merged(id: &str) -> bool {
    id.contains(BETWEEN)
}

/// The ids of the titles that one with this id is played from: its own, or those of both parts.
pub fn titles_of(id: &str) -> impl Iterator<Item = &str> {
    id.split(BETWEEN)
}

/// The parts in the name of a merged title: pictures, then sound.
fn parts(id: &str) -> Result<[&str; 2], LibraryError> {
    let refused =
        |reason: &str| Err(LibraryError::NotMerged { id: id.to_owned(), reason: reason.to_owned() });
    let parts: Vec<&str> = titles_of(id).take(3).collect();
    match parts[..] {
        [pictures, sound] if pictures.is_empty() || sound.is_empty() => {
            refused("one of its parts has no name")
        }
        [pictures, sound] if pictures == sound => refused("both parts are the same title"),
        [pictures, sound] => Ok([pictures, sound]),
        _ => refused("it has more than two parts"),
    }
}

impl Library {
    /// A merged title. Its parts are opened as they are by themselves, so that their bytes are in
    /// memory once for all who play them.
    pub(crate) fn open_merged(&self, id: &str) -> Result<Arc<Title>, LibraryError> {
        let [pictures, sound] = parts(id)?;
        let both = [self.open(pictures)?, self.open(sound)?];
        let opened =
            |merged: &MergedTitles| merged.get(id)?.upgrade().filter(|title| title.is_merged_of(&both));
        if let Some(title) = opened(&lock(&self.merged)) {
            return Ok(title);
        }
        // Without the lock: the index of a long title has some megabytes.
        let merged = Title::merged(id, both.clone()).map_err(|error| {
            let reason = match error {
                MergeError::NoPictures => format!("{pictures} has no pictures"),
                MergeError::NoSound => format!("{sound} has no sound"),
                error => error.to_string(),
            };
            LibraryError::NotMerged { id: id.to_owned(), reason }
        })?;
        let merged = Arc::new(merged);
        let mut all = lock(&self.merged);
        if let Some(other) = opened(&all) {
            return Ok(other);
        }
        all.retain(|_, title| title.strong_count() > 0);
        all.insert(id.to_owned(), Arc::downgrade(&merged));
        Ok(merged)
    }

    /// The records of both parts of a merged title; does not wait.
    pub(crate) fn part_records(&self, id: &str) -> Result<[Arc<TitleRecord>; 2], LibraryError> {
        let [pictures, sound] = parts(id)?;
        Ok([self.record(pictures)?, self.record(sound)?])
    }

    /// The summary of a merged title, which is made anew each time.
    pub(crate) fn summary_of_merged(&self, id: &str) -> Result<Arc<TitleSummary>, LibraryError> {
        let [pictures, _] = self.part_records(id)?;
        let title = self.open_merged(id)?;
        Ok(Arc::new(summarise_merged(&title, Library::poster_kind(&pictures))))
    }
}
