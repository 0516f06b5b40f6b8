//! What a volume counts, for metrics and tests.

use std::sync::atomic::{AtomicU64, Ordering};

/// One count that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
}

/// What happened on a volume since it was opened.
#[derive(Debug, Default)]
pub struct VolumeCounters {
    /// Rows read whose checksum matched.
    pub rows_verified: Counter,
    /// Rows that were computed from the other rows of their matrix, because their member did not
    /// give them.
    pub rows_decoded: Counter,
    /// Rows of parity that were computed to be sent, because that spares the disks a read.
    pub rows_computed: Counter,
    /// Rows read whose checksum did not match.
    pub checksum_failures: Counter,
    /// Reads of a member that failed.
    pub read_errors: Counter,
    /// Writes and syncs of a member that failed.
    pub write_errors: Counter,
    /// Rows, data and parity, given to members to write.
    pub rows_written: Counter,
    /// Reads of bytes that could neither be read nor computed.
    pub rows_lost: Counter,
    /// Catalogue commits.
    pub commits: Counter,
    /// Members dropped from the set in sync because they failed to write.
    pub members_dropped: Counter,
    /// Members taken out because they repeatedly failed reads or returned wrong data.
    pub members_taken_out: Counter,
    /// Units rewritten because at least a part of them was not what was written.
    pub units_repaired: Counter,
}
