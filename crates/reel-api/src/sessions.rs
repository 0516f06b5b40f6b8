//! Sessions: what the API asks of the service that holds them, and its calls.

use crate::below::Below;
use crate::body::{JsonBody, QueryOf};
use crate::problem::Problem;
use crate::wire::{
    FileTimes, FileTimesQuery, ListedSession, OpenSession, Session, SessionChange, SessionList,
};
use crate::{ControlPlane, on_blocking_thread};
use axum::Extension;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use reel_admit::Client;
use reel_admit::limits::START_BOUND_NS;
use reel_library::Form;
use reel_qos::Refusal;
use reel_serve::limits::OPENING_TIME_MAX_NS;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use tokio::time::timeout;

/// The address a request came from, set on every request by the connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientAddress(pub(super) IpAddr);

/// The sessions of a running server.
pub trait SessionService: Send + Sync + 'static {
    /// Opens a session on a title for a client. May block: the title's index may have to be
    /// read first.
    ///
    /// # Errors
    /// There is no such title, it cannot be read, or its deadlines cannot be reserved.
    fn open(&self, title: &str, client: Client) -> Result<SessionReport, SessionRefusal>;

    /// Opens a session of a client on a stream that a program pours, in the class of this name, or
    /// in that of streams with deadlines. It is played into destinations, or not at all.
    ///
    /// # Errors
    /// Why it was not opened.
    fn open_poured(
        &self,
        name: &str,
        class: Option<&str>,
        client: Client,
    ) -> Result<SessionReport, SessionRefusal>;

    /// When the bytes of a title as one file are shown. May block as [`SessionService::open`] does.
    ///
    /// # Errors
    /// There is no such title, it cannot be read, or it is not played as one file.
    fn file_times(&self, title: &str, form: Form) -> Result<FileTimes, SessionRefusal>;

    /// How long a client waits for [`SessionService::open`] and [`SessionService::file_times`].
    fn opening_time_max_ns(&self) -> u64 {
        OPENING_TIME_MAX_NS
    }

    /// All open sessions, oldest first.
    fn list(&self) -> Vec<SessionReport>;

    /// The session of a key that a client has.
    ///
    /// # Errors
    /// There is no such session.
    fn one(&self, key: &str, client: Client) -> Result<SessionReport, SessionRefusal>;

    /// Has a session continue in another class. Waits for the ledger, and for nothing else.
    ///
    /// # Errors
    /// There is no such session or class, the class is not for this client, or the session is not
    /// admitted in it. Then it keeps its class and what it holds.
    fn change_class(&self, key: &str, class: &str, client: Client) -> Result<SessionReport, SessionRefusal>;

    /// Ends a session.
    ///
    /// # Errors
    /// There is no such session.
    fn close(&self, key: &str, client: Client) -> Result<(), SessionRefusal>;

    /// The titles of which no session is opened because threads panicked on them, each with the
    /// reason in words. Does not wait.
    fn set_aside(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}

/// An open session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionReport {
    /// Its key: a part of its addresses, and the right to play.
    pub key: String,
    /// The title's id.
    pub title: String,
    /// The name of its class.
    pub class: String,
    /// Seconds without a request after which it ends.
    pub expires_in_s: u64,
    /// Seconds until it starts.
    pub starts_in_s: u64,
}

/// Why a session was not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionRefusal {
    /// Something failed; the text says what.
    Failed(String),
    /// There is no title with this id, which may be that of a part of a merged title.
    NoSuchTitle(String),
    /// The title is not played in this form, or two titles cannot be merged; the text says why.
    NoSuchForm(String),
    /// There is no such session: it has ended, or never was.
    NoSuchSession,
    /// There is no such class; the text says what to do.
    NoSuchClass(String),
    /// The class is for other clients; the text says what to do.
    ClassOfOthers(String),
    /// The key was given to another client; the text says what to do.
    KeyOfClient(String),
    /// Nothing can be reserved so far ahead; the text says how far.
    TooLong(String),
    /// One more session does not fit.
    Refused {
        /// What is exhausted and what to do.
        detail: String,
        /// When to ask again.
        retry_after_s: u64,
        /// Whether its own client has too much.
        is_of_client: bool,
        /// Of which resource there is too little; `None` if there are too many sessions.
        refusal: Option<Refusal>,
    },
}

impl Session {
    /// A session as a client below a path sees it.
    fn seen(session: SessionReport, below: &Below) -> Session {
        let SessionReport { key, title, class, expires_in_s, starts_in_s } = session;
        Session {
            hls: below.at(&format!("/s/{key}/master.m3u8")),
            dash: below.at(&format!("/s/{key}/manifest.mpd")),
            progressive: below.at(&format!("/s/{key}/{title}.mp4")),
            key,
            title,
            class,
            expires_in_s,
            starts_in_s,
            start_bound_s: START_BOUND_NS / 1_000_000_000,
        }
    }
}

