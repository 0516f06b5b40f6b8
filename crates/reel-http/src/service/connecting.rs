//! Connections begin, or are refused.

use super::HttpThread;
use crate::connection::{Connection, State};
use crate::front_end::Transport;
use crate::limits::RECEIVE_BYTES;
use crate::secure::Secure;
use reel_ring::Op;
use reel_rt::TaskKind;
use reel_serve::{Accepted, Serve};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

impl HttpThread {
    /// Begins with a connection. One that is not kept is no longer counted.
    pub(super) fn connect(&mut self, serve: &mut Serve<'_>, accepted: Accepted) {
        let Accepted { socket, listener, counted } = accepted;
        let Some(peer) = peer_of(&socket) else { return };
        let Some(transport) = self.shared.transports.get(listener) else { return };
        // The last bytes of a response must not wait for the client's acknowledgement. A socket
        // that is already dead reports that later.
        let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        let tls = match transport {
            Transport::Plain => None,
            Transport::Tls => match self.shared.tls_acceptor.as_ref().map(reel_tls::Connection::new) {
                Some(Ok(tls)) => Some(tls),
                _ => return,
            },
        };
        // Connections are counted before they are given to a thread, so that a core never gets more
        // than it can have tasks.
        let Some(task) = serve.core.tasks.add(TaskKind::Interactive, 0) else { return };
        let zero_copy = serve.core.ring.sends_zero_copy();
        let mut connection = Connection::new(socket, counted, peer, task, zero_copy, serve.now_ns());
        let Some(tls) = tls else {
            let token = self.connections.insert(connection);
            self.set_token(task, token);
            return self.await_request(serve, token);
        };
        connection.secure = Some(Box::new(Secure::new(tls)));
        connection.state = State::ShakingHands;
        // No memory is held for a client that sends nothing.
        connection.in_ring = true;
        let socket = Arc::clone(&connection.socket);
        let token = self.connections.insert(connection);
        self.set_token(task, token);
        serve.core.ring.push(token, Op::AwaitReadable { socket });
    }
}

/// Answers that the server is at capacity, as far as the socket accepts it at once.
pub(super) fn refuse_connection(socket: OwnedFd) {
    let full = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let _ = rustix::net::send(&socket, full, rustix::net::SendFlags::DONTWAIT);
    // An unread request would turn the close into a reset, which may overtake the answer.
    let mut request = [0; RECEIVE_BYTES];
    let _ = rustix::net::recv(&socket, &mut request, rustix::net::RecvFlags::DONTWAIT);
}

fn peer_of(socket: &OwnedFd) -> Option<SocketAddr> {
    SocketAddr::try_from(rustix::net::getpeername(socket).ok()??).ok()
}
