//! Ingests files from a directory as they arrive.

use crate::limits::{WATCH_DEPTH_MAX, WATCH_FILES_MAX, WATCH_PERIOD};
use crate::naming::path_file_name;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::UNIX_EPOCH;

/// The extensions of containers that Reel reads; other files (artwork, notes, subtitles) are
/// skipped silently.
const EXTENSIONS: [&str; 10] = ["mp4", "m4v", "m4a", "mov", "mkv", "mka", "webm", "ts", "m2ts", "mts"];

/// Identifies a file's content without reading it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The name without its directory.
    pub file_name: String,
    /// Size.
    pub bytes: u64,
    /// Modification time in seconds since 1970; 0 when it is earlier or not known.
    pub modified_unix_s: u64,
}

/// A file that is ready to be ingested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its path.
    pub path: PathBuf,
    /// Its stamp, by which the catalogue identifies it later.
    pub stamp: Stamp,
}

/// Scans a directory repeatedly and reports which files have arrived completely.
///
/// A file is ready when two consecutive scans saw the same size and time. Each state of a file is
/// reported once: after a failure it is reported again only when the file has changed.
#[derive(Debug)]
pub struct Watcher {
    dir: PathBuf,
    seen: HashMap<PathBuf, Seen>,
    complained: HashSet<PathBuf>,
    complaints: Vec<String>,
}

/// Scans `dir` every [`WATCH_PERIOD`] and passes every complete new file to `take`, until the
/// sender of `stop` is dropped. Blocks. `take` may be slow; the next scan is later then. A
/// directory that cannot be read is logged once and tried again, so that a disk may be mounted
/// later.
pub fn watch(
    dir: &Path,
    stop: &Receiver<Infallible>,
    known: impl Fn(&Stamp) -> bool,
    mut take: impl FnMut(Arrival),
) {
    let mut watcher = Watcher::new(dir);
    let mut readable = true;
    loop {
        match watcher.scan(&known) {
            Ok(arrivals) => {
                if !readable {
                    tracing::info!(dir = %dir.display(), "the watched directory can be read again");
                }
                readable = true;
                arrivals.into_iter().for_each(&mut take);
            }
            Err(e) if readable => {
                readable = false;
                tracing::warn!(dir = %dir.display(), error = %e, "the watched directory cannot be read; it is tried again");
            }
            Err(_) => {}
        }
        for complaint in watcher.take_complaints() {
            tracing::warn!("{complaint}");
        }
        if stop.recv_timeout(WATCH_PERIOD) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

#[derive(Debug)]
struct Seen {
    stamp: Stamp,
    nanos: u32,
    reported: bool,
}

impl Watcher {
    /// A watcher of `dir` and the directories below it. Nothing is read before the first
    /// [`Watcher::scan`].
    pub fn new(dir: &Path) -> Watcher {
        Watcher {
            dir: dir.to_owned(),
            seen: HashMap::new(),
            complained: HashSet::new(),
            complaints: Vec::new(),
        }
    }

    /// Scans the directory once and returns the files that are complete and that `known` (are they
    /// in the catalogue?) does not know. Hidden files and directories, partial files of browsers
    /// and copy programs, symbolic links to directories and empty files are skipped.
    ///
    /// # Errors
    /// If the directory itself cannot be read. Errors below it are returned by
    /// [`Watcher::take_complaints`].
    pub fn scan(&mut self, known: impl Fn(&Stamp) -> bool) -> io::Result<Vec<Arrival>> {
        let mut files = Vec::new();
        let complete = self.walk(&self.dir.clone(), 0, &mut files)?;
        if complete {
            // Files that are gone are dropped, so that a file that is put back later is new.
            let present: HashSet<&PathBuf> = files.iter().map(|(path, ..)| path).collect();
            self.seen.retain(|path, _| present.contains(path));
        }
        files.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        let mut ready = Vec::new();
        for (path, stamp, nanos) in files {
            match self.seen.get_mut(&path) {
                Some(seen) if seen.stamp == stamp && seen.nanos == nanos => {
                    if !seen.reported && stamp.bytes > 0 {
                        seen.reported = true;
                        if !known(&stamp) {
                            ready.push(Arrival { path, stamp });
                        }
                    }
                }
                _ => {
                    self.seen.insert(path, Seen { stamp, nanos, reported: false });
                }
            }
        }
        Ok(ready)
    }

    /// Messages about parts of the directory that cannot be read; each is returned once.
    pub fn take_complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.complaints)
    }

    /// Collects files; `false` if something could not be read or the limit was reached.
    fn walk(&mut self, dir: &Path, depth: usize, files: &mut Vec<(PathBuf, Stamp, u32)>) -> io::Result<bool> {
        let mut complete = true;
        for entry in fs::read_dir(dir)? {
            let Ok(entry) = entry else {
                complete = false;
                continue;
            };
            let path = entry.path();
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            let Ok(kind) = entry.file_type() else { continue };
            if is_skipped(&name) {
                continue;
            }
            if kind.is_dir() {
                if depth < WATCH_DEPTH_MAX
                    && let Err(e) = self.walk(&path, depth + 1, files)
                {
                    complete = false;
                    self.complain(&path, &e);
                }
                continue;
            }
            if !has_media_extension(&path) {
                continue;
            }
            if files.len() >= WATCH_FILES_MAX {
                self.complain(
                    &self.dir.clone(),
                    &io::Error::other(format!("more than {WATCH_FILES_MAX} files: the rest is not watched")),
                );
                return Ok(false);
            }
            // Follows links to files: a library is often a directory of links.
            if let Ok(metadata) = fs::metadata(&path)
                .and_then(|m| if m.is_file() { Ok(m) } else { Err(io::ErrorKind::Other.into()) })
            {
                let (stamp, nanos) = stamp(&path, &metadata);
                files.push((path, stamp, nanos));
            }
        }
        Ok(complete)
    }

    fn complain(&mut self, path: &Path, error: &io::Error) {
        if self.complained.insert(path.to_owned()) {
            self.complaints.push(format!("cannot read {}: {error}", path.display()));
        }
    }
}

