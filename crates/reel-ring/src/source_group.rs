use std::io;
use std::mem::{offset_of, size_of};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use libc::group_source_req;

/// Bytes of `struct group_source_req` (RFC 3678, section 5.1).
const REQUEST_BYTES: usize = size_of::<group_source_req>();

/// Has a socket receive what one sender sends to a group, and routers forward that alone (RFC
/// 4607). Interface 0 is that of the routing table.
///
/// # Errors
/// If the families of group and sender differ, no interface leads to the group, or the kernel
/// refuses another sender of it.
pub fn join_source_group(
    socket: &impl AsFd,
    group: IpAddr,
    sender: IpAddr,
    interface: u32,
) -> io::Result<()> {
    if group.is_ipv4() != sender.is_ipv4() {
        return Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT));
    }
    let level = if group.is_ipv4() { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 };
    let request = request(group, sender, interface);
    // SAFETY: the kernel reads REQUEST_BYTES bytes of `request`, which lives until the call
    // returns.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            libc::MCAST_JOIN_SOURCE_GROUP,
            request.as_ptr().cast(),
            REQUEST_BYTES as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The bytes of `struct group_source_req`. What is not set is zero.
fn request(group: IpAddr, sender: IpAddr, interface: u32) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    let interface_at = offset_of!(group_source_req, gsr_interface);
    bytes[interface_at..interface_at + 4].copy_from_slice(&interface.to_ne_bytes());
    write_address(&mut bytes[offset_of!(group_source_req, gsr_group)..], group);
    write_address(&mut bytes[offset_of!(group_source_req, gsr_source)..], sender);
    bytes
}

/// Writes `struct sockaddr_in` or `sockaddr_in6` with port 0.
fn write_address(bytes: &mut [u8], address: IpAddr) {
    let mut write = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    match SocketAddr::new(address, 0) {
        SocketAddr::V4(address) => {
            write(0, &(libc::AF_INET as libc::sa_family_t).to_ne_bytes());
            write(offset_of!(libc::sockaddr_in, sin_addr), &address.ip().octets());
        }
        SocketAddr::V6(address) => {
            write(0, &(libc::AF_INET6 as libc::sa_family_t).to_ne_bytes());
            write(offset_of!(libc::sockaddr_in6, sin6_addr), &address.ip().octets());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn what_cannot_be_joined_is_an_error() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        let joined = |group, sender, interface| {
            join_source_group(&socket, address(group), address(sender), interface)
                .map_err(|error| error.raw_os_error())
        };
        assert_eq!(joined("232.1.1.1", "fd00::1", 0), Err(Some(libc::EAFNOSUPPORT)));
        assert_eq!(joined("232.1.1.1", "192.0.2.1", u32::MAX >> 1), Err(Some(libc::ENODEV)));
        assert_eq!(joined("192.0.2.2", "192.0.2.1", 1), Err(Some(libc::EINVAL)));
        // Loopback is the first interface of every machine.
        assert_eq!(joined("232.1.1.1", "127.0.0.1", 1), Ok(()));
        assert_eq!(joined("232.1.1.1", "127.0.0.1", 1), Err(Some(libc::EADDRNOTAVAIL)), "joined before");
    }
}
