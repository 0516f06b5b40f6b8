//! Compares what Reel serves with what ffmpeg decodes from the source: every picture, every sample
//! of sound, and their times.
//!
//! ffmpeg judges both sides, so the comparison is independent of Reel's own readers and writers.
#![forbid(unsafe_code)]

mod bounds;
mod compare;
mod decoded;
mod difference;
mod form;
mod served;
mod server;
mod sound;

pub use bounds::Bounds;
pub use compare::{Compared, Comparison, compare};
pub use decoded::{Block, Decoded, Picture, Sound, pictures, sound};
pub use difference::{Difference, first_difference, of_pictures};
pub use form::Form;
pub use served::{Ingest, Served};
pub use server::Server;
pub use sound::{Times, of_sound};

use std::process::{Command, Output, Stdio};

/// Why a comparison cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A program cannot be started.
    #[error("cannot run {program}: {source}; scripts/setup test installs what tests need")]
    NotStarted {
        /// Its name.
        program: String,
        /// What the system reports.
        source: std::io::Error,
    },
    /// A program failed.
    #[error("{program} failed: {said}")]
    Failed {
        /// Its name.
        program: String,
        /// The end of its standard error.
        said: String,
    },
    /// A program printed something unexpected.
    #[error("{program} printed something unexpected: {line}")]
    Unexpected {
        /// Its name.
        program: &'static str,
        /// A part of what it printed.
        line: String,
    },
    /// A file or a socket cannot be used.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Runs a command that must succeed.
///
/// # Errors
///
/// [`CompareError::NotStarted`] and [`CompareError::Failed`].
pub fn run(command: &mut Command) -> Result<Output, CompareError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| CompareError::NotStarted { program: program.clone(), source })?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(CompareError::Failed { program, said })
}
