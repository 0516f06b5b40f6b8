//! Members that fail, return wrong data or stop while the volume is in use.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use std::fs::OpenOptions as FileOptions;

use reel_disk::{DiskWork, Fault, Faults};
use reel_qos::Class;
use reel_volume::limits::WRITER_STRIPES_IN_FLIGHT;
use reel_volume::{MemberState, Volume, VolumeError};

use crate::volumes::immediate::ImmediateDisks;
use crate::volumes::{
    Scratch, all_memory, assert_all_right, bytes_of, open_options, publish, read_object, title_of,
    try_title_of,
};

fn open_with_faults(scratch: &Scratch) -> (Volume, Faults) {
    let mut options = open_options();
    let faults = Faults::default();
    options.disks.faults = Some(faults.clone());
    (Volume::open(scratch.path(), options).unwrap(), faults)
}

#[test]
fn a_member_that_fails_or_returns_wrong_data_is_bypassed_and_taken_out() {
    let scratch = Scratch::new(4);
    publish(&scratch.open(), "film", &[700_000]);
    for (fault, named) in [(Fault::FailReads, "unreadable"), (Fault::CorruptReads, "bad")] {
        for member in 0..4 {
            let (volume, faults) = open_with_faults(&scratch);
            faults.inject(member, fault.clone());
            // A check only reports what it finds. It takes no member out.
            let report = volume.check(&mut |_| true);
            assert!(report.nothing_lost() && !report.is_clean());
            for (index, found) in report.members.iter().enumerate() {
                let (unreadable, bad) = (found.unreadable_rows > 0, found.bad_rows > 0);
                assert_eq!(unreadable, index == member && named == "unreadable");
                assert_eq!(bad, index == member && named == "bad");
            }
            assert!(volume.health().readable(member));
            while volume.health().readable(member) {
                let before = volume.counters().rows_decoded.get();
                assert_all_right(&volume);
                assert!(volume.counters().rows_decoded.get() > before);
            }
            assert!(volume.counters().read_errors.get() + volume.counters().checksum_failures.get() > 0);
            assert_eq!(volume.counters().members_taken_out.get(), 1);
            let finding = volume.status().members[member].clone();
            assert_eq!(finding.state, MemberState::Failed, "{finding}");
            assert!(finding.text.contains("not used any more"), "{finding}");
            assert_all_right(&volume);
            faults.clear(member);
            // It does not return by itself, and what is published from now on is not on it.
            assert!(!volume.health().readable(member));
        }
    }
    assert!(scratch.open().check(&mut |_| true).is_clean());
}

#[test]
fn two_that_fail_are_one_too_many_to_take_out() {
    let scratch = Scratch::new(4);
    let (volume, faults) = open_with_faults(&scratch);
    publish(&volume, "film", &[700_000]);
    faults.inject(1, Fault::FailReads);
    faults.inject(2, Fault::CorruptReads);
    for _ in 0..50 {
        let text = read_object(&volume, &volume.title("film").unwrap().objects[0].object).unwrap_err();
        assert!(text.contains("member 1") && text.contains("member 2"), "{text}");
    }
    assert!(!volume.check(&mut |_| true).nothing_lost());
    let states = volume.status().members.iter().filter(|member| member.state == MemberState::Failed).count();
    assert_eq!((states, volume.health().lost()), (1, 1));
    let suspect = (1..3).find(|&member| volume.health().readable(member)).unwrap();
    let finding = volume.status().members[suspect].clone();
    assert!(finding.state.in_use() && finding.text.contains("no other can be spared"), "{finding}");
    (0..4).for_each(|member| faults.clear(member));
    // Both are back when the volume is opened again: nothing was written that is missing on them.
    drop(volume);
    assert!(scratch.open().check(&mut |_| true).is_clean());
}

#[test]
fn a_member_that_is_gone_is_out_at_once_and_the_volume_continues() {
    let scratch = Scratch::new(4);
    let (volume, faults) = open_with_faults(&scratch);
    publish(&volume, "before", &[700_000]);
    faults.inject(2, Fault::Vanish);
    assert_all_right(&volume);
    assert_eq!(volume.status().members[2].state, MemberState::Failed);
    let errors = volume.counters().read_errors.get();
    assert_all_right(&volume);
    assert_eq!(volume.counters().read_errors.get(), errors, "it gets no more requests");
    publish(&volume, "after", &[300_000]);
    assert_eq!(volume.counters().write_errors.get(), 0, "nor writes");
    assert!(volume.status().read_only.is_none());
    drop(volume);
    faults.clear(2);
    let volume = scratch.open();
    assert_eq!(volume.findings()[2].state, MemberState::Stale);
    assert_all_right(&volume);
}

