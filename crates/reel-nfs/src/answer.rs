//! Calls and their answers: a state machine without sockets.

use crate::limits::{ANSWER_TIMES_MAX, READ_BYTES_MAX};
use crate::nfs::{self, Done, HoldCall, ReadCall};
use crate::portmap::Told;
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
    /// What the port mapper tells it.
    pub(crate) told: Told,
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
        (mount3::PROGRAM, 1 | 2) => answer_old_mount(&call),
        (nfs3::PROGRAM, _) => Ok(refused(&call, other_version(nfs3::VERSION, nfs3::VERSION))),
        (mount3::PROGRAM, _) => Ok(refused(&call, other_version(1, mount3::VERSION))),
        _ => answer_portmap(asking, &call).map(Answer::Reply).map_err(Failure::from),
    };
    match answered {
        Ok(answer) => Ok(answer),
        Err(Failure::AwaitListing) => Ok(Answer::AwaitListing),
        Err(Failure::Garbage) => Ok(refused(&call, accept_stat_data::GARBAGE_ARGS)),
        // Of MOUNT and the port mapper, which have failures of their own.
        Err(Failure::Status(_)) => Ok(refused(&call, accept_stat_data::SYSTEM_ERR)),
    }
}

/// Answers a datagram, which is a question to the port mapper. `None` if it is none, or if the
/// answer is much longer: its sender may be another one than it says.
pub(crate) fn answer_datagram(asking: Asking, datagram: &[u8]) -> Option<Vec<u8>> {
    let answer = match hear(datagram).ok()? {
        Heard::Call(call) => answer_portmap(asking, &call).ok()?,
        Heard::Denied(reply) => reply,
    };
    (answer.len() <= ANSWER_TIMES_MAX * datagram.len()).then_some(answer)
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

/// The versions of MOUNT before version 3 only tell what there is: their handles are too short.
fn answer_old_mount(call: &Call<'_>) -> Result<Answer, Failure> {
    let mut reply = success(call.xid);
    Ok(match mount::perform_old(call.procedure, &mut reply) {
        Some(()) => Answer::Reply(reply),
        None => refused(call, accept_stat_data::PROC_UNAVAIL),
    })
}

/// Answers a question to the port mapper, or to a program that there is not.
fn answer_portmap(asking: Asking, call: &Call<'_>) -> Result<Vec<u8>, Garbage> {
    let why = match call.program {
        portmap2::PROGRAM if portmap::VERSIONS.contains(&call.version) => {
            let mut reply = success(call.xid);
            let asked = (call.version, call.procedure);
            if portmap::perform(asked, call.arguments, asking.told, &mut reply)?.is_some() {
                return Ok(reply);
            }
            accept_stat_data::PROC_UNAVAIL
        }
        portmap2::PROGRAM => other_version(*portmap::VERSIONS.start(), *portmap::VERSIONS.end()),
        _ => accept_stat_data::PROG_UNAVAIL,
    };
    Ok(accepted(call.xid, why))
}

fn refused(call: &Call<'_>, why: accept_stat_data) -> Answer {
    Answer::Reply(accepted(call.xid, why))
}

fn other_version(low: u32, high: u32) -> accept_stat_data {
    accept_stat_data::PROG_MISMATCH { low, high }
}
