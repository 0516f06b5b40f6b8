//! The one directory in which sessions may be written to files.

use crate::part::Part;
use crate::refused::JoinRefused;
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, flock, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use reel_rt::lock;

/// What the names of files begin with that are not complete.
pub(crate) const PART_PREFIX: &str = ".reel-join-";

/// How the kernel names the file systems that `reel mount` mounts: for users, and for root, whose
/// mounts do not say whose they are.
const OWN_FILE_SYSTEMS: [&str; 2] = ["fuse.reel", "fuse"];

/// A directory that was opened. Whatever is mounted over it or done with its name later, files go
/// to this directory.
pub struct JoinDirectory {
    directory: OwnedFd,
    path: PathBuf,
    /// The names of files that are being written.
    taken: Mutex<HashSet<String>>,
}

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The system does not open it.
    #[error(transparent)]
    Open(#[from] io::Error),
    /// It is one of our own files.
    #[error(
        "it is within a tree that `reel mount` has mounted (or within a file system of FUSE that does not say what it is), and \
         this server may answer for its files: it would wait for itself; choose a directory of another file system"
    )]
    OwnMount,
}

/// The name of a file is taken until this is dropped.
pub(crate) struct TakenName {
    directory: Arc<JoinDirectory>,
    name: String,
}

impl JoinDirectory {
    /// Opens the directory, and removes what servers have left in it that were killed.
    ///
    /// # Errors
    /// It cannot be opened, or is within a tree that `reel mount` has mounted.
    pub fn open(path: &Path) -> Result<Arc<JoinDirectory>, DirectoryError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // As it is written, and as it is: to look it up would ask a server that is to start.
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        if is_own(&mounts, &std::path::absolute(path)?) || is_own(&mounts, &fs::canonicalize(path)?) {
            return Err(DirectoryError::OwnMount);
        }
        let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from)?;
        let directory = JoinDirectory { directory, path: path.to_owned(), taken: Mutex::default() };
        directory.remove_left_over()?;
        Ok(Arc::new(directory))
    }

    /// Its path when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.directory
    }

    /// Begins a file that will have this name when it is complete.
    ///
    /// # Errors
    /// There is something of this name, or no file can be made.
    pub(crate) fn begin(self: &Arc<Self>, name: &str) -> Result<Part, JoinRefused> {
        if !lock(&self.taken).insert(name.to_owned()) {
            return Err(JoinRefused::BeingWritten(name.to_owned()));
        }
        let taken = TakenName { directory: Arc::clone(self), name: name.to_owned() };
        match statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => return Err(JoinRefused::Exists(name.to_owned())),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(JoinRefused::File(error.into())),
        }
        Part::create(taken).map_err(JoinRefused::File)
    }

    /// Removes files that are not complete and that no server writes.
    fn remove_left_over(&self) -> io::Result<()> {
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_bytes().starts_with(PART_PREFIX.as_bytes()) && self.is_left_over(name) {
                unlinkat(&self.directory, name, AtFlags::empty())?;
                tracing::info!(
                    "removed {} of {}, which a server has not completed",
                    name.to_string_lossy(),
                    self.path.display()
                );
            }
        }
        Ok(())
    }

    /// A server that writes a part has locked it.
    fn is_left_over(&self, name: &CStr) -> bool {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = openat(&self.directory, name, flags, Mode::empty()) else { return false };
        let is_file =
            fstat(&file).is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file());
        is_file && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
    }
}

impl TakenName {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn directory(&self) -> &JoinDirectory {
        &self.directory
    }
}

impl Drop for TakenName {
    fn drop(&mut self) {
        lock(&self.directory.taken).remove(&self.name);
    }
}

