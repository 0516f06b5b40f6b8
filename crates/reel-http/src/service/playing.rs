//! Requests of sessions, and the start of sessions.

use super::HttpThread;
use crate::connection::State;
use crate::files;
use crate::request::Request;
use crate::response::Response;
use crate::route::Route;
use reel_admit::{Session, SessionClient};
use reel_cache::SessionKey;
use reel_play::{DeliveryPolicy, Form, PlayableTitle, SessionFile};
use reel_qos::Class;
use reel_serve::{OpenResult, Serve};
use std::net::SocketAddr;
use std::sync::Arc;

impl HttpThread {
    /// Answers a request of a session. Admission decides first, then the response is written.
    pub(super) fn play(
        &mut self,
        serve: &mut Serve<'_>,
        token: u64,
        request: Request,
        file: SessionFile,
        session: Arc<Session<PlayableTitle>>,
    ) {
        let (title, choice) = (session.playing(), session.offered().unwrap_or(0));
        let Some(of_session) = title.session_file(file, session.key(), choice) else {
            let response = Response::absent(&request);
            return self.respond(serve, token, request, response, (Some(session), DeliveryPolicy::begins()));
        };
        let resource = files::resource(title, of_session, files::SESSION_CACHE);
        let answer = resource.answer(&request);
        let media = files::media_request(&request, file, &answer, resource.body.bytes());
        match serve.engine.policy(&session, &media, serve.now_ns()) {
            Ok(policy) => {
                let response = resource.respond_with(&request, answer);
                self.respond(serve, token, request, response, (Some(session), policy));
            }
            Err(refusal) => {
                let response = Response::refused(&request, &refusal.into());
                self.respond_interactive(serve, token, request, response);
            }
        }
    }

    /// Lets another thread open a title. [`HttpThread::note_opened`] notes the result, and
    /// [`HttpThread::answer_opened`] continues with the request.
    pub(super) fn open(&mut self, serve: &mut Serve<'_>, token: u64, request: Request, title: String) {
        if let Err(refusal) = serve.open_title(token, title) {
            let response = Response::refusal(&request, &refusal);
            return self.respond_interactive(serve, token, request, response);
        }
        if let Some(connection) = self.connections.get_mut(token) {
            connection.state = State::Opening(Box::new(request));
        }
    }

    pub(super) fn note_opened(&mut self, serve: &mut Serve<'_>, token: u64, result: OpenResult) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if let State::Opening(request) = &mut connection.state {
            connection.state = State::Opened(Box::new((std::mem::take(&mut **request), result)));
            self.wake(serve, token);
        }
    }

    pub(super) fn answer_opened(&mut self, serve: &mut Serve<'_>, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let State::Opened(opened) = std::mem::replace(&mut connection.state, State::Idle) else { return };
        let (mut request, result) = *opened;
        request.keep_alive &= !serve.is_draining();
        let peer = connection.peer;
        let title = match result {
            Ok(title) => title,
            Err(refusal) => {
                let response = Response::refusal(&request, &refusal);
                return self.respond_interactive(serve, token, request, response);
            }
        };
        match Route::of(&request.path) {
            Route::Watch { file, .. } if request.method == "HEAD" => {
                let response = describe(serve, &request, &title, file);
                self.respond_interactive(serve, token, request, response);
            }
            Route::Session { key, file } => self.play_again(serve, token, request, (key, title), file),
            Route::Watch { title: id, file } => {
                let response = self.start_session(serve, &request, (&id, title), file, peer);
                self.respond_interactive(serve, token, request, response);
            }
            _ => {
                let response = files::download(&title, &request);
                let policy = DeliveryPolicy::without_deadline(Class::APERIODIC);
                self.respond(serve, token, request, response, (None, policy));
            }
        }
    }

    /// Opens a session again whose client was silent for too long, and answers its request. HEAD
    /// opens none.
    fn play_again(
        &mut self,
        serve: &mut Serve<'_>,
        token: u64,
        request: Request,
        (key, title): (SessionKey, Arc<PlayableTitle>),
        file: SessionFile,
    ) {
        if request.method == "HEAD" {
            let response = match title.session_file(file, key, 0) {
                Some(file) => files::resource(&title, file, files::SESSION_CACHE).respond(&request),
                None => Response::absent(&request),
            };
            return self.respond_interactive(serve, token, request, response);
        }
        let Some(connection) = self.connections.get_mut(token) else { return };
        let (address, form) = (connection.peer.ip(), form_of(file));
        let response = match serve.opener().session_again(&key, title, form, address, serve.now_ns()) {
            Ok(Some(session)) => return self.play(serve, token, request, file, session),
            Ok(None) => Response::ended(&request),
            Err(refusal) => Response::refusal(&request, &refusal),
        };
        self.respond_interactive(serve, token, request, response);
    }

    fn start_session(
        &self,
        serve: &Serve<'_>,
        request: &Request,
        (id, title): (&str, Arc<PlayableTitle>),
        file: SessionFile,
        peer: SocketAddr,
    ) -> Response {
        let opener = serve.opener();
        let opened = opener.class(request.class.as_deref()).and_then(|class| {
            let client = SessionClient::new(peer.ip(), class);
            opener.session(id, title, form_of(file), client, serve.now_ns())
        });
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

fn form_of(file: SessionFile) -> Form {
    if file == SessionFile::Progressive { Form::File } else { Form::Ladder }
}

/// Answers HEAD for a title. No session is opened, so nothing is reserved: a client that only looks
/// takes no place from a viewer.
fn describe(serve: &Serve<'_>, request: &Request, title: &PlayableTitle, file: SessionFile) -> Response {
    match serve.opener().class(request.class.as_deref()) {
        Ok(_) => files::description(title, file, request),
        Err(refusal) => Response::refusal(request, &refusal),
    }
}
