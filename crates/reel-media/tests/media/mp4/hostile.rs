//! Files that are cut off, damaged or hostile: an error or an end, never a panic, and no memory
//! beyond the file's own size.

use super::boxes::{boxed, full, rewrite, words};
use super::files::{H264, PICTURE, TONE, film};
use super::movie::{Trak, movie};
use super::sources::{Memory, Sparse, read};
use proptest::prelude::*;
use reel_media::MediaError;
use std::fs;
use std::sync::OnceLock;

const AAC: &[&str] = &["-c:a", "aac", "-shortest"];

fn fast_start() -> Vec<u8> {
    fs::read(film("mp4", &[PICTURE, TONE, H264, AAC, &["-movflags", "+faststart"]]))
        .expect("the film was made")
}

fn fragmented() -> Vec<u8> {
    let flags = &["-movflags", "frag_keyframe+empty_moov+default_base_moof"];
    fs::read(film("mp4", &[PICTURE, TONE, H264, AAC, flags])).expect("the film was made")
}

/// A file so small that random damage hits something important.
fn small() -> Vec<u8> {
    let text = boxed(b"tx3g", &[0; 38]);
    let cues = vec![b"\0\x02Yo".to_vec(), b"\0\0".to_vec()];
    movie(
        b"isom",
        &[
            Trak { reorder: vec![80, 160, 40, 0, 80], edits: vec![(100, -1), (0, 80)], ..Trak::video(1, 5) },
            Trak { edits: vec![(0, 1024)], small_sizes: Some(8), ..Trak::audio(2, 5) },
            Trak { samples: cues, ..Trak::new(3, b"sbtl", text, 1000, 500, 0) },
        ],
    )
}

#[test]
fn cut_off_media_is_reported_at_opening() {
    let file = fast_start();
    // The last samples reach to the very end.
    for left in [file.len() - 1, file.len() * 3 / 4, file.len() / 2] {
        let error = read(Memory(file[..left].to_vec())).err().expect("a cut file");
        assert!(
            matches!(error, MediaError::Truncated { offset, .. } if offset == left as u64),
            "{left}: {error}"
        );
    }
    let file = fs::read(film("mp4", &[PICTURE, TONE, H264, AAC])).expect("the film was made");
    let error = read(Memory(file[..file.len() / 2].to_vec())).err().expect("a cut file");
    assert!(matches!(error, MediaError::Truncated { .. }), "moov at the end: {error}");
}

/// Offset and type of every box at the top level, and the end of the last one.
fn top_level(file: &[u8]) -> Vec<(usize, [u8; 4])> {
    let mut boxes = Vec::new();
    let mut at = 0;
    while let Some([s0, s1, s2, s3, kind @ ..]) = file[at..].first_chunk::<8>() {
        boxes.push((at, *kind));
        at += u32::from_be_bytes([*s0, *s1, *s2, *s3]) as usize;
    }
    boxes.push((at, *b"end "));
    boxes
}

#[test]
fn whole_fragments_of_a_cut_file_are_taken() {
    for flags in ["empty_moov", "empty_moov+default_base_moof", "empty_moov+separate_moof", "dash"] {
        let flags = format!("frag_keyframe+{flags}");
        let file = fs::read(film("mp4", &[PICTURE, TONE, H264, AAC, &["-movflags", &flags]])).expect("made");
        let boxes = top_level(&file);
        // Inside of and at both ends of every header, inside of every body, and all over the file.
        let near =
            boxes.iter().flat_map(|(at, _)| [at + 1, at + 7, at + 8, at + 40, at.saturating_sub(1), *at]);
        let spread = (1..30).map(|part| file.len() * part / 30 + part * part % 7);
        for cut in near.chain(spread).filter(|cut| (1..file.len()).contains(cut)) {
            let mut ends = boxes.windows(2).filter(|pair| pair[0].1 == *b"mdat").map(|pair| pair[1].0);
            let Some(whole) = ends.rfind(|end| *end <= cut) else {
                assert!(read(Memory(file[..cut].to_vec())).is_err(), "{flags}, {cut}: nothing is whole");
                continue;
            };
            let expected = read(Memory(file[..whole].to_vec())).expect("whole fragments");
            let taken = read(Memory(file[..cut].to_vec())).unwrap_or_else(|e| panic!("{flags}, {cut}: {e}"));
            assert!(taken.packets == expected.packets && !taken.packets.is_empty(), "{flags}, {cut}");
            let told = taken.warnings.iter().any(|warning| warning.contains("cut off"));
            let at_border = boxes.iter().any(|(at, kind)| *at == cut && kind != b"mdat");
            assert!(told || at_border, "{flags}, {cut}: {:?}", taken.warnings);
        }
    }
}

