//! Any one member deleted, truncated, overwritten or exchanged: every title reads the same, and the
//! damage is named.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use crate::volumes;
use std::fs::OpenOptions as FileOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use reel_volume::{MemberState, OpenOptions, RepairOptions, Replacement, Volume, VolumeError};

use crate::volumes::{Scratch, assert_all_right, bytes_of, open_options, publish};

const MEMBERS: usize = 4;

fn filled() -> Scratch {
    let scratch = Scratch::new(MEMBERS);
    let volume = scratch.open();
    publish(&volume, "film", &[900_000, 100]);
    publish(&volume, "song", &[40_000]);
    scratch
}

fn overwrite(path: &Path, from: u64, bytes: usize) {
    let file = FileOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&bytes_of("noise", 0, bytes), from).unwrap();
}

fn length(path: &Path) -> u64 {
    path.metadata().unwrap().len()
}

/// Opens for reading first, then for writing: both show the state, both read everything. Then a
/// title is added.
fn assert_named(scratch: &Scratch, member: usize, state: MemberState, words: &str) {
    let reading = Volume::open(scratch.path(), OpenOptions { read_only: true, ..open_options() }).unwrap();
    let finding = reading.findings()[member].clone();
    assert_eq!(finding.state, state, "{finding}");
    assert!(finding.to_string().contains(words), "{finding}");
    assert!(
        reading.findings().iter().all(|other| other.member == member || other.state == MemberState::Present)
    );
    assert_all_right(&reading);
    drop(reading);

    let volume = scratch.open();
    assert_eq!(volume.findings()[member], finding);
    assert_all_right(&volume);
    let report = volume.check(&mut |_| true);
    assert!(report.nothing_lost(), "{report:?}");
    if state.in_use() {
        assert_eq!(volume.counters().rows_decoded.get(), 0);
    } else {
        assert!(volume.counters().rows_decoded.get() > 0);
        assert!(report.members[member].missing_rows > 0);
        assert_eq!(report.titles.iter().map(|title| title.id.as_str()).collect::<Vec<_>>(), ["film", "song"]);
        assert!(!report.is_clean());
    }
    publish(&volume, "added", &[300_000]);
    assert_all_right(&volume);
    drop(volume);
    let volume = scratch.open();
    assert_eq!(volume.titles().len(), 3);
    assert_all_right(&volume);
}

#[test]
fn a_deleted_member_is_missing() {
    for member in 0..MEMBERS {
        let scratch = filled();
        std::fs::remove_file(scratch.member(member)).unwrap();
        assert_named(&scratch, member, MemberState::Missing, "Bring it back");
    }
}

#[test]
fn a_shortened_member_is_truncated() {
    for (member, left) in [(0, 3 << 20), (1, 4096), (2, 8192), (3, (8 << 20) - 200_000)] {
        let scratch = filled();
        FileOptions::new().write(true).open(scratch.member(member)).unwrap().set_len(left).unwrap();
        assert_named(&scratch, member, MemberState::Truncated, "should have");
    }
    let scratch = filled();
    FileOptions::new().write(true).open(scratch.member(2)).unwrap().set_len(0).unwrap();
    assert_named(&scratch, 2, MemberState::Damaged, "overwritten");
}

#[test]
fn a_member_of_noise_is_damaged() {
    for member in 0..MEMBERS {
        let scratch = filled();
        let path = scratch.member(member);
        overwrite(&path, 0, length(&path) as usize);
        assert_named(&scratch, member, MemberState::Damaged, "overwritten");
    }
}

#[test]
fn noise_on_one_superblock_is_repaired_from_the_other() {
    for (member, at) in [(1, 0), (2, 4096)] {
        let scratch = filled();
        overwrite(&scratch.member(member), at, 4096);
        assert_named(&scratch, member, MemberState::Repaired, "superblock");
        assert_eq!(scratch.open().findings()[member].state, MemberState::Present);
    }
}

