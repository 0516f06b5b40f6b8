//! Space for members that are files.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use crate::error::VolumeError;
use crate::target::Target;

const HELP_DISK_FULL: &str = "choose a smaller --size or use another disk";

/// Reserves the space of every member that is a file, unless they are `sparse`. A longer file keeps
/// its length unless it may be cut: what lies behind the member is not looked at in full.
pub(crate) fn reserve(
    targets: &[Target],
    member_bytes: u64,
    may_cut: bool,
    sparse: bool,
) -> Result<(), VolumeError> {
    let files = || targets.iter().filter(|target| target.device_bytes.is_none());
    // Checked first, so that a disk is not filled up by members that do not all fit.
    for target in files().filter(|_| !sparse) {
        let metadata =
            target.file.metadata().map_err(VolumeError::file(&target.path, "get the metadata of"))?;
        let (mut needed_bytes, free_bytes) = (0u64, free_bytes(&target.file));
        for other in files() {
            let other =
                other.file.metadata().map_err(VolumeError::file(&other.path, "get the metadata of"))?;
            if other.dev() == metadata.dev() {
                needed_bytes = needed_bytes.saturating_add(member_bytes.saturating_sub(other.blocks() * 512));
            }
        }
        if needed_bytes > free_bytes {
            let help = HELP_DISK_FULL;
            return Err(VolumeError::DiskFull { path: target.path.clone(), needed_bytes, free_bytes, help });
        }
    }
    for target in files() {
        let has_bytes = target.file.metadata().map_or(0, |metadata| metadata.len());
        if has_bytes < member_bytes || may_cut {
            let done = target.file.set_len(member_bytes);
            done.map_err(VolumeError::file(&target.path, "set the length of"))?;
        }
        if sparse {
            continue;
        }
        match rustix::fs::fallocate(&target.file, rustix::fs::FallocateFlags::empty(), 0, member_bytes) {
            Ok(()) => {}
            Err(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT) => {
                return Err(VolumeError::DiskFull {
                    path: target.path.clone(),
                    needed_bytes: member_bytes,
                    free_bytes: free_bytes(&target.file),
                    help: HELP_DISK_FULL,
                });
            }
            Err(rustix::io::Errno::OPNOTSUPP) => tracing::warn!(
                path = %target.path.display(),
                "this file system cannot reserve space; a member on it may run out of space while it is written"
            ),
            Err(error) => return Err(VolumeError::file(&target.path, "reserve space for")(error.into())),
        }
    }
    Ok(())
}

fn free_bytes(file: &File) -> u64 {
    rustix::fs::fstatvfs(file).map_or(u64::MAX, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}
