//! How responses, connections and cores end.

use super::connecting::refuse_connection;
use super::{HttpThread, SWEEP};
use crate::connection::{Connection, Sending, State, TimeOut};
use crate::front_end::Handover;
use crate::limits::{LINGER_BYTES_MAX, SWEEP_EVERY_NS};
use reel_serve::{NoPlace, Serve};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl HttpThread {
    /// The client has accepted the whole response.
    pub(super) fn finish(&mut self, serve: &mut Serve<'_>, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let State::Sending(sending) = std::mem::replace(&mut connection.state, State::Idle) else { return };
        let keep_alive = sending.keep_alive && !connection.is_leaving;
        let client = connection.peer.client();
        self.end_delivery(serve, *sending, client, serve.now_ns());
        if keep_alive { self.await_request(serve, token) } else { self.linger(serve, token) }
    }

    /// Closes the server's side and waits for the client to close its own.
    pub(super) fn linger(&mut self, serve: &mut Serve<'_>, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.state = State::Lingering(LINGER_BYTES_MAX);
        connection.since_ns = serve.now_ns();
        connection.input = Vec::new();
        // Most clients have received the closing alert with the last of their response. This call
        // is for those from which the server expected more.
        connection.send_last(&[]);
        match rustix::net::shutdown(&connection.socket, rustix::net::Shutdown::Write) {
            Ok(()) => self.receive(serve, token),
            Err(_gone) => self.close(serve, token),
        }
    }

    /// Discards what arrived after the last response.
    pub(super) fn lingered(&mut self, serve: &mut Serve<'_>, token: u64, bytes: usize) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let State::Lingering(left_bytes) = &mut connection.state else { return };
        connection.input.clear();
        match left_bytes.checked_sub(bytes) {
            None | Some(0) => self.close(serve, token),
            Some(left) => {
                *left_bytes = left;
                self.receive(serve, token);
            }
        }
    }

    /// Gives the connection, with all that was read from it, to the control plane.
    pub(super) fn hand_over(&mut self, serve: &mut Serve<'_>, token: u64) {
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
        let handover = Handover { stream, tls, already_read: connection.input, peer };
        match (self.shared.http.handover)(handover) {
            Ok(()) => self.shared.http.counters.handed_over.fetch_add(1, Ordering::Relaxed),
            Err(handover) => {
                if handover.tls.is_none() {
                    refuse_connection(handover.stream.into(), NoPlace::Full);
                }
                self.shared.http.counters.turned_away.fetch_add(1, Ordering::Relaxed)
            }
        };
    }

    /// Closes the connection of a client that accepted nothing for too long. The memory lent for it
    /// is returned at once; otherwise it would wait until the client accepts the rest.
    pub(super) fn cut_off(&mut self, serve: &mut Serve<'_>, token: u64) {
        if let Some(connection) = self.connections.get_mut(token)
            && matches!(connection.state, State::Sending(_))
            && connection.zero_copy.lent_bytes() > 0
        {
            let _ = rustix::net::sockopt::set_socket_linger(&connection.socket, Some(Duration::ZERO));
        }
        self.close(serve, token);
    }

    pub(super) fn close(&mut self, serve: &mut Serve<'_>, token: u64) {
        let Some(connection) = self.connections.remove(token) else { return };
        serve.core.tasks.remove(connection.task);
        // Ends an operation that is still in the ring. Its completion finds no connection.
        let _ = rustix::net::shutdown(&connection.socket, rustix::net::Shutdown::Both);
        if let Some(secure) = connection.secure {
            self.parked_bytes -= secure.parked_bytes;
            if let Some(chunk) = secure.pending {
                self.scratch.give(token, chunk);
            }
        }
        if let State::Sending(sending) = connection.state {
            self.end_delivery(serve, *sending, connection.peer.client(), reel_rt::now_ns());
        }
    }

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

    /// Closes connections that exceeded a time limit.
    pub(super) fn sweep(&mut self, serve: &mut Serve<'_>) {
        let now_ns = serve.now_ns();
        for token in self.connections.tokens(|connection| connection.timed_out(now_ns).is_some()) {
            let Some(connection) = self.connections.get_mut(token) else { continue };
            let Some(which) = connection.timed_out(now_ns) else { continue };
            if let Some(why) = connection.aside {
                self.refuse(serve, token, why);
                continue;
            }
            // The response is complete. This is a normal close, not a loss.
            if which != TimeOut::Linger {
                self.shared.http.counters.timed_out.fetch_add(1, Ordering::Relaxed);
            }
            if which == TimeOut::Head {
                let late = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                connection.send_last(late);
            }
            self.cut_off(serve, token);
        }
        self.drop_left(serve, now_ns);
        self.forget_readers(serve);
        serve.core.at(now_ns + SWEEP_EVERY_NS, SWEEP);
    }

    /// Closes connections whose clients have left while their responses wait for a start, and
    /// releases what was reserved for that start. No operation of such a connection is in the ring,
    /// which would notice it.
    fn drop_left(&mut self, serve: &mut Serve<'_>, now_ns: u64) {
        let sends = |connection: &Connection| !connection.in_ring && connection.delivery().is_some();
        for token in self.connections.tokens(sends) {
            let Some(connection) = self.connections.get_mut(token) else { continue };
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
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.is_leaving = true;
        if let Some(why) = connection.aside {
            return self.refuse(serve, token, why);
        }
        if connection.is_quiet() {
            self.shared.http.counters.made_room.fetch_add(1, Ordering::Relaxed);
            self.close(serve, token);
        }
    }

    /// Closes the connections that have no request.
    pub(super) fn close_idle(&mut self, serve: &mut Serve<'_>) {
        for token in self.connections.tokens(Connection::is_quiet) {
            self.close(serve, token);
        }
    }
}
