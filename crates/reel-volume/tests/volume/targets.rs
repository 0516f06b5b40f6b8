//! Files and devices that must not become members: they hold something, or they are a disk in use
//! under a second name.

use std::path::{Path, PathBuf};

use reel_volume::{Members, Replacement, Volume, VolumeError, VolumeOptions};

use crate::volumes::devices::{LoopDevice, may_make_devices};
use crate::volumes::{Scratch, assert_all_right, open_options, options, publish};

const MEMBER: u64 = 8 << 20;

/// A file of zeros with some bytes at one place.
fn file_with(path: &Path, bytes: u64, at: u64, data: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::create_new(path).unwrap();
    file.set_len(bytes).unwrap();
    file.write_all_at(data, at).unwrap();
}

fn on(paths: Vec<PathBuf>, force: bool) -> VolumeOptions {
    VolumeOptions { members: Members::Paths(paths), force, overwrite_volume: force, ..options(3) }
}

/// A volume whose member 2 is missing.
fn one_missing() -> (Scratch, Volume) {
    let scratch = Scratch::new(4);
    publish(&scratch.open(), "film", &[300_000]);
    std::fs::remove_file(scratch.member(2)).unwrap();
    let volume = scratch.open();
    (scratch, volume)
}

/// By `replace` and by `create`, each without `force`.
fn refused(volume: &Volume, path: &Path) -> [String; 2] {
    let new = tempfile::tempdir().unwrap();
    let paths = vec![new.path().join("one"), path.to_owned(), new.path().join("two")];
    let created = Volume::create(new.path().join("volume"), on(paths, false)).map(|_| ());
    let replacement = Replacement::new(2, path.to_owned());
    let replaced = volume.replace(&replacement).map(|_| ());
    [replaced, created].map(|result| result.expect_err("it holds something").to_string())
}

/// The path may be misspelt, or below a disk that is not mounted.
#[test]
fn a_file_elsewhere_is_made_only_where_it_was_asked_for() {
    let (scratch, volume) = one_missing();
    let elsewhere = tempfile::tempdir().unwrap();
    let path = elsewhere.path().join("disk");
    let replacement = Replacement { force: true, replace_healthy: true, ..Replacement::new(2, path.clone()) };
    let error = volume.replace(&replacement).unwrap_err();
    assert!(matches!(error, VolumeError::NothingThere { .. }), "{error}");
    assert!(error.help().is_some_and(|help| help.contains("--create")), "{error}");
    assert!(!path.exists());
    volume.replace(&Replacement { create: true, force: false, ..replacement }).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), std::fs::metadata(scratch.member(0)).unwrap().len());
    volume.rebuild(2, reel_volume::RepairOptions::default(), &mut |_| true).unwrap();
    assert!(volume.check(&mut |_| true).is_clean());
}

#[test]
fn a_disk_that_holds_something_anywhere_needs_force() {
    let (scratch, volume) = one_missing();
    let md = [0xfc, 0x4e, 0x2b, 0xa9];
    let cases: [(u64, u64, &[u8], &str); 5] = [
        (MEMBER, MEMBER - 8192, &md, "holds a member of a RAID (md)"),
        (MEMBER, 0x1_0040, b"_BHRfS_M", "holds a btrfs file system"),
        (MEMBER, 5 << 20, &[1], "is not empty: there is data at byte 5242880"),
        (MEMBER, MEMBER - 1, &[1], "is not empty: there is data at byte 8388607"),
        // A disk image without its first megabytes.
        (90_000_000, 80_000_000, &[1; 9_000_000], "is not empty: there is data at byte"),
    ];
    for (number, (bytes, at, data, words)) in cases.into_iter().enumerate() {
        let path = scratch.path().join(format!("disk-{number}"));
        file_with(&path, bytes, at, data);
        let before = std::fs::read(&path).unwrap();
        for text in refused(&volume, &path) {
            assert!(text.contains(words) && text.contains("--force"), "{text}");
        }
        assert!(std::fs::read(&path).unwrap() == before, "it was changed");
    }
    let path = scratch.path().join("disk-2");
    volume.replace(&Replacement { force: true, ..Replacement::new(2, path) }).unwrap();
    volume.rebuild(2, reel_volume::RepairOptions::default(), &mut |_| true).unwrap();
    assert_all_right(&volume);
}

