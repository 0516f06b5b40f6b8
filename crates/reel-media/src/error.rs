//! What can be wrong with an input file.

use std::io;

/// Why a file cannot be ingested. The text is for the person who ingests it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
    /// Reading the file costs more than a file of its size may cost (see `limits`).
    #[error(
        "the file is refused because it asks for {value} {what}, and a file of {bytes} bytes may have {limit}; it is damaged or made to cost much: copy its tracks to another file first, for example with `ffmpeg -i FILE -c copy NEW.mkv`"
    )]
    Budget {
        /// What is counted.
        what: &'static str,
        /// What the file asks for, as far as it was read.
        value: u64,
        /// The budget of such a file.
        limit: u64,
        /// Length of the file.
        bytes: u64,
    },
    /// The file has no bytes.
    #[error("the file is empty; copy or record it again")]
    Empty,
    /// Samples are encrypted; Reel stores only clear media.
    #[error("track {track} is encrypted ({scheme}); Reel stores only clear media: decrypt it first")]
    Encrypted {
        /// Track number as the container counts.
        track: u32,
        /// Protection scheme, for example `cenc`.
        scheme: String,
    },
    /// Reading the source failed.
    #[error("cannot read the file: {0}")]
    Io(#[source] io::Error),
    /// A length or count exceeds a limit (see `limits`).
    #[error(
        "{what} is {value}, more than the limit of {limit}; the file is damaged, or made for a purpose that Reel does not support"
    )]
    Limit {
        /// What was counted.
        what: &'static str,
        /// What the file claims.
        value: u64,
        /// What is allowed.
        limit: u64,
    },
    /// The structure of the file contradicts itself.
    #[error(
        "damaged {container} file: {what} (at byte {offset}); repair it first, for example with `ffmpeg -i FILE -c copy NEW.mkv`"
    )]
    Malformed {
        /// `MP4`, `Matroska` or `MPEG-TS`.
        container: &'static str,
        /// What is wrong.
        what: String,
        /// Where.
        offset: u64,
    },
    /// The file has no track to play.
    #[error(
        "no playable track: {0}; Reel stores H.264, HEVC, AV1, VP9, AAC, Opus, AC-3, MP3 and FLAC as they are: convert other tracks first, for example with ffmpeg"
    )]
    NoTracks(String),
    /// The duration is zero.
    #[error(
        "the file has no duration: it has no samples with a duration; check that it plays elsewhere, and create it again"
    )]
    NoDuration,
    /// Not a transport stream, where one is needed.
    #[error("not an MPEG transport stream; `ffmpeg -i FILE -c copy NEW.ts` makes one of other files")]
    NotTransportStream,
    /// Not a container that Reel reads.
    #[error(
        "not an MP4, MOV, Matroska, WebM or MPEG-TS file{0}; use one of these, or convert it first, for example with ffmpeg"
    )]
    UnknownContainer(String),
    /// The file ends before its structure does.
    #[error("the {container} file is cut off: it should continue after byte {offset}; copy it again in full")]
    Truncated {
        /// `MP4`, `Matroska` or `MPEG-TS`.
        container: &'static str,
        /// Where the bytes end.
        offset: u64,
    },
}

impl From<io::Error> for MediaError {
    /// The error that a source passed on, if it is one of these.
    fn from(error: io::Error) -> MediaError {
        error.downcast().unwrap_or_else(MediaError::Io)
    }
}
