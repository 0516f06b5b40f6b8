//! What can go wrong with a core.

use reel_ring::RingError;
use std::io;

/// Why a core did not start, or how it ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RtError {
    /// The core's thread panicked.
    #[error("the thread {name} panicked: {reason}; this is a bug in Reel")]
    Panicked {
        /// Name of the thread.
        name: String,
        /// What it said.
        reason: String,
    },
    /// The ring failed.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The system gave no thread.
    #[error("cannot start the thread {name}: {source}")]
    Thread {
        /// Name of the thread.
        name: String,
        /// Why not.
        source: io::Error,
    },
}
