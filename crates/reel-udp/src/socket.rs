use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::destination::{self, DestinationError, Family};
use crate::interface::Interface;
use crate::limits::UDP_SEND_BUFFER_BYTES;

/// How packets to groups leave this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastOptions {
    /// The family of the groups.
    pub family: Family,
    /// The network interface that packets to groups leave by. `None`: the one that the routing
    /// table names for each group.
    pub interface: Option<String>,
    /// How many networks packets to groups may cross; with 1 they stay in the first.
    pub ttl: u8,
    /// The mark by which switches and routers tell classes of packets (RFC 2474), 0 to 63.
    pub dscp: u8,
    /// Members of a group on this machine get the packets, too.
    pub reaches_this_machine: bool,
    /// Addresses of single hosts are destinations, too.
    pub allows_unicast: bool,
    /// The size of the send buffer. The kernel grants less to a process without CAP_NET_ADMIN.
    pub send_buffer_bytes: usize,
}

/// A UDP socket for a [`UdpSender`](crate::UdpSender): not connected, never fragments packets, and
/// knows to which addresses it may send.
#[derive(Clone, Debug)]
pub struct MulticastSocket {
    socket: Arc<OwnedFd>,
    family: Family,
    allows_unicast: bool,
}

/// Why a socket for multicast was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No such interface.
    #[error("there is no network interface {0:?}; `ip link` lists those of this machine")]
    NoInterface(String),
    /// The interface is down.
    #[error("the network interface {0} is down; set it up: ip link set {0} up")]
    InterfaceDown(String),
    /// The interface does not carry multicast.
    #[error("the network interface {0} carries no multicast; allow it: ip link set {0} multicast on")]
    NoMulticast(String),
    /// The mark is out of range.
    #[error("a DSCP is a number from 0 to 63, not {0}")]
    Dscp(u8),
    /// The kernel refused something else.
    #[error("the kernel refused {step}: {source}")]
    System {
        /// What was refused.
        step: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// The largest DSCP: six bits.
const DSCP_MAX: u8 = 63;

impl MulticastOptions {
    /// Packets that stay in the first network, without a mark, by the interface of the routing
    /// table.
    pub fn new(family: Family) -> MulticastOptions {
        MulticastOptions {
            family,
            interface: None,
            ttl: 1,
            dscp: 0,
            reaches_this_machine: true,
            allows_unicast: false,
            send_buffer_bytes: UDP_SEND_BUFFER_BYTES,
        }
    }
}

impl MulticastSocket {
    /// Opens a socket.
    ///
    /// # Errors
    /// If the interface does not exist, is down or carries no multicast, the mark is out of range,
    /// or the kernel refuses an option.
    pub fn open(options: &MulticastOptions) -> Result<MulticastSocket, OpenError> {
        if options.dscp > DSCP_MAX {
            return Err(OpenError::Dscp(options.dscp));
        }
        let family = match options.family {
            Family::V4 => AddressFamily::INET,
            Family::V6 => AddressFamily::INET6,
        };
        let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map_err(refused("a UDP socket"))?;
        let interface = options.interface.as_deref().map(|name| find(&socket, name)).transpose()?;
        match options.family {
            Family::V4 => set_v4(&socket, options, interface),
            Family::V6 => set_v6(&socket, options, interface),
        }?;
        // Only a process with CAP_NET_ADMIN may exceed the bound of the machine.
        let bytes = options.send_buffer_bytes;
        sockopt::set_socket_send_buffer_size_force(&socket, bytes)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&socket, bytes))
            .map_err(refused("the size of the send buffer"))?;
        let allows_unicast = options.allows_unicast;
        Ok(MulticastSocket { socket: Arc::new(socket), family: options.family, allows_unicast })
    }

    /// The socket, for a sender.
    pub fn socket(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.socket)
    }

    /// Checks that packets may be sent to an address. It needs no number of an interface: packets
    /// to groups leave by that of the socket.
    ///
    /// # Errors
    /// If the address is of another family, not a group (unless unicast was asked for), a group
    /// that protocols of the network use, or has the number of an interface.
    pub fn check(&self, to: SocketAddr) -> Result<(), DestinationError> {
        destination::check(to, self.family, self.allows_unicast)
    }

    /// Bytes that the kernel holds for this socket at most, with its own book-keeping.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn send_buffer_bytes(&self) -> io::Result<usize> {
        Ok(sockopt::socket_send_buffer_size(&self.socket)?)
    }
}

