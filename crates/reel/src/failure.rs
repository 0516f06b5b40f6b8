//! How a command ends: its exit code, and what it says when it fails.

use std::fmt;
use std::io;
use std::path::Path;

use reel_library::{IngestError, LibraryError};
use reel_volume::VolumeError;

/// What the process tells its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// The work failed.
    Failed = 1,
    /// Wrong usage or configuration.
    Usage = 2,
    /// Something named does not exist.
    NotFound = 3,
    /// A check found damage.
    Damaged = 4,
}

/// The one message of a command that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    what: String,
    help: Option<String>,
}

impl Failure {
    /// The work could not be done.
    pub(crate) fn failed(what: impl fmt::Display) -> Self {
        Self { exit: Exit::Failed, what: what.to_string(), help: None }
    }

    /// The command or its configuration asks for something that makes no sense.
    pub(crate) fn usage(what: impl fmt::Display) -> Self {
        Self { exit: Exit::Usage, what: what.to_string(), help: None }
    }

    /// Something the caller named is not there.
    pub(crate) fn not_found(what: impl fmt::Display) -> Self {
        Self { exit: Exit::NotFound, what: what.to_string(), help: None }
    }

    /// An operating system error about `path`.
    pub(crate) fn path(doing: &str, path: &Path, error: &io::Error) -> Self {
        let what = format!("cannot {doing} {}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::NotFound => Self::not_found(what),
            io::ErrorKind::PermissionDenied => {
                Self::failed(what).help("give this user the right to it, or run reel as the user who has it")
            }
            io::ErrorKind::StorageFull => {
                Self::failed(what).help("free some space there, or choose another place")
            }
            _ => Self::failed(what),
        }
    }

    /// What a volume said. The rooms below say what to do after a semicolon.
    pub(crate) fn volume(error: VolumeError) -> Self {
        Self::of_volume(&error)
    }

    /// Why a film was not taken.
    pub(crate) fn ingest(error: &IngestError) -> Self {
        let exit = match error {
            IngestError::Volume(error) => Self::of_volume(error).exit,
            IngestError::Open { source, .. } if source.kind() == io::ErrorKind::NotFound => Exit::NotFound,
            _ => Exit::Failed,
        };
        Self::with_advice(exit, &error.to_string())
    }

    /// Why a title cannot be had.
    pub(crate) fn library(error: &LibraryError) -> Self {
        let exit = match error {
            LibraryError::Volume(error) => Self::of_volume(error).exit,
            LibraryError::NoSuchTitle { .. } => Exit::NotFound,
            _ => Exit::Failed,
        };
        let failure = Self::with_advice(exit, &error.to_string());
        match error {
            LibraryError::NoSuchTitle { .. } => failure.help("`reel titles VOLUME` lists what there is"),
            _ => failure,
        }
    }

    /// What a room below said of something that has no conversion of its own: `what; advice`.
    pub(crate) fn advised(exit: Exit, text: &str) -> Self {
        Self::with_advice(exit, text)
    }

    fn of_volume(error: &VolumeError) -> Self {
        let exit = match error {
            VolumeError::NotAVolume { .. } | VolumeError::NoSuchTitle { .. } => Exit::NotFound,
            VolumeError::Geometry(_) | VolumeError::Options(_) | VolumeError::NotEmpty { .. } => Exit::Usage,
            VolumeError::File { source, .. } if source.kind() == io::ErrorKind::NotFound => Exit::NotFound,
            _ => Exit::Failed,
        };
        Self::with_advice(exit, &error.to_string())
    }

    /// `what; advice`, taken apart.
    fn with_advice(exit: Exit, text: &str) -> Self {
        match split_advice(text) {
            Some((what, advice)) => Self { exit, what: what.into(), help: Some(advice.into()) },
            None => Self { exit, what: text.into(), help: None },
        }
    }

    /// Adds what the reader can do about it, if anything.
    #[must_use]
    pub(crate) fn help_if_any(self, help: Option<impl Into<String>>) -> Self {
        match help {
            Some(help) => self.help(help),
            None => self,
        }
    }

    /// Adds what the reader can do about it.
    #[must_use]
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// `what; help`, for a line of the log.
pub(crate) fn with_help(what: &str, help: Option<&str>) -> String {
    match help {
        Some(help) => format!("{what}; {help}"),
        None => what.to_owned(),
    }
}

/// Cuts at the last "; " that is not in parentheses: within those, several causes are told one after another. From the
/// end, so that a parenthesis in a file's name, which comes before, is not one of ours.
fn split_advice(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth = depth.saturating_sub(1),
            b';' if depth == 0 && text[at..].starts_with("; ") => {
                return Some((&text[..at], &text[at + 2..]));
            }
            _ => {}
        }
    }
    None
}

/// `error: what`, then `help: what to do`.
impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "error: {}", self.what)?;
        match &self.help {
            Some(help) => write!(out, "\nhelp: {help}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_says_what_and_what_to_do() {
        let failure = Failure::not_found("no title 'x'").help("see `reel titles`");
        assert_eq!(failure.to_string(), "error: no title 'x'\nhelp: see `reel titles`");
        assert_eq!(failure.exit, Exit::NotFound);
    }

    #[test]
    fn causes_in_parentheses_are_no_advice() {
        let told = |text: &str| Failure::advised(Exit::Failed, text).to_string();
        let lost = "bytes are lost (member 3 holds other bytes; member 2 is missing)";
        assert_eq!(told(lost), format!("error: {lost}"));
        let both = "bytes are lost (member 3; member 2); bring one back (see above)";
        assert_eq!(
            told(both),
            "error: bytes are lost (member 3; member 2)\nhelp: bring one back (see above)"
        );
        let name = "a smile :( is not empty; choose another place";
        assert_eq!(told(name), "error: a smile :( is not empty\nhelp: choose another place");
    }

    #[test]
    fn missing_paths_have_their_own_code() {
        let error = io::Error::from(io::ErrorKind::NotFound);
        assert_eq!(Failure::path("read", Path::new("a"), &error).exit, Exit::NotFound);
        let error = io::Error::from(io::ErrorKind::InvalidData);
        assert_eq!(Failure::path("read", Path::new("a"), &error).exit, Exit::Failed);
    }
}
