//! Claims of block devices, and who has claimed one.
//!
//! A lock of `flock` belongs to a node in a directory. A claim belongs to the device: it holds
//! whatever node the device is opened by, and against mounts, device mapper and md.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use reel_disk::{OpenMode, open_plain};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::VolumeError;
use crate::lock::{ATTEMPTS, PAUSE, process};

/// Opens a file or block device, and claims a device for writing. A claim is tried several times,
/// like a lock.
pub(crate) fn open_claimed(path: &Path, mode: OpenMode) -> io::Result<File> {
    for _ in 1..ATTEMPTS {
        match open_plain(path, mode) {
            Err(error) if is_claimed(&error) => std::thread::sleep(PAUSE),
            opened => return opened,
        }
    }
    open_plain(path, mode)
}

/// Whether a file could not be opened because another program has claimed the device.
pub(crate) fn is_claimed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy
}

/// Whether another program has claimed the device, so that it may be written while it is read here.
/// Never true of a file.
pub(crate) fn is_claimed_by_another(path: &Path) -> bool {
    let is_device = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device());
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let is_busy = || matches!(rustix::fs::open(path, flags, Mode::empty()), Err(Errno::BUSY));
    // Another reader that looks as well is through at once.
    is_device
        && (0..ATTEMPTS).all(|attempt| {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            is_busy()
        })
}

/// Whether this is a device that the kernel does not write. It can be opened for writing, and only
/// its writes fail.
pub(crate) fn is_read_only(metadata: &Metadata) -> bool {
    let about = || std::fs::read_to_string(format!("/sys/dev/block/{}/ro", number(metadata.rdev())));
    metadata.file_type().is_block_device() && about().is_ok_and(|text| text.trim() == "1")
}

/// The error for a claimed device, with the one who has claimed it as far as that can be told.
pub(crate) fn claimed(path: &Path) -> VolumeError {
    let path = path.to_owned();
    let Ok(metadata) = std::fs::metadata(&path) else {
        return VolumeError::Claimed { path, holder: "another program".to_owned() };
    };
    let device = metadata.rdev();
    match mount_of(device).or_else(|| device_above(device)) {
        Some(holder) => VolumeError::Claimed { path, holder },
        None => match process_with(device) {
            Some(pid) => VolumeError::Locked { path, holder: process(pid) },
            None => VolumeError::Claimed { path, holder: "another program".to_owned() },
        },
    }
}

/// `the file system mounted at /mnt`, or `swap`.
fn mount_of(device: u64) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounted = mounts.lines().find_map(|line| mount_point(line, &number(device)));
    let swaps = || std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    mounted.map(|place| format!("the file system mounted at {place}")).or_else(|| {
        let swaps = swaps();
        let mut areas = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        areas.any(|area| is_device(Path::new(area), device)).then(|| "the kernel, as swap space".to_owned())
    })
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime - ext3 /dev/root rw`: the root of the mount comes after the
/// device, and then the place where it is mounted.
fn mount_point<'a>(line: &'a str, device: &str) -> Option<&'a str> {
    let mut words = line.split(' ').skip(2);
    (words.next()? == device).then(|| words.nth(1)).flatten()
}

/// The device of md or the device mapper that is made of this one.
fn device_above(device: u64) -> Option<String> {
    let holders = std::fs::read_dir(format!("/sys/dev/block/{}/holders", number(device))).ok()?;
    let above = holders.flatten().next()?.file_name();
    Some(format!("/dev/{}, which is made of it", above.display()))
}

/// A process that has the device open. Other users' processes are seen only by root.
fn process_with(device: u64) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut others = numbers.filter(|pid| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let paths = files.filter_map(|file| Some((file.path(), std::fs::read_link(file.path()).ok()?)));
        // Only what looks like a device is looked at: files of a server that is gone would wait.
        let mut devices = paths.filter(|(_, target)| target.starts_with("/dev"));
        devices.any(|(path, _)| is_device(&path, device))
    });
    others.next()
}

fn is_device(path: &Path, device: u64) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|metadata| metadata.file_type().is_block_device() && metadata.rdev() == device)
}

/// The number of a device as the kernel writes it.
pub(crate) fn number(device: u64) -> String {
    format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
}

/// Whether a path is among the names of devices. A file made there lies in memory and is gone with
/// the next start of the machine. Other file systems that are mounted below do not count.
pub(crate) fn is_among_devices(path: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).ok().map(|metadata| metadata.dev());
    path.parent().and_then(device).is_some_and(|parent| Some(parent) == device(Path::new("/dev")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_parsed() {
        let line = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        assert_eq!(mount_point(line, "98:0"), Some("/mnt2"));
        assert_eq!(mount_point(line, "8:0"), None);
        assert_eq!(mount_point("", "98:0"), None);
        assert_eq!(mount_point("36 35 98:0 /mnt1", "98:0"), None);
    }

    #[test]
    fn a_directory_of_devices_is_told_from_others() {
        assert!(is_among_devices(Path::new("/dev/sdzz")));
        let elsewhere = tempfile::tempdir().unwrap();
        assert!(!is_among_devices(&elsewhere.path().join("sdzz")));
        assert!(!is_among_devices(Path::new("/dev/shm/member.reel")));
        std::os::unix::fs::symlink("/dev", elsewhere.path().join("link")).unwrap();
        assert!(is_among_devices(&elsewhere.path().join("link/sdzz")));
    }
}
