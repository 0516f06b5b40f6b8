//! Scrub, replace and rebuild: damage is repaired, a lost member is replaced, and the volume stays
//! in use.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use crate::volumes;
use std::fs::OpenOptions as FileOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use reel_disk::{DiskWork, Fault, Faults};
use reel_qos::Class;
use reel_volume::{
    MemberState, OpenOptions, RebuildReport, RepairOptions, Replacement, Role, Volume, VolumeError,
};

use crate::volumes::immediate::ImmediateDisks;
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
    options.disks.faults = Some(faults.clone());
    (Volume::open(scratch.path(), options).unwrap(), faults)
}

fn replacement_for(scratch: &Scratch, member: usize, name: &str) -> Replacement {
    Replacement::new(member, scratch.path().join(name))
}

fn rebuild(volume: &Volume, member: usize) -> RebuildReport {
    volume.rebuild(member, RepairOptions::default(), &mut |_| true).unwrap()
}

fn assert_sound(volume: &Volume) {
    assert_all_right(volume);
    let report = volume.check(&mut |_| true);
    assert!(report.is_clean(), "{report:?}");
}

/// Overwrites bytes of a member with noise.
fn sprinkle(path: &PathBuf, from: u64, places: u64, every: u64) {
    let file = FileOptions::new().write(true).open(path).unwrap();
    for place in 0..places {
        file.write_all_at(&bytes_of("noise", place as usize, 100), from + place * every).unwrap();
    }
}

#[test]
fn a_scrub_repairs_everything_so_a_second_one_finds_nothing() {
    let scratch = filled();
    let volume = scratch.open();
    let data = 1 << 20;
    // Bytes would be lost if two members were damaged in one matrix, so each is damaged in a part
    // of its own.
    sprinkle(&scratch.member(1), data, 9, 12_288);
    sprinkle(&scratch.member(3), data + 20 * 12_288, 5, 12_288);
    let found = volume.check(&mut |_| true);
    assert!(!found.is_clean() && found.nothing_lost());
    let mut reports = Vec::new();
    let report = volume
        .scrub(RepairOptions::default(), &mut |progress| {
            reports.push(progress);
            true
        })
        .unwrap();
    let wrong = |member: usize| (report.members[member].bad_rows, report.members[member].repaired_rows);
    assert_eq!(wrong(1).0, found.members[1].bad_rows);
    assert!(wrong(1).0 >= 9 && wrong(1).1 == wrong(1).0 && wrong(3).0 >= 5 && wrong(3).1 == wrong(3).0);
    assert!(report.is_repaired() && !report.is_clean());
    assert!(volume.counters().units_repaired.get() >= 14);
    assert!(reports.is_sorted_by_key(|progress| progress.bytes_done));
    assert_eq!(reports.last().unwrap().bytes_done, reports.last().unwrap().bytes_total);
    let second = volume.scrub(RepairOptions::default(), &mut |_| true).unwrap();
    assert!(second.is_clean() && second.is_repaired());
    drop(volume);
    assert_sound(&scratch.open());
}

#[test]
fn a_scrub_reports_what_it_cannot_repair() {
    let scratch = filled();
    let (volume, faults) = open_with_faults(&scratch);
    sprinkle(&scratch.member(1), 1 << 20, 1, 1);
    sprinkle(&scratch.member(2), 1 << 20, 1, 1);
    let report = volume.scrub(RepairOptions::default(), &mut |_| true).unwrap();
    assert!(!report.nothing_lost() && !report.is_repaired());
    assert_eq!(report.members.iter().map(|member| member.repaired_rows).sum::<u64>(), 0);
    // A member that returns wrong data does not count as repaired either.
    faults.inject(3, Fault::CorruptReads);
    let report = volume.scrub(RepairOptions::default(), &mut |_| true).unwrap();
    assert!(report.members[3].bad_rows > 0 && report.members[3].repaired_rows == 0);
    let stopped = volume.scrub(RepairOptions::default(), &mut |_| false).unwrap();
    assert!(!stopped.complete && !stopped.is_repaired());
}

