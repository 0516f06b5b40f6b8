//! What is written reads back, completely and in part, with any geometry, also after the volume was
//! closed.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use std::io::Read;

use proptest::prelude::*;
use reel_qos::Class;
use reel_volume::{ArenaBudget, ObjectEntry, OpenOptions, Role, TitleRecord, Volume, VolumeError};

use crate::volumes::{Scratch, bytes_of, options, publish, read_object, title_of};

#[test]
fn a_title_is_there_after_the_volume_was_closed() {
    let scratch = Scratch::new(5);
    let stripe = scratch.open().geometry().stripe_bytes();
    // Empty, tiny, one stripe exactly, one byte more, and large enough for an object of checksums.
    let lengths = [0, 1, stripe, stripe + 1, 9 * stripe + 777];
    let volume = scratch.open();
    publish(&volume, "film", &lengths);
    let free = volume.free_bytes();
    drop(volume);

    let volume = scratch.open();
    assert_eq!(volume.free_bytes(), free);
    let title = volume.title("film").unwrap();
    assert_eq!(title.source.file_name, "film.mp4");
    for (number, length) in lengths.iter().enumerate() {
        let object = title.object(Role::Track, number as u32).unwrap();
        assert!(
            read_object(&volume, object).unwrap() == bytes_of("film", number, *length),
            "object {number}"
        );
    }
    assert!(matches!(title.object(Role::Track, 4).unwrap().sums, reel_volume::Sums::Object(_)));
    let report = volume.check(&mut |_| true);
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(volume.counters().rows_decoded.get(), 0);
}

/// A member without measurements counts as a slow hard disk, so long runs pay off.
#[test]
fn in_runs_a_reader_requests_more_at_once_and_gets_the_same_bytes() {
    let scratch = Scratch::new(5);
    let arena = ArenaBudget { bytes: 8 << 20, huge_pages: false };
    let volume = Volume::open(scratch.path(), OpenOptions { arena, ..OpenOptions::default() }).unwrap();
    let length = 60 * volume.geometry().stripe_bytes() + 5;
    publish(&volume, "film", &[length]);
    let object = volume.title("film").unwrap().object(Role::Track, 0).unwrap().clone();
    let taken = |volume: &Volume| volume.arena().usage().buffers_taken;
    let mut most = [0_usize; 2];
    for (in_runs, most) in most.iter_mut().enumerate() {
        let reader = volume.reader(volume.map(&object).unwrap(), 0..u64::MAX, Class::APERIODIC);
        let mut reader = if in_runs == 1 { reader.in_runs() } else { reader };
        let (mut bytes, mut piece) = (Vec::new(), vec![0; 10_000]);
        loop {
            let count = reader.next_bytes(&mut piece).unwrap();
            if count == 0 {
                break;
            }
            bytes.extend_from_slice(&piece[..count]);
            *most = taken(&volume).max(*most);
        }
        assert!(bytes == bytes_of("film", 0, length));
        drop(reader);
    }
    assert!(most[1] > most[0] * 3 / 2, "{most:?} buffers");
    assert!(most[1] * 4 <= volume.arena().usage().buffers_total * 3, "buffers are left for others: {most:?}");
}

#[test]
fn removed_space_is_free_when_no_reader_uses_it() {
    let scratch = Scratch::new(3);
    let volume = scratch.open();
    let free = volume.free_bytes();
    publish(&volume, "one", &[400_000, 5]);
    let taken = free - volume.free_bytes();
    assert!(taken > 400_000);
    let map = volume.map(volume.title("one").unwrap().object(Role::Track, 0).unwrap()).unwrap();
    volume.remove("one").unwrap();
    assert!(volume.title("one").is_none());
    assert!(volume.free_bytes() < free, "a map still exists");
    // What is written meanwhile does not touch the bytes that are still being read.
    publish(&volume, "two", &[3_000_000]);
    let mut bytes = Vec::new();
    volume.reader(map, 0..u64::MAX, Class::INTERACTIVE).read_to_end(&mut bytes).unwrap();
    assert!(bytes == bytes_of("one", 0, 400_000));
    volume.remove("two").unwrap();
    assert_eq!(volume.free_bytes(), free);
    assert!(matches!(volume.remove("two"), Err(VolumeError::NoSuchTitle { .. })));
}

