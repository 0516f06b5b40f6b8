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
///
/// There may be as many as pairs of titles, so those that are held at once are limited.
pub(crate) struct MergedTitles {
    titles: HashMap<String, Weak<Title>>,
    bytes_max: usize,
}

impl MergedTitles {
    pub(crate) fn new(bytes_max: usize) -> MergedTitles {
        MergedTitles { titles: HashMap::new(), bytes_max }
    }

    /// The one that is merged from exactly these openings.
    fn find(&self, id: &str, parts: &[Arc<Title>; 2]) -> Option<Arc<Title>> {
        self.titles.get(id)?.upgrade().filter(|title| title.is_merged_of(parts))
    }

    /// Finds a merged title from now on. `None` if it and those that are held have too many bytes.
    /// A single one may be larger than the limit.
    fn keep(&mut self, title: &Arc<Title>) -> Option<()> {
        self.titles.retain(|_, title| title.strong_count() > 0);
        let held = self.titles.values().filter_map(Weak::upgrade).map(|title| title.memory_bytes());
        let held: usize = held.sum();
        if held > 0 && held + title.memory_bytes() > self.bytes_max {
            return None;
        }
        self.titles.insert(title.id().to_owned(), Arc::downgrade(title));
        Some(())
    }
}

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
        if let Some(title) = lock(&self.merged).find(id, &both) {
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
        if let Some(other) = all.find(id, &both) {
            return Ok(other);
        }
        all.keep(&merged).ok_or_else(|| LibraryError::TooManyMerged { id: id.to_owned() })?;
        Ok(merged)
    }

    /// The records of both parts of a merged title; does not wait.
    pub(crate) fn part_records(&self, id: &str) -> Result<[Arc<TitleRecord>; 2], LibraryError> {
        let [pictures, sound] = parts(id)?;
        Ok([self.record(pictures)?, self.record(sound)?])
    }

    /// The summary of a merged title, which is made each time.
    pub(crate) fn summary_of_merged(&self, id: &str) -> Result<Arc<TitleSummary>, LibraryError> {
        let [pictures, _] = self.part_records(id)?;
        let title = self.open_merged(id)?;
        Ok(Arc::new(summarise_merged(&title, Library::poster_kind(&pictures))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_media::TitleIndex;
    use reel_volume::SourceFile;

    /// An opened title that is never played.
    fn opened(id: &str) -> Arc<Title> {
        let (id, name, source) = (id.to_owned(), id.to_owned(), SourceFile::default());
        let record = TitleRecord { id, name, added_unix_s: 7, source, objects: Vec::new() };
        Arc::new(Title::for_tests(Arc::new(record), 100))
    }

    fn merged(parts: &[Arc<Title>; 2]) -> Arc<Title> {
        let id = format!("{}+{}", parts[0].id(), parts[1].id());
        Arc::new(Title::of_parts(&id, parts.clone(), TitleIndex::default(), Vec::new()))
    }

    #[test]
    fn a_merged_title_is_found_while_it_is_held_and_its_parts_are_the_same() {
        let [film, song] = ["film", "song"].map(opened);
        let (parts, mut all) = ([film, song], MergedTitles::new(1 << 20));
        let title = merged(&parts);
        assert!(all.find(title.id(), &parts).is_none());
        all.keep(&title).expect("there is room");
        assert!(all.find(title.id(), &parts).is_some_and(|found| Arc::ptr_eq(&found, &title)));
        let again = [Arc::clone(&parts[0]), opened("song")];
        assert!(all.find(title.id(), &again).is_none(), "the second part was ingested again");
        let id = title.id().to_owned();
        drop(title);
        assert!(all.find(&id, &parts).is_none());
    }

    #[test]
    fn merged_titles_that_are_held_are_limited_in_bytes() {
        let titles = ["a", "b", "c"].map(opened);
        let pairs = [(0, 1), (1, 2), (2, 0)];
        let [first, second, third] =
            pairs.map(|(a, b)| merged(&[Arc::clone(&titles[a]), Arc::clone(&titles[b])]));
        let mut all = MergedTitles::new(2 * first.memory_bytes());
        assert!(all.keep(&first).is_some() && all.keep(&second).is_some());
        assert!(all.keep(&third).is_none(), "there is no room");
        drop(first);
        assert!(all.keep(&third).is_some(), "there is room again");
        let mut small = MergedTitles::new(1);
        assert!(small.keep(&second).is_some(), "a single one may be larger");
        assert!(small.keep(&third).is_none());
    }

    #[test]
    fn names_of_merged_titles_have_two_different_parts() {
        assert_eq!(parts("a+b").expect("two parts"), ["a", "b"]);
        for (id, reason) in [
            ("a+a", "both parts are the same title"),
            ("a+b+c", "it has more than two parts"),
            ("+b", "one of its parts has no name"),
            ("a+", "one of its parts has no name"),
            ("+", "one of its parts has no name"),
        ] {
            let error = parts(id).expect_err("it is refused").to_string();
            assert!(error.contains(reason), "{error}");
        }
        assert!(is_merged("a+b") && !is_merged("a-b"));
        assert_eq!(titles_of("a").chain(titles_of("b+c")).collect::<Vec<_>>(), ["a", "b", "c"]);
    }
}
