//! Who is at the other end of a connection, and behind it. Pure.

use reel_admit::Client;
use reel_play::uplink_client;
use reel_serve::{ForwardedFor, LocalSocket, Proxies, ProxyHeader, client_of};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

/// The other end of a connection, and the client of its present request.
#[derive(Debug)]
pub(crate) struct Peer {
    socket: SocketAddr,
    /// The other end, or the client that a proxy has named in front of the connection.
    address: SocketAddr,
    /// The client of the present request. A proxy may send requests of several clients.
    client: IpAddr,
    /// Whose turn on the uplink responses take; `None` if they use no link.
    uplink_client: Option<IpAddr>,
    /// In whose name the present request asks.
    asker: Client,
    /// Whether the first bytes may be a header of the PROXY protocol.
    awaits_header: bool,
}

/// What was done about the header in front of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Headed {
    /// There is none, or it is taken off.
    Done,
    /// More bytes are needed.
    Partial,
    /// It is not valid.
    Bad,
}

impl Peer {
    /// The other end of a socket.
    pub(crate) fn new(socket: SocketAddr, proxies: &Proxies) -> Peer {
        // A client of version 4 at a socket for both is shown as one of version 4.
        let client = socket.ip().to_canonical();
        let socket = SocketAddr::new(client, socket.port());
        let uplink_client = proxies.uplink_client(client);
        Peer {
            socket,
            address: socket,
            client,
            uplink_client,
            asker: client.into(),
            awaits_header: proxies.has(client),
        }
    }

    /// Whether the next bytes may be a header of the PROXY protocol.
    pub(crate) fn awaits_header(&self) -> bool {
        self.awaits_header
    }

    /// Takes the header of a proxy off the first bytes of the connection.
    pub(crate) fn take_header(&mut self, input: &mut Vec<u8>) -> Headed {
        if !self.awaits_header {
            return Headed::Done;
        }
        match ProxyHeader::read(input) {
            ProxyHeader::Partial => return Headed::Partial,
            ProxyHeader::Bad => return Headed::Bad,
            ProxyHeader::Absent => {}
            ProxyHeader::Present { client, bytes } => {
                input.drain(..bytes);
                let client = client.unwrap_or(self.address);
                self.address = SocketAddr::new(client.ip().to_canonical(), client.port());
                self.client = self.address.ip();
            }
        }
        self.awaits_header = false;
        Headed::Done
    }

    /// A request begins, which says this of who is behind the connection.
    pub(crate) fn begin_request(&mut self, proxies: &Proxies, said: ForwardedFor<'_>) {
        self.client = proxies.client(self.address.ip(), said);
        self.uplink_client = proxies.uplink_client(self.client);
        self.asker = self.client.into();
    }

    /// The request names a user of this machine. `socket` is that of the connection.
    pub(crate) fn name_user(&mut self, named: &str, socket: impl AsFd) {
        let is_own = self.client == self.socket.ip() && self.address == self.socket;
        let socket = is_own.then(|| LocalSocket::of(socket)).flatten();
        self.asker = client_of(self.client, Some(named), socket);
    }

    /// The client of the connection, for the control plane.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The client of the present request. Its port is that of the connection.
    pub(crate) fn client(&self) -> SocketAddr {
        SocketAddr::new(self.client, self.address.port())
    }

    /// In whose name the present request asks: its client, or a user of this machine.
    pub(crate) fn asker(&self) -> Client {
        self.asker
    }

    /// Whose turn on the uplink responses take; `None` if they use no link.
    pub(crate) fn uplink_client(&self) -> Option<IpAddr> {
        self.uplink_client
    }

    /// Whether the socket shows the whole path to the client. A proxy between them ends it.
    pub(crate) fn shows_path(&self) -> bool {
        uplink_client(self.client).is_some() && self.client == self.socket.ip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &[u8] = b"PROXY TCP4 192.0.2.7 192.0.2.1 40000 443\r\n";

    fn named(client: &str) -> ForwardedFor<'_> {
        ForwardedFor { x_forwarded_for: Some(client), forwarded: None }
    }

