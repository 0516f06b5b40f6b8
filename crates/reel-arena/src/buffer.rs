use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::arena::{Arena, Inner, PieceId};
use crate::lease::Lease;
use crate::state::State;

/// A piece of the arena with one owner, who may write. Aligned to 4096; as long as its class (cell or buffer),
/// which may be more than was asked for.
pub struct Buffer {
    arena: Arc<Inner>,
    id: PieceId,
}

impl Buffer {
    pub(crate) fn new(arena: Arc<Inner>, id: PieceId) -> Buffer {
        Buffer { arena, id }
    }

    /// Gives up writing and makes the piece sharable.
    pub fn freeze(self) -> Lease {
        self.set_state(State::Full);
        let (arena, id) = self.into_parts();
        let bytes = arena.piece_bytes(id);
        Lease::new(arena, id, 0, bytes)
    }

    /// Offset of the first byte in the arena's region.
    pub fn region_offset(&self) -> usize {
        self.arena.region_offset(self.id)
    }

    /// What the piece is doing.
    pub fn state(&self) -> State {
        self.arena.piece(self.id).state()
    }

    /// Tells the arena's accounts what the piece is doing. A buffer cannot be [`State::Sending`]: only leases
    /// are sent; that value counts as `Full`.
    pub fn set_state(&self, state: State) {
        let state = if state == State::Sending { State::Full } else { state };
        self.arena.set_state(self.id, state);
    }

    /// Address of the first byte, for a device. Whoever passes it on must keep this buffer unused and alive
    /// until the device is done.
    pub fn as_device_ptr(&self) -> *mut u8 {
        self.arena.piece_start(self.id)
    }

    /// Another piece of the same arena, as long as this one, whose bytes are anything; `None` if there is none at the moment. For whoever
    /// cannot go on with this one.
    pub fn another(&self) -> Option<Buffer> {
        Arena::of(Arc::clone(&self.arena)).take(self.len())
    }

    fn into_parts(self) -> (Arc<Inner>, PieceId) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is never used or dropped again, so the reference moves out exactly once.
        (unsafe { ptr::read(&this.arena) }, this.id)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the piece lies in the mapping, which `arena` keeps alive; a memfd's bytes are always
        // initialised; this buffer is the only owner and `&self` excludes writers.
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