#[test]
fn noise_on_a_catalogue_copy_is_repaired() {
    // Area A, area B, both.
    for (at, bytes) in [(64 << 10, 4096), (320 << 10, 5000), (64 << 10, 512 << 10)] {
        let scratch = filled();
        overwrite(&scratch.member(1), at, bytes);
        assert_named(&scratch, 1, MemberState::Repaired, "catalogue");
        assert_eq!(scratch.open().findings()[1].state, MemberState::Present);
    }
}

#[test]
fn noise_among_the_units_is_decoded_and_found_by_the_check() {
    for member in 0..MEMBERS {
        let scratch = filled();
        let path = scratch.member(member);
        overwrite(&path, 1 << 20, length(&path) as usize - (1 << 20));
        let volume = scratch.open();
        assert!(volume.findings().iter().all(|finding| finding.state == MemberState::Present));
        assert_all_right(&volume);
        assert!(volume.counters().rows_decoded.get() > 0 && volume.counters().checksum_failures.get() > 0);
        let report = volume.check(&mut |_| true);
        assert!(report.nothing_lost() && !report.is_clean());
        for (index, found) in report.members.iter().enumerate() {
            assert_eq!(found.bad_rows > 0, index == member, "{found:?}");
            assert!(found.first_bad_offsets.len() <= 16);
        }
        assert_eq!(report.titles.len(), 2);
    }
}

#[test]
fn single_flipped_bits_are_found_where_they_are() {
    let scratch = filled();
    let path = scratch.member(2);
    let file = FileOptions::new().read(true).write(true).open(&path).unwrap();
    let at = (1 << 20) + 5000;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
    let volume = scratch.open();
    assert_all_right(&volume);
    let mut reports = Vec::new();
    let report = volume.check(&mut |progress| {
        reports.push(progress);
        true
    });
    assert_eq!(report.members[2].bad_rows, 1);
    // The row of 4000 bytes with that byte: the second of its unit.
    assert_eq!(report.members[2].first_bad_offsets, [(1 << 20) + 4000]);
    assert_eq!((report.titles[0].recoverable_rows, report.titles[0].lost_rows), (1, 0));
    assert!(reports.windows(2).all(|pair| pair[0].bytes_done < pair[1].bytes_done));
    assert_eq!(reports.last().unwrap().bytes_done, reports.last().unwrap().bytes_total);
    let stopped = volume.check(&mut |_| false);
    assert!(!stopped.complete && !stopped.is_clean());
}

#[test]
fn damage_of_two_members_loses_only_what_it_hits() {
    let scratch = filled();
    for member in [0, 1] {
        // The first group of slots: the start of the first object.
        overwrite(&scratch.member(member), 1 << 20, 4096);
    }
    let volume = scratch.open();
    let report = volume.check(&mut |_| true);
    assert!(!report.nothing_lost());
    assert_eq!(report.titles.len(), 1);
    assert_eq!(report.titles[0].id, "film");
    let film = volume.title("film").unwrap();
    let text = volumes::read_object(&volume, &film.objects[0].object).unwrap_err();
    assert!(text.contains("track 0 of film, stripe 0") && text.contains("member"), "{text}");
    let song = volume.title("song").unwrap();
    assert!(volumes::read_object(&volume, &song.objects[0].object).unwrap() == bytes_of("song", 0, 40_000));
}

#[test]
fn a_member_of_another_volume_is_foreign() {
    for member in [0, 3] {
        let (scratch, other) = (filled(), filled());
        std::fs::copy(other.member(member), scratch.member(member)).unwrap();
        assert_named(&scratch, member, MemberState::Foreign, "belongs to another volume");
    }
    let scratch = filled();
    std::fs::write(scratch.member(1), "my diary".repeat(4000)).unwrap();
    assert_named(&scratch, 1, MemberState::Damaged, "another file");
}

