//! Who the client behind a reverse proxy is. Pure.
//!
//! A proxy names its client in front of a connection (the PROXY protocol of HAProxy, versions 1 and
//! 2) or in a field of each request ([`ForwardedFor`]). Only proxies of the configuration are
//! believed: any other client could claim to be another one, and take its share.

use crate::base_path::BasePath;
use crate::forwarded::ForwardedFor;
use crate::limits::{FORWARDED_MAX, PROXY_HEADER_BYTES_MAX};
use reel_admit::{AddressRange, client_network};
use reel_play::uplink_client;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// The reverse proxies that are believed.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    ranges: Arc<[AddressRange]>,
    /// Those that speak for many viewers, even if they do not name them.
    gateways: Arc<[AddressRange]>,
}

/// What the first bytes of a connection from a proxy are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// More bytes are needed.
    Partial,
    /// No header of the PROXY protocol.
    Absent,
    /// A header.
    Present {
        /// The client; `None` if the proxy speaks for itself.
        client: Option<SocketAddr>,
        /// The length of the header.
        bytes: usize,
    },
    /// A header that is not valid. The connection must end.
    Bad,
}

const SIGNATURE_1: &[u8] = b"PROXY ";
const SIGNATURE_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// The longest header of version 1, with its line end.
const TEXT_BYTES_MAX: usize = 107;

/// The signature of version 2, the command, the family and the length of what follows.
const FIXED_BYTES: usize = 16;

impl Proxies {
    /// Proxies at these addresses.
    pub fn new(ranges: Vec<AddressRange>) -> Proxies {
        Proxies { ranges: ranges.into(), gateways: Arc::default() }
    }

    /// The same, and these gateways. They are believed, too.
    pub fn with_gateways(self, gateways: Vec<AddressRange>) -> Proxies {
        let ranges = self.ranges.iter().chain(&gateways).cloned().collect();
        Proxies { ranges, gateways: gateways.into() }
    }

    /// Their addresses.
    pub fn ranges(&self) -> &[AddressRange] {
        &self.ranges
    }

    /// Whether an address is that of a proxy.
    pub fn has(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address))
    }

    /// The client whose turn on the uplink is taken by what is sent to `client`. `None` if it is on
    /// this machine: what stays there uses no link. What a gateway on this machine is sent leaves
    /// it again.
    pub fn uplink_client(&self, client: IpAddr) -> Option<IpAddr> {
        let is_gateway = || self.gateways.iter().any(|range| range.contains(client));
        uplink_client(client).or_else(|| is_gateway().then(|| client_network(client)))
    }

    /// The path below which the client of a request sees the server, by the values of
    /// `X-Forwarded-Prefix`, joined by commas. `None` if they say nothing: there are none, `peer`
    /// is no proxy, or they are no path. Addresses that are relative are right without them.
    pub fn base_path(&self, peer: IpAddr, forwarded_prefix: Option<&str>) -> Option<BasePath> {
        forwarded_prefix.filter(|_| self.has(peer)).and_then(BasePath::of_proxies)
    }

    /// The client of a request that came from `peer`, and says this of who is behind that. Each
    /// proxy appends the address from which it was called. So the client is the last one that is
    /// not a proxy itself: what precedes it, the client may have written.
    pub fn client(&self, peer: IpAddr, said: ForwardedFor<'_>) -> IpAddr {
        let mut client = peer;
        for named in said.addresses().take(FORWARDED_MAX) {
            let Some(address) = named.filter(|_| self.has(client)) else { break };
            client = address;
        }
        client
    }
}

impl ProxyHeader {
    /// Reads the first bytes of a connection.
    pub fn read(input: &[u8]) -> ProxyHeader {
        if begins(input, SIGNATURE_2) {
            return if input.len() < FIXED_BYTES { ProxyHeader::Partial } else { binary(input) };
        }
        if begins(input, SIGNATURE_1) {
            return text(input);
        }
        ProxyHeader::Absent
    }
}

