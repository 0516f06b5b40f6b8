use crate::limits::MEMBERS_MAX;

/// Which member has the processor, as one word of the shared memory: its owner may run tasks.
///
/// Every change increases the epoch, so that a compare-and-exchange with an old word fails even if
/// the same member has the processor again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) u64);

const RESTING: u64 = 1 << 31;
const HOLDER: u64 = 0xffff;

impl Token {
    /// The member that has the processor, running or resting. A word that names no member (any
    /// member can write invalid values) counts as free, and the next member that needs the
    /// processor takes it.
    pub(crate) fn holder(self) -> Option<usize> {
        (self.0 & HOLDER).checked_sub(1).map(|slot| slot as usize).filter(|slot| *slot < MEMBERS_MAX)
    }

    /// No member has anything to do, and the holder sleeps until there is work.
    pub(crate) fn is_resting(self) -> bool {
        self.0 & RESTING != 0
    }

    /// A member runs.
    pub(crate) fn is_running(self) -> bool {
        self.holder().is_some() && !self.is_resting()
    }

    /// The next word: `slot` runs.
    pub(crate) fn to(self, slot: usize) -> Token {
        Token(self.next_epoch() | (slot as u64 + 1))
    }

    /// The next word: the holder rests.
    pub(crate) fn rest(self) -> Token {
        Token(self.next_epoch() | (self.0 & HOLDER) | RESTING)
    }

    /// The next word: no member has the processor.
    pub(crate) fn free(self) -> Token {
        Token(self.next_epoch())
    }

    fn next_epoch(self) -> u64 {
        (self.0 >> 32).wrapping_add(1) << 32
    }
}
