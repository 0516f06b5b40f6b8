//! How callers block: for answers, memory, locks and their rate.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use crate::limits::{BUFFER_POLL_NS, LOCK_POLL_NS};

/// Replaces the operating system wherever a volume blocks. For a simulation, in which one caller
/// runs at a time, on a clock of its own.
pub trait CooperativeWait: Send + Sync {
    /// The time on the clock of the disks' deadlines.
    fn now_ns(&self) -> u64;

    /// An id of the calling task, for [`CooperativeWait::notify`].
    fn caller(&self) -> u64;

    /// Lets other tasks run until this caller is notified or, if given, until `until_ns`. It may
    /// also return earlier. `false` when nothing will ever happen again.
    fn wait(&self, until_ns: Option<u64>) -> bool;

    /// Notifies `caller` of an event that it may wait for.
    fn notify(&self, caller: u64);
}

/// The only way to block: in threads of the operating system, or in a simulation.
#[derive(Clone)]
pub(crate) struct Waits {
    turns: Option<Arc<dyn CooperativeWait>>,
}

impl Waits {
    pub(crate) fn new(turns: Option<Arc<dyn CooperativeWait>>) -> Waits {
        Waits { turns }
    }

    pub(crate) fn turns(&self) -> Option<&Arc<dyn CooperativeWait>> {
        self.turns.as_ref()
    }

    /// The time on the clock of all deadlines: CLOCK_MONOTONIC, or that of the simulation.
    pub(crate) fn now_ns(&self) -> u64 {
        self.turns.as_ref().map_or_else(reel_rt::now_ns, |turns| turns.now_ns())
    }

    /// Waits for `ns`. `false` when the simulation has ended.
    pub(crate) fn sleep_ns(&self, ns: u64) -> bool {
        let Some(turns) = &self.turns else {
            std::thread::sleep(Duration::from_nanos(ns));
            return true;
        };
        let until_ns = turns.now_ns().saturating_add(ns);
        while turns.now_ns() < until_ns {
            if !turns.wait(Some(until_ns)) {
                return false;
            }
        }
        true
    }

    /// Waits a moment for memory, which becomes free without a notification.
    pub(crate) fn sleep_for_memory(&self) -> bool {
        self.sleep_ns(BUFFER_POLL_NS)
    }

    /// Locks a mutex whose holder may block on disks.
    pub(crate) fn lock<'a, T>(&self, shared: &'a Mutex<T>) -> MutexGuard<'a, T> {
        while self.turns.is_some() {
            match shared.try_lock() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
            if !self.sleep_ns(LOCK_POLL_NS) {
                break;
            }
        }
        shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
