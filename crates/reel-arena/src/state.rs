use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, Ordering};

/// The state of a taken piece of memory, in the terms of the MARS mmbuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PieceState {
    /// Taken, nothing in it yet.
    Empty = 0,
    /// A device is filling it.
    Reading = 1,
    /// Holds bytes.
    Full = 2,
    /// Holds bytes, and at least one device is sending or storing them.
    Sending = 3,
}

impl PieceState {
    /// All states, in the order of a piece's life.
    pub const ALL: [PieceState; 4] =
        [PieceState::Empty, PieceState::Reading, PieceState::Full, PieceState::Sending];

    pub(crate) fn from_u8(value: u8) -> PieceState {
        match value {
            0 => PieceState::Empty,
            1 => PieceState::Reading,
            2 => PieceState::Full,
            _ => PieceState::Sending,
        }
    }
}

/// The side-table entry of one piece (a cell, or a whole buffer under the index of its first cell).
pub(crate) struct Piece {
    /// Owners: 1 for a `Buffer`, the number of `Lease`s otherwise, 0 when free.
    pub(crate) owners: AtomicU32,
    /// Sends in progress.
    pub(crate) sends: AtomicU32,
    /// A `PieceState` other than `Sending`.
    pub(crate) state: AtomicU8,
}

impl Piece {
    pub(crate) fn new() -> Piece {
        Piece {
            owners: AtomicU32::new(0),
            sends: AtomicU32::new(0),
            state: AtomicU8::new(PieceState::Empty as u8),
        }
    }

    pub(crate) fn state(&self) -> PieceState {
        if self.sends.load(Ordering::Relaxed) > 0 {
            return PieceState::Sending;
        }
        PieceState::from_u8(self.state.load(Ordering::Relaxed))
    }
}

/// How many taken pieces are in each state.
///
/// Signed, because a third thread can see the two halves of one change separately. Each sum is
/// right as soon as no change is in progress. No decision depends on these numbers, so `Relaxed` is
/// enough.
pub(crate) struct StateCounts([AtomicI64; 4]);

impl StateCounts {
    pub(crate) fn new() -> StateCounts {
        StateCounts([const { AtomicI64::new(0) }; 4])
    }

    pub(crate) fn enter(&self, state: PieceState) {
        self.0[state as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leave(&self, state: PieceState) {
        self.0[state as usize].fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self, state: PieceState) -> usize {
        self.0[state as usize].load(Ordering::Relaxed).max(0) as usize
    }
}
