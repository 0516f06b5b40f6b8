//! Responses with poured streams: begun, continued when more comes, and cut off.

use super::{HttpThread, Then, Turn};
use crate::connection::State;
use crate::live::{Live, Next};
use crate::request::Request;
use crate::response::Response;
use reel_play::DeliveryPolicy;
use reel_play::limits::POURED_ROUNDS;
use reel_qos::Kind;
use reel_qos::limits::ROUND_NS;
use reel_serve::{OpenedSession, Refusal, Serve};
use std::sync::Arc;

/// How often the session of a viewer is reserved what follows: when half of it is over.
const CONTINUE_EVERY_NS: u64 = POURED_ROUNDS as u64 / 2 * ROUND_NS;

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
        let continue_ns = self.serve.now_ns() + CONTINUE_EVERY_NS;
        if let State::Sending(sending) = &mut self.connection.state {
            sending.live = Some(Live::new(viewer, session, in_chunks, continue_ns));
            self.own.live.insert(self.connection.token);
            self.serve.engine.stay_open(sending.delivery);
        }
        self.pump()
    }

    /// Admits a viewer of a poured stream of this name and rate.
    fn open_live(&self, request: &Request, stream: (&str, u64)) -> Result<OpenedSession, Refusal> {
        let (opener, client) = (self.serve.opener(), self.connection.peer.client().ip());
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
        let (class, now_ns) = (live.session.class(), self.serve.now_ns());
        if now_ns > live.continue_ns {
            live.continue_ns = now_ns + CONTINUE_EVERY_NS;
            self.serve.opener().continue_poured(&live.session, now_ns).map_err(|_| CutOff)?;
        }
        let is_due = self.serve.engine.units().disks().classes().kind(class) == Kind::Periodic;
        match live.next(is_due, now_ns) {
            Next::Part(body, due_ns) => {
                self.serve.engine.append(delivery, body, class, due_ns);
            }
            Next::Last(body) => {
                sending.live = None;
                self.serve.engine.append(delivery, body, class, is_due.then_some(now_ns));
                self.serve.engine.complete(delivery);
            }
            Next::Nothing => return Ok(false),
            Next::CutOff => return Err(CutOff),
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
            if live.is_behind(now_ns) || is_closed || has_left() {
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
