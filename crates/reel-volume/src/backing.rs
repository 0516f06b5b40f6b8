//! The files and devices that a device is made of, as far as the kernel tells.
//!
//! A lock belongs to a file and a claim to a device. A loop device over a locked file is neither,
//! and still the same bytes.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use reel_disk::{OpenMode, open_plain};

use crate::claim::{claimed, is_claimed_by_another, number};
use crate::error::VolumeError;
use crate::lock::{identity, lock};

/// How many devices may lie below one another: partition, loop, device mapper, md.
const DEPTH_MAX: usize = 8;

/// A file that a device lies in.
struct Backing {
    path: PathBuf,
    metadata: Metadata,
    /// The bytes of the file, from and to, that the device is; unknown if there are devices in
    /// between.
    range: Option<(u64, u64)>,
}

/// What tells whether two targets of a new volume are the same bytes.
pub(crate) struct Place {
    identity: (bool, u64, u64),
    backing: Vec<Backing>,
}

impl Place {
    /// The place of a file or device.
    pub(crate) fn of(metadata: &Metadata) -> Place {
        let is_device = metadata.file_type().is_block_device();
        let backing = if is_device { files_below(metadata.rdev(), DEPTH_MAX) } else { Vec::new() };
        Place { identity: identity(metadata), backing }
    }

    /// Whether both are one file or device under one or two names.
    pub(crate) fn is(&self, other: &Place) -> bool {
        self.identity == other.identity
    }

    /// Whether bytes of one are known to be bytes of the other.
    pub(crate) fn overlaps(&self, other: &Place) -> bool {
        let lies_in = |one: &Place, other: &Place| {
            one.backing.iter().any(|backing| identity(&backing.metadata) == other.identity)
        };
        let shares = |one: &Backing| {
            other.backing.iter().any(|other| {
                let ranges = one.range.zip(other.range);
                identity(&one.metadata) == identity(&other.metadata)
                    && ranges.is_some_and(|(one, other)| one.0 < other.1 && other.0 < one.1)
            })
        };
        lies_in(self, other) || lies_in(other, self) || self.backing.iter().any(shares)
    }
}

/// Refuses a device over a file that is locked, and a file under a device that is claimed: it is a
/// second name of something in use.
pub(crate) fn ensure_unused_elsewhere(path: &Path, metadata: &Metadata) -> Result<(), VolumeError> {
    if !metadata.file_type().is_block_device() {
        return match claimed_device_over(metadata) {
            Some((device, holder)) => Err(VolumeError::Claimed {
                path: path.to_owned(),
                holder: format!("{}, which is made of it and is used by {holder}", device.display()),
            }),
            None => Ok(()),
        };
    }
    for backing in files_below(metadata.rdev(), DEPTH_MAX) {
        // Held for this moment only. A file that cannot be opened cannot be a member that this user
        // has open.
        let Ok(file) = open_plain(&backing.path, OpenMode::ReadOnly) else { continue };
        if let Err(VolumeError::Locked { holder, .. }) = lock(&file, &backing.path, true) {
            let holder = format!("{holder}, through the file {} that it is made of", backing.path.display());
            return Err(VolumeError::Locked { path: path.to_owned(), holder });
        }
    }
    Ok(())
}

/// A device that is claimed and made of this file, and who has claimed it.
fn claimed_device_over(file: &Metadata) -> Option<(PathBuf, String)> {
    let devices = std::fs::read_dir("/sys/block").ok()?.flatten();
    let over = devices.filter(|device| {
        loop_file(&device.path())
            .and_then(|path| std::fs::metadata(path).ok())
            .is_some_and(|backing| identity(&backing) == identity(file))
    });
    let nodes = over.map(|device| Path::new("/dev").join(device.file_name()));
    nodes.filter(|node| is_claimed_by_another(node)).find_map(|node| match claimed(&node) {
        VolumeError::Claimed { holder, .. } | VolumeError::Locked { holder, .. } => Some((node, holder)),
        _ => None,
    })
}

/// The files that a device lies in.
fn files_below(device: u64, depth: usize) -> Vec<Backing> {
    let about = PathBuf::from(format!("/sys/dev/block/{}", number(device)));
    let Some(depth) = depth.checked_sub(1) else { return Vec::new() };
    let within = |device: Option<u64>| {
        let mut below = device.map_or_else(Vec::new, |device| files_below(device, depth));
        below.iter_mut().for_each(|backing| backing.range = None);
        below
    };
    if let Some(path) = loop_file(&about) {
        let Ok(metadata) = std::fs::metadata(&path) else { return Vec::new() };
        if metadata.file_type().is_block_device() {
            return within(Some(metadata.rdev()));
        }
        let (from, limit) = (number_in(&about.join("loop/offset")), number_in(&about.join("loop/sizelimit")));
        let end = if limit == 0 { u64::MAX } else { from.saturating_add(limit) };
        return vec![Backing { path, metadata, range: Some((from, end)) }];
    }
    if about.join("partition").exists() {
        // The link leads to the directory of the partition, which is in that of its disk.
        let disk = std::fs::canonicalize(&about).ok().and_then(|about| device_in(about.parent()?));
        return within(disk);
    }
    let below = std::fs::read_dir(about.join("slaves")).into_iter().flatten().flatten();
    below.flat_map(|device| within(device_in(&device.path()))).collect()
}

/// The file of a loop device.
fn loop_file(about: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(about.join("loop/backing_file")).ok()?;
    Some(PathBuf::from(text.trim_end_matches('\n')))
}

/// The number of the device that a directory of sysfs is about.
fn device_in(about: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(about.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

fn number_in(path: &Path) -> u64 {
    std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or_default()
}
