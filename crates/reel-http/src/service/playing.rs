//! Requests of sessions, and the start of sessions.

use super::HttpThread;
use crate::connection::{About, State};
use crate::file_reader::ReadAs;
use crate::files;
use crate::request::Request;
use crate::response::Response;
use crate::route::Route;
use reel_admit::Session;
use reel_cache::SessionKey;
use reel_play::{DeliveryPolicy, Form, PlayableTitle, SessionFile, Unwritten};
use reel_serve::{OpenResult, Serve};
use std::net::IpAddr;
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
        self.note_about(token, session.title_id(), Some(session.key()));
        let (title, choice) = (session.playing(), session.offered().unwrap_or(0));
        let of_session = match title.session_file(file, session.key(), choice) {
            Ok(Some(of_session)) => of_session,
            Ok(None) if request.method == "HEAD" => {
                let response = Response::absent(&request);
                return self.respond_interactive(serve, token, request, response);
            }
            Ok(None) => {
                let response = Response::absent(&request);
                let begins = (Some(session), DeliveryPolicy::begins());
                return self.respond(serve, token, request, response, begins);
            }
            Err(Unwritten) => return self.write(serve, token, request, Arc::clone(title), (file, choice)),
        };
        let resource = files::resource(title, of_session, files::SESSION_CACHE);
        if request.method == "HEAD" {
            // Nothing is sent to the session, which would keep it.
            let response = resource.respond(&request);
            return self.respond_interactive(serve, token, request, response);
        }
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
        self.note_about(token, &title, None);
        if let Err(refusal) = serve.open_title(token, title) {
            let response = Response::refusal(&request, &refusal);
            return self.respond_interactive(serve, token, request, response);
        }
        self.await_opened(token, request);
    }

    /// Lets another thread write a text of a title; then the request continues as after an opening.
    fn write(
        &mut self,
        serve: &mut Serve<'_>,
        token: u64,
        request: Request,
        title: Arc<PlayableTitle>,
        (file, choice): (SessionFile, usize),
    ) {
        #[cfg(feature = "faults")]
        crate::faults::occupy_if_wanted(&serve.parts().writers, &request.path);
        if let Err(refusal) = serve.write_text(token, title, file, choice) {
            let response = Response::refusal(&request, &refusal);
            return self.respond_interactive(serve, token, request, response);
        }
        self.await_opened(token, request);
    }

    fn await_opened(&mut self, token: u64, request: Request) {
        if let Some(connection) = self.connections.get_mut(token) {
            connection.state = State::Opening(Box::new(request));
        }
    }

    fn note_about(&mut self, token: u64, title: &str, session: Option<SessionKey>) {
        if let Some(connection) = self.connections.get_mut(token) {
            connection.about = Some(About { title: title.to_owned(), session });
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
        let client = connection.peer.client().ip();
        let title = match result {
            Ok(title) => title,
            Err(refusal) => {
                let response = Response::refusal(&request, &refusal);
                return self.respond_interactive(serve, token, request, response);
            }
        };
        match Route::of(&request.path) {
            Route::Watch { file, .. } if request.method == "HEAD" => {
                let response = describe(serve, &request, (&title, file), client);
                self.respond_interactive(serve, token, request, response);
            }
            Route::Session { key, file } => self.play_again(serve, token, request, (key, title), file),
            Route::Watch { title: id, file } => {
                let response = self.start_session(serve, &request, (&id, title), file, client);
                self.respond_interactive(serve, token, request, response);
            }
            Route::Play { title: id } => self.read_file(serve, token, request, title, (&id, ReadAs::Play)),
            Route::Download { title: id } => {
                self.read_file(serve, token, request, title, (&id, ReadAs::File))
            }
            Route::NotFound | Route::ControlPlane => {
                debug_assert!(false, "no title is opened for {}", request.path);
                self.close(serve, token);
            }
        }
    }

    /// Continues a session, or opens one again whose client was silent for too long, and answers
    /// its request. HEAD opens none.
    fn play_again(
        &mut self,
        serve: &mut Serve<'_>,
        token: u64,
        request: Request,
        (key, title): (SessionKey, Arc<PlayableTitle>),
        file: SessionFile,
    ) {
        if let Some(session) = session_of(serve, &key, &request) {
            return self.play(serve, token, request, file, session);
        }
        if request.method == "HEAD" {
            let response = match title.session_file(file, key, 0) {
                Ok(Some(file)) => files::resource(&title, file, files::SESSION_CACHE).respond(&request),
                Ok(None) => Response::absent(&request),
                Err(Unwritten) => return self.write(serve, token, request, title, (file, 0)),
            };
            return self.respond_interactive(serve, token, request, response);
        }
        let Some(connection) = self.connections.get_mut(token) else { return };
        let (address, form) = (connection.peer.client().ip(), form_of(file));
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
        client: IpAddr,
    ) -> Response {
        let opener = serve.opener();
        let opened = opener.class(request.class.as_deref(), client).and_then(|class| {
            let client = serve.session_client(client, class);
            opener.session(id, title, form_of(file), client, serve.now_ns())
        });
        match opened {
            Ok(session) => {
                // The client learns the key.
                let (key, is_file) = (session.keep().key(), form_of(file) == Form::File);
                let file = match file {
                    SessionFile::Manifest => "manifest.mpd".to_owned(),
                    SessionFile::Progressive => format!("{id}.mp4"),
                    _ => "master.m3u8".to_owned(),
                };
                Response::redirect(request, &format!("/s/{key}/{file}"), is_file)
            }
            Err(refusal) => Response::refusal(request, &refusal),
        }
    }
}

/// The open session of a request. A client that only looks, by HEAD, does not play: its session
/// ends as if it had not asked.
pub(super) fn session_of(
    serve: &Serve<'_>,
    key: &SessionKey,
    request: &Request,
) -> Option<Arc<Session<PlayableTitle>>> {
    let sessions = &serve.parts().sessions;
    match request.method.as_str() {
        "HEAD" => sessions.find(key, serve.now_ns()),
        _ => sessions.touch(key, serve.now_ns()),
    }
}

fn form_of(file: SessionFile) -> Form {
    if file == SessionFile::Progressive { Form::File } else { Form::Ladder }
}

/// Answers HEAD for a title. No session is opened, so nothing is reserved: a client that only looks
/// takes no place from a viewer.
fn describe(
    serve: &Serve<'_>,
    request: &Request,
    (title, file): (&PlayableTitle, SessionFile),
    client: IpAddr,
) -> Response {
    match serve.opener().class(request.class.as_deref(), client) {
        Ok(_) => files::description(title, file, request),
        Err(refusal) => Response::refusal(request, &refusal),
    }
}
