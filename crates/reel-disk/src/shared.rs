//! What the disk threads and their users both see.

use crate::activity::ActivityTracker;
use crate::measured_price::MeasuredPrice;
use crate::scheduler::SchedulerView;
use crate::stats::Counters;
use reel_qos::{ClassTable, DiskPrice};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock};

/// What the disk threads and their users both see.
pub(crate) struct Shared {
    pub(crate) counters: Vec<Counters>,
    /// Written by the member's thread now and then.
    pub(crate) views: Vec<Mutex<SchedulerView>>,
    pub(crate) prices: Vec<Mutex<MemberPrice>>,
    /// Written by the member's thread with each request.
    pub(crate) activities: Vec<Mutex<ActivityTracker>>,
    pub(crate) classes: RwLock<Arc<ClassTable>>,
    /// Processor time of each thread, written by it now and then.
    pub(crate) cpu_ns: Vec<AtomicU64>,
}

/// The price of a member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberPrice {
    pub(crate) measured: MeasuredPrice,
    /// As the member's scheduler counts now: what was measured, corrected by its thread.
    pub(crate) now: DiskPrice,
}

impl MemberPrice {
    /// A price as a server begins with it.
    pub(crate) fn of(measured: MeasuredPrice) -> Self {
        Self { measured, now: measured.price.times(measured.first_factor()) }
    }
}
