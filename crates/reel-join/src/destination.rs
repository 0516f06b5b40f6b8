//! Where a session may be played to: what a client writes, and what the configuration allows. Pure,
//! but for the directory, which was opened before.

use crate::directory::{JoinDirectory, PART_PREFIX};
use crate::limits::{DESTINATION_BYTES_MAX, NAME_BYTES_MAX};
use crate::refused::JoinRefused;
use std::fmt;
use std::sync::Arc;

/// A destination, as a client writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A new file of this name in the configured directory.
    File(String),
}

/// What the configuration allows. Without it, nothing is allowed.
#[derive(Clone, Default)]
pub struct Targets {
    /// The directory of `file:`.
    pub directory: Option<Arc<JoinDirectory>>,
}

impl Destination {
    /// Reads a destination.
    ///
    /// # Errors
    /// [`JoinRefused::UnknownDestination`], [`JoinRefused::Name`].
    pub fn parse(text: &str) -> Result<Destination, JoinRefused> {
        let unknown = || JoinRefused::UnknownDestination(text.chars().take(DESTINATION_BYTES_MAX).collect());
        if text.len() > DESTINATION_BYTES_MAX {
            return Err(unknown());
        }
        match text.split_once(':') {
            Some(("file", name)) => name_of(name).map(Destination::File),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::File(name) => write!(out, "file:{name}"),
        }
    }
}

impl Targets {
    /// Whether any destination is allowed.
    pub fn are_any(&self) -> bool {
        self.directory.is_some()
    }

    /// The directory of files.
    ///
    /// # Errors
    /// [`JoinRefused::NotAllowed`] if none is configured.
    pub(crate) fn directory(&self) -> Result<&Arc<JoinDirectory>, JoinRefused> {
        self.directory.as_ref().ok_or_else(|| JoinRefused::NotAllowed {
            what: "files".to_owned(),
            help: "write `directory = \"...\"` below `[join]` in reel.toml",
        })
    }
}

/// A name that stands for one file of one directory, whatever is done with it.
fn name_of(name: &str) -> Result<String, JoinRefused> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > NAME_BYTES_MAX {
        "it is too long"
    } else if name == "." || name == ".." {
        "it is a directory"
    } else if name.contains('/') {
        "it has a slash"
    } else if name.chars().any(char::is_control) {
        "it has a control character"
    } else if name.starts_with(PART_PREFIX) {
        "names that begin so are for files that are not complete"
    } else {
        return Ok(name.to_owned());
    };
    Err(JoinRefused::Name { name: name.chars().take(NAME_BYTES_MAX).collect(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_files() {
        let longest = "a".repeat(NAME_BYTES_MAX);
        for name in ["copy.mp4", "a b", "film: the second.mp4", ".hidden", "...", "žluťoučký kůň", &longest]
        {
            let parsed = Destination::parse(&format!("file:{name}")).expect(name);
            assert_eq!(parsed, Destination::File(name.to_owned()));
            assert_eq!(parsed.to_string(), format!("file:{name}"));
        }
        let longer = format!("{longest}a");
        let part = format!("{PART_PREFIX}1-1");
        for name in ["", ".", "..", "/", "/etc/passwd", "a/b", "../a", "a\0b", "a\nb", &longer, &part] {
            let refused = Destination::parse(&format!("file:{name}"));
            assert!(matches!(refused, Err(JoinRefused::Name { .. })), "{name:?}");
        }
    }

    #[test]
    fn other_words_are_no_destinations() {
        let long = format!("file:{}", "a".repeat(DESTINATION_BYTES_MAX));
        for text in ["", "file", "copy.mp4", "FILE:a", " file:a", "fd:3", "http://a/", &long] {
            let refused = Destination::parse(text);
            assert!(matches!(refused, Err(JoinRefused::UnknownDestination(_))), "{text:?}");
        }
    }

    #[test]
    fn nothing_is_allowed_by_default() {
        assert!(!Targets::default().are_any());
        let Err(refused) = Targets::default().directory() else { panic!("no directory is configured") };
        assert!(refused.to_string().contains("[join]"), "{refused}");
    }
}
