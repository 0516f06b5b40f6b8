//! Streams that a command opens for the program that takes its place in the process
//! (`reel tap --mapped`, `reel pour --mapped`).
//!
//! The program inherits a socket, whose other end is closed, as standard input (tap) or standard
//! output (pour). Messages wait in it, one for each stream: the message of the socket for programs
//! that is about the stream, with the descriptors that belong to it, and before them that of the
//! connection to the server. So nothing depends on numbers of descriptors. A program that does not
//! take the messages reads one of them and the end, or cannot write; and when the socket is closed,
//! the kernel closes what waits in it, and the server ends the streams.

use super::{Client, ClientError, Wanted};
use crate::limits::INHERITED_STREAMS_MAX;
use crate::pour::{PourWanted, Pouring};
use crate::socket::{Heard, hear, say};
use crate::wire::{OpenedStream, PourRequest, Reply, Request};
use reel_arena::Others;
use rustix::event::PollFlags;
use rustix::fs::{Mode, OFlags, open};
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::stdio::{dup2_stdin, dup2_stdout, stdin, stdout};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A message, and the descriptors that came with it.
type Waiting = (Vec<u8>, Vec<OwnedFd>);

/// What is wrong with an inherited standard input or output.
#[derive(Clone, Copy)]
struct Texts {
    /// It is no socket with streams.
    none: &'static str,
    /// What is in it is not valid.
    wrong: &'static str,
}

const TAP: Texts = Texts {
    none: "standard input is no stream of `reel tap --mapped`, or another program has taken it",
    wrong: "standard input has no valid stream of `reel tap --mapped`, or one of another version",
};
const POUR: Texts = Texts {
    none: "standard output is no stream of `reel pour --mapped`, or another program has taken it",
    wrong: "standard output has no valid stream of `reel pour --mapped`, or one of another version",
};

/// A stream that the program pours, and that a command has begun for it.
pub struct InheritedPour {
    /// The connection of the stream.
    pub client: Client,
    /// Its name there.
    pub stream: u64,
    /// What was declared.
    pub wanted: PourWanted,
}

impl Client {
    /// Opens streams for a program that takes the place of this one. Returns what is to be its
    /// standard input; [`Client::inherit_tap`] takes the streams from there.
    ///
    /// # Errors
    /// One of the streams was not opened; or more than [`INHERITED_STREAMS_MAX`] are wanted; or the
    /// connection failed. All of its streams have then ended.
    pub fn open_for_exec(mut self, set: &[Wanted]) -> Result<OwnedFd, ClientError> {
        if set.is_empty() || set.len() > INHERITED_STREAMS_MAX {
            return Err(ClientError::NoStream("a program inherits at least one stream, and not so many"));
        }
        let (own, inherited) = pair()?;
        for Wanted { title, class, from_bytes } in set.iter().cloned() {
            let tag = self.next_tag;
            self.next_tag += 1;
            self.tell(&Request::Open { tag, from_bytes, title, class })?;
            let (message, descriptors) = self.await_opened(tag)?;
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            self.leave(&own, &message, &descriptors)?;
        }
        Ok(inherited)
    }

    /// Pours a stream for a program that takes the place of this one. Returns what is to be its
    /// standard output; [`Client::inherit_pour`] takes the stream from there.
    ///
    /// # Errors
    /// [`ClientError::Refused`], or the connection failed.
    pub fn pour_for_exec(mut self, wanted: PourWanted) -> Result<OwnedFd, ClientError> {
        // What only its maker could write, the next program could not.
        let pouring = Pouring::new(&wanted, Others::Write)?;
        let request = self.request_pour(wanted, &pouring)?;
        let (own, inherited) = pair()?;
        let [memory, reader] = pouring.memories();
        self.leave(&own, &Request::Pour(request).encode()?, &[memory.fd(), reader.fd()])?;
        Ok(inherited)
    }

    /// Takes the streams that `reel tap --mapped` has opened for this program, and their
    /// connection. Standard input is empty from then on, also for programs that this one starts.
    ///
    /// # Errors
    /// [`ClientError::NotInherited`]: the program was started in another way, and standard input is
    /// as it was. Or what waited there could not be used.
    pub fn inherit_tap() -> Result<(Client, Vec<u64>), ClientError> {
        let taken = Client::inherit_tap_from(stdin())?;
        dup2_stdin(nothing()?).map_err(|error| ClientError::Socket(error.into()))?;
        Ok(taken)
    }

    /// The same from a socket that is not standard input.
    ///
    /// # Errors
    /// Those of [`Client::inherit_tap`].
    pub fn inherit_tap_from(inherited: BorrowedFd<'_>) -> Result<(Client, Vec<u64>), ClientError> {
        let wrong = || ClientError::InheritedWrong(TAP.wrong);
        let (mut client, mut streams) = (None, Vec::new());
        for (message, mut descriptors) in waiting(inherited, TAP)? {
            let Ok(Reply::Opened(opened)) = Reply::decode(&message) else { return Err(wrong()) };
            if descriptors.is_empty() {
                return Err(wrong());
            }
            // All of them came over one connection.
            let connection = descriptors.remove(0);
            let client = client.get_or_insert_with(|| Client::over(connection));
            streams.push(client.inherit_stream(&opened, descriptors)?);
        }
        Ok((client.ok_or_else(wrong)?, streams))
    }

