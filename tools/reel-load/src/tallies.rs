//! What one thread measured, and the sum of all of them.

use super::outcome::{ClientDelay, Outcome, PacedReads, Reads, Viewers};
use super::player::Tally;
use super::request_error::Reasons;
use reel_testkit::Histogram;

/// Everything that the clients of one thread left behind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tallies {
    pub(crate) viewers: ViewerTally,
    pub(crate) paced: PacedTally,
    pub(crate) downloads: ReadTally,
    pub(crate) browsers: ReadTally,
    pub(crate) ticks: Histogram,
}

/// Viewers of titles.
#[derive(Clone, Debug, Default)]
pub(crate) struct ViewerTally {
    pub(crate) came: u64,
    pub(crate) sessions: u64,
    pub(crate) admitted: u64,
    pub(crate) refusals: Reasons,
    pub(crate) failures: Reasons,
    pub(crate) retries: u64,
    pub(crate) switches: u64,
    pub(crate) pauses: u64,
    pub(crate) seeks: u64,
    started: u64,
    stalled_sessions: u64,
    startup: Histogram,
    seeking: Histogram,
    sum: Tally,
}

/// Paced readers.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacedTally {
    pub(crate) reads: u64,
    pub(crate) late_reads: u64,
    pub(crate) unread: u64,
    pub(crate) bytes: u64,
    pub(crate) late_bytes: u64,
    pub(crate) latest_ns: u64,
    pub(crate) response: Histogram,
}

/// Downloads or browsers.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadTally {
    pub(crate) clients: u64,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) failures: Reasons,
    pub(crate) first_byte: Histogram,
    pub(crate) response: Histogram,
}

impl Tallies {
    pub(crate) fn merge(&mut self, other: &Tallies) {
        self.viewers.merge(&other.viewers);
        self.paced.merge(&other.paced);
        self.downloads.merge(&other.downloads);
        self.browsers.merge(&other.browsers);
        self.ticks.merge(&other.ticks);
    }

    /// The whole, after `took_s` seconds.
    pub(crate) fn outcome(&self, took_s: f64, threads: usize) -> Outcome {
        Outcome {
            took_s,
            viewers: self.viewers.outcome(took_s),
            paced: (self.paced.reads > 0).then(|| self.paced.outcome()),
            downloads: (self.downloads.clients > 0).then(|| self.downloads.outcome(took_s)),
            browsers: (self.browsers.clients > 0).then(|| self.browsers.outcome(took_s)),
            client: ClientDelay { threads, tick_late_ms: self.ticks.percentiles() },
            ..Outcome::default()
        }
    }
}

impl ViewerTally {
    /// A session is over.
    pub(crate) fn add(&mut self, tally: &Tally) {
        if let Some(startup_ns) = tally.startup_ns {
            self.started += 1;
            self.startup.add(startup_ns);
        }
        tally.seeks_ns.iter().for_each(|ns| self.seeking.add(*ns));
        self.stalled_sessions += u64::from(tally.stalls > 0);
        self.sum_up(tally);
    }

    fn merge(&mut self, other: &ViewerTally) {
        self.came += other.came;
        self.sessions += other.sessions;
        self.admitted += other.admitted;
        self.refusals.merge(&other.refusals);
        self.failures.merge(&other.failures);
        self.retries += other.retries;
        self.switches += other.switches;
        self.pauses += other.pauses;
        self.seeks += other.seeks;
        self.started += other.started;
        self.stalled_sessions += other.stalled_sessions;
        self.startup.merge(&other.startup);
        self.seeking.merge(&other.seeking);
        self.sum_up(&other.sum);
    }

    fn sum_up(&mut self, tally: &Tally) {
        let sum = &mut self.sum;
        sum.stalls += tally.stalls;
        sum.stalled_ns += tally.stalled_ns;
        sum.longest_stall_ns = sum.longest_stall_ns.max(tally.longest_stall_ns);
        sum.played_ns += tally.played_ns;
        sum.segments += tally.segments;
        sum.late_segments += tally.late_segments;
        sum.bytes += tally.bytes;
        sum.late_bytes += tally.late_bytes;
        sum.latest_ns = sum.latest_ns.max(tally.latest_ns);
        sum.first_late_ns = [sum.first_late_ns, tally.first_late_ns].into_iter().flatten().min();
    }

    fn outcome(&self, took_s: f64) -> Viewers {
        let sum = &self.sum;
        Viewers {
            came: self.came,
            sessions: self.sessions,
            admitted: self.admitted,
            started: self.started,
            refused: self.refusals.count(),
            refusals: self.refusals.list(),
            failed: self.failures.count(),
            failures: self.failures.list(),
            retries: self.retries,
            startup_ms: self.startup.percentiles(),
            seek_ms: self.seeking.percentiles(),
            stalls: sum.stalls,
            stalled_s: seconds(sum.stalled_ns),
            longest_stall_s: seconds(sum.longest_stall_ns),
            stalled_sessions: self.stalled_sessions,
            played_s: seconds(sum.played_ns),
            segments: sum.segments,
            late_segments: sum.late_segments,
            bytes: sum.bytes,
            late_bytes: sum.late_bytes,
            latest_s: seconds(sum.latest_ns),
            first_late_s: sum.first_late_ns.map(seconds),
            switches: self.switches,
            pauses: self.pauses,
            seeks: self.seeks,
            mbit_per_s: mbit_per_s(sum.bytes, took_s),
        }
    }
}

impl PacedTally {
    fn merge(&mut self, other: &PacedTally) {
        self.reads += other.reads;
        self.late_reads += other.late_reads;
        self.unread += other.unread;
        self.bytes += other.bytes;
        self.late_bytes += other.late_bytes;
        self.latest_ns = self.latest_ns.max(other.latest_ns);
        self.response.merge(&other.response);
    }

    fn outcome(&self) -> PacedReads {
        let percent = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
        PacedReads {
            reads: self.reads,
            late_reads: self.late_reads,
            unread: self.unread,
            late_reads_percent: percent(self.late_reads, self.reads),
            bytes: self.bytes,
            late_bytes: self.late_bytes,
            late_bytes_percent: percent(self.late_bytes, self.bytes),
            latest_s: seconds(self.latest_ns),
            response_ms: self.response.percentiles(),
        }
    }
}

impl ReadTally {
    fn merge(&mut self, other: &ReadTally) {
        self.clients += other.clients;
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.failures.merge(&other.failures);
        self.first_byte.merge(&other.first_byte);
        self.response.merge(&other.response);
    }

    fn outcome(&self, took_s: f64) -> Reads {
        Reads {
            clients: self.clients,
            requests: self.requests,
            bytes: self.bytes,
            mbit_per_s: mbit_per_s(self.bytes, took_s),
            failed: self.failures.count(),
            failures: self.failures.list(),
            first_byte_ms: self.first_byte.percentiles(),
            response_ms: self.response.percentiles(),
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn mbit_per_s(bytes: u64, took_s: f64) -> f64 {
    if took_s > 0.0 { bytes as f64 * 8.0 / 1e6 / took_s } else { 0.0 }
}
