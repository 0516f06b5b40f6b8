//! Why a member could not be measured.

use crate::error::DiskError;
use crate::profile::ProfileError;
use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The member cannot be opened or examined.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Memory or a ring is not available.
    #[error("cannot measure {}: {reason}", path.display())]
    Setup {
        /// Which member.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The file system has no direct I/O.
    #[error(
        "cannot measure {}: there is no direct I/O here, so the page cache would be measured and not the disk",
        path.display()
    )]
    NotDirect {
        /// Which member.
        path: PathBuf,
    },
    /// Nearly all of the file was never written, and reading unwritten space does not read the
    /// disk.
    #[error(
        "cannot measure {}: only {data_bytes} bytes of it were ever written, and what was never written is not read \
         from the disk", path.display()
    )]
    TooLittleData {
        /// Which member.
        path: PathBuf,
        /// What was written.
        data_bytes: u64,
        /// What is needed.
        least_bytes: u64,
    },
    /// Writes cannot be measured beside a block device.
    #[error(
        "cannot measure writes of {}: a block device has no file system beside it for a scratch file",
        path.display()
    )]
    NoPlaceForScratch {
        /// Which member.
        path: PathBuf,
    },
    /// The scratch file cannot be made.
    #[error("cannot make a file beside {} to measure writes: {source}", path.display())]
    Scratch {
        /// Which member.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A request failed.
    #[error("measuring {} failed at byte {offset}: {source}", path.display())]
    Failed {
        /// Which member.
        path: PathBuf,
        /// Where on the member or on its scratch file.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The device does not answer.
    #[error("{} has not answered for {seconds} s", path.display())]
    Stalled {
        /// Which member.
        path: PathBuf,
        /// For how long.
        seconds: u64,
    },
    /// The caller stopped the measurement.
    #[error("the measurement was stopped")]
    Stopped,
    /// The result of the measurement is not plausible.
    #[error("the measurement of {} gave no valid profile: {source}", path.display())]
    Profile {
        /// Which member.
        path: PathBuf,
        /// Why it is rejected.
        source: ProfileError,
    },
    /// A thread of the measurement panicked. A bug.
    #[error("a thread of the measurement ended unexpectedly")]
    Thread,
}

impl ProbeError {
    /// What to do about it.
    pub fn help(&self) -> Option<Cow<'static, str>> {
        match self {
            ProbeError::Disk(error) => error.help(),
            ProbeError::NotDirect { .. } => Some("put members on ext4, XFS or a block device".into()),
            ProbeError::TooLittleData { least_bytes, .. } => {
                Some(format!("ingest titles first ({least_bytes} bytes are enough)").into())
            }
            ProbeError::NoPlaceForScratch { .. } | ProbeError::Scratch { .. } => {
                Some("leave out --write".into())
            }
            ProbeError::Profile { source, .. } => source.help(),
            ProbeError::Thread => Some("please report this".into()),
            ProbeError::Setup { .. }
            | ProbeError::Failed { .. }
            | ProbeError::Stalled { .. }
            | ProbeError::Stopped => None,
        }
    }
}
