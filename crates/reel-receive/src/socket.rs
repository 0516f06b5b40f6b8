//! Sockets that have joined a group.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use reel_ring::join_source_group;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, netdevice, socket_with};

use crate::limits::RECEIVE_BUFFER_BYTES;

/// A socket that receives what is sent to one address and port.
#[derive(Debug)]
pub struct Member {
    socket: UdpSocket,
}

/// Why a group was not joined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// No such interface.
    #[error("there is no network interface {0:?}; `ip link` lists those of this machine")]
    NoInterface(String),
    /// No interface carries the group.
    #[error(
        "no network interface of this machine leads to the group {0}; name one (--interface), or add a route \
         (ip route add {0} dev INTERFACE)"
    )]
    NoRoute(IpAddr),
    /// Another program has the port.
    #[error(
        "another program of this machine receives from {0} and does not share it; end it (ss -ulpn names it)"
    )]
    InUse(SocketAddr),
    /// The address is neither a group nor an address of this machine.
    #[error("{0} is neither a group nor an address of this machine; name the group of the cast")]
    NotHere(IpAddr),
    /// The kernel refused something else.
    #[error("the kernel refused {step} for {address}: {source}")]
    System {
        /// What was refused.
        step: &'static str,
        /// The address.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl Member {
    /// Opens a socket and joins the group, if the address is one. `sources` are the only senders
    /// that routers are asked for (RFC 4607). Without an interface, the routing table names it.
    ///
    /// # Errors
    /// If there is no such interface, the port is not free, or the kernel refuses to join.
    pub fn join(
        address: SocketAddr,
        sources: &[IpAddr],
        interface: Option<&str>,
    ) -> Result<Member, JoinError> {
        let refused = |step| move |errno: Errno| JoinError::System { step, address, source: errno.into() };
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map_err(refused("a UDP socket"))?;
        let index = interface.map_or(Ok(0), |name| index_of(&socket, name))?;
        // Several receivers of a machine may receive one group.
        sockopt::set_socket_reuseaddr(&socket, true).map_err(refused("SO_REUSEADDR"))?;
        // Bound to the group: a socket that is bound to any address gets the packets of all groups
        // that other programs have joined.
        bind(&socket, &scoped(address, index)).map_err(|errno| match errno {
            Errno::ADDRINUSE => JoinError::InUse(address),
            Errno::ADDRNOTAVAIL => JoinError::NotHere(address.ip()),
            errno => refused("to bind a socket")(errno),
        })?;
        // Only a process with CAP_NET_ADMIN may exceed the bound of the machine.
        sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_BYTES)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES))
            .map_err(refused("the size of the receive buffer"))?;
        if address.ip().is_multicast() {
            join_group(&socket, address.ip(), sources, index).map_err(|errno| match errno {
                Errno::NODEV | Errno::NETUNREACH | Errno::ADDRNOTAVAIL => JoinError::NoRoute(address.ip()),
                errno => refused("to join the group")(errno),
            })?;
        }
        Ok(Member { socket: socket.into() })
    }

    /// Leaves the group, of which nothing more is needed. What has arrived can still be read.
    pub fn leave(&self) {
        // A group that was left already, for example because its interface is gone, is no error.
        let _ = match self.socket.local_addr().map(|address| address.ip()) {
            Ok(IpAddr::V4(group)) => self.socket.leave_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED),
            Ok(IpAddr::V6(group)) => self.socket.leave_multicast_v6(&group, 0),
            Err(_) => return,
        };
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Bytes that the kernel holds for this socket at most, with its own book-keeping. It grants
    /// twice the size that was asked for (socket(7)).
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn buffer_bytes(&self) -> io::Result<usize> {
        Ok(sockopt::socket_recv_buffer_size(&self.socket)?)
    }
}

fn index_of(socket: &OwnedFd, name: &str) -> Result<u32, JoinError> {
    netdevice::name_to_index(socket, name).map_err(|_| JoinError::NoInterface(name.to_owned()))
}

/// The address with its interface, which groups of one link need.
fn scoped(address: SocketAddr, index: u32) -> SocketAddr {
    match address {
        SocketAddr::V6(mut address) if address.ip().is_multicast() && index > 0 => {
            address.set_scope_id(index);
            address.into()
        }
        address => address,
    }
}

fn join_group(socket: &OwnedFd, group: IpAddr, sources: &[IpAddr], index: u32) -> Result<(), Errno> {
    let any = Ipv4Addr::UNSPECIFIED;
    match group {
        _ if !sources.is_empty() => sources.iter().try_for_each(|source| {
            join_source_group(socket, group, *source, index)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        }),
        IpAddr::V4(group) => sockopt::set_ip_add_membership_with_ifindex(socket, &group, &any, index),
        IpAddr::V6(group) => sockopt::set_ipv6_add_membership(socket, &group, index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_this_machine_is_received_from() {
        let address: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let member = Member::join(address, &[], None).expect("a socket");
        let to = member.socket().local_addr().expect("its address");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
        sender.send_to(b"x", to).expect("sent");
        let mut bytes = [0; 4];
        assert_eq!(member.socket().recv(&mut bytes).expect("received"), 1);
        assert!(member.buffer_bytes().expect("a size") > 0);
    }

    #[test]
    fn what_cannot_be_joined_is_refused_in_words() {
        let said = |address: &str, interface| {
            let joined = Member::join(address.parse().expect("an address"), &[], interface);
            joined.map(drop).expect_err(address).to_string()
        };
        assert!(said("239.1.1.1:5000", Some("reel-none")).contains("`ip link`"));
        assert!(said("192.0.2.1:5000", None).contains("neither a group nor"));
        let alone = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let taken = alone.local_addr().expect("its address").to_string();
        assert!(said(&taken, None).contains("another program"));
    }
}
