use std::io;

use reel_ring::RingError;

/// Why a core could not start, or how it ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RtError {
    /// The kernel gave no thread.
    #[error(
        "cannot start the thread {name}: {source}; raise the limit of processes (TasksMax, ulimit -u) or free memory"
    )]
    Thread {
        /// The thread's name.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The thread has no ring, or lost it.
    #[error("the thread {name} cannot go on: {source}")]
    Ring {
        /// The thread's name.
        name: String,
        /// Why.
        source: RingError,
    },
    /// The thread panicked: a defect of the program.
    #[error("the thread {name} has died of a defect: {reason}; please report it with the log")]
    Panicked {
        /// The thread's name.
        name: String,
        /// What the panic said.
        reason: String,
    },
}