/// The kernel reports a failed write-back of a file once. If the scrub ignored that report, the
/// next commit would be taken for durable.
#[test]
fn a_member_that_does_not_keep_the_repairs_is_out() {
    // The fault is in the repairing write, or in the sync after all repairs.
    for repaired_before in [0, 1] {
        let scratch = filled();
        let (volume, faults) = open_with_faults(&scratch);
        sprinkle(&scratch.member(1), 1 << 20, 1, 1);
        // Far behind, so that there is something to repair after the fault.
        if repaired_before == 0 {
            sprinkle(&scratch.member(1), (1 << 20) + 20 * 12_288, 1, 1);
        }
        let mut repaired = 0;
        let report = volume
            .scrub(RepairOptions::default(), &mut |_| {
                if volume.counters().units_repaired.get() > 0 && repaired == 0 {
                    repaired = volume.counters().units_repaired.get();
                    faults.inject(1, Fault::FailWrites);
                }
                true
            })
            .unwrap();
        assert_eq!(repaired, 1);
        assert!(
            report.members[1].bad_rows > 0 && report.members[1].repaired_rows == 0 && !report.is_repaired()
        );
        assert_eq!(volume.status().members[1].state, MemberState::Failed);
        assert_eq!(volume.counters().write_errors.get(), 2 - repaired_before);
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
        let finding = volume.replace(&replacement_for(&scratch, member, "new")).unwrap();
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
fn an_old_disk_that_is_attached_again_does_not_count() {
    let scratch = filled();
    let aside = scratch.path().join("aside");
    std::fs::rename(scratch.member(2), &aside).unwrap();
    let volume = scratch.open();
    volume.replace(&replacement_for(&scratch, 2, "new")).unwrap();
    rebuild(&volume, 2);
    drop(volume);
    std::fs::rename(scratch.path().join("new"), scratch.path().join("new-aside")).unwrap();
    std::fs::rename(&aside, scratch.path().join("new")).unwrap();
    let volume = scratch.open();
    assert_eq!(volume.findings()[2].state, MemberState::Foreign);
    assert!(volume.findings()[2].text.contains("expects another disk"));
    // It is not the disk that the catalogue expects, so it is not filled either.
    let refused = volume.rebuild(2, RepairOptions::default(), &mut |_| true).unwrap_err().to_string();
    assert!(refused.contains("replace"), "{refused}");
    assert_all_right(&volume);
    let old = replacement_for(&scratch, 2, "new");
    assert!(volume.replace(&old).unwrap_err().to_string().contains("is already member 2 of the Reel volume"));
    volume.replace(&Replacement { force: true, ..old }).unwrap();
    rebuild(&volume, 2);
    assert_sound(&volume);
}

#[test]
fn a_member_that_was_missing_is_brought_up_to_date_in_place() {
    let scratch = filled();
    let aside = scratch.path().join("aside");
    std::fs::rename(scratch.member(1), &aside).unwrap();
    publish(&scratch.open(), "added", &[300_000]);
    std::fs::rename(&aside, scratch.member(1)).unwrap();
    let volume = scratch.open();
    assert_eq!(volume.findings()[1].state, MemberState::Stale);
    assert_eq!(volume.late(), [1]);
    let report = volume.catch_up(1, RepairOptions::default(), &mut |_| true).unwrap();
    // Only what was published without it is read and written.
    assert!(report.complete && report.unchanged_bytes > report.written_bytes && report.written_bytes > 0);
    assert_eq!(report.good_bytes, 0);
    assert!(volume.late().is_empty());
    assert_sound(&volume);
    let refused = volume.rebuild(1, RepairOptions::default(), &mut |_| true).unwrap_err().to_string();
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
    let replace = |member: usize, path: PathBuf, replace_healthy: bool| {
        volume.replace(&Replacement { replace_healthy, ..Replacement::new(member, path) }).unwrap_err()
    };
    let new = scratch.path().join("new");
    assert!(matches!(replace(1, new.clone(), false), VolumeError::Healthy { member: 1, .. }));
    let text = replace(1, new.clone(), false).to_string();
    assert!(text.contains("in use and healthy") && text.contains("--replace-healthy"), "{text}");
    assert!(replace(9, new.clone(), true).to_string().contains("no member 9"));
    assert!(!new.exists());
    let text = replace(1, scratch.member(2), true).to_string();
    assert!(text.contains("is member 2 of this volume"), "{text}");
    let text = replace(1, scratch.member(1), true).to_string();
    assert!(text.contains("is that member itself"), "{text}");

    let other = filled();
    let text = replace(1, other.member(0), false).to_string();
    assert!(text.contains("in use and healthy"), "{text}");
    drop(volume);
    std::fs::remove_file(scratch.member(1)).unwrap();
    let volume = scratch.open();
    let replace = |path: PathBuf| volume.replace(&Replacement::new(1, path)).unwrap_err();
    let text = replace(other.member(0)).to_string();
    assert!(
        text.contains("is already member 0 of the Reel volume") && text.contains("--overwrite-volume"),
        "{text}"
    );
    let diary = scratch.path().join("diary");
    std::fs::write(&diary, vec![b'x'; 9 << 20]).unwrap();
    assert!(replace(diary.clone()).to_string().contains("is not empty"));
    let small = scratch.path().join("small");
    std::fs::write(&small, vec![0; 5 << 20]).unwrap();
    let error = replace(small);
    assert!(error.to_string().contains("use --force to extend this file"), "{error}");
    assert!(matches!(error, VolumeError::TooShort { has_bytes: 5_242_880, .. }));
    // A second missing member would be one too many, so `replace_healthy` does not allow it.
    let both = volume
        .replace(&Replacement { replace_healthy: true, ..replacement_for(&scratch, 3, "new") })
        .unwrap_err();
    assert!(both.to_string().contains("member 1 cannot be read either"), "{both}");
    assert!(!new.exists());
    assert_all_right(&volume);
    assert_sound(&other.open());
    assert_eq!(std::fs::read(&diary).unwrap().len(), 9 << 20);
    // `force` overwrites the content.
    volume.replace(&Replacement { force: true, ..replacement_for(&scratch, 1, "diary") }).unwrap();
    rebuild(&volume, 1);
    assert_sound(&volume);
}

#[test]
fn replacing_a_healthy_member_and_overwriting_the_target_each_need_their_own_flag() {
    let scratch = filled();
    let volume = scratch.open();
    let precious = scratch.path().join("precious");
    std::fs::write(&precious, b"a film of ours").unwrap();
    let replace = |force: bool, replace_healthy: bool| {
        volume.replace(&Replacement { force, replace_healthy, ..replacement_for(&scratch, 1, "precious") })
    };
    let error = replace(true, false).unwrap_err();
    assert!(
        error.to_string().contains("use --replace-healthy") && !error.to_string().contains("--force"),
        "{error}"
    );
    let error = replace(false, true).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("is not empty: there is data at byte 0; choose another place, or use --force"),
        "{error}"
    );
    assert_eq!(std::fs::read(&precious).unwrap(), b"a film of ours");
    replace(true, true).unwrap();
    rebuild(&volume, 1);
    assert_sound(&volume);
}

#[test]
fn a_healthy_member_is_replaced_if_allowed_and_writers_continue() {
    let scratch = filled();
    let volume = scratch.open();
    // The object is begun on the old disk, continued with the new one, and published when that is
    // in use.
    let bytes = bytes_of("during", 0, LONG);
    let mut writer = volume.writer(Class::APERIODIC).unwrap();
    writer.write(&bytes[..500_000]).unwrap();
    volume.replace(&Replacement { replace_healthy: true, ..replacement_for(&scratch, 0, "new") }).unwrap();
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
fn an_interrupted_rebuild_continues_where_it_stopped() {
    let scratch = filled();
    std::fs::remove_file(scratch.member(2)).unwrap();
    let volume = scratch.open();
    volume.replace(&replacement_for(&scratch, 2, "new")).unwrap();
    let mut left = 5;
    let first = volume
        .rebuild(2, RepairOptions::default(), &mut |_| {
            left -= 1;
            left > 0
        })
        .unwrap();
    assert!(!first.complete && first.written_bytes > 0);
    assert_eq!(volume.rebuilding(), [2]);
    drop(volume);
    let reading = Volume::open(scratch.path(), OpenOptions { read_only: true, ..open_options() }).unwrap();
    assert_eq!(reading.findings()[2].state, MemberState::Rebuilding);
    assert_eq!(reading.rebuilding(), [] as [usize; 0], "a volume opened for reading rebuilds nothing");
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
    volume.replace(&Replacement { replace_healthy: true, ..replacement_for(&scratch, 1, "new") }).unwrap();
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
        let report = volume.rebuild(1, RepairOptions { bytes_per_s: Some(20 << 20) }, &mut |_| true).unwrap();
        assert!(report.complete && report.lost_rows == 0);
    });
    assert_eq!(volume.titles().len(), 8);
    assert_eq!(volume.free_bytes(), free, "no slot is kept from being used again");
    assert_sound(&volume);
    drop(volume);
    std::fs::remove_file(scratch.member(0)).unwrap();
    assert_all_right(&scratch.open());
}

