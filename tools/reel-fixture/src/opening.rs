//! Volumes that a test makes and opens itself.

use reel_volume::{Members, OpenOptions, Volume, VolumeError, VolumeOptions};
use std::path::Path;
use std::time::Duration;

/// Five members with this many bytes in all, and a small catalogue.
pub fn five_members(size_bytes: u64) -> VolumeOptions {
    VolumeOptions {
        members: Members::Count(5),
        size_bytes,
        catalogue_bytes: Some(64 << 10),
        ..VolumeOptions::default()
    }
}

/// Opens the volume in a directory.
///
/// A child process of another test inherits the locks of this process until it executes its
/// program. This function waits for that.
///
/// # Panics
/// If the volume cannot be opened.
pub fn open_volume(directory: &Path, options: &OpenOptions) -> Volume {
    for _ in 0..1000 {
        match Volume::open(directory, options.clone()) {
            Err(VolumeError::Locked { .. }) => std::thread::sleep(Duration::from_millis(10)),
            opened => return opened.unwrap(),
        }
    }
    panic!("the volume stays locked");
}
