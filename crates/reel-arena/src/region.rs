use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::error::ArenaError;

/// The pages an arena is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// 2 MiB pages from the kernel's reserve (`vm.nr_hugepages`).
    Huge,
    /// Ordinary shared memory which the kernel agreed to fill with 2 MiB pages where it can.
    TransparentHuge,
    /// 4 KiB pages.
    Normal,
}

/// The arena's memory as the kernel sees it: for registration with a ring or for mapping elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Region<'a> {
    /// First byte, aligned to 4096.
    pub base: NonNull<u8>,
    /// Length in bytes, a multiple of 4096.
    pub bytes: usize,
    /// The memfd behind the mapping (offset 0 is `base`).
    pub fd: BorrowedFd<'a>,
    /// The pages it is made of.
    pub pages: PageKind,
}

/// Owner of the memfd and of its mapping.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    mapped_bytes: usize,
    fd: OwnedFd,
    pages: PageKind,
}

const HUGE_PAGE_BYTES: usize = 2 << 20;

// SAFETY: a mapping is plain memory; who may touch which bytes is ruled by `Buffer` and `Lease`.
unsafe impl Send for Mapping {}
// SAFETY: as above; `Mapping` itself never reads or writes the memory.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(crate) fn new(bytes: usize, huge_pages: bool) -> Result<Mapping, ArenaError> {
        if huge_pages
            && let Some(mapped_bytes) = bytes.checked_next_multiple_of(HUGE_PAGE_BYTES)
            && let Ok(mapping) =
                Mapping::map(bytes, mapped_bytes, MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB, PageKind::Huge)
        {
            return Ok(mapping);
        }
        let mut mapping = Mapping::map(bytes, bytes, MemfdFlags::empty(), PageKind::Normal)?;
        if huge_pages && mapping.advise_huge() {
            mapping.pages = PageKind::TransparentHuge;
        }
        Ok(mapping)
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn region(&self) -> Region<'_> {
        Region { base: self.base, bytes: self.bytes, fd: self.fd.as_fd(), pages: self.pages }
    }

    fn map(
        bytes: usize,
        mapped_bytes: usize,
        flags: MemfdFlags,
        pages: PageKind,
    ) -> Result<Mapping, ArenaError> {
        let refused = |step| move |e: rustix::io::Errno| ArenaError::Memory { step, bytes, source: e.into() };
        let fd = memfd_create("reel-arena", MemfdFlags::CLOEXEC | flags).map_err(refused("memfd_create"))?;
        ftruncate(&fd, mapped_bytes as u64).map_err(refused("ftruncate"))?;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing of ours. For huge pages
        // the kernel reserves the pages here (no MAP_NORESERVE), so a later touch cannot fault fatally.
        let base = unsafe {
            mmap(ptr::null_mut(), mapped_bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &fd, 0)
        }
        .map_err(refused("mmap"))?;
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| ArenaError::Memory {
            step: "mmap",
            bytes,
            source: io::Error::other("mapped at address zero"),
        })?;
        let mapping = Mapping { base, bytes, mapped_bytes, fd, pages };
        mapping.leave_out_of_core_dumps();
        Ok(mapping)
    }

    /// Films do not help to understand a crash, and gigabytes of them hinder. Best effort.
    fn leave_out_of_core_dumps(&self) {
        // SAFETY: the advice covers exactly our mapping and changes no content.
        let _ =
            unsafe { madvise(self.base.as_ptr().cast::<c_void>(), self.mapped_bytes, Advice::LinuxDontDump) };
    }

    /// True if the kernel will really use huge pages: it takes the advice on a memfd even where its policy for
    /// shared memory is "never", so the policy is read first.
    fn advise_huge(&self) -> bool {
        let policy = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
        let honoured = policy.is_ok_and(|p| {
            ["[always]", "[within_size]", "[advise]", "[force]"].iter().any(|w| p.contains(w))
        });
        // SAFETY: the advice covers exactly our mapping and changes no content.
        honoured
            && unsafe {
                madvise(self.base.as_ptr().cast::<c_void>(), self.mapped_bytes, Advice::LinuxHugepage)
            }
            .is_ok()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no piece is alive: each holds a reference to the arena.
        let _ = unsafe { munmap(self.base.as_ptr().cast::<c_void>(), self.mapped_bytes) };
    }
}
