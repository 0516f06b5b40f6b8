//! Calls and their answers: a state machine without sockets.

use crate::limits::READ_BYTES_MAX;
use crate::nfs::{self, Done, HoldCall, ReadCall};
use crate::rpc::{Call, Heard, accepted, hear, success};
use crate::tree::{Failure, Tree};
use crate::xdr::Garbage;
use crate::{mount, portmap};
use nfs3_types::mount::MOUNT_PROGRAM;
use nfs3_types::nfs3::{NFS_PROGRAM, nfsstat3};
use nfs3_types::rpc::accept_stat_data;
use nfs3_types::{mount as mount3, nfs3, portmap as portmap2};

/// The client of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking {
    /// Whether its address may read.
    pub(crate) is_allowed: bool,
    /// The port of the server, for the port mapper.
    pub(crate) port: u16,
}

/// What a call is answered with.
#[derive(Debug)]
pub(crate) enum Answer {
    /// This reply.
    Reply(Vec<u8>),
    /// This reply and, behind it, the bytes of a title.
    Read(Vec<u8>, ReadCall),
    /// A place is to be held. The first reply is for a client that gets it.
    Hold(Vec<u8>, HoldCall),
    /// The call has to be answered by a newer listing.
    AwaitListing,
}

/// Answers a record.
///
/// # Errors
/// [`Garbage`] if it is no call. There is no reply to that.
pub(crate) fn answer(tree: &Tree<'_>, asking: Asking, record: &[u8]) -> Result<Answer, Garbage> {
    let call = match hear(record)? {
        Heard::Call(call) => call,
        Heard::Denied(reply) => return Ok(Answer::Reply(reply)),
    };
    let answered = match (call.program, call.version) {
        (nfs3::PROGRAM, nfs3::VERSION) => answer_nfs(tree, asking, &call),
        (mount3::PROGRAM, mount3::VERSION) => answer_mount(tree, asking, &call),
        (portmap2::PROGRAM, portmap2::VERSION) => answer_portmap(asking, &call),
        (nfs3::PROGRAM | mount3::PROGRAM, _) => Ok(refused(&call, other_version(nfs3::VERSION))),
        (portmap2::PROGRAM, _) => Ok(refused(&call, other_version(portmap2::VERSION))),
        _ => Ok(refused(&call, accept_stat_data::PROG_UNAVAIL)),
    };
    match answered {
        Ok(answer) => Ok(answer),
        Err(Failure::AwaitListing) => Ok(Answer::AwaitListing),
        Err(Failure::Garbage) => Ok(refused(&call, accept_stat_data::GARBAGE_ARGS)),
        // Of MOUNT and the port mapper, which have failures of their own.
        Err(Failure::Status(_)) => Ok(refused(&call, accept_stat_data::SYSTEM_ERR)),
    }
}

/// The reply to a READ of a title that cannot be read.
pub(crate) fn cannot_read(xid: u32, status: nfsstat3) -> Vec<u8> {
    cannot(NFS_PROGRAM::NFSPROC3_READ, xid, status)
}

/// The reply to a READLINK for which there is no place.
pub(crate) fn cannot_hold(xid: u32, status: nfsstat3) -> Vec<u8> {
    cannot(NFS_PROGRAM::NFSPROC3_READLINK, xid, status)
}

fn cannot(procedure: NFS_PROGRAM, xid: u32, status: nfsstat3) -> Vec<u8> {
    let mut reply = success(xid);
    nfs::fail(procedure, status, &mut reply);
    reply
}

/// The number of a call, for its reply.
pub(crate) fn xid_of(record: &[u8]) -> u32 {
    record.first_chunk().map_or(0, |xid| u32::from_be_bytes(*xid))
}

fn answer_nfs(tree: &Tree<'_>, asking: Asking, call: &Call<'_>) -> Result<Answer, Failure> {
    let Ok(procedure) = NFS_PROGRAM::try_from(call.procedure) else {
        return Ok(refused(call, accept_stat_data::PROC_UNAVAIL));
    };
    let mut reply = success(call.xid);
    let may_read = asking.is_allowed || procedure == NFS_PROGRAM::NFSPROC3_NULL;
    let done = if may_read {
        nfs::perform(tree, procedure, call, &mut reply)
    } else {
        Err(nfsstat3::NFS3ERR_ACCES.into())
    };
    match done {
        Ok(Done::Answered) => {}
        Ok(Done::Read(read)) => {
            debug_assert!(read.bytes <= READ_BYTES_MAX);
            nfs::read_result(tree, &read, &mut reply);
            return Ok(Answer::Read(reply, read));
        }
        Ok(Done::Hold(hold)) => {
            nfs::link_result(tree, &hold.title, &mut reply);
            return Ok(Answer::Hold(reply, hold));
        }
        Err(Failure::Status(status)) => {
            reply = success(call.xid);
            nfs::fail(procedure, status, &mut reply);
        }
        Err(other) => return Err(other),
    }
    Ok(Answer::Reply(reply))
}

fn answer_mount(tree: &Tree<'_>, asking: Asking, call: &Call<'_>) -> Result<Answer, Failure> {
    let Ok(procedure) = MOUNT_PROGRAM::try_from(call.procedure) else {
        return Ok(refused(call, accept_stat_data::PROC_UNAVAIL));
    };
    let mut reply = success(call.xid);
    mount::perform(tree, procedure, call.arguments, asking.is_allowed, &mut reply)?;
    Ok(Answer::Reply(reply))
}

fn answer_portmap(asking: Asking, call: &Call<'_>) -> Result<Answer, Failure> {
    let mut reply = success(call.xid);
    match portmap::perform(call.procedure, call.arguments, asking.port, &mut reply)? {
        Some(()) => Ok(Answer::Reply(reply)),
        None => Ok(refused(call, accept_stat_data::PROC_UNAVAIL)),
    }
}

fn refused(call: &Call<'_>, why: accept_stat_data) -> Answer {
    Answer::Reply(accepted(call.xid, why))
}

fn other_version(version: u32) -> accept_stat_data {
    accept_stat_data::PROG_MISMATCH { low: version, high: version }
}
