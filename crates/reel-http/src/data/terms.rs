//! On what terms a response is read: its class, its deadlines, and what is read ahead for its client.

use super::film::Film;
use super::offers::Form;
use super::request::Request;
use super::response::Response;
use super::route::SessionFile;
use crate::limits::BEGIN_DEADLINE_NS;
use reel_admit::limits::{FILE_WINDOW_LEFT_NS, FILE_WINDOW_LEFT_STRIPES, FILE_WINDOW_STRIPES};
use reel_admit::{Ask, OpenRefused, Session, Sessions};
use reel_cache::{Body, Choices, Due, MediaKind, Pace, Part, Plan, Prefetcher, Ramp};
use reel_qos::limits::ROUND_NS;
use reel_qos::{AdmitError, Class, ClassTable, DEADLINE_NONE_NS, Kind};
use reel_rt::now_ns;
use std::net::IpAddr;
use std::sync::Arc;

/// How a response is read.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) class: Class,
    pub(crate) due: Due,
    /// A film that is sent as one file: the schedule follows what its client takes.
    pub(crate) is_paced: bool,
    /// Others play the same, so units are read to their ends.
    pub(crate) reads_on: bool,
}

impl Terms {
    /// A person waits for it who was promised nothing: one of a crowd, perhaps.
    pub(crate) fn interactive() -> Self {
        Self::unhurried(Class::INTERACTIVE)
    }

    /// A viewer who was let in begins with it, or cannot go on without it: it comes before what anybody browses.
    pub(crate) fn begins() -> Self {
        Self { due: Due::After(BEGIN_DEADLINE_NS), ..Self::interactive() }
    }

    /// Nobody waits for it at a fixed time.
    pub(crate) fn unhurried(class: Class) -> Self {
        Self { class, due: Due::After(DEADLINE_NONE_NS), is_paced: false, reads_on: false }
    }
}

/// The form whose media a file is; `None` of what is no media.
fn form_of(file: SessionFile) -> Option<Form> {
    match file {
        SessionFile::Segment(..) => Some(Form::Ladder),
        SessionFile::Progressive => Some(Form::File),
        _ => None,
    }
}

/// The track of a session's prefetches that is the whole film.
const FILE: usize = usize::MAX;

/// Where a window of a file ends that begins at `start`: at the end of a stripe, so that no unit is read for two of them.
fn window_end(file: &Body, start: u64) -> u64 {
    let mut end = start;
    while let Some(part) = file.part_at(end) {
        let Part::Object(map, range) = &part else {
            end += part.bytes();
            continue;
        };
        let stripe_bytes = map.geometry().stripe_bytes() as u64;
        let left = (FILE_WINDOW_STRIPES * stripe_bytes).saturating_sub(end - start);
        if left <= part.bytes() {
            let stripe_end = (range.start + left).next_multiple_of(stripe_bytes).min(range.end);
            return end + (stripe_end - range.start);
        }
        end += part.bytes();
    }
    end
}

