//! Still pictures beside a film: the moving track is the film, and what is left out is named.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own material has failed")]

use crate::oracle::*;
use reel_media::{MediaError, TrackKind};
use std::path::{Path, PathBuf};

const FILM_S: u32 = 2;

fn still(size: &str) -> Vec<String> {
    words(&format!("-f lavfi -i testsrc=size={size}:rate=1:duration=1"))
}

/// A film with a still as its first track (`order` 0) or its last one (`order` 1).
fn beside(film_dir: &FilmDir, name: &str, order: usize, still_codec: &str, more: &str) -> PathBuf {
    let map = ["-map 0 -map 1 -map 2", "-map 1 -map 2 -map 0"][order];
    let (still_at, film_at) = [(0, 1), (1, 0)][order];
    let codecs = format!(
        "{map} -c:v:{still_at} {still_codec} -c:v:{film_at} libx264 -preset ultrafast -g 25 -c:a aac {more}"
    );
    let sound = tone(440, 48_000, FILM_S);
    film_dir.make(name, &[still("300x400"), picture("25", FILM_S), sound, words(&codecs)])
}

/// The size of each video track, the number of pictures of the first one, and all warnings.
fn seen(path: &Path) -> (Vec<(u32, u32)>, usize, Vec<String>) {
    let mut demux = reel_media::open(Box::new(Memory(std::fs::read(path).unwrap()))).unwrap();
    let videos = demux.tracks().iter().filter_map(|track| track.video.as_ref());
    let sizes = videos.map(|video| (video.width, video.height)).collect();
    let film = demux.tracks().iter().position(|track| track.kind == TrackKind::Video);
    let taken = drain(demux.as_mut()).unwrap();
    let pictures = film.map_or(0, |film| of_track(&taken, film).len());
    (sizes, pictures, demux.warnings().to_vec())
}

#[test]
fn a_still_is_not_the_film() {
    let film_dir = FilmDir::new();
    let codecs = ["libx264", "libx265 -x265-params log-level=none", "mjpeg", "libvpx-vp9"];
    for (number, codec) in codecs.iter().enumerate() {
        for (order, default) in [(0, "-disposition:v:0 default"), (0, ""), (1, "")] {
            for extension in ["mkv", "mp4", "mov"] {
                if (extension, *codec) == ("mov", "libvpx-vp9") {
                    continue;
                }
                let name = format!("{number}{order}{}.{extension}", default.len());
                let path = beside(&film_dir, &name, order, codec, default);
                let (sizes, pictures, warnings) = seen(&path);
                assert_eq!(sizes, [(320, 180)], "{name} {codec}: {warnings:?}");
                assert_eq!(pictures, 25 * FILM_S as usize, "{name} {codec}");
                let told = |warning: &String| warning.contains("left out") || warning.contains("be stored");
                assert_eq!(
                    warnings.iter().filter(|warning| told(warning)).count(),
                    1,
                    "{name}: {warnings:?}"
                );
            }
        }
    }
    let path = beside(&film_dir, "named.mkv", 0, "libx264", "-metadata:s:v:0 title=Cover");
    let (_, _, warnings) = seen(&path);
    let told =
        "track 1 is left out: it is one still picture \"Cover\" of 300 x 400, such as a cover, beside a film";
    assert_eq!(warnings, [told]);
}

#[test]
fn a_still_alone_is_kept() {
    let film_dir = FilmDir::new();
    for name in ["a.mkv", "a.mp4"] {
        let codecs = words("-c:v libx264 -c:a aac");
        let path = film_dir.make(name, &[still("300x400"), tone(440, 48_000, FILM_S), codecs]);
        let (sizes, pictures, warnings) = seen(&path);
        assert_eq!((sizes, pictures, warnings), (vec![(300, 400)], 1, Vec::new()), "{name}");
    }
}

#[test]
fn a_still_does_not_stand_for_a_film_that_cannot_be_stored() {
    let film_dir = FilmDir::new();
    let codecs = words("-map 0 -map 1 -c:v:0 libx264 -c:v:1 mpeg2video");
    let path = film_dir.make("a.mkv", &[still("300x400"), picture("25", FILM_S), codecs]);
    let error = reel_media::open(Box::new(Memory(std::fs::read(path).unwrap()))).err().unwrap();
    assert!(matches!(&error, MediaError::NoTracks(why) if why.contains("V_MPEG2")), "{error}");
}

#[test]
fn covers_and_attached_files_are_named() {
    let film_dir = FilmDir::new();
    let cover = film_dir.make("cover.jpg", &[still("64x64")]);
    let film = [picture("25", FILM_S), words("-c:v libx264 -preset ultrafast")];
    let names = ["cover.jpg", "a.ttf", "b.ttf", "c.ttf", "d.ttf", "e.ttf"];
    let attach = |count: usize| -> Vec<String> {
        let files = names[1..count].iter().map(|name| film_dir.write(name, &[1; 300_000]));
        let files: Vec<_> = std::iter::once(cover.clone()).chain(files).collect();
        let attach = |(number, path): (usize, &PathBuf)| {
            let kind = if number == 0 { "image/jpeg" } else { "font/ttf" };
            words(&format!("-attach {} -metadata:s:t:{number} mimetype={kind}", path.display()))
        };
        files.iter().enumerate().flat_map(attach).collect()
    };
    for (count, told) in [
        (1, "attached files are not stored: cover.jpg"),
        (6, "attached files are not stored: cover.jpg, a.ttf, b.ttf, c.ttf and 2 more"),
    ] {
        let path = film_dir.make("a.mkv", &[film.concat(), attach(count)]);
        assert_eq!(seen(&path), (vec![(320, 180)], 50, vec![told.to_owned()]));
    }
    for name in ["a.mp4", "a.m4v"] {
        let codecs = words(&format!(
            "-i {} -map 0 -map 1 -c:v:0 libx264 -preset ultrafast -c:v:1 copy -disposition:v:1 attached_pic",
            cover.display()
        ));
        let path = film_dir.make(name, &[picture("25", FILM_S), codecs]);
        let told = "the cover picture in the metadata (`covr`) is not stored";
        assert_eq!(seen(&path), (vec![(320, 180)], 50, vec![told.to_owned()]), "{name}");
    }
}