impl SessionRefusal {
    /// What to do about it, where the refusal itself does not say so.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            SessionRefusal::TooLong(_) => Some("download it, or watch it with ?class=aperiodic"),
            _ => None,
        }
    }

    pub(super) fn into_problem(self) -> Problem {
        let help = self.help();
        let problem = match self {
            SessionRefusal::NoSuchTitle(id) => Problem::no_such_title(&id),
            SessionRefusal::NoSuchForm(detail) => Problem::no_such_form(detail),
            SessionRefusal::NoSuchSession => Problem::no_such_session(),
            SessionRefusal::KeyOfClient(detail) => Problem::new(
                StatusCode::FORBIDDEN,
                "key-of-other-client",
                "The key is for another client",
                detail,
            ),
            SessionRefusal::NoSuchClass(detail) => {
                Problem::new(StatusCode::BAD_REQUEST, "no-such-class", "No such class", detail)
            }
            SessionRefusal::ClassOfOthers(detail) => Problem::new(
                StatusCode::FORBIDDEN,
                "class-of-others",
                "The class is for other clients",
                detail,
            ),
            SessionRefusal::Refused { detail, retry_after_s, is_of_client, refusal } => {
                let status = if is_of_client {
                    StatusCode::TOO_MANY_REQUESTS
                } else {
                    StatusCode::SERVICE_UNAVAILABLE
                };
                Problem::not_admitted(status, detail, retry_after_s, refusal.as_ref())
            }
            SessionRefusal::TooLong(detail) => Problem::too_long(detail),
            SessionRefusal::Failed(detail) => Problem::internal(detail),
        };
        match help {
            Some(help) => problem.help(help),
            None => problem,
        }
    }
}

/// Characters of a key that are enough to tell two sessions from each other.
const KEY_HINT_CHARS: usize = 4;

/// `POST /api/v1/sessions`
pub(super) async fn open(
    State(control): State<ControlPlane>,
    client: Option<Extension<Client>>,
    below: Below,
    JsonBody(wanted): JsonBody<OpenSession>,
) -> Result<Response, Problem> {
    let client = client_of(client);
    let time_max = Duration::from_nanos(control.sessions().opening_time_max_ns());
    let opening = on_blocking_thread(move || control.sessions().open(&wanted.title, client));
    let opened = in_time(time_max, opening).await?;
    let session = opened.map_err(SessionRefusal::into_problem)?;
    let location = format!("/api/v1/sessions/{}", session.key);
    let mut response = (StatusCode::CREATED, Json(Session::seen(session, &below))).into_response();
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Only a router without a server around it, in tests, knows no client.
pub(super) fn client_of(client: Option<Extension<Client>>) -> Client {
    client.map_or(Client::Address(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), |client| client.0)
}

/// `GET /api/v1/titles/{id}/file-times`
pub(super) async fn file_times(
    State(control): State<ControlPlane>,
    Path(id): Path<String>,
    QueryOf(FileTimesQuery { form }): QueryOf<FileTimesQuery>,
) -> Result<Json<FileTimes>, Problem> {
    let time_max = Duration::from_nanos(control.sessions().opening_time_max_ns());
    let looking = on_blocking_thread(move || control.sessions().file_times(&id, form.into()));
    let times = in_time(time_max, looking).await?;
    Ok(Json(times.map_err(SessionRefusal::into_problem)?))
}

/// Gives work up that does not end in time: a disk does not answer. A session that is opened after
/// that is played by no client, and ends.
async fn in_time<T>(
    time_max: Duration,
    work: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    timeout(time_max, work).await.unwrap_or_else(|_| {
        let detail =
            "the title could not be opened in time, since a disk does not answer; try again in a few seconds";
        Err(Problem::unavailable(detail).retry_after_s(5))
    })
}

/// `GET /api/v1/sessions`
pub(super) async fn list(State(control): State<ControlPlane>) -> Json<SessionList> {
    let listed = |SessionReport { key, title, expires_in_s, .. }: SessionReport| ListedSession {
        key_hint: key.chars().take(KEY_HINT_CHARS).collect(),
        title,
        expires_in_s,
    };
    Json(SessionList { sessions: control.sessions().list().into_iter().map(listed).collect() })
}

/// `GET /api/v1/sessions/{key}`
pub(super) async fn one(
    State(control): State<ControlPlane>,
    Path(key): Path<String>,
    client: Option<Extension<Client>>,
    below: Below,
) -> Result<Json<Session>, Problem> {
    let session = control.sessions().one(&key, client_of(client));
    Ok(Json(Session::seen(session.map_err(SessionRefusal::into_problem)?, &below)))
}

/// `PATCH /api/v1/sessions/{key}`
pub(super) async fn change(
    State(control): State<ControlPlane>,
    Path(key): Path<String>,
    client: Option<Extension<Client>>,
    below: Below,
    JsonBody(SessionChange { class }): JsonBody<SessionChange>,
) -> Result<Json<Session>, Problem> {
    let client = client_of(client);
    // The ledger may take some milliseconds for a refusal.
    let changed = on_blocking_thread(move || control.sessions().change_class(&key, &class, client)).await?;
    Ok(Json(Session::seen(changed.map_err(SessionRefusal::into_problem)?, &below)))
}

/// `DELETE /api/v1/sessions/{key}`
pub(super) async fn close(
    State(control): State<ControlPlane>,
    Path(key): Path<String>,
    client: Option<Extension<Client>>,
) -> Result<StatusCode, Problem> {
    let closed = control.sessions().close(&key, client_of(client));
    closed.map(|()| StatusCode::NO_CONTENT).map_err(SessionRefusal::into_problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_title_whose_disk_does_not_answer_is_given_up() {
        let never = std::future::pending::<Result<(), Problem>>();
        let problem = in_time(Duration::ZERO, never).await.expect_err("it is given up");
        let response = problem.into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(response.headers().contains_key(header::RETRY_AFTER));
        assert!(in_time(Duration::from_secs(3600), async { Ok(()) }).await.is_ok());
    }
}
