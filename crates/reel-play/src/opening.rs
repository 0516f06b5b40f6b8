//! How a session begins, for every front end.

use crate::playable::{Form, Playable};
use reel_admit::{Choices, KeptSession, OpenRefused, Session, SessionClient, Sessions};
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

/// A session that is to be opened.
pub struct NewSession<'a, T> {
    /// Its key, which no session may have yet. Simulations count keys, since their runs must be
    /// repeatable.
    pub key: SessionKey,
    /// The title's name.
    pub title_id: &'a str,
    /// The title.
    pub title: Arc<T>,
    /// How the title is played.
    pub form: Form,
    /// The client, and its class.
    pub client: SessionClient,
}

/// Opens a session of a client on a title.
///
/// # Errors
/// The title is too long for its class, the session table or the client's share of it is full, or
/// the deadlines cannot be reserved.
pub fn open_session<T: Playable>(
    sessions: &Sessions<T>,
    classes: &ClassTable,
    new: NewSession<'_, T>,
    now_ns: u64,
) -> Result<Arc<Session<T>>, SessionRefused> {
    let NewSession { key, title_id, title, form, client } = new;
    let offers = offers(&*title, form, classes, client.class)?;
    let session = sessions.open_as(key, title_id, title, offers, client, now_ns)?;
    session.plays_as_file(form == Form::File);
    Ok(session)
}

/// Has a session continue in another class, in the form in which its client plays the title.
/// `false` if it has ended.
///
/// # Errors
/// The title is too long for the class, or the class has no room. Then the session has its old
/// class and all that it held.
pub fn change_class<T: Playable>(
    sessions: &Sessions<T>,
    classes: &ClassTable,
    session: &Session<T>,
    class: Class,
    now_ns: u64,
) -> Result<bool, SessionRefused> {
    let title = &**session.playing();
    let form = match session.is_file() {
        true => Form::File,
        // What is sent by the clock has no other form.
        false if title.choices(Form::Ladder).is_none() && title.choices(Form::Stream).is_some() => {
            Form::Stream
        }
        false => Form::Ladder,
    };
    let offers = offers(title, form, classes, class)?;
    Ok(sessions.change_class(session, class, offers, now_ns)?)
}

/// Opens a session again that another process has kept, at the position of its client.
///
/// # Errors
/// As of [`open_session`].
pub fn resume_session<T: Playable>(
    sessions: &Sessions<T>,
    classes: &ClassTable,
    kept: &KeptSession,
    title: Arc<T>,
    now_ns: u64,
) -> Result<Arc<Session<T>>, SessionRefused> {
    let form = if kept.playing.is_some_and(|playing| playing.as_file) { Form::File } else { Form::Ladder };
    let offers = offers(&*title, form, classes, kept.former.class)?;
    let session = sessions.resume(kept, title, offers, now_ns)?;
    session.plays_as_file(form == Form::File);
    Ok(session)
}

fn offers<T: Playable>(
    title: &T,
    form: Form,
    classes: &ClassTable,
    class: Class,
) -> Result<Choices, SessionRefused> {
    match classes.kind(class) {
        Kind::Periodic => title.choices(form).ok_or(SessionRefused::TooLong),
        Kind::Interactive | Kind::Aperiodic => Ok(Choices::none()),
    }
}
