//! How a command ends: its exit code, and its message if it fails.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;

use reel_library::{IngestError, LibraryError, StreamError, SubtitleError};
use reel_volume::VolumeError;

/// The exit code of the process.
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
            io::ErrorKind::PermissionDenied => Self::failed(what)
                .help("give this user permission to access it, or run reel as a user who has it"),
            io::ErrorKind::StorageFull => {
                Self::failed(what).help("free some space there, or choose another place")
            }
            io::ErrorKind::InvalidInput => Self::failed(what).help("name a file that can be read"),
            _ => Self::failed(what),
        }
    }

    /// An error of a volume.
    pub(crate) fn volume(error: VolumeError) -> Self {
        Self::helped(volume_exit(&error), &error.to_string(), error.help())
    }

    /// An error of an ingest.
    pub(crate) fn ingest(error: &IngestError) -> Self {
        let exit = match error {
            IngestError::Volume(error) => volume_exit(error),
            IngestError::Open { source, .. } if source.kind() == io::ErrorKind::NotFound => Exit::NotFound,
            _ => Exit::Failed,
        };
        Self::helped(exit, &error.to_string(), error.help())
    }

    /// An error of the library.
    pub(crate) fn library(error: &LibraryError) -> Self {
        let exit = match error {
            LibraryError::Volume(error) => volume_exit(error),
            LibraryError::NoSuchTitle { .. } => Exit::NotFound,
            _ => Exit::Failed,
        };
        Self::helped(exit, &error.to_string(), error.help())
    }

    /// An error of subtitles that were to be added.
    pub(crate) fn subtitles(error: &SubtitleError) -> Self {
        match error {
            SubtitleError::Store(error) => Self::ingest(error),
            SubtitleError::Title(error) => Self::library(error),
            _ => Self::helped(Exit::Failed, &error.to_string(), error.help()),
        }
    }

    /// An error of a form that was to be added.
    pub(crate) fn stream(error: &StreamError) -> Self {
        match error {
            StreamError::Store(error) => Self::ingest(error),
            StreamError::Title(error) => Self::library(error),
            _ => Self::helped(Exit::Failed, &error.to_string(), error.help()),
        }
    }

    /// The text of an error that has no help of its own, in the form `what; advice`.
    pub(crate) fn advised(exit: Exit, text: &str) -> Self {
        match split_advice(text) {
            Some((what, advice)) => Self { exit, what: what.into(), help: Some(advice.into()) },
            None => Self { exit, what: text.into(), help: None },
        }
    }

    /// The text of an error, which ends with its help.
    fn helped(exit: Exit, text: &str, help: Option<Cow<'static, str>>) -> Self {
        let Some(help) = help else { return Self::advised(exit, text) };
        let what = text.strip_suffix(&*help).and_then(|text| text.strip_suffix("; ")).unwrap_or(text);
        Self { exit, what: what.into(), help: Some(help.into()) }
    }

    /// Adds what to do about it, if anything is known.
    #[must_use]
    pub(crate) fn help_if_any(self, help: Option<impl Into<String>>) -> Self {
        match help {
            Some(help) => self.help(help),
            None => self,
        }
    }

    /// Adds what to do about it.
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

/// Cuts at the last "; " that is not in parentheses, since a list of causes in parentheses has
/// semicolons too. Searches from the end, so that a parenthesis in a file name, which comes before,
/// does not count.
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

fn volume_exit(error: &VolumeError) -> Exit {
    match error {
        VolumeError::NotAVolume { .. } | VolumeError::NoSuchTitle { .. } => Exit::NotFound,
        VolumeError::Geometry(_)
        | VolumeError::Options { .. }
        | VolumeError::NotEmpty { .. }
        | VolumeError::OutputExists { .. }
        | VolumeError::PartOfVolume { .. }
        | VolumeError::NotAFile { .. }
        | VolumeError::IsMember { .. } => Exit::Usage,
        VolumeError::File { source, .. } if source.kind() == io::ErrorKind::NotFound => Exit::NotFound,
        _ => Exit::Failed,
    }
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
    fn causes_in_parentheses_are_not_advice() {
        let shown = |text: &str| Failure::advised(Exit::Failed, text).to_string();
        let lost = "bytes are lost (member 3 holds other bytes; member 2 is missing)";
        assert_eq!(shown(lost), format!("error: {lost}"));
        let both = "bytes are lost (member 3; member 2); bring one back (see above)";
        assert_eq!(
            shown(both),
            "error: bytes are lost (member 3; member 2)\nhelp: bring one back (see above)"
        );
        let name = "a smile :( is not empty; choose another place";
        assert_eq!(shown(name), "error: a smile :( is not empty\nhelp: choose another place");
    }

    #[test]
    fn the_help_of_an_error_is_taken_from_the_error() {
        let path = || Path::new("a; b").to_owned();
        let healthy = Failure::volume(VolumeError::Healthy { member: 1, path: path() }).to_string();
        let (what, help) = healthy.split_once("\nhelp: ").unwrap();
        assert_eq!(what, "error: member 1 (a; b) is in use and healthy");
        assert!(help.starts_with("use --replace-healthy"), "{help}");
        let missing = Failure::library(&LibraryError::NoSuchTitle { id: "x".to_owned() });
        assert_eq!(missing.exit, Exit::NotFound);
        assert!(missing.to_string().contains("\nhelp: `reel titles"), "{missing}");
    }

    #[test]
    fn missing_paths_have_their_own_code() {
        let error = io::Error::from(io::ErrorKind::NotFound);
        assert_eq!(Failure::path("read", Path::new("a"), &error).exit, Exit::NotFound);
        let error = io::Error::from(io::ErrorKind::InvalidData);
        assert_eq!(Failure::path("read", Path::new("a"), &error).exit, Exit::Failed);
    }
}
