//! Which title was made from which file of a watched directory.
//!
//! The records are a text file in the volume's directory, not in the volume. Without them, a file
//! is known by its name, size and time alone.

use super::{SidecarStamp, Stamp};
use crate::limits::{TAKEN_BYTES_MAX, WATCH_FILES_MAX};
use crate::naming::{compared_file_name, path_file_name};
use crate::text_file;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};

/// The name of the text file.
const FILE_NAME: &str = "watched.txt";

/// The files that were taken, by their paths below the watched directory.
#[derive(Debug)]
pub(crate) struct Taken {
    /// `None` keeps no file.
    file: Option<PathBuf>,
    heading: String,
    by_path: BTreeMap<String, TakenFile>,
    /// The path of each title.
    by_title: HashMap<String, String>,
    is_changed: bool,
}

/// A file that a title was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TakenFile {
    pub(crate) stamp: Stamp,
    pub(crate) sidecars: SidecarStamp,
    /// The id of the title.
    pub(crate) title: String,
}

impl Taken {
    /// The records of a watched directory in the directory of a volume. Malformed lines are
    /// skipped. The records of another directory or volume do not count.
    pub(crate) fn load(volume_dir: &Path, volume: &str, watched: &Path) -> Taken {
        let heading = format!(
            "Files of {} that titles of volume {volume} were made from: bytes, seconds since 1970, \
             subtitle files, their bytes, their seconds, title, path",
            watched.to_string_lossy().replace(['\n', '\r'], "?")
        );
        let file = volume_dir.join(FILE_NAME);
        let mut taken = Taken {
            file: None,
            heading,
            by_path: BTreeMap::new(),
            by_title: HashMap::new(),
            is_changed: false,
        };
        match text_file::read(&file, TAKEN_BYTES_MAX) {
            Ok(text) => {
                let mut lines = text.lines();
                if lines.next() == Some(&taken.heading) {
                    lines.filter_map(parse).for_each(|(path, file)| taken.insert(&path, file));
                    taken.is_changed = false;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(
                "cannot read {}: {error}; files of the watched directory are known by name, size and time alone",
                file.display()
            ),
        }
        Taken { file: Some(file), ..taken }
    }

    #[cfg(test)]
    pub(crate) fn in_memory() -> Taken {
        Taken {
            file: None,
            heading: String::new(),
            by_path: BTreeMap::new(),
            by_title: HashMap::new(),
            is_changed: false,
        }
    }

    pub(crate) fn get(&self, path: &str) -> Option<&TakenFile> {
        self.by_path.get(path)
    }

    /// The path from which a title was made.
    pub(crate) fn path_of(&self, title: &str) -> Option<&str> {
        self.by_title.get(title).map(String::as_str)
    }

    /// The paths from which titles were made.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &TakenFile)> {
        self.by_path.iter().map(|(path, taken)| (path.as_str(), taken))
    }

    /// Records a file. A title belongs to one path: the file may have been moved.
    pub(crate) fn insert(&mut self, path: &str, taken: TakenFile) {
        if let Some(other) = self.by_title.get(&taken.title).filter(|other| *other != path) {
            self.is_changed |= self.by_path.remove(other).is_some();
        }
        // A record is one line.
        let is_line = !path.contains(['\n', '\r']);
        if is_line && (self.by_path.len() < WATCH_FILES_MAX || self.by_path.contains_key(path)) {
            self.by_title.insert(taken.title.clone(), path.to_owned());
            let before = self.by_path.insert(path.to_owned(), taken.clone());
            self.is_changed |= before.as_ref() != Some(&taken);
            if let Some(before) = before.filter(|before| before.title != taken.title) {
                self.by_title.remove(&before.title);
            }
        }
    }

    /// Writes the file in one step, if something has changed.
    pub(crate) fn keep(&mut self) {
        let Some(file) = self.file.as_ref().filter(|_| self.is_changed) else { return };
        self.is_changed = false;
        if let Err(error) = store(file, &self.heading, &self.by_path) {
            tracing::warn!("cannot write {}: {error}", file.display());
        }
    }
}

fn store(file: &Path, heading: &str, all: &BTreeMap<String, TakenFile>) -> io::Result<()> {
    let mut text = heading.to_owned();
    for (path, TakenFile { stamp, sidecars, title }) in all {
        let SidecarStamp { files, bytes, newest_unix_s } = sidecars;
        let Stamp { bytes: film_bytes, modified_unix_s, .. } = stamp;
        text.push_str(&format!(
            "\n{film_bytes} {modified_unix_s} {files} {bytes} {newest_unix_s} {title} {path}"
        ));
    }
    text.push('\n');
    text_file::replace(file, &text)
}

fn parse(line: &str) -> Option<(String, TakenFile)> {
    let mut words = line.splitn(7, ' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (bytes, modified_unix_s) = (number()?, number()?);
    let sidecars = SidecarStamp { files: number()?, bytes: number()?, newest_unix_s: number()? };
    let (title, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let file_name = compared_file_name(&path_file_name(Path::new(&path)));
    let stamp = Stamp { file_name, bytes, modified_unix_s };
    Some((path, TakenFile { stamp, sidecars, title }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn records_survive_and_belong_to_one_directory() {
        let dir = tempfile::tempdir().expect("tempdir");
        let file = |title: &str| TakenFile {
            stamp: Stamp { file_name: "a b.ts".to_owned(), bytes: 7, modified_unix_s: 8 },
            sidecars: SidecarStamp { files: 1, bytes: 2, newest_unix_s: 3 },
            title: title.to_owned(),
        };
        let load = |watched: &str| Taken::load(dir.path(), "ab12", Path::new(watched));
        let mut taken = load("/films");
        taken.insert("season 1/a b.ts", file("a-b"));
        taken.insert("two\nlines.ts", file("x"));
        taken.keep();
        let again = load("/films");
        assert_eq!(again.all().collect::<Vec<_>>(), [("season 1/a b.ts", &file("a-b"))]);
        assert_eq!(load("/others").all().count(), 0);
        fs::write(dir.path().join(FILE_NAME), [again.heading.as_bytes(), b"\n1 2 3\nx y z\n"].concat())
            .expect("written");
        assert_eq!(load("/films").all().count(), 0, "malformed lines");
    }
}
