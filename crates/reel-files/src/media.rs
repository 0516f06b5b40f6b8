//! What streams need of a server.

use crate::outlets::Outlets;
use crate::server::AskError;
use crate::times::FileTimes;
use std::fmt::Debug;
use std::io::Read;
use std::ops::Range;
use std::time::Instant;

/// A server, as far as streams are concerned. Each question is answered by `until` or fails.
pub trait Media: Outlets {
    /// When the bytes of a title as one file of this form are shown.
    ///
    /// # Errors
    /// The server does not answer, or not as a Reel server, or has no such title, or two titles
    /// cannot be merged.
    fn file_times(&self, title: &str, form: FileForm, until: Instant) -> Result<FileTimes, NotOpened>;

    /// Opens a session of a title as one file of this form. It is admitted, or refused.
    ///
    /// # Errors
    /// The server does not answer, or not as a Reel server, or refuses.
    fn open(
        &self,
        title: &str,
        form: FileForm,
        as_of: OpenAs<'_>,
        until: Instant,
    ) -> Result<MediaSession, NotOpened>;

    /// Has a session continue in another class. It is admitted there, or refused and left as it is.
    ///
    /// # Errors
    /// As [`Media::open`].
    fn change_class(&self, session: &MediaSession, class: &str, until: Instant) -> Result<(), NotOpened>;

    /// Bytes of the file of a session: all of the range.
    ///
    /// # Errors
    /// As [`Media::open`].
    fn piece(&self, session: &MediaSession, range: Range<u64>, until: Instant) -> Result<Vec<u8>, NotOpened>;

    /// Ends a session.
    ///
    /// # Errors
    /// The server does not answer, or not as a Reel server.
    fn end(&self, session: &MediaSession, until: Instant) -> Result<(), AskError>;

    /// The rate of a poured stream in bits per second; `None` if no program pours it now.
    ///
    /// # Errors
    /// The server does not answer, or not as a Reel server.
    fn poured_bps(&self, name: &str, until: Instant) -> Result<Option<u64>, AskError>;

    /// Opens a session of a poured stream that the server is to play into destinations. It is
    /// admitted, or refused.
    ///
    /// # Errors
    /// As [`Media::open`].
    fn open_to_join(&self, name: &str, as_of: OpenAs<'_>, until: Instant) -> Result<MediaSession, NotOpened>;

    /// Opens a poured stream where it is now. It is admitted, or refused.
    ///
    /// # Errors
    /// As [`Media::open`].
    fn open_poured(&self, name: &str, as_of: OpenAs<'_>, until: Instant) -> Result<PouredStream, NotOpened>;
}

/// A poured stream that was opened.
#[derive(Debug)]
pub struct PouredStream {
    /// What comes of it. A read waits for more. It ends if the program has ended the stream, and
    /// fails otherwise.
    pub bytes: Box<dyn PouredBytes>,
    /// Its connection. When this is dropped, the server reserves nothing for it any more, and a
    /// read that waits ends.
    pub connection: Box<dyn Connection>,
}

/// The bytes of a poured stream.
pub trait PouredBytes: Read + Send + Debug {}

impl<T: Read + Send + Debug> PouredBytes for T {}

/// A connection to a server that ends when this is dropped.
pub trait Connection: Send + Debug {}

/// The form of a title as one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileForm {
    /// MP4.
    #[default]
    Mp4,
    /// The stored transport stream.
    Ts,
}

impl FileForm {
    /// The form that a destination takes, as it is written: what carries packets takes a transport
    /// stream.
    pub(crate) fn of_destination(to: &str) -> FileForm {
        let takes_packets = ["udp:", "rtp:", "live:"].iter().any(|word| to.starts_with(word));
        if takes_packets { FileForm::Ts } else { FileForm::Mp4 }
    }
}

/// How something is opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenAs<'a> {
    /// The class.
    pub class: &'a str,
    /// The user of this machine for whom it is.
    pub user: u32,
}

/// A session of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaSession {
    /// The user of this machine whose session it is.
    pub user: u32,
    /// Its key.
    pub key: String,
    /// The path of its file.
    pub path: String,
}

/// Why there is no session, or no piece of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOpened {
    /// The server gave no answer.
    #[error(transparent)]
    Asked(#[from] AskError),
    /// It refuses.
    #[error("{}", .0.detail)]
    Refused(Refused),
}

/// The answer of a server that refuses (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The status of HTTP.
    pub status: u16,
    /// The kind of problem (`urn:reel:problem:not-admitted`).
    pub kind: String,
    /// An idle server would refuse it, too.
    pub is_never: bool,
    /// What happened, in words.
    pub detail: String,
    /// The whole answer as one line of JSON.
    pub json: String,
}
