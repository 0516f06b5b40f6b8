//! The Prometheus page: counters of all crates in text exposition format 0.0.4.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, RwLock};

/// Media type of the page.
pub const METRICS_MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Something with counters. `collect` is called for every scrape and only reads: it must not block.
pub trait MetricsSource: Send + Sync {
    /// Writes the current values.
    fn collect(&self, page: &mut MetricsPage);
}

/// All sources of a server. Clones are the same registry.
#[derive(Clone, Default)]
pub struct MetricsRegistry {
    sources: Arc<RwLock<Vec<Arc<dyn MetricsSource>>>>,
}

impl MetricsRegistry {
    /// Adds a source for good.
    pub fn register(&self, source: Arc<dyn MetricsSource>) {
        self.sources.write().unwrap_or_else(|poisoned| poisoned.into_inner()).push(source);
    }

    /// The page as text.
    pub fn page(&self) -> String {
        let mut page = MetricsPage::default();
        for source in self.sources.read().unwrap_or_else(|poisoned| poisoned.into_inner()).iter() {
            source.collect(&mut page);
        }
        page.finish()
    }
}

/// A page being written. Names start with `reel_` and end with their unit; counters end with
/// `_total`. Several sources may add samples to one name.
#[derive(Debug, Default)]
pub struct MetricsPage {
    families: BTreeMap<&'static str, Family>,
}

#[derive(Debug)]
struct Family {
    help: &'static str,
    kind: &'static str,
    samples: String,
}

impl MetricsPage {
    /// A value that only grows.
    pub fn counter(&mut self, name: &'static str, help: &'static str, labels: &[(&str, &str)], value: u64) {
        debug_assert!(name.ends_with("_total"), "{name}");
        self.sample(name, help, "counter", "", labels, &value.to_string());
    }

    /// A value that goes up and down.
    pub fn gauge(&mut self, name: &'static str, help: &'static str, labels: &[(&str, &str)], value: f64) {
        self.sample(name, help, "gauge", "", labels, &number(value));
    }

    /// A distribution: `buckets` are (upper bound, samples at or below it) with growing bounds; the
    /// bucket without bound is `count`.
    pub fn histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        buckets: &[(f64, u64)],
        sum: f64,
        count: u64,
    ) {
        for (bound, at_or_below) in buckets {
            let bound = number(*bound);
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.sample(name, help, "histogram", "_bucket", &labels, &at_or_below.to_string());
        }
        let all: Vec<(&str, &str)> = labels.iter().copied().chain([("le", "+Inf")]).collect();
        self.sample(name, help, "histogram", "_bucket", &all, &count.to_string());
        self.sample(name, help, "histogram", "_sum", labels, &number(sum));
        self.sample(name, help, "histogram", "_count", labels, &count.to_string());
    }

    fn sample(
        &mut self,
        name: &'static str,
        help: &'static str,
        kind: &'static str,
        suffix: &str,
        labels: &[(&str, &str)],
        value: &str,
    ) {
        debug_assert!(
            name.starts_with("reel_")
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
            "{name}"
        );
        let family =
            self.families.entry(name).or_insert_with(|| Family { help, kind, samples: String::new() });
        debug_assert_eq!(family.kind, kind, "{name} is used for two kinds of metrics");
        let text = &mut family.samples;
        text.push_str(name);
        text.push_str(suffix);
        for (index, (label, value)) in labels.iter().enumerate() {
            text.push(if index == 0 { '{' } else { ',' });
            let _ = write!(text, "{label}=\"{}\"", escape(value));
        }
        if !labels.is_empty() {
            text.push('}');
        }
        let _ = writeln!(text, " {value}");
    }

    fn finish(self) -> String {
        let mut text = String::new();
        for (name, family) in self.families {
            let _ = write!(text, "# HELP {name} {}\n# TYPE {name} {}\n", family.help, family.kind);
            text.push_str(&family.samples);
        }
        text
    }
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        format!("{value}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Disk(&'static str);

    impl MetricsSource for Disk {
        fn collect(&self, page: &mut MetricsPage) {
            page.counter("reel_disk_read_bytes_total", "Bytes read.", &[("member", self.0)], 7);
        }
    }

    #[test]
    fn sources_share_families() {
        let registry = MetricsRegistry::default();
        registry.register(Arc::new(Disk("0")));
        registry.register(Arc::new(Disk("a\"b\\c\nd")));
        assert_eq!(
            registry.page(),
            "# HELP reel_disk_read_bytes_total Bytes read.\n# TYPE reel_disk_read_bytes_total counter\n\
             reel_disk_read_bytes_total{member=\"0\"} 7\nreel_disk_read_bytes_total{member=\"a\\\"b\\\\c\\nd\"} 7\n"
        );
    }

    #[test]
    fn gauges_and_histograms() {
        let mut page = MetricsPage::default();
        page.gauge("reel_arena_bytes", "Size.", &[], 1.5);
        page.histogram(
            "reel_read_seconds",
            "Time.",
            &[("class", "periodic")],
            &[(0.001, 2), (0.1, 3)],
            0.25,
            4,
        );
        assert_eq!(
            page.finish(),
            "# HELP reel_arena_bytes Size.\n# TYPE reel_arena_bytes gauge\nreel_arena_bytes 1.5\n\
             # HELP reel_read_seconds Time.\n# TYPE reel_read_seconds histogram\n\
             reel_read_seconds_bucket{class=\"periodic\",le=\"0.001\"} 2\n\
             reel_read_seconds_bucket{class=\"periodic\",le=\"0.1\"} 3\n\
             reel_read_seconds_bucket{class=\"periodic\",le=\"+Inf\"} 4\n\
             reel_read_seconds_sum{class=\"periodic\"} 0.25\nreel_read_seconds_count{class=\"periodic\"} 4\n"
        );
        assert_eq!(number(f64::INFINITY), "+Inf");
        assert_eq!(number(12_345_678_901.0), "12345678901");
    }
}
