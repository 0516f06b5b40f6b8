//! Sends the bytes of responses that are in memory, and requests those that are missing.

use super::HttpThread;
use crate::connection::{Sending, State};
use crate::request::Request;
use crate::response::Response;
use reel_admit::Session;
use reel_play::{DeliveryPolicy, NewDelivery, PlayableTitle, Readiness};
use reel_ring::Op;
use reel_serve::Serve;
use std::io;
use std::sync::Arc;

impl HttpThread {
    /// Begins to send a response.
    pub(super) fn respond(
        &mut self,
        serve: &mut Serve<'_>,
        token: u64,
        request: Request,
        response: Response,
        (session, policy): (Option<Arc<Session<PlayableTitle>>>, DeliveryPolicy),
    ) {
        self.shared.http.counters.response(response.status);
        let now_ns = serve.now_ns();
        let Some(connection) = self.connections.get_mut(token) else { return };
        let Response { status, body, body_bytes, body_offset, keep_alive } = response;
        let delivery = NewDelivery {
            tag: token,
            session,
            policy,
            preamble_bytes: body.bytes() - body_bytes,
            body,
            file_offset: body_offset,
            in_runs: true,
            path: connection.path(),
        };
        let is_watched = connection.peer.shows_path();
        let delivery = serve.engine.open(delivery, now_ns);
        #[cfg(feature = "faults")]
        crate::faults::panic_if_wanted(&request.path);
        let (blocked, started_ns) = (false, now_ns);
        connection.state = State::Sending(Box::new(Sending {
            delivery,
            blocked,
            keep_alive,
            started_ns,
            status,
            request,
            watched: None,
        }));
        connection.since_ns = now_ns;
        if is_watched {
            self.watch_paths(serve);
        }
        self.pump(serve, token);
    }

    /// Sends what can be sent, or requests what is missing. All media passes through this function.
    pub(super) fn pump(&mut self, serve: &mut Serve<'_>, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if connection.in_ring || !matches!(connection.state, State::Sending(_)) {
            return;
        }
        if let Some(secure) = &mut connection.secure
            && let Some(chunk) = secure.pending.take()
        {
            connection.in_ring = true;
            let socket = Arc::clone(&connection.socket);
            return serve.core.ring.push(token, Op::Send { socket, chunks: vec![chunk] });
        }
        let is_secure = connection.secure.is_some();
        let Some(delivery) = connection.delivery() else { return };
        match serve.engine.fill(delivery, serve.now_ns()) {
            None | Some(Readiness::Waiting) => {}
            Some(Readiness::Done) => self.finish(serve, token),
            Some(Readiness::Ready) if is_secure => self.seal(serve, token),
            Some(Readiness::Ready) => {
                let Some(connection) = self.connections.get_mut(token) else { return };
                let may_lend = self.shared.http.arena.pieces_sending() < self.shared.lent_buffers;
                let chunks = serve.engine.chunks(delivery);
                connection.in_ring = true;
                let op = connection.send(chunks, may_lend, serve.now_ns());
                serve.core.ring.push(token, op);
            }
        }
    }

    pub(super) fn sent(&mut self, serve: &mut Serve<'_>, token: u64, result: io::Result<usize>) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let Some(delivery) = connection.delivery() else { return };
        match result {
            Ok(bytes) => {
                connection.since_ns = serve.now_ns();
                serve.engine.taken(delivery, bytes as u64, serve.now_ns());
                self.watch_reader(serve, token);
                self.wake(serve, token);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                connection.in_ring = true;
                serve.core.ring.push(token, Op::AwaitWritable { socket: Arc::clone(&connection.socket) });
                self.set_blocked(serve, token, true);
            }
            Err(_gone) => self.close(serve, token),
        }
    }

    /// Notes whether a client accepts nothing at the moment.
    pub(super) fn set_blocked(&mut self, serve: &mut Serve<'_>, token: u64, is_blocked: bool) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if let State::Sending(sending) = &mut connection.state {
            sending.blocked = is_blocked;
            serve.engine.set_blocked(sending.delivery, is_blocked, serve.now_ns());
        }
    }
}