/// The length of a file was chosen by its owner, and what lies behind the member is not looked at
/// in full.
#[test]
fn a_longer_file_is_not_cut_without_force() {
    let (scratch, volume) = one_missing();
    let path = scratch.path().join("long");
    file_with(&path, 90_000_000, 0, &[]);
    let length = || std::fs::metadata(&path).unwrap().len();
    let replacement = Replacement { replace_healthy: true, ..Replacement::new(2, path.clone()) };
    volume.replace(&replacement).unwrap();
    volume.rebuild(2, reel_volume::RepairOptions::default(), &mut |_| true).unwrap();
    assert_eq!(length(), 90_000_000);
    drop(volume);
    let volume = scratch.open();
    assert!(volume.check(&mut |_| true).is_clean());
    drop((volume, scratch));

    let (scratch, volume) = one_missing();
    let path = scratch.path().join("long");
    file_with(&path, 90_000_000, 0, &[]);
    let replacement = Replacement { force: true, replace_healthy: true, ..Replacement::new(2, path.clone()) };
    volume.replace(&replacement).unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() < 9 << 20);
}

/// Formatting it would destroy a member in use, and with that the volume.
#[test]
fn a_second_name_of_a_disk_in_use_is_refused_even_by_force() {
    let (scratch, volume) = one_missing();
    let replace = |volume: &Volume, path: &Path| {
        let replacement =
            Replacement { force: true, replace_healthy: true, ..Replacement::new(2, path.to_owned()) };
        volume.replace(&replacement).unwrap_err()
    };
    // A copy cannot be told from a second name.
    let copy = scratch.path().join("copy");
    std::fs::copy(scratch.member(0), &copy).unwrap();
    let text = replace(&volume, &copy).to_string();
    assert!(text.contains("is member 0 (") && text.contains("or a copy of it"), "{text}");
    if may_make_devices() {
        let second = LoopDevice::over(&scratch.member(0), 0);
        let text = replace(&volume, second.path()).to_string();
        assert!(text.contains("is member 0 ("), "{text}");
        // By another volume, and by a new one.
        let other = Scratch::new(4);
        let error = replace(&other.open(), second.path());
        assert!(matches!(error, VolumeError::Locked { .. }), "{error}");
        assert!(error.to_string().contains("member-0.reel that it is made of"), "{error}");
        let new = tempfile::tempdir().unwrap();
        let paths = vec![new.path().join("one"), second.path().to_owned(), new.path().join("two")];
        let error = Volume::create(new.path().join("volume"), on(paths, true)).unwrap_err();
        assert!(matches!(error, VolumeError::Locked { .. }), "{error}");
    }
    assert_all_right(&volume);
    drop(volume);
    assert_all_right(&scratch.open());
}

#[test]
fn the_file_of_a_device_in_use_is_refused_even_by_force() {
    if !may_make_devices() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = |number: usize| directory.path().join(format!("disk-{number}"));
    let devices: Vec<LoopDevice> = (0..3).map(|number| LoopDevice::over(&file(number), MEMBER)).collect();
    let paths = devices.iter().map(|device| device.path().to_owned()).collect();
    let place = directory.path().join("volume");
    Volume::create(&place, on(paths, false)).unwrap();
    let volume = Volume::open(&place, open_options()).unwrap();
    let other = Scratch::new(4);
    let path = file(1);
    let replacement = Replacement { force: true, replace_healthy: true, ..Replacement::new(2, path.clone()) };
    let replaced = other.open().replace(&replacement).map(|_| ());
    let paths = vec![directory.path().join("one"), path, directory.path().join("two")];
    let created = Volume::create(directory.path().join("new"), on(paths, true)).map(|_| ());
    for error in [replaced.unwrap_err(), created.unwrap_err()] {
        assert!(matches!(error, VolumeError::Claimed { .. }), "{error}");
        assert!(error.to_string().contains(devices[1].path().to_str().unwrap()), "{error}");
    }
    publish(&volume, "film", &[300_000]);
    assert_all_right(&volume);
}