#[test]
fn a_copy_of_another_member_is_not_taken_for_it() {
    let scratch = filled();
    std::fs::copy(scratch.member(0), scratch.member(2)).unwrap();
    assert_named(&scratch, 2, MemberState::Foreign, "one of the two is a copy");
}

#[test]
fn swapped_members_are_accepted_and_reported() {
    let scratch = filled();
    let aside = scratch.path().join("aside");
    std::fs::rename(scratch.member(1), &aside).unwrap();
    std::fs::rename(scratch.member(3), scratch.member(1)).unwrap();
    std::fs::rename(&aside, scratch.member(3)).unwrap();
    let volume = scratch.open();
    let states: Vec<MemberState> = volume.findings().iter().map(|finding| finding.state).collect();
    assert_eq!(
        states,
        [MemberState::Present, MemberState::Swapped, MemberState::Present, MemberState::Swapped]
    );
    assert!(volume.findings()[3].path.ends_with("member-1.reel"));
    assert_all_right(&volume);
    assert!(volume.check(&mut |_| true).is_clean());
    assert_eq!(volume.counters().rows_decoded.get(), 0);
}

#[test]
fn a_member_that_was_missing_while_something_was_written_is_stale() {
    for member in 0..MEMBERS {
        let scratch = filled();
        let aside = scratch.path().join("aside");
        std::fs::rename(scratch.member(member), &aside).unwrap();
        let volume = scratch.open();
        publish(&volume, "meanwhile", &[500_000]);
        volume.remove("song").unwrap();
        publish(&volume, "over-it", &[60_000]);
        drop(volume);
        std::fs::rename(&aside, scratch.member(member)).unwrap();
        let volume = scratch.open();
        assert_eq!(volume.findings()[member].state, MemberState::Stale);
        assert!(volume.findings()[member].text.contains("was missing while the volume was written"));
        assert_eq!(
            volume.titles().iter().map(|title| title.id.as_str()).collect::<Vec<_>>(),
            ["film", "meanwhile", "over-it"]
        );
        assert_all_right(&volume);
        assert!(volume.counters().checksum_failures.get() == 0, "the stale member gets no requests");
        drop(volume);
        // With a second one missing, too few members are left, however many files exist.
        let second = (member + 1) % MEMBERS;
        std::fs::rename(scratch.member(second), &aside).unwrap();
        let text = scratch.try_open().err().unwrap().to_string();
        assert!(text.contains("2 of its 4 members cannot be used"), "{text}");
        assert!(text.contains("stale") && text.contains("missing"), "{text}");
        std::fs::rename(&aside, scratch.member(second)).unwrap();
        assert_all_right(&scratch.open());
    }
}

/// It is not in use as if nothing had happened: the rows that it misses would be found by the loss
/// of another member.
#[test]
fn a_member_restored_from_a_backup_is_stale_and_can_be_rebuilt() {
    for member in 0..MEMBERS {
        let scratch = filled();
        let backup = scratch.path().join("backup");
        std::fs::copy(scratch.member(member), &backup).unwrap();
        let volume = scratch.open();
        publish(&volume, "later", &[500_000]);
        volume.remove("song").unwrap();
        publish(&volume, "over-it", &[60_000]);
        drop(volume);
        std::fs::copy(&backup, scratch.member(member)).unwrap();
        let volume = scratch.open();
        assert_eq!(volume.titles().len(), 3);
        let finding = volume.findings()[member].clone();
        assert_eq!(finding.state, MemberState::Stale, "{finding}");
        assert!(finding.text.contains("put back or restored"), "{finding}");
        assert_all_right(&volume);
        assert!(volume.rebuild(member, RepairOptions::default(), &mut |_| true).unwrap().complete);
        drop(volume);
        let volume = scratch.open();
        assert!(volume.findings().iter().all(|finding| finding.state == MemberState::Present));
        assert!(volume.check(&mut |_| true).is_clean());
    }
}

