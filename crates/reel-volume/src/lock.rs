//! Locks that keep a second program off a volume, and the identity of files.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::FlockOperation;

use crate::error::VolumeError;

/// How often a lock is tried, and the pause after each attempt. A child process has copies of all
/// descriptors until it runs its program, and so holds locks for some milliseconds that this
/// process has given up.
pub(crate) const ATTEMPTS: u32 = 20;
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// Locks an open file, exclusively or shared with other readers, without waiting for another
/// holder. The lock lasts until the file is closed.
pub(crate) fn lock(file: &File, path: &Path, exclusive: bool) -> Result<(), VolumeError> {
    let operation = if exclusive {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
    };
    for _ in 0..ATTEMPTS {
        match rustix::fs::flock(file, operation) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
            Err(error) => return Err(VolumeError::file(path, "lock")(error.into())),
        }
    }
    Err(VolumeError::Locked { path: path.to_owned(), holder: holder(file) })
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
    pid.map_or_else(|| "another process".to_owned(), process)
}

/// A process, for messages.
pub(crate) fn process(pid: u32) -> String {
    if pid == std::process::id() {
        return format!("this process ({pid})");
    }
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("process {pid} ({})", name.trim()),
        Err(_) => format!("process {pid}"),
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

    #[test]
    fn a_lock_that_is_given_up_at_once_is_no_other_holder() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let first = File::create(&path).unwrap();
        lock(&first, &path, true).unwrap();
        let holder = std::thread::spawn(move || {
            std::thread::sleep(PAUSE);
            drop(first);
        });
        lock(&File::open(&path).unwrap(), &path, false).unwrap();
        holder.join().unwrap();
    }
}
