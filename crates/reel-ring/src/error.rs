use std::io;

/// Why a ring could not be made or stopped working.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// The configuration is out of bounds.
    #[error(
        "a ring of {entries} entries was asked for, but must have 1 to 32768; correct it in the configuration"
    )]
    Config {
        /// The entries asked for.
        entries: u32,
    },
    /// io_uring was demanded and is not to be had.
    #[error("io_uring is not available: {cause}; {cure}")]
    Uring {
        /// What the kernel said.
        cause: String,
        /// What to do about it.
        cure: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A system call which every driver needs failed.
    #[error(
        "the kernel refused {step}: {source}; if it names a limit (files, memory), raise it for this process"
    )]
    System {
        /// The system call.
        step: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The ring broke while in use; nothing more can be done with it.
    #[error("waiting for completions failed: {source}; the thread that owns this ring has to stop")]
    Wait {
        /// The kernel's answer.
        source: io::Error,
    },
}
