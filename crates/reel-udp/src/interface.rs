use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, sendto, socket_with,
};

/// What the kernel knows of a network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) index: u32,
    pub(crate) is_up: bool,
    pub(crate) takes_multicast: bool,
}

/// `IFF_UP` and `IFF_MULTICAST` (netdevice(7)).
const UP: u32 = 1;
const MULTICAST: u32 = 1 << 12;

/// Bytes of `struct nlmsghdr` and `struct ifinfomsg` together (netlink(7), rtnetlink(7)).
const LINK_BYTES: usize = 32;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const NLM_F_REQUEST: u16 = 1;

impl Interface {
    /// Asks the kernel by rtnetlink: the files below `/sys` may be those of another network name
    /// space. `None`: there is no interface of this name.
    pub(crate) fn named(socket: &OwnedFd, name: &str) -> io::Result<Option<Interface>> {
        let index = match netdevice::name_to_index(socket, name) {
            Err(Errno::NODEV | Errno::INVAL) => return Ok(None),
            index => index?,
        };
        let netlink = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        sendto(&netlink, &request(index), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        // The attributes that follow are cut off.
        let mut answer = [0; LINK_BYTES];
        recv(&netlink, answer.as_mut_slice(), RecvFlags::empty())?;
        Ok(flags(&answer)?.map(|flags| Interface {
            index,
            is_up: flags & UP != 0,
            takes_multicast: flags & MULTICAST != 0,
        }))
    }
}

fn request(index: u32) -> [u8; LINK_BYTES] {
    let mut request = [0; LINK_BYTES];
    request[..4].copy_from_slice(&(LINK_BYTES as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    request[20..24].copy_from_slice(&index.to_ne_bytes());
    request
}

/// The flags in an answer. `None`: the interface has vanished since its index was asked for.
fn flags(answer: &[u8; LINK_BYTES]) -> io::Result<Option<u32>> {
    let number = |at: usize| u32::from_ne_bytes([answer[at], answer[at + 1], answer[at + 2], answer[at + 3]]);
    if u16::from_ne_bytes([answer[4], answer[5]]) == RTM_NEWLINK {
        return Ok(Some(number(24)));
    }
    let errno = (number(16) as i32).saturating_neg();
    match errno == Errno::NODEV.raw_os_error() {
        true => Ok(None),
        false => Err(io::Error::from_raw_os_error(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_of_this_machine_are_found() {
        let socket: OwnedFd = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port").into();
        let loopback = Interface::named(&socket, "lo").expect("the kernel answers").expect("loopback");
        assert!(loopback.index > 0 && loopback.is_up);
        for name in ["reel-none", "", "a-name-that-is-far-too-long-for-an-interface"] {
            assert_eq!(Interface::named(&socket, name).expect("the kernel answers"), None, "{name}");
        }
        let gone = flags(&{
            let mut answer = [0; LINK_BYTES];
            answer[4] = 2;
            answer[16..20].copy_from_slice(&(-Errno::NODEV.raw_os_error()).to_ne_bytes());
            answer
        });
        assert_eq!(gone.expect("an answer"), None);
    }
}
