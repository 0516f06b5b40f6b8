//! The file or device of a member.

use crate::error::DiskError;
use crate::limits::BLOCK_BYTES;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, statx};
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
    /// For formatting and opening, which need no speed and have unaligned buffers.
    plain: File,
    bytes: u64,
    direct: bool,
}

impl MemberFile {
    /// Opens `path` for direct I/O. Where the file system refuses that, opens it for buffered I/O
    /// and logs a warning.
    ///
    /// # Errors
    /// The file cannot be opened or measured.
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
        let direct =
            open(OFlags::DIRECT).map_err(io::Error::from).and_then(|file| check_direct(&file).map(|()| file));
        let (ring_file, direct) = match direct {
            Ok(file) => (file, true),
            Err(reason) => {
                tracing::warn!(
                    path = %path.display(), %reason,
                    "no direct I/O here; reading and writing through the page cache, which costs a copy and makes \
                     deadlines unreliable: put members on ext4, XFS or a block device"
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
    ///
    /// # Errors
    /// The file refuses the read, or ends before.
    pub fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<(), DiskError> {
        self.plain.read_exact_at(target, offset).map_err(|source| self.failed("read", source))
    }

    /// Writes `bytes` at `offset`, waiting for it; durable after [`MemberFile::sync`].
    ///
    /// # Errors
    /// The file refuses the write.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.plain.write_all_at(bytes, offset).map_err(|source| self.failed("write", source))
    }

    /// Makes all writes durable, waiting for it.
    ///
    /// # Errors
    /// The file refuses that.
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

/// Whether direct I/O in blocks of [`BLOCK_BYTES`] works on this file. An open with O_DIRECT does
/// not prove that: some file systems accept it and refuse the reads, or need larger blocks.
fn check_direct(file: &OwnedFd) -> Result<(), io::Error> {
    let flags = StatxFlags::DIOALIGN | StatxFlags::SIZE;
    if let Ok(found) = statx(file, "", AtFlags::EMPTY_PATH, flags)
        && found.stx_mask & StatxFlags::DIOALIGN.bits() != 0
    {
        let wants = found.stx_dio_mem_align.max(found.stx_dio_offset_align);
        return match u64::from(wants) {
            0 => Err(io::Error::other("the file system says it has no direct I/O")),
            wants if BLOCK_BYTES.is_multiple_of(wants) => Ok(()),
            wants => Err(io::Error::other(format!("the file system wants blocks of {wants} bytes"))),
        };
    }
    // Linux before 6.1, or a file system that does not report it: try a read.
    let mut memory = vec![0; 2 * BLOCK_BYTES as usize];
    let start = memory.as_ptr().align_offset(BLOCK_BYTES as usize);
    rustix::io::pread(file, &mut memory[start..start + BLOCK_BYTES as usize], 0)?;
    Ok(())
}