#[test]
fn a_member_that_fails_while_it_is_written_is_left_behind() {
    let scratch = Scratch::new(4);
    let (volume, faults) = open_with_faults(&scratch);
    publish(&volume, "before", &[300_000]);
    let mut writer = volume.writer(Class::APERIODIC).unwrap();
    let bytes = bytes_of("during", 0, 900_000);
    writer.write(&bytes[..400_000]).unwrap();
    faults.inject(3, Fault::FailWrites);
    writer.write(&bytes[400_000..]).unwrap();
    let mut title = title_of(&volume, "during", &[]);
    title.objects.push(reel_volume::ObjectEntry {
        role: reel_volume::Role::Track,
        number: 0,
        object: writer.finish().unwrap(),
    });
    volume.publish(title).unwrap();
    assert_all_right(&volume);
    let status = volume.status();
    assert_eq!(status.members[3].state, MemberState::Failed);
    assert!(status.read_only.is_none());
    // The second began with the first commit of this session, the third without the member.
    assert_eq!(status.commit.epoch, 3);
    assert_eq!(volume.counters().members_dropped.get(), 1);
    // Without the fault it is still not trusted: what was written meanwhile is missing on it.
    faults.clear(3);
    publish(&volume, "after", &[100_000]);
    drop(volume);
    let volume = scratch.open();
    assert_eq!(volume.findings()[3].state, MemberState::Stale);
    assert_eq!(volume.titles().len(), 3);
    assert_all_right(&volume);
}

/// A disk writes them one by one, among all other requests. The last one of a long queue is written
/// only when its turn comes.
#[test]
fn a_slow_member_has_few_writes_of_an_object_waiting() {
    let scratch = Scratch::new(4);
    let (volume, disks) = ImmediateDisks::open(&scratch);
    disks.lag(1);
    publish(&volume, "film", &[900_000]);
    assert_eq!(disks.most_outstanding(), WRITER_STRIPES_IN_FLIGHT);
    assert_all_right(&volume);
}

#[test]
fn too_many_failing_members_stop_the_writing_and_nothing_else() {
    let scratch = Scratch::new(4);
    let (volume, faults) = open_with_faults(&scratch);
    publish(&volume, "before", &[300_000]);
    let ready = title_of(&volume, "ready", &[50_000]);
    faults.inject(0, Fault::FailWrites);
    faults.inject(2, Fault::FailWrites);
    let error = try_title_of(&volume, "during", &[900_000]).unwrap_err();
    assert!(matches!(error, VolumeError::MembersFailed { failed: 2, tolerated: 1, .. }), "{error}");
    let text = error.to_string();
    for words in ["too many members have failed", "member 0: ", "member 2: ", "open the volume again"] {
        assert!(text.contains(words), "{text}");
    }
    // Also of a writer that has seen no error itself.
    let error = try_title_of(&volume, "later", &[900_000]).unwrap_err().to_string();
    assert!(error.contains("member 0: ") && !error.contains(": ;"), "{error}");
    assert!(volume.publish(ready).is_err());
    assert!(volume.status().read_only.unwrap().contains("have failed"));
    assert!(matches!(volume.writer(Class::APERIODIC), Err(VolumeError::ReadOnly { .. })));
    drop(volume);
    let volume = scratch.open();
    assert!(volume.findings().iter().all(|finding| finding.state == MemberState::Present));
    assert_eq!(volume.titles().len(), 1);
    assert_all_right(&volume);
    assert!(volume.check(&mut |_| true).is_clean());
}

#[test]
fn members_that_fail_during_the_commit_leave_it_done_or_not_done() {
    let scratch = Scratch::new(4);
    let (volume, faults) = open_with_faults(&scratch);
    let title = title_of(&volume, "film", &[200_000]);
    faults.inject(1, Fault::FailWrites);
    volume.publish(title).unwrap();
    assert_eq!(volume.status().members[1].state, MemberState::Failed);
    let title = title_of(&volume, "song", &[200_000]);
    faults.inject(2, Fault::FailWrites);
    assert!(matches!(volume.publish(title), Err(VolumeError::MembersFailed { .. })));
    assert_eq!(volume.titles().len(), 1);
    // Reading continues from what is left, where that is enough.
    drop(volume);
    let volume = scratch.open();
    assert!(volume.title("film").is_some());
    assert_all_right(&volume);
}

