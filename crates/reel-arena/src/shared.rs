use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::ArenaError;

/// What the other process may do with the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// Read it.
    Read,
    /// Read and write it.
    Write,
}

/// Memory of two processes: words that the other process may change at any time, and bytes.
///
/// It is sealed against shrinking, so no access through it can fault, whatever the other process
/// does. Words are read and written one at a time and never torn; fences determine the order in
/// which they are seen. Nothing that is read here can be trusted.
#[derive(Debug)]
pub struct SharedMemory {
    base: NonNull<u8>,
    bytes: usize,
    fd: OwnedFd,
    writable: bool,
}

// SAFETY: all access is by atomics, or by copies whose bounds are checked; see each method.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Makes `bytes` of zeros that this process can write. With [`Others::Read`] no other process
    /// ever can, whatever it does with the descriptor.
    ///
    /// # Errors
    /// If the kernel refuses the memory.
    pub fn create(name: &str, bytes: usize, others: Others) -> Result<SharedMemory, ArenaError> {
        let refused =
            |step| move |error: rustix::io::Errno| ArenaError::Memory { step, bytes, source: error.into() };
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create(name, flags).map_err(refused("memfd_create"))?;
        ftruncate(&fd, bytes as u64).map_err(refused("ftruncate"))?;
        let memory = SharedMemory::mapped(fd, bytes, true).map_err(refused("mmap"))?;
        let mut seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        if others == Others::Read {
            seals |= SealFlags::FUTURE_WRITE;
        }
        fcntl_add_seals(&memory.fd, seals).map_err(refused("sealing"))?;
        Ok(memory)
    }

    /// Maps memory that another process made. Refuses memory that its maker could shrink, or that
    /// is shorter than `bytes`.
    ///
    /// # Errors
    /// If the memory is refused for these reasons, or the kernel refuses the mapping.
    pub fn map(fd: OwnedFd, bytes: usize, writable: bool) -> Result<SharedMemory, ArenaError> {
        let refused = |step| move |error: io::Error| ArenaError::Memory { step, bytes, source: error };
        let seals = fcntl_get_seals(&fd).map_err(|error| refused("reading the seals")(error.into()))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(refused("reading the seals")(io::Error::other("it can shrink")));
        }
        let size = fstat(&fd).map_err(|error| refused("fstat")(error.into()))?.st_size;
        if u64::try_from(size).is_ok_and(|size| size < bytes as u64) {
            return Err(refused("fstat")(io::Error::other("it is shorter than announced")));
        }
        SharedMemory::mapped(fd, bytes, writable).map_err(|error| refused("mmap")(error.into()))
    }

    fn mapped(fd: OwnedFd, bytes: usize, writable: bool) -> Result<SharedMemory, rustix::io::Errno> {
        let protection = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a fresh mapping at an address that the kernel chooses overlaps nothing.
        let base = unsafe { mmap(ptr::null_mut(), bytes, protection, MapFlags::SHARED, &fd, 0) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(SharedMemory { base, bytes, fd, writable })
    }

    /// Its descriptor, to be passed to another process.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The word at `index` (of 8 bytes), as it is now, unordered. `Relaxed` is the only load that
    /// may be made from memory that cannot be written.
    ///
    /// # Panics
    /// If there is no such word.
    pub fn load(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Relaxed)
    }

    /// Sets the word at `index`, unordered.
    ///
    /// # Panics
    /// If there is no such word, or this process may not write.
    pub fn store(&self, index: usize, value: u64) {
        assert!(self.writable, "a word of read-only memory");
        self.word(index).store(value, Ordering::Relaxed);
    }

    /// Writes bytes that the other process does not read yet.
    ///
    /// # Panics
    /// If they do not fit at `at`, or this process may not write.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(self.writable, "bytes of read-only memory");
        assert!(at <= self.bytes && bytes.len() <= self.bytes - at, "beyond the end of shared memory");
        // SAFETY: the range lies in the mapping, and `&mut self` is its only user in this process.
        // What the other process reads meanwhile does not affect this one.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.as_ptr().add(at), bytes.len()) }
    }

    /// The address of the bytes of `range`. They may change at any time unless their owner has said
    /// that they do not.
    ///
    /// # Panics
    /// If they do not lie in the memory.
    pub fn at(&self, range: Range<usize>) -> *const [u8] {
        assert!(range.start <= range.end && range.end <= self.bytes, "beyond the end of shared memory");
        // SAFETY: within the mapping.
        ptr::slice_from_raw_parts(unsafe { self.base.as_ptr().add(range.start) }, range.len())
    }

    /// Appends a copy of the bytes of `range`. The caller must detect bytes that their owner
    /// changed meanwhile.
    ///
    /// # Panics
    /// If they do not lie in the memory.
    pub fn copy_to(&self, range: Range<usize>, copy: &mut Vec<u8>) {
        let bytes = self.at(range);
        copy.reserve(bytes.len());
        // SAFETY: the source lies in the mapping, the target is spare capacity of exactly this
        // length. Bytes that change meanwhile only give other bytes, and any byte is valid.
        unsafe {
            ptr::copy_nonoverlapping(bytes.cast::<u8>(), copy.as_mut_ptr().add(copy.len()), bytes.len());
            copy.set_len(copy.len() + bytes.len());
        }
    }

    /// Has the kernel take bytes of `range` into a file, pipe or socket without copying them first;
    /// returns how many it took.
    ///
    /// # Errors
    /// The kernel's error.
    ///
    /// # Panics
    /// If they do not lie in the memory.
    pub fn write_to(&self, range: Range<usize>, file: BorrowedFd<'_>) -> io::Result<usize> {
        let bytes = self.at(range);
        // SAFETY: within the mapping and initialised (memfd). Only the kernel reads the bytes, and
        // it tolerates memory that changes.
        let bytes = unsafe { slice::from_raw_parts(bytes.cast::<u8>(), bytes.len()) };
        Ok(rustix::io::write(file, bytes)?)
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.bytes / 8, "beyond the end of shared memory");
        // SAFETY: aligned, since a mapping begins at a page, and within the mapping. This process
        // uses these bytes only as atomic words (`write` takes `&mut self`).
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().cast::<u64>().add(index)) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no reference into it outlives this value.
        let _ = unsafe { munmap(self.base.as_ptr().cast::<c_void>(), self.bytes) };
    }
}
