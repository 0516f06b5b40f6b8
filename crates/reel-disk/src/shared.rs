//! What the disk threads and their users both see.

use crate::scheduler::SchedulerView;
use crate::stats::Counters;
use reel_qos::{ClassTable, DiskPrice};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// What the disk threads and their users both see.
pub(crate) struct Shared {
    pub(crate) counters: Vec<Counters>,
    /// Written by the member's thread now and then.
    pub(crate) views: Vec<Mutex<SchedulerView>>,
    /// As the member's scheduler counts now: what was given, corrected by its thread.
    pub(crate) prices: Vec<Mutex<DiskPrice>>,
    pub(crate) classes: RwLock<Arc<ClassTable>>,
    /// Processor time of each thread, written by it now and then.
    pub(crate) cpu_ns: Vec<AtomicU64>,
}

pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves a whole value: these values are replaced, never changed in part.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