/// The first round is already sealed on some members and would come into force after a crash. So
/// its slots stay taken, and the error says that the outcome is open.
#[test]
fn a_commit_that_fails_in_its_second_round_says_that_its_outcome_is_open() {
    let scratch = Scratch::new(4);
    let (volume, disks) = ImmediateDisks::open(&scratch);
    publish(&volume, "before", &[100_000]);
    let title = title_of(&volume, "film", &[100_000]);
    let free = volume.free_bytes();
    let held = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let (mut syncs, own, of) = (0, std::sync::Arc::clone(&held), volume.clone());
    disks.fail(move |member, work| {
        syncs += u32::from(member == 2 && matches!(work, DiskWork::Sync));
        // The write of the body, then header and seal: the last step.
        let fails = member == 2 && syncs == 2;
        if fails {
            own.lock().unwrap().extend(all_memory(&of));
        }
        fails
    });
    assert!(matches!(volume.publish(title), Err(VolumeError::NoMemory { .. })));
    held.lock().unwrap().clear();
    assert_eq!(volume.free_bytes(), free, "the sealed copies name its slots");
    let text = volume.status().read_only.unwrap();
    assert!(text.contains("open the volume again"), "{text}");
    assert!(matches!(volume.writer(Class::APERIODIC), Err(VolumeError::ReadOnly { .. })));
    disks.fail(|_, _| false);
    drop(volume);
    let volume = scratch.open();
    assert_eq!(volume.titles().len(), 2);
    assert_all_right(&volume);
}

#[test]
fn a_member_truncated_while_in_use_is_bypassed() {
    let scratch = Scratch::new(3);
    let volume = scratch.open();
    publish(&volume, "film", &[1_500_000]);
    FileOptions::new().write(true).open(scratch.member(1)).unwrap().set_len((1 << 20) + 50_000).unwrap();
    let report = volume.check(&mut |_| true);
    assert!(report.members[1].unreadable_rows > 0 && report.nothing_lost());
    assert_all_right(&volume);
    assert!(volume.counters().read_errors.get() > 0);
}

#[test]
fn slow_members_change_nothing_but_time() {
    let scratch = Scratch::new(3);
    let (volume, faults) = open_with_faults(&scratch);
    faults.inject(1, Fault::Delay { delay_ns: 3_000_000 });
    publish(&volume, "film", &[200_000]);
    assert_all_right(&volume);
    assert_eq!(volume.counters().rows_decoded.get(), 0);
}

#[test]
fn many_readers_and_writers_share_a_small_arena() {
    let scratch = Scratch::with(4, |options| options.size_bytes = 4 * (24 << 20));
    let mut options = open_options();
    options.arena.bytes = 0;
    let volume = Volume::open(scratch.path(), options).unwrap();
    publish(&volume, "film", &[900_000]);
    let arena_bytes = volume.arena().usage().bytes_total;
    assert!(arena_bytes < 1 << 20);
    let map = volume.map(&volume.title("film").unwrap().objects[0].object).unwrap();
    let expected = bytes_of("film", 0, 900_000);
    // Twelve readers in one thread, in turn, and as many writers open at once.
    let mut readers: Vec<_> =
        (0..12).map(|_| (volume.reader(map.clone(), 0..u64::MAX, Class::INTERACTIVE), Vec::new())).collect();
    let mut writers: Vec<_> = (0..12).map(|_| volume.writer(Class::APERIODIC).unwrap()).collect();
    let mut chunk = vec![0; 50_000];
    while readers[0].0.remaining() > 0 {
        for ((reader, read), writer) in readers.iter_mut().zip(&mut writers) {
            let count = reader.next_bytes(&mut chunk).unwrap();
            read.extend_from_slice(&chunk[..count]);
            writer.write(&chunk[..count]).unwrap();
        }
    }
    assert!(readers.iter().all(|(_, read)| *read == expected));
    drop(readers);
    for writer in writers {
        assert!(read_object(&volume, &writer.finish().unwrap()).unwrap() == expected);
    }
    assert_eq!(volume.arena().usage().bytes_taken, 0);
}

