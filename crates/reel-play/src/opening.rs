//! How a session begins, for every front end.

use crate::playable::{Form, Playable};
use reel_admit::{Choices, Client, OpenRefused, Session, Sessions};
use reel_cache::SessionKey;
use reel_qos::{AdmitError, Class, ClassTable, Kind};
use std::sync::Arc;

/// Why a session was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionRefused {
    /// The title is longer than the timeline of the ledger.
    #[error("this title is longer than a day, the longest time that can be reserved ahead")]
    TooLong,
    /// It does not fit now.
    #[error(transparent)]
    Refused(#[from] OpenRefused),
}

impl SessionRefused {
    /// Whether the title is too long to be reserved for: trying again does not help.
    pub fn is_too_long(&self) -> bool {
        matches!(
            self,
            SessionRefused::TooLong
                | SessionRefused::Refused(OpenRefused::NotAdmitted(AdmitError::TooLong { .. }))
        )
    }
}

/// Opens a session of a client on a title in a class.
///
/// # Errors
/// The title is too long for its class, the session table or the client's share of it is full, the
/// deadlines cannot be reserved, or the system gave no random bytes for the key.
pub fn open_session<T: Playable>(
    sessions: &Sessions<T>,
    classes: &ClassTable,
    title: (&str, Arc<T>),
    form: Form,
    requester: (impl Into<Client>, Class),
    now_ns: u64,
) -> Result<Arc<Session<T>>, SessionRefused> {
    let key = SessionKey::random().map_err(OpenRefused::NoRandom)?;
    open_session_as(key, sessions, classes, title, form, requester, now_ns)
}

/// The same with the caller's key, which no session may have yet. Simulations use it, since their
/// runs must be repeatable.
///
/// # Errors
/// As [`open_session`].
pub fn open_session_as<T: Playable>(
    key: SessionKey,
    sessions: &Sessions<T>,
    classes: &ClassTable,
    (title_id, title): (&str, Arc<T>),
    form: Form,
    (client, class): (impl Into<Client>, Class),
    now_ns: u64,
) -> Result<Arc<Session<T>>, SessionRefused> {
    let offers = match classes.kind(class) {
        Kind::Periodic => title.choices(form).ok_or(SessionRefused::TooLong)?,
        Kind::Interactive | Kind::Aperiodic => Choices::none(),
    };
    Ok(sessions.open_as(key, title_id, title, offers, (client, class), now_ns)?)
}
