//! Counters of the crates below: disks and media memory.

use reel_arena::Arena;
use reel_disk::{Disks, MemberActivity, MemberStats, SchedulerView};
use reel_metrics::{MetricsPage, MetricsSource};
use reel_qos::ClassTable;

/// The members' counters.
pub struct DiskMetrics(pub Disks);

/// The arena's usage.
pub struct ArenaMetrics(pub Arena);

impl MetricsSource for DiskMetrics {
    fn collect(&self, page: &mut MetricsPage) {
        for (member, stats) in self.0.stats().iter().enumerate() {
            collect_member(page, &member.to_string(), stats);
        }
        let classes = self.0.classes();
        for (member, (stats, view)) in self.0.stats().iter().zip(self.0.views()).enumerate() {
            collect_scheduler(page, &member.to_string(), &view);
            collect_classes(page, &member.to_string(), (stats, &view), &classes);
        }
    }
}

impl MetricsSource for ArenaMetrics {
    fn collect(&self, page: &mut MetricsPage) {
        let usage = self.0.usage();
        page.gauge("reel_arena_size_bytes", "Media memory in all.", &[], usage.bytes_total as f64);
        page.gauge("reel_arena_taken_bytes", "Media memory in use.", &[], usage.bytes_taken as f64);
        page.gauge(
            "reel_arena_abandoned_bytes",
            "Media memory that is never used again, because the kernel may still use it after an io_uring broke.",
            &[],
            usage.bytes_abandoned as f64,
        );
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

/// Whether a member's scheduler keeps what is reserved.
fn collect_scheduler(page: &mut MetricsPage, member: &str, view: &SchedulerView) {
    let of = [("member", member), ("policy", view.policy)];
    let seconds = |ns: i64| ns as f64 / 1e9;
    page.gauge(
        "reel_slack_seconds",
        "Device time left in this round beyond what is reserved; below 0 some of it will be late.",
        &of,
        seconds(view.slack_ns),
    );
    page.gauge(
        "reel_least_slack_seconds",
        "The least slack of the last rounds.",
        &of,
        seconds(view.least_slack_ns),
    );
    page.counter("reel_rounds_total", "Rounds begun.", &of, view.rounds);
    page.counter(
        "reel_member_late_total",
        "Requests given to the device after their deadline was out of reach.",
        &of,
        view.late,
    );
}

/// What each class got of a member.
fn collect_classes(
    page: &mut MetricsPage,
    member: &str,
    (stats, view): (&MemberStats, &SchedulerView),
    classes: &ClassTable,
) {
    for (class, spec) in classes.iter() {
        let of = [("member", member), ("class", spec.name.as_str())];
        let done = stats.classes[class.index()];
        let seen = view.classes.get(class.index()).cloned().unwrap_or_default();
        page.counter("reel_member_class_bytes_total", "Bytes read and written by class.", &of, done.bytes);
        page.counter(
            "reel_member_class_requests_total",
            "Reads and writes done by class.",
            &of,
            done.requests,
        );
        page.gauge(
            "reel_member_class_device_seconds",
            "Device time that a class was given in the last whole round.",
            &of,
            seen.used_ns as f64 / 1e9,
        );
        page.gauge(
            "reel_member_class_quota_seconds",
            "Device time that a class may claim in a round under scarcity.",
            &of,
            seen.quota_ns as f64 / 1e9,
        );
    }
}

/// Whether a member answers.
fn collect_activity(page: &mut MetricsPage, member: &str, now: MemberActivity) {
    let all = [MemberActivity::Active, MemberActivity::Idle, MemberActivity::Waking, MemberActivity::Silent];
    for activity in all {
        page.gauge(
            "reel_member_activity",
            "1 for what the member does: it answers, is idle, is waking, or is silent.",
            &[("member", member), ("activity", activity.as_str())],
            f64::from(u8::from(now == activity)),
        );
    }
}

fn collect_member(page: &mut MetricsPage, member: &str, stats: &MemberStats) {
    let of = [("member", member)];
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
    collect_activity(page, member, stats.activity);
    page.gauge("reel_member_in_device", "Requests in the device.", &of, stats.in_device as f64);
    let mut below = 0;
    let mut buckets = Vec::new();
    for (power, count) in stats.service_us_log2.iter().enumerate() {
        below += count;
        // The last bucket counts everything slower: it has no bound.
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
    use reel_arena::ArenaConfig;
    use reel_disk::ClassView;
    use reel_metrics::MetricsRegistry;
    use std::sync::Arc;

    struct One(MemberStats);

    impl MetricsSource for One {
        fn collect(&self, page: &mut MetricsPage) {
            collect_member(page, "3", &self.0);
        }
    }

    #[test]
    fn service_times_become_a_histogram_and_the_activity_is_named() {
        let mut stats =
            MemberStats { present: true, reads: 5, service_ns: 2_500_000_000, ..MemberStats::default() };
        stats.service_us_log2[0] = 1;
        stats.service_us_log2[10] = 3;
        *stats.service_us_log2.last_mut().expect("buckets") = 1;
        stats.activity = MemberActivity::Waking;
        let registry = MetricsRegistry::default();
        registry.register(Arc::new(One(stats)));
        let page = registry.page();
        for line in [
            "reel_member_activity{member=\"3\",activity=\"active\"} 0\n",
            "reel_member_activity{member=\"3\",activity=\"waking\"} 1\n",
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

    struct Kept(MemberStats, SchedulerView);

    impl MetricsSource for Kept {
        fn collect(&self, page: &mut MetricsPage) {
            collect_scheduler(page, "0", &self.1);
            collect_classes(page, "0", (&self.0, &self.1), &ClassTable::default());
        }
    }

    #[test]
    fn slack_and_what_each_class_got_are_reported() {
        let mut stats = MemberStats::default();
        stats.classes[2].bytes = 77;
        let classes = [0, 250_000_000].map(|used_ns| ClassView { used_ns, ..ClassView::default() });
        let view = SchedulerView {
            policy: "rounds",
            slack_ns: -500_000_000,
            least_slack_ns: -1_000_000_000,
            late: 3,
            classes: classes.to_vec(),
            ..SchedulerView::default()
        };
        let registry = MetricsRegistry::default();
        registry.register(Arc::new(Kept(stats, view)));
        let page = registry.page();
        for line in [
            "reel_slack_seconds{member=\"0\",policy=\"rounds\"} -0.5\n",
            "reel_least_slack_seconds{member=\"0\",policy=\"rounds\"} -1\n",
            "reel_member_late_total{member=\"0\",policy=\"rounds\"} 3\n",
            "reel_member_class_bytes_total{member=\"0\",class=\"aperiodic\"} 77\n",
            "reel_member_class_device_seconds{member=\"0\",class=\"interactive\"} 0.25\n",
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
            page.contains("reel_arena_taken_bytes 8192\n")
                && page.contains("reel_arena_abandoned_bytes 0\n")
                && page.contains("reel_arena_size_bytes 16384\n"),
            "{page}"
        );
        assert!(page.contains("reel_arena_pieces{state=\"empty\"} 1\n"), "{page}");
        drop(held);
    }
}
