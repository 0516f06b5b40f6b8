//! The counters of this front end on the metrics page.

use crate::counters::HttpCounters;
use reel_metrics::{MetricsPage, MetricsSource};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of HTTP on the metrics page.
pub struct HttpMetrics(pub Arc<HttpCounters>);

impl MetricsSource for HttpMetrics {
    fn collect(&self, page: &mut MetricsPage) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let data = &self.0;
        page.counter(
            "reel_http_connections_accepted_total",
            "Connections accepted.",
            &[],
            load(&data.accepted),
        );
        page.counter(
            "reel_http_connections_turned_away_total",
            "Connections closed at once because too many were open.",
            &[],
            load(&data.turned_away),
        );
        page.counter(
            "reel_http_connections_handed_over_total",
            "Connections handed to the control plane.",
            &[],
            load(&data.handed_over),
        );
        page.counter(
            "reel_http_connections_timed_out_total",
            "Connections closed because their client was too slow or silent.",
            &[],
            load(&data.timed_out),
        );
        page.counter("reel_tls_handshakes_total", "TLS handshakes done.", &[], load(&data.handshakes));
        page.counter(
            "reel_tls_failures_total",
            "TLS connections that ended with an error: no TLS, nothing in common, or changed records.",
            &[],
            load(&data.tls_failures),
        );
        page.counter(
            "reel_tls_parked_total",
            "Times that sealed bytes a slow client had not taken were moved out of a buffer that another needed.",
            &[],
            load(&data.parked),
        );
        for (core, open) in data.open.iter().enumerate() {
            let open = open.load(Ordering::Relaxed) as f64;
            page.gauge(
                "reel_http_connections",
                "Open media connections.",
                &[("core", &core.to_string())],
                open,
            );
        }
        for (hundreds, count) in data.responses.iter().enumerate() {
            let status = format!("{}xx", hundreds + 1);
            page.counter(
                "reel_http_media_responses_total",
                "Responses to media requests.",
                &[("status", &status)],
                load(count),
            );
        }
        let help = "Bytes that sockets took, by how: copied; from where they lay (zero_copy); meant to be and copied after all (copied_late).";
        for (how, counter) in [
            ("copied", &data.copied_bytes),
            ("zero_copy", &data.zero_copy_bytes),
            ("copied_late", &data.copied_late_bytes),
        ] {
            page.counter("reel_sent_bytes_total", help, &[("how", how)], load(counter));
        }
        page.counter(
            "reel_zero_copy_refused_total",
            "Sends without a copy that the kernel refused, because there was no lockable memory or because the socket's kind has none.",
            &[],
            load(&data.zero_copy_refused),
        );
    }
}
