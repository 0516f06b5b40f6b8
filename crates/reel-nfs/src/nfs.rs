//! The procedures of NFS version 3 (RFC 1813). All that would change something is refused.

use crate::handle::{Node, Space};
use crate::limits::{DIRECTORY_BYTES_MAX, DIRECTORY_BYTES_PREFERRED, READ_BYTES_MAX};
use crate::listing::ListedTitle;
use crate::rpc::{Call, add};
use crate::tree::{Entry, Failure, Tree, target_of};
use crate::xdr::Cursor;
use nfs3_types::nfs3::{
    ACCESS3_EXECUTE, ACCESS3_LOOKUP, ACCESS3_READ, ACCESS3resok, FSF3_HOMOGENEOUS, FSF3_SYMLINK,
    FSINFO3resok, FSSTAT3resok, GETATTR3resok, LOOKUP3resok, NFS_PROGRAM, NFS3_FHSIZE, Nfs3Option,
    PATHCONF3resok, READ3resok, READLINK3resok, cookieverf3, entry3, entryplus3, nfspath3, nfsstat3,
    nfstime3,
};
use nfs3_types::xdr_codec::{Opaque, Pack};

/// What a procedure has answered.
#[derive(Debug)]
pub(crate) enum Done {
    /// Its result is in the reply.
    Answered,
    /// The bytes of a title are to be added to the reply.
    Read(ReadCall),
    /// A place is to be held for a reader of a title before the reply.
    Hold(HoldCall),
}

/// A READ of bytes that there are.
#[derive(Clone, Debug)]
pub(crate) struct ReadCall {
    pub(crate) space: Space,
    pub(crate) title: ListedTitle,
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
    /// The user that reads.
    pub(crate) user: u32,
}

/// A READLINK of a link to a title that is to be played.
#[derive(Clone, Debug)]
pub(crate) struct HoldCall {
    pub(crate) title: ListedTitle,
    pub(crate) user: u32,
}

/// Longest name in a directory.
const NAME_BYTES_MAX: usize = 255;
/// As long as a file may be: offsets are signed for most clients.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// Performs a procedure, and writes its result behind the reply so far. A failure that is a status
/// is written by [`fail`].
pub(crate) fn perform(
    tree: &Tree<'_>,
    procedure: NFS_PROGRAM,
    call: &Call<'_>,
    reply: &mut Vec<u8>,
) -> Result<Done, Failure> {
    use NFS_PROGRAM::*;
    let mut arguments = call.arguments;
    match procedure {
        NFSPROC3_NULL => return Ok(Done::Answered),
        NFSPROC3_GETATTR | NFSPROC3_LOOKUP | NFSPROC3_ACCESS | NFSPROC3_READLINK | NFSPROC3_READ
        | NFSPROC3_READDIR | NFSPROC3_READDIRPLUS | NFSPROC3_FSSTAT | NFSPROC3_FSINFO | NFSPROC3_PATHCONF => {
        }
        _ => return Err(nfsstat3::NFS3ERR_ROFS.into()),
    }
    let node = tree.node(arguments.opaque(NFS3_FHSIZE)?)?;
    match procedure {
        NFSPROC3_GETATTR => ok(reply, &GETATTR3resok { obj_attributes: tree.attributes(node)? }),
        NFSPROC3_LOOKUP => lookup(tree, node, arguments, reply)?,
        NFSPROC3_ACCESS => access(tree, node, arguments, reply)?,
        NFSPROC3_READ => return read(tree, node, (arguments, call.user), reply),
        NFSPROC3_READLINK => return hold(tree, node, call.user),
        NFSPROC3_READDIR => list(tree, node, arguments, false, reply)?,
        NFSPROC3_READDIRPLUS => list(tree, node, arguments, true, reply)?,
        NFSPROC3_FSSTAT => ok(reply, &file_system(tree, node)),
        NFSPROC3_FSINFO => ok(reply, &abilities(tree, node)),
        NFSPROC3_PATHCONF => ok(reply, &names(tree, node)),
        _ => return Err(nfsstat3::NFS3ERR_INVAL.into()),
    }
    Ok(Done::Answered)
}

/// Writes the result of a procedure that has failed: its status, and that no attributes follow.
pub(crate) fn fail(procedure: NFS_PROGRAM, status: nfsstat3, reply: &mut Vec<u8>) {
    use NFS_PROGRAM::*;
    let absent = match procedure {
        NFSPROC3_NULL | NFSPROC3_GETATTR => 0,
        NFSPROC3_LOOKUP | NFSPROC3_ACCESS | NFSPROC3_READLINK | NFSPROC3_READ | NFSPROC3_READDIR
        | NFSPROC3_READDIRPLUS | NFSPROC3_FSSTAT | NFSPROC3_FSINFO | NFSPROC3_PATHCONF => 1,
        NFSPROC3_SETATTR | NFSPROC3_WRITE | NFSPROC3_CREATE | NFSPROC3_MKDIR | NFSPROC3_SYMLINK
        | NFSPROC3_MKNOD | NFSPROC3_REMOVE | NFSPROC3_RMDIR | NFSPROC3_COMMIT => 2,
        NFSPROC3_LINK => 3,
        NFSPROC3_RENAME => 4,
    };
    add(reply, &status);
    for _ in 0..absent {
        add(reply, &false);
    }
}

