//! The port mapper, versions 2 to 4 (RFC 1833): where programs are. Nothing can be registered.

use crate::rpc::add;
use crate::xdr::{Cursor, Garbage};
use nfs3_types::portmap::{IPPROTO_TCP, IPPROTO_UDP, mapping};
use nfs3_types::xdr_codec::{List, Opaque};
use nfs3_types::{mount, nfs3, portmap};
use std::net::{IpAddr, SocketAddr};

/// What the port mapper tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// The port of NFS and MOUNT.
    pub(crate) port: u16,
    /// The port of the port mapper itself, if it has one: by TCP and by UDP.
    pub(crate) mapper_port: Option<u16>,
    /// The address of the server by which the client has asked.
    pub(crate) server: IpAddr,
}

/// The versions that there are.
pub(crate) const VERSIONS: std::ops::RangeInclusive<u32> = portmap::VERSION..=4;

/// Longest name of a transport, longest address and longest owner that are read.
const TEXT_BYTES_MAX: usize = 256;
/// Who has registered the programs.
const OWNER: &str = "reel";

/// Writes the result of a procedure; `None` if there is no such procedure.
///
/// # Errors
/// [`Garbage`] if the arguments cannot be read.
pub(crate) fn perform(
    (version, procedure): (u32, u32),
    mut arguments: Cursor<'_>,
    told: Told,
    reply: &mut Vec<u8>,
) -> Result<Option<()>, Garbage> {
    match (version, procedure) {
        // NULL.
        (_, 0) => {}
        // SET and UNSET.
        (_, 1 | 2) => add(reply, &false),
        // GETPORT.
        (portmap::VERSION, 3) => {
            let (prog, vers, prot, _) =
                (arguments.u32()?, arguments.u32()?, arguments.u32()?, arguments.u32()?);
            let is_here = |known: &mapping| (known.prog, known.vers, known.prot) == (prog, vers, prot);
            add(reply, &told.mappings().find(is_here).map_or(0, |found| found.port));
        }
        // DUMP.
        (portmap::VERSION, 4) => add(reply, &List(told.mappings().collect())),
        // GETADDR, of any version, and GETVERSADDR.
        (3 | 4, 3) | (4, 9) => {
            let (prog, vers) = (arguments.u32()?, arguments.u32()?);
            let transport = arguments.opaque(TEXT_BYTES_MAX)?;
            let is_here = |known: &mapping| {
                let is_version = procedure == 3 || known.vers == vers;
                known.prog == prog && is_version && told.transport(known).as_bytes() == transport
            };
            let found = told.mappings().find(is_here);
            add_text(reply, &found.map_or(String::new(), |found| told.address(&found)));
        }
        // DUMP.
        (3 | 4, 4) => {
            for known in told.mappings() {
                add(reply, &true);
                add(reply, &known.prog);
                add(reply, &known.vers);
                add_text(reply, told.transport(&known));
                add_text(reply, &told.address(&known));
                add_text(reply, OWNER);
            }
            add(reply, &false);
        }
        _ => return Ok(None),
    }
    Ok(Some(()))
}

impl Told {
    fn mappings(self) -> impl Iterator<Item = mapping> {
        let of = |prog, vers, prot, port: u16| mapping { prog, vers, prot, port: port.into() };
        let mapper = self.mapper_port.into_iter().flat_map(move |port| {
            let of_version = move |version| {
                [IPPROTO_TCP, IPPROTO_UDP].map(|protocol| of(portmap::PROGRAM, version, protocol, port))
            };
            VERSIONS.rev().flat_map(of_version)
        });
        let programs =
            [(mount::PROGRAM, 1), (mount::PROGRAM, mount::VERSION), (nfs3::PROGRAM, nfs3::VERSION)];
        mapper.chain(programs.map(|(prog, vers)| of(prog, vers, IPPROTO_TCP, self.port)))
    }

    /// The name of a transport (RFC 5665, section 5.2.3), for the kind of address that the client
    /// uses.
    fn transport(self, mapping: &mapping) -> &'static str {
        match (mapping.prot == IPPROTO_UDP, self.server.to_canonical()) {
            (false, IpAddr::V4(_)) => "tcp",
            (false, IpAddr::V6(_)) => "tcp6",
            (true, IpAddr::V4(_)) => "udp",
            (true, IpAddr::V6(_)) => "udp6",
        }
    }

    /// An address as text (RFC 5665, section 5.2.3): the port is its last two numbers.
    fn address(self, mapping: &mapping) -> String {
        let (server, port) = (self.server.to_canonical(), mapping.port);
        format!("{server}.{}.{}", port >> 8, port & 0xff)
    }
}

/// The address of this machine by which it reaches a client, as the kernel chooses it.
pub(crate) fn address_towards(client: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = match client {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    // Sends nothing.
    let socket = std::net::UdpSocket::bind((any, 0)).ok()?;
    socket.connect(client).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

fn add_text(reply: &mut Vec<u8>, text: &str) {
    add(reply, &Opaque::borrowed(text.as_bytes()));
}
