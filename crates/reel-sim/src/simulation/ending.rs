//! What a run says when it is over.

use super::Simulation;
use crate::journal::JournalEvent;
use crate::report::{Broken, Report};
use reel_disk::DiskBackend;
use std::sync::atomic::Ordering;

impl Simulation {
    pub(super) fn reported(mut self) -> Report {
        let disks = self.disks.journal();
        let counters = self.core.engine.units().counters();
        self.report.digest = self.journal.digest() ^ disks.digest().rotate_left(1);
        self.report.sum_up_starts();
        self.report.happened = self.journal.entries() + disks.entries();
        self.report.simulated_ns = self.now_ns - self.start_ns;
        self.report.units_read = counters.reads.load(Ordering::Relaxed);
        self.report.shares_looked_at = self.disks.shares_looked_at();
        self.report.prefetched = self.core.engine.prefetched();
        self.report.units_shared =
            counters.hits.load(Ordering::Relaxed) + counters.joins.load(Ordering::Relaxed);
        let decoded = [&*self.stored.counters, self.maintenance.volume.counters()];
        self.report.rows_decoded = decoded.iter().map(|counters| counters.rows_decoded.get()).sum();
        let done = self.maintenance.jobs().done;
        self.report.ingested = done.ingested;
        self.report.ingest_failed = done.ingest_failed;
        self.report.read_back = done.read_back;
        self.report.removed = done.removed;
        self.report.replaced = done.replaced;
        self.report.rebuilt = done.rebuilt;
        self.report.rebuilt_units = done.rebuilt_units;
        self.report.rebuild_most_ns = done.rebuild_most_ns;
        self.report.scrubbed = done.scrubbed;
        self.report.repaired_rows = done.repaired_rows;
        self.report.reads = self.disks.stats().iter().map(|stats| stats.reads).sum();
        self.report.woken = self.disks.woken();
        let health = self.core.engine.units().health();
        self.report.members_lost = health.lost() as u64;
        self.report.writes = self.disks.stats().iter().map(|stats| stats.writes).sum();
        self.report
    }

    pub(super) fn broken(&self, what: String) -> Broken {
        let disks = self.disks.journal();
        let mut story: Vec<(u64, JournalEvent)> = self.journal.last().chain(disks.last()).collect();
        story.sort_by_key(|(at_ns, _)| *at_ns);
        Broken {
            what,
            seed: self.scenario.seed,
            start_ns: self.start_ns,
            at_ns: self.now_ns,
            fault: self.fault,
            story,
        }
    }
}
