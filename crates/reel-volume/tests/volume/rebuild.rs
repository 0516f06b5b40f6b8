//! Scrub, replace and rebuild: what is wrong is mended, what is lost gets a successor, and nobody notices.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use crate::volumes;
use std::fs::OpenOptions as FileOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use reel_disk::{DiskWork, Fault, Faults};
use reel_qos::Class;
use reel_volume::{
    MemberState, MendOptions, OpenOptions, RebuildReport, Replacement, Role, Volume, VolumeError,
};

use crate::volumes::at_once::AtOnce;
use crate::volumes::{
    Scratch, all_memory, assert_all_right, bytes_of, open_options, publish, read_object, title_of,
};

const MEMBERS: usize = 4;
const LONG: usize = 900_000;

fn filled() -> Scratch {
    let scratch = Scratch::new(MEMBERS);
    let volume = scratch.open();
    publish(&volume, "film", &[LONG, 100]);
    publish(&volume, "song", &[40_000]);
    scratch
}

fn open_with_faults(scratch: &Scratch) -> (Volume, Faults) {
    let mut options = open_options();
    let faults = Faults::default();
    options.disks.faults = faults.clone();
    (Volume::open(scratch.path(), options).unwrap(), faults)
}

fn successor(scratch: &Scratch, member: usize, name: &str) -> Replacement {
    Replacement { member, path: scratch.path().join(name), force: false, give_up: false }
}

fn rebuild(volume: &Volume, member: usize) -> RebuildReport {
    volume.rebuild(member, MendOptions::default(), &mut |_| true).unwrap()
}

fn assert_sound(volume: &Volume) {
    assert_all_right(volume);
    let report = volume.check(&mut |_| true);
    assert!(report.is_clean(), "{report:?}");
}

/// Noise over bytes of a member, whatever lies there.
fn sprinkle(path: &PathBuf, from: u64, places: u64, every: u64) {
    let file = FileOptions::new().write(true).open(path).unwrap();
    for place in 0..places {
        file.write_all_at(&bytes_of("noise", place as usize, 100), from + place * every).unwrap();
    }
}

#[test]
fn a_scrub_mends_what_a_second_one_then_does_not_find() {
    let scratch = filled();
    let volume = scratch.open();
    let data = 1 << 20;
    // Where two members are hit in one matrix, bytes would be lost: so each has a part of its own.
    sprinkle(&scratch.member(1), data, 9, 12_288);
    sprinkle(&scratch.member(3), data + 20 * 12_288, 5, 12_288);
    let found = volume.check(&mut |_| true);
    assert!(!found.is_clean() && found.nothing_lost());
    let mut told = Vec::new();
    let report = volume
        .scrub(MendOptions::default(), &mut |progress| {
            told.push(progress);
            true
        })
        .unwrap();
    let wrong = |member: usize| (report.members[member].bad_rows, report.members[member].mended_rows);
    assert_eq!(wrong(1).0, found.members[1].bad_rows);
    assert!(wrong(1).0 >= 9 && wrong(1).1 == wrong(1).0 && wrong(3).0 >= 5 && wrong(3).1 == wrong(3).0);
    assert!(report.is_mended() && !report.is_clean());
    assert!(volume.counters().units_mended.get() >= 14);
    assert!(told.is_sorted_by_key(|progress| progress.bytes_done));
    assert_eq!(told.last().unwrap().bytes_done, told.last().unwrap().bytes_total);
    let second = volume.scrub(MendOptions::default(), &mut |_| true).unwrap();
    assert!(second.is_clean() && second.is_mended());
    drop(volume);
    assert_sound(&scratch.open());
}