#[test]
fn threads_publish_remove_and_read_side_by_side() {
    let scratch = Scratch::new(4);
    let volume = scratch.open();
    let free = volume.free_bytes();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let volume = volume.clone();
            scope.spawn(move || {
                for round in 0..6 {
                    let id = format!("t{thread}-{round}");
                    publish(&volume, &id, &[40_000 * (thread + 1), 100]);
                    let title = volume.title(&id).unwrap();
                    let bytes = read_object(&volume, &title.objects[0].object).unwrap();
                    assert!(bytes == bytes_of(&id, 0, 40_000 * (thread + 1)));
                    if round % 2 == 0 {
                        volume.remove(&id).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(volume.titles().len(), 12);
    assert_all_right(&volume);
    for title in volume.titles().iter() {
        volume.remove(&title.id).unwrap();
    }
    assert_eq!(volume.free_bytes(), free);
}

/// Nothing fails until the program ends, and then what is on these files is gone.
#[test]
fn removed_and_exchanged_files_are_noticed_by_every_job_and_look() {
    for exchange in [false, true] {
        let scratch = Scratch::new(4);
        let volume = scratch.open();
        publish(&volume, "film", &[700_000]);
        std::fs::remove_file(scratch.member(1)).unwrap();
        if exchange {
            std::fs::write(scratch.member(1), "another").unwrap();
        }
        let report = volume.scrub(reel_volume::RepairOptions::default(), &mut |_| true).unwrap();
        assert!(!report.is_clean(), "{report:?}");
        let finding = volume.status().members[1].clone();
        assert!(finding.state == MemberState::Failed, "{finding}");
        assert!(finding.text.contains("its file was removed"), "{finding}");
        // No more than can be spared: the others are named, and what they hold can still be saved.
        std::fs::rename(scratch.member(2), scratch.path().join("moved")).unwrap();
        std::fs::remove_file(scratch.member(3)).unwrap();
        volume.look_for_members();
        let now = volume.status().members;
        assert!(now[2].state.in_use() && now[2].text.contains("nothing is at its path"), "{}", now[2]);
        assert!(now[3].state.in_use() && now[3].text.contains("its file was removed"), "{}", now[3]);
        assert!(now[3].text.contains("/proc/"), "{}", now[3]);
        assert_all_right(&volume);
        std::fs::rename(scratch.path().join("moved"), scratch.member(2)).unwrap();
        volume.look_for_members();
        assert_eq!(volume.status().members[2].text, "in use");
        // Once the member that was out is filled, this one can be spared, and the words say so.
        std::fs::remove_file(scratch.member(1)).unwrap_or_default();
        let path = scratch.member(1);
        let replacement = reel_volume::Replacement::new(1, path);
        volume.replace(&replacement).unwrap();
        volume.rebuild(1, reel_volume::RepairOptions::default(), &mut |_| true).unwrap();
        let finding = volume.status().members[3].clone();
        assert!(
            finding.text.contains("replace it now") && !finding.text.contains("that is out"),
            "{finding}"
        );
    }
}

/// A scrub that cannot write what it computed does not call the member healthy.
#[test]
fn a_place_that_can_neither_be_read_nor_written_is_said_to_have_failed() {
    let scratch = Scratch::new(4);
    let (volume, faults) = open_with_faults(&scratch);
    publish(&volume, "film", &[700_000]);
    let data = 1 << 20;
    faults.inject(1, Fault::FailRange(data..data + 4096));
    faults.inject(1, Fault::FailWrites);
    let report = volume.scrub(reel_volume::RepairOptions::default(), &mut |_| true).unwrap();
    assert!(!report.is_clean() && report.nothing_lost(), "{report:?}");
    assert_eq!(report.members[1].finding.state, MemberState::Failed);
    assert!(report.members[1].repaired_rows == 0 && report.members[1].unreadable_rows > 0);
    assert_all_right(&volume);
}

/// A sparse file, or a thin device: the disk is sound.
#[test]
fn without_space_below_a_member_the_write_fails_and_the_volume_stays_healthy() {
    let scratch = Scratch::new(4);
    let (volume, faults) = open_with_faults(&scratch);
    publish(&volume, "before", &[300_000]);
    // Of one member, and of all: they usually lie on one file system.
    for without in [2..3, 0..4] {
        let (free, ready) = (volume.free_bytes(), title_of(&volume, "ready", &[50_000]));
        without.clone().for_each(|member| faults.inject(member, Fault::NoSpace));
        let error = try_title_of(&volume, "during", &[900_000]).unwrap_err();
        assert!(
            matches!(error, VolumeError::Disk { .. }) && error.to_string().contains("member "),
            "{error}"
        );
        assert!(error.help().is_some_and(|help| help.contains("free space")), "{error}");
        // Neither a title whose objects are complete; the old catalogue stays in force.
        let error = volume.publish(ready).unwrap_err();
        assert!(matches!(error, VolumeError::Disk { .. }), "{error}");
        assert!(error.help().is_some_and(|help| help.contains("free space")), "{error}");
        let status = volume.status();
        assert!(status.read_only.is_none() && status.members.iter().all(|member| member.state.in_use()));
        assert_eq!(volume.counters().members_dropped.get(), 0);
        assert!(volume.free_bytes() >= free, "what was not published takes no space");
        assert_all_right(&volume);
        without.for_each(|member| faults.clear(member));
    }
    publish(&volume, "after", &[900_000]);
    assert!(volume.check(&mut |_| true).is_clean());
    drop(volume);
    let volume = scratch.open();
    assert!(volume.findings().iter().all(|finding| finding.state == MemberState::Present));
    assert_eq!(volume.titles().len(), 2);
    assert_all_right(&volume);
}

/// A file system below all members that the kernel has made read-only after an error.
#[test]
fn on_members_that_become_read_only_nothing_is_written_and_everything_is_read() {
    let scratch = Scratch::new(4);
    let (volume, faults) = open_with_faults(&scratch);
    publish(&volume, "before", &[300_000]);
    let ready = title_of(&volume, "ready", &[50_000]);
    (0..4).for_each(|member| faults.inject(member, Fault::ReadOnly));
    let error = volume.publish(ready).unwrap_err().to_string();
    for words in ["Read-only file system", "make it writable", "open the volume again"] {
        assert!(error.contains(words), "no {words:?} in {error}");
    }
    let status = volume.status();
    assert!(status.read_only.is_some_and(|reason| reason.contains("open the volume again")));
    assert_eq!(volume.titles().len(), 1);
    assert_all_right(&volume);
    drop(volume);
    (0..4).for_each(|member| faults.clear(member));
    // The fault fails the answers of writes that were done, so a member may have a newer catalogue
    // than the others.
    let volume = scratch.open();
    assert!(volume.title("before").is_some());
    publish(&volume, "after", &[300_000]);
    assert_all_right(&volume);
}

/// Sectors that can neither be read nor written: each command says what the others say.
#[test]
fn commands_agree_on_a_member_with_dead_sectors() {
    let scratch = Scratch::new(4);
    let (volume, faults) = open_with_faults(&scratch);
    publish(&volume, "film", &[700_000]);
    let data = 1 << 20;
    faults.inject(1, Fault::DeadRange(data..data + 4096));
    let replacement = reel_volume::Replacement::new(1, scratch.path().join("new"));
    let state = || volume.status().members[1].state;
    let rebuild = || volume.rebuild(1, reel_volume::RepairOptions::default(), &mut |_| true);
    // Before anything was written there, the member is in use for all of them.
    let checked = volume.check(&mut |_| true);
    assert!(checked.nothing_lost() && checked.members[1].unreadable_rows > 0, "{checked:?}");
    assert_eq!((checked.members[1].finding.state, state()), (MemberState::Present, MemberState::Present));
    assert!(rebuild().unwrap_err().to_string().contains("is in use"));
    assert!(matches!(volume.replace(&replacement), Err(VolumeError::Healthy { member: 1, .. })));
    // The scrub tries to repair it. From then on it has failed for all of them.
    for _ in 0..2 {
        let scrubbed = volume.scrub(reel_volume::RepairOptions::default(), &mut |_| true).unwrap();
        assert!(!scrubbed.is_clean() && scrubbed.nothing_lost(), "{scrubbed:?}");
        assert_eq!(scrubbed.members[1].repaired_rows, 0);
        let checked = volume.check(&mut |_| true);
        assert_eq!(scrubbed.members[1].finding.state, MemberState::Failed);
        assert_eq!(checked.members[1].finding.state, MemberState::Failed);
        assert_eq!(state(), MemberState::Failed);
        // The same disk cannot be filled: it fails again where it is dead.
        let filled = rebuild();
        assert!(filled.as_ref().map_or(true, |report| !report.complete), "{filled:?}");
        assert_eq!(state(), MemberState::Failed);
        assert_all_right(&volume);
    }
    // It is replaced without a word about a healthy member.
    volume.replace(&replacement).unwrap();
    faults.clear(1);
    assert_eq!(state(), MemberState::Rebuilding);
    assert!(rebuild().unwrap().complete);
    assert_eq!(state(), MemberState::Present);
    assert!(volume.check(&mut |_| true).is_clean());
}