/// The interface, if packets to groups can leave by it.
fn find(socket: &OwnedFd, name: &str) -> Result<Interface, OpenError> {
    let interface = Interface::named(socket, name)
        .map_err(|source| OpenError::System { step: "to describe a network interface", source })?;
    match interface {
        None => Err(OpenError::NoInterface(name.to_owned())),
        Some(Interface { is_up: false, .. }) => Err(OpenError::InterfaceDown(name.to_owned())),
        Some(Interface { takes_multicast: false, .. }) => Err(OpenError::NoMulticast(name.to_owned())),
        Some(interface) => Ok(interface),
    }
}

fn set_v4(
    socket: &OwnedFd,
    options: &MulticastOptions,
    interface: Option<Interface>,
) -> Result<(), OpenError> {
    let any = Ipv4Addr::UNSPECIFIED;
    if let Some(interface) = interface {
        sockopt::set_ip_multicast_if_with_ifindex(socket, &any, &any, interface.index)
            .map_err(refused("the interface of a socket"))?;
    }
    sockopt::set_ip_multicast_ttl(socket, options.ttl.into()).map_err(refused("the TTL of a socket"))?;
    sockopt::set_ip_multicast_loop(socket, options.reaches_this_machine)
        .map_err(refused("IP_MULTICAST_LOOP"))?;
    sockopt::set_ip_tos(socket, options.dscp << 2).map_err(refused("the DSCP of a socket"))?;
    // Packets larger than the MTU are errors, not fragments: with one fragment a packet is lost.
    // What routers say about smaller MTUs is ignored, because any host can forge it.
    sockopt::set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::PROBE).map_err(refused("IP_MTU_DISCOVER"))
}

fn set_v6(
    socket: &OwnedFd,
    options: &MulticastOptions,
    interface: Option<Interface>,
) -> Result<(), OpenError> {
    sockopt::set_ipv6_v6only(socket, true).map_err(refused("IPV6_V6ONLY"))?;
    if let Some(interface) = interface {
        sockopt::set_ipv6_multicast_if(socket, interface.index)
            .map_err(refused("the interface of a socket"))?;
    }
    sockopt::set_ipv6_multicast_hops(socket, options.ttl.into())
        .map_err(refused("the hop limit of a socket"))?;
    sockopt::set_ipv6_multicast_loop(socket, options.reaches_this_machine)
        .map_err(refused("IPV6_MULTICAST_LOOP"))?;
    sockopt::set_ipv6_tclass(socket, u32::from(options.dscp << 2))
        .map_err(refused("the DSCP of a socket"))?;
    sockopt::set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::PROBE).map_err(refused("IPV6_MTU_DISCOVER"))
}

fn refused(step: &'static str) -> impl Fn(rustix::io::Errno) -> OpenError {
    move |errno| OpenError::System { step, source: errno.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_are_those_of_the_socket() {
        let options = MulticastOptions { ttl: 7, dscp: 34, ..MulticastOptions::new(Family::V4) };
        let opened = MulticastSocket::open(&options).expect("a socket");
        let socket = opened.socket();
        assert_eq!(sockopt::ip_multicast_ttl(&socket).expect("the TTL"), 7);
        assert_eq!(sockopt::ip_tos(&socket).expect("the TOS"), 34 << 2);
        assert!(sockopt::ip_multicast_loop(&socket).expect("the option"));
        assert!(opened.send_buffer_bytes().expect("a size") > 0);
        let options = MulticastOptions { reaches_this_machine: false, ..options };
        let socket = MulticastSocket::open(&options).expect("a socket").socket();
        assert!(!sockopt::ip_multicast_loop(&socket).expect("the option"));
        let options = MulticastOptions { family: Family::V6, ..options };
        match MulticastSocket::open(&options) {
            Ok(opened) => {
                let socket = opened.socket();
                assert_eq!(sockopt::ipv6_multicast_hops(&socket).expect("the hop limit"), 7);
                assert_eq!(sockopt::ipv6_tclass(&socket).expect("the class"), 34 << 2);
                assert!(!sockopt::ipv6_multicast_loop(&socket).expect("the option"));
            }
            Err(error) => println!("skipped: no IPv6: {error}"),
        }
    }

    #[test]
    fn impossible_options_are_refused_in_words() {
        let said = |options: MulticastOptions| match MulticastSocket::open(&options) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        let options = || MulticastOptions::new(Family::V4);
        assert!(said(MulticastOptions { dscp: 64, ..options() }).contains("0 to 63"));
        let none = said(MulticastOptions { interface: Some("reel-none".to_owned()), ..options() });
        assert!(none.contains("`ip link`"), "{none}");
    }
}