    /// Takes the stream that `reel pour --mapped` has begun for this program. What is written to
    /// standard output from then on is lost.
    ///
    /// # Errors
    /// Those of [`Client::inherit_tap`], of standard output.
    pub fn inherit_pour() -> Result<InheritedPour, ClientError> {
        let taken = Client::inherit_pour_from(stdout())?;
        dup2_stdout(nothing()?).map_err(|error| ClientError::Socket(error.into()))?;
        Ok(taken)
    }

    /// The same from a socket that is not standard output.
    ///
    /// # Errors
    /// Those of [`Client::inherit_pour`].
    pub fn inherit_pour_from(inherited: BorrowedFd<'_>) -> Result<InheritedPour, ClientError> {
        let wrong = || ClientError::InheritedWrong(POUR.wrong);
        let mut waiting = waiting(inherited, POUR)?;
        let (message, descriptors) = waiting.pop().filter(|_| waiting.is_empty()).ok_or_else(wrong)?;
        let Ok(Request::Pour(request)) = Request::decode(&message) else { return Err(wrong()) };
        let [connection, memory, reader] = <[OwnedFd; 3]>::try_from(descriptors).map_err(|_| wrong())?;
        let PourRequest { tag, name, content_type, bytes_per_s, workahead_bytes, delay_ns, .. } = request;
        let wanted = PourWanted { name, content_type, bytes_per_s, workahead_bytes, delay_ns };
        let pouring = Pouring::inherited(&wanted, [memory, reader])?;
        let mut client = Client::over(connection);
        client.next_tag = tag.saturating_add(1);
        client.pouring.insert(tag, pouring);
        Ok(InheritedPour { client, stream: tag, wanted })
    }

    fn inherit_stream(
        &mut self,
        opened: &OpenedStream,
        descriptors: Vec<OwnedFd>,
    ) -> Result<u64, ClientError> {
        self.next_tag = self.next_tag.max(opened.tag.saturating_add(1));
        self.map(opened, descriptors)
    }

    /// The server's answer to a request for a stream, as it came.
    fn await_opened(&mut self, tag: u64) -> Result<Waiting, ClientError> {
        loop {
            self.kernel_calls += 1;
            let (message, descriptors) = match hear(&self.socket).map_err(ClientError::Socket)? {
                Heard::Nothing => {
                    self.wait(PollFlags::IN)?;
                    continue;
                }
                Heard::Gone => return Err(ClientError::Gone),
                Heard::Message(message, descriptors) => (message, descriptors),
            };
            match Reply::decode(&message)? {
                Reply::Opened(opened) if opened.tag == tag => return Ok((message, descriptors)),
                Reply::Refused { tag: refused, code, retry_after_s, text } if refused == tag => {
                    return Err(ClientError::Refused { code, text, retry_after_s });
                }
                _ => {}
            }
        }
    }

    /// Leaves a message for the next program.
    fn leave(&self, own: &OwnedFd, message: &[u8], memories: &[BorrowedFd<'_>]) -> Result<(), ClientError> {
        let descriptors = [&[self.socket.as_fd()], memories].concat();
        match say(own, message, &descriptors).map_err(ClientError::Socket)? {
            true => Ok(()),
            false => Err(ClientError::Socket(io::ErrorKind::WouldBlock.into())),
        }
    }
}

/// A socket for messages to the next program, and the end that it inherits.
fn pair() -> Result<(OwnedFd, OwnedFd), ClientError> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|error| ClientError::Socket(error.into()))
}

/// What waits in a socket that the program has inherited.
fn waiting(inherited: BorrowedFd<'_>, texts: Texts) -> Result<Vec<Waiting>, ClientError> {
    let none = || ClientError::NotInherited(texts.none);
    let kind = (socket_domain(inherited), socket_type(inherited));
    if kind != (Ok(AddressFamily::UNIX), Ok(SocketType::SEQPACKET)) {
        return Err(none());
    }
    let mut messages = Vec::new();
    // All of them were there before the program began, so there is nothing to wait for.
    while messages.len() <= INHERITED_STREAMS_MAX {
        match hear(inherited).map_err(|_| none())? {
            Heard::Message(message, descriptors) => messages.push((message, descriptors)),
            Heard::Gone if messages.is_empty() => return Err(none()),
            Heard::Gone => return Ok(messages),
            Heard::Nothing => break,
        }
    }
    Err(ClientError::InheritedWrong(texts.wrong))
}

/// An input that is empty, and an output that takes all.
fn nothing() -> Result<OwnedFd, ClientError> {
    open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| ClientError::Socket(error.into()))
}