#[test]
fn a_title_takes_the_place_of_another_in_one_step() {
    let scratch = Scratch::new(3);
    let volume = scratch.open();
    publish(&volume, "other", &[5]);
    let free = volume.free_bytes();
    let over = |length| {
        let title = TitleRecord { id: "one".to_owned(), ..title_of(&volume, "new", &[length]) };
        volume.publish_over(title)
    };
    assert!(matches!(over(7), Err(VolumeError::NoSuchTitle { .. })));
    assert_eq!(volume.free_bytes(), free, "what was refused leaves nothing");
    publish(&volume, "one", &[400_000]);
    let map = volume.map(volume.title("one").unwrap().object(Role::Track, 0).unwrap()).unwrap();
    let generation = volume.status().commit.generation;
    over(3_000_000).unwrap();
    assert_eq!(volume.status().commit.generation, generation + 1);
    // A viewer of the old title may finish.
    let mut bytes = Vec::new();
    volume.reader(map, 0..u64::MAX, Class::INTERACTIVE).read_to_end(&mut bytes).unwrap();
    assert!(bytes == bytes_of("one", 0, 400_000));
    let new = volume.title("one").unwrap().object(Role::Track, 0).unwrap().clone();
    assert!(read_object(&volume, &new).unwrap() == bytes_of("new", 0, 3_000_000));
    assert_eq!(volume.titles().len(), 2);
    drop(new);
    drop(volume);
    let volume = scratch.open();
    let again = volume.title("one").unwrap().object(Role::Track, 0).unwrap().clone();
    assert!(read_object(&volume, &again).unwrap() == bytes_of("new", 0, 3_000_000));
    drop(again);
    volume.remove("one").unwrap();
    assert_eq!(volume.free_bytes(), free, "the slots of both are free");
}

#[test]
fn a_title_gets_another_name_in_one_step() {
    let scratch = Scratch::new(3);
    let volume = scratch.open();
    let free = volume.free_bytes();
    publish(&volume, "one", &[400_000]);
    let taken = volume.free_bytes();
    let generation = volume.status().commit.generation;
    volume.rename("one", "Another").unwrap();
    assert_eq!(volume.status().commit.generation, generation + 1);
    assert!(matches!(volume.rename("two", "x"), Err(VolumeError::NoSuchTitle { .. })));
    assert!(volume.rename("one", &"x".repeat(5000)).is_err());
    drop(volume);
    let volume = scratch.open();
    let title = volume.title("one").unwrap();
    assert_eq!((title.name.as_str(), volume.free_bytes()), ("Another", taken));
    let object = title.object(Role::Track, 0).unwrap().clone();
    assert!(read_object(&volume, &object).unwrap() == bytes_of("one", 0, 400_000));
    drop((title, object));
    volume.rename("one", "Again").unwrap();
    volume.remove("one").unwrap();
    assert_eq!(volume.free_bytes(), free, "a name keeps no slots");
}

