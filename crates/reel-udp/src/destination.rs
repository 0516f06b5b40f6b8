use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Why packets are not sent to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DestinationError {
    /// The port is missing.
    #[error("{0} has port 0; name a port, for example 5000")]
    NoPort(SocketAddr),
    /// The socket is of the other family.
    #[error("{to} is not of the family of the socket, which is {socket:?}; use a socket of its family")]
    OtherFamily {
        /// The address.
        to: SocketAddr,
        /// The socket's family.
        socket: Family,
    },
    /// Not a group, and unicast was not asked for.
    #[error(
        "{0} is the address of one host, and a cast needs a group: one of 239.0.0.0 to 239.255.255.255 \
         (IPv6: ff15::1 or the like)"
    )]
    NotMulticast(IpAddr),
    /// Neither a group nor a host.
    #[error("{0} is neither a group nor the address of a host; use a group of 239.0.0.0/8 (IPv6: ff15::/16)")]
    NotAHost(IpAddr),
    /// A group that protocols of the network use.
    #[error(
        "the group {0} belongs to the protocols that hosts and routers of a network need (224.0.0.0/24, ff02::/16); \
         use a group of 239.0.0.0/8 (IPv6: ff15::/16)"
    )]
    ControlGroup(IpAddr),
    /// A group with the number of an interface, which is another one on other machines.
    #[error(
        "{to} has the number of an interface of this machine; leave out %{scope}, and name the interface"
    )]
    InterfaceNumber {
        /// The address.
        to: SocketAddr,
        /// The number.
        scope: u32,
    },
    /// A group with a reserved scope.
    #[error(
        "the scope of the group {0} is reserved; use a group of ff15::/16 (this site) or ff12::/16 (this link)"
    )]
    ReservedScope(Ipv6Addr),
}

/// Checks that packets may be sent to an address.
pub(crate) fn check(to: SocketAddr, socket: Family, allows_unicast: bool) -> Result<(), DestinationError> {
    let family = if to.is_ipv4() { Family::V4 } else { Family::V6 };
    if family != socket {
        return Err(DestinationError::OtherFamily { to, socket });
    }
    if to.port() == 0 {
        return Err(DestinationError::NoPort(to));
    }
    if let SocketAddr::V6(address) = to
        && address.ip().is_multicast()
        && address.scope_id() != 0
    {
        return Err(DestinationError::InterfaceNumber { to, scope: address.scope_id() });
    }
    match to.ip() {
        ip if !ip.is_multicast() => {
            let is_broadcast = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
            if ip.is_unspecified() || is_broadcast {
                return Err(DestinationError::NotAHost(ip));
            }
            if allows_unicast { Ok(()) } else { Err(DestinationError::NotMulticast(ip)) }
        }
        IpAddr::V4(group) if group.octets()[..3] == [224, 0, 0] => {
            Err(DestinationError::ControlGroup(group.into()))
        }
        IpAddr::V4(_) => Ok(()),
        IpAddr::V6(group) => check_v6(group),
    }
}

/// RFC 4291, section 2.7: four bits of flags, of which the lowest says that the group is not a
/// permanent one, and four bits of scope.
fn check_v6(group: Ipv6Addr) -> Result<(), DestinationError> {
    let second = group.octets()[1];
    let (is_permanent, scope) = (second & 0x10 == 0, second & 0x0f);
    match scope {
        0 | 0xf => Err(DestinationError::ReservedScope(group)),
        1 | 2 if is_permanent => Err(DestinationError::ControlGroup(group.into())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(to: &str, allows_unicast: bool) -> Result<(), DestinationError> {
        let to: SocketAddr = to.parse().expect("an address");
        check(to, if to.is_ipv4() { Family::V4 } else { Family::V6 }, allows_unicast)
    }

    #[test]
    fn groups_are_taken_and_hosts_only_if_unicast_is_asked_for() {
        for group in
            ["239.1.1.1:5000", "224.0.1.1:5000", "232.1.1.1:5000", "[ff15::1]:5000", "[ff12::1]:5000"]
        {
            assert_eq!(verdict(group, false), Ok(()), "{group}");
        }
        for host in ["10.0.0.1:5000", "127.0.0.1:5000", "[fd00::1]:5000", "[::1]:5000"] {
            assert!(matches!(verdict(host, false), Err(DestinationError::NotMulticast(_))), "{host}");
            assert_eq!(verdict(host, true), Ok(()), "{host}");
        }
    }

    #[test]
    fn what_is_no_destination_is_refused_in_words() {
        for (to, words) in [
            ("224.0.0.1:5000", "use a group of 239"),
            ("224.0.0.251:5353", "use a group of 239"),
            ("[ff02::fb]:5353", "ff15::/16"),
            ("[ff01::1]:5000", "ff15::/16"),
            ("[ff00::1]:5000", "reserved"),
            ("[ff1f::1]:5000", "reserved"),
            ("[ff12::1%8]:5000", "leave out %8"),
            ("239.1.1.1:0", "name a port"),
            ("255.255.255.255:5000", "neither"),
            ("0.0.0.0:5000", "neither"),
            ("[::]:5000", "neither"),
        ] {
            let said = verdict(to, true).expect_err(to).to_string();
            assert!(said.contains(words), "{to}: {said}");
        }
        let other = check("[ff15::1]:5000".parse().expect("an address"), Family::V4, false);
        assert!(other.expect_err("another family").to_string().contains("socket of its family"));
    }
}
