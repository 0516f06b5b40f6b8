//! Who sessions are opened for.

use crate::address_range::AddressRange;
use reel_qos::{Class, Sender};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The client of a session, in whose shares the session counts. A front end knows either an address
/// or a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// A player on the network, by the address of its connection.
    Address(IpAddr),
    /// The programs of a user of this machine, by the number of the user.
    User(u32),
    /// A user of this machine, by its number, for whom a program asks over HTTP. It is counted as
    /// the user's programs are.
    NamedUser(u32),
    /// The server itself: its operator has asked for what it sends to a group.
    Server,
}

/// The client of a new session, the class in which it plays, and the front end that sends to it.
#[derive(Clone, Copy, Debug)]
pub struct SessionClient {
    /// The client.
    pub client: Client,
    /// The class.
    pub class: Class,
    /// The place of the front end in
    /// [`Capacities::core_mib_ns`](reel_qos::Capacities::core_mib_ns).
    pub front_end: usize,
}

impl SessionClient {
    /// A client that plays in a class, and is sent to by the first front end.
    pub fn new(client: impl Into<Client>, class: Class) -> Self {
        Self { client: client.into(), class, front_end: 0 }
    }

    /// The same client, sent to by another front end.
    pub fn through(self, front_end: usize) -> Self {
        Self { front_end, ..self }
    }

    pub(crate) fn sender(&self) -> Sender {
        Sender { class: self.class, front_end: self.front_end }
    }
}

impl Client {
    /// The client under which all that this one does is counted.
    pub(crate) fn counted(self) -> Client {
        match self {
            Client::Address(address) => Client::Address(client_network(address)),
            Client::NamedUser(user) => Client::User(user),
            Client::User(_) | Client::Server => self,
        }
    }

    /// Whether both are counted as one client.
    pub fn is_same(self, other: Client) -> bool {
        self.counted() == other.counted()
    }

    /// The client in whose share of the resources this one counts. `None` for a gateway, which
    /// speaks for many viewers, and for this machine itself: a proxy on it does so, too. Nor has
    /// the server a share of itself.
    pub(crate) fn sharer(self, gateways: &[AddressRange]) -> Option<Client> {
        let address = match self {
            Client::Address(address) => address,
            Client::User(_) | Client::NamedUser(_) => return Some(self.counted()),
            Client::Server => return None,
        };
        let has_no_share = address.to_canonical().is_loopback() || is_gateway(address, gateways);
        (!has_no_share).then(|| self.counted())
    }
}

/// Whether an address speaks for many clients.
pub(crate) fn is_gateway(address: IpAddr, gateways: &[AddressRange]) -> bool {
    gateways.iter().any(|gateway| gateway.contains(address))
}

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Client {
        Client::Address(address)
    }
}

impl fmt::Display for Client {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Client::Address(address) => address.fmt(out),
            Client::User(user) | Client::NamedUser(user) => write!(out, "user {user}"),
            Client::Server => out.write_str("this server"),
        }
    }
}

/// The address under which all that a client does is counted. For IPv6 it is the network, since
/// one host may take any address in it.
pub fn client_network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address => address,
    }
}
