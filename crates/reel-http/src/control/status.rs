//! Jobs, volume, health and metrics: everything that only looks.

use super::ControlPlane;
use super::library_service::VolumeReport;
use super::metrics::METRICS_MEDIA_TYPE;
use super::openapi;
use super::problem::Problem;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// `GET /api/v1/jobs`
pub(super) async fn jobs(State(control): State<ControlPlane>) -> Json<Value> {
    Json(json!({ "jobs": control.jobs().list() }))
}

/// `GET /api/v1/jobs/{id}`
pub(super) async fn job(
    State(control): State<ControlPlane>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    control.jobs().find(&id).map(|status| Json(status).into_response()).ok_or_else(|| no_such_job(&id))
}

/// `DELETE /api/v1/jobs/{id}`: asks it to end.
pub(super) async fn cancel_job(
    State(control): State<ControlPlane>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let status = control.jobs().cancel(&id).ok_or_else(|| no_such_job(&id))?;
    if status.state.is_over() {
        let detail = format!("the job {id} is over already; nothing was changed");
        return Err(Problem::new(StatusCode::CONFLICT, "job-over", "The job is over", detail));
    }
    Ok((StatusCode::ACCEPTED, Json(status)).into_response())
}

fn no_such_job(id: &str) -> Problem {
    let detail =
        format!("there is no job {id:?}: ended jobs are forgotten after a while, and when the server starts");
    Problem::new(StatusCode::NOT_FOUND, "no-such-job", "No such job", detail)
}

/// `GET /api/v1/volume`
pub(super) async fn volume(State(control): State<ControlPlane>) -> Json<VolumeReport> {
    Json(control.library().volume())
}

/// `GET /api/v1/openapi.json`
pub(super) async fn openapi() -> Json<Value> {
    Json(openapi::document())
}

/// `GET /metrics`
pub(super) async fn metrics(State(control): State<ControlPlane>) -> Response {
    let mut response = control.metrics().page().into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(METRICS_MEDIA_TYPE));
    response
}

/// `GET /healthz`: the process answers. Whether it can do its work is for `/readyz`.
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: 200 when films can be played. A volume that plays with less parity, or takes no new titles, is
/// ready; the checks say what is amiss with it.
pub(super) async fn ready(State(control): State<ControlPlane>) -> Response {
    let volume = control.library().volume();
    let stopping = control.stop_flag().is_stopped();
    let readable = volume.state != "failed";
    let absent: Vec<&str> =
        volume.members.iter().filter(|member| !member.in_use).map(|member| member.text.as_str()).collect();
    let ready = readable && !stopping;
    let check = |name: &str, ok: bool, detail: String| json!({ "name": name, "ok": ok, "detail": detail });
    let body = json!({
        "ready": ready,
        "checks": [
            check("server", !stopping, if stopping { "shutting down" } else { "running" }.to_owned()),
            check("volume", readable, format!("the volume is {}", volume.state)),
            check(
                "writable",
                volume.writable,
                if volume.writable { "titles can be added and removed" } else { "the volume is open for reading only" }.to_owned(),
            ),
            check(
                "members",
                absent.is_empty(),
                if absent.is_empty() { format!("all {} are in order", volume.members.len()) } else { absent.join("; ") },
            ),
        ],
    });
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(body)).into_response()
}
