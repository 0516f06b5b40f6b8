//! A file that gets its name when it is complete, or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use reel_volume::{Output, ensure_output};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use crate::failure::Failure;

/// A file being written that has no name yet. Nothing of it remains if the process ends, for
/// whatever reason.
pub(crate) struct NewFile {
    file: File,
    target: PathBuf,
    replace: bool,
}

impl NewFile {
    /// Begins a file that will be named `target`; an existing file is refused unless `replace`.
    /// Only a regular file is ever replaced: a pipe, a device or a link such as `/dev/stdout` is
    /// refused ([`io::ErrorKind::InvalidInput`]).
    pub(crate) fn create(target: &Path, replace: bool) -> io::Result<Self> {
        match fs::symlink_metadata(target) {
            Ok(_) if !replace => return Err(io::Error::from(io::ErrorKind::AlreadyExists)),
            Ok(metadata) if metadata.is_dir() => return Err(io::Error::from(io::ErrorKind::IsADirectory)),
            Ok(metadata) if !metadata.is_file() => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
            }
            _ => {}
        }
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open(directory(target), flags, Mode::from_raw_mode(0o666))?;
        Ok(Self { file: file.into(), target: target.to_owned(), replace })
    }

    /// The same at a path that a user names, which may lead to something that is not replaced.
    pub(crate) fn at_users_path(target: &Path, force: bool) -> Result<Self, Failure> {
        ensure_output(target, Output::File, force).map_err(Failure::volume)?;
        Self::create(target, force).map_err(|error| Failure::path("write", target, &error))
    }

    /// Makes the bytes durable, then gives the file its name.
    pub(crate) fn publish(self) -> io::Result<()> {
        self.file.sync_all()?;
        if !self.replace {
            return self.link(&self.target);
        }
        // A link cannot replace a file; a rename can, so the file gets a temporary name first.
        let temporary =
            directory(&self.target).join(format!(".reel-{}-{}", std::process::id(), self.file.as_raw_fd()));
        self.link(&temporary)?;
        fs::rename(&temporary, &self.target).inspect_err(|_| drop(fs::remove_file(&temporary)))
    }

    fn link(&self, name: &Path) -> io::Result<()> {
        let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        Ok(rustix::fs::linkat(CWD, open, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_appears_when_it_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("film.mp4");
        let mut file = NewFile::create(&target, false).unwrap();
        file.write_all(b"film").unwrap();
        assert!(names(dir.path()).is_empty());
        file.publish().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"film");
        assert_eq!(names(dir.path()), ["film.mp4"]);
    }

    #[test]
    fn an_abandoned_file_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = NewFile::create(&dir.path().join("film.mp4"), false).unwrap();
        file.write_all(b"film").unwrap();
        drop(file);
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn an_existing_file_is_replaced_only_if_requested() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("film.mp4");
        fs::write(&target, "old").unwrap();
        let refused = NewFile::create(&target, false).err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        let mut file = NewFile::create(&target, true).unwrap();
        file.write_all(b"new").unwrap();
        file.publish().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(names(dir.path()), ["film.mp4"]);
    }
}
