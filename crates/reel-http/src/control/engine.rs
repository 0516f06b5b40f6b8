//! Counters of the rooms below: disks and media memory.

use super::metrics::{MetricsPage, MetricsSource};
use reel_arena::Arena;
use reel_disk::{Disks, MemberStats};

/// The members' counters.
pub struct DiskMetrics(pub Disks);

/// The arena's usage.
pub struct ArenaMetrics(pub Arena);

impl MetricsSource for DiskMetrics {
    fn collect(&self, page: &mut MetricsPage) {
        for (member, stats) in self.0.stats().iter().enumerate() {
            collect_member(page, &member.to_string(), stats);
        }
    }
}

impl MetricsSource for ArenaMetrics {
    fn collect(&self, page: &mut MetricsPage) {
        let usage = self.0.usage();
        page.gauge("reel_arena_size_bytes", "Media memory in all.", &[], usage.bytes_total as f64);
        page.gauge("reel_arena_taken_bytes", "Media memory in use.", &[], usage.bytes_taken as f64);
        let pieces = [
            ("empty", usage.pieces_empty),
            ("reading", usage.pieces_reading),
            ("full", usage.pieces_full),
            ("sending", usage.pieces_sending),
        ];
        for (state, count) in pieces {
            page.gauge(
                "reel_arena_pieces",
                "Taken pieces of media memory by state.",
                &[("state", state)],
                count as f64,
            );
        }
    }
}

fn collect_member(page: &mut MetricsPage, member: &str, stats: &MemberStats) {
    let of = [("member", member)];
    page.gauge("reel_member_present", "1 if the member is there.", &of, f64::from(u8::from(stats.present)));
    for (name, help, value) in [
        ("reel_member_reads_total", "Reads done.", stats.reads),
        ("reel_member_read_bytes_total", "Bytes read.", stats.read_bytes),
        ("reel_member_writes_total", "Writes done.", stats.writes),
        ("reel_member_written_bytes_total", "Bytes written.", stats.written_bytes),
        ("reel_member_errors_total", "Requests that failed.", stats.errors),
    ] {
        page.counter(name, help, &of, value);
    }
    page.gauge("reel_member_queued", "Requests waiting for the device.", &of, stats.queued as f64);
    page.gauge("reel_member_in_device", "Requests in the device.", &of, stats.in_device as f64);
    let mut below = 0;
    let mut buckets = Vec::new();
    for (power, count) in stats.service_us_log2.iter().enumerate() {
        below += count;
        // The last bucket takes whatever is slower: its bound would be a lie.
        if power + 1 < stats.service_us_log2.len() {
            buckets.push(((1_u64 << power) as f64 / 1e6, below));
        }
    }
    let sum_s = stats.service_ns as f64 / 1e9;
    page.histogram(
        "reel_member_service_seconds",
        "Time a request took in the device.",
        &of,
        &buckets,
        sum_s,
        below,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::MetricsRegistry;
    use reel_arena::ArenaConfig;
    use std::sync::Arc;

    struct One(MemberStats);

    impl MetricsSource for One {
        fn collect(&self, page: &mut MetricsPage) {
            collect_member(page, "3", &self.0);
        }
    }

    #[test]
    fn service_times_become_a_histogram() {
        let mut stats =
            MemberStats { present: true, reads: 5, service_ns: 2_500_000_000, ..MemberStats::default() };
        stats.service_us_log2[0] = 1;
        stats.service_us_log2[10] = 3;
        *stats.service_us_log2.last_mut().expect("buckets") = 1;
        let registry = MetricsRegistry::default();
        registry.register(Arc::new(One(stats)));
        let page = registry.page();
        for line in [
            "reel_member_present{member=\"3\"} 1\n",
            "reel_member_reads_total{member=\"3\"} 5\n",
            "reel_member_service_seconds_bucket{member=\"3\",le=\"0.000001\"} 1\n",
            "reel_member_service_seconds_bucket{member=\"3\",le=\"0.000512\"} 1\n",
            "reel_member_service_seconds_bucket{member=\"3\",le=\"0.001024\"} 4\n",
            "reel_member_service_seconds_bucket{member=\"3\",le=\"+Inf\"} 5\n",
            "reel_member_service_seconds_sum{member=\"3\"} 2.5\n",
            "reel_member_service_seconds_count{member=\"3\"} 5\n",
        ] {
            assert!(page.contains(line), "{line} in {page}");
        }
    }

    #[test]
    fn the_arena_is_counted() {
        let config =
            ArenaConfig { buffer_bytes: 8192, buffer_count: 2, cells_per_buffer: 2, huge_pages: false };
        let arena = Arena::new(config).expect("an arena");
        let held = arena.take(8192).expect("a buffer");
        let registry = MetricsRegistry::default();
        registry.register(Arc::new(ArenaMetrics(arena)));
        let page = registry.page();
        assert!(
            page.contains("reel_arena_taken_bytes 8192\n") && page.contains("reel_arena_size_bytes 16384\n"),
            "{page}"
        );
        assert!(page.contains("reel_arena_pieces{state=\"empty\"} 1\n"), "{page}");
        drop(held);
    }
}
