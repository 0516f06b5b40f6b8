//! The counters of this front end, as the metrics page shows them.

use crate::programs::LocalCounters;
use reel_metrics::{MetricsPage, MetricsSource};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Streams for programs on the metrics page.
pub struct LocalMetrics(pub Arc<LocalCounters>);

impl MetricsSource for LocalMetrics {
    fn collect(&self, page: &mut MetricsPage) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Self(counters) = self;
        page.gauge("reel_programs", "Programs connected.", &[], load(&counters.programs) as f64);
        page.gauge("reel_program_streams", "Streams of programs.", &[], load(&counters.streams) as f64);
        for (name, help, counter) in [
            ("reel_program_streams_opened_total", "Streams opened by programs.", &counters.opened),
            ("reel_program_streams_refused_total", "Streams not opened for programs.", &counters.refused),
            (
                "reel_program_streams_cut_total",
                "Streams ended because of what their program did.",
                &counters.cut,
            ),
            ("reel_program_bells_rung_total", "Bells rung for programs that waited.", &counters.rung),
            ("reel_program_bells_heard_total", "Bells rung by programs.", &counters.heard),
            ("reel_program_bytes_total", "Bytes that programs were done with.", &counters.bytes),
        ] {
            page.counter(name, help, &[], load(counter));
        }
    }
}
