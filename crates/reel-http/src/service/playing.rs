//! Requests of sessions, and the start of sessions.

use super::{Then, Turn};
use crate::connection::{About, State};
use crate::file_reader::ReadAs;
use crate::files;
use crate::request::Request;
use crate::response::Response;
use crate::route::{Route, stored_form};
use reel_admit::{Client, Session};
use reel_cache::SessionKey;
use reel_library::Form as StoredForm;
use reel_play::{DeliveryPolicy, Form, PlayableTitle, SessionFile, Unwritten};
use reel_serve::{KeyOf, KeyUse, OpenResult, Refusal, Serve};
use std::sync::Arc;

impl Turn<'_, '_> {
    /// Answers a request of a session. Admission decides first, then the response is written.
    pub(super) fn play(
        &mut self,
        request: Request,
        file: SessionFile,
        session: Arc<Session<PlayableTitle>>,
    ) -> Then {
        self.note_about(session.title_id(), Some(session.key()));
        let (title, choice) = (session.playing(), session.offered().unwrap_or(0));
        let of_session = match title.session_file(file, session.key(), choice) {
            Ok(Some(of_session)) => of_session,
            Ok(None) if request.method == "HEAD" => {
                let response = Response::absent(&request);
                return self.respond_interactive(request, response);
            }
            Ok(None) => {
                let response = Response::absent(&request);
                let begins = (Some(session), DeliveryPolicy::begins());
                return self.respond(request, response, begins);
            }
            Err(Unwritten) => return self.write(request, Arc::clone(title), (file, choice)),
        };
        let resource = files::resource(title, of_session, files::SESSION_CACHE);
        if request.method == "HEAD" {
            // Nothing is sent to the session, which would keep it.
            let response = resource.respond(&request);
            return self.respond_interactive(request, response);
        }
        let answer = resource.answer(&request);
        let media = files::media_request(&request, file, &answer, resource.body.bytes());
        match self.serve.engine.policy(&session, &media, self.serve.now_ns()) {
            Ok(policy) => {
                let response = resource.respond_with(&request, answer);
                self.respond(request, response, (Some(session), policy))
            }
            Err(refusal) => {
                let response = Response::refused(&request, &refusal.into());
                self.respond_interactive(request, response)
            }
        }
    }

    /// Lets another thread open a title. [`Turn::note_opened`] notes the result, and
    /// [`Turn::answer_opened`] continues with the request.
    pub(super) fn open(&mut self, request: Request, title: String, form: StoredForm) -> Then {
        self.note_about(&title, None);
        if let Err(refusal) = self.serve.open_form(self.connection.token, title, form) {
            let response = Response::refusal(&request, &refusal);
            return self.respond_interactive(request, response);
        }
        self.await_opened(request)
    }

    /// Lets another thread write a text of a title; then the request continues as after an opening.
    fn write(
        &mut self,
        request: Request,
        title: Arc<PlayableTitle>,
        (file, choice): (SessionFile, usize),
    ) -> Then {
        #[cfg(feature = "faults")]
        crate::faults::occupy_if_wanted(&self.serve.parts().writers, &request.path);
        if let Err(refusal) = self.serve.write_text(self.connection.token, title, file, choice) {
            let response = Response::refusal(&request, &refusal);
            return self.respond_interactive(request, response);
        }
        self.await_opened(request)
    }

    pub(super) fn answer_opened(&mut self) -> Then {
        let State::Opened(opened) = std::mem::replace(&mut self.connection.state, State::Idle) else {
            return Then::Stays;
        };
        let (mut request, result) = *opened;
        request.keep_alive &= !self.serve.is_draining();
        let client = self.connection.peer.asker();
        let title = match result {
            Ok(title) => title,
            Err(refusal) => {
                let response = Response::refusal(&request, &refusal);
                return self.respond_interactive(request, response);
            }
        };
        match Route::of(&request.path) {
            Route::Watch { file, .. } if request.method == "HEAD" => {
                let response = describe(self.serve, &request, (&title, file), client);
                self.respond_interactive(request, response)
            }
            Route::Session { key, file, title: named } => self.play_again(request, (key, title), file, named),
            Route::Watch { title: id, file } => {
                let response = start_session(self.serve, &request, (&id, title), file, client);
                self.respond_interactive(request, response)
            }
            Route::Play { title: id } => self.read_file(request, title, (&id, ReadAs::Play)),
            Route::Download { title: id } => self.read_file(request, title, (&id, ReadAs::File)),
            Route::Live { .. } | Route::NotFound | Route::ControlPlane => {
                debug_assert!(false, "no title is opened for {}", request.path);
                Then::Closes
            }
        }
    }

