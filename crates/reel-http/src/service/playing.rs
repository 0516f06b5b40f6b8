//! Requests of sessions, and the start of sessions.

use super::Data;
use crate::connection::State;
use crate::files;
use crate::front_end::{Message, OpenResult};
use crate::request::Request;
use crate::response::Response;
use crate::route::Route;
use reel_admit::Session;
use reel_play::{DeliveryPolicy, Form, PlayableTitle, SessionFile};
use reel_qos::Class;
use reel_rt::Core;
use std::net::SocketAddr;
use std::sync::Arc;

impl Data {
    /// Answers a request of a session. Admission decides first, then the response is written.
    pub(super) fn play(
        &mut self,
        core: &mut Core,
        token: u64,
        request: Request,
        file: SessionFile,
        session: Arc<Session<PlayableTitle>>,
    ) {
        let Some(resource) = files::of_session(session.playing(), file, session.key(), session.offered())
        else {
            let detail = "this title has no such track, segment or file";
            let response = Response::problem(&request, 404, detail, "");
            return self.respond(core, token, request, response, (Some(session), DeliveryPolicy::begins()));
        };
        let answer = resource.answer(&request);
        let media = files::media_request(&request, file, &answer, resource.body.bytes());
        match self.engine.policy(&session, &media, core.now_ns()) {
            Ok(policy) => {
                let response = resource.respond_with(&request, answer);
                self.respond(core, token, request, response, (Some(session), policy));
            }
            Err(refusal) => {
                let response = Response::refused(&request, &refusal.into());
                self.respond_interactive(core, token, request, response);
            }
        }
    }

    /// Lets another thread open a title. [`Data::opened`] notes the result, and
    /// [`Data::answer_opened`] continues with the request.
    pub(super) fn open(&mut self, core: &mut Core, token: u64, request: Request, title: String) {
        let own = self.own.clone();
        let reply = move |result| own.post(Message::Opened { connection: token, result });
        let server = &self.shared.server;
        if let Err(refusal) = server.opener.title_later(&server.openers, title, reply) {
            let response = Response::refusal(&request, &refusal);
            return self.respond_interactive(core, token, request, response);
        }
        if let Some(connection) = self.connections.get_mut(token) {
            connection.state = State::Opening(Box::new(request));
        }
    }

    pub(super) fn opened(&mut self, core: &mut Core, token: u64, result: OpenResult) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if let State::Opening(request) = &mut connection.state {
            connection.state = State::Opened(Box::new((std::mem::take(&mut **request), result)));
            self.ready(core, token);
        }
    }

    pub(super) fn answer_opened(&mut self, core: &mut Core, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let State::Opened(opened) = std::mem::replace(&mut connection.state, State::Idle) else { return };
        let (mut request, result) = *opened;
        request.keep_alive &= self.draining_since_ns.is_none();
        let peer = connection.peer;
        let title = match result {
            Ok(title) => title,
            Err(refusal) => {
                let response = Response::refusal(&request, &refusal);
                return self.respond_interactive(core, token, request, response);
            }
        };
        match Route::of(&request.path) {
            Route::Watch { title: id, file } => {
                let response = self.start_session(core, &request, (&id, title), file, peer);
                self.respond_interactive(core, token, request, response);
            }
            _ => {
                let response = files::download(&title, &request);
                let policy = DeliveryPolicy::without_deadline(Class::APERIODIC);
                self.respond(core, token, request, response, (None, policy));
            }
        }
    }

    fn start_session(
        &self,
        core: &Core,
        request: &Request,
        (id, title): (&str, Arc<PlayableTitle>),
        file: SessionFile,
        peer: SocketAddr,
    ) -> Response {
        let opener = &self.shared.server.opener;
        let form = if file == SessionFile::Progressive { Form::File } else { Form::Ladder };
        let opened = opener
            .class(request.class.as_deref())
            .and_then(|class| opener.session((id, title), form, (peer.ip(), class), core.now_ns()));
        match opened {
            Ok(session) => {
                let key = session.key();
                let file = match file {
                    SessionFile::Manifest => "manifest.mpd".to_owned(),
                    SessionFile::Progressive => format!("{id}.mp4"),
                    _ => "master.m3u8".to_owned(),
                };
                Response::redirect(request, &format!("/s/{key}/{file}"))
            }
            Err(refusal) => Response::refusal(request, &refusal),
        }
    }
}
