//! Users of this machine behind requests over HTTP. TCP carries no users, so the kernel is asked
//! who has made the socket at the other end (`sock_diag(7)`).
//!
//! A program names the user for whom it asks in the field [`USER_FIELD`]. It is believed if it is
//! of root or of the user of this server; of any other program the request is that of its own user.
//! Only requests of this machine that no proxy has passed on have a user.

use reel_admit::Client;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType, getpeername, getsockname,
    netlink, recv, send, socket_with,
};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

/// The field in which a program names a user of this machine by its number.
pub const USER_FIELD: &str = "reel-user";

/// The two ends of a connection within this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalSocket {
    other: SocketAddr,
    own: SocketAddr,
}

/// `struct nlmsghdr` (`linux/netlink.h`).
const HEADER_BYTES: usize = 16;
/// `struct inet_diag_req_v2`, and where its `struct inet_diag_sockid` begins
/// (`linux/inet_diag.h`).
const REQUEST_BYTES: usize = 56;
const SOCKET_AT: usize = 8;
/// `idiag_uid` in `struct inet_diag_msg`: after four octets, the socket and three words.
const USER_AT: usize = 4 + 48 + 12;
/// `SOCK_DIAG_BY_FAMILY` (`linux/sock_diag.h`).
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST`.
const NLM_F_REQUEST: u16 = 1;
/// `IPPROTO_TCP`.
const TCP: u8 = 6;
/// The kernel answers while it is asked. A bound for what cannot be foreseen.
const ANSWER_TIME_MAX: Duration = Duration::from_millis(100);

impl LocalSocket {
    /// Those of a socket; `None` if its other end is on another machine, or it has none.
    pub fn of(socket: impl AsFd) -> Option<LocalSocket> {
        let ends = [getpeername(&socket).ok()??, getsockname(&socket).ok()?].map(canonical);
        let [Some(other), Some(own)] = ends else { return None };
        other.ip().is_loopback().then_some(LocalSocket { other, own })
    }

    /// The user who has made the socket at the other end; `None` if the kernel does not say.
    fn user(self) -> Option<u32> {
        let diag = socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            Some(netlink::SOCK_DIAG),
        )
        .ok()?;
        set_socket_timeout(&diag, Timeout::Recv, Some(ANSWER_TIME_MAX)).ok()?;
        send(&diag, &self.question(), SendFlags::empty()).ok()?;
        let mut answer = [0; 512];
        let (bytes, _) = recv(&diag, &mut answer[..], RecvFlags::empty()).ok()?;
        user_in(answer.get(..bytes)?)
    }

    fn question(self) -> [u8; HEADER_BYTES + REQUEST_BYTES] {
        let mut question = [0; HEADER_BYTES + REQUEST_BYTES];
        question[0..4].copy_from_slice(&((HEADER_BYTES + REQUEST_BYTES) as u32).to_ne_bytes());
        question[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        question[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
        let request = &mut question[HEADER_BYTES..];
        let family = if self.other.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        (request[0], request[1]) = (family.as_raw() as u8, TCP);
        // In any state.
        request[4..8].fill(0xff);
        let socket = &mut request[SOCKET_AT..];
        socket[0..2].copy_from_slice(&self.other.port().to_be_bytes());
        socket[2..4].copy_from_slice(&self.own.port().to_be_bytes());
        put_address(&mut socket[4..20], self.other.ip());
        put_address(&mut socket[20..36], self.own.ip());
        // Whatever its cookie is (`INET_DIAG_NOCOOKIE`).
        socket[40..48].fill(0xff);
        question
    }
}

/// The client of a request. `address`: who it is by its addresses. `named`: what the field
/// [`USER_FIELD`] says. `socket`: that of the request, if no proxy has passed it on.
pub fn client_of(address: IpAddr, named: Option<&str>, socket: Option<LocalSocket>) -> Client {
    let own = || rustix::process::geteuid().as_raw();
    let user = named.zip(socket.filter(|_| address.is_loopback())).and_then(|(named, socket)| {
        let named = named.trim().parse().ok()?;
        Some(believed(named, socket.user()?, own()))
    });
    user.map_or(Client::Address(address), Client::NamedUser)
}

/// The user for whom a program of user `of_program` asks, which names `named`.
fn believed(named: u32, of_program: u32, own: u32) -> u32 {
    if [0, own].contains(&of_program) { named } else { of_program }
}

/// The user in an answer, which may say that there is no such socket.
fn user_in(answer: &[u8]) -> Option<u32> {
    let kind = answer.get(4..6)?;
    let user = answer.get(HEADER_BYTES + USER_AT..)?.first_chunk::<4>()?;
    (kind == SOCK_DIAG_BY_FAMILY.to_ne_bytes()).then(|| u32::from_ne_bytes(*user))
}

fn canonical(address: SocketAddrAny) -> Option<SocketAddr> {
    let address = SocketAddr::try_from(address).ok()?;
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

fn put_address(into: &mut [u8], address: IpAddr) {
    match address {
        IpAddr::V4(address) => into[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => into.copy_from_slice(&address.octets()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    /// The server's end of a connection, and the client's.
    fn connection(listen: &str, to: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(listen).expect("an address of this machine");
        let to: IpAddr = to.parse().expect("an address");
        let port = listener.local_addr().expect("an address").port();
        let client = TcpStream::connect((to, port)).expect("a connection");
        (listener.accept().expect("a connection").0, client)
    }

    #[test]
    fn the_kernel_says_who_has_made_the_socket_at_the_other_end() {
        let own = rustix::process::geteuid().as_raw();
        for (listen, to) in [
            ("127.0.0.1:0", "127.0.0.1"),
            ("[::1]:0", "::1"),
            ("[::]:0", "127.0.0.1"),
            ("[::]:0", "::ffff:127.0.0.1"),
        ] {
            let (server, client) = connection(listen, to);
            let socket = LocalSocket::of(&server).expect("within this machine");
            assert_eq!(socket.user(), Some(own), "{listen} {to}");
            // Its other side, which nothing has connected from any more.
            drop((server, client));
            let gone = LocalSocket { other: SocketAddr::new(socket.other.ip(), 1), ..socket };
            assert_eq!(gone.user(), None, "{listen} {to}");
        }
    }

    #[test]
    fn a_program_is_believed_that_is_of_root_or_of_the_server() {
        assert_eq!(believed(1001, 0, 1000), 1001);
        assert_eq!(believed(1001, 1000, 1000), 1001);
        assert_eq!(believed(0, 1002, 1000), 1002, "of another one, the request is its own");
    }

    #[test]
    fn a_request_of_this_machine_that_names_a_user_is_of_that_user() {
        let (server, _client) = connection("127.0.0.1:0", "127.0.0.1");
        let (socket, here) = (LocalSocket::of(&server), IpAddr::from([127, 0, 0, 1]));
        assert!(matches!(client_of(here, Some(" 1001"), socket), Client::NamedUser(_)));
        for named in [None, Some(""), Some("root"), Some("-1"), Some("4294967296"), Some("1, 2")] {
            assert_eq!(client_of(here, named, socket), Client::Address(here), "{named:?}");
        }
        assert_eq!(client_of(here, Some("0"), None), Client::Address(here), "a proxy has passed it on");
        let elsewhere = IpAddr::from([192, 0, 2, 1]);
        assert_eq!(client_of(elsewhere, Some("0"), socket), Client::Address(elsewhere));
    }

    #[test]
    fn an_answer_without_a_user_says_nothing() {
        assert_eq!(user_in(&[]), None);
        let mut answer = vec![0; HEADER_BYTES + USER_AT + 4];
        answer[4] = 2;
        assert_eq!(user_in(&answer), None, "an error");
        answer[4] = SOCK_DIAG_BY_FAMILY as u8;
        assert_eq!(user_in(&answer), Some(0));
        assert_eq!(user_in(&answer[..HEADER_BYTES + USER_AT + 3]), None);
    }
}