#[test]
fn the_warning_about_a_cut_file_states_the_time() {
    let file = fragmented();
    let third = top_level(&file).into_iter().filter(|(_, kind)| kind == b"moof").nth(2).expect("fragments").0;
    let taken = read(Memory(file[..third + 2000].to_vec())).expect("two fragments");
    // Two fragments of twelve pictures are whole. ffmpeg shows the first of them at 80 ms.
    assert_eq!(taken.packets.iter().filter(|(packet, _)| packet.track == 0).count(), 24);
    let expected = format!(
        "the file is cut off at byte {}: its whole fragments, up to 00:00:01.040, are taken, and the rest from \
         byte {third} on is left out",
        third + 2000
    );
    assert!(taken.warnings.contains(&expected), "{:?}", taken.warnings);
}

#[test]
fn recordings_never_finished() {
    let file = boxed(b"ftyp", b"isom\0\0\0\0isom");
    let error = read(Memory(file.clone())).err().expect("no film");
    assert!(
        matches!(&error, MediaError::Malformed { what, .. } if what.contains("never finished")),
        "{error}"
    );
    let open_end = [file, b"\0\0\0\0mdatxxxxxxxxxxx".to_vec()].concat();
    let error = read(Memory(open_end)).err().expect("no film");
    assert!(error.to_string().contains("never finished"), "{error}");
}

#[test]
fn every_length_gives_a_result() {
    let file = small();
    for left in 0..file.len() {
        assert!(read(Memory(file[..left].to_vec())).is_err(), "{left} of {} bytes", file.len());
    }
    assert!(read(Memory(file)).is_ok());
}

/// Counts that are larger than their box, in every table.
#[test]
fn counts_larger_than_their_box_are_refused() {
    let file = small();
    for table in [b"stts", b"ctts", b"stsc", b"stsz", b"stz2", b"stco", b"elst"] {
        let mut damaged = file.clone();
        let mut places = Vec::new();
        for at in 0..file.len() - 4 {
            if file[at..].starts_with(table) {
                places.push(at);
            }
        }
        assert!(!places.is_empty(), "the movie has all tables");
        for at in places {
            // The count comes after version and flags, and in the tables of sizes after one more
            // field.
            let count = at + if table.starts_with(b"stsz") || table.starts_with(b"stz2") { 12 } else { 8 };
            damaged[count..count + 4].copy_from_slice(&[0xff; 4]);
        }
        let error = read(Memory(damaged)).err().expect("a count larger than its box");
        assert!(matches!(error, MediaError::Malformed { .. } | MediaError::Limit { .. }), "{error}");
    }
}