/// The four other members decide, however far the copy came and whichever of its members is used.
#[test]
fn a_member_of_a_copy_that_was_written_apart_overrides_no_other() {
    for (changes, member) in [(1, 0), (1, 2), (4, 1), (4, 3)] {
        let scratch = filled();
        let copy = Scratch { directory: tempfile::tempdir().unwrap() };
        for index in 0..MEMBERS {
            std::fs::copy(scratch.member(index), copy.member(index)).unwrap();
        }
        std::fs::copy(scratch.path().join("volume.toml"), copy.path().join("volume.toml")).unwrap();
        for change in 0..changes {
            let volume = copy.open();
            publish(&volume, &format!("apart-{change}"), &[200_000]);
            volume.remove(if change == 0 { "film" } else { "apart-0" }).ok();
        }
        publish(&scratch.open(), "later", &[100_000]);
        std::fs::copy(copy.member(member), scratch.member(member)).unwrap();
        for read_only in [true, false, false] {
            let volume = Volume::open(scratch.path(), OpenOptions { read_only, ..open_options() }).unwrap();
            let titles: Vec<String> = volume.titles().iter().map(|title| title.id.clone()).collect();
            assert_eq!(titles, ["film", "song", "later"]);
            let finding = volume.findings()[member].clone();
            assert!(matches!(finding.state, MemberState::Foreign | MemberState::Stale), "{finding}");
            assert_all_right(&volume);
        }
        // Used again only by order.
        let volume = scratch.open();
        assert!(volume.rebuild(member, RepairOptions::default(), &mut |_| true).unwrap().complete);
        assert!(volume.check(&mut |_| true).is_clean());
        assert_all_right(&volume);
    }
}

/// Of two that contradict each other neither is believed.
#[test]
fn the_halves_of_a_volume_of_two_that_were_copied_are_told_apart_or_refused() {
    let scratch = Scratch::new(2);
    publish(&scratch.open(), "film", &[90_000]);
    let copy = Scratch { directory: tempfile::tempdir().unwrap() };
    for name in ["member-0.reel", "member-1.reel", "volume.toml"] {
        std::fs::copy(scratch.path().join(name), copy.path().join(name)).unwrap();
    }
    copy.open().remove("film").unwrap();
    std::fs::copy(copy.member(1), scratch.member(1)).unwrap();
    let text = scratch.try_open().err().expect("undecided").to_string();
    assert!(text.contains("contradict each other") && text.contains("take away"), "{text}");
    std::fs::remove_file(scratch.member(1)).unwrap();
    assert_eq!(scratch.open().titles().len(), 1);
}

/// Not the three newest, which the volume cannot be opened with either.
#[test]
fn two_old_members_of_five_are_named_as_the_old_ones() {
    let cases =
        [(false, "holds an older state of the volume"), (true, "expects another disk as this member")];
    for (is_replaced, words) in cases {
        let scratch = Scratch::new(5);
        publish(&scratch.open(), "film", &[300_000]);
        let old = |member| scratch.path().join(format!("old-{member}"));
        let now = |member| match is_replaced {
            true => scratch.path().join(format!("new-{member}")),
            false => scratch.member(member),
        };
        for member in [1, 3] {
            std::fs::copy(scratch.member(member), old(member)).unwrap();
            if is_replaced {
                let volume = scratch.open();
                let new = Replacement::new(member, now(member));
                volume.replace(&Replacement { replace_healthy: true, ..new }).unwrap();
                volume.rebuild(member, RepairOptions::default(), &mut |_| true).unwrap();
            }
        }
        publish(&scratch.open(), "later", &[300_000]);
        for member in [1, 3] {
            std::fs::copy(old(member), now(member)).unwrap();
        }
        let error = scratch.try_open().err().expect("two are too many");
        let text = error.to_string();
        assert!(matches!(error, VolumeError::TooFewMembers { missing: 2, members: 5, .. }), "{text}");
        assert_eq!(text.matches(words).count(), 2, "{text}");
        assert!(text.contains("member 1 (") && text.contains("member 3 ("), "{text}");
        assert!(!text.contains("written apart"), "{text}");
    }
}

