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

/// What the other side may do with memory that it is handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// Read it.
    Read,
    /// Read and write it.
    Write,
}

/// Memory of two processes: words that change under the other's hands, and bytes.
///
/// It cannot shrink (it is sealed), so no access through it can fault, whatever the other side does. Words are read and written
/// one at a time and never torn; which order they are seen in is up to fences. Nothing that is read here is to be believed.
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
    /// `bytes` of zeros that this process can write. With [`Others::Read`] nobody else ever can, whatever he does with the
    /// descriptor.
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

    /// Maps what another process made. Refuses memory that its maker could shrink under our feet, or that is shorter than `bytes`.
    pub fn map(fd: OwnedFd, bytes: usize, writable: bool) -> Result<SharedMemory, ArenaError> {
        let refused = |step| move |error: io::Error| ArenaError::Memory { step, bytes, source: error };
        let seals = fcntl_get_seals(&fd).map_err(|error| refused("looking at seals")(error.into()))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(refused("looking at seals")(io::Error::other("it can be made shorter")));
        }
        let size = fstat(&fd).map_err(|error| refused("fstat")(error.into()))?.st_size;
        if u64::try_from(size).is_ok_and(|size| size < bytes as u64) {
            return Err(refused("fstat")(io::Error::other("it is shorter than was said")));
        }
        SharedMemory::mapped(fd, bytes, writable).map_err(|error| refused("mmap")(error.into()))
    }

    fn mapped(fd: OwnedFd, bytes: usize, writable: bool) -> Result<SharedMemory, rustix::io::Errno> {
        let protection = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing of ours.
        let base = unsafe { mmap(ptr::null_mut(), bytes, protection, MapFlags::SHARED, &fd, 0) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(SharedMemory { base, bytes, fd, writable })
    }

    /// Its descriptor, to be handed on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The word at `index` (of 8 bytes), as it is now; without any order (`Relaxed`, the only load that may be made from memory which
    /// cannot be written).
    ///
    /// # Panics
    /// If there is no such word.
    pub fn load(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Relaxed)
    }

    /// Sets the word at `index`, without any order.
    ///
    /// # Panics
    /// If there is no such word, or this process may not write.
    pub fn store(&self, index: usize, value: u64) {
        assert!(self.writable, "a word of memory that can only be read");
        self.word(index).store(value, Ordering::Relaxed);
    }

    /// Writes bytes that the other side does not look at yet.
    ///
    /// # Panics
    /// If they do not fit at `at`, or this process may not write.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(self.writable, "bytes of memory that can only be read");
        assert!(at <= self.bytes && bytes.len() <= self.bytes - at, "beyond the end of shared memory");
        // SAFETY: the range lies in the mapping, and `&mut self` is the only user of it in this process; what the other process
        // sees of it is its own affair.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.as_ptr().add(at), bytes.len()) }
    }

    /// Where the bytes of `range` lie. They may change at any time unless their owner has said that they do not.
    ///
    /// # Panics
    /// If they do not lie in the memory.
    pub fn at(&self, range: Range<usize>) -> *const [u8] {
        assert!(range.start <= range.end && range.end <= self.bytes, "beyond the end of shared memory");
        // SAFETY: within the mapping.
        ptr::slice_from_raw_parts(unsafe { self.base.as_ptr().add(range.start) }, range.len())
    }

    /// Appends a copy of the bytes of `range`. What is torn by their owner meanwhile, the caller finds out.
    ///
    /// # Panics
    /// If they do not lie in the memory.
    pub fn copy_to(&self, range: Range<usize>, copy: &mut Vec<u8>) {
        let bytes = self.at(range);
        copy.reserve(bytes.len());
        // SAFETY: the source lies in the mapping, the target is spare capacity of exactly this much; bytes that change
        // meanwhile give other bytes, and any byte is a valid one.
        unsafe {
            ptr::copy_nonoverlapping(bytes.cast::<u8>(), copy.as_mut_ptr().add(copy.len()), bytes.len());
            copy.set_len(copy.len() + bytes.len());
        }
    }

    /// Has the kernel take bytes of `range` into a file, pipe or socket, from where they lie; how many it took.
    ///
    /// # Errors
    /// The kernel's answer.
    ///
    /// # Panics
    /// If they do not lie in the memory.
    pub fn write_to(&self, range: Range<usize>, file: BorrowedFd<'_>) -> io::Result<usize> {
        let bytes = self.at(range);
        // SAFETY: within the mapping and initialised (memfd). Only the kernel looks at the bytes, which copes with memory that
        // changes.
        let bytes = unsafe { slice::from_raw_parts(bytes.cast::<u8>(), bytes.len()) };
        Ok(rustix::io::write(file, bytes)?)
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.bytes / 8, "beyond the end of shared memory");
        // SAFETY: aligned, since a mapping begins at a page; within it; nobody in this process uses these bytes in any other way
        // than as atomic words (`write` takes `&mut self`).
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().cast::<u64>().add(index)) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives this value.
        let _ = unsafe { munmap(self.base.as_ptr().cast::<c_void>(), self.bytes) };
    }
}