/// Whether a directory is within a tree that `reel mount` has mounted, by the table of mounts
/// (proc(5), `/proc/[pid]/mountinfo`).
fn is_own(mounts: &str, directory: &Path) -> bool {
    let mount = |line: &str| {
        let (place, kind) = line.split_once(" - ")?;
        let at = PathBuf::from(unescaped(place.split(' ').nth(4)?));
        Some((at, OWN_FILE_SYSTEMS.contains(&kind.split(' ').next()?)))
    };
    // A later mount lies over an earlier one.
    let above = mounts.lines().filter_map(mount).filter(|(at, _)| directory.starts_with(at));
    let mut nearest: Option<(PathBuf, bool)> = None;
    for (at, is_own) in above {
        if nearest.as_ref().is_none_or(|(other, _)| at.components().count() >= other.components().count()) {
            nearest = Some((at, is_own));
        }
    }
    nearest.is_some_and(|(_, is_own)| is_own)
}

/// The table of mounts writes spaces and the like as `\040`.
fn unescaped(text: &str) -> String {
    let mut plain = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 8).ok());
        match code {
            Some(byte) => {
                plain.push(byte);
                rest = &after[3..];
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
        40 22 0:50 / /mnt/reel rw,nosuid - fuse.reel http://127.0.0.1:8080 rw\n\
        41 40 0:51 / /mnt/reel/under rw - tmpfs tmpfs rw\n\
        42 22 0:52 / /mnt/a\\040b rw - fuse.reel reel rw\n\
        43 22 0:53 / /mnt/other rw - fuse.mergerfs a:b rw\n\
        45 22 0:55 / /mnt/root rw - fuse http://127.0.0.1:8080 rw\n";

    #[test]
    fn directories_of_our_own_mounts_are_found() {
        for own in ["/mnt/reel", "/mnt/reel/titles", "/mnt/a b/c", "/mnt/root/titles"] {
            assert!(is_own(MOUNTS, Path::new(own)), "{own}");
        }
        for other in ["/", "/mnt", "/mnt/reels", "/mnt/reel/under", "/mnt/other/a", "/srv"] {
            assert!(!is_own(MOUNTS, Path::new(other)), "{other}");
        }
        let over = format!("{MOUNTS}44 22 0:54 / /mnt/reel rw - tmpfs tmpfs rw\n");
        assert!(!is_own(&over, Path::new("/mnt/reel")), "another one lies over it");
    }

    #[test]
    fn what_a_killed_server_left_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().expect("tempdir");
        let at = |name: &str| dir.path().join(name);
        fs::write(at(".reel-join-1-0"), b"half").expect("written");
        fs::write(at(".reel-join"), b"of the operator").expect("written");
        fs::write(at("film.mp4"), b"whole").expect("written");
        std::os::unix::fs::symlink(at("film.mp4"), at(".reel-join-link")).expect("linked");
        let first = JoinDirectory::open(dir.path()).expect("opened");
        let part = first.begin("copy.mp4").expect("begun");
        // Another server that begins leaves alone what this one writes.
        drop(JoinDirectory::open(dir.path()).expect("opened"));
        let mut names: Vec<_> = fs::read_dir(dir.path())
            .expect("read")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names.sort();
        assert_eq!(names.len(), 4, "{names:?}");
        drop(part);
        let left: HashSet<_> = fs::read_dir(dir.path())
            .expect("read")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert!(!left.contains(std::ffi::OsStr::new("copy.mp4")) && left.len() == 3, "{left:?}");
    }

    #[test]
    fn what_exists_is_not_replaced_and_links_are_not_followed() {
        let dir = tempfile::tempdir().expect("tempdir");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("film.mp4"), b"whole").expect("written");
        std::os::unix::fs::symlink("/nowhere", at("link")).expect("linked");
        fs::create_dir(at("directory")).expect("made");
        let directory = JoinDirectory::open(dir.path()).expect("opened");
        for name in ["film.mp4", "link", "directory"] {
            assert!(matches!(directory.begin(name), Err(JoinRefused::Exists(_))), "{name}");
        }
        let part = directory.begin("new").expect("begun");
        assert!(matches!(directory.begin("new"), Err(JoinRefused::BeingWritten(_))));
        drop(part);
        assert!(directory.begin("new").is_ok(), "the name is free again");
    }
}