/// Both take hours on large disks. If they held titles, the space of each title that is removed
/// meanwhile would not be free.
#[test]
fn a_title_removed_before_its_turn_frees_its_space_at_once() {
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
            volume
                .replace(&Replacement { replace_healthy: true, ..replacement_for(&scratch, 1, "new") })
                .unwrap();
            assert!(volume.rebuild(1, RepairOptions::default(), &mut look).unwrap().complete);
        } else {
            assert!(volume.scrub(RepairOptions::default(), &mut look).unwrap().is_clean());
        }
        assert!(freed.unwrap() >= LONG as u64, "{freed:?} bytes during the {what}");
    }
    assert_sound(&volume);
}

#[test]
fn a_replacement_that_fails_is_out_and_the_volume_stays_in_use() {
    let scratch = filled();
    std::fs::remove_file(scratch.member(2)).unwrap();
    let (volume, faults) = open_with_faults(&scratch);
    volume.replace(&replacement_for(&scratch, 2, "new")).unwrap();
    faults.inject(2, Fault::FailWrites);
    assert!(volume.rebuild(2, RepairOptions::default(), &mut |_| true).is_err());
    assert_eq!(volume.status().members[2].state, MemberState::Failed);
    assert_all_right(&volume);
    publish(&volume, "after", &[100_000]);
    faults.clear(2);
    // It may be tried again, or be replaced again.
    volume.replace(&replacement_for(&scratch, 2, "newer")).unwrap();
    assert!(rebuild(&volume, 2).complete);
    assert_sound(&volume);
}

