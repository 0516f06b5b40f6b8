use std::io;
use std::mem::discriminant;

use rustix::io::Errno;

/// Why the kernel refuses the packets of a flow, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendFault {
    /// No route leads to the destination.
    #[error(
        "no route leads to it; add one (ip route add ADDRESS dev INTERFACE), or name the interface to send by, \
         which has to be up"
    )]
    NoRoute,
    /// A firewall or a security policy forbids it.
    #[error(
        "a firewall or a security policy of this machine forbids sending to it; look at nft list ruleset"
    )]
    Forbidden,
    /// A packet does not fit in what the interface sends at once.
    #[error(
        "a packet of {packet_bytes} bytes, with 28 (IPv6: 48) bytes of headers, is larger than the MTU of the \
         interface; raise the MTU (ip link set INTERFACE mtu 1500), or choose another interface"
    )]
    TooLarge {
        /// Bytes of a packet.
        packet_bytes: usize,
    },
    /// The interface is down or gone.
    #[error("the interface is down or gone; set it up (ip link set INTERFACE up)")]
    InterfaceDown,
    /// The address is of another family than the socket.
    #[error("the address is of another family (IPv4, IPv6) than the socket; use a socket of its family")]
    OtherFamily,
    /// Anything else.
    #[error("the kernel refuses the packets: {0}")]
    Other(io::Error),
}

impl SendFault {
    /// The fault that an error stands for. `packets` is how many packets the train had.
    pub fn of(error: io::Error, packet_bytes: usize, packets: usize) -> SendFault {
        match Errno::from_io_error(&error) {
            Some(Errno::NETUNREACH | Errno::HOSTUNREACH) => SendFault::NoRoute,
            Some(Errno::PERM | Errno::ACCESS) => SendFault::Forbidden,
            Some(Errno::MSGSIZE) => SendFault::TooLarge { packet_bytes },
            // The kernel's answer to a train of packets beyond the MTU, before Linux 6.14.
            Some(Errno::INVAL) if packets > 1 => SendFault::TooLarge { packet_bytes },
            Some(Errno::NETDOWN | Errno::NODEV | Errno::NXIO) => SendFault::InterfaceDown,
            Some(Errno::AFNOSUPPORT) => SendFault::OtherFamily,
            _ => SendFault::Other(error),
        }
    }

    /// Whether both are the same to a person who reads about them.
    pub(crate) fn is_like(&self, other: &SendFault) -> bool {
        match (self, other) {
            (SendFault::Other(one), SendFault::Other(two)) => one.raw_os_error() == two.raw_os_error(),
            _ => discriminant(self) == discriminant(other),
        }
    }
}