#[test]
fn samples_that_never_end() {
    // Four thousand million samples in a few bytes.
    for (sizes, runs) in [([1, u32::MAX], [1, 1, u32::MAX, 1]), ([1, 60_000_000], [1, 1, 60_000_000, 1])] {
        let damaged = rewrite(&movie(b"isom", &[Trak::video(1, 3)]), &mut |kind, _| match kind {
            b"stsz" => Some(full(b"stsz", 0, 0, &words(&sizes))),
            b"stsc" => Some(full(b"stsc", 0, 0, &words(&runs))),
            _ => None,
        });
        assert!(read(Memory(damaged)).is_err());
    }
    // The same few bytes, repeatedly used as a sample.
    let once = movie(b"isom", &[Trak::video(1, 3)]);
    let damaged = rewrite(&once, &mut |kind, _| match kind {
        b"stsz" => Some(full(b"stsz", 0, 0, &words(&[3, 1000]))),
        b"stco" => Some(full(b"stco", 0, 0, &[words(&[1000]), words(&[32; 1000])].concat())),
        _ => None,
    });
    assert!(read(Memory(damaged.clone())).is_ok(), "a file with room for as many bytes");
    let damaged =
        rewrite(&damaged, &mut |kind, _| (kind == b"stsz").then(|| full(b"stsz", 0, 0, &words(&[20, 1000]))));
    let error = read(Memory(damaged)).err().expect("more bytes than the file has");
    assert!(matches!(&error, MediaError::Malformed { what, .. } if what.contains("more bytes")), "{error}");
}

#[test]
fn runs_of_nothing() {
    let mvex = boxed(b"mvex", &full(b"trex", 0, 0, &words(&[1, 1, 40, 0, 0])));
    let file = movie(b"isom", &[Trak::video(1, 0)]);
    let file =
        rewrite(&file, &mut |kind, body| (kind == b"moov").then(|| boxed(b"moov", &[body, &mvex].concat())));
    let trun = full(b"trun", 0, 0, &words(&[u32::MAX]));
    let traf = boxed(b"traf", &[full(b"tfhd", 0, 0, &words(&[1])), trun].concat());
    let error = read(Memory([file, boxed(b"moof", &traf)].concat())).err().expect("samples of no size");
    assert!(matches!(&error, MediaError::Malformed { what, .. } if what.contains("no size")), "{error}");
}

/// Boxes that claim gigabytes in a file that has them, full of zeros.
#[test]
fn large_boxes_in_sparse_files() {
    let ftyp = boxed(b"ftyp", b"isom\0\0\0\0isom");
    for (kind, bytes) in [(b"moov", 4u64 << 30), (b"moof", 4 << 30), (b"moov", u64::MAX)] {
        let head = [&1u32.to_be_bytes(), kind.as_slice(), &bytes.to_be_bytes()].concat();
        let pieces = vec![(0, [ftyp.clone(), head].concat()), (5 << 30, vec![0])];
        let error = read(Sparse { pieces }).err().expect("a box above the limit");
        assert!(matches!(error, MediaError::Limit { .. } | MediaError::Truncated { .. }), "{error}");
    }
}

