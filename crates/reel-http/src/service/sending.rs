//! Sends the bytes of responses that are in memory, and requests those that are missing.

use super::live::CutOff;
use super::{Then, Turn};
use crate::connection::{Sending, State};
use crate::request::Request;
use crate::response::Response;
use reel_admit::Session;
use reel_play::{DeliveryPolicy, NewDelivery, PlayableTitle, Readiness};
use reel_ring::Op;
use std::io;
use std::sync::Arc;

impl Turn<'_, '_> {
    /// Begins to send a response.
    pub(super) fn respond(
        &mut self,
        request: Request,
        response: Response,
        begins: (Option<Arc<Session<PlayableTitle>>>, DeliveryPolicy),
    ) -> Then {
        self.begin_response(request, response, begins);
        self.pump()
    }

    /// The same without sending anything yet.
    pub(super) fn begin_response(
        &mut self,
        request: Request,
        response: Response,
        (session, policy): (Option<Arc<Session<PlayableTitle>>>, DeliveryPolicy),
    ) {
        self.own.shared.http.counters.response(response.status);
        let now_ns = self.serve.now_ns();
        let Response { status, body, body_bytes, body_offset, keep_alive } = response;
        let delivery = NewDelivery {
            tag: self.connection.token,
            session,
            policy,
            preamble_bytes: body.bytes() - body_bytes,
            body,
            file_offset: body_offset,
            in_runs: true,
            path: self.connection.path(),
        };
        let is_watched = self.connection.peer.shows_path();
        let delivery = self.serve.engine.open(delivery, now_ns);
        #[cfg(feature = "faults")]
        crate::faults::panic_if_wanted(&request.path);
        let (blocked, started_ns) = (false, now_ns);
        self.connection.state = State::Sending(Box::new(Sending {
            delivery,
            blocked,
            keep_alive,
            started_ns,
            status,
            request,
            watched: None,
            live: None,
        }));
        self.connection.since_ns = now_ns;
        if is_watched {
            self.own.watch_paths(self.serve);
        }
    }

    /// Sends what can be sent, or requests what is missing. All media passes through this function.
    pub(super) fn pump(&mut self) -> Then {
        let Some(delivery) = self.connection.delivery().filter(|_| !self.connection.in_ring) else {
            return Then::Stays;
        };
        if let Some(secure) = &mut self.connection.secure
            && let Some(chunk) = secure.pending.take()
        {
            return self.push(|socket| Op::Send { socket, chunks: vec![chunk] });
        }
        match self.serve.engine.fill(delivery, self.serve.now_ns()) {
            None => Then::Stays,
            Some(Readiness::Waiting) => match self.feed() {
                // Now it has something to send, or its end.
                Ok(true) => self.pump(),
                Ok(false) => Then::Stays,
                Err(CutOff) => self.connection.cut_off(),
            },
            Some(Readiness::Done) => self.finish(),
            Some(Readiness::Ready) if self.connection.secure.is_some() => self.seal(false),
            Some(Readiness::Ready) => {
                let may_lend = self.own.shared.http.arena.pieces_sending() < self.own.shared.lent_buffers;
                let chunks = self.serve.engine.chunks(delivery);
                self.send(chunks, may_lend)
            }
        }
    }

    pub(super) fn sent(&mut self, result: io::Result<usize>) -> Then {
        let Some(delivery) = self.connection.delivery() else { return Then::Stays };
        match result {
            Ok(bytes) => {
                self.connection.since_ns = self.serve.now_ns();
                self.serve.engine.taken(delivery, bytes as u64, self.serve.now_ns());
                self.watch_reader();
                self.wake()
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.set_blocked(true);
                self.push(|socket| Op::AwaitWritable { socket })
            }
            Err(_gone) => Then::Closes,
        }
    }

    /// Notes whether the client accepts nothing at the moment.
    pub(super) fn set_blocked(&mut self, is_blocked: bool) {
        if let State::Sending(sending) = &mut self.connection.state {
            sending.blocked = is_blocked;
            self.serve.engine.set_blocked(sending.delivery, is_blocked, self.serve.now_ns());
        }
    }
}
