//! The counters of this front end, and how the metrics page shows them.

use reel_metrics::{MetricsPage, MetricsSource};
use reel_serve::OpenConnections;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of NFS.
#[derive(Debug, Default)]
pub struct NfsCounters {
    /// Calls that were answered.
    pub calls: AtomicU64,
    /// Bytes of titles in replies that clients took.
    pub read_bytes: AtomicU64,
    /// Reads that failed because a title could not be opened or its bytes are lost.
    pub failed_reads: AtomicU64,
    /// Openings of titles for which there was no time, and that were put off.
    pub openings_put_off: AtomicU64,
    /// Readers in the directory of what is played that were admitted; each time that they
    /// come back.
    pub admitted: AtomicU64,
    /// Readers and places that were refused.
    pub refused: AtomicU64,
    /// Places that were held.
    pub held: AtomicU64,
    /// Connections that were closed for what their client sent: no calls, or too long ones.
    pub garbage: AtomicU64,
    /// Connections that exceeded a time limit.
    pub timed_out: AtomicU64,
    /// Bytes of replies that are in memory and that clients have not taken yet, without those of
    /// titles.
    pub owed_bytes: AtomicU64,
    /// How often no more calls of a connection were read because too much is owed to its client.
    pub held_back: AtomicU64,
    /// Connections for which there was no place.
    pub turned_away: AtomicU64,
}

/// NFS on the metrics page.
pub struct NfsMetrics {
    /// The counters.
    pub counters: Arc<NfsCounters>,
    /// The count of the connections.
    pub open: Arc<OpenConnections>,
}

impl MetricsSource for NfsMetrics {
    fn collect(&self, page: &mut MetricsPage) {
        let Self { counters, open } = self;
        let connections: usize = open.by_thread().sum();
        page.gauge("reel_nfs_connections", "Connections of NFS open.", &[], connections as f64);
        let owed = counters.owed_bytes.load(Ordering::Relaxed) as f64;
        page.gauge("reel_nfs_owed_bytes", "Bytes of NFS replies not taken yet, without titles.", &[], owed);
        for (name, help, counter) in [
            ("reel_nfs_calls_total", "Calls of NFS, MOUNT and the port mapper answered.", &counters.calls),
            ("reel_nfs_read_bytes_total", "Bytes of titles sent to NFS clients.", &counters.read_bytes),
            ("reel_nfs_failed_reads_total", "Reads of NFS clients that failed.", &counters.failed_reads),
            (
                "reel_nfs_openings_put_off_total",
                "Openings of titles for NFS clients that were put off.",
                &counters.openings_put_off,
            ),
            ("reel_nfs_admitted_total", "Readers by NFS admitted as viewers.", &counters.admitted),
            ("reel_nfs_refused_total", "Readers and places of NFS refused.", &counters.refused),
            ("reel_nfs_held_total", "Places held for readers by NFS.", &counters.held),
            ("reel_nfs_garbage_total", "NFS connections closed for what was sent.", &counters.garbage),
            ("reel_nfs_timed_out_total", "NFS connections beyond a time limit.", &counters.timed_out),
            (
                "reel_nfs_held_back_total",
                "NFS connections not read from until taken from.",
                &counters.held_back,
            ),
            ("reel_nfs_turned_away_total", "NFS connections without a place.", &counters.turned_away),
        ] {
            page.counter(name, help, &[], counter.load(Ordering::Relaxed));
        }
    }
}
