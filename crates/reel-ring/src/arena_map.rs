use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use io_uring::IoUring;
use reel_arena::Arena;

use crate::limits::{REGISTER_RETRIES, REGISTERED_PIECE_BYTES_MAX, REGISTERED_PIECES_MAX};

/// The arena's memory as one ring knows it: cut in pieces the kernel can register, borders between buffers.
pub(crate) struct ArenaMap {
    base: usize,
    bytes: usize,
    piece_bytes: usize,
    /// Keeps the memory mapped and the one registration alive as long as this ring may use it.
    _source: Arc<Source>,
}

/// The ring that holds the registration. It does no I/O; every working ring clones its table, so the pages are
/// pinned and accounted once, however many rings there are. (A working ring could not be the source: the kernel
/// lets only the issuing thread of a single-issuer ring touch its tables.)
struct Source {
    ring: IoUring,
    arena: Arena,
}

/// The sources in use, one per arena.
static SOURCES: Mutex<Vec<Weak<Source>>> = Mutex::new(Vec::new());

impl ArenaMap {
    /// Registers the arena with the ring.
    pub(crate) fn register(ring: &IoUring, arena: &Arena) -> io::Result<ArenaMap> {
        let piece_bytes = piece_bytes(arena);
        let source = source(arena)?;
        if ring.submitter().register_buffers_clone(source.fd()).is_err() {
            // Linux before 6.12 cannot clone: pin the pages for this ring too.
            register_pieces(ring, arena)?;
        }
        let region = arena.region();
        Ok(ArenaMap { base: region.base.as_ptr().addr(), bytes: region.bytes, piece_bytes, _source: source })
    }

    /// The index of the registered piece that holds this memory; `None` if it is not the arena's.
    pub(crate) fn index(&self, first: *const u8, bytes: usize) -> Option<u16> {
        let offset = first.addr().checked_sub(self.base)?;
        if offset.checked_add(bytes)? > self.bytes {
            return None;
        }
        u16::try_from(offset / self.piece_bytes).ok()
    }
}

impl Source {
    fn fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}

/// The largest multiple of the buffer size that can be registered as one piece.
fn piece_bytes(arena: &Arena) -> usize {
    REGISTERED_PIECE_BYTES_MAX / arena.buffer_bytes() * arena.buffer_bytes()
}

fn source(arena: &Arena) -> io::Result<Arc<Source>> {
    let base = arena.region().base;
    let mut sources = SOURCES.lock().unwrap_or_else(PoisonError::into_inner);
    sources.retain(|weak| weak.strong_count() > 0);
    if let Some(source) = sources.iter().filter_map(Weak::upgrade).find(|s| s.arena.region().base == base) {
        return Ok(source);
    }
    let ring = IoUring::new(1)?;
    register_pieces(&ring, arena)?;
    let source = Arc::new(Source { ring, arena: arena.clone() });
    sources.push(Arc::downgrade(&source));
    Ok(source)
}

fn register_pieces(ring: &IoUring, arena: &Arena) -> io::Result<()> {
    let region = arena.region();
    let piece_bytes = piece_bytes(arena);
    let pieces: Vec<libc::iovec> = (0..region.bytes)
        .step_by(piece_bytes)
        .map(|offset| libc::iovec {
            // SAFETY: `offset` is within the region.
            iov_base: unsafe { region.base.as_ptr().add(offset) }.cast(),
            iov_len: piece_bytes.min(region.bytes - offset),
        })
        .collect();
    if pieces.len() > REGISTERED_PIECES_MAX {
        return Err(io::Error::other("the arena has more registrable pieces than the kernel allows"));
    }
    let mut waits = REGISTER_RETRIES.iter();
    loop {
        // SAFETY: the pieces lie in the arena's mapping, which outlives the registration: `Source` (and with it
        // every ring that uses its table) holds the arena.
        match unsafe { ring.submitter().register_buffers(&pieces) } {
            Err(e) if e.raw_os_error() == Some(libc::ENOMEM) => match waits.next() {
                Some(wait) => thread::sleep(*wait),
                None => return Err(e),
            },
            result => return result,
        }
    }
}
