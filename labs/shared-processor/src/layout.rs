//! The memory that co-operating processes share: one page for all, and one for each member.
//!
//! Fields are grouped by their writer (Govindan, table 4.2): `Used` is written by the member's own
//! scheduler, `Told` by the kernel part. Today the kernel part is code that runs in the member that
//! has the processor. A scheduler in the kernel (sched_ext) would write the same fields of the same
//! pages. All-zero memory is an empty shared processor.

use crate::atomic::{AtomicU32, AtomicU64};
use crate::limits::{LINES_MAX, MEMBERS_MAX, STEPS_MAX};

/// The page of all, then a page for each member, without gaps. On many machines a processor that
/// switches processes loses its address translations, so what a hand-over touches should lie in few
/// of the kernel's memory pages. The page of all and those of the first two members are in one.
#[repr(C, align(4096))]
pub(crate) struct Shared {
    pub(crate) head: Head,
    pub(crate) pages: [Page; MEMBERS_MAX],
}

#[repr(C, align(64))]
pub(crate) struct Head {
    /// Identifies the memory and its layout; written last.
    pub(crate) magic: AtomicU64,
    pub(crate) token: Line<AtomicU64>,
    /// Something has changed that the holder must check. Any thread sets it *after* the change; the
    /// holder clears it *before* it checks. (The preemption request, one for the processor instead
    /// of one for each member: so it cannot be left with a member that has just handed the
    /// processor over.)
    pub(crate) attention: Line<AtomicU32>,
    /// Until when a resting holder sleeps.
    pub(crate) rest_until_ns: AtomicU64,
    pub(crate) hand_overs: AtomicU64,
    /// Slots from this one on were never used.
    pub(crate) slots_used: AtomicU32,
    pub(crate) died: AtomicU32,
    pub(crate) revoked: AtomicU32,
}

/// A value with a cache line of its own.
#[repr(C, align(64))]
pub(crate) struct Line<T>(pub(crate) T);

#[repr(C, align(64))]
pub(crate) struct Page {
    /// `pid << 2 | phase`; 0 is vacant.
    pub(crate) life: AtomicU64,
    /// When the process began, because process ids are reused.
    pub(crate) start_time: AtomicU64,
    /// The futex on which the member sleeps; increased by every wake-up.
    pub(crate) turn: Line<AtomicU32>,
    pub(crate) from_member: Line<FromMember>,
    pub(crate) from_kernel: Line<FromKernel>,
    pub(crate) waits: [Wait; LINES_MAX],
}

/// Written by the member.
#[repr(C)]
pub(crate) struct FromMember {
    /// Odd while the steps are written.
    pub(crate) version: AtomicU32,
    pub(crate) steps_len: AtomicU32,
    /// The rank of its best task: D_A, and with it `runnable`, C_A and J_A of section 4.5 in one
    /// number.
    pub(crate) rank: AtomicU64,
    /// T_next: until when no member need check this page. Then time improves its rank, or the work
    /// that it waits for is critical and may have arrived unnoticed.
    pub(crate) next_ns: AtomicU64,
    /// L: its future ranks.
    pub(crate) steps: [SharedStep; STEPS_MAX],
}

/// Written by the kernel part.
#[repr(C)]
pub(crate) struct FromKernel {
    /// The best rank of the others: D of all others.
    pub(crate) other: AtomicU64,
    /// When that may improve without attention: T_critical of all others. Work that is critical
    /// later needs no attention. `u64::MAX` during a check of the others.
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
    /// The critical time of the expected work, plus one; 0 if the member does not wait.
    pub(crate) critical_ns: AtomicU64,
    pub(crate) rank: AtomicU64,
}

/// Phases of a member's life.
pub(crate) const JOINING: u64 = 1;
pub(crate) const LIVE: u64 = 2;
pub(crate) const DEAD: u64 = 3;

impl Page {
    pub(crate) const fn life(pid: u32, phase: u64) -> u64 {
        (pid as u64) << 2 | phase
    }
}
