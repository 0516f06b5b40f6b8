use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use crate::error::ArenaError;

/// The kind of pages of an arena.
///
/// The kind matters: a device takes one segment per run of adjacent pages, so a read into 4 KiB
/// pages is cut into many small requests, and pinning takes one step per page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// 2 MiB pages from the kernel's reserve (`vm.nr_hugepages`), in a memfd.
    Huge,
    /// A memfd that the kernel agreed to fill with 2 MiB pages where it can (`shmem_enabled`).
    TransparentHuge,
    /// Private memory that the kernel agreed to fill with 2 MiB pages where it can. No other
    /// process can map it.
    TransparentHugePrivate,
    /// 4 KiB pages, in a memfd.
    Normal,
}

/// The arena's memory as the kernel sees it, for registration with a ring or for mapping in another
/// process.
#[derive(Clone, Copy, Debug)]
pub struct Region<'a> {
    /// First byte, aligned to 4096.
    pub base: NonNull<u8>,
    /// Length in bytes, a multiple of 4096.
    pub bytes: usize,
    /// The memfd behind the mapping (offset 0 is `base`); none for private memory.
    pub fd: Option<BorrowedFd<'a>>,
    /// The kind of its pages.
    pub pages: PageKind,
}

/// Which processes map the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Only this one, so private pages are allowed.
    OwnProcess,
    /// Other processes too, which can only read it.
    ReadByOthers,
}

/// The owner of the memory.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    mapped_bytes: usize,
    fd: Option<OwnedFd>,
    pages: PageKind,
}

const HUGE_PAGE_BYTES: usize = 2 << 20;

// SAFETY: a mapping is plain memory; `Buffer` and `Lease` control access to its bytes.
unsafe impl Send for Mapping {}
// SAFETY: as above; `Mapping` itself never reads or writes the memory.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// With `huge_pages`, the best kind that this machine gives without configuration; else plain
    /// shared memory.
    ///
    /// # Errors
    /// If the kernel refuses the memory.
    pub(crate) fn new(bytes: usize, huge_pages: bool, sharing: Sharing) -> Result<Mapping, ArenaError> {
        if huge_pages && let Some(mapping) = Mapping::with_huge_pages(bytes, sharing) {
            return Ok(mapping);
        }
        Mapping::in_memfd(bytes, bytes, MemfdFlags::empty(), PageKind::Normal, sharing)
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn region(&self) -> Region<'_> {
        let fd = self.fd.as_ref().map(AsFd::as_fd);
        Region { base: self.base, bytes: self.bytes, fd, pages: self.pages }
    }

    fn with_huge_pages(bytes: usize, sharing: Sharing) -> Option<Mapping> {
        let rounded = bytes.checked_next_multiple_of(HUGE_PAGE_BYTES)?;
        let reserved = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        if let Ok(mapping) = Mapping::in_memfd(bytes, rounded, reserved, PageKind::Huge, sharing) {
            return Some(mapping);
        }
        // The kernel accepts the advice for shared memory even where its policy is never to follow
        // it, so the policy is read first.
        if policy_allows("shmem_enabled", &["[always]", "[within_size]", "[advise]", "[force]"])
            && let Ok(mapping) =
                Mapping::in_memfd(bytes, rounded, MemfdFlags::empty(), PageKind::TransparentHuge, sharing)
            && mapping.advise(Advice::LinuxHugepage).is_ok()
        {
            return Some(mapping);
        }
        if sharing == Sharing::OwnProcess
            && policy_allows("enabled", &["[always]", "[madvise]"])
            && let Some(mapping) = Mapping::private(bytes, rounded)
            && mapping.advise(Advice::LinuxHugepage).is_ok()
        {
            return Some(mapping);
        }
        None
    }

    fn in_memfd(
        bytes: usize,
        mapped_bytes: usize,
        flags: MemfdFlags,
        pages: PageKind,
        sharing: Sharing,
    ) -> Result<Mapping, ArenaError> {
        let refused = |step| move |e: Errno| ArenaError::Memory { step, bytes, source: e.into() };
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | flags;
        let fd = memfd_create("reel-arena", flags).map_err(refused("memfd_create"))?;
        ftruncate(&fd, mapped_bytes as u64).map_err(refused("ftruncate"))?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address that the kernel chooses overlaps nothing. For
        // reserved huge pages the kernel sets them aside here (no MAP_NORESERVE), so a later touch
        // cannot fault fatally.
        let base = unsafe { mmap(ptr::null_mut(), mapped_bytes, protection, MapFlags::SHARED, &fd, 0) }
            .map_err(refused("mmap"))?;
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| ArenaError::Memory {
            step: "mmap",
            bytes,
            source: io::Error::other("mapped at address zero"),
        })?;
        let mapping = Mapping { base, bytes, mapped_bytes, fd: Some(fd), pages };
        if let (Sharing::ReadByOthers, Some(fd)) = (sharing, &mapping.fd) {
            // This mapping stays writable. No other writable one can be made, whichever descriptor
            // a process holds or opens again.
            let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
            fcntl_add_seals(fd, seals).map_err(refused("sealing"))?;
        }
        mapping.keep_out_of_dumps();
        Ok(mapping)
    }

    /// Private memory that begins at a huge page: mapped one page too long, then cut at both ends.
    fn private(bytes: usize, mapped_bytes: usize) -> Option<Mapping> {
        let long = mapped_bytes.checked_add(HUGE_PAGE_BYTES)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address that the kernel chooses overlaps nothing.
        let first = unsafe { mmap_anonymous(ptr::null_mut(), long, protection, MapFlags::PRIVATE) }.ok()?;
        let before = first.addr().next_multiple_of(HUGE_PAGE_BYTES) - first.addr();
        let after = HUGE_PAGE_BYTES - before;
        // SAFETY: `before` is at most one huge page, and the mapping is that much longer than
        // `mapped_bytes`.
        let base = unsafe { first.cast::<u8>().add(before) };
        let mapping = Mapping {
            base: NonNull::new(base)?,
            bytes,
            mapped_bytes,
            fd: None,
            pages: PageKind::TransparentHugePrivate,
        };
        if before > 0 {
            // SAFETY: the part before `base` was mapped above and is not used.
            let _ = unsafe { munmap(first, before) };
        }
        if after > 0 {
            // SAFETY: so was the part after the end.
            let _ = unsafe { munmap(base.add(mapped_bytes).cast::<c_void>(), after) };
        }
        // A forked child would get its own copy of every page that a device uses.
        mapping.advise(Advice::LinuxDontFork).ok()?;
        mapping.keep_out_of_dumps();
        Some(mapping)
    }

    /// Media bytes do not help to understand a crash, and gigabytes of them hinder. Best effort.
    fn keep_out_of_dumps(&self) {
        let _ = self.advise(Advice::LinuxDontDump);
    }

    /// Gives advice that changes no content.
    fn advise(&self, advice: Advice) -> Result<(), Errno> {
        // SAFETY: the advice covers exactly this mapping, and no caller gives advice that drops
        // pages.
        unsafe { madvise(self.base.as_ptr().cast::<c_void>(), self.mapped_bytes, advice) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no piece is alive: each holds a reference to
        // the arena.
        let _ = unsafe { munmap(self.base.as_ptr().cast::<c_void>(), self.mapped_bytes) };
    }
}

/// Whether the kernel's policy of this name is set to one of these words.
fn policy_allows(name: &str, words: &[&str]) -> bool {
    let policy = std::fs::read_to_string(format!("/sys/kernel/mm/transparent_hugepage/{name}"));
    policy.is_ok_and(|policy| words.iter().any(|word| policy.contains(word)))
}