#[test]
fn too_many_missing_are_all_named() {
    let scratch = filled();
    for member in [0, 2] {
        std::fs::remove_file(scratch.member(member)).unwrap();
    }
    let error = scratch.try_open().err().unwrap();
    let text = error.to_string();
    assert!(
        matches!(error, VolumeError::TooFewMembers { missing: 2, members: 4, tolerated: Some(1), .. }),
        "{text}"
    );
    assert!(text.contains("member-0.reel") && text.contains("member-2.reel"), "{text}");
    for member in [1, 3] {
        std::fs::remove_file(scratch.member(member)).unwrap();
    }
    assert!(scratch.try_open().err().unwrap().to_string().contains("4 of its 4 members"));
}

#[test]
fn the_halves_of_a_volume_of_two_never_diverge() {
    let scratch = Scratch::new(2);
    publish(&scratch.open(), "film", &[50_000]);
    let aside = scratch.path().join("aside");
    std::fs::rename(scratch.member(0), &aside).unwrap();
    let volume = scratch.open();
    assert_all_right(&volume);
    assert!(volume.status().read_only.unwrap().contains("member 0"));
    assert!(matches!(volume.remove("film"), Err(VolumeError::ReadOnly { .. })));
    assert!(matches!(volume.writer(reel_qos::Class::APERIODIC), Err(VolumeError::ReadOnly { .. })));
    drop(volume);
    std::fs::rename(&aside, scratch.member(0)).unwrap();
    std::fs::rename(scratch.member(1), &aside).unwrap();
    let volume = scratch.open();
    publish(&volume, "song", &[50_000]);
    drop(volume);
    std::fs::rename(&aside, scratch.member(1)).unwrap();
    let volume = scratch.open();
    assert_eq!(volume.findings()[1].state, MemberState::Stale);
    assert_eq!(volume.titles().len(), 2);
    assert_all_right(&volume);
}

#[test]
fn a_second_program_is_told_which_process_has_the_volume() {
    let scratch = filled();
    let first = scratch.open();
    let text = scratch.try_open().err().unwrap().to_string();
    assert!(text.contains("in use by") && text.contains(&std::process::id().to_string()), "{text}");
    let reading = Volume::open(scratch.path(), OpenOptions { read_only: true, ..open_options() });
    assert!(matches!(reading.err(), Some(VolumeError::Locked { .. })));
    drop(first);
    let readers: Vec<Volume> = (0..2)
        .map(|_| Volume::open(scratch.path(), OpenOptions { read_only: true, ..open_options() }).unwrap())
        .collect();
    assert!(matches!(scratch.try_open().err(), Some(VolumeError::Locked { .. })));
    assert!(matches!(readers[0].remove("film"), Err(VolumeError::ReadOnly { .. })));
    drop(readers);
    // Another directory that lists the same members does not circumvent the lock.
    let first = scratch.open();
    let second = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(scratch.path().join("volume.toml")).unwrap();
    let text = text.replace("member-", &format!("{}/member-", scratch.path().display()));
    std::fs::write(second.path().join("volume.toml"), text).unwrap();
    let refused = Volume::open(second.path(), open_options());
    assert!(matches!(refused.err(), Some(VolumeError::Locked { .. })));
    drop(first);
    assert_all_right(&Volume::open(second.path(), open_options()).unwrap());
}

