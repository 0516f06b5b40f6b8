//! The counters of poured streams, as the metrics page shows them.

use crate::pours::Pours;
use reel_metrics::{MetricsPage, MetricsSource};
use std::sync::atomic::Ordering;

/// Poured streams on the metrics page.
pub struct PourMetrics(pub Pours);

impl MetricsSource for PourMetrics {
    fn collect(&self, page: &mut MetricsPage) {
        let streams = self.0.list();
        let viewers: usize = streams.iter().map(|stream| stream.viewers).sum();
        for (name, help, value) in [
            ("reel_pours", "Streams that programs pour now.", streams.len()),
            ("reel_pour_viewers", "Viewers of poured streams.", viewers),
        ] {
            page.gauge(name, help, &[], value as f64);
        }
        let counters = self.0.counters();
        for (name, help, counter) in [
            ("reel_pours_begun_total", "Poured streams that were begun.", &counters.begun),
            ("reel_pours_refused_total", "Poured streams that were refused.", &counters.refused),
            (
                "reel_pours_broken_total",
                "Poured streams whose programs ended without ending them.",
                &counters.broken,
            ),
            (
                "reel_pour_viewers_cut_total",
                "Viewers of poured streams that were too slow and were disconnected.",
                &counters.cut,
            ),
            ("reel_pour_bytes_total", "Bytes that programs have poured.", &counters.bytes),
            (
                "reel_pour_late_bytes_total",
                "Bytes of poured streams that viewers were sent after they were due.",
                &counters.late_bytes,
            ),
        ] {
            page.counter(name, help, &[], counter.load(Ordering::Relaxed));
        }
    }
}
