//! What the sockets of the control plane show of the way to their clients, for what the uplink
//! learns of its rate.

use crate::limits::PATH_EVERY_NS;
use crate::turns::{ControlUplink, Turns};
use reel_play::{FlowMeter, uplink_client};
use reel_ring::{TcpStatus, tcp_status};
use std::net::IpAddr;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;

/// A socket that may show the way to a client.
pub(super) trait ShowsPath {
    /// The state of the connection. `None` if the socket is not that of this client: a proxy
    /// between them ends the way.
    fn path_to(&self, client: IpAddr) -> Option<TcpStatus>;
}

impl ShowsPath for TcpStream {
    fn path_to(&self, client: IpAddr) -> Option<TcpStatus> {
        self.peer_addr().is_ok_and(|peer| peer.ip() == client).then(|| tcp_status(self)).flatten()
    }
}

impl ShowsPath for OwnedWriteHalf {
    fn path_to(&self, client: IpAddr) -> Option<TcpStatus> {
        self.as_ref().path_to(client)
    }
}

/// Looks at one connection while it sends, and when it ends.
#[derive(Default)]
pub(super) struct PathMeter {
    flow: FlowMeter,
    next_ns: u64,
}

impl PathMeter {
    /// Looks, if it is time again.
    pub(super) fn look(&mut self, socket: &impl ShowsPath, turns: &Turns, uplink: &ControlUplink) {
        if uplink.gate.learns() && (uplink.clock)() >= self.next_ns {
            self.look_now(socket, turns, uplink);
        }
    }

    /// The connection ends: what it was sent last counts, too.
    pub(super) fn end(&mut self, socket: &impl ShowsPath, turns: &Turns, uplink: &ControlUplink) {
        if self.next_ns > 0 {
            self.look_now(socket, turns, uplink);
        }
    }

    fn look_now(&mut self, socket: &impl ShowsPath, turns: &Turns, uplink: &ControlUplink) {
        let now_ns = (uplink.clock)();
        self.next_ns = now_ns + PATH_EVERY_NS;
        let client = turns.client();
        let Some(network) = uplink_client(client) else { return };
        let sample = socket.path_to(client).and_then(|status| self.flow.observe(status));
        if let Some(sample) = sample {
            uplink.gate.observe(network, sample, now_ns);
        }
    }
}
