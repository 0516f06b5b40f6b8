//! Connections come in, and are dealt out to the cores.

use super::{ACCEPT, ACCEPT_AGAIN, ACCEPT_TLS, ACCEPT_TLS_AGAIN, Data};
use crate::connection::{Connection, State};
use crate::front_end::{Message, Speaks};
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
    /// Opens all doors.
    pub(super) fn accept_all(&self, core: &mut Core) {
        for speaks in [Speaks::Plain, Speaks::Tls] {
            self.accept(core, speaks);
        }
    }

    pub(super) fn accept(&self, core: &mut Core, speaks: Speaks) {
        if let (Some(door), None) = (&self.door, self.draining_since_ns)
            && let Some((listener, _)) = door.listeners.iter().find(|(_, of)| *of == speaks)
        {
            let token = if speaks == Speaks::Tls { ACCEPT_TLS } else { ACCEPT };
            core.ring.push(token, Op::Accept { listener: Arc::clone(listener) });
        }
    }

    pub(super) fn accepted(&mut self, core: &mut Core, done: Done, speaks: Speaks) {
        let socket = match (done.result, done.accepted) {
            (Ok(_), Some(socket)) => socket,
            (Err(error), _) if error.raw_os_error() == Some(rustix::io::Errno::CANCELED.raw_os_error()) => {
                return;
            }
            // The client was gone before we came: no reason to keep others waiting.
            (Err(error), _) if error.kind() == io::ErrorKind::ConnectionAborted => {
                return self.accept(core, speaks);
            }
            (Err(error), _) => {
                // Out of descriptors, most likely: those who are connected go on, the others wait
                // in the backlog.
                tracing::warn!(%error, "cannot accept a connection; trying again shortly (raise LimitNOFILE if this repeats)");
                let again = if speaks == Speaks::Tls { ACCEPT_TLS_AGAIN } else { ACCEPT_AGAIN };
                core.at(core.now_ns() + ACCEPT_RETRY_NS, again);
                return;
            }
            (Ok(_), None) => return self.accept(core, speaks),
        };
        let counters = &self.shared.server.counters;
        counters.accepted.fetch_add(1, Ordering::Relaxed);
        if counters.open_total() >= self.shared.connections_max {
            counters.turned_away.fetch_add(1, Ordering::Relaxed);
            // Who speaks TLS would not understand.
            if speaks == Speaks::Plain {
                turn_away(socket);
            }
        } else if let Some(peer) = peer_of(&socket)
            && let Some(door) = &self.door
        {
            let open = |core: &usize| counters.open[*core].load(Ordering::Relaxed);
            let least = (0..door.cores.len()).min_by_key(open).unwrap_or(self.core);
            counters.open[least].fetch_add(1, Ordering::Relaxed);
            door.cores[least].post(Message::Connection(socket, peer, speaks));
        }
        self.accept(core, speaks);
    }

    pub(super) fn connected(&mut self, core: &mut Core, socket: OwnedFd, peer: SocketAddr, speaks: Speaks) {
        // A response's last bytes must not wait for the client's acknowledgement. A socket that is
        // already dead says so later.
        let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        let tls = match speaks {
            Speaks::Plain => None,
            Speaks::Tls => match self.shared.acceptor.as_ref().map(reel_tls::Connection::new) {
                Some(Ok(tls)) => Some(tls),
                _ => return self.left(),
            },
        };
        // More connections than a core may have tasks: the door counts them before.
        let Some(task) = core.tasks.add(TaskKind::Interactive, 0) else { return self.left() };
        let zero_copy = core.ring.sends_zero_copy();
        let mut connection = Connection::new(socket, peer, task, zero_copy, core.now_ns());
        let Some(tls) = tls else {
            let token = self.connections.insert(connection);
            self.owns(task, token);
            return self.await_request(core, token);
        };
        connection.secure = Some(Box::new(Secure::new(tls)));
        connection.state = State::ShakingHands;
        // No memory is held for a client that says nothing.
        connection.in_ring = true;
        let socket = Arc::clone(&connection.socket);
        let token = self.connections.insert(connection);
        self.owns(task, token);
        core.ring.push(token, Op::AwaitReadable { socket });
    }
}

/// Tells a client that the server is full, as far as its socket takes it at once.
pub(super) fn turn_away(socket: OwnedFd) {
    let full = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let _ = rustix::net::send(&socket, full, rustix::net::SendFlags::DONTWAIT);
    // A request that is here already would turn the close into a reset, which may overtake the
    // answer.
    let mut request = [0; RECEIVE_BYTES];
    let _ = rustix::net::recv(&socket, &mut request, rustix::net::RecvFlags::DONTWAIT);
}

fn peer_of(socket: &OwnedFd) -> Option<SocketAddr> {
    SocketAddr::try_from(rustix::net::getpeername(socket).ok()??).ok()
}
