use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use io_uring::IoUring;
use reel_arena::Arena;

use crate::limits::{REGISTER_RETRIES, REGISTERED_PIECE_BYTES_MAX, REGISTERED_PIECES_MAX};

/// The arena's memory as one ring sees it: cut into pieces that the kernel can register. Cuts lie
/// between buffers.
pub(crate) struct ArenaMap {
    pieces: Pieces,
    /// Keeps the memory mapped, and the registration alive, while this ring may use it.
    source: Arc<Source>,
}

/// The ring that holds the registration. It does no I/O. Every working ring clones its table, so
/// the pages are pinned and accounted once, however many rings exist. (A working ring could not be
/// the source: the kernel lets only the issuing thread of a single-issuer ring change its tables.)
struct Source {
    ring: IoUring,
    arena: Arena,
}

/// The sources in use, one per arena.
static SOURCES: Mutex<Vec<Weak<Source>>> = Mutex::new(Vec::new());

impl ArenaMap {
    /// Registers the arena with the ring.
    ///
    /// # Errors
    /// If the kernel refuses the registration, usually because of the locked-memory limit.
    pub(crate) fn register(ring: &IoUring, arena: &Arena) -> io::Result<ArenaMap> {
        let source = source(arena)?;
        if ring.submitter().register_buffers_clone(source.fd()).is_err() {
            // Linux before 6.12 cannot clone, so the pages are pinned for this ring too.
            register_pieces(ring, arena)?;
        }
        Ok(ArenaMap { pieces: Pieces::of(arena), source })
    }

    /// Registers the same arena with another ring.
    ///
    /// # Errors
    /// As for [`register`](Self::register).
    pub(crate) fn register_with(&self, ring: &IoUring) -> io::Result<ArenaMap> {
        ArenaMap::register(ring, &self.source.arena)
    }

    /// The index of the registered piece that holds this memory; `None` if the memory is not the
    /// arena's.
    pub(crate) fn index(&self, first: *const u8, bytes: usize) -> Option<u16> {
        self.pieces.index(first.addr(), bytes)
    }
}

/// Where the region begins and where it is cut.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    base: usize,
    bytes: usize,
    piece_bytes: usize,
}

impl Pieces {
    fn of(arena: &Arena) -> Pieces {
        let region = arena.region();
        let bytes = region.bytes;
        Pieces { base: region.base.as_ptr().addr(), bytes, piece_bytes: piece_bytes(arena.buffer_bytes()) }
    }

    fn index(&self, first: usize, bytes: usize) -> Option<u16> {
        let offset = first.checked_sub(self.base)?;
        let end = offset.checked_add(bytes)?;
        if bytes == 0 || end > self.bytes || offset / self.piece_bytes != (end - 1) / self.piece_bytes {
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
fn piece_bytes(buffer_bytes: usize) -> usize {
    REGISTERED_PIECE_BYTES_MAX / buffer_bytes * buffer_bytes
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
    let piece_bytes = piece_bytes(arena.buffer_bytes());
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
        // SAFETY: the pieces lie in the arena's mapping, which outlives the registration: `Source`
        // holds the arena, and every ring that uses its table holds the `Source`.
        match unsafe { ring.submitter().register_buffers(&pieces) } {
            Err(e) if e.raw_os_error() == Some(libc::ENOMEM) => match waits.next() {
                Some(wait) => thread::sleep(*wait),
                None => return Err(e),
            },
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_buffer_straddles_two_pieces() {
        for buffer_bytes in [4096, 180 * 1024, 264 * 1024, 1 << 20, (1 << 30) - 4096, 1 << 30] {
            let piece_bytes = piece_bytes(buffer_bytes);
            assert!(piece_bytes <= REGISTERED_PIECE_BYTES_MAX && piece_bytes.is_multiple_of(buffer_bytes));
            let count = 3 * piece_bytes / buffer_bytes;
            let pieces = Pieces { base: 1 << 40, bytes: count * buffer_bytes, piece_bytes };
            let border = piece_bytes / buffer_bytes;
            for buffer in [0, border - 1, border, 2 * border - 1, 2 * border, count - 1] {
                let first = pieces.base + buffer * buffer_bytes;
                assert_eq!(pieces.index(first, buffer_bytes), Some((buffer / border) as u16));
            }
        }
    }

    #[test]
    fn memory_outside_of_the_arena_has_no_piece() {
        let pieces = Pieces { base: 8192, bytes: 16384, piece_bytes: 8192 };
        assert_eq!(pieces.index(8192, 8192), Some(0));
        assert_eq!(pieces.index(4096, 4096), None);
        assert_eq!(pieces.index(8192 + 16384, 1), None);
        assert_eq!(pieces.index(8192 + 12288, 8192), None);
        assert_eq!(pieces.index(12288, 8192), None, "across a border");
        assert_eq!(pieces.index(usize::MAX, 8192), None);
    }
}
