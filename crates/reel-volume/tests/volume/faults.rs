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
    assert_eq!(status.commit.epoch, 2);
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
    assert!(error.to_string().contains("too many members have failed"), "{error}");
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
