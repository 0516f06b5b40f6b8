//! Transport streams that are stored as they are (form `ts`).

use crate::films;
use crate::test_library::{self, TestLibrary};
use reel_library::{Form, IngestError, IngestOptions, Input, Library, LibraryError, PosterKind};
use reel_media::transport::{NULL_PACKET, PACKET_BYTES, SYMBOL_PACKETS, SYMBOL_PAYLOAD_BYTES};
use reel_qos::Class;
use reel_volume::{
    GeometryPreset, RepairOptions, Role, STREAM_INDEX_NUMBER, STREAM_NUMBER, STREAM_SUMS_NUMBER,
};
use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const PRESETS: [GeometryPreset; 2] = [GeometryPreset::Cmaf, GeometryPreset::Ts];

fn as_stream() -> IngestOptions {
    IngestOptions { stream: true, ..IngestOptions::default() }
}

/// H.264 and AAC with frequent tables.
fn playable(dir: &Path, name: &str) -> PathBuf {
    films::make(
        dir,
        name,
        4,
        &[films::H264_AAC, &["-muxrate", "2M", "-pat_period", "0.05", "-pcr_period", "20"]].concat(),
    )
}

fn store(library: &Library, file: &Path) -> (String, Vec<String>) {
    let ingested = library.ingest(&[Input::new(file)], &as_stream(), &mut |_| {}).expect("taken");
    (ingested.id, ingested.warnings)
}

fn exported(library: &Library, id: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut last = (0, 0);
    let count = library.export_stream(id, &mut bytes, &mut |done, total| last = (done, total));
    assert_eq!(count.expect("exported"), bytes.len() as u64);
    assert_eq!(last, (bytes.len() as u64, bytes.len() as u64));
    bytes
}

/// Each packet with bytes before and after it.
fn stretched(bytes: &[u8], before: usize, after: usize) -> Vec<u8> {
    let packets = bytes.chunks_exact(PACKET_BYTES);
    packets.flat_map(|packet| [&vec![0x11; before], packet, &vec![0x22; after]].concat()).collect()
}

#[test]
fn an_export_is_the_stream_that_was_ingested() {
    for preset in PRESETS {
        let test_library = TestLibrary::with(96 << 20, preset);
        let library = test_library.library();
        let file = playable(test_library.path(), "film.ts");
        let source = fs::read(&file).expect("there");
        let (id, warnings) = store(&library, &file);
        assert_eq!(warnings, [""; 0]);
        assert!(exported(&library, &id) == source, "{preset:?}");

        let out = test_library.path().join("out.ts");
        fs::write(&out, exported(&library, &id)).expect("written");
        assert_eq!(films::frames(&out, "v:0"), films::frames(&file, "v:0"));
        let mut mp4 = fs::File::create(test_library.path().join("out.mp4")).expect("made");
        library.export(&id, &mut mp4, &mut |_, _| {}).expect("it is playable, too");
        let summary = library.summary(&id).expect("listed");
        assert_eq!(summary.problem, None);
        let [cmaf, ts] = &summary.forms[..] else { panic!("{:?}", summary.forms) };
        assert_eq!((cmaf.form, ts.form), (Form::Cmaf, Form::Ts));
        assert_eq!(cmaf.bytes + ts.bytes, summary.bytes);
        let rate = source.len() as f64 * 8.0 / summary.duration_s;
        assert!((ts.average_bps as f64 / rate - 1.0).abs() < 0.1, "{ts:?}, {rate}");
        assert!(ts.peak_bps.is_some_and(|peak| peak >= ts.average_bps), "{ts:?}");
        drop(library);
        assert!(exported(&test_library.library(), &id) == source, "opened again");
    }
}

#[test]
fn what_lies_between_packets_is_left_out() {
    let test_library = TestLibrary::with(128 << 20, GeometryPreset::Ts);
    let library = test_library.library();
    let plain = fs::read(playable(test_library.path(), "film.ts")).expect("there");
    let middle = 300 * PACKET_BYTES;
    let garbage = [&plain[..middle], &[0x55; 700], &plain[middle..]].concat();
    for (name, bytes, lost, warning) in [
        ("disc.m2ts", stretched(&plain, 4, 0), 0, ""),
        ("sums.ts", stretched(&plain, 0, 16), 0, ""),
        ("garbage.ts", garbage, 0, "damage skipped"),
        ("cut.ts", plain[..plain.len() - 60].to_vec(), PACKET_BYTES, "the last 128 bytes"),
    ] {
        let file = test_library.path().join(name);
        fs::write(&file, bytes).expect("written");
        let (id, warnings) = store(&library, &file);
        assert!(exported(&library, &id) == plain[..plain.len() - lost], "{name}");
        let said = warnings.iter().any(|text| text.starts_with("form ts: ") && text.contains(warning));
        assert_eq!(said, !warning.is_empty(), "{name}: {warnings:?}");
    }
}

