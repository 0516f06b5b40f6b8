//! What all threads of a fleet count together, for the display while it runs.

use super::outcome::Sample;
use super::player::Phase;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the start; phases are how many are in them now.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    phases: [AtomicU64; 5],
    pub(crate) refused: Count,
    pub(crate) failed: Count,
    pub(crate) late_bytes: Count,
    pub(crate) bytes: Count,
    pub(crate) download_bytes: Count,
    pub(crate) browser_requests: Count,
}

/// One number.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        // Only looked at by people and once a second: no order is needed.
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    /// A viewer is in another phase; `None` is before its start or after its end.
    pub(crate) fn moved(&self, from: Option<Phase>, to: Option<Phase>) {
        if let Some(from) = from {
            self.phases[from as usize].fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(to) = to {
            self.phases[to as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn sample(&self, at_s: f64) -> Sample {
        let phase = |phase: Phase| self.phases[phase as usize].load(Ordering::Relaxed);
        Sample {
            at_s,
            starting: phase(Phase::Starting),
            playing: phase(Phase::Playing),
            stalled: phase(Phase::Stalled),
            paused: phase(Phase::Paused),
            refused: self.refused.get(),
            failed: self.failed.get(),
            late_bytes: self.late_bytes.get(),
            bytes: self.bytes.get(),
            download_bytes: self.download_bytes.get(),
            browser_requests: self.browser_requests.get(),
        }
    }
}