#[test]
fn a_title_gets_other_objects_in_one_step() {
    let scratch = Scratch::new(3);
    let volume = scratch.open();
    let free = volume.free_bytes();
    publish(&volume, "one", &[400_000, 30_000]);
    let before = volume.title("one").unwrap();
    let object = |name: &str, number: u32| {
        let entry = title_of(&volume, name, &[50_000]).objects.remove(0);
        ObjectEntry { number, ..entry }
    };
    let viewed = volume.map(before.object(Role::Track, 1).unwrap()).unwrap();
    let generation = volume.status().commit.generation;
    volume.rename("one", "Renamed meanwhile").unwrap();
    volume.replace_objects(&before, vec![object("new", 1), object("more", 2)]).unwrap();
    assert_eq!(volume.status().commit.generation, generation + 2, "one commit each");
    // A viewer of the old object may finish.
    let mut bytes = Vec::new();
    volume.reader(viewed, 0..u64::MAX, Class::INTERACTIVE).read_to_end(&mut bytes).unwrap();
    assert!(bytes == bytes_of("one", 1, 30_000));

    let taken = volume.free_bytes();
    let late = volume.replace_objects(&before, vec![object("late", 1)]);
    assert!(matches!(late, Err(VolumeError::TitleChanged { .. })), "made from what is not there any more");
    let none = TitleRecord { id: "none".to_owned(), ..TitleRecord::clone(&before) };
    let none = volume.replace_objects(&none, vec![object("x", 1)]);
    assert!(matches!(none, Err(VolumeError::NoSuchTitle { .. })));
    let now = volume.title("one").unwrap();
    let second = ObjectEntry { number: 7, ..now.objects[0].clone() };
    assert!(volume.replace_objects(&now, vec![second]).is_err(), "an object has one place");
    assert_eq!(volume.free_bytes(), taken, "what was refused leaves nothing");
    drop((before, now));
    drop(volume);

    let volume = scratch.open();
    let title = volume.title("one").unwrap();
    assert_eq!(title.name, "Renamed meanwhile");
    for (number, name, length) in [(0, "one", 400_000), (1, "new", 50_000), (2, "more", 50_000)] {
        let object = title.object(Role::Track, number).unwrap();
        assert!(read_object(&volume, object).unwrap() == bytes_of(name, 0, length), "{name}");
    }
    drop(title);
    volume.remove("one").unwrap();
    assert_eq!(volume.free_bytes(), free, "the slots of all of them are free");
}

#[test]
fn what_is_not_published_leaves_nothing() {
    let scratch = Scratch::new(3);
    let volume = scratch.open();
    let free = volume.free_bytes();
    let mut writer = volume.writer(Class::APERIODIC).unwrap();
    writer.write(&bytes_of("x", 0, 3_000_000)).unwrap();
    assert!(volume.free_bytes() < free);
    drop(writer);
    assert_eq!(volume.free_bytes(), free);
    let mut writer = volume.writer(Class::APERIODIC).unwrap();
    writer.write(&bytes_of("x", 0, 3_000_000)).unwrap();
    let object = writer.finish().unwrap();
    assert!(read_object(&volume, &object).unwrap() == bytes_of("x", 0, 3_000_000));
    drop(object);
    assert_eq!(volume.free_bytes(), free);
}

#[test]
fn invalid_titles_are_refused_with_the_reason() {
    let scratch = Scratch::new(3);
    let volume = scratch.open();
    publish(&volume, "one", &[10]);
    let refused = |title| volume.publish(title).unwrap_err().to_string();
    assert!(refused(title_of(&volume, "one", &[10])).contains("already a title \"one\""));
    assert!(refused(title_of(&volume, "One!", &[10])).contains("a-z, 0-9 and -"));
    assert!(refused(title_of(&volume, &"x".repeat(65), &[10])).contains("1 to 64"));
    let mut twice = title_of(&volume, "two", &[10]);
    twice.objects.push(twice.objects[0].clone());
    assert!(refused(twice).contains("same role and number"));
    let mut stolen = title_of(&volume, "two", &[10]);
    stolen.objects[0].object = volume.title("one").unwrap().objects[0].object.clone();
    assert!(refused(stolen).contains("was not written for it"));
    let mut long = title_of(&volume, "two", &[10]);
    long.name = "n".repeat(5000);
    assert!(refused(long).contains("4096 bytes"));
    assert_eq!(volume.titles().len(), 1);
}