#[test]
fn a_scrub_says_what_it_cannot_mend() {
    let scratch = filled();
    let (volume, faults) = open_with_faults(&scratch);
    sprinkle(&scratch.member(1), 1 << 20, 1, 1);
    sprinkle(&scratch.member(2), 1 << 20, 1, 1);
    let report = volume.scrub(MendOptions::default(), &mut |_| true).unwrap();
    assert!(!report.nothing_lost() && !report.is_mended());
    assert_eq!(report.members.iter().map(|member| member.mended_rows).sum::<u64>(), 0);
    // Nor is it believed that a member which lies was mended.
    faults.inject(3, Fault::CorruptReads);
    let report = volume.scrub(MendOptions::default(), &mut |_| true).unwrap();
    assert!(report.members[3].bad_rows > 0 && report.members[3].mended_rows == 0);
    let stopped = volume.scrub(MendOptions::default(), &mut |_| false).unwrap();
    assert!(!stopped.complete && !stopped.is_mended());
}

/// A file tells once of what it could not keep: had the scrub kept it to itself, the next commit would be taken for durable.
#[test]
fn a_member_that_does_not_keep_what_was_mended_is_out() {
    // In the write that mends, and in the sync after all.
    for mended_before in [0, 1] {
        let scratch = filled();
        let (volume, faults) = open_with_faults(&scratch);
        sprinkle(&scratch.member(1), 1 << 20, 1, 1);
        // Far behind, when there is to be something to mend after the fault.
        if mended_before == 0 {
            sprinkle(&scratch.member(1), (1 << 20) + 20 * 12_288, 1, 1);
        }
        let mut mended = 0;
        let report = volume
            .scrub(MendOptions::default(), &mut |_| {
                if volume.counters().units_mended.get() > 0 && mended == 0 {
                    mended = volume.counters().units_mended.get();
                    faults.inject(1, Fault::FailWrites);
                }
                true
            })
            .unwrap();
        assert_eq!(mended, 1);
        assert!(report.members[1].bad_rows > 0 && report.members[1].mended_rows == 0 && !report.is_mended());
        assert_eq!(volume.status().members[1].state, MemberState::Failed);
        assert_eq!(volume.counters().write_errors.get(), 2 - mended_before);
        assert_all_right(&volume);
        faults.clear(1);
        assert!(rebuild(&volume, 1).complete);
        assert_sound(&volume);
    }
}

#[test]
fn a_lost_member_is_replaced_and_rebuilt_and_another_may_be_lost_then() {
    for member in 0..MEMBERS {
        let scratch = filled();
        std::fs::remove_file(scratch.member(member)).unwrap();
        let volume = scratch.open();
        publish(&volume, "added", &[300_000]);
        let finding = volume.replace(&successor(&scratch, member, "new")).unwrap();
        assert_eq!((finding.state, finding.member), (MemberState::Rebuilding, member));
        assert!(finding.path.ends_with("new"));
        publish(&volume, "during", &[500_000]);
        assert_all_right(&volume);
        assert_eq!(volume.rebuilding(), [member]);
        let report = rebuild(&volume, member);
        assert!(report.complete && report.written_bytes > 0 && report.lost_rows == 0);
        assert!(report.good_bytes > 0, "what was published meanwhile was written to it: {report:?}");
        assert_eq!(volume.rebuilding(), [] as [usize; 0]);
        assert_sound(&volume);
        assert_eq!(volume.status().members[member].state, MemberState::Present);
        publish(&volume, "after", &[50_000]);
        drop(volume);

        let volume = scratch.open();
        let states: Vec<_> = volume.findings().iter().map(|finding| finding.state).collect();
        assert_eq!(states, [MemberState::Present; MEMBERS]);
        assert_sound(&volume);
        drop(volume);
        std::fs::remove_file(scratch.member((member + 1) % MEMBERS)).unwrap();
        let volume = scratch.open();
        assert_eq!(volume.titles().len(), 5);
        assert_all_right(&volume);
    }
}

