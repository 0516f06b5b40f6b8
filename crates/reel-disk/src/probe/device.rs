//! Which device a member is on, from its metadata and sysfs.

use crate::error::DiskError;
use crate::limits::PROFILE_NAME_BYTES_MAX;
use crate::member::{OpenMode, open_plain};
use crate::profile::{DeviceIdentity, DeviceKind};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// Where kinds of block devices report their serial number: SCSI and ATA, NVMe, virtio, device
/// mapper, RAID, loop.
const SERIALS: [&str; 7] =
    ["serial", "device/serial", "wwid", "device/wwid", "dm/uuid", "md/uuid", "loop/backing_file"];

/// Where they report their model.
const MODELS: [&str; 2] = ["device/model", "dm/name"];

/// What distinguishes this member's device from others.
///
/// # Errors
/// The member cannot be opened or measured.
pub fn identity(member: &Path) -> Result<DeviceIdentity, DiskError> {
    let failed =
        |source| DiskError::File { path: member.to_owned(), what: "look at", source: Arc::new(source) };
    let file = open_plain(member, OpenMode::ReadOnly).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    // A block device has no length in its metadata; its end is found by seeking.
    let bytes = (&file).seek(SeekFrom::End(0)).map_err(failed)?;
    let is_device = metadata.file_type().is_block_device();
    let number = if is_device { metadata.rdev() } else { metadata.dev() };
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    // File systems without a device of their own (FUSE, btrfs, overlay) have none: then the numbers
    // identify the device.
    let place = Path::new("/sys/dev/block").join(format!("{major}:{minor}")).canonicalize().ok();
    let partition = place.as_deref().and_then(|place| read(&place.join("partition")));
    let whole = match partition {
        // A partition has no names of its own; it is in the directory of its disk.
        Some(_) => place.as_deref().and_then(Path::parent),
        None => place.as_deref(),
    };
    let first = |names: &[&str]| {
        whole.and_then(|whole| names.iter().find_map(|name| read(&whole.join(name)))).unwrap_or_default()
    };
    Ok(DeviceIdentity {
        kind: if is_device { DeviceKind::BlockDevice } else { DeviceKind::File },
        major,
        minor,
        partition: partition.and_then(|number| number.parse().ok()).unwrap_or(0),
        inode: if is_device { 0 } else { metadata.ino() },
        bytes,
        model: first(&MODELS),
        serial: first(&SERIALS),
    })
}

/// A short line of a file; `None` if there is no such file or it is empty.
fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(PROFILE_NAME_BYTES_MAX as u64).read_to_end(&mut bytes).ok()?;
    // Old disks report any bytes; replaced bytes may be longer than the original ones.
    let mut text: String = String::from_utf8_lossy(&bytes).chars().filter(|c| !c.is_control()).collect();
    while text.len() > PROFILE_NAME_BYTES_MAX {
        text.pop();
    }
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
