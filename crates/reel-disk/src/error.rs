//! What can go wrong with a member.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a member did not do what was requested. Cheap to clone: one failure may concern many
/// requests.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    /// There is no such member at present.
    #[error("member {member} is missing")]
    Absent {
        /// Its number.
        member: usize,
    },
    /// A read is larger than the buffer it brought along. A bug in the caller.
    #[error("a read of {bytes} bytes does not fit into its buffer of {buffer_bytes} bytes")]
    Buffer {
        /// How much was to be read.
        bytes: usize,
        /// How much the buffer holds.
        buffer_bytes: usize,
    },
    /// The device or file refused a request.
    #[error("member {member} failed to {what} {bytes} bytes at {offset}: {source}")]
    Failed {
        /// Its number.
        member: usize,
        /// `read`, `write` or `sync`.
        what: &'static str,
        /// Where.
        offset: u64,
        /// How much.
        bytes: usize,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The file of a member cannot be used.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// A member ends before the requested bytes.
    #[error("member {member} ends before byte {offset}: it is cut off or smaller than its superblock says")]
    Short {
        /// Its number.
        member: usize,
        /// The first byte that is missing.
        offset: u64,
    },
    /// The disk threads have ended.
    #[error("the disk threads have stopped")]
    Stopped,
    /// A disk thread did not start, or died.
    #[error("the disk threads cannot work: {0}")]
    Thread(Arc<reel_rt::RtError>),
    /// The caller withdrew the request before it went to the device.
    #[error("a request was withdrawn before it reached the device")]
    Withdrawn,
    /// An offset, length or address in memory is not a multiple of the block size, or the length is
    /// 0. A bug in the caller.
    #[error(
        "a request of {bytes} bytes at {offset} is not made of whole blocks of 4096 bytes, on the member and in memory"
    )]
    Unaligned {
        /// Where.
        offset: u64,
        /// How much.
        bytes: usize,
    },
}

impl DiskError {
    /// What to do about it.
    pub fn help(&self) -> Option<Cow<'static, str>> {
        match self {
            DiskError::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("give this user the right to it, or run reel as the user who has it".into())
            }
            DiskError::Buffer { .. } | DiskError::Unaligned { .. } => Some("please report this".into()),
            _ => None,
        }
    }
}
