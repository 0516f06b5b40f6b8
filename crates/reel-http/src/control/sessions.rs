//! Sessions: what the API asks of the service that holds them, and its three calls.

use super::body::JsonBody;
use super::problem::Problem;
use super::{ControlPlane, on_blocking_thread};
use axum::Extension;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use reel_qos::Refusal;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr};

/// The address a request came from, set on every request by the connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client(pub(super) IpAddr);

/// The keeper of sessions.
pub trait SessionService: Send + Sync + 'static {
    /// Opens a session on a title for a client address. May block: the title's index may have to be read first.
    fn open(&self, title: &str, client: IpAddr) -> Result<SessionReport, SessionRefusal>;

    /// All open sessions, oldest first.
    fn list(&self) -> Vec<SessionReport>;

    /// Ends a session; `false` if there is none of this key.
    fn close(&self, key: &str) -> bool;
}

/// An open session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionReport {
    /// Its key: stands in its URLs, and whoever knows it may play.
    pub key: String,
    /// The title's id.
    pub title: String,
    /// Seconds without a request after which it ends.
    pub expires_in_s: u64,
}

/// Why a session was not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionRefusal {
    /// Something failed; the text says what.
    Failed(String),
    /// There is no such title.
    NoSuchTitle,
    /// Nothing can be promised so far ahead; the text says what can be done.
    TooLong(String),
    /// The machine has no room for one more.
    Refused {
        /// What is exhausted and what to do.
        detail: String,
        /// When to ask again.
        retry_after_s: u64,
        /// Which resource is short, if it is for want of one.
        refusal: Option<Refusal>,
    },
}

/// A session with its addresses, as the API shows it.
#[derive(Serialize)]
struct SessionBody {
    key: String,
    title: String,
    hls: String,
    dash: String,
    progressive: String,
    expires_in_s: u64,
}

/// A session as it is listed for anybody who asks: whoever has a key has the session, so a key is told to nobody but its client.
#[derive(Serialize)]
struct ListedSession {
    key_hint: String,
    title: String,
    expires_in_s: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenSession {
    title: String,
}

impl From<SessionReport> for SessionBody {
    fn from(session: SessionReport) -> SessionBody {
        let SessionReport { key, title, expires_in_s } = session;
        SessionBody {
            hls: format!("/s/{key}/master.m3u8"),
            dash: format!("/s/{key}/manifest.mpd"),
            progressive: format!("/s/{key}/{title}.mp4"),
            key,
            title,
            expires_in_s,
        }
    }
}

/// As much of a key as tells two apart.
const KEY_HINT_CHARS: usize = 4;

/// `POST /api/v1/sessions`
pub(super) async fn open(
    State(control): State<ControlPlane>,
    client: Option<Extension<Client>>,
    JsonBody(wanted): JsonBody<OpenSession>,
) -> Result<Response, Problem> {
    // Only a router without a server around it, in tests, knows no client.
    let address = client.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |client| client.0.0);
    let title = wanted.title.clone();
    let opened = on_blocking_thread(move || control.sessions().open(&title, address)).await?;
    let session = opened.map_err(|refusal| match refusal {
        SessionRefusal::NoSuchTitle => Problem::no_such_title(&wanted.title),
        SessionRefusal::Refused { detail, retry_after_s, refusal } => {
            Problem::not_admitted(detail, retry_after_s, refusal.as_ref())
        }
        SessionRefusal::TooLong(detail) => Problem::too_long(detail),
        SessionRefusal::Failed(detail) => Problem::internal(detail),
    })?;
    let location = format!("/api/v1/sessions/{}", session.key);
    let mut response = (StatusCode::CREATED, Json(SessionBody::from(session))).into_response();
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// `GET /api/v1/sessions`
pub(super) async fn list(State(control): State<ControlPlane>) -> Json<serde_json::Value> {
    let listed = |SessionReport { key, title, expires_in_s }: SessionReport| ListedSession {
        key_hint: key.chars().take(KEY_HINT_CHARS).collect(),
        title,
        expires_in_s,
    };
    let sessions: Vec<ListedSession> = control.sessions().list().into_iter().map(listed).collect();
    Json(json!({ "sessions": sessions }))
}

/// `DELETE /api/v1/sessions/{key}`
pub(super) async fn close(
    State(control): State<ControlPlane>,
    Path(key): Path<String>,
) -> Result<StatusCode, Problem> {
    if control.sessions().close(&key) {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Problem::new(
            StatusCode::NOT_FOUND,
            "no-such-session",
            "No such session",
            "there is no session of this key: it has ended, or never was",
        ))
    }
}
