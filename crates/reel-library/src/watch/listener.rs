//! What programs do with the files of a watched directory, as the kernel reports it (inotify(7)).
//!
//! There are no reports of what other machines do on a file system of the network, of what is
//! written through a mapping, and of directories beyond the kernel's limits. Such files are judged
//! without them.

use super::scan::has_media_extension;
use crate::limits::{WATCH_DIRECTORIES_MAX, WATCH_REPORTS_MAX};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A report about a media file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// A program has written to it.
    Written(PathBuf),
    /// A program that could write to it has closed it, or it was moved here.
    Closed(PathBuf),
    /// Reports were lost: all that was known is old.
    Lost,
}

/// Listens to directories.
#[derive(Debug)]
pub(super) struct Listener {
    inotify: OwnedFd,
    by_number: HashMap<i32, PathBuf>,
    numbers: HashMap<PathBuf, i32>,
}

/// Bytes of reports that are read at once: at least one with the longest name.
const BUFFER_BYTES: usize = 16 << 10;

impl Listener {
    /// `None` where the kernel has no more of them.
    pub(super) fn new() -> Option<Listener> {
        let made = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
        let inotify = made.inspect_err(|error| {
            tracing::info!(%error, "the kernel does not report what is written to the watched directory: files count as complete when they have not changed for a while");
        });
        Some(Listener { inotify: inotify.ok()?, by_number: HashMap::new(), numbers: HashMap::new() })
    }

    /// Listens to these directories and no others.
    pub(super) fn follow(&mut self, dirs: &BTreeSet<PathBuf>) {
        let gone: Vec<PathBuf> = self.numbers.keys().filter(|dir| !dirs.contains(*dir)).cloned().collect();
        for dir in gone {
            let Some(number) = self.numbers.remove(&dir) else { continue };
            // A directory that was moved keeps its number.
            if self.by_number.get(&number) == Some(&dir) {
                self.by_number.remove(&number);
                // It fails if the directory was removed.
                let _ = inotify::remove_watch(&self.inotify, number);
            }
        }
        let what = WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        for dir in dirs {
            if self.numbers.len() >= WATCH_DIRECTORIES_MAX {
                return;
            }
            if self.numbers.get(dir).is_some_and(|number| self.by_number.get(number) == Some(dir)) {
                continue;
            }
            if let Ok(number) = inotify::add_watch(&self.inotify, dir, what) {
                self.by_number.insert(number, dir.clone());
                self.numbers.insert(dir.clone(), number);
            }
        }
    }

    /// What was reported since the last call. Does not wait.
    pub(super) fn heard(&mut self) -> Vec<Report> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut reports = Vec::new();
        for _ in 0..WATCH_REPORTS_MAX {
            // There is no more, or it cannot be read.
            let Ok(event) = reader.next() else { return reports };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                reports.push(Report::Lost);
                continue;
            }
            if event.events().contains(ReadFlags::IGNORED) {
                self.by_number.remove(&event.wd());
                continue;
            }
            let (Some(dir), Some(name)) = (self.by_number.get(&event.wd()), event.file_name()) else {
                continue;
            };
            let path = dir.join(OsStr::from_bytes(name.to_bytes()));
            if !has_media_extension(&path) {
                continue;
            }
            let is_written = event.events().contains(ReadFlags::MODIFY);
            reports.push(if is_written { Report::Written(path) } else { Report::Closed(path) });
        }
        // More than anybody writes between two scans.
        reports.push(Report::Lost);
        reports
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::io::Write;

    fn dirs(dirs: &[&std::path::Path]) -> BTreeSet<PathBuf> {
        dirs.iter().map(|dir| (*dir).to_owned()).collect()
    }

    #[test]
    fn writing_closing_and_moving_are_heard() {
        let dir = tempfile::tempdir().expect("tempdir");
        let below = dir.path().join("below");
        fs::create_dir(&below).expect("made");
        let mut listener = Listener::new().expect("inotify");
        listener.follow(&dirs(&[dir.path(), &below]));
        assert_eq!(listener.heard(), []);
        let path = below.join("film.ts");
        let mut file = File::create(&path).expect("made");
        file.write_all(b"a").expect("written");
        assert_eq!(listener.heard(), [Report::Written(path.clone())]);
        drop(file);
        assert_eq!(listener.heard(), [Report::Closed(path.clone())]);
        drop(File::open(&path).expect("read"));
        fs::write(below.join("notes.txt"), "a").expect("written");
        assert_eq!(listener.heard(), [], "who reads does not matter, nor what is no film");
        let moved = dir.path().join("moved.ts");
        fs::rename(&path, &moved).expect("moved");
        assert_eq!(listener.heard(), [Report::Closed(moved)]);
    }

    #[test]
    fn a_directory_is_followed_under_its_new_name_and_not_after_its_end() {
        let dir = tempfile::tempdir().expect("tempdir");
        let [before, after] = ["before", "after"].map(|name| dir.path().join(name));
        fs::create_dir(&before).expect("made");
        let mut listener = Listener::new().expect("inotify");
        listener.follow(&dirs(&[&before]));
        fs::rename(&before, &after).expect("moved");
        listener.follow(&dirs(&[&after]));
        fs::write(after.join("film.ts"), "a").expect("written");
        let path = after.join("film.ts");
        assert_eq!(listener.heard(), [Report::Written(path.clone()), Report::Closed(path)]);
        listener.follow(&dirs(&[]));
        fs::write(after.join("film.ts"), "b").expect("written");
        assert_eq!(listener.heard(), []);
        listener.follow(&dirs(&[&after]));
        fs::remove_dir_all(&after).expect("removed");
        fs::create_dir(&after).expect("made");
        listener.heard();
        listener.follow(&dirs(&[&after]));
        fs::write(after.join("film.ts"), "a").expect("written");
        assert_eq!(listener.heard().len(), 2, "another directory of the same name");
    }
}
