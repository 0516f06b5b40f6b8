//! Two network name spaces with a cable between them: the server's, and one in which each client
//! has an address of its own.

use anyhow::Result;
use reel_wire::space::{Space, ip, tc};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The server's side and the clients' side. Both are gone with this value.
pub(super) struct Cable {
    pub(super) near: Space,
    pub(super) far: Space,
}

/// Who a client is; each kind has 65,536 addresses.
#[derive(Clone, Copy, Debug)]
pub(super) enum Who {
    Ordinary,
    Newcomer,
    Attacker,
    /// Asks for health, and sees how connections end.
    Watcher,
}

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const SIDE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const DEVICE: &str = "siege0";
/// The clients' addresses: four networks of 16 bits, one for each kind.
const CLIENTS: Ipv4Addr = Ipv4Addr::new(10, 80, 0, 0);
const CLIENTS_BITS: u32 = 14;
/// What the queue in front of the cable holds: that of a router at home.
const QUEUE: &str = "100ms";
/// The least that passes at once: a large packet of TCP.
const BURST_BYTES_MIN: u64 = 64 << 10;
/// Where the server listens: HTTP, HTTPS.
const PORTS: [u16; 2] = [8080, 8443];

impl Cable {
    /// Makes both sides. From the server to clients, so many bits pass in a second.
    ///
    /// # Errors
    /// Without root, or without `unshare`, `ip` or `tc`.
    pub(super) fn make(bps: u64) -> Result<Self> {
        let cable = Self { near: Space::make()?, far: Space::make()? };
        let far = cable.far.holder().to_string();
        let clients = format!("{CLIENTS}/{CLIENTS_BITS}");
        let (rate, burst) = (format!("{bps}bit"), (bps / 8 / 200).max(BURST_BYTES_MIN).to_string());
        cable.near.inside(|| {
            ip(&["link", "set", "lo", "up"])?;
            ip(&["link", "add", DEVICE, "type", "veth", "peer", "name", DEVICE, "netns", &far])?;
            ip(&["addr", "add", &format!("{SERVER}/24"), "dev", DEVICE])?;
            ip(&["link", "set", DEVICE, "up"])?;
            ip(&["route", "add", &clients, "via", &SIDE.to_string(), "dev", DEVICE])?;
            let shape = ["tbf", "rate", &rate, "burst", &burst, "latency", QUEUE];
            tc(&[&["qdisc", "add", "dev", DEVICE, "root"], &shape[..]].concat())
        })?;
        cable.far.inside(|| {
            ip(&["link", "set", "lo", "up"])?;
            ip(&["addr", "add", &format!("{SIDE}/24"), "dev", DEVICE])?;
            ip(&["link", "set", DEVICE, "up"])?;
            // A socket may have any address that is local, and these all are.
            ip(&["route", "add", "local", &clients, "dev", "lo"])
        })?;
        Ok(cable)
    }
}

/// Where the server is asked by HTTP.
pub(super) fn http() -> SocketAddr {
    SocketAddr::from((SERVER, PORTS[0]))
}

/// Where it is asked by HTTPS.
pub(super) fn https() -> SocketAddr {
    SocketAddr::from((SERVER, PORTS[1]))
}

impl Who {
    /// The address of client `number` of this kind.
    pub(super) fn address(self, number: usize) -> Ipv4Addr {
        // The first address of a network is no host's.
        let place = (self as u32) << 16 | (number as u32 + 1) & 0xFFFF;
        Ipv4Addr::from_bits(CLIENTS.to_bits() + place)
    }

    /// The addresses of the first `count`.
    pub(super) fn addresses(self, count: usize) -> Vec<IpAddr> {
        (0..count).map(|number| IpAddr::V4(self.address(number))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_addresses() {
        assert_eq!(Who::Ordinary.address(0), Ipv4Addr::new(10, 80, 0, 1));
        assert_eq!(Who::Newcomer.address(255), Ipv4Addr::new(10, 81, 1, 0));
        assert_eq!(Who::Watcher.address(1), Ipv4Addr::new(10, 83, 0, 2));
        assert_eq!(Who::Attacker.addresses(3).len(), 3);
    }
}