#[test]
fn existing_content_is_not_overwritten_by_mistake() {
    let scratch = filled();
    let again = |options| Volume::create(scratch.path(), options).map(|_| ()).unwrap_err();
    let text = again(volumes::options(4)).to_string();
    assert!(text.contains("is already a Reel volume") && text.contains("--force"), "{text}");
    assert_all_right(&scratch.open());
    let open = scratch.open();
    let forced = reel_volume::VolumeOptions { force: true, ..volumes::options(4) };
    assert!(matches!(again(forced.clone()), VolumeError::Locked { .. }));
    drop(open);

    let elsewhere = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..3).map(|index| scratch.member(index)).collect();
    let steal =
        reel_volume::VolumeOptions { members: reel_volume::Members::Paths(paths), ..volumes::options(3) };
    let text = Volume::create(elsewhere.path(), steal.clone()).unwrap_err().to_string();
    assert!(text.contains("is already member 0 of the Reel volume"), "{text}");
    assert!(!elsewhere.path().join("volume.toml").exists());
    assert_all_right(&scratch.open());

    let diary = elsewhere.path().join("diary");
    std::fs::write(&diary, "Dear diary").unwrap();
    let paths = vec![elsewhere.path().join("new-0"), diary.clone(), elsewhere.path().join("new-2")];
    let over = reel_volume::VolumeOptions {
        members: reel_volume::Members::Paths(paths.clone()),
        ..volumes::options(3)
    };
    let text = Volume::create(elsewhere.path(), over.clone()).unwrap_err().to_string();
    assert!(text.contains("is not empty"), "{text}");
    assert_eq!(std::fs::read_to_string(&diary).unwrap(), "Dear diary");
    assert!(!paths[0].exists() && !paths[2].exists());
    let twice = vec![paths[0].clone(), paths[2].clone(), paths[0].clone()];
    let text = Volume::create(
        elsewhere.path(),
        reel_volume::VolumeOptions { members: reel_volume::Members::Paths(twice), ..volumes::options(3) },
    );
    let text = text.unwrap_err().to_string();
    assert!(text.contains("is listed twice"), "{text}");
    Volume::create(elsewhere.path(), reel_volume::VolumeOptions { force: true, ..over }).unwrap();
    let volume = Volume::open(elsewhere.path(), open_options()).unwrap();
    publish(&volume, "film", &[100_000]);
    assert_all_right(&volume);
    Volume::create(scratch.path(), forced).unwrap();
    assert_eq!(scratch.open().titles().len(), 0);
}

#[test]
fn a_broken_volume_file_is_named() {
    let scratch = filled();
    let file = scratch.path().join("volume.toml");
    let good = std::fs::read_to_string(&file).unwrap();
    for (text, words) in [
        ("volume = ", "cannot be parsed"),
        ("volume = \"abc\"\nmembers = [\"x\"]\n", "32 hexadecimal digits"),
        (&good.replace("members", "member"), "cannot be parsed"),
        ("volume = \"00000000000000000000000000000000\"\nmembers = []\n", "1 to 128"),
        (&"#".repeat(2 << 20), "longer than 1 MiB"),
    ] {
        std::fs::write(&file, text).unwrap();
        let found = scratch.try_open().err().unwrap().to_string();
        assert!(found.contains(words) && found.contains("volume.toml"), "{found}");
    }
    std::fs::remove_file(&file).unwrap();
    let text = scratch.try_open().err().unwrap().to_string();
    assert!(text.contains("holds 4 members") && text.contains("reel volume find"), "{text}");
    assert!(!text.contains("create") && !text.contains("--force"), "{text}");
    std::fs::write(&file, good).unwrap();
    assert_all_right(&scratch.open());
}

/// Writes the layout of catalogue areas before there were seals: the body follows the header
/// directly.
#[test]
fn a_catalogue_laid_out_by_another_version_is_not_called_overwritten() {
    let scratch = filled();
    for member in 0..MEMBERS {
        let file = FileOptions::new().read(true).write(true).open(scratch.member(member)).unwrap();
        for area in [64 << 10, (64 << 10) + (256 << 10)] {
            let mut body = vec![0; 100_000];
            file.read_exact_at(&mut body, area + 8192).unwrap();
            file.write_all_at(&body, area + 4096).unwrap();
        }
    }
    let text = scratch.try_open().err().unwrap().to_string();
    assert!(text.contains("another version of Reel") && !text.contains("overwritten"), "{text}");
}
