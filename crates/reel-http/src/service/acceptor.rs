//! Accepts connections and distributes them among the cores.

use super::{ACCEPT, ACCEPT_AGAIN, ACCEPT_TLS, ACCEPT_TLS_AGAIN, Data};
use crate::connection::{Connection, State};
use crate::front_end::{Message, Transport};
use crate::limits::{ACCEPT_RETRY_NS, RECEIVE_BYTES};
use crate::secure::Secure;
use reel_ring::{Done, Op};
use reel_rt::{Core, TaskKind};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Data {
    /// Starts to accept on all listening sockets.
    pub(super) fn accept_all(&self, core: &mut Core) {
        for transport in [Transport::Plain, Transport::Tls] {
            self.accept(core, transport);
        }
    }

    pub(super) fn accept(&self, core: &mut Core, transport: Transport) {
        if let (Some(acceptor), None) = (&self.acceptor, self.draining_since_ns)
            && let Some((listener, _)) = acceptor.listeners.iter().find(|(_, of)| *of == transport)
        {
            let token = if transport == Transport::Tls { ACCEPT_TLS } else { ACCEPT };
            core.ring.push(token, Op::Accept { listener: Arc::clone(listener) });
        }
    }

    pub(super) fn accepted(&mut self, core: &mut Core, done: Done, transport: Transport) {
        let socket = match (done.result, done.accepted) {
            (Ok(_), Some(socket)) => socket,
            (Err(error), _) if error.raw_os_error() == Some(rustix::io::Errno::CANCELED.raw_os_error()) => {
                return;
            }
            // The client closed its connection before it was accepted. That is no reason to delay
            // other clients.
            (Err(error), _) if error.kind() == io::ErrorKind::ConnectionAborted => {
                return self.accept(core, transport);
            }
            (Err(error), _) => {
                // Probably no descriptors are free. Open connections continue, and new ones wait in
                // the backlog.
                tracing::warn!(%error, "cannot accept a connection; trying again shortly (raise LimitNOFILE if this repeats)");
                let again = if transport == Transport::Tls { ACCEPT_TLS_AGAIN } else { ACCEPT_AGAIN };
                core.at(core.now_ns() + ACCEPT_RETRY_NS, again);
                return;
            }
            (Ok(_), None) => return self.accept(core, transport),
        };
        let counters = &self.shared.server.counters;
        counters.accepted.fetch_add(1, Ordering::Relaxed);
        if counters.open_total() >= self.shared.connections_max {
            counters.turned_away.fetch_add(1, Ordering::Relaxed);
            // A TLS client would not understand this answer.
            if transport == Transport::Plain {
                refuse_connection(socket);
            }
        } else if let Some(peer) = peer_of(&socket)
            && let Some(acceptor) = &self.acceptor
        {
            let open = |core: &usize| counters.open[*core].load(Ordering::Relaxed);
            let least = (0..acceptor.cores.len()).min_by_key(open).unwrap_or(self.core);
            counters.open[least].fetch_add(1, Ordering::Relaxed);
            acceptor.cores[least].post(Message::Connection(socket, peer, transport));
        }
        self.accept(core, transport);
    }

    pub(super) fn connected(
        &mut self,
        core: &mut Core,
        socket: OwnedFd,
        peer: SocketAddr,
        transport: Transport,
    ) {
        // The last bytes of a response must not wait for the client's acknowledgement. A socket
        // that is already dead reports that later.
        let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        let tls = match transport {
            Transport::Plain => None,
            Transport::Tls => match self.shared.tls_acceptor.as_ref().map(reel_tls::Connection::new) {
                Some(Ok(tls)) => Some(tls),
                _ => return self.uncount(),
            },
        };
        // The accepting thread counts connections, so that a core never gets more than it can have
        // tasks.
        let Some(task) = core.tasks.add(TaskKind::Interactive, 0) else { return self.uncount() };
        let zero_copy = core.ring.sends_zero_copy();
        let mut connection = Connection::new(socket, peer, task, zero_copy, core.now_ns());
        let Some(tls) = tls else {
            let token = self.connections.insert(connection);
            self.set_token(task, token);
            return self.await_request(core, token);
        };
        connection.secure = Some(Box::new(Secure::new(tls)));
        connection.state = State::ShakingHands;
        // No memory is held for a client that sends nothing.
        connection.in_ring = true;
        let socket = Arc::clone(&connection.socket);
        let token = self.connections.insert(connection);
        self.set_token(task, token);
        core.ring.push(token, Op::AwaitReadable { socket });
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
