//! On what terms a response is read: its class, its deadlines, and what is read ahead for its client.

use super::film::Film;
use super::offers::Form;
use super::request::Request;
use super::response::Response;
use super::route::SessionFile;
use crate::limits::INTERACTIVE_DEADLINE_NS;
use reel_qos::{AdmitError, Class, ClassTable, DEADLINE_NONE_NS, Kind};
use reel_rt::now_ns;
use reel_stream::{Ask, Due, OpenRefused, Pace, Plan, Prefetcher, Ramp, Session, Sessions, Strand};
use std::net::IpAddr;
use std::sync::Arc;

/// How a response is read.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) class: Class,
    pub(crate) due: Due,
    /// A film that is sent as one file: the schedule follows what its client takes.
    pub(crate) is_paced: bool,
}

impl Terms {
    /// A person waits for it.
    pub(crate) fn interactive() -> Self {
        Self { class: Class::INTERACTIVE, due: Due::After(INTERACTIVE_DEADLINE_NS), is_paced: false }
    }

    /// Nobody waits for it at a fixed time.
    pub(crate) fn unhurried(class: Class) -> Self {
        Self { class, due: Due::After(DEADLINE_NONE_NS), is_paced: false }
    }
}

/// What a core needs to know to set terms.
pub(crate) struct TermsDesk<'a> {
    pub(crate) sessions: &'a Sessions<Film>,
    pub(crate) classes: &'a ClassTable,
    pub(crate) now_ns: u64,
}

/// Opens a session on a film in a class; `None` if its class has deadlines and the film is too long for them to be promised.
pub(crate) fn open_session(
    sessions: &Sessions<Film>,
    classes: &ClassTable,
    title: &str,
    film: Arc<Film>,
    form: Form,
    (client, class): (IpAddr, Class),
) -> Option<Result<Arc<Session<Film>>, OpenRefused>> {
    let offers = match classes.kind(class) {
        Kind::Periodic => film.demands(form)?,
        Kind::Interactive | Kind::Aperiodic => Arc::from([]),
    };
    Some(sessions.open(title, film, offers, (client, class), now_ns()))
}

impl TermsDesk<'_> {
    /// The terms of a session's request. Media is asked of the ledger; what prepares for it is interactive.
    pub(crate) fn of(
        &self,
        session: &Session<Film>,
        request: &Request,
        file: SessionFile,
        response: &Response,
        prefetcher: &mut Prefetcher,
    ) -> Result<Terms, AdmitError> {
        let is_media = request.method == "GET" && matches!(response.status, 200 | 206);
        match (file, self.classes.kind(session.class())) {
            (_, Kind::Aperiodic) => Ok(Terms::unhurried(session.class())),
            (SessionFile::Segment(track, number), Kind::Periodic) if is_media => {
                self.segment(session, (track, number), response, prefetcher)
            }
            (SessionFile::Progressive, Kind::Periodic) if is_media => {
                self.paced(session, response.body_offset)
            }
            _ => Ok(Terms::interactive()),
        }
    }

    /// The terms of a film that is sent as one file, from `offset` on; asked again as its client takes it.
    pub(crate) fn paced(&self, session: &Session<Film>, offset: u64) -> Result<Terms, AdmitError> {
        let Some(times) = session.playing().file_times() else { return Ok(Terms::interactive()) };
        let mut pace = Pace { times: Arc::clone(times), from_offset: offset, media_ns: 0, due_ns: 0 };
        pace.media_ns = pace.media_ns(0);
        let ask = Ask { strand: Strand::Picture, from_ns: pace.media_ns, until_ns: pace.media_ns };
        pace.due_ns = self.sessions.ask(session, None, &ask, self.now_ns)?.due_ns;
        Ok(Terms { class: session.class(), due: Due::Paced(pace), is_paced: true })
    }

    fn segment(
        &self,
        session: &Session<Film>,
        (track, number): (usize, usize),
        response: &Response,
        prefetcher: &mut Prefetcher,
    ) -> Result<Terms, AdmitError> {
        let Some((choice, ask, bytes)) = session.playing().segment(track, number) else {
            return Ok(Terms::interactive());
        };
        if response.body_bytes < bytes {
            // Single pictures for winding, or the rest of a segment that broke off: no part of the schedule.
            return Ok(Terms::interactive());
        }
        let permit = self.sessions.ask(session, choice, &ask, self.now_ns)?;
        let next = session.playing().segment(track, number + 1).and_then(|(_, next, _)| {
            Some(Plan {
                body: session.playing().segment_body(track, number + 1)?,
                class: session.class(),
                start_ns: permit.due_ns,
                due_ns: self.sessions.due_ns(session, next.from_ns, self.now_ns),
                duration_ns: next.until_ns.saturating_sub(next.from_ns),
            })
        });
        prefetcher.plan((session.key(), track), next);
        let ramp =
            Ramp { due_ns: permit.due_ns, duration_ns: ask.until_ns.saturating_sub(ask.from_ns), bytes };
        if permit.begins {
            return Ok(Terms { class: permit.class, ..Terms::interactive() });
        }
        Ok(Terms { class: permit.class, due: Due::Ramp(ramp), is_paced: false })
    }
}
