use std::io;

use reel_ring::RingError;

/// Why a core could not start, or why it ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RtError {
    /// The kernel refused to start a thread.
    #[error(
        "cannot start the thread {name}: {source}; raise the limit of processes (TasksMax, ulimit -u) or free memory"
    )]
    Thread {
        /// The thread's name.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The ring of the thread could not be made, or broke.
    #[error("the thread {name} cannot continue: {source}")]
    Ring {
        /// The thread's name.
        name: String,
        /// Why the ring failed.
        source: RingError,
    },
    /// The thread panicked, which is a defect of the program.
    #[error("the thread {name} panicked, which is a defect: {reason}; please report it with the log")]
    Panicked {
        /// The thread's name.
        name: String,
        /// The panic's message.
        reason: String,
    },
}
