//! Files whose titles were removed: a file that is still in a watched directory must not be
//! ingested again.
//!
//! The records are a text file in the volume's directory, not in the volume: if they are lost, a
//! removal has to be repeated.

use crate::limits::{REMOVED_BYTES_MAX, REMOVED_MAX};
use crate::text_file;
use crate::watch::Stamp;
use std::collections::{HashSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

/// The name of the text file.
const FILE_NAME: &str = "removed.txt";

/// The removed titles of one volume, the oldest first.
#[derive(Debug)]
pub(crate) struct Removed {
    path: PathBuf,
    /// The volume's id: another volume may be created in the same directory.
    volume: String,
    order: VecDeque<Stamp>,
    stamps: HashSet<Stamp>,
}

impl Removed {
    /// The records in the directory of a volume. Malformed lines are skipped.
    pub(crate) fn load(directory: &Path, volume: String) -> Removed {
        let path = directory.join(FILE_NAME);
        let mut removed = Removed { path, volume, order: VecDeque::new(), stamps: HashSet::new() };
        match text_file::read(&removed.path, REMOVED_BYTES_MAX) {
            Ok(text) => {
                let mut lines = text.lines();
                if lines.next() == Some(&removed.heading()) {
                    lines.filter_map(parse).for_each(|stamp| {
                        removed.add(stamp);
                    });
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(
                "cannot read {}: {error}; removed titles may be ingested again from a watched directory",
                removed.path.display()
            ),
        }
        removed
    }

    /// Whether the title of exactly this file was removed.
    pub(crate) fn contains(&self, stamp: &Stamp) -> bool {
        self.stamps.contains(stamp)
    }

    /// Records a file, also for the next start. `false` if it was recorded before.
    pub(crate) fn remember(&mut self, stamp: Stamp) -> bool {
        let is_new = self.add(stamp);
        self.keep();
        is_new
    }

    /// Drops the record of a file whose title could not be removed.
    pub(crate) fn forget(&mut self, stamp: &Stamp) {
        if self.stamps.remove(stamp) {
            self.order.retain(|other| other != stamp);
            self.keep();
        }
    }

    fn keep(&self) {
        if let Err(error) = self.store() {
            tracing::warn!(
                "cannot write {}: {error}; the title may be ingested again from a watched directory at the next start",
                self.path.display()
            );
        }
    }

    fn add(&mut self, stamp: Stamp) -> bool {
        // A record is one line.
        if stamp.file_name.contains(['\n', '\r']) || !self.stamps.insert(stamp.clone()) {
            return false;
        }
        self.order.push_back(stamp);
        if self.order.len() > REMOVED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.stamps.remove(&oldest);
        }
        true
    }

    /// Writes the file in one step.
    fn store(&self) -> io::Result<()> {
        let mut text = self.heading();
        for Stamp { file_name, bytes, modified_unix_s } in &self.order {
            text.push_str(&format!("\n{bytes} {modified_unix_s} {file_name}"));
        }
        text.push('\n');
        // It must be durable before the title is gone.
        text_file::replace(&self.path, &text)
    }

    fn heading(&self) -> String {
        format!(
            "Files whose titles were removed from volume {}: bytes, seconds since 1970, name",
            self.volume
        )
    }
}

fn parse(line: &str) -> Option<Stamp> {
    let mut words = line.splitn(3, ' ');
    let (bytes, modified_unix_s) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(Stamp { file_name: words.next()?.to_owned(), bytes, modified_unix_s })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn stamp(number: usize) -> Stamp {
        Stamp { file_name: format!("film {number}.mp4"), bytes: number as u64, modified_unix_s: 7 }
    }

    fn load(directory: &Path) -> Removed {
        Removed::load(directory, "ab12".to_owned())
    }

    #[test]
    fn a_removal_is_known_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let mut removed = load(directory.path());
        assert!((0..3).all(|number| removed.remember(stamp(number))));
        assert!(!removed.remember(stamp(1)));
        let again = load(directory.path());
        assert!((0..3).all(|number| again.contains(&stamp(number))) && again.order.len() == 3);
        assert!(!again.contains(&Stamp { modified_unix_s: 8, ..stamp(1) }), "it was changed since");
        let other = Removed::load(directory.path(), "cd34".to_owned());
        assert!(!other.contains(&stamp(1)), "another volume replaced the first");
    }

    #[test]
    fn a_removal_that_failed_is_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let mut removed = load(directory.path());
        assert!((0..3).all(|number| removed.remember(stamp(number))));
        removed.forget(&stamp(1));
        removed.forget(&stamp(7));
        for removed in [removed, load(directory.path())] {
            assert!(!removed.contains(&stamp(1)) && removed.contains(&stamp(2)) && removed.order.len() == 2);
        }
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let mut removed = load(directory.path());
        assert!((0..REMOVED_MAX).all(|number| removed.add(stamp(number))));
        removed.remember(stamp(REMOVED_MAX));
        let again = load(directory.path());
        assert!(!again.contains(&stamp(0)) && again.contains(&stamp(1)));
        assert!(again.contains(&stamp(REMOVED_MAX)));
    }

    #[test]
    fn names_are_kept_and_malformed_lines_are_skipped() {
        let directory = tempfile::tempdir().unwrap();
        let mut removed = load(directory.path());
        let odd = |name: &str| Stamp { file_name: name.to_owned(), ..stamp(1) };
        removed.remember(odd(" 5 6  x "));
        removed.remember(odd("a\n1 1 b"));
        assert!(load(directory.path()).contains(&odd(" 5 6  x ")));
        assert_eq!(load(directory.path()).order.len(), 1);
        let path = directory.path().join(FILE_NAME);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{text}\nrubbish\n1 x y\n-1 2 z\n3 4 good\n")).unwrap();
        assert_eq!(load(directory.path()).order.len(), 2);
        fs::write(&path, [0xff; 100]).unwrap();
        assert_eq!(load(directory.path()).order.len(), 0);
    }
}
