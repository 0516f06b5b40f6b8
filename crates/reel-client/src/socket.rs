//! Messages and descriptors over a Unix socket that keeps message boundaries (`SOCK_SEQPACKET`).

use super::wire::MESSAGE_BYTES_MAX;
use crate::limits::PROGRAM_DESCRIPTORS;
use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect, recvmsg,
    sendmsg, socket_with,
};
use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

/// What came from the other side.
#[derive(Debug)]
pub enum Heard {
    /// A message, and the descriptors that came with it.
    Message(Vec<u8>, Vec<OwnedFd>),
    /// No message now.
    Nothing,
    /// The other side is gone.
    Gone,
}

/// A socket at `path` that only this user can connect to. A socket that a dead server left there is
/// replaced.
///
/// # Errors
/// The path is too long, another kind of file is there, or a server listens there already.
pub fn listen(path: &Path) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        match dial(path) {
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AddrInUse, "a server listens there already")),
            // No process is at the other end of it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)?,
            Err(error) => return Err(error),
        }
    }
    let socket = new_socket()?;
    bind(&socket, &address)?;
    // Connecting requires the right to write. A process that connects can read all media memory.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(&socket, 64)?;
    Ok(socket)
}

/// Connects to a server.
///
/// # Errors
/// There is no server, or its socket is not this user's.
pub fn dial(path: &Path) -> io::Result<OwnedFd> {
    let socket = new_socket()?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// The user at the other end of a connection.
///
/// # Errors
/// The kernel does not give the user.
pub fn accept_peer(socket: &OwnedFd) -> io::Result<u32> {
    Ok(rustix::net::sockopt::socket_peercred(socket)?.uid.as_raw())
}

/// Sends a message, without waiting. `false` if the other side has not taken the messages before
/// it.
///
/// # Errors
/// The other side is gone.
pub fn say(socket: impl AsFd, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<bool> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(PROGRAM_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors)),
            "more descriptors than a message holds"
        );
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    match sendmsg(socket, &[IoSlice::new(message)], &mut ancillary, flags) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Takes the next message, without waiting. A message that is longer than allowed is
/// [`Heard::Gone`]: no program that uses this library sends one.
///
/// # Errors
/// Those of the kernel.
pub fn hear(socket: impl AsFd) -> io::Result<Heard> {
    let mut bytes = vec![0; MESSAGE_BYTES_MAX + 1];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(PROGRAM_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let mut got = recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags);
    if let Err(Errno::CONNRESET) = got {
        // The other side has gone and had not read all. What it had said before comes after this.
        got = recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags);
    }
    let got = match got {
        Ok(got) => got.bytes,
        Err(Errno::AGAIN) => return Ok(Heard::Nothing),
        Err(Errno::CONNRESET) => return Ok(Heard::Gone),
        Err(error) => return Err(error.into()),
    };
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if got == 0 || got > MESSAGE_BYTES_MAX {
        return Ok(Heard::Gone);
    }
    bytes.truncate(got);
    Ok(Heard::Message(bytes, descriptors))
}

fn new_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel reports the unread message first, by an error, and what was said before after it.
    #[test]
    fn what_was_said_before_an_end_is_heard_although_not_all_was_read() {
        let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (server, program) =
            rustix::net::socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None).expect("a pair");
        assert!(say(&server, b"a bell", &[]).expect("said"));
        assert!(say(&program, b"the end", &[]).expect("said"));
        drop(program);
        assert!(matches!(hear(&server), Ok(Heard::Message(bytes, _)) if bytes == b"the end"));
        assert!(matches!(hear(&server), Ok(Heard::Gone)));
    }
}