/// Whether bytes begin with a signature, as far as there are any.
fn begins(input: &[u8], signature: &[u8]) -> bool {
    let compared = input.len().min(signature.len());
    input[..compared] == signature[..compared]
}

/// `PROXY TCP4 192.0.2.7 192.0.2.1 40000 443\r\n`
fn text(input: &[u8]) -> ProxyHeader {
    let searched = &input[..input.len().min(TEXT_BYTES_MAX)];
    let Some(end) = searched.windows(2).position(|pair| pair == b"\r\n") else {
        return if input.len() < TEXT_BYTES_MAX { ProxyHeader::Partial } else { ProxyHeader::Bad };
    };
    let Ok(line) = std::str::from_utf8(&input[SIGNATURE_1.len()..end]) else { return ProxyHeader::Bad };
    let words: Vec<&str> = line.split(' ').collect();
    let client = match words[..] {
        ["UNKNOWN", ..] => Some(None),
        ["TCP4", from, to, port, to_port] => client_of::<Ipv4Addr>([from, to], [port, to_port]),
        ["TCP6", from, to, port, to_port] => client_of::<Ipv6Addr>([from, to], [port, to_port]),
        _ => None,
    };
    client.map_or(ProxyHeader::Bad, |client| ProxyHeader::Present { client, bytes: end + 2 })
}

fn client_of<A>(addresses: [&str; 2], ports: [&str; 2]) -> Option<Option<SocketAddr>>
where
    A: std::str::FromStr + Into<IpAddr>,
{
    let [from, _to] = addresses.map(|address| address.parse::<A>().ok().map(A::into));
    let [port, _to] = ports.map(|port| port.parse().ok());
    Some(Some(SocketAddr::new(from?, port?)))
}

