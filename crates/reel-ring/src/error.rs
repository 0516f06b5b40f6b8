use std::io;

/// Why a ring could not be made, or why it stopped working.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// The configuration is out of bounds.
    #[error(
        "the configuration asks for a ring of {entries} entries, but a ring has 1 to 32768; correct it in the configuration"
    )]
    Config {
        /// The requested number of entries.
        entries: u32,
    },
    /// io_uring was required and is not available.
    #[error("io_uring is not available: {cause}; {cure}")]
    Uring {
        /// The kernel's reason.
        cause: String,
        /// How to correct it.
        cure: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A system call that every driver needs failed.
    #[error(
        "the kernel refused {step}: {source}; if it names a limit (files, memory), raise it for this process"
    )]
    System {
        /// The system call.
        step: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The ring broke while in use and cannot be used any more.
    #[error("waiting for completions failed: {source}; the thread that owns this ring has to stop")]
    Wait {
        /// The kernel's answer.
        source: io::Error,
    },
}
