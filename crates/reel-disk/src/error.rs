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
    /// A member did not answer a write or sync in time. It may still be carried out.
    #[error("member {member} did not answer a write for {waited_s} s")]
    Unanswered {
        /// Its number.
        member: usize,
        /// How long it was waited for.
        waited_s: u64,
    },
    /// The request was not carried out because another program may use the members by now.
    #[error("a write was withheld: this program may no longer be the owner of the volume")]
    Withheld,
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
    /// Whether there was no space below the member, so that a write was not carried out: its file
    /// is sparse, or its device is thin. The member itself is sound.
    pub fn is_no_space(&self) -> bool {
        let (DiskError::Failed { source, .. } | DiskError::File { source, .. }) = self else { return false };
        matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// What to do about it.
    pub fn help(&self) -> Option<Cow<'static, str>> {
        match self {
            error if error.is_no_space() => Some(
                "free space on the file system or device below the member, and try again; a member whose space is not set aside can run out of it"
                    .into(),
            ),
            DiskError::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("give this user the right to it, or run reel as the user who has it".into())
            }
            DiskError::Buffer { .. } | DiskError::Unaligned { .. } => Some("please report this".into()),
            _ => None,
        }
    }
}
