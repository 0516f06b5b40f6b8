//! The procedures of MOUNT, version 3 (RFC 1813, appendix I): the handles of directories.

use crate::handle::{Node, Space};
use crate::rpc::add;
use crate::tree::{Failure, Tree};
use crate::xdr::Cursor;
use nfs3_types::mount::{
    MNTPATHLEN, MOUNT_PROGRAM, dirpath, export_node, fhandle3, mountres3_ok, mountstat3,
};
use nfs3_types::rpc::auth_flavor;
use nfs3_types::xdr_codec::{List, Opaque};

/// Performs a procedure for a client that may mount, or may not.
pub(crate) fn perform(
    tree: &Tree<'_>,
    procedure: MOUNT_PROGRAM,
    arguments: Cursor<'_>,
    may_mount: bool,
    reply: &mut Vec<u8>,
) -> Result<(), Failure> {
    use MOUNT_PROGRAM::*;
    match procedure {
        MOUNTPROC3_MNT => mount(tree, arguments, may_mount, reply)?,
        // No client is remembered.
        MOUNTPROC3_DUMP => add(reply, &false),
        MOUNTPROC3_EXPORT => add(reply, &exports()),
        MOUNTPROC3_NULL | MOUNTPROC3_UMNT | MOUNTPROC3_UMNTALL => {}
    }
    Ok(())
}

/// Writes the result of a procedure of version 1 (RFC 1094, appendix A) or 2; `None` if it is not
/// performed.
pub(crate) fn perform_old(procedure: u32, reply: &mut Vec<u8>) -> Option<()> {
    match procedure {
        // NULL, UMNT and UMNTALL.
        0 | 3 | 4 => {}
        // DUMP.
        2 => add(reply, &false),
        // EXPORT and EXPORTALL.
        5 | 6 => add(reply, &exports()),
        _ => return None,
    }
    Some(())
}

fn mount(
    tree: &Tree<'_>,
    mut arguments: Cursor<'_>,
    may_mount: bool,
    reply: &mut Vec<u8>,
) -> Result<(), Failure> {
    let path = arguments.opaque(MNTPATHLEN)?;
    if !may_mount {
        add(reply, &mountstat3::MNT3ERR_ACCES);
        return Ok(());
    }
    let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let node = match (names.next(), names.next()) {
        (None, _) => Some(Node::Root),
        (Some(name), None) => Space::by_name(name).map(Node::Directory),
        _ => None,
    };
    let Some(node) = node else {
        add(reply, &mountstat3::MNT3ERR_NOENT);
        return Ok(());
    };
    let fhandle = fhandle3(Opaque::owned(tree.handles.of(node)));
    let auth_flavors = vec![auth_flavor::AUTH_UNIX as u32, auth_flavor::AUTH_NULL as u32];
    add(reply, &mountstat3::MNT3_OK);
    add(reply, &mountres3_ok { fhandle, auth_flavors });
    Ok(())
}

fn exports() -> List<export_node<'static, 'static>> {
    let mut paths = vec!["/".to_owned()];
    paths.extend(Space::LISTED.map(|space| format!("/{}", space.name())));
    let node = |path: String| export_node {
        ex_dir: dirpath(Opaque::owned(path.into_bytes())),
        ex_groups: List(Vec::new()),
    };
    List(paths.into_iter().map(node).collect())
}
