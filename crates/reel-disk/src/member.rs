//! The file or device of a member.

use crate::error::DiskError;
use crate::limits::BLOCK_BYTES;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, statx};
use std::fs::{File, FileType};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, FileTypeExt};
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
    /// and logs a warning. For writing, a block device is claimed: as long as [`MemberFile::file`]
    /// is open, no mount and no other claim of the device succeeds, whatever node it is opened by.
    ///
    /// # Errors
    /// It is neither a file nor a block device, it is claimed by another program or mounted (kind
    /// `ResourceBusy`), or it cannot be opened or measured.
    pub fn open(path: &Path, mode: OpenMode) -> Result<Self, DiskError> {
        let plain = open_plain(path, mode).map_err(|error| file_error(path, "open", error))?;
        Self::of(path, plain, mode)
    }

    /// Like [`MemberFile::open`] with a file that [`open_plain`] has opened at `path`.
    ///
    /// # Errors
    /// It cannot be opened a second time, or not measured.
    pub fn of(path: &Path, plain: File, mode: OpenMode) -> Result<Self, DiskError> {
        let failed = |what, source: io::Error| file_error(path, what, source);
        let open = |flags| rustix::fs::open(path, access(mode) | flags, Mode::empty());
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

    /// Reads a block from the device itself where that is possible, waiting for it: what another
    /// host has written is not in the page cache of this one.
    ///
    /// # Errors
    /// The file refuses the read, or ends before.
    pub fn read_block(&self, offset: u64) -> Result<Vec<u8>, DiskError> {
        let (mut memory, block) = aligned_block();
        let mut target = &mut memory[block.clone()];
        let mut at = offset;
        while !target.is_empty() {
            match rustix::io::pread(&self.ring_file, &mut *target, at) {
                Ok(0) => return Err(self.failed("read", io::ErrorKind::UnexpectedEof.into())),
                Ok(bytes) => (target, at) = (&mut target[bytes..], at + bytes as u64),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(self.failed("read", error.into())),
            }
        }
        Ok(memory[block].to_vec())
    }

    /// Writes a block to the device itself where that is possible, waiting for it.
    ///
    /// # Errors
    /// The file refuses the write.
    ///
    /// # Panics
    /// If `bytes` is not a block.
    pub fn write_block(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let (mut memory, block) = aligned_block();
        memory[block.clone()].copy_from_slice(bytes);
        let mut rest = &memory[block];
        let mut at = offset;
        while !rest.is_empty() {
            match rustix::io::pwrite(&self.ring_file, rest, at) {
                Ok(0) => return Err(self.failed("write", io::ErrorKind::WriteZero.into())),
                Ok(bytes) => (rest, at) = (&rest[bytes..], at + bytes as u64),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(self.failed("write", error.into())),
            }
        }
        if self.direct { Ok(()) } else { self.sync() }
    }

    /// Drops what the page cache has of the file, so that the next reads find what another host has
    /// written. What this host has written and not synced is kept.
    pub fn forget_cached(&self) {
        // Advice cannot fail in a way that matters: the file is a file.
        let _ = rustix::fs::fadvise(&self.plain, 0, None, rustix::fs::Advice::DontNeed);
    }

    /// Makes all writes durable, waiting for it.
    ///
    /// # Errors
    /// The file refuses that.
    pub fn sync(&self) -> Result<(), DiskError> {
        self.plain.sync_data().map_err(|source| self.failed("sync", source))
    }

    /// The same open file once more. Locks and claims last until both are closed.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn try_clone(&self) -> Result<Self, DiskError> {
        let plain = self.plain.try_clone().map_err(|source| self.failed("open once more", source))?;
        Ok(Self { path: self.path.clone(), ring_file: Arc::clone(&self.ring_file), plain, ..*self })
    }

    /// The plain file, for locks.
    pub fn file(&self) -> &File {
        &self.plain
    }

    pub(crate) fn ring_file(&self) -> &Arc<OwnedFd> {
        &self.ring_file
    }

    fn failed(&self, what: &'static str, source: io::Error) -> DiskError {
        file_error(&self.path, what, source)
    }
}

/// Opens a file or block device without waiting, for buffered I/O. For writing, a block device is
/// claimed as long as the result, or a duplicate of it, is open.
///
/// # Errors
/// As of [`MemberFile::open`].
pub fn open_plain(path: &Path, mode: OpenMode) -> io::Result<File> {
    let check = |kind: FileType| match kind.is_file() || kind.is_block_device() {
        true => Ok(kind.is_block_device() && mode == OpenMode::ReadWrite),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is neither a file nor a block device")),
    };
    // Looked at before it is opened, since opening a FIFO waits and opening a device may act.
    let claim = check(std::fs::metadata(path)?.file_type())?;
    // Without O_CREAT, O_EXCL claims a block device and is not defined for anything else.
    let flags = if claim { OFlags::EXCL } else { OFlags::empty() };
    let file = File::from(rustix::fs::open(path, access(mode) | OFlags::NONBLOCK | flags, Mode::empty())?);
    match check(file.metadata()?.file_type())? == claim {
        true => Ok(file),
        false => Err(io::Error::other("it became another file while it was opened")),
    }
}

fn access(mode: OpenMode) -> OFlags {
    OFlags::CLOEXEC
        | match mode {
            OpenMode::ReadOnly => OFlags::RDONLY,
            OpenMode::ReadWrite => OFlags::RDWR,
        }
}

fn file_error(path: &Path, what: &'static str, source: io::Error) -> DiskError {
    DiskError::File { path: path.to_owned(), what, source: Arc::new(source) }
}

/// Memory with a block in it that is aligned for direct I/O.
fn aligned_block() -> (Vec<u8>, std::ops::Range<usize>) {
    let block = BLOCK_BYTES as usize;
    let memory = vec![0; 2 * block];
    let start = memory.as_ptr().align_offset(block);
    (memory, start..start + block)
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
    let (mut memory, block) = aligned_block();
    rustix::io::pread(file, &mut memory[block], 0)?;
    Ok(())
}
