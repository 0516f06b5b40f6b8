//! Casts: titles that the server sends to groups.

use crate::below::Below;
use crate::body::{JsonBody, QueryOf};
use crate::limits::{CAST_SLOT_MAX, CAST_SLOTS_MAX};
use crate::wire::{Cast, CastList, CastPlans, CastSlots, NewCast};
use crate::{ControlPlane, Problem, on_blocking_thread};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use reel_qos::Refusal;
use schemars::JsonSchema;
use serde::Deserialize;

/// The casts of a running server.
pub trait CastService: Send + Sync + 'static {
    /// Has a title sent to a group. May block: the index of its stream has to be read.
    ///
    /// # Errors
    /// It is refused.
    fn add(&self, cast: NewCast) -> Result<Cast, CastRefusal>;

    /// All casts by name.
    fn list(&self) -> Vec<Cast>;

    /// What receivers are told of a cast (SDP); `None` if there is none of this name on the air.
    fn description(&self, name: &str) -> Option<String>;

    /// So many slots of a cast from the first one on, or those around the present one.
    ///
    /// # Errors
    /// There is none of this name, or it has no schedule.
    fn slots(&self, name: &str, first_slot: Option<u64>, slots: u32) -> Result<CastSlots, NoCastSlots>;

    /// What it would cost to send a title. May block: the index of its stream has to be read.
    ///
    /// # Errors
    /// There is no such title, or no such schedule.
    fn plans(&self, wanted: CastPlanQuery) -> Result<CastPlans, CastRefusal>;

    /// Ends a cast; `false` if there is none of this name.
    fn stop(&self, name: &str) -> bool;
}

/// Why a cast has no slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCastSlots {
    /// There is no such cast.
    NoSuchCast,
    /// It has no schedule; the text says so.
    NoSchedule(String),
}

/// What is to be planned: the query of `GET /api/v1/cast-plans`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CastPlanQuery {
    /// A title's id
    pub title: String,
    /// The longest wait of a client, in seconds
    pub wait_s: Option<f64>,
    /// Instead of a wait: the most that all groups are sent, in bits per second
    pub bandwidth_bps: Option<u64>,
    /// One scheme; without it, those that `reel cast plan` compares
    pub scheme: Option<String>,
}

/// The query of `GET /api/v1/casts/{name}/schedule`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SlotsQuery {
    /// The first slot; without it, those around the present one are listed
    from: Option<u64>,
    /// How many slots
    #[serde(default = "slots")]
    #[schemars(range(min = 1, max = 200))]
    slots: u32,
}

fn slots() -> u32 {
    48
}

/// Why a title is not cast. The texts say what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CastRefusal {
    /// There is no such title.
    NoSuchTitle(String),
    /// Something that was asked for is not possible.
    Impossible(String),
    /// Another cast has the name or the group.
    Taken(String),
    /// It does not fit now.
    NotAdmitted {
        /// What is exhausted.
        detail: String,
        /// When to ask again.
        retry_after_s: u64,
        /// Of which resource there is too little, if that is the reason.
        refusal: Option<Refusal>,
    },
    /// The title cannot be read, or the system fails.
    Failed(String),
    /// The server stops.
    Stopping(String),
}

impl CastRefusal {
    fn into_problem(self) -> Problem {
        let impossible =
            |status, detail| Problem::new(status, "cast-refused", "This title is not cast", detail);
        match self {
            CastRefusal::NoSuchTitle(id) => Problem::no_such_title(&id),
            CastRefusal::Impossible(detail) => impossible(StatusCode::UNPROCESSABLE_ENTITY, detail),
            CastRefusal::Taken(detail) => impossible(StatusCode::CONFLICT, detail),
            CastRefusal::NotAdmitted { detail, retry_after_s, refusal } => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Problem::not_admitted(status, detail, retry_after_s, refusal.as_ref())
            }
            CastRefusal::Failed(detail) => Problem::internal(detail),
            CastRefusal::Stopping(detail) => Problem::unavailable(detail),
        }
    }
}

