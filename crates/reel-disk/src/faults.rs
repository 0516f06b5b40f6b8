//! Faults on purpose: what a member may be made to do wrong, for tests of everything above.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Flips one bit in every block that is read: a lying member.
    CorruptReads,
    /// Holds every answer back for this long: a slow member.
    Delay {
        /// For how long.
        delay_ns: u64,
    },
    /// Every read fails with EIO.
    FailReads,
    /// Every write and sync fails with EIO.
    FailWrites,
}

/// The faults of a set of members; clones are the same set. Empty outside of tests.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    by_member: Arc<Mutex<HashMap<usize, Vec<Fault>>>>,
}

impl Faults {
    /// Makes `member` do this wrong from now on.
    pub fn inject(&self, member: usize, fault: Fault) {
        self.lock().entry(member).or_default().push(fault);
    }

    /// Mends `member`.
    pub fn clear(&self, member: usize) {
        self.lock().remove(&member);
    }

    pub(crate) fn of(&self, member: usize) -> Vec<Fault> {
        self.lock().get(&member).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Vec<Fault>>> {
        self.by_member.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
