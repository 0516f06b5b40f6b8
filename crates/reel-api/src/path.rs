//! What the sockets of the control plane show of the way to their clients, for what the uplink
//! learns of its rate.

use crate::limits::{PATH_BYTES_MIN, PATH_EVERY_NS};
use crate::turns::{ControlUplink, Turns};
use reel_play::{FlowMeter, FlowSample, SendTerms, uplink_client};
use reel_ring::{TcpStatus, tcp_status};
use std::net::IpAddr;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;

/// A socket that may show the way to a client.
pub(super) trait ShowsPath {
    /// Its other end, as long as it is connected.
    fn peer(&self) -> Option<IpAddr>;

    /// The state of the connection, also after its end.
    fn status(&self) -> Option<TcpStatus>;
}

impl ShowsPath for TcpStream {
    fn peer(&self) -> Option<IpAddr> {
        self.peer_addr().ok().map(|peer| peer.ip())
    }

    fn status(&self) -> Option<TcpStatus> {
        tcp_status(self)
    }
}

impl ShowsPath for OwnedWriteHalf {
    fn peer(&self) -> Option<IpAddr> {
        self.as_ref().peer()
    }

    fn status(&self) -> Option<TcpStatus> {
        self.as_ref().status()
    }
}

/// Looks at one connection while it sends, and when it ends.
#[derive(Default)]
pub(super) struct PathMeter {
    flow: FlowMeter,
    /// The other end of the socket, which the kernel forgets when the client leaves.
    peer: Option<IpAddr>,
    next_ns: u64,
    /// What the client had acknowledged when the way was shown last.
    shown_bytes: Option<u64>,
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
        if self.shown_bytes.is_some() {
            self.look_now(socket, turns, uplink);
        }
    }

    fn look_now(&mut self, socket: &impl ShowsPath, turns: &Turns, uplink: &ControlUplink) {
        let (now_ns, client) = ((uplink.clock)(), turns.client());
        self.next_ns = now_ns + PATH_EVERY_NS;
        self.peer = self.peer.or_else(|| socket.peer());
        // A proxy between server and client ends the way that the socket shows.
        let Some(network) = uplink_client(client).filter(|_| self.peer == Some(client)) else { return };
        if let Some(sample) = socket.status().and_then(|status| self.take(status)) {
            uplink.gate.observe(&SendTerms::interactive(network), sample, now_ns);
        }
    }

    /// What is shown of this state; nothing of the first one, and nothing of a few bytes.
    fn take(&mut self, status: TcpStatus) -> Option<FlowSample> {
        let bytes = status.acknowledged_bytes;
        let is_little = |shown: u64| bytes.saturating_sub(shown) < PATH_BYTES_MIN;
        if self.shown_bytes.is_some_and(is_little) {
            return None;
        }
        self.shown_bytes = Some(bytes);
        self.flow.observe(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// As after a response: both sides are closed, the client's last.
    #[tokio::test]
    async fn a_connection_that_has_ended_tells_what_its_client_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let mut client =
            TcpStream::connect(listener.local_addr().expect("its address")).await.expect("a client");
        let (mut server, _) = listener.accept().await.expect("accepted");
        server.write_all(&[1; 50_000]).await.expect("sent");
        server.shutdown().await.expect("closed");
        client.read_to_end(&mut Vec::new()).await.expect("all of it");
        drop(client);
        assert_eq!(server.read(&mut [0]).await.expect("the end"), 0);
        let acknowledged = server.status().expect("a connection of TCP").acknowledged_bytes;
        assert!((50_000..=50_002).contains(&acknowledged), "{acknowledged}");
    }

    #[test]
    fn a_client_that_is_sent_little_shows_nothing_until_it_is_enough() {
        let mut meter = PathMeter::default();
        let mut at = |acknowledged_bytes| {
            meter.take(TcpStatus { acknowledged_bytes, ..TcpStatus::default() }).is_some()
        };
        assert!(!at(5_000), "there is nothing to compare it with");
        assert!(!at(5_000) && !at(5_000 + PATH_BYTES_MIN - 1));
        assert!(at(5_000 + PATH_BYTES_MIN), "what was not shown counts");
        assert!(!at(6_000 + PATH_BYTES_MIN) && at(5_000 + 2 * PATH_BYTES_MIN));
    }
}
