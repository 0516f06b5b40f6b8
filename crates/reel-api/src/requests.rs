//! Counts and logs the control plane's requests.

use crate::jobs::{JobState, Jobs};
use crate::sessions::ClientAddress;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use reel_metrics::{MetricsPage, MetricsSource};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Responses by the first digit of their status.
#[derive(Default)]
pub(super) struct Requests {
    by_class: [AtomicU64; 5],
}

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The middleware.
pub(super) async fn observe(State(requests): State<Arc<Requests>>, request: Request, next: Next) -> Response {
    let (method, uri, started) = (request.method().clone(), request.uri().clone(), Instant::now());
    let client =
        request.extensions().get::<ClientAddress>().map(|client| client.0.to_canonical().to_string());
    let response = next.run(request).await;
    let status = response.status().as_u16();
    if let Some(count) = requests.by_class.get(usize::from(status / 100).wrapping_sub(1)) {
        count.fetch_add(1, Ordering::Relaxed);
    }
    // The path only: a query may contain the name of a private file.
    tracing::info!(
        target: "reel_http::access",
        client,
        %method,
        path = uri.path(),
        status,
        ms = started.elapsed().as_millis() as u64,
        "control"
    );
    response
}

impl MetricsSource for Requests {
    fn collect(&self, page: &mut MetricsPage) {
        for (class, count) in CLASSES.iter().zip(&self.by_class) {
            page.counter(
                "reel_control_responses_total",
                "Responses of the control plane by class of status.",
                &[("status", class)],
                count.load(Ordering::Relaxed),
            );
        }
    }
}

impl MetricsSource for Jobs {
    fn collect(&self, page: &mut MetricsPage) {
        for (state, name) in [
            (JobState::Receiving, "receiving"),
            (JobState::Ingesting, "ingesting"),
            (JobState::Running, "running"),
        ] {
            page.gauge("reel_jobs", "Jobs under way.", &[("state", name)], self.count(state) as f64);
        }
    }
}
