use std::fmt;
use std::mem::{self, ManuallyDrop};
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{self, Ordering};

use crate::arena::{Inner, PieceId};
use crate::buffer::Buffer;
use crate::state::PieceState;

/// A shared, immutable view of a piece of the arena, or of a part of it. The memory returns to the
/// arena when the last lease of the piece is dropped.
///
/// The count of a piece's leases is in the arena's side table, so a clone or a slice allocates
/// nothing, and touches one word that only the users of this piece touch. All leases of a piece
/// together hold one reference to the arena: the first lease gets it from the buffer, the last one
/// returns it.
pub struct Lease {
    arena: NonNull<Inner>,
    id: PieceId,
    start: u32,
    bytes: u32,
}

// SAFETY: a lease only reads, the bytes are not written while any lease of the piece lives, and the
// count is atomic. The arena it points to is `Sync`.
unsafe impl Send for Lease {}
// SAFETY: as above.
unsafe impl Sync for Lease {}

impl Lease {
    pub(crate) fn new(arena: Arc<Inner>, id: PieceId, start: usize, bytes: usize) -> Lease {
        // SAFETY: `Arc::into_raw` is never null.
        let arena = unsafe { NonNull::new_unchecked(Arc::into_raw(arena).cast_mut()) };
        // A buffer is at most 1 GiB, so both fit.
        Lease { arena, id, start: start as u32, bytes: bytes as u32 }
    }

    /// Keeps the piece from being used again, because the kernel may still read from it. It stays
    /// taken, and the bytes of the lease are counted. Returns them.
    pub fn abandon(self) -> usize {
        let bytes = self.len();
        self.inner().abandoned_bytes.fetch_add(bytes, Ordering::Relaxed);
        mem::forget(self);
        bytes
    }

    /// A lease of a part of this one's bytes.
    ///
    /// # Panics
    /// If the range is not within the lease.
    pub fn slice(&self, range: Range<usize>) -> Lease {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "slice {}..{} of a lease of {} bytes",
            range.start,
            range.end,
            self.len()
        );
        let mut part = self.clone();
        part.start += range.start as u32;
        part.bytes = (range.end - range.start) as u32;
        part
    }

    /// The whole piece as a writable buffer, if this is its only lease, whatever part it shows.
    ///
    /// # Errors
    /// Returns the lease if the piece has others.
    pub fn try_into_buffer(self) -> Result<Buffer, Lease> {
        // Acquire pairs with the Release of the other leases' drops: their reads are over before
        // the new owner writes. No new lease can appear, since only a lease makes leases and this
        // is the only one.
        if self.inner().piece(self.id).owners.load(Ordering::Acquire) != 1 {
            return Err(self);
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: this was the only lease, so the leases' one reference to the arena can be moved.
        Ok(Buffer::new(unsafe { Arc::from_raw(this.arena.as_ptr()) }, this.id))
    }

    /// Counts a send of this piece for the arena's statistics, until the guard is dropped.
    pub fn sending(&self) -> Sending {
        self.inner().begin_send(self.id);
        Sending { lease: self.clone() }
    }

    /// The state of the piece.
    pub fn state(&self) -> PieceState {
        self.inner().piece(self.id).state()
    }

    /// Offset of the first byte in the arena's region.
    pub fn region_offset(&self) -> usize {
        self.inner().region_offset(self.id) + self.start as usize
    }

    fn inner(&self) -> &Inner {
        // SAFETY: the leases of the piece hold a reference to the arena, and this is one of them.
        unsafe { self.arena.as_ref() }
    }
}

impl Deref for Lease {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: start and bytes were checked against the piece. The mapping lives as long as the
        // arena, and the bytes are initialised (memfd). Nothing writes them while a lease lives.
        unsafe {
            let first = self.inner().piece_start(self.id).add(self.start as usize);
            slice::from_raw_parts(first, self.bytes as usize)
        }
    }
}

impl AsRef<[u8]> for Lease {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Clone for Lease {
    fn clone(&self) -> Lease {
        // Relaxed as in `Arc::clone`: the new owner gets its view of the bytes from the existing
        // one.
        let before = self.inner().piece(self.id).owners.fetch_add(1, Ordering::Relaxed);
        assert!(
            before < u32::MAX / 2,
            "a piece of the arena has {before} leases: one is cloned and never dropped"
        );
        Lease { arena: self.arena, id: self.id, start: self.start, bytes: self.bytes }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Release: this owner's reads come before the count falls. The last owner's fence then
        // orders all reads before the piece goes to the next owner, which may write.
        if self.inner().piece(self.id).owners.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        atomic::fence(Ordering::Acquire);
        // SAFETY: the last lease owns the leases' one reference to the arena.
        let arena = unsafe { Arc::from_raw(self.arena.as_ptr()) };
        arena.give_back(self.id);
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("region_offset", &self.region_offset())
            .field("bytes", &self.len())
            .field("state", &self.state())
            .finish()
    }
}

/// While this guard lives, the piece counts as [`PieceState::Sending`]. It also keeps the piece
/// alive.
#[derive(Debug)]
pub struct Sending {
    lease: Lease,
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.lease.inner().end_send(self.lease.id);
    }
}
