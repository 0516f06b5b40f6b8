//! Where clients come from: a server that limits what one address may hold must not take a fleet
//! for one client.

use anyhow::{Context, Result, ensure};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::net::{TcpSocket, TcpStream};

/// The own address of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// This one.
    Named(IpAddr),
    /// On loopback an address of its own, elsewhere as the kernel likes.
    Own(Ipv4Addr),
}

/// What a client is; each kind has its own addresses on loopback.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Viewer,
    Download,
    Browser,
}

impl Origin {
    /// Where the client comes from: of `named` each in its turn, otherwise from an address of its
    /// own.
    pub(crate) fn of(named: &[IpAddr], role: Role, number: usize) -> Self {
        if !named.is_empty() {
            return Self::Named(named[number % named.len()]);
        }
        // 127.0.0.0/8 has 16 roles of a million clients each; the first is for all other programs
        // on this machine.
        let place = ((role as u32 + 1) << 20) | (number as u32 & 0xF_FFFF);
        Self::Own(Ipv4Addr::from_bits(Ipv4Addr::new(127, 0, 0, 0).to_bits() | place))
    }

    pub(crate) async fn connect(self, to: SocketAddr) -> io::Result<TcpStream> {
        let from = match (self, to.ip()) {
            (Self::Named(from), _) => from,
            (Self::Own(from), IpAddr::V4(to)) if to.is_loopback() => IpAddr::V4(from),
            _ => return TcpStream::connect(to).await,
        };
        let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.bind(SocketAddr::new(from, 0))?;
        socket.connect(to).await
    }
}

/// Most addresses that one range may name.
const ADDRESSES_MAX: u32 = 65_536;

/// Reads own addresses of clients: `ADDR`, or `FIRST-LAST` for IPv4.
///
/// # Errors
/// What is no address, and ranges that are empty or too long.
pub fn parse(text: &str) -> Result<Vec<IpAddr>> {
    let Some((first, last)) = text.split_once('-') else {
        return Ok(vec![text.parse().ok().with_context(|| format!("{text} is no IP address"))?]);
    };
    let bits = |text: &str| -> Result<u32> {
        let address: Ipv4Addr =
            text.parse().ok().with_context(|| format!("{text} is not an IPv4 address"))?;
        Ok(address.to_bits())
    };
    let (first, last) = (bits(first)?, bits(last)?);
    ensure!(
        first <= last && last - first < ADDRESSES_MAX,
        "{text} is no range of at most {ADDRESSES_MAX} addresses"
    );
    Ok((first..=last).map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_has_an_address_of_its_own_on_loopback() {
        let own = |role, number| Origin::of(&[], role, number);
        assert_eq!(own(Role::Viewer, 258), Origin::Own(Ipv4Addr::new(127, 16, 1, 2)));
        assert_eq!(own(Role::Download, 0), Origin::Own(Ipv4Addr::new(127, 32, 0, 0)));
        assert_ne!(own(Role::Browser, 1), own(Role::Viewer, 1));
    }

    #[test]
    fn named_addresses_take_turns() {
        let named = parse("10.0.0.254-10.0.1.1").unwrap();
        assert_eq!(named.len(), 4);
        assert_eq!(Origin::of(&named, Role::Viewer, 6), Origin::Named("10.0.1.0".parse().unwrap()));
        assert_eq!(parse("::1").unwrap(), ["::1".parse::<IpAddr>().unwrap()]);
        for text in ["", "h", "10.0.0.2-10.0.0.1", "0.0.0.0-255.255.255.255", "::1-::2"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
