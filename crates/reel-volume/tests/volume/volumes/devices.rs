//! Loop devices over files, which stand for disks.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether this user may make devices. Says so if not.
pub fn may_make_devices() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only root may make loop devices");
    }
    is_root
}

/// A loop device over a file of its own, without the page cache in between. It goes with its value.
pub struct LoopDevice(PathBuf);

impl LoopDevice {
    /// A device over `file`, which is made with so many bytes if it does not exist.
    pub fn over(file: &Path, bytes: u64) -> LoopDevice {
        let opened = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(file).unwrap();
        let metadata = opened.metadata().unwrap();
        if metadata.is_file() && metadata.len() == 0 {
            opened.set_len(bytes).unwrap();
        }
        let named = run("losetup", &["--find", "--show", "--direct-io=on"], file);
        let device = LoopDevice(PathBuf::from(named.trim()));
        // A test that failed may have left it read-only.
        run("blockdev", &["--setrw"], device.path());
        device
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A second node of this device, in a directory.
    pub fn second_node(&self, directory: &Path) -> PathBuf {
        let node = directory.join(self.0.file_name().unwrap());
        let number = self.0.metadata().unwrap().rdev();
        let (kind, mode) = (rustix::fs::FileType::BlockDevice, rustix::fs::Mode::from_raw_mode(0o600));
        rustix::fs::mknodat(rustix::fs::CWD, &node, kind, mode, number).unwrap();
        node
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        run("losetup", &["--detach"], &self.0);
    }
}

/// Runs a command that must succeed, with one path as its last argument.
pub fn run(command: &str, arguments: &[&str], path: &Path) -> String {
    let output = Command::new(command).args(arguments).arg(path).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