#[test]
fn nothing_is_rebuilt_while_another_member_cannot_be_read() {
    let scratch = filled();
    std::fs::remove_file(scratch.member(2)).unwrap();
    let (volume, faults) = open_with_faults(&scratch);
    volume.replace(&replacement_for(&scratch, 2, "new")).unwrap();
    faults.inject(0, Fault::FailReads);
    let text = volume.rebuild(2, RepairOptions::default(), &mut |_| true).unwrap_err().to_string();
    assert!(text.contains("member 0"), "{text}");
    assert_eq!(volume.rebuilding(), [2], "it does not count as complete");
    faults.clear(0);
    assert!(rebuild(&volume, 2).complete);
    assert_sound(&volume);
}

#[test]
fn only_one_maintenance_job_runs_at_a_time() {
    let scratch = filled();
    let volume = scratch.open();
    let mut called = false;
    volume
        .scrub(RepairOptions::default(), &mut |_| {
            if !called {
                called = true;
                let busy = volume.replace(&replacement_for(&scratch, 1, "new")).unwrap_err();
                assert!(matches!(busy, VolumeError::Busy { running: "scrub" }), "{busy}");
            }
            true
        })
        .unwrap();
    assert!(called);
    volume.scrub(RepairOptions::default(), &mut |_| true).unwrap();
    drop(volume);
    let reading = Volume::open(scratch.path(), OpenOptions { read_only: true, ..open_options() }).unwrap();
    let refused = reading.scrub(RepairOptions::default(), &mut |_| true);
    assert!(matches!(refused, Err(VolumeError::ReadOnly { .. })));
    assert!(matches!(
        reading.replace(&replacement_for(&scratch, 1, "new")),
        Err(VolumeError::ReadOnly { .. })
    ));
}

