//! A file that is being written, and has its name when it is complete. Its calls wait for disks.

use crate::directory::{JoinDirectory, PART_PREFIX, TakenName};
use crate::limits::{DIRTY_BYTES_MAX, PART_NAMES_MAX};
use reel_ring::Chunk;
use rustix::fs::{
    Advice, AtFlags, FlockOperation, Mode, OFlags, RenameFlags, fadvise, fdatasync, flock, fsync, linkat,
    openat, renameat_with, unlinkat,
};
use rustix::io::{Errno, pwritev, retry_on_intr};
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// Most pieces of one write: more than the leases that a chain hands out at once.
const PIECES_MAX: usize = 64;

/// Numbers the parts of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A file without its name. It is removed when this is dropped before [`Part::complete`].
pub(crate) struct Part {
    file: OwnedFd,
    /// Its present name; `None` once it has the one that it was made for.
    part: Option<String>,
    taken: TakenName,
    written_bytes: u64,
    /// Bytes of these that are durable, and not in the page cache any more.
    synced_bytes: u64,
}

impl Part {
    /// Makes the file, which only its owner can read.
    ///
    /// # Errors
    /// The directory takes no file.
    pub(crate) fn create(taken: TakenName) -> io::Result<Part> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut tries = 0;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let part = format!("{PART_PREFIX}{}-{number}", std::process::id());
            match openat(taken.directory().fd(), &part, flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => {
                    let part = Part { file, part: Some(part), taken, written_bytes: 0, synced_bytes: 0 };
                    // Shows servers that begin that it is being written.
                    flock(&part.file, FlockOperation::NonBlockingLockExclusive)?;
                    return Ok(part);
                }
                // Of another server, in a container with process numbers of its own.
                Err(Errno::EXIST) if tries < PART_NAMES_MAX => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// The disk is full, or fails.
    pub(crate) fn write(&mut self, chunks: &[Chunk]) -> io::Result<()> {
        let (mut first, mut skip) = (0, 0);
        while first < chunks.len() {
            let pieces = chunks[first..].iter().take(PIECES_MAX).enumerate();
            let pieces: Vec<_> = pieces
                .map(|(place, chunk)| IoSlice::new(&chunk[if place == 0 { skip } else { 0 }..]))
                .collect();
            let written = match retry_on_intr(|| pwritev(&self.file, &pieces, self.written_bytes))? {
                0 if pieces.iter().any(|piece| !piece.is_empty()) => {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                written => written,
            };
            self.written_bytes += written as u64;
            skip += written;
            while first < chunks.len() && skip >= chunks[first].len() {
                skip -= chunks[first].len();
                first += 1;
            }
        }
        if self.written_bytes - self.synced_bytes >= DIRTY_BYTES_MAX { self.sync() } else { Ok(()) }
    }

    /// Gives the file its name. All of it is durable then.
    ///
    /// # Errors
    /// The disk fails, or there is something of this name meanwhile. Then the file is removed.
    pub(crate) fn complete(mut self) -> io::Result<()> {
        self.sync()?;
        let (directory, name) = (self.taken.directory().fd(), self.taken.name());
        let Some(part) = &self.part else { return Ok(()) };
        match renameat_with(directory, part, directory, name, RenameFlags::NOREPLACE) {
            // A file system that cannot do this can perhaps give a second name.
            Err(Errno::INVAL | Errno::NOSYS) => {
                linkat(directory, part, directory, name, AtFlags::empty())?;
                unlinkat(directory, part, AtFlags::empty())?;
            }
            renamed => renamed?,
        }
        fsync(directory)?;
        self.part = None;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        retry_on_intr(|| fdatasync(&self.file))?;
        self.synced_bytes = self.written_bytes;
        // Only advice: the pages leave the cache later otherwise.
        let _ = fadvise(&self.file, 0, None, Advice::DontNeed);
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let Some(part) = &self.part else { return };
        let directory: &JoinDirectory = self.taken.directory();
        if let Err(error) = unlinkat(directory.fd(), part, AtFlags::empty())
            && error != Errno::NOENT
        {
            tracing::warn!("cannot remove {part} of {}: {error}", directory.path().display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn chunks(bytes: &[u8], lengths: &[usize]) -> Vec<Chunk> {
        let mut rest = bytes;
        let mut chunks = Vec::new();
        for length in lengths.iter().cycle() {
            let (head, tail) = rest.split_at((*length).min(rest.len()));
            chunks.push(Chunk::from(head.to_vec()));
            rest = tail;
            if rest.is_empty() {
                return chunks;
            }
        }
        chunks
    }

    #[test]
    fn a_file_has_its_name_when_it_is_complete() {
        let dir = tempfile::tempdir().expect("tempdir");
        let directory = JoinDirectory::open(dir.path()).expect("opened");
        let bytes: Vec<u8> = (0..100_000u32).map(|number| (number % 251) as u8).collect();
        let mut part = directory.begin("copy.mp4").expect("begun");
        // More pieces than one write takes, an empty one among them.
        part.write(&chunks(&bytes[..60_000], &[1, 700, 0, 33])).expect("written");
        assert!(!dir.path().join("copy.mp4").exists());
        part.write(&chunks(&bytes[60_000..], &[40_000])).expect("written");
        part.complete().expect("complete");
        let at = dir.path().join("copy.mp4");
        assert!(fs::read(&at).expect("read") == bytes);
        assert_eq!(fs::metadata(&at).expect("a file").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).expect("read").count(), 1, "no part is left");
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_not_replaced() {
        let dir = tempfile::tempdir().expect("tempdir");
        let directory = JoinDirectory::open(dir.path()).expect("opened");
        let mut part = directory.begin("copy.mp4").expect("begun");
        part.write(&[Chunk::from(vec![1; 1000])]).expect("written");
        fs::write(dir.path().join("copy.mp4"), b"of another program").expect("written");
        let error = part.complete().expect_err("there is a file");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(dir.path().join("copy.mp4")).expect("read"), b"of another program");
        assert_eq!(fs::read_dir(dir.path()).expect("read").count(), 1, "no part is left");
    }

    #[test]
    fn a_full_disk_is_named_in_plain_words() {
        let full: io::Error = Errno::NOSPC.into();
        assert!(crate::refused::plain(&full).starts_with("no space is left"));
    }
}
