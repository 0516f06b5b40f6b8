//! The titles of a library as files, sorted as directories list them.

use crate::handle::{Space, TitleKey};
use nfs3_types::nfs3::nfstime3;
use reel_library::Library;
use reel_volume::TitleRecord;
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

/// All titles that can be read as one MP4 file, at one moment.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The titles of the volume that it was made from. Only compared: a list that is held would
    /// keep the space of removed titles.
    of: Weak<Vec<Arc<TitleRecord>>>,
    /// By number.
    titles: Vec<ListedTitle>,
    /// The bytes of all of them: a sum at each question would take long for a million.
    bytes: u64,
    changed: nfstime3,
}

/// A title as a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedTitle {
    pub(crate) id: String,
    pub(crate) key: TitleKey,
    pub(crate) bytes: u64,
    pub(crate) published_s: u64,
}

/// What follows the id of a title in the name of its file.
const SUFFIX: &[u8] = b".mp4";

impl Listing {
    /// Reads the titles of a library. Waits for the disks if there are titles whose indexes were
    /// not read yet.
    pub(crate) fn read(library: &Library) -> Listing {
        let records = library.volume().titles();
        let of = Arc::downgrade(&records);
        drop(records);
        let titles = library.summaries().into_iter().filter_map(|summary| {
            let file = summary.plain_file.as_ref()?;
            Some(ListedTitle {
                id: summary.id.clone(),
                key: TitleKey::new(&summary.id, &file.stamp),
                bytes: file.bytes,
                published_s: summary.added_unix_s,
            })
        });
        Listing { of, ..Listing::new(titles.collect(), now()) }
    }

    /// A listing of these titles.
    pub(crate) fn new(mut titles: Vec<ListedTitle>, changed: nfstime3) -> Listing {
        titles.sort_by_key(|title| title.key.number);
        // Two titles of one number cannot be told apart in a directory.
        titles.dedup_by_key(|title| title.key.number);
        let bytes = titles.iter().map(|title| title.bytes).fold(0, u64::saturating_add);
        Listing { of: Weak::new(), titles, bytes, changed }
    }

    /// Whether the library still has these titles; does not wait.
    pub(crate) fn is_of(&self, library: &Library) -> bool {
        Weak::as_ptr(&self.of) == Arc::as_ptr(&library.volume().titles())
    }

    /// When it was made.
    pub(crate) fn changed(&self) -> nfstime3 {
        self.changed
    }

    /// The title of a key; `None` if it is gone, or has other bytes now.
    pub(crate) fn title(&self, key: TitleKey) -> Option<&ListedTitle> {
        self.of_number(key.number).filter(|title| title.key == key)
    }

    /// The title of a file of this name in a directory.
    pub(crate) fn named(&self, space: Space, name: &[u8]) -> Option<&ListedTitle> {
        let id = match space {
            Space::Status => name,
            _ => name.strip_suffix(SUFFIX)?,
        };
        let id = std::str::from_utf8(id).ok()?;
        self.of_number(TitleKey::number_of(id)).filter(|title| title.id == id)
    }

    /// The titles whose numbers are greater than this one, in their order.
    pub(crate) fn after(&self, number: u64) -> &[ListedTitle] {
        &self.titles[self.titles.partition_point(|title| title.key.number <= number)..]
    }

    /// The bytes of all titles.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All titles.
    pub(crate) fn titles(&self) -> &[ListedTitle] {
        &self.titles
    }

    fn of_number(&self, number: u64) -> Option<&ListedTitle> {
        let at = self.titles.binary_search_by_key(&number, |title| title.key.number).ok()?;
        self.titles.get(at)
    }
}

impl ListedTitle {
    /// The name of its file in a directory.
    pub(crate) fn file_name(&self, space: Space) -> Vec<u8> {
        match space {
            Space::Status => self.id.clone().into_bytes(),
            _ => [self.id.as_bytes(), SUFFIX].concat(),
        }
    }
}

/// The file number of a title in a directory. It differs in each directory, because it is another
/// file there.
pub(crate) fn file_number(space: Space, number: u64) -> u64 {
    number << 3 | space as u64
}

/// The time of day.
pub(crate) fn now() -> nfstime3 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    nfstime3 { seconds: u32::try_from(since.as_secs()).unwrap_or(u32::MAX), nseconds: since.subsec_nanos() }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// So many titles of a kilobyte each.
    pub(crate) fn listing(titles: usize) -> Listing {
        let title = |number: usize| {
            let id = format!("film-{number}");
            let key = TitleKey::new(&id, "first");
            ListedTitle { id, key, bytes: 1024, published_s: 1_700_000_000 }
        };
        Listing::new((0..titles).map(title).collect(), nfstime3 { seconds: 1, nseconds: 2 })
    }

    #[test]
    fn titles_are_found_by_key_and_name() {
        let listing = listing(100);
        let title = listing.named(Space::Play, b"film-42.mp4").expect("listed");
        assert_eq!(title.id, "film-42");
        assert_eq!(listing.title(title.key), Some(title));
        assert_eq!(listing.title(TitleKey::new("film-42", "second")), None, "it has other bytes now");
        assert_eq!(listing.named(Space::Status, b"film-42"), Some(title));
        for name in [&b"film-42"[..], b"film-100.mp4", b"\xff.mp4", b".mp4", b""] {
            assert_eq!(listing.named(Space::Copy, name), None, "{name:?}");
        }
    }

    #[test]
    fn pages_continue_behind_a_title_that_is_gone() {
        let all = listing(100);
        let third = all.titles()[2].key.number;
        let without = all.titles().iter().filter(|title| title.key.number != third).cloned().collect();
        let later = Listing::new(without, nfstime3::default());
        assert_eq!(later.after(third), &all.titles()[3..]);
        assert_eq!((all.bytes(), later.bytes()), (100 * 1024, 99 * 1024));
        assert_eq!(all.after(0).len(), 100);
        assert_eq!(all.after(u64::MAX), []);
    }
}
