//! Titles that are read as files: by downloads, and by players that know nothing of sessions.
//!
//! A response begins without a session. While it is sent, the reader is watched. One that plays is
//! admitted, and the response under way continues as one of its session.

use super::{HttpThread, Own, Then, Turn};
use crate::connection::State;
use crate::file_reader::{ReadAs, Reading};
use crate::file_readers::{ReaderKey, ReaderSession};
use crate::files;
use crate::limits::LOOK_EVERY_NS;
use crate::request::Request;
use reel_play::{DeliveryId, DeliveryPolicy, Form, MediaRequest, Playable, PlayableTitle};
use reel_qos::Class;
use reel_serve::Serve;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The part of a response that is watched.
pub(crate) struct Watched {
    key: ReaderKey,
    title: Arc<PlayableTitle>,
    /// The end of the range of the file that is sent.
    end: u64,
    /// Where it was when it was last looked at.
    at: u64,
    /// When to look again.
    next_ns: u64,
    stage: Stage,
}

/// What a response under way was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Looks,
    Copies,
    Promised,
}

/// How a response is sent: as one of a session or not, and watched or not.
type Terms = (Option<ReaderSession>, DeliveryPolicy, Option<Watched>);

impl Turn<'_, '_> {
    /// Answers a request for a title as one file.
    pub(super) fn read_file(
        &mut self,
        request: Request,
        title: Arc<PlayableTitle>,
        (id, name): (&str, ReadAs),
    ) -> Then {
        let response = files::download(&title, &request, name);
        let policy = DeliveryPolicy::without_deadline(Class::APERIODIC);
        let range = response.body_offset..response.body_offset + response.body_bytes;
        let may_play = match name {
            ReadAs::Play => matches!(response.status, 200 | 206),
            ReadAs::File => response.status == 206 && !request.is_download,
        };
        let (session, policy, watched) =
            if may_play && request.class.is_none() && !range.is_empty() && !self.serve.is_draining() {
                let client = self.connection.peer.client().ip().to_canonical();
                let key = ReaderKey { client, title: id.to_owned(), name };
                self.terms_of_reader(key, title, range)
            } else {
                (None, policy, None)
            };
        let then = self.respond(request, response, (session, policy));
        // The response may be over already.
        if let State::Sending(sending) = &mut self.connection.state {
            sending.watched = watched;
        } else if let Some(watched) = watched {
            self.own.shared.file_readers.ends(&watched.key, self.serve.now_ns());
        }
        then
    }

    fn terms_of_reader(&mut self, key: ReaderKey, title: Arc<PlayableTitle>, range: Range<u64>) -> Terms {
        let copies = DeliveryPolicy::without_deadline(Class::APERIODIC);
        let (now_ns, from_ns) = (self.serve.now_ns(), media_ns(&title, range.start));
        let Some(reading) = self.own.shared.file_readers.begins(&key, from_ns, now_ns) else {
            return (None, copies, None);
        };
        let watched = |stage| {
            let (at, end) = (range.start, range.end);
            Some(Watched { key: key.clone(), title, end, at, next_ns: now_ns, stage })
        };
        match reading {
            Reading::Looks => (None, DeliveryPolicy::interactive(), watched(Stage::Looks)),
            Reading::Copies | Reading::Plays => (None, copies, watched(Stage::Copies)),
            Reading::Promised(session) => {
                let is_open = self.serve.parts().sessions.touch(&session.key(), now_ns).is_some();
                let request = MediaRequest::File(range.clone());
                match is_open.then(|| self.serve.engine.policy(&session, &request, now_ns)) {
                    Some(Ok(policy)) => (Some(session), policy, watched(Stage::Promised)),
                    Some(Err(_)) | None => {
                        self.serve.parts().sessions.close(&session.key());
                        let _ = self.own.shared.file_readers.settle(&key, None, now_ns);
                        (None, copies, watched(Stage::Copies))
                    }
                }
            }
        }
    }

    /// Looks at a response that has sent something: whether its reader plays.
    pub(super) fn watch_reader(&mut self) {
        let now_ns = self.serve.now_ns();
        let State::Sending(sending) = &mut self.connection.state else { return };
        let delivery = sending.delivery;
        let Some(watched) = sending.watched.as_mut().filter(|watched| now_ns >= watched.next_ns) else {
            return;
        };
        watched.next_ns = now_ns + LOOK_EVERY_NS;
        let at = watched.end.saturating_sub(self.serve.engine.unsent_bytes(delivery)).max(watched.at);
        let (bytes, until_ns) = (at - watched.at, media_ns(&watched.title, at));
        watched.at = at;
        let reading = self.own.shared.file_readers.reads(&watched.key, (bytes, until_ns), now_ns);
        let stage = match reading {
            Reading::Looks => watched.stage,
            Reading::Copies if watched.stage == Stage::Promised => Stage::Promised,
            Reading::Copies => Stage::Copies,
            Reading::Plays if self.serve.is_draining() => Stage::Copies,
            Reading::Plays => self.own.admit(self.serve, delivery, watched),
            Reading::Promised(_) if watched.stage == Stage::Promised => Stage::Promised,
            Reading::Promised(session) => join(self.serve, delivery, session, now_ns),
        };
        let before = std::mem::replace(&mut watched.stage, stage);
        // A look that has become long is read as a copy.
        if (before, stage) == (Stage::Looks, Stage::Copies) {
            self.serve.engine.release_deadlines(delivery, Class::APERIODIC);
        }
    }
}

impl Own {
    /// Opens a session for a reader that plays, and has its response continue in it.
    fn admit(&self, serve: &mut Serve<'_>, delivery: DeliveryId, watched: &Watched) -> Stage {
        let now_ns = serve.now_ns();
        let (key, title) = (&watched.key, Arc::clone(&watched.title));
        let client = serve.session_client(key.client, Class::PERIODIC);
        let opened = serve.opener().session(&key.title, title, Form::File, client, now_ns);
        let counters = &self.shared.http.counters;
        let count = if opened.is_ok() { &counters.readers_admitted } else { &counters.readers_refused };
        count.fetch_add(1, Ordering::Relaxed);
        let session = self.shared.file_readers.settle(key, opened.ok(), now_ns);
        session.map_or(Stage::Copies, |session| join(serve, delivery, session, now_ns))
    }

    /// A response has ended.
    pub(super) fn end_watching(&self, watched: &Watched, now_ns: u64) {
        self.shared.file_readers.ends(&watched.key, now_ns);
    }
}

impl HttpThread {
    /// Ends the sessions of readers that have left.
    pub(super) fn forget_readers(&self, serve: &Serve<'_>) {
        for session in self.own.shared.file_readers.forget(serve.now_ns()) {
            serve.parts().sessions.close(&session.key());
        }
    }
}

/// Has a response continue in a session. It is tried again at the next look if the session begins
/// later, or if there is no room where the response is.
fn join(serve: &mut Serve<'_>, delivery: DeliveryId, session: ReaderSession, now_ns: u64) -> Stage {
    match serve.engine.join(delivery, session, now_ns) {
        Ok(true) => Stage::Promised,
        Ok(false) | Err(_) => Stage::Copies,
    }
}

/// When the byte at an offset is shown.
fn media_ns(title: &PlayableTitle, offset: u64) -> u64 {
    title.file().map_or(0, |file| file.media_ns(offset, title.duration_ns()))
}
