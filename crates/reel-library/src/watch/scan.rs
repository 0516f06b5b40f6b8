//! One look at a watched directory and the directories below it.

use super::{SidecarStamp, Stamp, stamp};
use crate::limits::{WATCH_DEPTH_MAX, WATCH_FILES_MAX};
use crate::sidecar::{SUBTITLE_EXTENSIONS, belongs_to};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The extensions of containers that Reel reads; other files (artwork, notes) are skipped silently.
const EXTENSIONS: [&str; 10] = ["mp4", "m4v", "m4a", "mov", "mkv", "mka", "webm", "ts", "m2ts", "mts"];

/// What a scan found.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The directory and all below it that were read.
    pub(super) dirs: BTreeSet<PathBuf>,
    /// Media files.
    pub(super) films: BTreeMap<PathBuf, Found>,
    /// Files whose names say that another program is still writing them, with their sizes.
    pub(super) unfinished: BTreeMap<PathBuf, u64>,
    /// What is not looked at although it may hold a film, and why.
    pub(super) skipped: BTreeMap<PathBuf, String>,
    /// Parts of the directory that cannot be read, and why.
    pub(super) unreadable: BTreeMap<PathBuf, String>,
}

/// A file as a scan found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) stamp: Stamp,
    pub(super) nanos: u32,
    /// The device, and the number of the file on it: equal for two names of one file.
    pub(super) identity: (u64, u64),
    pub(super) sidecars: SidecarStamp,
}

impl Scan {
    /// Scans a directory. Hidden files and directories, partial files of browsers and copy
    /// programs, and links to directories are not followed.
    ///
    /// # Errors
    /// If the directory itself cannot be read.
    pub(super) fn of(dir: &Path) -> io::Result<Scan> {
        let mut scan = Scan::default();
        scan.walk(dir, 0)?;
        Ok(scan)
    }

    /// Whether everything was looked at.
    pub(super) fn is_complete(&self) -> bool {
        self.unreadable.is_empty()
    }

    fn walk(&mut self, dir: &Path, depth: usize) -> io::Result<()> {
        let mut films = Vec::new();
        let mut sidecars = BTreeMap::new();
        let entries = fs::read_dir(dir)?;
        self.dirs.insert(dir.to_owned());
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    self.unreadable.insert(dir.to_owned(), error.to_string());
                    continue;
                }
            };
            let path = entry.path();
            let name = entry.file_name();
            let Ok(kind) = entry.file_type() else { continue };
            let Some(name) = name.to_str() else {
                if kind.is_dir() || has_media_extension(&path) {
                    self.skipped.insert(path, "its name is not UTF-8; rename it".to_owned());
                }
                continue;
            };
            if is_hidden(name) {
                continue;
            }
            if is_unfinished(name) {
                if kind.is_file() && names_media(name) {
                    let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
                    self.unfinished.insert(path, bytes);
                }
                continue;
            }
            if kind.is_dir() {
                self.descend(&path, depth);
            } else if is_subtitle(&path) {
                if let Ok(metadata) = fs::metadata(&path) {
                    sidecars.insert(name.to_owned(), stamp(&path, &metadata).0);
                }
            } else if has_media_extension(&path) {
                films.push(path);
            } else if kind.is_symlink() && path.is_dir() {
                let reason = "links to directories are not followed; watch the directory itself";
                self.skipped.insert(path, reason.to_owned());
            }
        }
        films.into_iter().for_each(|film| self.add(film, &sidecars));
        Ok(())
    }

    fn descend(&mut self, dir: &Path, depth: usize) {
        if depth >= WATCH_DEPTH_MAX {
            let reason = format!("it is more than {WATCH_DEPTH_MAX} directories deep");
            self.skipped.insert(dir.to_owned(), reason);
        } else if let Err(error) = self.walk(dir, depth + 1) {
            self.unreadable.insert(dir.to_owned(), error.to_string());
        }
    }

    fn add(&mut self, film: PathBuf, sidecars: &BTreeMap<String, Stamp>) {
        if self.films.len() >= WATCH_FILES_MAX {
            let dir = film.parent().unwrap_or(&film).to_owned();
            let reason = format!("more than {WATCH_FILES_MAX} files: the rest is not watched");
            self.unreadable.entry(dir).or_insert(reason);
            return;
        }
        // Follows links to files: a library is often a directory of links.
        match fs::metadata(&film) {
            Ok(metadata) if metadata.is_file() => {
                let (stamp, nanos) = stamp(&film, &metadata);
                let identity = (metadata.dev(), metadata.ino());
                let sidecars = sidecars_of(&film, sidecars);
                self.films.insert(film, Found { stamp, nanos, identity, sidecars });
            }
            Ok(_) => {
                self.skipped.insert(film, "it is no plain file".to_owned());
            }
            Err(error) => {
                self.skipped.insert(film, error.to_string());
            }
        }
    }
}

/// The subtitle files of a film, of those in its directory.
fn sidecars_of(film: &Path, all: &BTreeMap<String, Stamp>) -> SidecarStamp {
    let Some(stem) = film.file_stem().and_then(|stem| stem.to_str()) else { return SidecarStamp::default() };
    let mut sum = SidecarStamp::default();
    let from = all.range(stem.to_owned()..).take_while(|(name, _)| name.starts_with(stem));
    for (_, stamp) in from.filter(|(name, _)| belongs_to(name, stem)) {
        sum.files += 1;
        sum.bytes = sum.bytes.saturating_add(stamp.bytes);
        sum.newest_unix_s = sum.newest_unix_s.max(stamp.modified_unix_s);
    }
    sum
}

fn is_hidden(name: &str) -> bool {
    name.starts_with(['.', '~', '#']) || name.ends_with('~')
}

fn is_unfinished(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    [".part", ".partial", ".crdownload", ".download", ".tmp", ".temp", ".!qb", ".aria2", ".filepart"]
        .iter()
        // `film.part.mp4` too: some programs put the mark before the extension.
        .any(|mark| lower.ends_with(mark) || lower.contains(&format!("{mark}.")))
}

/// Whether a partial file will be a film, as far as its name says: `film.mp4.part`.
fn names_media(name: &str) -> bool {
    name.split('.').skip(1).any(|part| EXTENSIONS.contains(&part.to_ascii_lowercase().as_str()))
}

pub(super) fn has_media_extension(path: &Path) -> bool {
    has_extension(path, &EXTENSIONS)
}

fn is_subtitle(path: &Path) -> bool {
    has_extension(path, &SUBTITLE_EXTENSIONS)
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension()
        .and_then(|extension| extension.to_str())
        .is_some_and(|extension| extensions.contains(&extension.to_ascii_lowercase().as_str()))
}
