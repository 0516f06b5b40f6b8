//! Locks that keep a second program off a volume, and the identity of files.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::FlockOperation;

use crate::error::VolumeError;

/// Locks an open file, exclusively or shared with other readers, without waiting. The lock lasts
/// until the file is closed.
pub(crate) fn lock(file: &File, path: &Path, exclusive: bool) -> Result<(), VolumeError> {
    let operation = if exclusive {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
    };
    match rustix::fs::flock(file, operation) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            Err(VolumeError::Locked { path: path.to_owned(), holder: holder(file) })
        }
        Err(error) => Err(VolumeError::file(path, "lock")(error.into())),
    }
}

/// Equal for two names of one disk. Two nodes of one device have different inodes, but one device
/// number.
pub(crate) fn identity(metadata: &Metadata) -> (bool, u64, u64) {
    match metadata.file_type().is_block_device() {
        true => (true, metadata.rdev(), 0),
        false => (false, metadata.dev(), metadata.ino()),
    }
}

/// The process that holds a lock on this file, for messages: the kernel lists locks by device and
/// inode.
fn holder(file: &File) -> String {
    let pid = file.metadata().ok().and_then(|metadata| {
        let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
        let place = format!("{major:02x}:{minor:02x}:{}", metadata.ino());
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        locks.lines().find_map(|line| holder_in(line, &place))
    });
    match pid {
        Some(pid) if pid == std::process::id() => format!("this process ({pid})"),
        Some(pid) => match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
            Ok(name) => format!("process {pid} ({})", name.trim()),
            Err(_) => format!("process {pid}"),
        },
        None => "another process".to_owned(),
    }
}

/// `1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF`
fn holder_in(line: &str, place: &str) -> Option<u32> {
    let mut words = line.split_whitespace().skip_while(|word| *word != "FLOCK");
    let (pid, found) = (words.nth(3)?, words.next()?);
    if found == place { pid.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_locks_is_parsed() {
        let line = "17: FLOCK  ADVISORY  WRITE 4711 fe:00:12345 0 EOF";
        assert_eq!(holder_in(line, "fe:00:12345"), Some(4711));
        assert_eq!(holder_in(line, "fe:00:1234"), None);
        assert_eq!(holder_in("9: POSIX  ADVISORY  WRITE 4711 fe:00:12345 0 EOF", "fe:00:12345"), None);
        assert_eq!(holder_in("", "fe:00:12345"), None);
    }

    #[test]
    fn the_second_locker_is_told_the_holder() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let first = File::create(&path).unwrap();
        lock(&first, &path, true).unwrap();
        let second = File::open(&path).unwrap();
        let text = lock(&second, &path, false).unwrap_err().to_string();
        assert!(text.contains("is in use by"), "{text}");
        drop(first);
        lock(&second, &path, false).unwrap();
    }
}