#[test]
fn no_film_at_all() {
    let noise: Vec<u8> = (0..10_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for bytes in [vec![0; 1000], noise, b"RIFF\0\0\0\0AVI ".to_vec(), b"x".to_vec()] {
        let error = read(Memory(bytes)).err().expect("no film");
        assert!(matches!(error, MediaError::UnknownContainer(_)), "{error}");
    }
}

/// One piece of damage.
#[derive(Clone, Debug)]
enum Damage {
    Flip { at: usize, bit: u8 },
    Word { at: usize, word: u32 },
    Cut { left: usize },
    Repeat { from: usize, length: usize },
    Drop { from: usize, length: usize },
}

fn damage() -> impl Strategy<Value = Damage> {
    let words = prop_oneof![
        Just(0),
        Just(1),
        Just(7),
        Just(8),
        Just(u32::MAX),
        Just(1 << 31),
        Just(i32::MAX as u32),
        any::<u32>(),
        0u32..4096
    ];
    prop_oneof![
        4 => (any::<usize>(), 0u8..8).prop_map(|(at, bit)| Damage::Flip { at, bit }),
        6 => (any::<usize>(), words).prop_map(|(at, word)| Damage::Word { at, word }),
        1 => any::<usize>().prop_map(|left| Damage::Cut { left }),
        1 => (any::<usize>(), 1usize..200).prop_map(|(from, length)| Damage::Repeat { from, length }),
        1 => (any::<usize>(), 1usize..200).prop_map(|(from, length)| Damage::Drop { from, length }),
    ]
}

/// Applies the damage within `first..` of the file, because damage to the samples themselves tests
/// nothing.
fn damaged(mut file: Vec<u8>, first: usize, list: &[Damage]) -> Vec<u8> {
    for damage in list {
        let room = file.len().saturating_sub(first).max(1);
        let place = |at: usize| first + at % room;
        match *damage {
            Damage::Flip { at, bit } => {
                if let Some(byte) = file.get_mut(place(at)) {
                    *byte ^= 1 << bit;
                }
            }
            Damage::Word { at, word } => {
                if let Some(bytes) = file.get_mut(place(at)..place(at) + 4) {
                    bytes.copy_from_slice(&word.to_be_bytes());
                }
            }
            Damage::Cut { left } => file.truncate(place(left)),
            Damage::Repeat { from, length } => {
                let from = place(from);
                let piece = file[from.min(file.len())..(from + length).min(file.len())].to_vec();
                file.splice(from.min(file.len())..from.min(file.len()), piece);
            }
            Damage::Drop { from, length } => {
                let from = place(from).min(file.len());
                file.drain(from..(from + length).min(file.len()));
            }
        }
    }
    file
}

/// The packets of a damaged file also keep the rules, and are no larger than the file.
fn answer(file: Vec<u8>) -> Result<(), TestCaseError> {
    let bytes = file.len();
    let Ok(read) = read(Memory(file)) else { return Ok(()) };
    for track in 0..read.tracks.len() {
        let packets = read.of(track);
        prop_assert!(packets.iter().map(|(_, data)| data.len()).sum::<usize>() <= bytes * 8);
        prop_assert!(packets.is_sorted_by_key(|(packet, _)| packet.sample.dts));
    }
    prop_assert!(!read.tracks.is_empty() && read.tracks.iter().all(|track| track.timescale > 0));
    Ok(())
}

fn shared(cell: &'static OnceLock<Vec<u8>>, make: fn() -> Vec<u8>) -> Vec<u8> {
    cell.get_or_init(make).clone()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn small_files_with_damage(list in prop::collection::vec(damage(), 1..6)) {
        static FILE: OnceLock<Vec<u8>> = OnceLock::new();
        answer(damaged(shared(&FILE, small), 0, &list))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn films_with_damage(list in prop::collection::vec(damage(), 1..4)) {
        static FILE: OnceLock<Vec<u8>> = OnceLock::new();
        static MOOV: OnceLock<usize> = OnceLock::new();
        // All important bytes are in the `moov` box at the end.
        let file = shared(&FILE, || fs::read(film("mp4", &[PICTURE, TONE, H264, AAC])).expect("the film was made"));
        let first = MOOV.get_or_init(|| file.windows(4).rposition(|kind| kind == b"moov").expect("a moov box") - 4);
        answer(damaged(file.clone(), *first, &list))?;
    }

    #[test]
    fn fragments_with_damage(list in prop::collection::vec((any::<usize>(), damage()), 1..4)) {
        static FILE: OnceLock<Vec<u8>> = OnceLock::new();
        let mut file = shared(&FILE, fragmented);
        for (which, damage) in &list {
            let heads: Vec<usize> = file.windows(4).enumerate().filter(|(_, kind)| kind == b"moof").map(|(at, _)| at).collect();
            let Some(head) = heads.get(which % heads.len().max(1)) else { break };
            let rest = file.split_off(head - 4);
            let (near, far) = rest.split_at(rest.len().min(600));
            file.extend(damaged(near.to_vec(), 0, std::slice::from_ref(damage)));
            file.extend(far);
        }
        answer(file)?;
    }
}
