//! Jobs, volume, health and metrics: what is read and not changed.

use crate::ControlPlane;
use crate::library_service::{VolumeReport, VolumeState};
use crate::openapi;
use crate::problem::Problem;
use crate::watch::hang;
use crate::wire::{JobList, Readiness, ReadinessCheck, Watch};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use reel_library::WatchLife;
use reel_metrics::METRICS_MEDIA_TYPE;
use reel_rt::now_ns;
use serde_json::Value;
use std::collections::BTreeMap;

/// `GET /api/v1/jobs`
pub(super) async fn jobs(State(control): State<ControlPlane>) -> Json<JobList> {
    Json(JobList { jobs: control.jobs().list() })
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

/// `GET /api/v1/watch`
pub(super) async fn watched(State(control): State<ControlPlane>) -> Response {
    let watched = control.watched();
    match control.watch_life().and_then(|life| hang(life, now_ns())) {
        None => Json(&*watched).into_response(),
        problem => Json(Watch { problem, ..Watch::clone(&watched) }).into_response(),
    }
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

/// `GET /readyz`: 200 when titles can be played. A volume that plays with less parity, or takes no
/// new titles, is ready; the checks say what is not in order.
pub(super) async fn ready(State(control): State<ControlPlane>) -> Response {
    let volume = control.library().volume();
    let stopping = control.stop_flag().is_stopped();
    let readable = volume.state != VolumeState::Failed;
    let ready = readable && !stopping;
    let mut checks = readiness_checks(&volume, stopping);
    checks.push(titles_check(&control.sessions().set_aside()));
    checks.extend(control.watch_life().map(|life| watch_check(life, now_ns())));
    let body = Readiness { ready, checks };
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(body)).into_response()
}

fn readiness_checks(volume: &VolumeReport, stopping: bool) -> Vec<ReadinessCheck> {
    let check = |name, ok, detail: &str| ReadinessCheck { name, ok, detail: detail.to_owned() };
    let health = match volume.state {
        VolumeState::Ok => "the volume is ok",
        VolumeState::Degraded => "the volume is degraded",
        VolumeState::Failed => {
            "more members are lost than parity can restore: titles cannot be read, or only until this server ends; \
             the check of the members says what to do"
        }
    };
    let writable = volume.read_only.as_deref().unwrap_or("titles can be added and removed");
    let unused = volume.members.iter().filter(|member| !member.in_use || member.is_suspect);
    let unused: Vec<&str> = unused.map(|member| member.text.as_str()).collect();
    let members = match unused.is_empty() {
        true => format!("all {} are in order", volume.members.len()),
        false => unused.join("; "),
    };
    vec![
        check("server", !stopping, if stopping { "shutting down" } else { "running" }),
        check("volume", volume.state != VolumeState::Failed, health),
        check("writable", volume.writable, writable),
        check("members", unused.is_empty(), &members),
    ]
}

fn titles_check(set_aside: &BTreeMap<String, String>) -> ReadinessCheck {
    let detail = match set_aside.is_empty() {
        true => "no title is set aside".to_owned(),
        false => set_aside.values().map(String::as_str).collect::<Vec<_>>().join("; "),
    };
    ReadinessCheck { name: "titles", ok: set_aside.is_empty(), detail }
}

/// New files are no titles while the thread of the watched directory hangs.
fn watch_check(life: &WatchLife, now_ns: u64) -> ReadinessCheck {
    let hang = hang(life, now_ns);
    let ok = hang.is_none();
    let detail = hang.unwrap_or_else(|| "new files of the watched directory are noticed".to_owned());
    ReadinessCheck { name: "watch", ok, detail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_library::limits::WATCH_LOOK_MAX_NS;

    #[test]
    fn a_look_at_the_watched_directory_that_does_not_end_is_reported() {
        const BEGIN_NS: u64 = 5_000_000_000;
        let life = WatchLife::beginning(BEGIN_NS);
        assert!(watch_check(&life, BEGIN_NS + WATCH_LOOK_MAX_NS).ok);
        let late = watch_check(&life, BEGIN_NS + WATCH_LOOK_MAX_NS + 1);
        assert!(!late.ok && late.detail.contains("for 300 s"), "{}", late.detail);
    }
}
