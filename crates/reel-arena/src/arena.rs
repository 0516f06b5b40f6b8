use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::buffer::Buffer;
use crate::error::ArenaError;
use crate::free::FreeMap;
use crate::limits::{ALIGNMENT_BYTES, BUFFER_BYTES_MAX, CELLS_PER_BUFFER_MAX, PIECES_MAX};
use crate::region::{Mapping, Region, Sharing};
use crate::state::{Piece, PieceState, StateCounts};

/// The sizes of an arena.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArenaConfig {
    /// Bytes of a buffer, a multiple of 4096: the largest piece that can be taken.
    pub buffer_bytes: usize,
    /// Number of buffers.
    pub buffer_count: usize,
    /// Cells into which a buffer is cut for small pieces, 1 to 64; 1 means that buffers are never
    /// cut.
    pub cells_per_buffer: usize,
    /// Try 2 MiB pages: from the kernel's reserve, else transparent ones, else 4 KiB pages.
    pub huge_pages: bool,
}

/// All media memory of the process. A clone is another handle to the same memory.
#[derive(Clone)]
pub struct Arena(Arc<Inner>);

/// How much of an arena is in use, and in which state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaUsage {
    /// Bytes in all.
    pub bytes_total: usize,
    /// Bytes of taken pieces.
    pub bytes_taken: usize,
    /// Bytes of them that are never used again ([`Buffer::abandon`](crate::Buffer::abandon)).
    pub bytes_abandoned: usize,
    /// Buffers in all.
    pub buffers_total: usize,
    /// Buffers of which at least one cell is taken.
    pub buffers_taken: usize,
    /// Pieces (buffers or cells) in state [`PieceState::Empty`].
    pub pieces_empty: usize,
    /// Pieces in state [`PieceState::Reading`].
    pub pieces_reading: usize,
    /// Pieces in state [`PieceState::Full`].
    pub pieces_full: usize,
    /// Pieces in state [`PieceState::Sending`].
    pub pieces_sending: usize,
}

/// One piece of the arena: the index of its first cell, and whether it is a whole buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceId {
    index: u32,
    whole: bool,
}

pub(crate) struct Inner {
    mapping: Mapping,
    buffer_bytes: usize,
    buffer_count: usize,
    cells_per_buffer: usize,
    cell_bytes: usize,
    pieces: Box<[Piece]>,
    counts: StateCounts,
    pub(crate) abandoned_bytes: AtomicUsize,
    free: Mutex<FreeMap>,
}

impl Arena {
    /// Maps the memory. The kernel provides pages when they are first touched or registered with a
    /// ring.
    ///
    /// # Errors
    /// If the configuration is out of bounds or the kernel refuses the memory.
    pub fn new(config: ArenaConfig) -> Result<Arena, ArenaError> {
        Arena::with(config, Sharing::OwnProcess)
    }

    /// An arena that other processes can map, but only to read. Its memfd ([`Region::fd`]) is
    /// sealed: only this mapping can write, and nothing can grow or shrink it. It never has private
    /// pages, so fewer machines give it huge ones.
    ///
    /// # Errors
    /// As for [`Arena::new`].
    pub fn readable_by_others(config: ArenaConfig) -> Result<Arena, ArenaError> {
        Arena::with(config, Sharing::ReadByOthers)
    }

    pub(crate) fn of(inner: Arc<Inner>) -> Arena {
        Arena(inner)
    }

    fn with(config: ArenaConfig, sharing: Sharing) -> Result<Arena, ArenaError> {
        let ArenaConfig { buffer_bytes, buffer_count, cells_per_buffer, huge_pages } = config;
        let wrong = |what, value, rule| Err(ArenaError::Config { what, value, rule });
        if buffer_bytes == 0
            || !buffer_bytes.is_multiple_of(ALIGNMENT_BYTES)
            || buffer_bytes > BUFFER_BYTES_MAX
        {
            return wrong("buffer_bytes", buffer_bytes, "a multiple of 4096 from 4096 to 1 GiB");
        }
        if cells_per_buffer == 0
            || cells_per_buffer > CELLS_PER_BUFFER_MAX.min(buffer_bytes / ALIGNMENT_BYTES)
        {
            return wrong(
                "cells_per_buffer",
                cells_per_buffer,
                "1 to 64, and a cell must hold at least 4096 bytes",
            );
        }
        if buffer_count == 0 || buffer_count > PIECES_MAX / cells_per_buffer {
            return wrong("buffer_count", buffer_count, "at least 1, and at most 2^24 cells in all");
        }
        let Some(bytes) = buffer_bytes.checked_mul(buffer_count).filter(|b| isize::try_from(*b).is_ok())
        else {
            return wrong("buffer_count", buffer_count, "small enough for the address space");
        };
        Ok(Arena(Arc::new(Inner {
            mapping: Mapping::new(bytes, huge_pages, sharing)?,
            buffer_bytes,
            buffer_count,
            cells_per_buffer,
            cell_bytes: buffer_bytes / cells_per_buffer / ALIGNMENT_BYTES * ALIGNMENT_BYTES,
            pieces: (0..buffer_count * cells_per_buffer).map(|_| Piece::new()).collect(),
            counts: StateCounts::new(),
            abandoned_bytes: AtomicUsize::new(0),
            free: Mutex::new(FreeMap::new(buffer_count as u32, cells_per_buffer as u32)),
        })))
    }

