//! Devices that are in use already, whatever name they are given by.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use std::path::{Path, PathBuf};

use reel_volume::{MemberState, Members, OpenOptions, Replacement, Volume, VolumeError, VolumeOptions};

use crate::volumes::devices::{LoopDevice, may_make_devices, run};
use crate::volumes::{Scratch, assert_all_right, open_options, options, publish};

const DEVICE_BYTES: u64 = 8 << 20;

/// Devices and what is made of them, in a directory.
struct Machine {
    devices: Vec<LoopDevice>,
    directory: tempfile::TempDir,
}

impl Machine {
    fn new(devices: usize) -> Machine {
        let directory = tempfile::tempdir().unwrap();
        let file = |number| directory.path().join(format!("disk-{number}"));
        let devices = (0..devices).map(|number| LoopDevice::over(&file(number), DEVICE_BYTES)).collect();
        Machine { devices, directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn device(&self, number: usize) -> &Path {
        self.devices[number].path()
    }

    /// A volume on the first devices.
    fn volume(&self, members: usize) -> PathBuf {
        let paths = (0..members).map(|number| self.device(number).to_owned()).collect();
        let directory = self.path("volume");
        Volume::create(&directory, on(paths, false)).unwrap();
        directory
    }

    /// Another directory that names the same devices by nodes of its own.
    fn second_directory(&self, volume: &Path) -> PathBuf {
        let second = self.path("second");
        std::fs::create_dir(&second).unwrap();
        let mut manifest = std::fs::read_to_string(volume.join("volume.toml")).unwrap();
        for device in &self.devices {
            let node = device.second_node(&second);
            // With its quotes: /dev/loop1 is also the beginning of /dev/loop16.
            manifest = manifest.replace(&format!("{:?}", device.path()), &format!("{node:?}"));
        }
        std::fs::write(second.join("volume.toml"), manifest).unwrap();
        second
    }
}

fn on(paths: Vec<PathBuf>, force: bool) -> VolumeOptions {
    VolumeOptions { members: Members::Paths(paths), force, overwrite_volume: force, ..options(4) }
}

/// Opened twice, the volume would lose what one of the two publishes.
#[test]
fn a_volume_is_not_opened_again_by_second_nodes_of_its_devices() {
    if !may_make_devices() {
        return;
    }
    let machine = Machine::new(4);
    let first = machine.volume(4);
    let second = machine.second_directory(&first);
    let volume = Volume::open(&first, open_options()).unwrap();
    publish(&volume, "film", &[300_000]);
    for read_only in [false, true] {
        let refused = Volume::open(&second, OpenOptions { read_only, ..open_options() });
        let error = refused.err().expect("it is open");
        assert!(matches!(error, VolumeError::Locked { .. }), "{error}");
        assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    }
    drop(volume);
    let volume = Volume::open(&second, open_options()).unwrap();
    publish(&volume, "song", &[30_000]);
    drop(volume);
    // Readers do not exclude each other, by whatever names.
    let read_only = || OpenOptions { read_only: true, ..open_options() };
    let readers = [&first, &second, &second].map(|volume| Volume::open(volume, read_only()).unwrap());
    for reader in readers {
        assert_eq!(reader.titles().len(), 2);
        assert_all_right(&reader);
    }
}

#[test]
fn a_device_in_use_is_not_formatted_even_by_force() {
    if !may_make_devices() {
        return;
    }
    let machine = Machine::new(8);
    let first = machine.volume(4);
    let second = machine.second_directory(&first);
    let volume = Volume::open(&first, open_options()).unwrap();
    publish(&volume, "film", &[300_000]);
    let node = second.join(machine.device(2).file_name().unwrap());

    // A member of an open volume, under a second name.
    let others = (5..8).map(|number| machine.device(number).to_owned());
    let paths: Vec<PathBuf> = others.chain([node.clone()]).collect();
    let error = Volume::create(machine.path("other"), on(paths, true)).unwrap_err();
    assert!(matches!(error, VolumeError::Locked { .. }), "{error}");
    let other = Scratch::new(4);
    let replacing = other.open();
    let replacement = |path: &Path| Replacement {
        force: true,
        replace_healthy: true,
        ..Replacement::new(1, path.to_owned())
    };
    let error = replacing.replace(&replacement(&node)).unwrap_err();
    assert!(matches!(error, VolumeError::Locked { .. }), "{error}");

    // A mounted file system.
    let mounted = machine.path("mounted");
    std::fs::create_dir(&mounted).unwrap();
    run("mkfs.ext4", &["-q"], machine.device(4));
    run("mount", &[machine.device(4).to_str().unwrap()], &mounted);
    let made = replacing.replace(&replacement(machine.device(4)));
    let paths = (4..8).map(|number| machine.device(number).to_owned()).collect();
    let created = Volume::create(machine.path("other"), on(paths, true)).map(|_| ());
    let written = std::fs::write(mounted.join("file"), b"is writable");
    run("umount", &[], &mounted);
    for error in [made.map(|_| ()).unwrap_err(), created.unwrap_err()] {
        assert!(matches!(error, VolumeError::Claimed { .. }), "{error}");
        assert!(error.to_string().contains(mounted.to_str().unwrap()), "{error}");
    }
    written.unwrap();
    run("fsck.ext4", &["-n"], machine.device(4));
    assert!(!machine.path("other").exists());
    assert_all_right(&volume);
    drop(volume);
    assert!(Volume::open(&first, open_options()).unwrap().check(&mut |_| true).is_clean());
}

/// The device is the replacement's from the moment when it is formatted.
#[test]
fn a_device_that_replaces_a_member_stays_claimed() {
    if !may_make_devices() {
        return;
    }
    let machine = Machine::new(5);
    let directory = machine.volume(4);
    let second = machine.second_directory(&directory);
    let volume = Volume::open(&directory, open_options()).unwrap();
    publish(&volume, "film", &[300_000]);
    let path = machine.device(4).to_owned();
    let replacement = Replacement { replace_healthy: true, ..Replacement::new(1, path) };
    assert_eq!(volume.replace(&replacement).unwrap().state, MemberState::Rebuilding);
    let fifth = second.join(machine.device(4).file_name().unwrap());
    let replaced = machine.device(1).to_owned();
    let error = Volume::create(machine.path("other"), on(vec![replaced, fifth], true)).unwrap_err();
    assert!(matches!(error, VolumeError::Locked { .. }), "{error}");
    volume.rebuild(1, reel_volume::RepairOptions::default(), &mut |_| true).unwrap();
    drop(volume);
    assert_all_right(&Volume::open(&directory, open_options()).unwrap());
}

#[test]
fn the_name_of_a_device_that_does_not_exist_becomes_no_file() {
    let (directory, absent) = (tempfile::tempdir().unwrap(), Path::new("/dev/reel-no-such-device"));
    let scratch = Scratch::new(4);
    let paths = vec![directory.path().join("one"), absent.to_owned(), directory.path().join("two")];
    let created = Volume::create(directory.path().join("volume"), on(paths, true)).map(|_| ());
    let path = absent.to_owned();
    let replacement = Replacement { force: true, replace_healthy: true, ..Replacement::new(1, path) };
    let replaced = scratch.open().replace(&replacement).map(|_| ());
    assert!(!absent.exists());
    for error in [created.unwrap_err(), replaced.unwrap_err()] {
        assert!(error.to_string().contains("there is no device /dev/reel-no-such-device"), "{error}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Opening a FIFO waits for a writer.
#[test]
fn a_fifo_in_place_of_a_file_is_refused_at_once() {
    let scratch = Scratch::new(4);
    publish(&scratch.open(), "film", &[300_000]);
    let fifo = |path: &Path| {
        std::fs::remove_file(path).unwrap();
        run("mkfifo", &[], path);
    };
    fifo(&scratch.member(2));
    for read_only in [true, false] {
        let volume = Volume::open(scratch.path(), OpenOptions { read_only, ..open_options() }).unwrap();
        let finding = volume.findings()[2].to_string();
        assert!(finding.contains("neither a file nor a block device"), "{finding}");
        assert_all_right(&volume);
    }
    let path = scratch.member(2);
    let error = scratch.open().replace(&Replacement { force: true, ..Replacement::new(2, path) });
    let text = error.unwrap_err().to_string();
    assert!(text.contains("neither a file nor a block device"), "{text}");
    fifo(&scratch.path().join("volume.toml"));
    let text = scratch.try_open().err().expect("it is not a file").to_string();
    assert!(text.contains("neither a file nor a block device"), "{text}");
}

/// Such a device can be opened for writing, and only its writes fail.
#[test]
fn a_read_only_device_is_denied_from_the_start() {
    if !may_make_devices() {
        return;
    }
    let machine = Machine::new(4);
    let directory = machine.volume(4);
    publish(&Volume::open(&directory, open_options()).unwrap(), "film", &[300_000]);
    run("blockdev", &["--setro"], machine.device(2));
    let volume = Volume::open(&directory, open_options()).unwrap();
    let finding = volume.findings()[2].clone();
    assert_eq!(finding.state, MemberState::Denied, "{finding}");
    assert!(finding.text.contains("open the volume again"), "{finding}");
    publish(&volume, "song", &[30_000]);
    assert_eq!(volume.counters().write_errors.get(), 0);
    assert_all_right(&volume);
    drop(volume);
    let paths = (0..4).map(|number| machine.device(number).to_owned()).collect();
    let error = Volume::create(machine.path("other"), on(paths, true)).unwrap_err().to_string();
    assert!(error.contains("read-only") || error.contains("Permission denied"), "{error}");
    run("blockdev", &["--setrw"], machine.device(2));
    assert_eq!(Volume::open(&directory, open_options()).unwrap().findings()[2].state, MemberState::Stale);
}