#[test]
fn what_players_cannot_play_is_stored_as_a_stream_alone() {
    let test_library = TestLibrary::with(64 << 20, GeometryPreset::Ts);
    let library = test_library.library();
    let codecs = ["-c:v", "mpeg2video", "-g", "12", "-c:a", "mp2", "-pat_period", "0.04"];
    let file = films::make(test_library.path(), "old.ts", 3, &codecs);
    let refused = library.ingest(&[Input::new(&file)], &IngestOptions::default(), &mut |_| {});
    assert!(matches!(refused, Err(IngestError::Media { .. })));
    let (id, warnings) = store(&library, &file);
    assert!(warnings.iter().any(|text| text.contains("only the form ts is stored")), "{warnings:?}");
    assert!(exported(&library, &id) == fs::read(&file).expect("there"));
    assert!(matches!(library.open(&id), Err(LibraryError::OnlyStream { .. })));
    let summary = library.summary(&id).expect("listed");
    assert!(summary.problem.as_ref().is_some_and(|problem| problem.contains("form ts")), "{summary:?}");
    assert!((summary.duration_s - 3.0).abs() < 0.2, "{}", summary.duration_s);
    assert_eq!(summary.forms.iter().map(|form| form.form).collect::<Vec<_>>(), [Form::Ts]);
    assert_eq!(library.poster(&id).expect("a poster").kind, PosterKind::Jpeg);
    assert_eq!(library.summaries().len(), 1);
    library.rename(&id, "Old film").expect("renamed");
    library.remove(&id).expect("removed");
}

#[test]
fn the_stored_bytes_are_symbols_that_can_be_sent() {
    for preset in PRESETS {
        let test_library = TestLibrary::with(96 << 20, preset);
        let library = test_library.library();
        let file = playable(test_library.path(), "film.ts");
        let source = fs::read(&file).expect("there");
        let (id, _) = store(&library, &file);
        let stream = library.stream(&id).expect("opened");
        let symbol_bytes = stream.places.symbol_bytes();
        let mut stored = Vec::new();
        let range = 0..stream.map.bytes();
        let mut reader = library.volume().reader(stream.map.clone(), range, Class::APERIODIC);
        reader.read_to_end(&mut stored).expect("read");
        assert_eq!(stored.len() % stream.map.geometry().stripe_bytes(), 0, "whole stripes");
        for packet in 0..stream.places.symbols(stream.index.packets) * SYMBOL_PACKETS as u64 {
            let from = packet as usize * PACKET_BYTES;
            let wanted = source.get(from..from + PACKET_BYTES).unwrap_or(&NULL_PACKET);
            let at = stream.places.packet_offset(packet) as usize;
            assert!(stored[at..at + PACKET_BYTES] == *wanted, "packet {packet}");
        }
        let spare = stored.chunks_exact(symbol_bytes).flat_map(|symbol| &symbol[SYMBOL_PAYLOAD_BYTES..]);
        assert!(spare.clone().all(|byte| *byte == 0));
        assert_eq!(spare.count() > 0, preset == GeometryPreset::Cmaf);
    }
}

/// RFC 1071, section 4.1, word by word.
fn sum_by_words(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    words.fold(0, |sum, word| (sum + word) % 0x1_0000 + (sum + word) / 0x1_0000) as u16
}

/// Compares the stored checksums with those of what is stored, padding included.
pub(crate) fn assert_sums(library: &Library, id: &str) {
    let stream = library.stream(id).expect("opened");
    let mut stored = Vec::new();
    let mut reader =
        library.volume().reader(stream.map.clone(), 0..stream.map.bytes(), Class::APERIODIC).in_runs();
    reader.read_to_end(&mut stored).expect("read");
    let symbols = stored.chunks_exact(stream.places.symbol_bytes());
    let expected: Vec<u16> = symbols.map(|symbol| sum_by_words(&symbol[..SYMBOL_PAYLOAD_BYTES])).collect();
    assert_eq!(expected.len() as u64, stream.places.symbols(stream.index.packets));
    assert!(library.stream_sums(&stream).expect("read") == Some(expected));
}