    fn peer(address: &str) -> (Peer, Proxies) {
        let proxies = Proxies::new(vec!["127.0.0.1".parse().expect("a range")]);
        (Peer::new(address.parse().expect("an address"), &proxies), proxies)
    }

    #[test]
    fn a_proxy_names_the_client_of_the_connection_and_of_each_request() {
        let (mut peer, proxies) = peer("127.0.0.1:9");
        assert!(peer.uplink_client().is_none() && !peer.shows_path());
        let mut input = HEADER[..20].to_vec();
        assert_eq!(peer.take_header(&mut input), Headed::Partial);
        input.extend(&HEADER[20..]);
        input.extend(b"GET /");
        assert_eq!((peer.take_header(&mut input), &input[..]), (Headed::Done, &b"GET /"[..]));
        assert_eq!(peer.address(), "192.0.2.7:40000".parse().expect("an address"));
        peer.begin_request(&proxies, named("203.0.113.9"));
        assert_eq!(peer.client(), peer.address(), "that client is no proxy");
        assert!(peer.uplink_client().is_some() && !peer.shows_path());
        let mut again = HEADER.to_vec();
        assert_eq!((peer.take_header(&mut again), again.len()), (Headed::Done, HEADER.len()), "only once");
    }

    #[test]
    fn requests_of_one_connection_have_clients_of_their_own() {
        let (mut peer, proxies) = peer("127.0.0.1:9");
        assert_eq!(peer.take_header(&mut b"GET / HTTP/1.1".to_vec()), Headed::Done);
        for client in ["192.0.2.7", "2001:db8::1"] {
            peer.begin_request(&proxies, named(client));
            assert_eq!(peer.client().ip(), client.parse::<IpAddr>().expect("an address"));
        }
        peer.begin_request(&proxies, ForwardedFor::default());
        assert_eq!(peer.client(), peer.address());
    }

    #[test]
    fn a_client_that_is_no_proxy_is_itself() {
        let (mut peer, proxies) = peer("192.0.2.9:9");
        let mut input = HEADER.to_vec();
        assert_eq!((peer.take_header(&mut input), input.len()), (Headed::Done, HEADER.len()));
        peer.begin_request(&proxies, named("192.0.2.7"));
        assert_eq!(peer.client(), peer.address());
        assert!(peer.uplink_client().is_some() && peer.shows_path());
    }

    #[test]
    fn what_a_gateway_on_this_machine_is_sent_uses_the_link_and_shows_no_path() {
        let proxies = Proxies::default().with_gateways(vec!["127.0.0.1".parse().expect("a range")]);
        let socket: SocketAddr = "127.0.0.1:9".parse().expect("an address");
        let mut peer = Peer::new(socket, &proxies);
        peer.begin_request(&proxies, ForwardedFor::default());
        assert_eq!((peer.uplink_client(), peer.shows_path()), (Some(socket.ip()), false));
        peer.begin_request(&proxies, named("192.0.2.7"));
        assert_eq!(peer.uplink_client(), Some("192.0.2.7".parse().expect("an address")));
    }

    #[test]
    fn addresses_of_version_4_are_shown_as_such() {
        let (mut peer, proxies) = peer("[::ffff:192.0.2.9]:9");
        let shown: SocketAddr = "192.0.2.9:9".parse().expect("an address");
        assert_eq!((peer.address(), peer.client(), peer.shows_path()), (shown, shown, true));
        peer.begin_request(&proxies, ForwardedFor::default());
        assert_eq!(peer.client(), shown);
        let (mut peer, _) = self::peer("[::ffff:127.0.0.1]:9");
        let mut header = b"PROXY TCP6 ::ffff:192.0.2.7 ::1 40000 443\r\n".to_vec();
        assert_eq!(peer.take_header(&mut header), Headed::Done);
        assert_eq!(peer.address(), "192.0.2.7:40000".parse().expect("an address"));
    }

    #[test]
    fn a_header_that_is_not_valid_is_refused() {
        let (mut peer, _) = peer("127.0.0.1:9");
        assert_eq!(peer.take_header(&mut b"PROXY TCP4 a b c d\r\n".to_vec()), Headed::Bad);
    }
}
