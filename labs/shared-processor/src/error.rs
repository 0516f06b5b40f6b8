use std::io;

use crate::limits::MEMBERS_MAX;

/// Why a shared processor cannot be created, attached or joined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SharedProcessorError {
    /// The kernel refused to start the watchdog's thread.
    #[error(
        "cannot start the thread {name}: {source}; raise the limit of processes (TasksMax, ulimit -u) or free memory"
    )]
    Thread {
        /// The thread's name.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel refused the shared memory.
    #[error(
        "cannot make or map the pages of a shared processor: {source}; free memory or descriptors (ulimit -n)"
    )]
    Memory {
        /// The kernel's answer.
        source: io::Error,
    },
    /// The descriptor is not that of a shared processor.
    #[error(
        "this descriptor is not that of a shared processor, or is of another version; use the same release on both sides"
    )]
    NotShared,
    /// Every member page is in use.
    #[error("all {MEMBERS_MAX} pages of the shared processor are in use; end one of its members")]
    Full,
}