#[test]
fn an_old_disk_that_comes_back_does_not_count() {
    let scratch = filled();
    let aside = scratch.path().join("aside");
    std::fs::rename(scratch.member(2), &aside).unwrap();
    let volume = scratch.open();
    volume.replace(&successor(&scratch, 2, "new")).unwrap();
    rebuild(&volume, 2);
    drop(volume);
    std::fs::rename(scratch.path().join("new"), scratch.path().join("new-aside")).unwrap();
    std::fs::rename(&aside, scratch.path().join("new")).unwrap();
    let volume = scratch.open();
    assert_eq!(volume.findings()[2].state, MemberState::Foreign);
    assert!(volume.findings()[2].text.contains("means another disk"));
    // It is not the disk that the catalogue means, so it is not filled either.
    let refused = volume.rebuild(2, MendOptions::default(), &mut |_| true).unwrap_err().to_string();
    assert!(refused.contains("replace"), "{refused}");
    assert_all_right(&volume);
    let old = successor(&scratch, 2, "new");
    assert!(volume.replace(&old).unwrap_err().to_string().contains("is member 2 of the Reel volume"));
    volume.replace(&Replacement { force: true, ..old }).unwrap();
    rebuild(&volume, 2);
    assert_sound(&volume);
}

#[test]
fn a_member_that_was_away_is_brought_up_to_date_in_place() {
    let scratch = filled();
    let aside = scratch.path().join("aside");
    std::fs::rename(scratch.member(1), &aside).unwrap();
    publish(&scratch.open(), "added", &[300_000]);
    std::fs::rename(&aside, scratch.member(1)).unwrap();
    let volume = scratch.open();
    assert_eq!(volume.findings()[1].state, MemberState::Stale);
    let report = rebuild(&volume, 1);
    assert!(report.complete && report.good_bytes > report.written_bytes && report.written_bytes > 0);
    assert_sound(&volume);
    let refused = volume.rebuild(1, MendOptions::default(), &mut |_| true).unwrap_err().to_string();
    assert!(refused.contains("in use") && refused.contains("scrub"), "{refused}");
    drop(volume);
    let volume = scratch.open();
    assert_eq!(volume.findings()[1].state, MemberState::Present);
    assert_sound(&volume);
}

#[test]
fn the_wrong_member_is_not_replaced() {
    let scratch = filled();
    let volume = scratch.open();
    let replace = |member: usize, path: PathBuf, give_up: bool| {
        volume.replace(&Replacement { member, path, force: false, give_up }).unwrap_err()
    };
    let new = scratch.path().join("new");
    assert!(matches!(replace(1, new.clone(), false), VolumeError::Healthy { member: 1, .. }));
    let text = replace(1, new.clone(), false).to_string();
    assert!(text.contains("in use and well") && text.contains("--give-up"), "{text}");
    assert!(replace(9, new.clone(), true).to_string().contains("no member 9"));
    assert!(!new.exists());
    let text = replace(1, scratch.member(2), true).to_string();
    assert!(text.contains("is member 2 of this volume"), "{text}");
    let text = replace(1, scratch.member(1), true).to_string();
    assert!(text.contains("is that member itself"), "{text}");

    let other = filled();
    let text = replace(1, other.member(0), false).to_string();
    assert!(text.contains("in use and well"), "{text}");
    drop(volume);
    std::fs::remove_file(scratch.member(1)).unwrap();
    let volume = scratch.open();
    let replace = |path: PathBuf| {
        volume.replace(&Replacement { member: 1, path, force: false, give_up: false }).unwrap_err()
    };
    let text = replace(other.member(0)).to_string();
    assert!(text.contains("is member 0 of the Reel volume") && text.contains("--force"), "{text}");
    let diary = scratch.path().join("diary");
    std::fs::write(&diary, vec![b'x'; 9 << 20]).unwrap();
    assert!(replace(diary.clone()).to_string().contains("is not empty"));
    let small = scratch.path().join("small");
    std::fs::write(&small, vec![0; 5 << 20]).unwrap();
    let error = replace(small);
    assert!(error.to_string().contains("say --force to have this file grow"), "{error}");
    assert!(matches!(error, VolumeError::TooShort { has_bytes: 5_242_880, .. }));
    // Another one would be one too many, and is not given up even by force.
    let both = volume.replace(&Replacement { give_up: true, ..successor(&scratch, 3, "new") }).unwrap_err();
    assert!(both.to_string().contains("member 1 cannot be read either"), "{both}");
    assert!(!new.exists());
    assert_all_right(&volume);
    assert_sound(&other.open());
    assert_eq!(std::fs::read(&diary).unwrap().len(), 9 << 20);
    // By force, what is there is lost.
    volume.replace(&Replacement { force: true, ..successor(&scratch, 1, "diary") }).unwrap();
    rebuild(&volume, 1);
    assert_sound(&volume);
}

