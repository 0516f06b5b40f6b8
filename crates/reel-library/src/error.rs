//! Errors of ingests and of the library, with texts for the person who asked.

use crate::limits::{ID_SUFFIX_MAX, RENDITIONS_MAX};
use reel_media::MediaError;
use reel_media::cmaf::PackError;
use reel_media::index::IndexError;
use reel_media::progressive::LayoutError;
use reel_media::transport::MuxError;
use reel_volume::VolumeError;
use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

const HELP_COSTLY: &str =
    "copy its tracks to another file first, for example with `ffmpeg -i FILE -c copy NEW.mkv`";
const HELP_IDS_EXHAUSTED: &str = "give the title another name";
const HELP_ONE_STREAM: &str = "ingest each file as a title of its own, or without the form ts";
const HELP_SMALL_SYMBOLS: &str = "make a volume with `reel volume create --geometry ts`";
const HELP_NO_STREAM: &str = "`reel form add VOLUME TITLE ts` makes one";
const HELP_HAS_STREAM: &str = "`reel export --form ts` writes it to a file";
const HELP_CHANGED: &str = "try it again";
const HELP_ONLY_STREAM: &str = "`reel export --form ts` writes it to a file";
const HELP_MERGED: &str =
    "PICTURES+SOUND names two titles: the pictures of the first are played with the sound of the second";
const HELP_TOO_MANY_MERGED: &str = "try again when one of them has ended";
const HELP_NO_SPACE: &str = "remove titles, or make a larger volume";
const HELP_DAMAGED: &str = "remove the title and ingest it again";
const HELP_NO_SUCH_TITLE: &str = "`reel titles VOLUME` lists the titles";
const HELP_UNUSABLE: &str = "SubRip (.srt), WebVTT (.vtt) and SubStation Alpha (.ass) are read";
const HELP_LANGUAGE: &str = "write it as en, deu or pt-BR";
const HELP_TAKEN: &str = "give these another label";

/// Why a file was not ingested. Nothing of it remains in the volume.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// The ingest was asked to stop.
    #[error("stopped before the title was complete, and nothing of it was kept")]
    Cancelled,
    /// Parsing a file takes more of a processor than a file of its size may take.
    #[error(
        "{file} takes more than {seconds} s of a processor, the budget of a file of its size; {HELP_COSTLY}"
    )]
    Costly {
        /// Its name.
        file: String,
        /// The budget.
        seconds: u64,
    },
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
    /// The title cannot be made into a transport stream.
    #[error("{file}: {source}")]
    Multiplex {
        /// The files' names.
        file: String,
        /// The reason.
        source: MuxError,
    },
    /// No file was given.
    #[error("no file was given")]
    NoInput,
    /// Several files cannot be one transport stream.
    #[error(
        "{files} files for one title with the form ts, which holds one transport stream; {HELP_ONE_STREAM}"
    )]
    SeveralStreams {
        /// The number of files given.
        files: usize,
    },
    /// A packet of the network does not fit a symbol of the volume.
    #[error(
        "the symbols of this volume have {symbol_bytes} bytes, and the form ts needs 1316; {HELP_SMALL_SYMBOLS}"
    )]
    SmallSymbols {
        /// Bytes of a symbol.
        symbol_bytes: usize,
    },
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
    /// What was stored cannot be read.
    #[error(transparent)]
    Stored(LibraryError),
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
            IngestError::Costly { .. } => Some(Cow::Borrowed(HELP_COSTLY)),
            IngestError::IdsExhausted => Some(Cow::Borrowed(HELP_IDS_EXHAUSTED)),
            IngestError::NoSpace { .. } => Some(Cow::Borrowed(HELP_NO_SPACE)),
            IngestError::SeveralStreams { .. } => Some(Cow::Borrowed(HELP_ONE_STREAM)),
            IngestError::SmallSymbols { .. } => Some(Cow::Borrowed(HELP_SMALL_SYMBOLS)),
            IngestError::Stored(error) => error.help(),
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
    /// The title is not stored as a transport stream.
    #[error("{id} has no form ts, a transport stream stored as it is; {HELP_NO_STREAM}")]
    NoStream {
        /// The title.
        id: String,
    },
    /// The title is stored as a transport stream alone.
    #[error(
        "{id} is stored only as a transport stream (form ts), which a server plays at /watch/{id}/stream.m3u8; {HELP_ONLY_STREAM}"
    )]
    OnlyStream {
        /// The title.
        id: String,
    },
    /// Two titles cannot be played as one.
    #[error("{id} cannot be played: {reason}; {HELP_MERGED}")]
    NotMerged {
        /// The name that was requested.
        id: String,
        /// Why not.
        reason: String,
    },
    /// Merged titles that are played take as much memory as they may.
    #[error("{id} cannot be merged, since too many merged titles are played at once; {HELP_TOO_MANY_MERGED}")]
    TooManyMerged {
        /// The name that was requested.
        id: String,
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
            LibraryError::NotMerged { .. } => Some(Cow::Borrowed(HELP_MERGED)),
            LibraryError::TooManyMerged { .. } => Some(Cow::Borrowed(HELP_TOO_MANY_MERGED)),
            LibraryError::NoStream { .. } => Some(Cow::Borrowed(HELP_NO_STREAM)),
            LibraryError::OnlyStream { .. } => Some(Cow::Borrowed(HELP_ONLY_STREAM)),
            LibraryError::Volume(error) => error.help(),
            _ => None,
        }
    }
}

