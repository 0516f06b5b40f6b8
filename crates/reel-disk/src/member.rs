//! The file or device of a member.

use crate::error::DiskError;
use crate::limits::BLOCK_BYTES;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a member is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Reading only.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}

/// An open member: a preallocated file or a block device.
#[derive(Debug)]
pub struct MemberFile {
    path: PathBuf,
    /// For the rings: direct where the file system can.
    ring_file: Arc<OwnedFd>,
    /// For formatting and opening, where nobody is in a hurry and buffers are not aligned.
    plain: File,
    bytes: u64,
    direct: bool,
}

impl MemberFile {
    /// Opens `path` for direct I/O; where the file system refuses that, for buffered I/O, with a warning.
    pub fn open(path: &Path, mode: OpenMode) -> Result<Self, DiskError> {
        let failed = |what, source: io::Error| DiskError::File {
            path: path.to_owned(),
            what,
            source: Arc::new(source),
        };
        let access = match mode {
            OpenMode::ReadOnly => OFlags::RDONLY,
            OpenMode::ReadWrite => OFlags::RDWR,
        };
        let open = |flags| rustix::fs::open(path, access | OFlags::CLOEXEC | flags, Mode::empty());
        let plain = File::from(open(OFlags::empty()).map_err(|error| failed("open", error.into()))?);
        let (ring_file, direct) = match open(OFlags::DIRECT) {
            Ok(file) => (file, true),
            Err(error) => {
                tracing::warn!(
                    path = %path.display(), %error,
                    "this file system refuses direct I/O; reading and writing through the page cache, which costs a copy \
                     and takes deadlines out of Reel's hands: put members on ext4, XFS or a block device"
                );
                (open(OFlags::empty()).map_err(|error| failed("open", error.into()))?, false)
            }
        };
        // A block device has no length in its metadata; its end is found by seeking.
        let bytes = (&plain).seek(SeekFrom::End(0)).map_err(|error| failed("measure", error))?;
        Ok(Self { path: path.to_owned(), ring_file: Arc::new(ring_file), plain, bytes, direct })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length when it was opened.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the page cache is bypassed.
    pub fn direct(&self) -> bool {
        self.direct
    }

    /// Fills `target` from `offset`, waiting for it; through the page cache.
    pub fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<(), DiskError> {
        self.plain.read_exact_at(target, offset).map_err(|source| self.failed("read", source))
    }

    /// Writes `bytes` at `offset`, waiting for it; durable after [`MemberFile::sync`].
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.plain.write_all_at(bytes, offset).map_err(|source| self.failed("write", source))
    }

    /// Makes all writes durable, waiting for it.
    pub fn sync(&self) -> Result<(), DiskError> {
        self.plain.sync_data().map_err(|source| self.failed("sync", source))
    }

    /// The plain file, for locks.
    pub fn file(&self) -> &File {
        &self.plain
    }

    pub(crate) fn ring_file(&self) -> &Arc<OwnedFd> {
        &self.ring_file
    }

    fn failed(&self, what: &'static str, source: io::Error) -> DiskError {
        DiskError::File { path: self.path.clone(), what, source: Arc::new(source) }
    }
}

/// Whether a request is made of whole blocks.
pub(crate) fn is_aligned(offset: u64, bytes: usize) -> bool {
    offset.is_multiple_of(BLOCK_BYTES) && (bytes as u64).is_multiple_of(BLOCK_BYTES)
}
