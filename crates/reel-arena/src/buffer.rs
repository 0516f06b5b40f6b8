use std::fmt;
use std::mem::{self, ManuallyDrop};
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::arena::{Arena, Inner, PieceId};
use crate::lease::Lease;
use crate::state::PieceState;

/// A piece of the arena with one owner, which may write it. It is aligned to 4096 and as long as
/// its kind (cell or buffer), which may be more than was requested.
pub struct Buffer {
    arena: Arc<Inner>,
    id: PieceId,
}

impl Buffer {
    pub(crate) fn new(arena: Arc<Inner>, id: PieceId) -> Buffer {
        Buffer { arena, id }
    }

    /// Ends writing and makes the piece sharable.
    pub fn freeze(self) -> Lease {
        self.set_state(PieceState::Full);
        let (arena, id) = self.into_parts();
        let bytes = arena.piece_bytes(id);
        Lease::new(arena, id, 0, bytes)
    }

    /// Offset of the first byte in the arena's region.
    pub fn region_offset(&self) -> usize {
        self.arena.region_offset(self.id)
    }

    /// The state of the piece.
    pub fn state(&self) -> PieceState {
        self.arena.piece(self.id).state()
    }

    /// Sets the state of the piece for the arena's statistics. A buffer cannot be
    /// [`PieceState::Sending`], because only leases are sent; that value counts as `Full`.
    pub fn set_state(&self, state: PieceState) {
        let state = if state == PieceState::Sending { PieceState::Full } else { state };
        self.arena.set_state(self.id, state);
    }

    /// Address of the first byte, for a device. The caller must keep this buffer unused and alive
    /// until the device has finished.
    pub fn as_device_ptr(&self) -> *mut u8 {
        self.arena.piece_start(self.id)
    }

    /// Another piece of the same arena and length, with arbitrary content, for a caller that cannot
    /// use this one any more; `None` if none is free at the moment.
    pub fn another(&self) -> Option<Buffer> {
        Arena::of(Arc::clone(&self.arena)).take(self.len())
    }

    /// Gives the piece up for good, because the kernel may still write into it. It stays taken, and
    /// is counted. Returns its bytes.
    pub fn abandon(self) -> usize {
        let bytes = self.len();
        self.arena.abandoned_bytes.fetch_add(bytes, Ordering::Relaxed);
        mem::forget(self);
        bytes
    }

    fn into_parts(self) -> (Arc<Inner>, PieceId) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is never used or dropped again, so the reference is moved out exactly
        // once.
        (unsafe { ptr::read(&this.arena) }, this.id)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the piece lies in the mapping, which `arena` keeps alive; a memfd's bytes are
        // always initialised; this buffer is the only owner and `&self` excludes writers.
        unsafe { slice::from_raw_parts(self.arena.piece_start(self.id), self.arena.piece_bytes(self.id)) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` of the only owner is exclusive.
        unsafe { slice::from_raw_parts_mut(self.arena.piece_start(self.id), self.arena.piece_bytes(self.id)) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.arena.piece(self.id).owners.store(0, Ordering::Relaxed);
        self.arena.give_back(self.id);
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("region_offset", &self.region_offset())
            .field("bytes", &self.len())
            .field("state", &self.state())
            .finish()
    }
}
