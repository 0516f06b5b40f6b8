//! What can be wrong with an input file.

use std::io;

/// Why a file cannot be taken. The text is meant for the person who offered the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
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
    Io(#[from] io::Error),
    /// A length or count exceeds what this program takes (see `limits`).
    #[error(
        "{what} is {value}, more than the limit of {limit}; the file is damaged, or made for something Reel does not do"
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
    /// Nothing to play in it.
    #[error(
        "no playable track: {0}; Reel stores H.264, HEVC, AV1, VP9, AAC, Opus, AC-3, MP3 and FLAC as they are: convert other tracks first, for example with ffmpeg"
    )]
    NoTracks(String),
    /// The duration is zero.
    #[error(
        "the file plays for no time at all: it has no samples with a duration; check that it plays elsewhere, and make it again"
    )]
    NoDuration,
    /// Not a container Reel reads.
    #[error(
        "not an MP4, MOV, Matroska, WebM or MPEG-TS file{0}; offer one of these, or convert it first, for example with ffmpeg"
    )]
    UnknownContainer(String),
    /// The file ends before its structure does.
    #[error("the {container} file is cut off: it should go on after byte {offset}; copy it again in full")]
    Truncated {
        /// `MP4`, `Matroska` or `MPEG-TS`.
        container: &'static str,
        /// Where the bytes end.
        offset: u64,
    },
}
