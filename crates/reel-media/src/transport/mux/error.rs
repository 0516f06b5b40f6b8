//! Why a title cannot be multiplexed.

use crate::MediaError;

/// Why a title cannot be made into a transport stream. The text is for the person who asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MuxError {
    /// A transport stream cannot carry the pictures or the sound.
    #[error(
        "a transport stream cannot carry {what}: Reel multiplexes H.264, HEVC, AAC, MP3, AC-3, E-AC-3 and Opus; \
         convert the film first, for example with ffmpeg"
    )]
    NotCarried {
        /// The codec, with the reason if there is one.
        what: String,
    },
    /// A stored fragment contradicts the index of its title.
    #[error(
        "fragment {fragment} of track {track} is damaged: {what}; check the volume, or ingest the film again"
    )]
    Fragment {
        /// The track, from 0.
        track: usize,
        /// The fragment, from 0.
        fragment: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The stream exceeds a limit.
    #[error(transparent)]
    Stream(#[from] MediaError),
}
