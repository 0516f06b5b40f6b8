//! From Matroska and transport streams to stored CMAF objects, decoded by ffmpeg: the same pictures
//! and sound as the source.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own material has failed")]

use crate::oracle::*;
use reel_media::TrackKind;
use reel_media::cmaf::{CutPolicy, Packager};
use std::path::{Path, PathBuf};

/// One CMAF object per track of a file.
fn store(film_dir: &FilmDir, path: &Path) -> Vec<(TrackKind, PathBuf)> {
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
    let write = |(index, bytes): (usize, &Vec<u8>)| {
        (tracks[index].kind, film_dir.write(&format!("track{index}.mp4"), bytes))
    };
    objects.iter().enumerate().map(write).collect()
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
