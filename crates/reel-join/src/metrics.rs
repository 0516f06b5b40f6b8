//! The counters of joins, as the metrics page shows them.

use crate::joins::Joins;
use reel_metrics::{MetricsPage, MetricsSource};
use std::sync::atomic::{AtomicU64, Ordering};

/// Joins on the metrics page.
pub struct JoinMetrics(pub Joins);

impl MetricsSource for JoinMetrics {
    fn collect(&self, page: &mut MetricsPage) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = self.0.counters();
        page.gauge(
            "reel_join_outlets",
            "Outlets that sessions are played into.",
            &[],
            self.0.open_outlets() as f64,
        );
        for (name, help, counter) in [
            ("reel_join_outlets_added_total", "Outlets that were added.", &counters.added),
            ("reel_join_outlets_refused_total", "Outlets that were refused.", &counters.refused),
            ("reel_join_outlets_complete_total", "Outlets that got all to the end.", &counters.complete),
            ("reel_join_outlets_cut_total", "Outlets that were ended because they were slow.", &counters.cut),
            ("reel_join_bytes_total", "Bytes that destinations took.", &counters.bytes),
            ("reel_join_late_bytes_total", "Bytes among those that were late.", &counters.late_bytes),
            (
                "reel_join_datagram_trains_waited_total",
                "Trains of datagrams that a socket had no room for, and that were sent later.",
                &counters.waited,
            ),
        ] {
            page.counter(name, help, &[], load(counter));
        }
    }
}
