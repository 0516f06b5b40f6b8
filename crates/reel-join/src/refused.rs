//! Why a session does not get an outlet.

use crate::limits::{NAME_BYTES_MAX, OUTLETS_MAX, OUTLETS_OF_ALL_MAX};
use reel_admit::{Client, OpenRefused};
use reel_pour::PourRefused;
use reel_udp::{DestinationError, OpenError};
use std::io;
use std::net::SocketAddr;

/// Why a session does not get an outlet. The text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinRefused {
    /// No session has this key.
    #[error("there is no session with this key: it has ended, or never was")]
    NoSuchSession,
    /// The kind of destination is not known.
    #[error(
        "there is no destination {0:?}; write file:NAME for a new file of the server's join.directory, tcp:ADDRESS:PORT, or for a transport stream udp:ADDRESS:PORT, rtp:ADDRESS:PORT, or live:NAME for a poured stream"
    )]
    UnknownDestination(String),
    /// The name cannot be that of a file.
    #[error(
        "{name:?} cannot be the name of the file: {why}; write a plain name of at most {NAME_BYTES_MAX} bytes"
    )]
    Name {
        /// As the client wrote it.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The configuration does not allow the destination.
    #[error("the server does not allow {what}; {help}")]
    NotAllowed {
        /// What was asked for.
        what: String,
        /// Which key of the configuration allows it.
        help: &'static str,
    },
    /// The client may not have sessions played anywhere.
    #[error(
        "the server plays sessions into destinations only for chosen clients, and {0} is none of them; an operator can add it to join.clients in the server's configuration"
    )]
    OfOthers(Client),
    /// Nothing takes the connection.
    #[error("tcp:{to} takes no connection: {error}")]
    NoConnection {
        /// The address.
        to: SocketAddr,
        /// The cause.
        error: io::Error,
    },
    /// What is sent in datagrams has packets.
    #[error(
        "only a transport stream is sent to {to}, and this session plays {title} otherwise; open a session of its form ts: /watch/{title}/{title}.ts (`reel form add VOLUME {title} ts` makes that form)"
    )]
    NoTransportStream {
        /// The destination.
        to: String,
        /// The title.
        title: String,
    },
    /// The poured stream is not begun.
    #[error(transparent)]
    Pour(#[from] PourRefused),
    /// The address is not one that can be sent to.
    #[error(transparent)]
    Address(#[from] DestinationError),
    /// There is no socket for datagrams.
    #[error(transparent)]
    Socket(#[from] OpenError),
    /// The system provides no random numbers.
    #[error("the system provides no random numbers for RTP: {0}")]
    Random(io::Error),
    /// A cast of the server sends there.
    #[error("the cast {cast:?} of this server sends to {to}; stop it, or choose another address or port")]
    OfCast {
        /// The address.
        to: SocketAddr,
        /// The cast.
        cast: String,
    },
    /// Another outlet sends there.
    #[error("another outlet sends to {0} already; end it first, or choose another address or port")]
    SentTo(SocketAddr),
    /// There is a file of this name.
    #[error("{0:?} exists already, and no file is ever replaced; choose another name")]
    Exists(String),
    /// Another outlet writes it.
    #[error("{0:?} is being written by another outlet; choose another name")]
    BeingWritten(String),
    /// The directory takes no file.
    #[error("the file cannot be made in join.directory: {}", plain(.0))]
    File(io::Error),
    /// The title cannot be one file.
    #[error("the title {0} has nothing that a plain MP4 file can hold")]
    NoFile(String),
    /// A poured stream has no bytes of before.
    #[error("a poured stream is joined where it is now; leave from_byte out")]
    BeginsNow,
    /// Its program has ended it.
    #[error("no program pours a stream {0} now; `reel pour {0}` does")]
    NotPoured(String),
    /// The session was admitted for an earlier stream of this name.
    #[error("the stream {0} was begun again at another rate; open another session of it")]
    PouredAgain(String),
    /// What programs pour has no times of packets.
    #[error("a poured stream is not sent to {0}; join it to tcp:ADDRESS:PORT or file:NAME")]
    PouredByPackets(String),
    /// The title is shorter.
    #[error("the file of this title ends after {0} bytes, before from_byte")]
    BeyondEnd(u64),
    /// The session plays already.
    #[error(
        "this session plays into an outlet already, and a further one begins where it is; leave from_byte out"
    )]
    Plays,
    /// The session has no such outlet.
    #[error("there is no outlet {0} of a session with this key, or it has ended")]
    NoSuchOutlet(u64),
    /// Another destination is about to take the outlet's place.
    #[error("another destination is taking the place of outlet {0}; try again when it has")]
    BeingReplaced(u64),
    /// The session has enough outlets.
    #[error(
        "this session has {OUTLETS_MAX} open outlets, the most that one may have; end one first (DELETE)"
    )]
    TooManyOfSession,
    /// The session has an outlet to another machine, and what is reserved for it is for one.
    #[error(
        "this session is sent to another machine already, and the network is reserved for it once; open another session for this destination: both read the title once"
    )]
    OneOnLink,
    /// The server has enough outlets.
    #[error(
        "the server has {OUTLETS_OF_ALL_MAX} open outlets, the most that it may have; try again when one has ended"
    )]
    TooMany,
    /// There is no memory for another chain.
    #[error(
        "joins have {0} chains, and more could take media memory that viewers need; try again when one has ended, or raise arena_bytes"
    )]
    NoMemory(usize),
    /// The session's reservation was released, and cannot be had again.
    #[error(transparent)]
    NotAdmitted(#[from] OpenRefused),
    /// The server stops.
    #[error("the server stops")]
    Stopping,
    /// The thread of joins does not answer.
    #[error("the server could not begin in time; try again in a few seconds")]
    NoAnswer,
}

/// An error of a file in plain words.
pub(crate) fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull => {
            "no space is left in the directory; free some, and join again".to_owned()
        }
        io::ErrorKind::QuotaExceeded => {
            "the quota of the server's user is used up in the directory".to_owned()
        }
        io::ErrorKind::FileTooLarge => "the file system of the directory takes no file as large".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => {
            "the file system of the directory is mounted read-only".to_owned()
        }
        io::ErrorKind::PermissionDenied => "the server's user may not write to the directory".to_owned(),
        io::ErrorKind::NotFound => {
            "the directory was removed; make it again, and restart the server".to_owned()
        }
        _ => error.to_string(),
    }
}

impl JoinRefused {
    /// After how many seconds a new request makes sense; 0 if waiting does not help.
    pub fn retry_after_s(&self) -> u64 {
        match self {
            JoinRefused::NotAdmitted(refused) => refused.retry_after_s(),
            JoinRefused::TooMany | JoinRefused::NoMemory(_) | JoinRefused::NoAnswer => 5,
            JoinRefused::Pour(PourRefused::TooMany | PourRefused::NoMemory { .. }) => 5,
            _ => 0,
        }
    }
}
