//! Poured streams, as the API lists them, and sessions on them that are joined. They are played by
//! the data plane.

use crate::below::Below;
use crate::body::JsonBody;
use crate::sessions::client_of;
use crate::wire::{OpenPouredSession, Pour, PourList, PouredSession};
use crate::{ControlPlane, Problem, SessionRefusal, SessionReport};
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use reel_admit::Client;
use reel_pour::PourReport;

/// `GET /api/v1/pours`
pub(super) async fn list(State(control): State<ControlPlane>, below: Below) -> Json<PourList> {
    let pours = control.pours().list().into_iter().map(|report| {
        let PourReport { name, terms, bytes, viewers } = report;
        Pour {
            address: below.at(&format!("/live/{name}")),
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

/// `POST /api/v1/pours/{name}/sessions`
pub(super) async fn open_session(
    State(control): State<ControlPlane>,
    Path(name): Path<String>,
    client: Option<Extension<Client>>,
    below: Below,
    JsonBody(wanted): JsonBody<OpenPouredSession>,
) -> Result<Response, Problem> {
    let opened = control.sessions().open_poured(&name, wanted.class.as_deref(), client_of(client));
    let SessionReport { key, title, class, expires_in_s, .. } =
        opened.map_err(SessionRefusal::into_problem)?;
    let location = format!("/api/v1/sessions/{key}");
    let outlets = below.at(&format!("{location}/outlets"));
    let session = PouredSession { outlets, key, title, class, expires_in_s };
    let mut response = (StatusCode::CREATED, Json(session)).into_response();
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}