/// Writes the result of a READ up to its bytes, which are padded with zeros to four.
pub(crate) fn read_result(tree: &Tree<'_>, call: &ReadCall, reply: &mut Vec<u8>) {
    add(reply, &nfsstat3::NFS3_OK);
    add(reply, &tree.attributes_after(Node::Title(call.space, call.title.key)));
    add(reply, &call.bytes);
    add(reply, &(call.offset + u64::from(call.bytes) >= call.title.bytes));
    // The length of the opaque bytes.
    add(reply, &call.bytes);
}

/// Writes the result of a READLINK for which a place is held.
pub(crate) fn link_result(tree: &Tree<'_>, title: &ListedTitle, reply: &mut Vec<u8>) {
    let target = target_of(title);
    let link = READLINK3resok {
        symlink_attributes: tree.attributes_after(Node::Title(Space::Open, title.key)),
        data: nfspath3(Opaque::borrowed(&target)),
    };
    ok(reply, &link);
}

fn ok(reply: &mut Vec<u8>, result: &impl Pack) {
    add(reply, &nfsstat3::NFS3_OK);
    add(reply, result);
}

fn lookup(
    tree: &Tree<'_>,
    directory: Node,
    mut arguments: Cursor<'_>,
    reply: &mut Vec<u8>,
) -> Result<(), Failure> {
    // A longer name is a name of nothing.
    let name = arguments.opaque(usize::MAX)?;
    if name.len() > NAME_BYTES_MAX {
        return Err(nfsstat3::NFS3ERR_NAMETOOLONG.into());
    }
    let node = tree.lookup(directory, name)?;
    let found = LOOKUP3resok {
        object: tree.handle(node),
        obj_attributes: Nfs3Option::Some(tree.attributes(node)?),
        dir_attributes: tree.attributes_after(directory),
    };
    ok(reply, &found);
    Ok(())
}

fn access(
    tree: &Tree<'_>,
    node: Node,
    mut arguments: Cursor<'_>,
    reply: &mut Vec<u8>,
) -> Result<(), Failure> {
    let asked = arguments.u32()?;
    let attributes = tree.attributes(node)?;
    let allowed = match node {
        Node::Title(..) => ACCESS3_READ,
        Node::Root | Node::Directory(_) => ACCESS3_READ | ACCESS3_LOOKUP | ACCESS3_EXECUTE,
    };
    ok(reply, &ACCESS3resok { obj_attributes: Nfs3Option::Some(attributes), access: asked & allowed });
    Ok(())
}

/// Only the links of titles are links.
fn hold(tree: &Tree<'_>, node: Node, user: u32) -> Result<Done, Failure> {
    let Node::Title(Space::Open, key) = node else { return Err(nfsstat3::NFS3ERR_INVAL.into()) };
    Ok(Done::Hold(HoldCall { title: tree.title(key)?.clone(), user }))
}