#[test]
fn the_stored_checksums_are_those_of_every_symbol() {
    for preset in PRESETS {
        let test_library = TestLibrary::with(96 << 20, preset);
        let library = test_library.library();
        let free_bytes = library.volume().free_bytes();
        let (id, _) = store(&library, &playable(test_library.path(), "film.ts"));
        assert_sums(&library, &id);
        let summary = library.summary(&id).expect("listed");
        let bytes: u64 = summary.forms.iter().map(|form| form.bytes).sum();
        assert_eq!(bytes, summary.bytes);
        library.remove(&id).expect("removed");
        assert_eq!(library.volume().free_bytes(), free_bytes);
    }
}

#[test]
fn a_stream_without_checksums_is_sent_as_before_and_wrong_ones_are_refused() {
    let test_library = TestLibrary::with(96 << 20, GeometryPreset::Ts);
    let library = test_library.library();
    let (id, _) = store(&library, &playable(test_library.path(), "film.ts"));
    let bytes = exported(&library, &id);
    let record = (*library.record(&id).expect("there")).clone();
    let mut writer = library.volume().writer(Class::APERIODIC).expect("a writer");
    writer.write(&[0xa5; 3]).expect("written");
    let wrong = reel_volume::ObjectEntry {
        role: Role::Index,
        number: STREAM_SUMS_NUMBER,
        object: writer.finish().expect("finished"),
    };
    library.volume().replace_objects(&record, vec![wrong]).expect("replaced");
    let stream = library.stream(&id).expect("opened");
    assert!(matches!(library.stream_sums(&stream), Err(LibraryError::Incomplete { .. })));
    assert!(exported(&library, &id) == bytes);
    drop(stream);

    // As an older Reel has stored it.
    let volume = library.volume();
    let copied = |role: Role, number: u32| {
        let map = volume.map(record.object(role, number).expect("there")).expect("mapped");
        let (mut bytes, whole) = (Vec::new(), 0..map.bytes());
        volume.reader(map, whole, Class::APERIODIC).read_to_end(&mut bytes).expect("read");
        let mut writer = volume.writer(Class::APERIODIC).expect("a writer");
        writer.write(&bytes).expect("written");
        reel_volume::ObjectEntry { role, number, object: writer.finish().expect("finished") }
    };
    let objects = vec![copied(Role::Track, STREAM_NUMBER), copied(Role::Index, STREAM_INDEX_NUMBER)];
    let older = reel_volume::TitleRecord { id: "older".to_owned(), objects, ..record.clone() };
    volume.publish(older).expect("published");
    let stream = library.stream("older").expect("opened");
    assert!(matches!(library.stream_sums(&stream), Ok(None)));
    assert!(exported(&library, "older") == bytes);
}

#[test]
fn parity_rows_are_the_packets_of_column_fec() {
    for preset in PRESETS {
        let test_library = TestLibrary::with(96 << 20, preset);
        let library = test_library.library();
        let file = playable(test_library.path(), "film.ts");
        let source = fs::read(&file).expect("there");
        let (id, _) = store(&library, &file);
        let stream = library.stream(&id).expect("opened");
        let (map, places) = (&stream.map, &stream.places);
        let (row_symbols, data_rows) = (map.geometry().row_symbols(), map.geometry().data_rows());
        let matrices = source.len() / SYMBOL_PAYLOAD_BYTES / (row_symbols * data_rows);
        assert!(matrices >= 2, "{matrices}");
        for matrix in 0..matrices {
            for column in [0, 3, row_symbols - 1] {
                let first = matrix * row_symbols * data_rows + column;
                let mut sent = vec![0; SYMBOL_PAYLOAD_BYTES];
                for row in 0..data_rows {
                    let from = (first + row * row_symbols) * SYMBOL_PAYLOAD_BYTES;
                    let packet = &source[from..from + SYMBOL_PAYLOAD_BYTES];
                    sent.iter_mut().zip(packet).for_each(|(sum, byte)| *sum ^= byte);
                }
                let at = places.parity_place(first as u64);
                let (member, unit) = map.unit_at(at.stripe, at.row);
                let within = at.matrix * map.geometry().row_bytes() + at.column * places.symbol_bytes();
                let path = test_library.volume_dir().join(format!("member-{member}.reel"));
                let mut stored = vec![0; SYMBOL_PAYLOAD_BYTES];
                let member = fs::File::open(path).expect("a member");
                member.read_exact_at(&mut stored, unit + within as u64).expect("read");
                assert!(stored == sent, "{preset:?}, matrix {matrix}, column {column}");
            }
        }
    }
}

