//! How those wait who may: for answers, memory, locks and their pace.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use crate::limits::{BUFFER_POLL_NS, LOCK_POLL_NS};

/// Stands in for the operating system wherever a volume waits. For a simulation, in which one caller runs at a time, on a clock of its own.
pub trait Turns: Send + Sync {
    /// The time on the clock of the disks' deadlines.
    fn now_ns(&self) -> u64;

    /// Names whoever calls, for [`Turns::told`].
    fn caller(&self) -> u64;

    /// Lets others have their turns until the caller has been told something or, if that is given, until then. It may also end before.
    /// `false` when nothing will ever happen again.
    fn rest(&self, until_ns: Option<u64>) -> bool;

    /// Something came that this caller may wait for.
    fn told(&self, caller: u64);
}

/// The one way to wait: in threads of the operating system, or in turns.
#[derive(Clone)]
pub(crate) struct Waits {
    turns: Option<Arc<dyn Turns>>,
}

impl Waits {
    pub(crate) fn new(turns: Option<Arc<dyn Turns>>) -> Waits {
        Waits { turns }
    }

    pub(crate) fn turns(&self) -> Option<&Arc<dyn Turns>> {
        self.turns.as_ref()
    }

    /// The time on the clock of all deadlines: CLOCK_MONOTONIC, or that of the simulation.
    pub(crate) fn now_ns(&self) -> u64 {
        self.turns.as_ref().map_or_else(reel_rt::now_ns, |turns| turns.now_ns())
    }

    /// Waits for so long. `false` when there is nothing to wait for any more.
    pub(crate) fn sleep_ns(&self, ns: u64) -> bool {
        let Some(turns) = &self.turns else {
            std::thread::sleep(Duration::from_nanos(ns));
            return true;
        };
        let until_ns = turns.now_ns().saturating_add(ns);
        while turns.now_ns() < until_ns {
            if !turns.rest(Some(until_ns)) {
                return false;
            }
        }
        true
    }

    /// Waits a moment for memory, which comes free without a signal.
    pub(crate) fn sleep_for_memory(&self) -> bool {
        self.sleep_ns(BUFFER_POLL_NS)
    }

    /// A lock that is held by those who wait.
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
