//! Sessions begin, and what is asked of them is answered.

use super::Data;
use crate::data::connection::State;
use crate::data::film::Film;
use crate::data::offers::Form;
use crate::data::opener::{Opened, Opening};
use crate::data::request::Request;
use crate::data::response::Response;
use crate::data::route::{Route, SessionFile};
use crate::data::terms::{Terms, TermsDesk, open_session};
use reel_admit::Session;
use reel_qos::Class;
use reel_rt::Core;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Data {
    /// Answers a request of a session, if what was promised to it covers that.
    pub(super) fn play(
        &mut self,
        core: &mut Core,
        token: u64,
        request: Request,
        file: SessionFile,
        session: Arc<Session<Film>>,
    ) {
        let response = session.playing().respond(&request, file, session.key(), session.offered());
        let classes = self.fetcher.units().disks().classes();
        let desk = TermsDesk { sessions: &self.shared.sessions, classes: &classes, now_ns: core.now_ns() };
        match desk.of(&session, &request, file, &response, &mut self.prefetcher) {
            Ok(terms) => {
                if terms.class == Class::APERIODIC && session.class() != terms.class {
                    self.shared.counters.unpromised.fetch_add(1, Ordering::Relaxed);
                }
                self.watch_prefetches(core);
                self.respond(core, token, request, response, Some(session), terms);
            }
            Err(refusal) => {
                self.shared.counters.not_admitted(&refusal);
                let response = Response::refused(&request, &refusal.into());
                self.respond(core, token, request, response, None, Terms::interactive());
            }
        }
    }

    /// Has a title opened off this core; [`Data::opened`] notes it, and [`Data::answer_opened`] goes on.
    pub(super) fn open(&mut self, core: &mut Core, token: u64, request: Request, title: String) {
        let opening = Opening { title, connection: token, reply: self.own.clone() };
        if !self.shared.opener.open(opening) {
            let detail = "too many titles are being opened at once; try again in a second";
            let response = Response::problem(&request, 503, detail, "Retry-After: 1\r\n");
            return self.respond(core, token, request, response, None, Terms::interactive());
        }
        if let Some(connection) = self.connections.get_mut(token) {
            connection.state = State::Opening(Box::new(request));
        }
    }

    pub(super) fn opened(&mut self, core: &mut Core, opened: Opened) {
        let token = opened.connection;
        let Some(connection) = self.connections.get_mut(token) else { return };
        if let State::Opening(request) = &mut connection.state {
            connection.state = State::Opened(Box::new((std::mem::take(&mut **request), opened.result)));
            self.ready(core, token);
        }
    }

    pub(super) fn answer_opened(&mut self, core: &mut Core, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let State::Opened(opened) = std::mem::replace(&mut connection.state, State::Idle) else { return };
        let (mut request, result) = *opened;
        request.keep_alive &= self.draining_since_ns.is_none();
        let peer = connection.peer;
        let film = match result {
            Ok(film) => film,
            Err((status, detail)) => {
                let response = Response::problem(&request, status, &detail, "");
                return self.respond(core, token, request, response, None, Terms::interactive());
            }
        };
        match Route::of(&request.path) {
            Route::Watch { title, file } => {
                let response = self.start_session(&request, film, &title, file, peer);
                self.respond(core, token, request, response, None, Terms::interactive());
            }
            _ => {
                let response = film.download(&request);
                self.respond(core, token, request, response, None, Terms::unhurried(Class::APERIODIC));
            }
        }
    }

    fn start_session(
        &self,
        request: &Request,
        film: Arc<Film>,
        title: &str,
        file: SessionFile,
        peer: SocketAddr,
    ) -> Response {
        let classes = self.fetcher.units().disks().classes();
        let class = match request.class.as_deref().map(|name| classes.by_name(name)) {
            None => Class::PERIODIC,
            Some(Some(class)) => class,
            Some(None) => {
                let detail = "there is no such class; GET /api/v1/classes lists all";
                return Response::problem(request, 400, detail, "");
            }
        };
        let form = if file == SessionFile::Progressive { Form::File } else { Form::Ladder };
        let opened = match open_session(
            &self.shared.sessions,
            &classes,
            title,
            film,
            form,
            (peer.ip(), class),
        ) {
            Some(opened) => opened,
            None => {
                let detail = "this title is longer than what can be promised ahead, a day; download it, or ask for it with ?class=aperiodic";
                return Response::too_long(request, detail);
            }
        };
        match opened {
            Ok(session) => {
                let key = session.key();
                let file = match file {
                    SessionFile::Manifest => "manifest.mpd".to_owned(),
                    SessionFile::Progressive => format!("{title}.mp4"),
                    _ => "master.m3u8".to_owned(),
                };
                Response::redirect(request, &format!("/s/{key}/{file}"))
            }
            Err(refused) => {
                self.shared.counters.refused(&refused);
                Response::refused(request, &refused)
            }
        }
    }
}
