//! Connections begin, or are refused.

use super::{HttpThread, Then, Turn};
use crate::connection::{Connection, State};
use crate::front_end::Transport;
use crate::limits::RECEIVE_BYTES;
use crate::peer::Peer;
use crate::secure::Secure;
use reel_ring::Op;
use reel_rt::TaskKind;
use reel_serve::{Accepted, NoPlace, Serve};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl HttpThread {
    /// Holds a connection aside for which there is no place, until its request is known: that may
    /// be for health. If too many are held, one that is silent is refused for it.
    pub(super) fn hold_aside(
        &mut self,
        serve: &mut Serve<'_>,
        socket: OwnedFd,
        listener: usize,
        why: NoPlace,
    ) {
        let client = peer_of(&socket).map(|address| address.ip());
        if let Ok((counted, leaving)) = self.aside.place_or_make_room(client) {
            if let Some(leaving) = leaving {
                self.leave(serve, leaving.token);
            }
            return self.connect(serve, Accepted { socket, listener, counted }, Some(why));
        }
        self.own.shared.http.counters.turned_away.fetch_add(1, Ordering::Relaxed);
        // A TLS client would not understand this answer.
        if self.own.shared.transports.get(listener) == Some(&Transport::Plain) {
            refuse_connection(socket, why);
        }
    }

    /// Begins with a connection. One that is not kept is no longer counted. `aside`: why there is
    /// no place for it.
    pub(super) fn connect(&mut self, serve: &mut Serve<'_>, accepted: Accepted, aside: Option<NoPlace>) {
        let Accepted { socket, listener, counted } = accepted;
        let Some(address) = peer_of(&socket) else { return };
        let shared = Arc::clone(&self.own.shared);
        let Some(transport) = shared.transports.get(listener) else { return };
        // The last bytes of a response must not wait for the client's acknowledgement. A socket
        // that is already dead reports that later.
        let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        let tls = match transport {
            Transport::Plain => None,
            Transport::Tls => match shared.tls_acceptor.as_ref().map(reel_tls::Connection::new) {
                Some(Ok(tls)) => Some(tls),
                _ => return,
            },
        };
        // Connections are counted before they are given to a thread, so that a core never gets more
        // than it can have tasks.
        let Some(task) = serve.core.tasks.add(TaskKind::Interactive, 0) else { return };
        let peer = Peer::new(address, &shared.http.proxies);
        let zero_copy = serve.core.ring.sends_zero_copy();
        let mut connection = Connection::new(socket, counted, peer, task, zero_copy, serve.now_ns());
        connection.aside = aside;
        let Some(tls) = tls else {
            let token = self.keep(connection);
            return self.step(serve, token, |turn| turn.await_request());
        };
        let Ok((handshake, leaving)) = self.handshakes.place_or_make_room(Some(address.ip())) else {
            serve.core.tasks.remove(task);
            shared.http.counters.turned_away.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if let Some(leaving) = leaving {
            self.leave(serve, leaving.token);
        }
        connection.handshake = Some(handshake);
        connection.secure = Some(Box::new(Secure::new(tls)));
        connection.state = State::ShakingHands;
        let token = self.keep(connection);
        self.step(serve, token, |turn| {
            turn.connection.quiet();
            if let Some(handshake) = &turn.connection.handshake {
                handshake.quiet(token, turn.connection.since_ns);
            }
            // No memory is held for a client that sends nothing.
            turn.push(|socket| Op::AwaitReadable { socket })
        });
    }

    /// Gives a connection its token.
    fn keep(&mut self, mut connection: Connection) -> u64 {
        let task = connection.task;
        let token = self.connections.insert_with(|token| {
            connection.token = token;
            connection
        });
        self.set_token(task, token);
        token
    }
}

impl Turn<'_, '_> {
    /// Answers a connection that was held aside why there is no place.
    pub(super) fn refuse(&mut self, why: NoPlace) -> Then {
        self.own.shared.http.counters.turned_away.fetch_add(1, Ordering::Relaxed);
        // Before the end of its handshake, a TLS client would not understand the answer.
        if !matches!(self.connection.state, State::ShakingHands) {
            self.connection.send_last(refusal(why).as_bytes());
            discard_received(&self.connection.socket);
        }
        Then::Closes
    }
}

/// Answers why there is no place, as far as the socket accepts it at once.
pub(super) fn refuse_connection(socket: OwnedFd, why: NoPlace) {
    let _ = rustix::net::send(&socket, refusal(why).as_bytes(), rustix::net::SendFlags::DONTWAIT);
    discard_received(&socket);
}

fn refusal(why: NoPlace) -> String {
    let (status, words) = match why {
        NoPlace::Full => ("503 Service Unavailable", "too many connections are open".to_owned()),
        NoPlace::Share { held } => (
            "429 Too Many Requests",
            format!(
                "this client has {held} connections, which is its share; close one, or try again later. A reverse proxy should be named in `proxies` or `gateways`"
            ),
        ),
    };
    format!(
        "HTTP/1.1 {status}\r\nRetry-After: 5\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{words}\n",
        words.len() + 1
    )
}

/// An unread request would turn the close into a reset, which may overtake the answer.
fn discard_received(socket: &OwnedFd) {
    let mut request = [0; RECEIVE_BYTES];
    let _ = rustix::net::recv(socket, &mut request, rustix::net::RecvFlags::DONTWAIT);
}

fn peer_of(socket: &OwnedFd) -> Option<SocketAddr> {
    SocketAddr::try_from(rustix::net::getpeername(socket).ok()??).ok()
}