/// A READ may be shortened, and reads nothing at the end and beyond.
fn read(
    tree: &Tree<'_>,
    node: Node,
    (mut arguments, user): (Cursor<'_>, u32),
    reply: &mut Vec<u8>,
) -> Result<Done, Failure> {
    let (offset, count) = (arguments.u64()?, arguments.u32()?);
    let Node::Title(space, key) = node else { return Err(nfsstat3::NFS3ERR_INVAL.into()) };
    let title = tree.title(key)?.clone();
    match space {
        Space::Copy | Space::Play | Space::Linked => {}
        Space::Open => return Err(nfsstat3::NFS3ERR_INVAL.into()),
        Space::Status => {
            read_text(tree, node, tree.status(&title).as_bytes(), (offset, count), reply);
            return Ok(Done::Answered);
        }
    }
    let left = title.bytes.saturating_sub(offset);
    let bytes = count.min(READ_BYTES_MAX).min(u32::try_from(left).unwrap_or(u32::MAX));
    let call = ReadCall { space, title, offset, bytes, user };
    if bytes == 0 {
        // Beyond the end, the offset itself may be as large as can be.
        let end = ReadCall { offset: call.offset.min(call.title.bytes), ..call };
        read_result(tree, &end, reply);
        return Ok(Done::Answered);
    }
    Ok(Done::Read(call))
}

/// Writes the result of a READ of a text.
fn read_text(tree: &Tree<'_>, node: Node, text: &[u8], (offset, count): (u64, u32), reply: &mut Vec<u8>) {
    let from = text.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
    let until = text.len().min(from.saturating_add(count as usize));
    let read = READ3resok {
        file_attributes: tree.attributes_after(node),
        // The cast fits: a text is some lines.
        count: (until - from) as u32,
        eof: until == text.len(),
        data: Opaque::borrowed(&text[from..until]),
    };
    ok(reply, &read);
}

/// READDIR, and READDIRPLUS with attributes and handles (RFC 1813, sections 3.3.16 and 3.3.17). A
/// page in which there is room for no entry is too small.
fn list(
    tree: &Tree<'_>,
    directory: Node,
    mut arguments: Cursor<'_>,
    with_attributes: bool,
    reply: &mut Vec<u8>,
) -> Result<(), Failure> {
    // Cookies mean the same at all times, so there is nothing to verify.
    let (cookie, _verifier) = (arguments.u64()?, arguments.u64()?);
    // How many bytes of names a client likes is only a hint. Zero says nothing, and the first entry
    // is there whatever the hint is, so that clients get on. The servers of Linux and nfs-ganesha
    // take no notice of it at all.
    let hint = if with_attributes { arguments.u32()? } else { 0 };
    let of_names = if hint == 0 { u32::MAX } else { hint };
    let of_all = arguments.u32()?.min(DIRECTORY_BYTES_MAX);
    let mut page = Vec::new();
    add(&mut page, &tree.attributes_after(directory));
    add(&mut page, &cookieverf3::default());
    // Behind the entries: that no other one follows, and whether this is the end.
    let (mut named_bytes, tail_bytes) = (0, 8);
    let mut entries = tree.entries(directory, cookie)?.peekable();
    let mut is_empty = true;
    while let Some(entry) = entries.peek() {
        let (bytes, name_bytes) = entry_bytes(tree, entry, with_attributes);
        named_bytes += name_bytes;
        let is_hinted = !is_empty && named_bytes > of_names as usize;
        if page.len() + bytes.len() + tail_bytes > of_all as usize || is_hinted {
            break;
        }
        page.extend(bytes);
        is_empty = false;
        entries.next();
    }
    let is_end = entries.peek().is_none();
    if is_empty && !is_end || page.len() + tail_bytes > of_all as usize {
        return Err(nfsstat3::NFS3ERR_TOOSMALL.into());
    }
    add(&mut page, &false);
    add(&mut page, &is_end);
    add(reply, &nfsstat3::NFS3_OK);
    reply.extend(page);
    Ok(())
}

/// An entry of a page, and how many bytes of it count as those of names.
fn entry_bytes(tree: &Tree<'_>, entry: &Entry, with_attributes: bool) -> (Vec<u8>, usize) {
    let name = Opaque::borrowed(&entry.name);
    let plain =
        entry3 { fileid: entry.number, name: nfs3_types::nfs3::filename3(name), cookie: entry.cookie };
    let mut bytes = Vec::new();
    add(&mut bytes, &true);
    let name_bytes = 4 + plain.packed_size();
    if with_attributes {
        let entry3 { fileid, name, cookie } = plain;
        let name_attributes = tree.attributes_after(entry.node);
        let name_handle = Nfs3Option::Some(tree.handle(entry.node));
        add(&mut bytes, &entryplus3 { fileid, name, cookie, name_attributes, name_handle });
    } else {
        add(&mut bytes, &plain);
    }
    (bytes, name_bytes)
}

/// Nothing is free for clients, since they cannot write.
fn file_system(tree: &Tree<'_>, node: Node) -> FSSTAT3resok {
    let files = tree.listing.titles().len() as u64;
    FSSTAT3resok {
        obj_attributes: tree.attributes_after(node),
        tbytes: tree.listing.bytes().saturating_add(tree.free_bytes),
        fbytes: tree.free_bytes,
        abytes: 0,
        tfiles: files,
        ffiles: 0,
        afiles: 0,
        invarsec: 0,
    }
}

fn abilities(tree: &Tree<'_>, node: Node) -> FSINFO3resok {
    FSINFO3resok {
        obj_attributes: tree.attributes_after(node),
        rtmax: READ_BYTES_MAX,
        rtpref: READ_BYTES_MAX,
        rtmult: 4096,
        // Nothing can be written, but libnfs mounts no server that says so here.
        wtmax: READ_BYTES_MAX,
        wtpref: READ_BYTES_MAX,
        wtmult: 4096,
        dtpref: DIRECTORY_BYTES_PREFERRED,
        maxfilesize: FILE_BYTES_MAX,
        time_delta: nfstime3 { seconds: 1, nseconds: 0 },
        properties: FSF3_HOMOGENEOUS | FSF3_SYMLINK,
    }
}

fn names(tree: &Tree<'_>, node: Node) -> PATHCONF3resok {
    PATHCONF3resok {
        obj_attributes: tree.attributes_after(node),
        linkmax: 1,
        name_max: NAME_BYTES_MAX as u32,
        no_trunc: true,
        chown_restricted: true,
        case_insensitive: false,
        case_preserving: true,
    }
}
