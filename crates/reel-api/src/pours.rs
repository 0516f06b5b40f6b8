//! Poured streams, as the API lists them. They are played by the data plane.

use crate::ControlPlane;
use crate::wire::{Pour, PourList};
use axum::Json;
use axum::extract::State;
use reel_pour::PourReport;

/// `GET /api/v1/pours`
pub(super) async fn list(State(control): State<ControlPlane>) -> Json<PourList> {
    let pours = control.pours().list().into_iter().map(|report| {
        let PourReport { name, terms, bytes, viewers } = report;
        Pour {
            address: format!("/live/{name}"),
            name,
            content_type: terms.content_type,
            rate_bps: terms.bytes_per_s.saturating_mul(8),
            delay_ms: terms.delay_ns / 1_000_000,
            bytes,
            viewers: viewers as u64,
        }
    });
    Json(PourList { pours: pours.collect() })
}