/// `POST /api/v1/casts`
pub(super) async fn add(
    State(control): State<ControlPlane>,
    below: Below,
    JsonBody(wanted): JsonBody<NewCast>,
) -> Result<Response, Problem> {
    let added = on_blocking_thread(move || control.casts().add(wanted)).await?;
    let cast = added.map_err(CastRefusal::into_problem)?;
    let location = format!("/api/v1/casts/{}", cast.name);
    let mut response = (StatusCode::CREATED, Json(seen(cast, &below))).into_response();
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// `GET /api/v1/casts`
pub(super) async fn list(State(control): State<ControlPlane>, below: Below) -> Json<CastList> {
    let casts = control.casts().list().into_iter().map(|cast| seen(cast, &below));
    Json(CastList { casts: casts.collect() })
}

/// A cast as a client below a path sees it.
pub(super) fn seen(cast: Cast, below: &Below) -> Cast {
    Cast { sdp: below.at(&cast.sdp), ..cast }
}

/// `GET /api/v1/casts/{name}`
pub(super) async fn one(
    State(control): State<ControlPlane>,
    Path(name): Path<String>,
    below: Below,
) -> Result<Json<Cast>, Problem> {
    let cast = control.casts().list().into_iter().find(|cast| cast.name == name);
    cast.map(|cast| Json(seen(cast, &below))).ok_or_else(|| no_such_cast(&name))
}

/// `GET /api/v1/casts/{name}/schedule?from=&slots=`
pub(super) async fn schedule(
    State(control): State<ControlPlane>,
    Path(name): Path<String>,
    QueryOf(SlotsQuery { from, slots }): QueryOf<SlotsQuery>,
) -> Result<Json<CastSlots>, Problem> {
    if !(1..=CAST_SLOTS_MAX).contains(&slots) || from.is_some_and(|from| from > CAST_SLOT_MAX) {
        let what = format!("{slots} slots from slot {}", from.unwrap_or(0));
        return Err(Problem::bad_request(what)
            .help(format!("ask for 1 to {CAST_SLOTS_MAX} slots from a slot up to {CAST_SLOT_MAX}")));
    }
    let asked = name.clone();
    let listed = on_blocking_thread(move || control.casts().slots(&asked, from, slots)).await?;
    listed.map(Json).map_err(|none| match none {
        NoCastSlots::NoSuchCast => no_such_cast(&name),
        NoCastSlots::NoSchedule(detail) => {
            Problem::new(StatusCode::NOT_FOUND, "no-schedule", "This cast has no schedule", detail)
        }
    })
}

/// `GET /api/v1/cast-plans?title=&wait_s=&bandwidth_bps=&scheme=`
pub(super) async fn plans(
    State(control): State<ControlPlane>,
    QueryOf(wanted): QueryOf<CastPlanQuery>,
) -> Result<Json<CastPlans>, Problem> {
    // A few at a time: schedules of thousands of segments are examined.
    let worker = control.clone();
    let planned = control.look(move || worker.casts().plans(wanted)).await?;
    planned.map(Json).map_err(|refusal| match refusal {
        CastRefusal::Impossible(detail) => {
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            Problem::new(status, "no-plan", "There is no such schedule", detail)
        }
        refusal => refusal.into_problem(),
    })
}

/// `DELETE /api/v1/casts/{name}`
pub(super) async fn stop(
    State(control): State<ControlPlane>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    if control.casts().stop(&name) { Ok(StatusCode::NO_CONTENT) } else { Err(no_such_cast(&name)) }
}

/// `GET /casts/{name}.sdp`
pub(super) async fn description(
    State(control): State<ControlPlane>,
    Path(file): Path<String>,
) -> Result<Response, Problem> {
    let name = file.strip_suffix(".sdp").unwrap_or(&file).to_owned();
    // Asks the routing table for the address of this machine.
    let asked = name.clone();
    let text = on_blocking_thread(move || control.casts().description(&asked)).await?;
    let text = text.filter(|_| file.ends_with(".sdp")).ok_or_else(|| no_such_cast(&name))?;
    Ok(([(header::CONTENT_TYPE, "application/sdp")], text).into_response())
}

fn no_such_cast(name: &str) -> Problem {
    let detail = format!("there is no cast {name} on the air");
    Problem::new(StatusCode::NOT_FOUND, "no-such-cast", "No such cast", detail)
        .help("`reel cast list` and GET /api/v1/casts list all")
}
