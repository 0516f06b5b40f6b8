//! What a member did, for metrics and display.

use crate::activity::MemberActivity;
use crate::job::Work;
use crate::limits::SERVICE_BUCKETS;
use reel_qos::Class;
use reel_qos::limits::CLASSES_MAX;
use std::sync::atomic::{AtomicU64, Ordering};

/// A snapshot of one member's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberStats {
    /// Whether the member is present.
    pub present: bool,
    /// Whether it answers.
    pub activity: MemberActivity,
    /// Reads done.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes done.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Syncs done.
    pub syncs: u64,
    /// Reads and writes by class, in the order of the class table.
    pub classes: [ClassStats; CLASSES_MAX],
    /// Requests that failed.
    pub errors: u64,
    /// Requests waiting in the scheduler.
    pub queued: u64,
    /// Requests in the device.
    pub in_device: u64,
    /// Service times: bucket `i` counts requests that took the device less than 2^i microseconds,
    /// and at least half of that.
    pub service_us_log2: [u64; SERVICE_BUCKETS],
    /// Sum of all service times.
    pub service_ns: u64,
}

/// What one class of requests got from a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Reads and writes done.
    pub requests: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Requests that were answered after their deadline, whatever the answer.
    pub late: u64,
}

/// The counters themselves, bumped by the member's disk thread only.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) reads: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) queued: AtomicU64,
    pub(crate) in_device: AtomicU64,
    class_requests: [AtomicU64; CLASSES_MAX],
    class_bytes: [AtomicU64; CLASSES_MAX],
    class_late: [AtomicU64; CLASSES_MAX],
    service_us_log2: [AtomicU64; SERVICE_BUCKETS],
    service_ns: AtomicU64,
}

impl Counters {
    pub(crate) fn succeeded(&self, class: Class, work: &Work) {
        let (_, bytes) = work.place();
        let (count, sum) = match work {
            Work::Read { .. } => (&self.reads, &self.read_bytes),
            Work::Write { .. } => (&self.writes, &self.written_bytes),
            Work::Sync => {
                self.syncs.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        for (counter, by) in [
            (count, 1),
            (sum, bytes as u64),
            (&self.class_requests[class.index()], 1),
            (&self.class_bytes[class.index()], bytes as u64),
        ] {
            counter.fetch_add(by, Ordering::Relaxed);
        }
    }

    pub(crate) fn late(&self, class: Class) {
        self.class_late[class.index()].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn served(&self, device_ns: u64) {
        let bucket = (64 - (device_ns / 1_000).leading_zeros() as usize).min(SERVICE_BUCKETS - 1);
        self.service_us_log2[bucket].fetch_add(1, Ordering::Relaxed);
        self.service_ns.fetch_add(device_ns, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self, present: bool, activity: MemberActivity) -> MemberStats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        MemberStats {
            present,
            activity,
            reads: load(&self.reads),
            read_bytes: load(&self.read_bytes),
            writes: load(&self.writes),
            written_bytes: load(&self.written_bytes),
            syncs: load(&self.syncs),
            classes: std::array::from_fn(|class| ClassStats {
                requests: load(&self.class_requests[class]),
                bytes: load(&self.class_bytes[class]),
                late: load(&self.class_late[class]),
            }),
            errors: load(&self.errors),
            queued: load(&self.queued),
            in_device: load(&self.in_device),
            service_us_log2: std::array::from_fn(|bucket| load(&self.service_us_log2[bucket])),
            service_ns: load(&self.service_ns),
        }
    }
}