fn binary(input: &[u8]) -> ProxyHeader {
    let [version_and_command, family, high, low] = [input[12], input[13], input[14], input[15]];
    let rest_bytes = usize::from(u16::from_be_bytes([high, low]));
    let bytes = FIXED_BYTES + rest_bytes;
    if version_and_command >> 4 != 2 || bytes > PROXY_HEADER_BYTES_MAX {
        return ProxyHeader::Bad;
    }
    let Some(rest) = input.get(FIXED_BYTES..bytes) else { return ProxyHeader::Partial };
    let port = |at: usize| Some(u16::from_be_bytes(rest.get(at..at + 2)?.try_into().ok()?));
    let client = match (version_and_command & 15, family) {
        // The proxy itself, such as a check of its own.
        (0, _) => Some(None),
        (1, 0x11) => rest.first_chunk::<4>().map(|from| IpAddr::from(*from)).zip(port(8)).map(Some),
        (1, 0x21) => rest.first_chunk::<16>().map(|from| IpAddr::from(*from)).zip(port(32)).map(Some),
        // Other families, such as sockets of one machine.
        (1, _) => Some(None),
        _ => None,
    };
    match client {
        Some(client) => ProxyHeader::Present { client: client.map(SocketAddr::from), bytes },
        None => ProxyHeader::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn proxies() -> Proxies {
        Proxies::new(vec!["127.0.0.1".parse().expect("a range"), "10.0.0.0/8".parse().expect("a range")])
    }

    fn plain(x_forwarded_for: &str) -> ForwardedFor<'_> {
        ForwardedFor { x_forwarded_for: Some(x_forwarded_for), forwarded: None }
    }

    fn client(peer: &str, forwarded_for: &str) -> IpAddr {
        proxies().client(ip(peer), plain(forwarded_for))
    }

    fn present(input: &[u8]) -> (Option<SocketAddr>, usize) {
        match ProxyHeader::read(input) {
            ProxyHeader::Present { client, bytes } => (client, bytes),
            other => panic!("{other:?}"),
        }
    }

    fn binary_header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let mut header = SIGNATURE_2.to_vec();
        header.extend([0x20 | command, family]);
        header.extend((rest.len() as u16).to_be_bytes());
        header.extend(rest);
        header
    }

    #[test]
    fn the_client_is_the_last_address_that_is_no_proxy() {
        assert_eq!(client("127.0.0.1", "192.0.2.7"), ip("192.0.2.7"));
        assert_eq!(client("127.0.0.1", "203.0.113.9, 192.0.2.7, 10.1.2.3"), ip("192.0.2.7"));
        assert_eq!(client("192.0.2.1", "192.0.2.7"), ip("192.0.2.1"), "not a proxy: not believed");
        assert_eq!(client("127.0.0.1", "192.0.2.7, 10.0.0.1, nonsense"), ip("127.0.0.1"));
        assert_eq!(client("127.0.0.1", "192.0.2.7, nonsense, 10.0.0.1"), ip("10.0.0.1"));
        assert_eq!(client("127.0.0.1", "[2001:db8::7]:4711"), ip("2001:db8::7"));
        assert_eq!(client("127.0.0.1", "[2001:db8::7]"), ip("2001:db8::7"));
        assert_eq!(client("127.0.0.1", "192.0.2.7:80"), ip("192.0.2.7"));
        assert_eq!(client("::ffff:127.0.0.1", "::ffff:192.0.2.7"), ip("192.0.2.7"));
        assert_eq!(client("127.0.0.1", ""), ip("127.0.0.1"));
        assert_eq!(proxies().client(ip("127.0.0.1"), ForwardedFor::default()), ip("127.0.0.1"));
        let forwarded = |text| ForwardedFor { x_forwarded_for: None, forwarded: Some(text) };
        let client_of = |text| proxies().client(ip("127.0.0.1"), forwarded(text));
        assert_eq!(client_of("for=203.0.113.9, for=192.0.2.7, for=10.1.2.3;proto=http"), ip("192.0.2.7"));
        assert_eq!(client_of("for=192.0.2.7, for=unknown"), ip("127.0.0.1"));
        assert_eq!(proxies().client(ip("192.0.2.1"), forwarded("for=192.0.2.7")), ip("192.0.2.1"));
        let hops = format!("for=192.0.2.7{}", ",for=10.0.0.1".repeat(1000));
        assert_eq!(client_of(&hops), ip("10.0.0.1"), "bounded");
        let long = format!("192.0.2.7{}", ", 10.0.0.1".repeat(100_000));
        assert_eq!(client("127.0.0.1", &long), ip("10.0.0.1"), "bounded");
    }

    #[test]
    fn only_a_proxy_says_below_which_path_clients_see_the_server() {
        let proxies = proxies().with_gateways(vec!["192.0.2.1".parse().expect("a range")]);
        for (peer, field, path) in [
            ("127.0.0.1", Some("/reel"), Some("/reel")),
            ("192.0.2.1", Some("/a,/b"), Some("/a/b")),
            ("192.0.2.2", Some("/reel"), None),
            ("127.0.0.1", Some("//evil.example"), None),
            ("127.0.0.1", Some("/../x"), None),
            ("127.0.0.1", Some("/"), Some("")),
            ("127.0.0.1", None, None),
        ] {
            let found = proxies.base_path(ip(peer), field);
            assert_eq!(found.as_ref().map(BasePath::as_str), path, "{field:?} of {peer}");
        }
    }

    #[test]
    fn a_gateway_on_this_machine_is_believed_and_uses_the_link() {
        let proxies = Proxies::new(Vec::new());
        assert_eq!(proxies.uplink_client(ip("127.0.0.1")), None);
        let proxies = proxies.with_gateways(vec!["127.0.0.1".parse().expect("a range")]);
        for (client, uplink) in [
            ("127.0.0.1", Some("127.0.0.1")),
            ("::ffff:127.0.0.1", Some("127.0.0.1")),
            ("127.0.0.2", None),
            ("::1", None),
            ("192.0.2.7", Some("192.0.2.7")),
            ("2001:db8::7", Some("2001:db8::")),
        ] {
            assert_eq!(proxies.uplink_client(ip(client)), uplink.map(ip), "{client}");
        }
        assert_eq!(proxies.client(ip("127.0.0.1"), plain("192.0.2.7")), ip("192.0.2.7"));
        assert_eq!(proxies.client(ip("127.0.0.2"), plain("192.0.2.7")), ip("127.0.0.2"));
    }

    #[test]
    fn headers_of_both_versions_name_the_client() {
        let line = b"PROXY TCP4 192.0.2.7 192.0.2.1 40000 443\r\nGET /";
        assert_eq!(present(line), (Some("192.0.2.7:40000".parse().unwrap()), line.len() - 5));
        let line = b"PROXY TCP6 2001:db8::7 2001:db8::1 40000 443\r\n";
        assert_eq!(present(line), (Some("[2001:db8::7]:40000".parse().unwrap()), line.len()));
        assert_eq!(present(b"PROXY UNKNOWN\r\n"), (None, 15));
        assert_eq!(present(b"PROXY UNKNOWN a b c d\r\n").0, None);
        let v4 = binary_header(1, 0x11, &[192, 0, 2, 7, 192, 0, 2, 1, 0x9c, 0x40, 1, 187, 4, 0, 0]);
        assert_eq!(present(&v4), (Some("192.0.2.7:40000".parse().unwrap()), v4.len()), "with a field more");
        let mut rest = ip("2001:db8::7").to_string().parse::<Ipv6Addr>().unwrap().octets().to_vec();
        rest.extend([0; 16]);
        rest.extend([0x9c, 0x40, 1, 187]);
        assert_eq!(present(&binary_header(1, 0x21, &rest)).0, Some("[2001:db8::7]:40000".parse().unwrap()));
        assert_eq!(present(&binary_header(0, 0, &[])).0, None, "a check by the proxy itself");
        assert_eq!(present(&binary_header(1, 0x31, &[0; 216])).0, None, "a socket of one machine");
    }

    #[test]
    fn what_is_no_header_is_left_alone_and_a_wrong_one_is_refused() {
        for other in [&b"GET / HTTP/1.1\r\n"[..], b"POST", b"\r\nGET /", b"\x16\x03\x01"] {
            assert_eq!(ProxyHeader::read(other), ProxyHeader::Absent, "{other:?}");
        }
        let long = [SIGNATURE_1, &[b'a'; 200]].concat();
        for bad in [
            &b"PROXY TCP4 192.0.2.7 192.0.2.1 40000\r\n"[..],
            b"PROXY TCP4 2001:db8::7 192.0.2.1 1 2\r\n",
            b"PROXY TCP4 192.0.2.7 192.0.2.1 70000 443\r\n",
            b"PROXY HTTP\r\n",
            b"PROXY \xff\r\n",
            &long,
            &binary_header(1, 0x11, &[1, 2]),
            &binary_header(7, 0x11, &[0; 12]),
            &[SIGNATURE_2, &[0x11, 0x11, 0, 0]].concat(),
            &[SIGNATURE_2, &[0x21, 0x11, 0xff, 0xff]].concat(),
        ] {
            assert_eq!(ProxyHeader::read(bad), ProxyHeader::Bad, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(input in proptest::collection::vec(any::<u8>(), 0..400), which in 0usize..3) {
            let signature: &[u8] = [&b""[..], SIGNATURE_1, SIGNATURE_2][which];
            let input = [signature, &input].concat();
            if let ProxyHeader::Present { bytes, .. } = ProxyHeader::read(&input) {
                prop_assert!(bytes <= input.len());
            }
        }

        #[test]
        fn a_header_that_is_cut_is_partial(cut in 1usize..28) {
            let header = binary_header(1, 0x11, &[192, 0, 2, 7, 192, 0, 2, 1, 0, 1, 0, 2]);
            prop_assert_eq!(ProxyHeader::read(&header[..cut]), ProxyHeader::Partial);
            let line = b"PROXY TCP4 192.0.2.7 192.0.2.1 40000 443\r\n";
            prop_assert_eq!(ProxyHeader::read(&line[..cut]), ProxyHeader::Partial);
        }

        #[test]
        fn a_client_that_no_proxy_stands_for_is_itself(forwarded in ".{0,80}") {
            prop_assert_eq!(client("192.0.2.1", &forwarded), ip("192.0.2.1"));
        }
    }
}
