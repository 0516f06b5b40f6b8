//! What a member did, for metrics and people.

use crate::limits::SERVICE_BUCKETS;
use std::sync::atomic::{AtomicU64, Ordering};

/// A snapshot of one member's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberStats {
    /// Whether there is such a member.
    pub present: bool,
    /// Reads done.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes done.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Requests waiting in the scheduler.
    pub queued: u64,
    /// Requests in the device.
    pub in_device: u64,
    /// Service times: bucket `i` counts requests that took the device less than 2^i microseconds, and not less than half of it.
    pub service_us_log2: [u64; SERVICE_BUCKETS],
    /// Sum of all service times.
    pub service_ns: u64,
}

/// The counters themselves, bumped by the member's disk thread only.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) reads: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) queued: AtomicU64,
    pub(crate) in_device: AtomicU64,
    service_us_log2: [AtomicU64; SERVICE_BUCKETS],
    service_ns: AtomicU64,
}

impl Counters {
    pub(crate) fn served(&self, device_ns: u64) {
        let bucket = (64 - (device_ns / 1_000).leading_zeros() as usize).min(SERVICE_BUCKETS - 1);
        self.service_us_log2[bucket].fetch_add(1, Ordering::Relaxed);
        self.service_ns.fetch_add(device_ns, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self, present: bool) -> MemberStats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        MemberStats {
            present,
            reads: load(&self.reads),
            read_bytes: load(&self.read_bytes),
            writes: load(&self.writes),
            written_bytes: load(&self.written_bytes),
            errors: load(&self.errors),
            queued: load(&self.queued),
            in_device: load(&self.in_device),
            service_us_log2: std::array::from_fn(|bucket| load(&self.service_us_log2[bucket])),
            service_ns: load(&self.service_ns),
        }
    }
}