#[test]
fn giving_a_member_up_and_losing_what_is_on_the_target_are_said_each_by_itself() {
    let scratch = filled();
    let volume = scratch.open();
    let precious = scratch.path().join("precious");
    std::fs::write(&precious, b"a film of ours").unwrap();
    let replace = |force: bool, give_up: bool| {
        volume.replace(&Replacement { force, give_up, ..successor(&scratch, 1, "precious") })
    };
    let error = replace(true, false).unwrap_err();
    assert!(error.to_string().contains("say --give-up") && !error.to_string().contains("--force"), "{error}");
    let error = replace(false, true).unwrap_err();
    assert!(error.to_string().contains("is not empty; choose another place, or say --force"), "{error}");
    assert_eq!(std::fs::read(&precious).unwrap(), b"a film of ours");
    replace(true, true).unwrap();
    rebuild(&volume, 1);
    assert_sound(&volume);
}

#[test]
fn a_member_in_use_is_given_up_when_told_so_and_writers_go_on() {
    let scratch = filled();
    let volume = scratch.open();
    // Begun on the old disk, went on with the new one, and is published when that is in use.
    let bytes = bytes_of("during", 0, LONG);
    let mut writer = volume.writer(Class::APERIODIC).unwrap();
    writer.write(&bytes[..500_000]).unwrap();
    volume.replace(&Replacement { give_up: true, ..successor(&scratch, 0, "new") }).unwrap();
    writer.write(&bytes[500_000..700_000]).unwrap();
    assert!(rebuild(&volume, 0).complete);
    writer.write(&bytes[700_000..]).unwrap();
    let mut title = title_of(&volume, "during", &[]);
    title.objects.push(reel_volume::ObjectEntry {
        role: Role::Track,
        number: 0,
        object: writer.finish().unwrap(),
    });
    volume.publish(title).unwrap();
    assert_sound(&volume);
    drop(volume);
    std::fs::remove_file(scratch.member(3)).unwrap();
    let volume = scratch.open();
    assert!(read_object(&volume, &volume.title("during").unwrap().objects[0].object).unwrap() == bytes);
    assert_all_right(&volume);
}

#[test]
fn a_rebuild_that_was_interrupted_goes_on_where_it_was() {
    let scratch = filled();
    std::fs::remove_file(scratch.member(2)).unwrap();
    let volume = scratch.open();
    volume.replace(&successor(&scratch, 2, "new")).unwrap();
    let mut left = 5;
    let first = volume
        .rebuild(2, MendOptions::default(), &mut |_| {
            left -= 1;
            left > 0
        })
        .unwrap();
    assert!(!first.complete && first.written_bytes > 0);
    assert_eq!(volume.rebuilding(), [2]);
    drop(volume);
    let reading = Volume::open(scratch.path(), OpenOptions { read_only: true, ..open_options() }).unwrap();
    assert_eq!(reading.findings()[2].state, MemberState::Rebuilding);
    assert_eq!(reading.rebuilding(), [] as [usize; 0], "who may not write rebuilds nothing");
    drop(reading);
    let volume = scratch.open();
    assert_eq!(volume.findings()[2].state, MemberState::Rebuilding);
    assert_eq!(volume.rebuilding(), [2]);
    publish(&volume, "between", &[200_000]);
    let second = rebuild(&volume, 2);
    assert!(second.complete && second.good_bytes >= first.written_bytes);
    assert_sound(&volume);
}