/// The stamp of a file as the catalogue stores it.
///
/// # Errors
/// If the metadata of the file cannot be read.
pub fn stamp_of(path: &Path) -> io::Result<Stamp> {
    Ok(stamp(path, &fs::metadata(path)?).0)
}

fn stamp(path: &Path, metadata: &fs::Metadata) -> (Stamp, u32) {
    let since =
        metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    (
        Stamp { file_name: path_file_name(path), bytes: metadata.len(), modified_unix_s: since.as_secs() },
        since.subsec_nanos(),
    )
}

fn is_skipped(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    name.starts_with(['.', '~', '#'])
        || name.ends_with('~')
        || [".part", ".partial", ".crdownload", ".download", ".tmp", ".temp", ".!qb", ".aria2", ".filepart"]
            .iter()
            // `film.part.mp4` too: some programs put the mark before the extension.
            .any(|mark| lower.ends_with(mark) || lower.contains(&format!("{mark}.")))
}

fn has_media_extension(path: &Path) -> bool {
    path.extension()
        .and_then(|e| e.to_str())
        .is_some_and(|e| EXTENSIONS.contains(&e.to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn names(arrivals: &[Arrival]) -> Vec<&str> {
        arrivals.iter().map(|a| a.stamp.file_name.as_str()).collect()
    }

    #[test]
    fn a_file_is_ready_when_it_stops_changing() {
        let dir = tempfile::tempdir().expect("tempdir");
        let film = dir.path().join("film.mp4");
        let mut watcher = Watcher::new(dir.path());
        fs::write(&film, "a").expect("written");
        assert_eq!(watcher.scan(|_| false).expect("readable"), []);
        fs::write(&film, "ab").expect("written");
        assert_eq!(watcher.scan(|_| false).expect("readable"), [], "it grew");
        let ready = watcher.scan(|_| false).expect("readable");
        assert_eq!(names(&ready), ["film.mp4"]);
        assert_eq!(ready[0].stamp.bytes, 2);
        assert_eq!(watcher.scan(|_| false).expect("readable"), [], "reported once");
        fs::write(&film, "abc").expect("written");
        watcher.scan(|_| false).expect("readable");
        assert_eq!(names(&watcher.scan(|_| false).expect("readable")), ["film.mp4"], "it changed");
    }

    #[test]
    fn everything_but_complete_media_files_is_skipped() {
        let dir = tempfile::tempdir().expect("tempdir");
        let season = dir.path().join("Series/Season 1");
        fs::create_dir_all(&season).expect("made");
        fs::create_dir_all(dir.path().join(".hidden")).expect("made");
        for name in [
            ".hidden.mp4",
            "film.mp4.part",
            "film.part.mp4",
            "film.mkv.crdownload",
            "notes.txt",
            "~film.mp4",
            ".hidden/film.mp4",
            "a.MKV",
            "known.webm",
            "Series/Season 1/b ö.ts",
        ] {
            fs::write(dir.path().join(name), "x").expect("written");
        }
        fs::write(dir.path().join("empty.mp4"), "").expect("written");
        let mut watcher = Watcher::new(dir.path());
        assert_eq!(watcher.scan(|_| false).expect("readable"), []);
        let ready = watcher.scan(|stamp| stamp.file_name == "known.webm").expect("readable");
        assert_eq!(names(&ready), ["b ö.ts", "a.MKV"]);
    }

    #[test]
    fn link_loops_end_and_a_file_that_is_put_back_is_seen_again() {
        let dir = tempfile::tempdir().expect("tempdir");
        std::os::unix::fs::symlink(dir.path(), dir.path().join("again")).expect("linked");
        let film = dir.path().join("film.mp4");
        let mut watcher = Watcher::new(dir.path());
        for _ in 0..2 {
            fs::write(&film, "x").expect("written");
            assert_eq!(watcher.scan(|_| false).expect("readable"), []);
            assert_eq!(names(&watcher.scan(|_| false).expect("readable")), ["film.mp4"]);
            fs::remove_file(&film).expect("removed");
            assert_eq!(watcher.scan(|_| false).expect("readable"), []);
        }
        assert!(Watcher::new(&dir.path().join("none")).scan(|_| false).is_err());
    }

    #[test]
    fn watching_ends_with_its_sender() {
        let dir = tempfile::tempdir().expect("tempdir");
        let (sender, stop) = mpsc::channel();
        drop(sender);
        watch(dir.path(), &stop, |_| false, |_| panic!("nothing is there"));
        watch(&dir.path().join("none"), &stop, |_| false, |_| panic!("nothing is there"));
    }
}
