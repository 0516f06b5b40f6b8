use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::SharedProcessorError;
use crate::layout::Shared;

/// The shared memory, mapped into this process.
#[derive(Debug)]
pub(crate) struct Map {
    fd: OwnedFd,
    shared: NonNull<Shared>,
}

/// "ReelBrd" and the version of the layout.
const MAGIC: u64 = u64::from_be_bytes(*b"ReelBrd\x02");

// SAFETY: it points to atomics only, which stay mapped as long as the value lives.
unsafe impl Send for Map {}
// SAFETY: as above; any thread may use atomics.
unsafe impl Sync for Map {}

impl Map {
    /// New, empty shared memory.
    pub(crate) fn create() -> Result<Map, SharedProcessorError> {
        let fd = memfd_create("reel-shared-processor", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(failed)?;
        ftruncate(&fd, size_of::<Shared>() as u64).map_err(failed)?;
        // Sealed, because an access to memory that another process cut off would kill this process.
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).map_err(failed)?;
        let map = Map::over(fd)?;
        map.shared().head.magic.store(MAGIC, Ordering::SeqCst);
        Ok(map)
    }

    /// The shared memory of another process, by its descriptor.
    pub(crate) fn attach(fd: OwnedFd) -> Result<Map, SharedProcessorError> {
        let sealed = fcntl_get_seals(&fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        if !sealed || fstat(&fd).map_err(failed)?.st_size != size_of::<Shared>() as i64 {
            return Err(SharedProcessorError::NotShared);
        }
        let map = Map::over(fd)?;
        match map.shared().head.magic.load(Ordering::SeqCst) {
            MAGIC => Ok(map),
            _ => Err(SharedProcessorError::NotShared),
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: mapped until drop, aligned to a page as the type requires. Every bit pattern is a
        // valid `Shared`, because it consists of atomic integers, which other processes may change
        // at any time.
        unsafe { self.shared.as_ref() }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn over(fd: OwnedFd) -> Result<Map, SharedProcessorError> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a fresh mapping at an address that the kernel chooses, of a file of exactly this
        // size that cannot shrink.
        let address =
            unsafe { mmap(null_mut(), size_of::<Shared>(), prot, flags, &fd, 0) }.map_err(failed)?;
        match NonNull::new(address.cast()) {
            Some(shared) => Ok(Map { fd, shared }),
            None => Err(failed(Errno::NOMEM)),
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `over`, of that size; no reference into it outlives `self`.
        // It cannot fail for such a range.
        let _ = unsafe { munmap(self.shared.as_ptr().cast(), size_of::<Shared>()) };
    }
}

fn failed(errno: Errno) -> SharedProcessorError {
    SharedProcessorError::Memory { source: errno.into() }
}