#[test]
fn titles_come_and_go_while_a_member_is_rebuilt() {
    let scratch = Scratch::with(MEMBERS, |options| options.size_bytes = 4 * (24 << 20));
    let volume = scratch.open();
    for number in 0..8 {
        publish(&volume, &format!("old-{number}"), &[300_000]);
    }
    let free = volume.free_bytes();
    volume.replace(&Replacement { give_up: true, ..successor(&scratch, 1, "new") }).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..8 {
                publish(&volume, &format!("new-{number}"), &[300_000]);
                volume.remove(&format!("old-{number}")).unwrap();
                assert_all_right(&volume);
            }
            over.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                assert_all_right(&volume);
            }
        });
        let report = volume.rebuild(1, MendOptions { bytes_per_s: Some(20 << 20) }, &mut |_| true).unwrap();
        assert!(report.complete && report.lost_rows == 0);
    });
    assert_eq!(volume.titles().len(), 8);
    assert_eq!(volume.free_bytes(), free, "no slot is kept from being used again");
    assert_sound(&volume);
    drop(volume);
    std::fs::remove_file(scratch.member(0)).unwrap();
    assert_all_right(&scratch.open());
}

/// Both take hours on large disks, and so would keep the room of every title that is removed meanwhile.
#[test]
fn what_is_removed_before_its_turn_is_free_at_once() {
    let scratch = filled();
    let volume = scratch.open();
    for what in ["rebuild", "scrub"] {
        publish(&volume, "last", &[LONG]);
        let taken = volume.free_bytes();
        let mut freed = None;
        let mut look = |_| {
            freed.get_or_insert_with(|| {
                volume.remove("last").unwrap();
                volume.free_bytes() - taken
            });
            true
        };
        if what == "rebuild" {
            volume.replace(&Replacement { give_up: true, ..successor(&scratch, 1, "new") }).unwrap();
            assert!(volume.rebuild(1, MendOptions::default(), &mut look).unwrap().complete);
        } else {
            assert!(volume.scrub(MendOptions::default(), &mut look).unwrap().is_clean());
        }
        assert!(freed.unwrap() >= LONG as u64, "{freed:?} bytes during the {what}");
    }
    assert_sound(&volume);
}

#[test]
fn a_successor_that_fails_is_out_and_the_volume_goes_on() {
    let scratch = filled();
    std::fs::remove_file(scratch.member(2)).unwrap();
    let (volume, faults) = open_with_faults(&scratch);
    volume.replace(&successor(&scratch, 2, "new")).unwrap();
    faults.inject(2, Fault::FailWrites);
    assert!(volume.rebuild(2, MendOptions::default(), &mut |_| true).is_err());
    assert_eq!(volume.status().members[2].state, MemberState::Failed);
    assert_all_right(&volume);
    publish(&volume, "after", &[100_000]);
    faults.clear(2);
    // It gets another chance, or another successor.
    volume.replace(&successor(&scratch, 2, "newer")).unwrap();
    assert!(rebuild(&volume, 2).complete);
    assert_sound(&volume);
}

#[test]
fn nothing_is_rebuilt_while_another_cannot_be_read() {
    let scratch = filled();
    std::fs::remove_file(scratch.member(2)).unwrap();
    let (volume, faults) = open_with_faults(&scratch);
    volume.replace(&successor(&scratch, 2, "new")).unwrap();
    faults.inject(0, Fault::FailReads);
    let text = volume.rebuild(2, MendOptions::default(), &mut |_| true).unwrap_err().to_string();
    assert!(text.contains("member 0"), "{text}");
    assert_eq!(volume.rebuilding(), [2], "it is not taken for whole");
    faults.clear(0);
    assert!(rebuild(&volume, 2).complete);
    assert_sound(&volume);
}

