//! From Matroska and transport streams to stored CMAF objects, decoded by ffmpeg: the same pictures
//! and sound as the source.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own material has failed")]

use crate::film::Stored;
use crate::oracle::*;
use reel_media::cmaf::{CutPolicy, Packager};
use reel_media::{TrackIndex, TrackKind, progressive};
use std::path::{Path, PathBuf};

/// One CMAF object per track of a file.
fn store(film_dir: &FilmDir, path: &Path) -> Vec<(TrackKind, PathBuf)> {
    let write = |(number, (track, bytes)): (usize, (TrackIndex, Vec<u8>))| {
        (track.track.kind, film_dir.write(&format!("track{number}.mp4"), &bytes))
    };
    stored(path).into_iter().enumerate().map(write).collect()
}

/// The index and the object of each track of a file.
fn stored(path: &Path) -> Vec<(TrackIndex, Vec<u8>)> {
    let title = title(path);
    title.index.tracks.into_iter().zip(title.objects).collect()
}

fn title(path: &Path) -> Stored {
    let mut demux = reel_media::open(Box::new(Memory(std::fs::read(path).unwrap()))).unwrap();
    let tracks = demux.tracks().to_vec();
    let policy = CutPolicy { fragment_min_ms: 1000, ..CutPolicy::default() };
    let mut packager = Packager::new(tracks.clone(), policy).unwrap();
    let mut objects = vec![Vec::new(); tracks.len()];
    let mut data = Vec::new();
    while let Some(packet) = demux.next(&mut data).unwrap() {
        packager.push(&packet, &data).unwrap();
        packager.take().into_iter().for_each(|piece| objects[piece.track].extend_from_slice(&piece.bytes));
    }
    let packaged = packager.finish().unwrap();
    packaged.pieces.iter().for_each(|piece| objects[piece.track].extend_from_slice(&piece.bytes));
    Stored::new(vec![(packaged, objects)])
}

/// The parts of an object between changes, each with its init segment.
fn parts((track, object): &(TrackIndex, Vec<u8>)) -> Vec<Vec<u8>> {
    let starts = [0].into_iter().chain(track.changes.iter().map(|change| change.fragment as usize));
    let ends = track.changes.iter().map(|change| change.fragment as usize).chain([track.fragments.len()]);
    let part = |(number, (start, end)): (usize, (usize, usize))| {
        let mut bytes = object[of_object(track.init_range(number + 1).unwrap())].to_vec();
        for segment in start + 1..=end {
            bytes.extend_from_slice(&object[of_object(track.segment_range(segment).unwrap())]);
        }
        bytes
    };
    starts.zip(ends).enumerate().map(part).collect()
}

fn of_object(range: std::ops::Range<u64>) -> std::ops::Range<usize> {
    range.start as usize..range.end as usize
}

/// Both streams of `path` decode from the stored objects to the same frames at the same times.
fn assert_decodes_the_same(film_dir: &FilmDir, path: &Path) {
    for (kind, object) in store(film_dir, path) {
        let stream = if kind == TrackKind::Video { "0:v" } else { "0:a" };
        let (stored, source) = (timed_sums(&object, stream), timed_sums(path, stream));
        assert!(!stored.is_empty());
        let sums = |frames: &[(f64, String)]| frames.iter().map(|(_, sum)| sum.clone()).collect::<Vec<_>>();
        if kind == TrackKind::Video {
            assert_eq!(sums(&stored), sums(&source), "{}", path.display());
            let zero = source[0].0 - stored[0].0;
            for (stored, source) in stored.iter().zip(&source) {
                assert!((source.0 - stored.0 - zero).abs() < 0.0021, "{stored:?} {source:?}");
            }
        } else {
            // Containers differ in where a decoder cuts warm-up and padding; what both play is the
            // same.
            let (stored, source) = (sums(&stored), sums(&source));
            let common = stored.iter().filter(|sum| source.contains(sum)).count();
            assert!(common + 3 >= source.len(), "{common} of {} in {}", source.len(), path.display());
        }
    }
}

