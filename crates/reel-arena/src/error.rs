use std::io;

/// Why an arena could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArenaError {
    /// The configuration contradicts itself or a limit.
    #[error("the arena's {what} is {value}, but must be {rule}; correct it in the configuration")]
    Config {
        /// The setting.
        what: &'static str,
        /// Its value.
        value: usize,
        /// The rule for the setting.
        rule: &'static str,
    },
    /// The kernel refused the memory.
    #[error(
        "the kernel refused {bytes} bytes of shared memory for media ({step}: {source}); \
         make the arena smaller, or give the process or its container more memory"
    )]
    Memory {
        /// The system call that failed.
        step: &'static str,
        /// The requested size in bytes.
        bytes: usize,
        /// The kernel's answer.
        source: io::Error,
    },
}