#[test]
fn one_at_a_time() {
    let scratch = filled();
    let volume = scratch.open();
    let mut asked = false;
    volume
        .scrub(MendOptions::default(), &mut |_| {
            if !asked {
                asked = true;
                let busy = volume.replace(&successor(&scratch, 1, "new")).unwrap_err();
                assert!(matches!(busy, VolumeError::Busy { running: "scrub" }), "{busy}");
            }
            true
        })
        .unwrap();
    assert!(asked);
    volume.scrub(MendOptions::default(), &mut |_| true).unwrap();
    drop(volume);
    let reading = Volume::open(scratch.path(), OpenOptions { read_only: true, ..open_options() }).unwrap();
    let refused = reading.scrub(MendOptions::default(), &mut |_| true);
    assert!(matches!(refused, Err(VolumeError::ReadOnly { .. })));
    assert!(matches!(reading.replace(&successor(&scratch, 1, "new")), Err(VolumeError::ReadOnly { .. })));
}

#[test]
fn a_successor_may_take_the_very_place_of_the_old_disk() {
    let scratch = filled();
    std::fs::remove_file(scratch.member(2)).unwrap();
    // By a path that is written otherwise.
    let path = scratch.path().join("./member-2.reel");
    let volume = scratch.open();
    volume.replace(&Replacement { member: 2, path, force: false, give_up: false }).unwrap();
    drop(volume);
    let text = std::fs::read_to_string(scratch.path().join("volume.toml")).unwrap();
    assert_eq!(text.matches("member-2.reel").count(), 1, "{text}");
    assert!(!text.contains(scratch.path().to_str().unwrap()), "the directory may be moved: {text}");
    let volume = scratch.open();
    assert_eq!(volume.rebuilding(), [2]);
    rebuild(&volume, 2);
    assert_sound(&volume);
}

/// What the member that fails holds is on no other, so nothing that leaves it behind may be committed.
#[test]
fn a_member_that_fails_during_a_rebuild_is_not_left_behind_by_a_half_filled_one() {
    let scratch = Scratch::new(MEMBERS);
    let (volume, faults) = open_with_faults(&scratch);
    // So small that their checksums are in the catalogue, and are there whichever member is not.
    (0..20).for_each(|number| publish(&volume, &format!("film-{number}"), &[100_000]));
    volume.replace(&Replacement { give_up: true, ..successor(&scratch, 2, "new") }).unwrap();
    let mut failed = false;
    let rebuilt = volume.rebuild(2, MendOptions::default(), &mut |_| {
        if !failed {
            failed = true;
            faults.inject(0, Fault::FailWrites);
            assert!(volumes::try_title_of(&volume, "ingest", &[100_000]).is_err());
            faults.clear(0);
        }
        true
    });
    assert!(failed && !volume.health().readable(0));
    let text = rebuilt.unwrap_err().to_string();
    assert!(text.contains("without member 0"), "{text}");
    drop(volume);
    let volume = scratch.open();
    assert_eq!(volume.findings()[0].state, MemberState::Present, "it holds everything");
    assert_all_right(&volume);
    assert!(rebuild(&volume, 2).complete);
    assert_sound(&volume);
}

/// Where each unit of an object's first stripe lies: member and offset.
fn first_stripe(volume: &Volume, title: &str) -> Vec<(usize, u64)> {
    let map = volume.map(&volume.title(title).unwrap().objects[0].object).unwrap();
    (0..volume.geometry().width()).map(|position| map.unit_at(0, position)).collect()
}