#[test]
fn one_disk_under_two_names_does_not_become_two_members() {
    if !may_make_devices() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = |number: usize| directory.path().join(format!("disk-{number}"));
    let first = LoopDevice::over(&file(0), MEMBER);
    let again = LoopDevice::over(&file(0), MEMBER);
    // The kernel does not say of this one in which bytes of the file it lies.
    let above = LoopDevice::over(first.path(), MEMBER);
    let place = directory.path().join("volume");
    for second in [again.path(), above.path(), &file(0)] {
        let paths = vec![first.path().to_owned(), file(1), second.to_owned()];
        // Without `force` too: after a refusal the disks are as empty as they were.
        let text = Volume::create(&place, on(paths, false)).unwrap_err().to_string();
        let names = [first.path(), second].map(|path| text.contains(path.to_str().unwrap()));
        assert!(names == [true; 2] && text.contains("are one disk under two names"), "{text}");
        assert!(!place.join("volume.toml").exists());
    }
    Volume::create(&place, on(vec![first.path().to_owned(), file(1), file(2)], false)).unwrap();
}

/// Its other members may be elsewhere, and its titles are lost with too many of them.
#[test]
fn a_member_of_another_volume_needs_its_own_consent() {
    let (_scratch, volume) = one_missing();
    let other = Scratch::new(4);
    publish(&other.open(), "song", &[300_000]);
    let of_other = other.member(1);
    let replacement = Replacement { force: true, ..Replacement::new(2, of_other.clone()) };
    let error = volume.replace(&replacement).unwrap_err();
    assert!(matches!(error, VolumeError::IsMember { member: 1, .. }), "{error}");
    assert!(error.help().is_some_and(|help| help.contains("--overwrite-volume")), "{error}");
    let new = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..4).map(|member| other.member(member)).collect();
    let members = || Members::Paths(paths.clone());
    let over = VolumeOptions { members: members(), force: true, ..options(4) };
    let error = Volume::create(new.path(), over.clone()).unwrap_err();
    assert!(matches!(error, VolumeError::IsMember { member: 0, .. }), "{error}");
    assert!(!new.path().join("volume.toml").exists());
    assert_all_right(&other.open());
    // The flag alone is enough for a member, and permits nothing about other content.
    let with_volume = Replacement { force: false, overwrite_volume: true, ..replacement };
    let diary = new.path().join("diary");
    std::fs::write(&diary, "Dear diary").unwrap();
    let refused = volume.replace(&Replacement { path: diary, ..with_volume.clone() }).unwrap_err();
    assert!(matches!(refused, VolumeError::NotEmpty { .. }), "{refused}");
    volume.replace(&with_volume).unwrap();
    volume.rebuild(2, reel_volume::RepairOptions::default(), &mut |_| true).unwrap();
    assert_all_right(&volume);
    drop(volume);
    // By then the disk is a member of the first volume.
    Volume::create(new.path(), VolumeOptions { overwrite_volume: true, ..over }).unwrap();
    assert_eq!(Volume::open(new.path(), open_options()).unwrap().titles().len(), 0);
}

/// An operator does not see that a volume is there.
#[test]
fn members_without_their_list_are_not_overwritten_by_force() {
    let scratch = Scratch::new(4);
    publish(&scratch.open(), "film", &[300_000]);
    let list = scratch.path().join("volume.toml");
    let good = std::fs::read(&list).unwrap();
    let forced = VolumeOptions { force: true, ..options(4) };
    for torn in [None, Some(&good[..good.len() / 2])] {
        std::fs::remove_file(&list).unwrap();
        if let Some(torn) = torn {
            std::fs::write(&list, torn).unwrap();
        }
        let error = Volume::create(scratch.path(), forced.clone()).unwrap_err();
        assert!(matches!(error, VolumeError::Unlisted { members: 4, .. }), "{error}");
        std::fs::write(&list, &good).unwrap();
        assert_all_right(&scratch.open());
    }
    std::fs::remove_file(&list).unwrap();
    Volume::create(scratch.path(), VolumeOptions { overwrite_volume: true, ..forced }).unwrap();
    assert_eq!(scratch.open().titles().len(), 0);
}

/// The list of another volume is no place for a member, whatever is permitted.
#[test]
fn a_list_of_members_does_not_become_a_member() {
    let (_scratch, volume) = one_missing();
    let other = Scratch::new(4);
    let list = other.path().join("volume.toml");
    let replacement = Replacement { force: true, overwrite_volume: true, ..Replacement::new(2, list) };
    let text = volume.replace(&replacement).unwrap_err().to_string();
    assert!(text.contains("names the members of a Reel volume"), "{text}");
    other.open();
}
