//! How responses, connections and cores end.

use super::connecting::refuse_connection;
use super::{HttpThread, Own, SWEEP, Then, Turn};
use crate::connection::{Connection, Sending, State, TimeOut};
use crate::front_end::Handover;
use crate::limits::{LINGER_BYTES_MAX, SWEEP_EVERY_NS};
use reel_serve::{NoPlace, Serve};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Turn<'_, '_> {
    /// The client has accepted the whole response.
    pub(super) fn finish(&mut self) -> Then {
        let State::Sending(sending) = std::mem::replace(&mut self.connection.state, State::Idle) else {
            return Then::Stays;
        };
        let keep_alive = sending.keep_alive && !self.connection.is_leaving;
        let client = self.connection.peer.client();
        self.own.end_delivery(self.serve, *sending, client, self.serve.now_ns());
        if keep_alive { self.await_request() } else { self.linger() }
    }

    /// Ends a connection that has exceeded a time limit.
    fn end_late(&mut self, now_ns: u64) -> Then {
        let Some(which) = self.connection.timed_out(now_ns) else { return Then::Stays };
        if let Some(why) = self.connection.aside {
            return self.refuse(why);
        }
        // The response is complete. This is a normal close, not a loss.
        if which != TimeOut::Linger {
            self.own.shared.http.counters.timed_out.fetch_add(1, Ordering::Relaxed);
        }
        if which == TimeOut::Head {
            let late = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            self.connection.send_last(late);
        }
        self.connection.cut_off()
    }

    /// Closes the server's side and waits for the client to close its own.
    pub(super) fn linger(&mut self) -> Then {
        self.connection.state = State::Lingering(LINGER_BYTES_MAX);
        self.connection.since_ns = self.serve.now_ns();
        self.connection.input = Vec::new();
        // Most clients have received the closing alert with the last of their response. This call
        // is for those from which the server expected more.
        self.connection.send_last(&[]);
        match rustix::net::shutdown(&self.connection.socket, rustix::net::Shutdown::Write) {
            Ok(()) => self.receive(),
            Err(_gone) => Then::Closes,
        }
    }

    /// Discards what arrived after the last response.
    pub(super) fn lingered(&mut self, bytes: usize) -> Then {
        let State::Lingering(left_bytes) = &mut self.connection.state else { return Then::Stays };
        self.connection.input.clear();
        match left_bytes.checked_sub(bytes) {
            None | Some(0) => Then::Closes,
            Some(left) => {
                *left_bytes = left;
                self.receive()
            }
        }
    }
}

impl Own {
    /// A response has ended, whether it was accepted completely or not.
    fn end_delivery(&self, serve: &mut Serve<'_>, sending: Sending, client: SocketAddr, now_ns: u64) {
        if let Some(watched) = &sending.watched {
            self.end_watching(watched, now_ns);
        }
        let report = serve.engine.close(sending.delivery);
        if let Some(report) = report.filter(|_| self.shared.access_log) {
            sending.into_record(report, client, now_ns).log();
        }
    }
}

impl Connection {
    /// A connection is to be closed whose client accepted nothing for too long. The memory lent for
    /// it is returned at once; otherwise it would wait until the client accepts the rest.
    pub(super) fn cut_off(&self) -> Then {
        // Without chunks, a client could take the end of the connection for that of the stream.
        let has_no_end = self.live().is_some_and(|live| !live.in_chunks);
        if matches!(self.state, State::Sending(_)) && (self.zero_copy.lent_bytes() > 0 || has_no_end) {
            let _ = rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
        }
        Then::Closes
    }
}

impl HttpThread {
    /// Gives the connection, with all that was read from it, to the control plane.
    pub(super) fn hand_over(&mut self, serve: &mut Serve<'_>, token: u64, is_health: bool) {
        let Some(connection) = self.connections.remove(token) else { return };
        serve.core.tasks.remove(connection.task);
        let Ok(socket) = Arc::try_unwrap(connection.socket) else {
            debug_assert!(false, "an operation in the ring still holds the socket");
            return;
        };
        let stream = TcpStream::from(socket);
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let tls = connection.secure.map(|secure| Box::new(secure.tls));
        let peer = connection.peer.address();
        let handover = Handover { stream, tls, already_read: connection.input, peer, is_health };
        let http = &self.own.shared.http;
        match (http.handover)(handover) {
            Ok(()) => http.counters.handed_over.fetch_add(1, Ordering::Relaxed),
            Err(handover) => {
                if handover.tls.is_none() {
                    refuse_connection(handover.stream.into(), NoPlace::Full);
                }
                http.counters.turned_away.fetch_add(1, Ordering::Relaxed)
            }
        };
    }

    pub(super) fn close(&mut self, serve: &mut Serve<'_>, token: u64) {
        let Some(connection) = self.connections.remove(token) else { return };
        serve.core.tasks.remove(connection.task);
        // Ends an operation that is still in the ring. Its completion finds no connection.
        let _ = rustix::net::shutdown(&connection.socket, rustix::net::Shutdown::Both);
        if let Some(secure) = connection.secure {
            self.own.parked_bytes -= secure.parked_bytes;
            if let Some(chunk) = secure.pending {
                self.own.scratch.give(token, chunk);
            }
        }
        if let State::Sending(sending) = connection.state {
            self.own.end_delivery(serve, *sending, connection.peer.client(), reel_rt::now_ns());
        }
    }

    /// Closes connections that exceeded a time limit.
    pub(super) fn sweep(&mut self, serve: &mut Serve<'_>) {
        let now_ns = serve.now_ns();
        for token in self.connections.tokens(|connection| connection.timed_out(now_ns).is_some()) {
            self.step(serve, token, |turn| turn.end_late(now_ns));
        }
        self.drop_left(serve, now_ns);
        self.drop_live(serve);
        self.forget_readers(serve);
        serve.core.at(now_ns + SWEEP_EVERY_NS, SWEEP);
    }

    /// Closes connections whose clients have left while their responses wait for a start, and
    /// releases what was reserved for that start. No operation of such a connection is in the ring,
    /// which would notice it.
    fn drop_left(&mut self, serve: &mut Serve<'_>, now_ns: u64) {
        let sends = |connection: &Connection| !connection.in_ring && connection.delivery().is_some();
        for token in self.connections.tokens(sends) {
            let Some(connection) = self.connections.get(token) else { continue };
            let State::Sending(sending) = &connection.state else { continue };
            let asked_ns = sending.started_ns;
            let Some(session) = serve.engine.awaits_start_of(sending.delivery, now_ns) else { continue };
            if connection.has_left() {
                self.close(serve, token);
                serve.parts().sessions.left(&session, asked_ns, now_ns);
            }
        }
    }

    /// Closes a connection for another one, now or after its response.
    pub(super) fn leave(&mut self, serve: &mut Serve<'_>, token: u64) {
        self.step(serve, token, |turn| {
            turn.connection.is_leaving = true;
            match turn.connection.aside {
                Some(why) => turn.refuse(why),
                None if turn.connection.is_quiet() => {
                    turn.own.shared.http.counters.made_room.fetch_add(1, Ordering::Relaxed);
                    Then::Closes
                }
                None => Then::Stays,
            }
        });
    }

    /// Closes the connections that have no request.
    pub(super) fn close_idle(&mut self, serve: &mut Serve<'_>) {
        for token in self.connections.tokens(Connection::is_quiet) {
            self.close(serve, token);
        }
    }
}