/// A row that is rotten elsewhere and lies beside a bad sector is read and kept; with the sector itself in it, nothing is written
/// over it.
#[test]
fn the_last_copy_of_a_row_outlives_a_rebuild_that_cannot_read_its_unit() {
    for bad_from in [0, 8192] {
        let scratch = Scratch::new(MEMBERS);
        let volume = scratch.open();
        // One full stripe each. Of one of them member 2 has the parity, which viewers ask for only to compute others.
        let films: Vec<String> = (0..MEMBERS).map(|number| format!("film-{number}")).collect();
        films.iter().for_each(|film| publish(&volume, film, &[36_000]));
        let units =
            films.iter().map(|film| first_stripe(&volume, film)).find(|units| units[3].0 == 2).unwrap();
        let unit_on = |member| units.iter().find_map(|&(on, at)| (on == member).then_some(at)).unwrap();
        drop(volume);
        let aside = scratch.path().join("aside");
        std::fs::rename(scratch.member(2), &aside).unwrap();
        publish(&scratch.open(), "added", &[300_000]);
        std::fs::rename(&aside, scratch.member(2)).unwrap();
        let (volume, faults) = open_with_faults(&scratch);
        // Row 2 of three.
        sprinkle(&scratch.member(1), unit_on(1) + 2 * 4000 + 500, 1, 1);
        assert_all_right(&volume);
        faults.inject(2, Fault::FailRange(unit_on(2) + bad_from..unit_on(2) + bad_from + 1));
        let report = rebuild(&volume, 2);
        assert!(report.complete, "{report:?}");
        faults.clear(2);
        assert_all_right(&volume);
        assert_eq!(report.lost_rows > 0, bad_from > 0, "{report:?}");
        volume.scrub(MendOptions::default(), &mut |_| true).unwrap();
        assert_sound(&volume);
    }
}

/// Nothing was written to the new disk, so it must not be the one that is in sync when the old one has been filled.
#[test]
fn a_replacement_that_fails_leaves_no_empty_disk_in_sync() {
    let scratch = filled();
    let (volume, _) = AtOnce::open(&scratch);
    let held = all_memory(&volume);
    let replacement = Replacement { give_up: true, ..successor(&scratch, 2, "new") };
    assert!(matches!(volume.replace(&replacement), Err(VolumeError::NoMemory { .. })));
    drop(held);
    publish(&volume, "added", &[300_000]);
    // The old one is meant still.
    assert!(rebuild(&volume, 2).complete);
    publish(&volume, "after", &[300_000]);
    assert_sound(&volume);
    drop(volume);
    let volume = scratch.open();
    assert_eq!(volume.findings()[2].state, MemberState::Present);
    assert_sound(&volume);
    // And the same disk again, which is no member yet, without force.
    volume.replace(&replacement).unwrap();
    assert!(rebuild(&volume, 2).complete);
    drop(volume);
    std::fs::remove_file(scratch.member(0)).unwrap();
    assert_all_right(&scratch.open());
}

/// The new disk is meant by then, so the old one, which is still open, is not filled; the new one may be tried again.
#[test]
fn a_replacement_that_fails_after_its_commit_is_done_again() {
    let scratch = filled();
    let (volume, disks) = AtOnce::open(&scratch);
    disks.refuse(true);
    let replacement = Replacement { give_up: true, ..successor(&scratch, 2, "new") };
    assert!(volume.replace(&replacement).is_err());
    publish(&volume, "added", &[300_000]);
    let text = volume.rebuild(2, MendOptions::default(), &mut |_| true).unwrap_err().to_string();
    assert!(text.contains("reel volume replace"), "{text}");
    disks.refuse(false);
    volume.replace(&replacement).unwrap();
    assert!(rebuild(&volume, 2).complete);
    assert_sound(&volume);
    drop(volume);
    std::fs::remove_file(scratch.member(0)).unwrap();
    assert_all_right(&scratch.open());
}

#[test]
fn a_bad_sector_at_the_very_end_keeps_no_rebuild_from_ending() {
    let scratch = Scratch::new(MEMBERS);
    publish(&scratch.open(), "film", &[36_000]);
    std::fs::remove_file(scratch.member(2)).unwrap();
    let (volume, faults) = open_with_faults(&scratch);
    let units = first_stripe(&volume, "film");
    let at = units.iter().find_map(|&(on, at)| (on == 0).then_some(at)).unwrap();
    volume.replace(&successor(&scratch, 2, "new")).unwrap();
    faults.inject(0, Fault::FailRange(at..at + 1));
    let report = rebuild(&volume, 2);
    assert!(report.complete && report.lost_rows == 3, "{report:?}");
    assert_eq!(volume.rebuilding(), [] as [usize; 0]);
}

