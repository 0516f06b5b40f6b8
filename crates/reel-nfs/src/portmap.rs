//! The port mapper, version 2 (RFC 1833, section 3): all programs are on one port.

use crate::rpc::add;
use crate::xdr::{Cursor, Garbage};
use nfs3_types::portmap::{IPPROTO_TCP, mapping};
use nfs3_types::xdr_codec::List;
use nfs3_types::{mount, nfs3, portmap};

/// Writes the result of a procedure; `None` if there is no such procedure.
///
/// # Errors
/// [`Garbage`] if the arguments cannot be read.
pub(crate) fn perform(
    procedure: u32,
    mut arguments: Cursor<'_>,
    port: u16,
    reply: &mut Vec<u8>,
) -> Result<Option<()>, Garbage> {
    match procedure {
        // NULL.
        0 => {}
        // SET and UNSET: nothing can be registered.
        1 | 2 => add(reply, &false),
        // GETPORT.
        3 => {
            let (prog, vers, prot, _) =
                (arguments.u32()?, arguments.u32()?, arguments.u32()?, arguments.u32()?);
            let is_here = |known: &mapping| (known.prog, known.vers, known.prot) == (prog, vers, prot);
            let found = mappings(port).into_iter().find(is_here);
            add(reply, &found.map_or(0, |found| found.port));
        }
        // DUMP.
        4 => add(reply, &List(mappings(port).to_vec())),
        _ => return Ok(None),
    }
    Ok(Some(()))
}

fn mappings(port: u16) -> [mapping; 3] {
    let of = |prog, vers| mapping { prog, vers, prot: IPPROTO_TCP, port: port.into() };
    [
        of(portmap::PROGRAM, portmap::VERSION),
        of(mount::PROGRAM, mount::VERSION),
        of(nfs3::PROGRAM, nfs3::VERSION),
    ]
}
