//! What other threads see of the thread of a watched directory.

use crate::limits::WATCH_LOOK_MAX_NS;
use reel_rt::now_ns;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether the thread of a watched directory continues.
///
/// A file system that does not answer holds the thread in a look at the directory, and nothing else
/// would show it. So a look has a time limit. An ingest has none. Another thread does it, it may
/// wait for its turn behind others, and it may take an hour. How far it is stands in the list of
/// jobs.
#[derive(Debug)]
pub struct WatchLife {
    panics: AtomicU64,
    /// When the look began that is under way; [`NO_LOOK`] if there is none.
    since_ns: AtomicU64,
}

/// The thread waits for the next look, or for an ingest.
const NO_LOOK: u64 = u64::MAX;

impl WatchLife {
    /// Of a thread that begins now. It counts as looking from here on: one that ends before its
    /// first look is noticed, too.
    pub fn beginning(now_ns: u64) -> WatchLife {
        WatchLife { panics: AtomicU64::new(0), since_ns: AtomicU64::new(now_ns) }
    }

    /// Panics after which the thread continued.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// How long the look at the directory has taken that is under way; 0 if there is none.
    pub fn looks_for_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.since_ns.load(Ordering::Relaxed))
    }

    /// Whether a look takes longer than any that ends, because the file system does not answer or
    /// the thread has ended.
    pub fn hangs(&self, now_ns: u64) -> bool {
        self.looks_for_ns(now_ns) > WATCH_LOOK_MAX_NS
    }

    pub(super) fn looks(&self) {
        self.since_ns.store(now_ns(), Ordering::Relaxed);
    }

    pub(super) fn waits(&self) {
        self.since_ns.store(NO_LOOK, Ordering::Relaxed);
    }

    pub(super) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }
}
