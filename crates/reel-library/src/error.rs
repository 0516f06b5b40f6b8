//! Errors of ingests and of the library, with texts for the person who asked.

use crate::limits::{ID_SUFFIX_MAX, RENDITIONS_MAX};
use reel_media::MediaError;
use reel_media::cmaf::PackError;
use reel_media::index::IndexError;
use reel_media::progressive::LayoutError;
use reel_volume::VolumeError;
use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

const HELP_IDS_EXHAUSTED: &str = "give the title another name";
const HELP_NO_SPACE: &str = "remove titles, or make a larger volume";
const HELP_DAMAGED: &str = "remove the title and ingest it again";
const HELP_NO_SUCH_TITLE: &str = "`reel titles VOLUME` lists the titles";

/// Why a file was not ingested. Nothing of it remains in the volume.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// The ingest was asked to stop.
    #[error("stopped before the title was complete, and nothing of it was kept")]
    Cancelled,
    /// Every numbered id of this name is in use.
    #[error("all {ID_SUFFIX_MAX} ids made from this name are in use; {HELP_IDS_EXHAUSTED}")]
    IdsExhausted,
    /// The index of the title is beyond the limits of its stored form.
    #[error("{file}: {source}")]
    Index {
        /// The files' names.
        file: String,
        /// The limit that it exceeds.
        source: IndexError,
    },
    /// The program is in a state that it should never reach.
    #[error("internal error, please report it: {what}")]
    Internal {
        /// The contradiction.
        what: &'static str,
    },
    /// Renditions of one title that cannot be switched between.
    #[error("the files are not renditions of one title: {reason}")]
    Ladder {
        /// The difference and its size.
        reason: String,
    },
    /// The content of a file cannot be ingested.
    #[error("{file}: {source}")]
    Media {
        /// Its name.
        file: String,
        /// What is wrong with it.
        source: MediaError,
    },
    /// No file was given.
    #[error("no file was given")]
    NoInput,
    /// The volume is too full.
    #[error("the volume has {free_bytes} bytes free and this needs about {needed_bytes}; {HELP_NO_SPACE}")]
    NoSpace {
        /// Bytes needed, without parity and checksums.
        needed_bytes: u64,
        /// Bytes free for data.
        free_bytes: u64,
    },
    /// A file cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The samples of a file cannot be packed for streaming.
    #[error("{file}: {source}")]
    Pack {
        /// Its name.
        file: String,
        /// What is wrong with it.
        source: PackError,
    },
    /// More renditions than a ladder has steps.
    #[error("{files} files for one title, more than the limit of {RENDITIONS_MAX}")]
    TooManyInputs {
        /// The number of files given.
        files: usize,
    },
    /// The volume failed.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

impl IngestError {
    /// What to do about the error, if there is anything to do. The error's text ends with it.
    ///
    /// `None` for errors in the content of a file: their texts have the advice of [`reel_media`].
    pub fn help(&self) -> Option<Cow<'static, str>> {
        match self {
            IngestError::IdsExhausted => Some(Cow::Borrowed(HELP_IDS_EXHAUSTED)),
            IngestError::NoSpace { .. } => Some(Cow::Borrowed(HELP_NO_SPACE)),
            IngestError::Volume(error) => error.help(),
            _ => None,
        }
    }

    pub(crate) fn internal(what: &'static str) -> IngestError {
        IngestError::Internal { what }
    }
}

/// Why a stored title is not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// A part of the title is not in the catalogue.
    #[error("the title {id} has no {what}; {HELP_DAMAGED}")]
    Incomplete {
        /// The title.
        id: String,
        /// What is missing.
        what: &'static str,
    },
    /// The index of a title cannot be parsed.
    #[error("the index of {id} cannot be parsed: {source}; {HELP_DAMAGED}")]
    Index {
        /// The title.
        id: String,
        /// What is wrong with it.
        source: IndexError,
    },
    /// The title cannot be written as one file.
    #[error("{id} cannot be written as one file: {source}")]
    Layout {
        /// The title.
        id: String,
        /// The reason.
        source: LayoutError,
    },
    /// There is no such title.
    #[error("there is no title {id:?}; {HELP_NO_SUCH_TITLE}")]
    NoSuchTitle {
        /// The id that was requested.
        id: String,
    },
    /// The output of an export failed.
    #[error("writing the export failed: {0}")]
    Output(#[source] io::Error),
    /// Stored bytes cannot be read.
    #[error("reading {id} failed: {source}")]
    Read {
        /// The title.
        id: String,
        /// The error of the volume.
        source: io::Error,
    },
    /// Something that is kept in memory is larger than this version allows.
    #[error("the {what} of {id} has {bytes} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The title.
        id: String,
        /// The part that is too large.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The volume failed.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

impl LibraryError {
    /// What to do about the error, if there is anything to do. The error's text ends with it.
    pub fn help(&self) -> Option<Cow<'static, str>> {
        match self {
            LibraryError::Incomplete { .. } | LibraryError::Index { .. } => Some(Cow::Borrowed(HELP_DAMAGED)),
            LibraryError::NoSuchTitle { .. } => Some(Cow::Borrowed(HELP_NO_SUCH_TITLE)),
            LibraryError::Volume(error) => error.help(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_with_their_help() {
        let id = || "film".to_owned();
        let volume = || VolumeError::TitleExists { id: id() };
        let ingests = [
            IngestError::IdsExhausted,
            IngestError::NoSpace { needed_bytes: 2, free_bytes: 1 },
            IngestError::Volume(volume()),
        ];
        let libraries = [
            LibraryError::Incomplete { id: id(), what: "index" },
            LibraryError::Index { id: id(), source: IndexError::Checksum },
            LibraryError::NoSuchTitle { id: id() },
            LibraryError::Volume(volume()),
        ];
        let ingests = ingests.iter().map(|error| (error.to_string(), error.help()));
        let libraries = libraries.iter().map(|error| (error.to_string(), error.help()));
        for (text, help) in ingests.chain(libraries) {
            let help = help.expect("there is something to do");
            assert!(text.ends_with(&format!("; {help}")), "{text}");
        }
    }
}
