//! Questions to the port mapper by UDP. There is nothing to wait for: each is answered at once, or
//! not at all.

use super::NfsThread;
use crate::answer::{Asking, answer_datagram};
use crate::limits::{DATAGRAMS_PER_TURN_MAX, REQUEST_BYTES_MAX};
use crate::portmap::{Told, address_towards};
use reel_ring::Op;
use reel_rt::Core;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The socket of the port mapper.
pub(crate) struct Datagrams {
    socket: UdpSocket,
    /// The same, for the ring.
    awaited: Arc<OwnedFd>,
    port: u16,
}

/// The token of the operation that waits for datagrams. No connection has it.
pub(super) const DATAGRAMS: u64 = u64::MAX >> 1;

impl Datagrams {
    /// A socket that does not wait.
    ///
    /// # Errors
    /// The system gives no further descriptor.
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let port = socket.local_addr()?.port();
        Ok(Self { awaited: Arc::new(socket.try_clone()?.into()), socket, port })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn wait(&self, core: &mut Core) {
        core.ring.push(DATAGRAMS, Op::AwaitReadable { socket: Arc::clone(&self.awaited) });
    }

    /// Answers what has arrived. Returns how many questions were answered.
    fn answer(&self, asking: impl Fn(SocketAddr) -> Option<Asking>) -> u64 {
        let (mut answered, mut question) = (0, [0; REQUEST_BYTES_MAX]);
        for _ in 0..DATAGRAMS_PER_TURN_MAX {
            let (bytes, client) = match self.socket.recv_from(&mut question) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // What an earlier answer has met on its way.
                Err(_) => continue,
            };
            let answer = asking(client).and_then(|asking| answer_datagram(asking, &question[..bytes]));
            // If the socket takes nothing now, the client asks again.
            let is_sent = answer.is_some_and(|answer| self.socket.send_to(&answer, client).is_ok());
            answered += u64::from(is_sent);
        }
        answered
    }
}

impl NfsThread {
    /// Datagrams have arrived for the port mapper. Others than clients that may read get no answer:
    /// a sender can claim any address.
    pub(super) fn answer_datagrams(&mut self, core: &mut Core) {
        let shared = &self.shared;
        let Some(datagrams) = &shared.datagrams else { return };
        let asking = |client: SocketAddr| {
            let is_allowed = shared.is_allowed(client.ip());
            let server = if is_allowed { address_towards(client)? } else { return None };
            Some(Asking { is_allowed, told: shared.told(server) })
        };
        shared.counters.calls.fetch_add(datagrams.answer(asking), Ordering::Relaxed);
        datagrams.wait(core);
    }
}

impl super::NfsShared {
    /// What the port mapper tells clients that ask by this address of the server.
    pub(super) fn told(&self, server: std::net::IpAddr) -> Told {
        Told { port: self.port, mapper_port: self.datagrams.as_ref().map(Datagrams::port), server }
    }
}
