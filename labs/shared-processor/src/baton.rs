use crate::limits::MEMBERS_MAX;

/// Who has the processor, as one word of the board.
///
/// Every change counts the epoch up, so that a compare-and-exchange with an old word fails even if the same member has
/// the processor again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Baton(pub(crate) u64);

const RESTING: u64 = 1 << 31;
const HOLDER: u64 = 0xffff;

impl Baton {
    /// The member that has it, running or resting. A word that names nobody (any member can write rubbish) is
    /// nobody's, and is taken by the next one who wants it.
    pub(crate) fn holder(self) -> Option<usize> {
        (self.0 & HOLDER).checked_sub(1).map(|slot| slot as usize).filter(|slot| *slot < MEMBERS_MAX)
    }

    /// Nobody had anything to do, and the holder sleeps until something comes.
    pub(crate) fn is_resting(self) -> bool {
        self.0 & RESTING != 0
    }

    /// Somebody runs.
    pub(crate) fn is_running(self) -> bool {
        self.holder().is_some() && !self.is_resting()
    }

    /// The next word: `slot` runs.
    pub(crate) fn to(self, slot: usize) -> Baton {
        Baton(self.next_epoch() | (slot as u64 + 1))
    }

    /// The next word: the holder rests.
    pub(crate) fn rest(self) -> Baton {
        Baton(self.next_epoch() | (self.0 & HOLDER) | RESTING)
    }

    /// The next word: nobody has it.
    pub(crate) fn free(self) -> Baton {
        Baton(self.next_epoch())
    }

    fn next_epoch(self) -> u64 {
        (self.0 >> 32).wrapping_add(1) << 32
    }
}