/// Why subtitles were not added to a title, which is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubtitleError {
    /// The file has no subtitles that can be taken.
    #[error("{file}: {reason}; {HELP_UNUSABLE}")]
    Unusable {
        /// Its name.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The language is not written as a tag.
    #[error("{language:?} is no language; {HELP_LANGUAGE}")]
    Language {
        /// What was given.
        language: String,
    },
    /// A viewer could not tell them from subtitles that the title has.
    #[error("the title has subtitles {what} already; {HELP_TAKEN}")]
    Taken {
        /// Their language and label.
        what: String,
    },
    /// They cannot be packed or stored.
    #[error(transparent)]
    Store(#[from] IngestError),
    /// The title is not available.
    #[error(transparent)]
    Title(#[from] LibraryError),
}

impl SubtitleError {
    /// What to do about the error, if there is anything to do. The error's text ends with it.
    pub fn help(&self) -> Option<Cow<'static, str>> {
        match self {
            SubtitleError::Unusable { .. } => Some(Cow::Borrowed(HELP_UNUSABLE)),
            SubtitleError::Language { .. } => Some(Cow::Borrowed(HELP_LANGUAGE)),
            SubtitleError::Taken { .. } => Some(Cow::Borrowed(HELP_TAKEN)),
            SubtitleError::Store(error) => error.help(),
            SubtitleError::Title(error) => error.help(),
        }
    }
}

/// Why a title did not get the form `ts`. The title is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The title has this form.
    #[error("{id} has the form ts already; {HELP_HAS_STREAM}")]
    Exists {
        /// The title.
        id: String,
    },
    /// The title was ingested again meanwhile.
    #[error("{id} was changed by another request; {HELP_CHANGED}")]
    Changed {
        /// The title.
        id: String,
    },
    /// The stream cannot be made or stored.
    #[error(transparent)]
    Store(#[from] IngestError),
    /// The title is not available.
    #[error(transparent)]
    Title(#[from] LibraryError),
}

impl StreamError {
    /// What to do about the error, if there is anything to do. The error's text ends with it.
    pub fn help(&self) -> Option<Cow<'static, str>> {
        match self {
            StreamError::Exists { .. } => Some(Cow::Borrowed(HELP_HAS_STREAM)),
            StreamError::Changed { .. } => Some(Cow::Borrowed(HELP_CHANGED)),
            StreamError::Store(error) => error.help(),
            StreamError::Title(error) => error.help(),
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
            IngestError::Costly { file: id(), seconds: 1 },
            IngestError::IdsExhausted,
            IngestError::NoSpace { needed_bytes: 2, free_bytes: 1 },
            IngestError::SeveralStreams { files: 2 },
            IngestError::SmallSymbols { symbol_bytes: 64 },
            IngestError::Volume(volume()),
        ];
        let libraries = [
            LibraryError::Incomplete { id: id(), what: "index" },
            LibraryError::Index { id: id(), source: IndexError::Checksum },
            LibraryError::NoSuchTitle { id: id() },
            LibraryError::NotMerged { id: id(), reason: "x".to_owned() },
            LibraryError::TooManyMerged { id: id() },
            LibraryError::NoStream { id: id() },
            LibraryError::OnlyStream { id: id() },
            LibraryError::Volume(volume()),
        ];
        let subtitles = [
            SubtitleError::Unusable { file: id(), reason: "x".to_owned() },
            SubtitleError::Language { language: id() },
            SubtitleError::Taken { what: "in de".to_owned() },
            SubtitleError::Title(LibraryError::NoSuchTitle { id: id() }),
        ];
        let streams = [
            StreamError::Exists { id: id() },
            StreamError::Changed { id: id() },
            StreamError::Store(IngestError::SmallSymbols { symbol_bytes: 64 }),
        ];
        let streams = streams.iter().map(|error| (error.to_string(), error.help()));
        let ingests = ingests.iter().map(|error| (error.to_string(), error.help()));
        let libraries = libraries.iter().map(|error| (error.to_string(), error.help()));
        let subtitles = subtitles.iter().map(|error| (error.to_string(), error.help()));
        for (text, help) in ingests.chain(libraries).chain(subtitles).chain(streams) {
            let help = help.expect("there is something to do");
            assert!(text.ends_with(&format!("; {help}")), "{text}");
        }
    }
}
