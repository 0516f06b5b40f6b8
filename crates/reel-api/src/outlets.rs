//! Outlets: destinations that the server itself plays a session into.

use crate::SessionRefusal;
use crate::body::JsonBody;
use crate::sessions::client_of;
use crate::wire::{NewOutlet, OtherDestination, Outlet, OutletList};
use crate::{ControlPlane, Problem, on_blocking_thread};
use axum::Extension;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use reel_admit::Client;
use reel_qos::Refusal;

/// The outlets of a running server's sessions. The key of a session entitles.
pub trait OutletService: Send + Sync + 'static {
    /// Has a session played into a destination for this client. May block: a file is made, and the
    /// session is admitted again if it was paused.
    ///
    /// # Errors
    /// It is refused.
    fn add(&self, key: &str, wanted: NewOutlet, client: Client) -> Result<Outlet, OutletRefusal>;

    /// Has a session played into another destination in place of an outlet, for this client. May
    /// block as `add`.
    ///
    /// # Errors
    /// It is refused, and the outlet is as it was.
    fn replace(
        &self,
        key: &str,
        number: u64,
        wanted: OtherDestination,
        client: Client,
    ) -> Result<Outlet, OutletRefusal>;

    /// The outlets of a session; `None` if none has this key.
    fn list(&self, key: &str) -> Option<Vec<Outlet>>;

    /// Ends an outlet, or removes one that has ended from the list; `false` if there is none.
    fn remove(&self, key: &str, number: u64) -> bool;
}

/// Why a session is not played into a destination. The texts say what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutletRefusal {
    /// No session has this key.
    NoSuchSession,
    /// What the session plays is not there any more.
    Gone(String),
    /// The session has no outlet of this number, or it has ended.
    NoSuchOutlet(String),
    /// Something that was asked for is not possible.
    Impossible(String),
    /// The configuration does not allow the destination.
    NotAllowed(String),
    /// There is something already, or the session plays already.
    Taken(String),
    /// The session has enough outlets.
    TooMany(String),
    /// Not now.
    Unavailable {
        /// Why.
        detail: String,
        /// When to ask again; 0 if waiting does not help.
        retry_after_s: u64,
    },
    /// The session's reservation was released, and there is no room for it now.
    NotAdmitted {
        /// What is exhausted.
        detail: String,
        /// When to ask again.
        retry_after_s: u64,
        /// Of which resource there is too little, if that is the reason.
        refusal: Option<Refusal>,
    },
    /// The disk of the destination is full.
    NoSpace(String),
    /// The system fails.
    Failed(String),
}

impl OutletRefusal {
    fn into_problem(self) -> Problem {
        let refused = |status, detail| {
            Problem::new(status, "join-refused", "The session is not played into this destination", detail)
        };
        match self {
            OutletRefusal::NoSuchSession => Problem::no_such_session(),
            OutletRefusal::NoSuchOutlet(detail) => of_no_outlet(detail),
            OutletRefusal::Impossible(detail) => refused(StatusCode::UNPROCESSABLE_ENTITY, detail),
            OutletRefusal::Gone(detail) => refused(StatusCode::GONE, detail),
            OutletRefusal::NotAllowed(detail) => refused(StatusCode::FORBIDDEN, detail),
            OutletRefusal::Taken(detail) => refused(StatusCode::CONFLICT, detail),
            OutletRefusal::TooMany(detail) => refused(StatusCode::TOO_MANY_REQUESTS, detail),
            OutletRefusal::Unavailable { detail, retry_after_s: 0 } => Problem::unavailable(detail),
            OutletRefusal::Unavailable { detail, retry_after_s } => {
                Problem::unavailable(detail).retry_after_s(retry_after_s)
            }
            OutletRefusal::NotAdmitted { detail, retry_after_s, refusal } => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Problem::not_admitted(status, detail, retry_after_s, refusal.as_ref())
            }
            OutletRefusal::NoSpace(detail) => Problem::no_space(detail),
            OutletRefusal::Failed(detail) => Problem::internal(detail),
        }
    }
}

/// `POST /api/v1/sessions/{key}/outlets`
pub(super) async fn add(
    State(control): State<ControlPlane>,
    Path(key): Path<String>,
    client: Option<Extension<Client>>,
    JsonBody(wanted): JsonBody<NewOutlet>,
) -> Result<Response, Problem> {
    check_key(&control, &key, client)?;
    let (of, client) = (key.clone(), client_of(client));
    let added = on_blocking_thread(move || control.outlets().add(&of, wanted, client)).await?;
    let outlet = added.map_err(OutletRefusal::into_problem)?;
    let location = format!("/api/v1/sessions/{key}/outlets/{}", outlet.number);
    let mut response = (StatusCode::CREATED, Json(outlet)).into_response();
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// `GET /api/v1/sessions/{key}/outlets`
pub(super) async fn list(
    State(control): State<ControlPlane>,
    Path(key): Path<String>,
    client: Option<Extension<Client>>,
) -> Result<Json<OutletList>, Problem> {
    check_key(&control, &key, client)?;
    let outlets = control.outlets().list(&key).ok_or_else(Problem::no_such_session)?;
    Ok(Json(OutletList { outlets }))
}

/// `GET /api/v1/sessions/{key}/outlets/{number}`
pub(super) async fn one(
    State(control): State<ControlPlane>,
    Path((key, number)): Path<(String, u64)>,
    client: Option<Extension<Client>>,
) -> Result<Json<Outlet>, Problem> {
    check_key(&control, &key, client)?;
    let outlets = control.outlets().list(&key).ok_or_else(Problem::no_such_session)?;
    let outlet = outlets.into_iter().find(|outlet| outlet.number == number);
    outlet.map(Json).ok_or_else(|| no_such_outlet(number))
}

/// `PUT /api/v1/sessions/{key}/outlets/{number}`
pub(super) async fn replace(
    State(control): State<ControlPlane>,
    Path((key, number)): Path<(String, u64)>,
    client: Option<Extension<Client>>,
    JsonBody(wanted): JsonBody<OtherDestination>,
) -> Result<Json<Outlet>, Problem> {
    check_key(&control, &key, client)?;
    let client = client_of(client);
    let replaced =
        on_blocking_thread(move || control.outlets().replace(&key, number, wanted, client)).await?;
    replaced.map(Json).map_err(OutletRefusal::into_problem)
}

/// `DELETE /api/v1/sessions/{key}/outlets/{number}`
pub(super) async fn remove(
    State(control): State<ControlPlane>,
    Path((key, number)): Path<(String, u64)>,
    client: Option<Extension<Client>>,
) -> Result<StatusCode, Problem> {
    check_key(&control, &key, client)?;
    if control.outlets().remove(&key, number) {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(no_such_outlet(number))
    }
}

/// The key is of a session that this client may have.
fn check_key(control: &ControlPlane, key: &str, client: Option<Extension<Client>>) -> Result<(), Problem> {
    let session = control.sessions().one(key, client_of(client));
    session.map(drop).map_err(SessionRefusal::into_problem)
}

fn no_such_outlet(number: u64) -> Problem {
    of_no_outlet(format!("there is no outlet {number} of a session with this key"))
}

fn of_no_outlet(detail: String) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "no-such-outlet", "No such outlet", detail)
}
