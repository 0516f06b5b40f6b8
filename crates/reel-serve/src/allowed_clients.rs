//! Which clients may do something, as the configuration says. Pure.

use reel_admit::{AddressRange, Client};
use std::net::{IpAddr, Ipv4Addr};

/// The clients that may do something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AllowedClients {
    /// All.
    All,
    /// Those on this machine.
    #[default]
    Local,
    /// Those at these addresses.
    At(Vec<AddressRange>),
}

impl AllowedClients {
    /// Whether a client is one of them. Users are clients on this machine.
    pub fn has(&self, client: Client) -> bool {
        let address = match client {
            Client::Address(address) => address.to_canonical(),
            Client::User(_) | Client::NamedUser(_) | Client::Server => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        match self {
            AllowedClients::All => true,
            AllowedClients::Local => address.is_loopback(),
            AllowedClients::At(ranges) => ranges.iter().any(|range| range.contains(address)),
        }
    }
}