#[test]
fn a_member_may_be_lost_and_is_filled_again() {
    let test_library = TestLibrary::with(96 << 20, GeometryPreset::Ts);
    let file = playable(test_library.path(), "film.ts");
    let source = fs::read(&file).expect("there");
    let (id, _) = store(&test_library.library(), &file);
    let member = test_library.volume_dir().join("member-2.reel");
    let aside = test_library.path().join("aside");
    fs::rename(&member, &aside).expect("pulled");
    let library = test_library.library();
    assert!(exported(&library, &id) == source, "without a member");
    let (other, _) = store(&library, &playable(test_library.path(), "other.ts"));
    drop(library);
    fs::rename(&aside, &member).expect("put back");
    let library = test_library.library();
    let index = library.volume().findings().iter().position(|finding| !finding.state.in_use());
    let report = library.volume().rebuild(index.expect("stale"), RepairOptions::default(), &mut |_| true);
    assert!(report.expect("rebuilt").complete);
    let checked = library.volume().check(&mut |_| true);
    assert!(checked.is_clean(), "{checked:?}");
    let scrubbed = library.volume().scrub(RepairOptions::default(), &mut |_| true).expect("scrubbed");
    assert!(scrubbed.is_clean(), "{scrubbed:?}");
    assert!(exported(&library, &id) == source && exported(&library, &other) == source);
}

#[test]
fn what_cannot_be_a_stream_is_refused_and_nothing_is_kept() {
    let test_library = TestLibrary::with(64 << 20, GeometryPreset::Cmaf);
    let library = test_library.library();
    let free_bytes = library.volume().free_bytes();
    let film = films::make(test_library.path(), "film.mp4", 2, films::H264_AAC);
    let stream = playable(test_library.path(), "film.ts");
    let files = [Input::new(&film), Input::new(&stream)];
    let error = library.ingest(&files, &as_stream(), &mut |_| {}).expect_err("two files");
    assert!(matches!(error, IngestError::SeveralStreams { files: 2 }), "{error}");
    assert_eq!(library.volume().free_bytes(), free_bytes);
    let id = library.ingest(&[Input::new(&film)], &IngestOptions::default(), &mut |_| {}).expect("taken").id;
    assert!(matches!(library.stream(&id), Err(LibraryError::NoStream { .. })));
    assert!(matches!(library.stream("nothing"), Err(LibraryError::NoSuchTitle { .. })));
}

#[test]
fn a_damaged_index_is_refused_and_the_title_is_still_played() {
    let test_library = TestLibrary::with(96 << 20, GeometryPreset::Ts);
    let library = test_library.library();
    let (id, _) = store(&library, &playable(test_library.path(), "film.ts"));
    let record = library.record(&id).expect("there");
    let poster = record.objects.iter().find(|entry| entry.role == Role::Artwork).expect("a poster");
    let wrong = reel_volume::ObjectEntry {
        role: Role::Index,
        number: STREAM_INDEX_NUMBER,
        object: poster.object.clone(),
    };
    // The record of another object: its bytes are no index.
    let mut writer = library.volume().writer(Class::APERIODIC).expect("a writer");
    writer.write(&[0xa5; 5000]).expect("written");
    let wrong = reel_volume::ObjectEntry { object: writer.finish().expect("finished"), ..wrong };
    library.volume().replace_objects(&record, vec![wrong]).expect("replaced");
    drop((library, record));
    let library = test_library::open(&test_library.volume_dir());
    assert!(matches!(library.stream(&id), Err(LibraryError::Index { .. })));
    assert!(library.open(&id).is_ok());
    let summary = library.summary(&id).expect("listed");
    assert_eq!((summary.problem.clone(), summary.forms.len()), (None, 1));
    assert!(library.record(&id).expect("there").object(Role::Track, STREAM_NUMBER).is_some());
}