#[test]
fn a_replacement_may_have_the_same_path_as_the_old_disk() {
    let scratch = filled();
    std::fs::remove_file(scratch.member(2)).unwrap();
    // The same path in another spelling.
    let path = scratch.path().join("./member-2.reel");
    let volume = scratch.open();
    volume.replace(&Replacement::new(2, path)).unwrap();
    drop(volume);
    let text = std::fs::read_to_string(scratch.path().join("volume.toml")).unwrap();
    assert_eq!(text.matches("member-2.reel").count(), 1, "{text}");
    assert!(!text.contains(scratch.path().to_str().unwrap()), "the directory may be moved: {text}");
    let volume = scratch.open();
    assert_eq!(volume.rebuilding(), [2]);
    rebuild(&volume, 2);
    assert_sound(&volume);
}

/// The failing member has the only copy of some rows, so no commit may leave it behind.
#[test]
fn a_member_that_fails_during_a_rebuild_is_not_superseded_by_a_half_filled_one() {
    let scratch = Scratch::new(MEMBERS);
    let (volume, faults) = open_with_faults(&scratch);
    // So small that their checksums are in the catalogue, and available whichever member fails.
    (0..20).for_each(|number| publish(&volume, &format!("film-{number}"), &[100_000]));
    volume.replace(&Replacement { replace_healthy: true, ..replacement_for(&scratch, 2, "new") }).unwrap();
    let mut failed = false;
    let rebuilt = volume.rebuild(2, RepairOptions::default(), &mut |_| {
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

/// The member and offset of each unit of an object's first stripe.
fn first_stripe(volume: &Volume, title: &str) -> Vec<(usize, u64)> {
    let map = volume.map(&volume.title(title).unwrap().objects[0].object).unwrap();
    (0..volume.geometry().width()).map(|position| map.unit_at(0, position)).collect()
}

/// A row that is damaged elsewhere and shares a unit with a bad sector is read and kept. If the bad
/// sector hits the row itself, nothing is written over it.
#[test]
fn the_last_copy_of_a_row_outlives_a_rebuild_that_cannot_read_its_unit() {
    for bad_from in [0, 8192] {
        let scratch = Scratch::new(MEMBERS);
        let volume = scratch.open();
        // One full stripe each. Of one of them member 2 has the parity, which clients only read to
        // compute other rows.
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
        volume.scrub(RepairOptions::default(), &mut |_| true).unwrap();
        assert_sound(&volume);
    }
}

/// Nothing was written to the new disk, so it must not be in sync once the old one has been filled.
#[test]
fn a_replacement_that_fails_leaves_no_empty_disk_in_sync() {
    let scratch = filled();
    let (volume, _) = ImmediateDisks::open(&scratch);
    let held = all_memory(&volume);
    let replacement = Replacement { replace_healthy: true, ..replacement_for(&scratch, 2, "new") };
    assert!(matches!(volume.replace(&replacement), Err(VolumeError::NoMemory { .. })));
    drop(held);
    publish(&volume, "added", &[300_000]);
    // The catalogue still expects the old one.
    assert!(rebuild(&volume, 2).complete);
    publish(&volume, "after", &[300_000]);
    assert_sound(&volume);
    drop(volume);
    let volume = scratch.open();
    assert_eq!(volume.findings()[2].state, MemberState::Present);
    assert_sound(&volume);
    // The same disk again, which is no member yet, without `force`.
    volume.replace(&replacement).unwrap();
    assert!(rebuild(&volume, 2).complete);
    drop(volume);
    std::fs::remove_file(scratch.member(0)).unwrap();
    assert_all_right(&scratch.open());
}

/// The catalogue expects the new disk by then. So the old one, which is still open, is not filled,
/// and the new one may be tried again.
#[test]
fn a_replacement_that_fails_after_its_commit_can_be_repeated() {
    let scratch = filled();
    let (volume, disks) = ImmediateDisks::open(&scratch);
    disks.refuse(true);
    let replacement = Replacement { replace_healthy: true, ..replacement_for(&scratch, 2, "new") };
    assert!(volume.replace(&replacement).is_err());
    publish(&volume, "added", &[300_000]);
    let text = volume.rebuild(2, RepairOptions::default(), &mut |_| true).unwrap_err().to_string();
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
fn a_bad_sector_at_the_very_end_does_not_stop_a_rebuild() {
    let scratch = Scratch::new(MEMBERS);
    publish(&scratch.open(), "film", &[36_000]);
    std::fs::remove_file(scratch.member(2)).unwrap();
    let (volume, faults) = open_with_faults(&scratch);
    let units = first_stripe(&volume, "film");
    let at = units.iter().find_map(|&(on, at)| (on == 0).then_some(at)).unwrap();
    volume.replace(&replacement_for(&scratch, 2, "new")).unwrap();
    faults.inject(0, Fault::FailRange(at..at + 1));
    let report = rebuild(&volume, 2);
    assert!(report.complete && report.lost_rows == 3, "{report:?}");
    assert_eq!(volume.rebuilding(), [] as [usize; 0]);
}

#[test]
fn a_late_failure_of_the_old_disk_does_not_count_against_the_new_one() {
    let scratch = filled();
    let (volume, disks) = ImmediateDisks::open(&scratch);
    let bytes = bytes_of("during", 0, 300_000);
    disks.fail(|member, work| member == 2 && matches!(work, DiskWork::Write { .. }));
    disks.hold_failures();
    let mut writer = volume.writer(Class::APERIODIC).unwrap();
    writer.write(&bytes[..250_000]).unwrap();
    disks.fail(|_, _| false);
    volume.replace(&Replacement { replace_healthy: true, ..replacement_for(&scratch, 2, "new") }).unwrap();
    disks.release_failures();
    writer.write(&bytes[250_000..]).unwrap();
    let object = writer.finish().unwrap();
    assert!(volume.counters().write_errors.get() > 0);
    assert_eq!(volume.rebuilding(), [2]);
    assert!(rebuild(&volume, 2).complete);
    // The missing part is written to the new disk on publishing, though that disk came in use
    // earlier.
    let mut title = title_of(&volume, "during", &[]);
    title.objects.push(reel_volume::ObjectEntry { role: Role::Track, number: 0, object });
    volume.publish(title).unwrap();
    assert_sound(&volume);
}

#[test]
fn a_rebuild_ends_when_its_member_fails_in_another_task() {
    let scratch = filled();
    let (volume, faults) = open_with_faults(&scratch);
    volume.replace(&Replacement { replace_healthy: true, ..replacement_for(&scratch, 2, "new") }).unwrap();
    let mut calls = 0;
    let rebuilt = volume.rebuild(2, RepairOptions::default(), &mut |_| {
        calls += 1;
        if calls == 1 {
            faults.inject(2, Fault::FailWrites);
            drop(title_of(&volume, "ingest", &[100_000]));
            faults.clear(2);
        }
        true
    });
    assert!(rebuilt.unwrap_err().to_string().contains("failed before it was in use"));
    assert!(calls < 4, "the rebuild continued {calls} steps after the failure");
}

#[test]
fn a_disk_with_two_paths_is_one_disk() {
    let scratch = filled();
    // Left by an interrupted replacement.
    let spare = scratch.path().join("spare.reel");
    std::fs::write(&spare, b"").unwrap();
    let path = scratch.path().join("volume.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("members = [", "members = [\"spare.reel\", ")).unwrap();
    std::os::unix::fs::symlink(&spare, scratch.path().join("link.reel")).unwrap();
    let volume = scratch.open();
    volume
        .replace(&Replacement { replace_healthy: true, ..replacement_for(&scratch, 2, "link.reel") })
        .unwrap();
    drop(volume);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("link.reel") && !text.contains("spare.reel"), "{text}");
    // A state that earlier versions, which compared only the paths, could leave.
    std::fs::write(&path, text.replace("members = [", "members = [\"spare.reel\", ")).unwrap();
    let volume = scratch.open();
    assert_eq!(volume.rebuilding(), [2]);
    assert!(rebuild(&volume, 2).complete);
    assert_sound(&volume);
}

#[test]
fn a_member_of_another_volume_in_use_does_not_prevent_opening() {
    let (scratch, other) = (filled(), filled());
    let _other = other.open();
    std::fs::remove_file(scratch.member(1)).unwrap();
    std::os::unix::fs::symlink(other.member(1), scratch.member(1)).unwrap();
    let volume = scratch.open();
    assert_eq!(volume.findings()[1].state, MemberState::Foreign);
    assert!(volume.findings()[1].text.contains("another volume"), "{}", volume.findings()[1]);
    assert_all_right(&volume);
}