    /// Takes a piece of at least `bytes`: a cell if that is enough, else a whole buffer. `None` if
    /// no such piece is free now, or `bytes` is more than a buffer. The content is left over from
    /// earlier use.
    pub fn take(&self, bytes: usize) -> Option<Buffer> {
        let inner = &self.0;
        if bytes > inner.buffer_bytes {
            return None;
        }
        let id = if inner.cells_per_buffer > 1 && bytes <= inner.cell_bytes {
            let (buffer, cell) = inner.free().take_cell()?;
            PieceId { index: buffer * inner.cells_per_buffer as u32 + cell, whole: false }
        } else {
            let buffer = inner.free().take_whole()?;
            PieceId { index: buffer * inner.cells_per_buffer as u32, whole: true }
        };
        let piece = inner.piece(id);
        debug_assert_eq!(piece.owners.load(Ordering::Relaxed), 0, "a free piece has owners");
        piece.owners.store(1, Ordering::Relaxed);
        piece.state.store(PieceState::Empty as u8, Ordering::Relaxed);
        inner.counts.enter(PieceState::Empty);
        Some(Buffer::new(Arc::clone(inner), id))
    }

    /// How much is in use. Cheap: a lock and a few loads.
    pub fn usage(&self) -> ArenaUsage {
        let inner = &self.0;
        let free = inner.free();
        ArenaUsage {
            bytes_total: inner.buffer_bytes * inner.buffer_count,
            bytes_taken: free.whole_taken() * inner.buffer_bytes + free.cells_taken() * inner.cell_bytes,
            bytes_abandoned: inner.abandoned_bytes.load(Ordering::Relaxed),
            buffers_total: inner.buffer_count,
            buffers_taken: inner.buffer_count - free.whole_free(),
            pieces_empty: inner.counts.get(PieceState::Empty),
            pieces_reading: inner.counts.get(PieceState::Reading),
            pieces_full: inner.counts.get(PieceState::Full),
            pieces_sending: inner.counts.get(PieceState::Sending),
        }
    }

    /// Pieces that are being sent or written at the moment, without the lock that [`Arena::usage`]
    /// takes.
    pub fn pieces_sending(&self) -> usize {
        self.0.counts.get(PieceState::Sending)
    }

    /// The memory as the kernel sees it, valid as long as an `Arena`, `Buffer` or `Lease` of it
    /// lives. The bytes belong to the owners of the pieces, so nothing may be read or written
    /// through `base`.
    pub fn region(&self) -> Region<'_> {
        self.0.mapping.region()
    }

    /// Bytes of a whole buffer. Buffers lie one after another from the region's first byte.
    pub fn buffer_bytes(&self) -> usize {
        self.0.buffer_bytes
    }

    /// Bytes of a cell; a whole buffer's if buffers are not cut.
    pub fn cell_bytes(&self) -> usize {
        self.0.cell_bytes
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena").field("region", &self.region()).field("usage", &self.usage()).finish()
    }
}

impl Inner {
    pub(crate) fn piece(&self, id: PieceId) -> &Piece {
        &self.pieces[id.index as usize]
    }

    pub(crate) fn region_offset(&self, id: PieceId) -> usize {
        let (buffer, cell) = self.buffer_and_cell(id);
        buffer * self.buffer_bytes + cell * self.cell_bytes
    }

    pub(crate) fn piece_bytes(&self, id: PieceId) -> usize {
        if id.whole { self.buffer_bytes } else { self.cell_bytes }
    }

    /// First byte of the piece. The caller must hold the piece to use it.
    pub(crate) fn piece_start(&self, id: PieceId) -> *mut u8 {
        // SAFETY: by construction, the offset of a piece and its length lie within the mapping.
        unsafe { self.mapping.base().as_ptr().add(self.region_offset(id)) }
    }

    pub(crate) fn set_state(&self, id: PieceId, state: PieceState) {
        let before = self.piece(id).state.swap(state as u8, Ordering::Relaxed);
        self.counts.leave(PieceState::from_u8(before));
        self.counts.enter(state);
    }

    pub(crate) fn begin_send(&self, id: PieceId) {
        if self.piece(id).sends.fetch_add(1, Ordering::Relaxed) == 0 {
            self.counts.leave(PieceState::Full);
            self.counts.enter(PieceState::Sending);
        }
    }

    pub(crate) fn end_send(&self, id: PieceId) {
        if self.piece(id).sends.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.counts.leave(PieceState::Sending);
            self.counts.enter(PieceState::Full);
        }
    }

    /// Puts a piece without owners back on the free list.
    pub(crate) fn give_back(&self, id: PieceId) {
        self.counts.leave(self.piece(id).state());
        let (buffer, cell) = self.buffer_and_cell(id);
        let mut free = self.free();
        if id.whole { free.give_whole(buffer as u32) } else { free.give_cell(buffer as u32, cell as u32) }
    }

    fn buffer_and_cell(&self, id: PieceId) -> (usize, usize) {
        let index = id.index as usize;
        (index / self.cells_per_buffer, index % self.cells_per_buffer)
    }

    /// A panic while the map was locked leaves it consistent enough: at worst one piece is lost.
    fn free(&self) -> MutexGuard<'_, FreeMap> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
