//! Responses with poured streams: begun, continued when more comes, and cut off.

use super::{HttpThread, Then, Turn};
use crate::connection::{Connection, State};
use crate::live::{Live, Next};
use crate::request::Request;
use crate::response::Response;
use reel_play::DeliveryPolicy;
use reel_serve::Serve;

/// A poured stream whose client was too slow, or whose program is gone.
pub(super) struct CutOff;

impl Turn<'_, '_> {
    /// Answers with a poured stream.
    pub(super) fn view(&mut self, request: Request, name: &str) -> Then {
        let Some(viewer) = self.own.shared.http.pours.view(name, self.serve.now_ns()) else {
            let detail = "no program pours a stream of this name now; `reel pour NAME` does";
            let response = Response::problem(&request, 404, detail, "");
            return self.respond_interactive(request, response);
        };
        if request.method == "HEAD" {
            let response = Response::without_size(&request, &viewer.terms().content_type);
            return self.respond_interactive(request, response);
        }
        let in_chunks = request.takes_chunks;
        // Without chunks, the end of the connection is that of the stream.
        let request = Request { keep_alive: request.keep_alive && in_chunks, ..request };
        let response = Response::growing(&request, &viewer.terms().content_type, in_chunks);
        self.begin_response(request, response, (None, DeliveryPolicy::interactive()));
        if let State::Sending(sending) = &mut self.connection.state {
            sending.live = Some(Live::new(viewer, in_chunks));
            self.serve.engine.stay_open(sending.delivery);
        }
        self.pump()
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
        match live.next() {
            Next::Part(body) => self.serve.engine.append(delivery, body),
            Next::Last(body) => {
                sending.live = None;
                self.serve.engine.append(delivery, body);
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
        let waits = |connection: &Connection| connection.live().is_some() && !connection.in_ring;
        for token in self.connections.tokens(waits) {
            self.step(serve, token, |turn| turn.wake());
        }
    }

    /// Closes connections that get poured streams whose clients have left while nothing was sent to
    /// them, or are behind by more than the stream's window: what they hold is not kept for others.
    pub(super) fn drop_live(&mut self, serve: &mut Serve<'_>) {
        for token in self.connections.tokens(|connection| connection.live().is_some()) {
            let Some(connection) = self.connections.get(token) else { continue };
            let is_behind = connection.live().is_some_and(Live::is_behind);
            if is_behind || !connection.in_ring && connection.has_left() {
                self.step(serve, token, |turn| turn.connection.cut_off());
            }
        }
    }
}