    /// Continues a session, or opens one again whose client was silent for too long, and answers
    /// its request. HEAD opens none.
    fn play_again(
        &mut self,
        request: Request,
        (key, title): (SessionKey, Arc<PlayableTitle>),
        file: SessionFile,
        named: Option<String>,
    ) -> Then {
        match self.session_of(&key, &request, named.as_deref()) {
            Ok(Some(session)) => return self.play(request, file, session),
            Ok(None) => {}
            Err(refusal) => {
                let response = Response::refusal(&request, &refusal);
                return self.respond_interactive(request, response);
            }
        }
        if request.method == "HEAD" {
            let response = match title.session_file(file, key, 0) {
                Ok(Some(file)) => files::resource(&title, file, files::SESSION_CACHE).respond(&request),
                Ok(None) => Response::absent(&request),
                Err(Unwritten) => return self.write(request, title, (file, 0)),
            };
            return self.respond_interactive(request, response);
        }
        let (client, form) = (self.connection.peer.asker(), form_of(file));
        let response = match self.serve.opener().session_again(&key, title, form, client, self.serve.now_ns())
        {
            Ok(Some(session)) => return self.play(request, file, session),
            Ok(None) => Response::ended(&request),
            Err(refusal) => Response::refusal(&request, &refusal),
        };
        self.respond_interactive(request, response)
    }

    /// Answers a request with the key of a session, or has the title opened of one that ended
    /// because its client was silent.
    pub(super) fn begin_keyed(
        &mut self,
        request: Request,
        (key, file): (SessionKey, SessionFile),
        named: Option<&str>,
    ) -> Then {
        let response = match self.session_of(&key, &request, named) {
            Ok(Some(session)) => return self.play(request, file, session),
            Ok(None) => match self.former(&key, &request, named) {
                Ok(Some(title)) => return self.open(request, title, stored_form(file)),
                Ok(None) => Response::ended(&request),
                Err(refusal) => Response::refusal(&request, &refusal),
            },
            Err(refusal) => Response::refusal(&request, &refusal),
        };
        self.respond_interactive(request, response)
    }

    /// The open session of a request, if the key is used for what it was given for. A client that
    /// only looks, by HEAD, does not play: its session ends as if it had not asked.
    fn session_of(
        &self,
        key: &SessionKey,
        request: &Request,
        named: Option<&str>,
    ) -> Result<Option<Arc<Session<PlayableTitle>>>, Refusal> {
        let now_ns = self.serve.now_ns();
        let Some(session) = self.serve.parts().sessions.find(key, now_ns) else { return Ok(None) };
        self.serve.opener().check_key(KeyOf::session(&session), self.key_use(request, named))?;
        if request.method != "HEAD" {
            session.touch(now_ns);
        }
        Ok(Some(session))
    }

    /// The title of the session that had this key.
    fn former(
        &self,
        key: &SessionKey,
        request: &Request,
        named: Option<&str>,
    ) -> Result<Option<String>, Refusal> {
        let Some(former) = self.serve.parts().sessions.former(key) else { return Ok(None) };
        self.serve.opener().check_key(KeyOf::former(&former), self.key_use(request, named))?;
        Ok(Some(former.title_id))
    }

    fn key_use<'a>(&self, request: &'a Request, title: Option<&'a str>) -> KeyUse<'a> {
        let client = self.connection.peer.asker();
        KeyUse { title, class: request.class.as_deref(), client }
    }

    fn await_opened(&mut self, request: Request) -> Then {
        self.connection.state = State::Opening(Box::new(request));
        Then::Stays
    }

    fn note_about(&mut self, title: &str, session: Option<SessionKey>) {
        self.connection.about = Some(About { title: title.to_owned(), session });
    }

    pub(super) fn note_opened(&mut self, result: OpenResult) -> Then {
        let State::Opening(request) = &mut self.connection.state else { return Then::Stays };
        self.connection.state = State::Opened(Box::new((std::mem::take(&mut **request), result)));
        self.wake()
    }
}

fn start_session(
    serve: &Serve<'_>,
    request: &Request,
    (id, title): (&str, Arc<PlayableTitle>),
    file: SessionFile,
    client: Client,
) -> Response {
    let opener = serve.opener();
    let opened = opener.class(request.class.as_deref(), client).and_then(|class| {
        let client = serve.session_client(client, class);
        opener.session(id, title, form_of(file), client, serve.now_ns())
    });
    match opened {
        Ok(session) => {
            // The client learns the key.
            let key = session.keep().key();
            let is_file = matches!(file, SessionFile::Progressive | SessionFile::Transport);
            let file = match file {
                SessionFile::Manifest => "manifest.mpd".to_owned(),
                SessionFile::Progressive => format!("{id}.mp4"),
                SessionFile::Transport => format!("{id}.ts"),
                SessionFile::TransportList => "stream.m3u8".to_owned(),
                _ => "master.m3u8".to_owned(),
            };
            Response::redirect(request, &format!("/s/{key}/{file}"), is_file)
        }
        Err(refusal) => Response::refusal(request, &refusal),
    }
}

fn form_of(file: SessionFile) -> Form {
    match file {
        SessionFile::Progressive | SessionFile::Transport | SessionFile::TransportList => Form::File,
        _ => Form::Ladder,
    }
}

/// Answers HEAD for a title. No session is opened, so nothing is reserved: a client that only looks
/// takes no place from a viewer.
fn describe(
    serve: &Serve<'_>,
    request: &Request,
    (title, file): (&PlayableTitle, SessionFile),
    client: Client,
) -> Response {
    match serve.opener().class(request.class.as_deref(), client) {
        Ok(_) => files::description(title, file, request),
        Err(refusal) => Response::refusal(request, &refusal),
    }
}
