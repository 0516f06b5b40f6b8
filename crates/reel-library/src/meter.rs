//! The progress of an ingest, reported often enough for a progress bar and no more often.

use crate::input::{Phase, Progress};
use std::time::{Duration, Instant};

/// Time between two reports.
const REPORT_PERIOD: Duration = Duration::from_millis(100);

/// Adds up the progress of all files and reports it.
pub(crate) struct Meter<'p> {
    report: &'p mut dyn FnMut(Progress),
    progress: Progress,
    before_bytes: u64,
    started: Instant,
    reported: Instant,
}

impl<'p> Meter<'p> {
    pub(crate) fn new(report: &'p mut dyn FnMut(Progress), total_bytes: u64) -> Meter<'p> {
        let progress = Progress {
            file_name: String::new(),
            done_bytes: 0,
            total_bytes,
            rate_bytes_per_s: 0,
            phase: Phase::Opening,
        };
        let now = Instant::now();
        Meter { report, progress, before_bytes: 0, started: now, reported: now }
    }

    /// A new phase begins with this file. Reported at once.
    pub(crate) fn phase(&mut self, phase: Phase, file_name: &str) {
        self.progress.phase = phase;
        self.progress.file_name = file_name.to_owned();
        (self.report)(self.progress.clone());
    }

    /// The current file has been read up to `bytes`.
    pub(crate) fn read(&mut self, bytes: u64) {
        self.progress.done_bytes = (self.before_bytes + bytes).min(self.progress.total_bytes);
        let now = Instant::now();
        if now.saturating_duration_since(self.reported) >= REPORT_PERIOD {
            self.reported = now;
            let seconds = now.saturating_duration_since(self.started).as_secs_f64();
            self.progress.rate_bytes_per_s = (self.progress.done_bytes as f64 / seconds.max(0.001)) as u64;
            (self.report)(self.progress.clone());
        }
    }

    /// The current file, of `bytes`, has been read completely.
    pub(crate) fn file_done(&mut self, bytes: u64) {
        self.before_bytes += bytes;
        self.progress.done_bytes = self.before_bytes.min(self.progress.total_bytes);
        (self.report)(self.progress.clone());
    }

    /// The ingest is complete.
    pub(crate) fn end(&mut self) {
        self.progress.done_bytes = self.progress.total_bytes;
        (self.report)(self.progress.clone());
    }
}
