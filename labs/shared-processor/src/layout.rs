//! What co-operating processes share: a sheet for each, and one for all.
//!
//! Fields are grouped by who writes them (Govindan, table 4.2): `Used` by the member's own scheduler, `Told` by the
//! kernel part. Today the kernel part is code that runs in whichever member has the processor; a scheduler in the
//! kernel (sched_ext) would write the same fields of the same pages. All-zero memory is an empty board.

use crate::atomic::{AtomicU32, AtomicU64};
use crate::limits::{LINES_MAX, MEMBERS_MAX, STEPS_MAX};

/// The sheet of all, then a sheet for each member (a "page" in all that follows), without gaps: a processor that changes
/// hands between processes forgets its translations of addresses on many machines, so what is touched at a hand-over
/// should lie in few of the kernel's pages. That of all and those of the first two members are one.
#[repr(C, align(4096))]
pub(crate) struct Shared {
    pub(crate) head: Head,
    pub(crate) pages: [Page; MEMBERS_MAX],
}

#[repr(C, align(64))]
pub(crate) struct Head {
    /// Says that this is a board, and of which layout; written last.
    pub(crate) magic: AtomicU64,
    pub(crate) baton: Line<AtomicU64>,
    /// Something has changed that the holder must look at: set by anybody *after* the change, cleared by the holder
    /// *before* it looks. (The preemption request, one for the processor instead of one for each member: then it
    /// cannot be left with a member that has just handed the processor over.)
    pub(crate) attention: Line<AtomicU32>,
    /// Until when a resting holder sleeps.
    pub(crate) rest_until_ns: AtomicU64,
    pub(crate) hand_overs: AtomicU64,
    /// Slots from this one on were never used.
    pub(crate) slots_used: AtomicU32,
    pub(crate) buried: AtomicU32,
    pub(crate) revoked: AtomicU32,
}

/// A value with a cache line of its own.
#[repr(C, align(64))]
pub(crate) struct Line<T>(pub(crate) T);

#[repr(C, align(64))]
pub(crate) struct Page {
    /// `pid << 2 | phase`; 0 is vacant.
    pub(crate) life: AtomicU64,
    /// When the process began, against process ids that are used again.
    pub(crate) born: AtomicU64,
    /// The futex the member sleeps on; counts up with every wake-up.
    pub(crate) turn: Line<AtomicU32>,
    pub(crate) used: Line<Used>,
    pub(crate) told: Line<Told>,
    pub(crate) waits: [Wait; LINES_MAX],
}

/// Written by the member.
#[repr(C)]
pub(crate) struct Used {
    /// Odd while the steps are written.
    pub(crate) version: AtomicU32,
    pub(crate) steps_len: AtomicU32,
    /// How its best task stands: D_A, and with it `runnable`, C_A and J_A of section 4.5 in one number.
    pub(crate) rank: AtomicU64,
    /// T_next: until when nobody need look at this page: then time makes it stand better, or what it waits for is critical
    /// and may have come without anybody's attention.
    pub(crate) next_ns: AtomicU64,
    /// L: how it will stand.
    pub(crate) steps: [SharedStep; STEPS_MAX],
}

/// Written by the kernel part.
#[repr(C)]
pub(crate) struct Told {
    /// How the best of the others stands: D of all others.
    pub(crate) other: AtomicU64,
    /// When that may get better without anybody's attention: T_critical of all others. What is critical later needs no
    /// attention; `u64::MAX` while the others are being looked at.
    pub(crate) other_at_ns: AtomicU64,
    /// ReadyForIO: a bit for each line.
    pub(crate) ready: Line<AtomicU64>,
}

#[repr(C)]
pub(crate) struct SharedStep {
    pub(crate) at_ns: AtomicU64,
    pub(crate) rank: AtomicU64,
}

/// WaitingForIO: a line on which the member waits.
#[repr(C)]
pub(crate) struct Wait {
    /// The critical time of what will come, plus one; 0 if nobody waits.
    pub(crate) critical_ns: AtomicU64,
    pub(crate) rank: AtomicU64,
}

/// Phases of a life.
pub(crate) const JOINING: u64 = 1;
pub(crate) const LIVE: u64 = 2;
pub(crate) const DEAD: u64 = 3;

impl Page {
    pub(crate) const fn life(pid: u32, phase: u64) -> u64 {
        (pid as u64) << 2 | phase
    }
}
