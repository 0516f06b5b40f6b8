//! Any bytes are a header of the PROXY protocol, the beginning of one, or none; and as fields of a
//! request they name a client, or none.

use reel_serve::{ForwardedFor, Proxies, ProxyHeader};
use std::net::{IpAddr, Ipv4Addr};

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

/// Reads the bytes as what precedes a connection, and as both fields of a request.
pub fn proxied(bytes: &[u8]) {
    let whole = ProxyHeader::read(bytes);
    if let ProxyHeader::Present { bytes: header_bytes, .. } = whole {
        assert!((1..=bytes.len()).contains(&header_bytes));
        // What follows the header is not looked at, and without its last byte it is none.
        assert_eq!(ProxyHeader::read(&bytes[..header_bytes]), whole);
        assert_eq!(ProxyHeader::read(&bytes[..header_bytes - 1]), ProxyHeader::Partial);
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let proxy = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let proxies = Proxies::new(vec!["127.0.0.1".parse().expect("a range")]);
    // A proxy appends the address from which it was called. A client cannot change that.
    let (plain, element) = (format!("{text},192.0.2.7"), format!("{text},for=192.0.2.7;proto=https"));
    let plain = ForwardedFor { x_forwarded_for: Some(&plain), forwarded: Some(text) };
    let element = ForwardedFor { x_forwarded_for: None, forwarded: Some(&element) };
    assert_eq!([plain, element].map(|said| proxies.client(proxy, said)), [CLIENT; 2]);
    let all = Proxies::new(vec!["0.0.0.0/0".parse().expect("a range"), "::/0".parse().expect("a range")]);
    for said in [
        ForwardedFor { x_forwarded_for: Some(text), forwarded: None },
        ForwardedFor { x_forwarded_for: None, forwarded: Some(text) },
    ] {
        let client = all.client(proxy, said);
        assert_eq!(client, client.to_canonical());
        assert_eq!(Proxies::default().client(proxy, said), proxy, "no proxy is believed");
    }
}
