//! Why something was not done with a stream.

use rustix::io::Errno;

/// The number for the program that asked, and a line for the file `error`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Problem {
    /// The error number.
    pub errno: Errno,
    /// What happened, and what to do.
    pub text: String,
}

impl Problem {
    pub(crate) fn new(errno: Errno, text: impl Into<String>) -> Problem {
        Problem { errno, text: text.into() }
    }

    /// The word or number that was written is none (`EINVAL`).
    pub(crate) fn invalid(text: impl Into<String>) -> Problem {
        Problem::new(Errno::INVAL, text)
    }

    /// Not in this state (`EBUSY`).
    pub(crate) fn busy(text: impl Into<String>) -> Problem {
        Problem::new(Errno::BUSY, text)
    }

    /// There is no such stream any more (`ENOENT`).
    pub(crate) fn gone() -> Problem {
        Problem::new(Errno::NOENT, "the stream is closed")
    }
}
