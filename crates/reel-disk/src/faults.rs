//! Faults on purpose: what a member may be made to do wrong, for tests of everything above.

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

    pub(crate) fn of(&self, member: usize) -> Vec<Fault> {
        if !self.shared.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.lock().get(&member).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Vec<Fault>>> {
        self.shared.by_member.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
