//! Responses with poured streams: begun, continued when more comes, and cut off.

use super::{HttpThread, Then, Turn};
use crate::connection::State;
use crate::live::Live;
use crate::request::Request;
use crate::response::Response;
use reel_play::DeliveryPolicy;
use reel_serve::{OpenedSession, Poured, Refusal, Serve, Viewing};
use std::sync::Arc;

/// A poured stream whose client was too slow, or whose program is gone.
pub(super) struct CutOff;

impl Turn<'_, '_> {
    /// Answers with a poured stream.
    pub(super) fn view(&mut self, request: Request, name: &str) -> Then {
        // A stream that is refused has one viewer more for a moment.
        let Some(viewer) = self.own.shared.http.pours.view(name, self.serve.now_ns()) else {
            let detail = "no program pours a stream of this name now; `reel pour NAME` does";
            let response = Response::problem(&request, 404, detail, "");
            return self.respond_interactive(request, response);
        };
        if request.method == "HEAD" {
            let response = Response::without_size(&request, &viewer.terms().content_type);
            return self.respond_interactive(request, response);
        }
        let session = match self.open_live(&request, (name, viewer.terms().bytes_per_s)) {
            Ok(session) => session,
            Err(refusal) => {
                let response = Response::refusal(&request, &refusal);
                return self.respond_interactive(request, response);
            }
        };
        let in_chunks = request.takes_chunks;
        // Without chunks, the end of the connection is that of the stream.
        let request = Request { keep_alive: request.keep_alive && in_chunks, ..request };
        let response = Response::growing(&request, &viewer.terms().content_type, in_chunks);
        self.begin_response(request, response, (Some(Arc::clone(&session)), DeliveryPolicy::begins()));
        let viewing = Viewing::new(viewer, self.serve.now_ns());
        if let State::Sending(sending) = &mut self.connection.state {
            sending.live = Some(Live { viewing, session, in_chunks });
            self.own.live.insert(self.connection.token);
            self.serve.engine.stay_open(sending.delivery);
        }
        self.pump()
    }

    /// Admits a viewer of a poured stream of this name and rate.
    fn open_live(&self, request: &Request, stream: (&str, u64)) -> Result<OpenedSession, Refusal> {
        let (opener, client) = (self.serve.opener(), self.connection.peer.asker());
        let class = opener.class(request.class.as_deref(), client)?;
        let client = self.serve.session_client(client, class);
        opener.poured_session(stream, client, self.serve.now_ns())
    }

    /// Appends what has come of a poured stream, if all before it was sent. `false` if there is
    /// nothing to send before more comes.
    ///
    /// # Errors
    /// The response cannot be completed.
    pub(super) fn feed(&mut self) -> Result<bool, CutOff> {
        let State::Sending(sending) = &mut self.connection.state else { return Ok(false) };
        let delivery = sending.delivery;
        let is_sent = self.serve.engine.unsent_bytes(delivery) == 0;
        let Some(live) = sending.live.as_mut().filter(|_| is_sent) else { return Ok(false) };
        let now_ns = self.serve.now_ns();
        let next = live.viewing.next(&live.session, self.serve.opener(), now_ns);
        let engine = &mut *self.serve.engine;
        match next {
            Poured::Part(part, class, due_ns) => engine.append(delivery, live.part(part), class, due_ns),
            Poured::Complete => {
                engine.append(delivery, live.end(), live.session.class(), Some(now_ns));
                engine.complete(delivery);
                sending.live = None;
            }
            Poured::Nothing => return Ok(false),
            Poured::Broken | Poured::Behind => return Err(CutOff),
        }
        Ok(true)
    }
}

impl HttpThread {
    /// Poured streams have news: continues with those who wait for it.
    pub(super) fn continue_live(&mut self, serve: &mut Serve<'_>) {
        for token in self.live() {
            if self.connections.get(token).is_some_and(|connection| !connection.in_ring) {
                self.step(serve, token, |turn| turn.wake());
            }
        }
    }

    /// Closes connections that get poured streams whose clients have left while nothing was sent to
    /// them, or are behind by more than the stream's window: what they hold is not kept for others.
    /// Also those whose sessions have ended.
    pub(super) fn drop_live(&mut self, serve: &mut Serve<'_>) {
        let now_ns = serve.now_ns();
        for token in self.live() {
            let Some(connection) = self.connections.get(token) else { continue };
            let Some(live) = connection.live() else { continue };
            let is_closed = serve.parts().sessions.find(&live.session.key(), now_ns).is_none();
            let has_left = || !connection.in_ring && connection.has_left();
            if live.viewing.is_behind(now_ns) || is_closed || has_left() {
                self.step(serve, token, |turn| turn.connection.cut_off());
            }
        }
    }

    /// The connections that get poured streams.
    fn live(&mut self) -> Vec<u64> {
        let connections = &self.connections;
        let is_live = |token: &u64| connections.get(*token).is_some_and(|it| it.live().is_some());
        self.own.live.retain(is_live);
        self.own.live.iter().copied().collect()
    }
}
