//! Faults on purpose: what a member may be made to do wrong, for tests of everything above.

use crate::error::DiskError;
use crate::job::Job;
use rustix::io::Errno;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One thing that goes wrong. Faults act on answers: what a write stored is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Inverts what is read of this range of the member, in bytes: rot at one place.
    CorruptRange(Range<u64>),
    /// Flips one bit in every block that is read: a lying member.
    CorruptReads,
    /// Holds every answer back for this long: a slow member.
    Delay {
        /// For how long.
        delay_ns: u64,
    },
    /// Takes so many times as long for everything, and keeps its place in the device: a worn or vibrating disk.
    Slow {
        /// How many times; 1 is as fast as it is.
        factor: u32,
    },
    /// Answers nothing in the first part of every period of the clock, as if it were busy: a disk that recalibrates, or a bus that resets.
    Stall {
        /// For how long it stalls.
        for_ns: u64,
        /// In which period.
        every_ns: u64,
    },
    /// Every read that touches this range of the member, in bytes, fails with EIO: bad sectors.
    FailRange(Range<u64>),
    /// Every read fails with EIO.
    FailReads,
    /// Every write and sync fails with EIO.
    FailWrites,
    /// Everything fails with ENODEV: pulled out.
    Vanish,
}

/// The faults of a set of members; clones are the same set. Empty outside of tests.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Spares the lock where there never was a fault, which is everywhere but in tests.
    any: AtomicBool,
    by_member: Mutex<HashMap<usize, Vec<Fault>>>,
}

impl Faults {
    /// Makes `member` do this wrong from now on.
    pub fn inject(&self, member: usize, fault: Fault) {
        self.lock().entry(member).or_default().push(fault);
        self.shared.any.store(true, Ordering::Release);
    }

    /// Mends `member`.
    pub fn clear(&self, member: usize) {
        self.lock().remove(&member);
    }

    /// How long the device keeps a request that it began and is through with at these times.
    pub(crate) fn keep_ns(&self, member: usize, started_ns: u64, now_ns: u64) -> u64 {
        let keep_ns = |fault: &Fault| match *fault {
            Fault::Slow { factor } => {
                now_ns.saturating_sub(started_ns).saturating_mul(factor.saturating_sub(1).into())
            }
            Fault::Stall { for_ns, every_ns } => for_ns.saturating_sub(now_ns % every_ns.max(1)),
            _ => 0,
        };
        self.of(member).iter().map(keep_ns).max().unwrap_or(0)
    }

    /// Does to the job what its member was told to do wrong; how long to hold the answer back.
    pub(crate) fn apply(&self, job: &mut Job, result: &mut Result<(), DiskError>) -> u64 {
        let mut delay_ns = 0;
        for fault in self.of(job.member) {
            let (offset, bytes) = job.work.place();
            let hits = |range: &Range<u64>| offset < range.end && range.start < offset + bytes as u64;
            match fault {
                Fault::CorruptReads => job.work.corrupt(),
                Fault::CorruptRange(range) => job.work.invert(range.start, range.end),
                Fault::Delay { delay_ns: by_ns } => delay_ns += by_ns,
                Fault::FailReads if job.work.is_read() => *result = Err(job.failed(Errno::IO.into())),
                Fault::FailWrites if !job.work.is_read() => *result = Err(job.failed(Errno::IO.into())),
                Fault::FailRange(range) if job.work.is_read() && hits(&range) => {
                    *result = Err(job.failed(Errno::IO.into()));
                }
                Fault::Vanish => *result = Err(job.failed(Errno::NODEV.into())),
                Fault::FailReads | Fault::FailWrites | Fault::FailRange(_) => {}
                // While it was in the device.
                Fault::Slow { .. } | Fault::Stall { .. } => {}
            }
        }
        delay_ns
    }

    fn of(&self, member: usize) -> Vec<Fault> {
        if !self.shared.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.lock().get(&member).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Vec<Fault>>> {
        self.shared.by_member.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