/// Bytes of the stripes around `offset`.
fn stripe_bytes(file: &Body, offset: u64) -> u64 {
    let mut at = offset;
    while let Some(part) = file.part_at(at) {
        match part {
            Part::Object(map, _) => return map.geometry().stripe_bytes() as u64,
            Part::Bytes(_, range) => at += range.len() as u64,
        }
    }
    0
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
        Kind::Periodic => film.choices(form)?,
        Kind::Interactive | Kind::Aperiodic => Choices::none(),
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
        let kind = self.classes.kind(session.class());
        if let Some(form) = form_of(file).filter(|_| is_media && kind == Kind::Periodic)
            && !self.sessions.is_promised(session, session.playing().choices(form).as_ref(), self.now_ns)?
        {
            // What was promised are the bytes of another form: of this one it is sent what nobody else wants.
            return Ok(Terms::unhurried(Class::APERIODIC));
        }
        match (file, kind) {
            (_, Kind::Aperiodic) => Ok(Terms::unhurried(session.class())),
            (SessionFile::Segment(track, number), Kind::Periodic) if is_media => {
                self.segment(session, (track, number), response, prefetcher)
            }
            (SessionFile::Progressive, Kind::Periodic) if is_media => {
                let terms = self.paced(session, response.body_offset, response.body_offset)?;
                self.read_file_ahead(session, response, prefetcher);
                Ok(terms)
            }
            (_, Kind::Interactive) => Ok(Terms::interactive()),
            (_, Kind::Periodic) => Ok(Terms::begins()),
        }
    }

    /// The terms of a film that is sent as one file from `from_offset` on, to a client who is at `at_offset` of it; asked again as it takes it.
    pub(crate) fn paced(
        &self,
        session: &Session<Film>,
        from_offset: u64,
        at_offset: u64,
    ) -> Result<Terms, AdmitError> {
        let Some(times) = session.playing().file_times() else { return Ok(Terms::interactive()) };
        let mut pace = Pace::new(Arc::clone(times), from_offset, at_offset);
        let ask = Ask { strand: MediaKind::Video, from_ns: pace.media_ns, until_ns: pace.media_ns };
        let permit = self.sessions.ask(session, None, &ask, self.now_ns)?;
        if permit.class == Class::APERIODIC {
            return Ok(Terms::unhurried(permit.class));
        }
        pace.due_ns = permit.due_ns;
        if let Some(file) = session.playing().file_body() {
            let duration_ns = times.last().map_or(0, |(_, media_ns)| *media_ns);
            self.sessions.plays(session, ask.strand, (file, at_offset), duration_ns, self.now_ns);
        }
        // A start or a seek is read among those who begin, as that of a segment is: what was promised begins with the next round.
        Ok(Terms { class: permit.class, due: Due::Paced(pace), is_paced: true, reads_on: false })
    }

    /// Has what follows in a film as one file read ahead, for a client that asks for it piece by piece.
    fn read_file_ahead(&self, session: &Session<Film>, response: &Response, prefetcher: &mut Prefetcher) {
        let film = session.playing();
        let (Some(file), Some(times)) = (film.file_body(), film.file_times()) else { return };
        let name = (session.key(), FILE);
        let at = response.body_offset + response.body_bytes;
        let shown_ns = |offset| Pace::new(Arc::clone(times), 0, 0).media_ns(offset);
        prefetcher.passed(name, response.body_offset);
        let is_near = |end: u64| {
            end.saturating_sub(at) <= FILE_WINDOW_LEFT_STRIPES * stripe_bytes(file, at)
                || shown_ns(end).saturating_sub(shown_ns(at)) <= FILE_WINDOW_LEFT_NS
        };
        let Some(start) = prefetcher.next_window(name, at, is_near) else { return };
        let end = window_end(file, start);
        // A long answer is read ahead by its own reader.
        if start >= end || response.body_bytes > end - start {
            return;
        }
        let due_ns = |offset| self.sessions.due_ns(session, shown_ns(offset), self.now_ns);
        let plan = Plan {
            body: file.slice(start..end),
            class: session.class(),
            start_ns: self.now_ns,
            due_ns: due_ns(start),
            duration_ns: due_ns(end).saturating_sub(due_ns(start)),
        };
        prefetcher.plan_window(name, start..end, plan);
    }

    fn segment(
        &self,
        session: &Session<Film>,
        (track, number): (usize, usize),
        response: &Response,
        prefetcher: &mut Prefetcher,
    ) -> Result<Terms, AdmitError> {
        let Some((choice, ask, bytes)) = session.playing().segment(track, number) else {
            return Ok(Terms::begins());
        };
        if response.body_bytes < bytes {
            // Single pictures for winding, or the rest of a segment that broke off: no part of the schedule.
            let shown_ns = u128::from(ask.until_ns.saturating_sub(ask.from_ns));
            let piece_ns = shown_ns * u128::from(response.body_bytes) / u128::from(bytes);
            let is_spared =
                self.sessions.spares(session, u64::try_from(piece_ns).unwrap_or(u64::MAX), self.now_ns);
            return Ok(if is_spared { Terms::begins() } else { Terms::unhurried(Class::APERIODIC) });
        }
        let permit = self.sessions.ask(session, choice, &ask, self.now_ns)?;
        if permit.class == Class::APERIODIC {
            return Ok(Terms::unhurried(permit.class));
        }
        let reads_on = session.playing().segment_body(track, number).is_some_and(|body| {
            let track_ns = session.playing().track_ns(track);
            self.sessions.plays(session, ask.strand, (&body, 0), track_ns, self.now_ns)
        });
        let next = session.playing().segment(track, number + 1).and_then(|(_, next, _)| {
            let due_ns = self.sessions.due_ns(session, next.from_ns, self.now_ns);
            // What is due at once, as the sound after one that began long before the pictures, is asked for at once.
            (due_ns > self.now_ns + 2 * ROUND_NS).then_some(())?;
            Some(Plan {
                body: session.playing().segment_body(track, number + 1)?,
                class: session.class(),
                start_ns: permit.due_ns,
                due_ns,
                duration_ns: next.until_ns.saturating_sub(next.from_ns),
            })
        });
        prefetcher.plan((session.key(), track), next);
        let ramp =
            Ramp { due_ns: permit.due_ns, duration_ns: ask.until_ns.saturating_sub(ask.from_ns), bytes };
        if permit.begins {
            return Ok(Terms { class: permit.class, reads_on, ..Terms::begins() });
        }
        Ok(Terms { class: permit.class, due: Due::Ramp(ramp), is_paced: false, reads_on })
    }
}