#[test]
fn matroska() {
    let film_dir = FilmDir::new();
    for (name, codecs) in [
        ("a.mkv", "-c:v libx264 -preset veryfast -bf 3 -g 25 -c:a aac"),
        ("b.mkv", "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=25 -c:a ac3"),
        ("c.webm", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 25 -c:a libopus"),
        ("d.mkv", "-c:v libsvtav1 -preset 12 -g 25 -c:a flac"),
        ("e.mkv", "-c:v libx264 -preset ultrafast -g 25 -c:a eac3"),
        ("f.mkv", "-c:v libx264 -preset ultrafast -g 25 -c:a libmp3lame"),
    ] {
        let path = film_dir.make(name, &[picture("25", 3), tone(440, 48_000, 3), words(codecs)]);
        assert_decodes_the_same(&film_dir, &path);
    }
}

#[test]
fn transport_streams() {
    let film_dir = FilmDir::new();
    for (name, codecs) in [
        ("a.ts", "-c:v libx264 -preset veryfast -bf 3 -g 25 -c:a aac"),
        ("b.ts", "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=25 -c:a ac3"),
        ("c.ts", "-c:v libx264 -preset ultrafast -g 25 -flags +ildct+ilme -c:a eac3 -output_ts_offset 95441"),
        ("d.ts", "-c:v libx264 -preset ultrafast -g 25 -c:a libmp3lame"),
    ] {
        let path = film_dir.make(name, &[picture("25", 3), tone(440, 48_000, 3), words(codecs)]);
        assert_decodes_the_same(&film_dir, &path);
    }
}

/// A film that was joined from parts decodes to what its parts decode to. `changes` are how many
/// changes its pictures and its sound have.
fn assert_parts_decode(film_dir: &FilmDir, parts_codecs: &[&str], changes: [usize; 2]) {
    assert_copy_decodes(film_dir, parts_codecs, changes, None);
}

/// The same of a copy in another container: a name and options of ffmpeg.
fn assert_copy_decodes(
    film_dir: &FilmDir,
    parts_codecs: &[&str],
    changes: [usize; 2],
    copy: Option<(&str, &str)>,
) {
    let part = |(number, codecs): (usize, &&str)| {
        let placed = format!("{codecs} -output_ts_offset {:.2}", number as f64 * 3.08);
        film_dir.make(&format!("part{number}.ts"), &[picture("25", 3), tone(440, 48_000, 3), words(&placed)])
    };
    let sources: Vec<PathBuf> = parts_codecs.iter().enumerate().map(part).collect();
    let joined: Vec<u8> = sources.iter().flat_map(|path| std::fs::read(path).unwrap()).collect();
    let mut source = film_dir.write("joined.ts", &joined);
    if let Some((name, options)) = copy {
        let input = vec!["-i".to_owned(), source.to_string_lossy().into_owned()];
        source = film_dir.make(name, &[input, words(&format!("-c copy {options}"))]);
    }
    let title = title(&source);
    let file = progressive::layout(&title.index, &[0, 1]).unwrap();
    let whole = film_dir.write("whole.mp4", &title.read(&file, 0..file.bytes()));
    let tracks: Vec<_> = title.index.tracks.into_iter().zip(title.objects).collect();
    for (track, changes) in tracks.iter().zip(changes) {
        let kind = track.0.track.kind;
        assert_eq!(track.0.changes.len(), changes, "{kind:?} of {parts_codecs:?}");
        let decoded = |path: &Path| {
            let stream = if kind == TrackKind::Video { "0:v" } else { "0:a" };
            timed_sums(path, stream).into_iter().map(|(_, sum)| sum).collect::<Vec<_>>()
        };
        let due: Vec<String> = sources.iter().flat_map(|path| decoded(path)).collect();
        let played: Vec<String> =
            parts(track).iter().flat_map(|bytes| decoded(&film_dir.write("part.mp4", bytes))).collect();
        let of_file = decoded(&whole);
        if kind == TrackKind::Video {
            assert_eq!(played, due, "{parts_codecs:?}");
            // ffmpeg shows all pictures in the size of the first.
            assert_eq!(of_file, decoded(&source), "{parts_codecs:?} in one file");
        } else {
            // ffmpeg plays all of it at the rate of the beginning, in frames of its own.
            assert!(of_file.len().abs_diff(played.len()) <= 2, "{parts_codecs:?} in one file");
            // At a joint, one frame may be cut by the next one.
            let common = due.iter().filter(|sum| played.contains(sum)).count();
            let allowed = 4 * parts_codecs.len();
            assert!(common + allowed >= due.len(), "{common} of {} in {parts_codecs:?}", due.len());
        }
    }
}

#[test]
fn transport_streams_that_change() {
    let film_dir = FilmDir::new();
    // Without noise that depends on the number of frames that were decoded before.
    let h264 = |rest: &str| format!("-c:v libx264 -preset veryfast -threads 1 -bf 2 -g 25 -aac_pns 0 {rest}");
    let hevc = |rest: &str| {
        format!("-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=25:pools=1 {rest}")
    };
    let (two, six) = (h264("-c:a aac -ac 2"), h264("-c:a aac -ac 6"));
    assert_parts_decode(&film_dir, &[&two, &six, &two], [0, 2]);
    let small = h264("-c:a aac -ac 2 -s 160x90");
    assert_parts_decode(&film_dir, &[&two, &small, &two], [2, 0]);
    assert_parts_decode(&film_dir, &[&six, &small], [1, 1]);
    let slower = h264("-c:a aac -ac 2 -ar 44100");
    assert_parts_decode(&film_dir, &[&two, &slower], [0, 1]);
    let (first, second) = (hevc("-c:a ac3 -ac 2"), hevc("-c:a ac3 -ac 6 -s 160x96"));
    assert_parts_decode(&film_dir, &[&first, &second], [1, 1]);
    let (first, second) =
        (h264("-c:a libmp3lame"), h264("-c:a libmp3lame -ar 32000 -profile:v baseline -bf 0"));
    assert_parts_decode(&film_dir, &[&first, &second], [1, 1]);
}

#[test]
fn matroska_and_mp4_that_change_within_samples() {
    let film_dir = FilmDir::new();
    let h264 = |rest: &str| format!("-c:v libx264 -preset veryfast -bf 2 -g 25 -aac_pns 0 -c:a aac {rest}");
    let hevc = |rest: &str| {
        let open = "log-level=none:keyint=25:pools=1:open-gop=1:bframes=3";
        format!("-c:v libx265 -preset ultrafast -x265-params {open} -c:a aac -aac_pns 0 {rest}")
    };
    let sizes: [&str; 3] = ["-threads 1", "-threads 1 -s 160x96", "-threads 1"];
    let (h264, hevc) = (sizes.map(h264), sizes.map(hevc));
    let copies = [
        (&h264, "a.mkv", ""),
        (&h264, "a.mp4", "-tag:v avc3"),
        (&hevc, "b.mkv", ""),
        (&hevc, "b.mp4", "-tag:v hev1"),
    ];
    for (codecs, name, options) in copies {
        let codecs = codecs.each_ref().map(String::as_str);
        assert_copy_decodes(&film_dir, &codecs, [2, 0], Some((name, options)));
    }
}
