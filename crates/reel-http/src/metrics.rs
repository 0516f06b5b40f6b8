//! The counters of this front end on the metrics page.

use crate::counters::HttpCounters;
use reel_metrics::{MetricsPage, MetricsSource};
use reel_serve::OpenConnections;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of HTTP on the metrics page.
pub struct HttpMetrics {
    /// What is counted of responses.
    pub counters: Arc<HttpCounters>,
    /// What is counted of connections.
    pub open: Arc<OpenConnections>,
}

impl MetricsSource for HttpMetrics {
    fn collect(&self, page: &mut MetricsPage) {
        self.totals(page);
        self.connections(page);
        self.sends(page);
    }
}

impl HttpMetrics {
    fn totals(&self, page: &mut MetricsPage) {
        let counters = &self.counters;
        let accepted = self.open.accepted();
        page.counter("reel_http_connections_accepted_total", "Connections accepted.", &[], accepted);
        for (name, help, counter) in [
            (
                "reel_http_connections_turned_away_total",
                "Connections closed at once because too many were open, or too many of their client.",
                &counters.turned_away,
            ),
            (
                "reel_http_connections_made_room_total",
                "Connections without a request that were closed for others, because too many were open.",
                &counters.made_room,
            ),
            (
                "reel_http_connections_handed_over_total",
                "Connections handed to the control plane.",
                &counters.handed_over,
            ),
            (
                "reel_http_connections_timed_out_total",
                "Connections closed because their client was too slow or silent.",
                &counters.timed_out,
            ),
            (
                "reel_http_readers_admitted_total",
                "Clients that read a title as a file at the pace of a player, and were admitted as viewers.",
                &counters.readers_admitted,
            ),
            (
                "reel_http_readers_refused_total",
                "The same, for which there was no room: what they read comes without a promise.",
                &counters.readers_refused,
            ),
            ("reel_tls_handshakes_total", "TLS handshakes done.", &counters.handshakes),
            (
                "reel_tls_failures_total",
                "TLS connections that ended with an error: no TLS, nothing in common, or changed records.",
                &counters.tls_failures,
            ),
            (
                "reel_tls_parked_total",
                "Times that sealed bytes a slow client had not taken were moved out of a buffer that another needed.",
                &counters.parked,
            ),
        ] {
            page.counter(name, help, &[], load(counter));
        }
    }

    fn connections(&self, page: &mut MetricsPage) {
        for (core, open) in self.open.by_thread().enumerate() {
            page.gauge(
                "reel_http_connections",
                "Open media connections.",
                &[("core", &core.to_string())],
                open as f64,
            );
        }
        for (hundreds, count) in self.counters.responses.iter().enumerate() {
            let status = format!("{}xx", hundreds + 1);
            page.counter(
                "reel_http_media_responses_total",
                "Responses to media requests.",
                &[("status", &status)],
                load(count),
            );
        }
    }

    fn sends(&self, page: &mut MetricsPage) {
        let counters = &self.counters;
        let help = "Bytes that sockets took, by how: copied; from where they lay (zero_copy); meant to be and copied after all (copied_late).";
        for (how, counter) in [
            ("copied", &counters.copied_bytes),
            ("zero_copy", &counters.zero_copy_bytes),
            ("copied_late", &counters.copied_late_bytes),
        ] {
            page.counter("reel_sent_bytes_total", help, &[("how", how)], load(counter));
        }
        page.counter(
            "reel_zero_copy_refused_total",
            "Sends without a copy that the kernel refused, because there was no lockable memory or because the socket's kind has none.",
            &[],
            load(&counters.zero_copy_refused),
        );
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