#[test]
fn a_late_failure_of_the_old_disk_is_not_the_new_ones() {
    let scratch = filled();
    let (volume, disks) = AtOnce::open(&scratch);
    let bytes = bytes_of("during", 0, 300_000);
    disks.fail(|member, work| member == 2 && matches!(work, DiskWork::Write { .. }));
    disks.hold_failures();
    let mut writer = volume.writer(Class::APERIODIC).unwrap();
    writer.write(&bytes[..250_000]).unwrap();
    disks.fail(|_, _| false);
    volume.replace(&Replacement { give_up: true, ..successor(&scratch, 2, "new") }).unwrap();
    disks.release_failures();
    writer.write(&bytes[250_000..]).unwrap();
    let object = writer.finish().unwrap();
    assert!(volume.counters().write_errors.get() > 0);
    assert_eq!(volume.rebuilding(), [2]);
    assert!(rebuild(&volume, 2).complete);
    // Put on it when it is published, though it came in use before.
    let mut title = title_of(&volume, "during", &[]);
    title.objects.push(reel_volume::ObjectEntry { role: Role::Track, number: 0, object });
    volume.publish(title).unwrap();
    assert_sound(&volume);
}

#[test]
fn a_rebuild_ends_when_its_member_fails_for_somebody_else() {
    let scratch = filled();
    let (volume, faults) = open_with_faults(&scratch);
    volume.replace(&Replacement { give_up: true, ..successor(&scratch, 2, "new") }).unwrap();
    let mut told = 0;
    let rebuilt = volume.rebuild(2, MendOptions::default(), &mut |_| {
        told += 1;
        if told == 1 {
            faults.inject(2, Fault::FailWrites);
            drop(title_of(&volume, "ingest", &[100_000]));
            faults.clear(2);
        }
        true
    });
    assert!(rebuilt.unwrap_err().to_string().contains("failed before it was in use"));
    assert!(told < 4, "it went on for nothing {told} times");
}

#[test]
fn a_disk_of_two_names_is_one_disk() {
    let scratch = filled();
    // Left by a replacement that was interrupted.
    let spare = scratch.path().join("spare.reel");
    std::fs::write(&spare, b"").unwrap();
    let path = scratch.path().join("volume.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("members = [", "members = [\"spare.reel\", ")).unwrap();
    std::os::unix::fs::symlink(&spare, scratch.path().join("link.reel")).unwrap();
    let volume = scratch.open();
    volume.replace(&Replacement { give_up: true, ..successor(&scratch, 2, "link.reel") }).unwrap();
    drop(volume);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("link.reel") && !text.contains("spare.reel"), "{text}");
    // As it was left by those who compared the names alone.
    std::fs::write(&path, text.replace("members = [", "members = [\"spare.reel\", ")).unwrap();
    let volume = scratch.open();
    assert_eq!(volume.rebuilding(), [2]);
    assert!(rebuild(&volume, 2).complete);
    assert_sound(&volume);
}

#[test]
fn what_is_of_another_volume_and_in_use_there_keeps_none_from_opening() {
    let (scratch, other) = (filled(), filled());
    let _other = other.open();
    std::fs::remove_file(scratch.member(1)).unwrap();
    std::os::unix::fs::symlink(other.member(1), scratch.member(1)).unwrap();
    let volume = scratch.open();
    assert_eq!(volume.findings()[1].state, MemberState::Foreign);
    assert!(volume.findings()[1].text.contains("another volume"), "{}", volume.findings()[1]);
    assert_all_right(&volume);
}