#[test]
fn a_full_volume_says_so_and_stays_usable() {
    let scratch = Scratch::new(3);
    let volume = scratch.open();
    publish(&volume, "one", &[1_000_000]);
    let free = volume.free_bytes();
    let mut writer = volume.writer(Class::APERIODIC).unwrap();
    let chunk = bytes_of("big", 0, 1 << 20);
    let error = loop {
        if let Err(error) = writer.write(&chunk) {
            break error;
        }
    };
    let text = error.to_string();
    assert!(matches!(error, VolumeError::Full { free_bytes: 0, .. }), "{text}");
    assert!(text.contains("the volume is full"), "{text}");
    drop(writer);
    assert_eq!(volume.free_bytes(), free);
    assert!(volume.ensure_free(free).is_ok());
    assert!(matches!(volume.ensure_free(free + 1), Err(VolumeError::Full { .. })));
    publish(&volume, "two", &[1_000_000]);
    assert_eq!(volume.titles().len(), 2);
}

#[test]
fn a_full_catalogue_says_so_and_stays_usable() {
    let scratch = Scratch::with(3, |options| options.catalogue_bytes = Some(64 << 10));
    let volume = scratch.open();
    let mut count = 0;
    let error = loop {
        let mut title = title_of(&volume, &format!("t-{count}"), &[]);
        title.name = "a long name ".repeat(300);
        match volume.publish(title) {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, VolumeError::CatalogueFull { .. }), "{error}");
    assert!(count > 10 && volume.titles().len() == count);
    volume.remove("t-0").unwrap();
    publish(&volume, "last", &[100]);
    drop(volume);
    assert_eq!(scratch.open().titles().len(), count);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_range_of_any_geometry_reads_the_same_bytes(
        symbol in 1usize..700, symbols in 1usize..40, rows in 1usize..5, data in 1usize..5, more in 0usize..3,
        length in 1usize..300_000, ranges in proptest::collection::vec((any::<u64>(), any::<u64>()), 1..8),
        pieces in 1usize..50_000,
    ) {
        prop_assume!(symbol * symbols >= 64);
        let scratch = Scratch::with(data + 1 + more, |options| {
            options.symbol_bytes = Some(symbol);
            options.row_symbols = Some(symbols);
            options.unit_rows = Some(rows);
            options.data_rows = Some(data);
            options.size_bytes = (data + 1 + more) as u64 * (24 << 20);
        });
        let volume = scratch.open();
        let bytes = bytes_of("any", 0, length);
        let mut writer = volume.writer(Class::APERIODIC).unwrap();
        for piece in bytes.chunks(pieces) {
            writer.write(piece).unwrap();
        }
        let object = writer.finish().unwrap();
        let map = volume.map(&object).unwrap();
        for (from, to) in ranges {
            let (from, to) = (from % (length as u64 + 2), to % (length as u64 + 100));
            let range = from.min(to)..from.max(to);
            let mut got = Vec::new();
            volume.reader(map.clone(), range.clone(), Class::INTERACTIVE).read_to_end(&mut got).unwrap();
            let from = (range.start as usize).min(length);
            prop_assert!(got == bytes[from..(range.end as usize).min(length)], "{:?}", range);
        }
        prop_assert_eq!(volume.counters().rows_decoded.get(), 0);
    }
}

#[test]
fn invalid_options_leave_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("volume");
    for (change, words) in [
        (options(1), "N >= D + P"),
        (reel_volume::VolumeOptions { parity: 2, ..options(5) }, "--parity 1"),
        (reel_volume::VolumeOptions { size_bytes: 1 << 20, ..options(5) }, "too few"),
        (reel_volume::VolumeOptions { size_bytes: 1 << 55, ..options(5) }, "not enough space"),
        (reel_volume::VolumeOptions { catalogue_bytes: Some(1), ..options(5) }, "catalogue area"),
    ] {
        let text = Volume::create(&place, change).unwrap_err().to_string();
        assert!(text.contains(words), "{text}");
        assert!(!place.exists(), "{words}: something is left");
    }
}
