//! Still pictures beside a film: the moving track is the film, and what is left out is named.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own material has failed")]

use crate::mkv_made::{block_body, cluster, element, file, mp3_frames, open};
use crate::oracle::*;
use reel_media::{Cover, MediaError, PictureFormat, TrackKind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

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
type Seen = (Vec<(u32, u32)>, usize, Vec<String>);

fn seen(path: &Path) -> Seen {
    seen_with_cover(path).0
}

/// The same, and the cover.
fn seen_with_cover(path: &Path) -> (Seen, Option<Cover>) {
    let mut demux = reel_media::open(Box::new(Memory(std::fs::read(path).unwrap()))).unwrap();
    let videos = demux.tracks().iter().filter_map(|track| track.video.as_ref());
    let sizes = videos.map(|video| (video.width, video.height)).collect();
    let film = demux.tracks().iter().position(|track| track.kind == TrackKind::Video);
    let taken = drain(demux.as_mut()).unwrap();
    let pictures = film.map_or(0, |film| of_track(&taken, film).len());
    let cover = demux.cover().unwrap();
    ((sizes, pictures, demux.warnings().to_vec()), cover)
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
                let ((sizes, pictures, warnings), cover) = seen_with_cover(&path);
                assert_eq!(sizes, [(320, 180)], "{name} {codec}: {warnings:?}");
                assert_eq!(cover, Some(Cover::Track(order)), "{name} {codec}");
                assert_eq!(pictures, 25 * FILM_S as usize, "{name} {codec}");
                let told = |warning: &String| warning.contains("becomes the poster");
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
    let told = "track 1 is one still picture \"Cover\" of 300 x 400 beside a film: it becomes the poster";
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
    let picture_file =
        |path: &Path| Cover::Picture { format: PictureFormat::Jpeg, bytes: std::fs::read(path).unwrap() };
    for (count, told) in
        [(1, None), (6, Some("attached files are not stored: a.ttf, b.ttf, c.ttf, d.ttf and 1 more"))]
    {
        let path = film_dir.make("a.mkv", &[film.concat(), attach(count)]);
        let told: Vec<String> = told.into_iter().map(str::to_owned).collect();
        let expected = ((vec![(320, 180)], 50, told), Some(picture_file(&cover)));
        assert!(seen_with_cover(&path) == expected, "{count}: {:?}", seen(&path));
    }
    for name in ["a.mp4", "a.m4v"] {
        let codecs = words(&format!(
            "-i {} -map 0 -map 1 -c:v:0 libx264 -preset ultrafast -c:v:1 copy -disposition:v:1 attached_pic",
            cover.display()
        ));
        let path = film_dir.make(name, &[picture("25", FILM_S), codecs]);
        let expected = ((vec![(320, 180)], 50, Vec::new()), Some(picture_file(&cover)));
        assert!(seen_with_cover(&path) == expected, "{name}: {:?}", seen(&path));
    }
}

/// An attached file: name, data, and the order of the two.
fn attached(files: &[(&str, &[u8], bool)]) -> Vec<u8> {
    let one = |(name, data, name_first): &(&str, &[u8], bool)| {
        let (name, data) = (element(0x466e, name.as_bytes()), element(0x465c, data));
        element(0x61a7, &if *name_first { [name, data].concat() } else { [data, name].concat() })
    };
    static FRAMES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let frames = FRAMES.get_or_init(mp3_frames);
    let blocks = [element(0xa3, &block_body(0, 0x80, &frames[0]))];
    let attachments = element(0x1941_a469, &files.iter().flat_map(one).collect::<Vec<_>>());
    file(&[], &[attachments, cluster(0, &blocks)].concat())
}

#[test]
fn the_best_of_several_attached_pictures_is_the_cover() {
    const JPEG: &[u8] = b"\xff\xd8\xff\xe0 a";
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n b";
    let read = |files: &[(&str, &[u8], bool)]| {
        let mut demux = open(attached(files)).unwrap();
        let cover = demux.cover().unwrap().map(|cover| match cover {
            Cover::Picture { format, bytes } => (format, bytes),
            Cover::Track(_) => unreachable!("no video"),
        });
        (cover, demux.warnings().join("; "))
    };
    let (cover, warnings) = read(&[
        ("x.jpg", b"\xff\xd8\xff x", true),
        ("small_cover.jpg", b"\xff\xd8\xff s", false),
        ("Cover.PNG", PNG, false),
        ("cover_land.jpg", JPEG, true),
    ]);
    assert_eq!(cover, Some((PictureFormat::Png, PNG.to_vec())));
    assert_eq!(warnings, "attached files are not stored: x.jpg, small_cover.jpg, cover_land.jpg");
    assert_eq!(read(&[("", JPEG, true)]), (Some((PictureFormat::Jpeg, JPEG.to_vec())), String::new()));
    // The contents decide, not the name; and the size is bounded.
    let large = [JPEG, &vec![0; 16 << 20]].concat();
    for (data, name) in [(b"#EXTM3U".as_slice(), "cover.jpg"), (&[], "cover.png"), (&large, "cover.jpg")] {
        assert_eq!(read(&[(name, data, true)]), (None, format!("attached files are not stored: {name}")));
    }
}

#[test]
fn hostile_covers_in_the_metadata_leave_the_film() {
    let film_dir = FilmDir::new();
    let cover = film_dir.make("cover.jpg", &[still("64x64")]);
    let codecs = format!(
        "-i {} -map 0 -map 1 -c:v:0 libx264 -preset ultrafast -c:v:1 copy -disposition:v:1 attached_pic",
        cover.display()
    );
    let whole = std::fs::read(film_dir.make("a.mp4", &[picture("25", 1), words(&codecs)])).unwrap();
    let covr = whole.windows(4).position(|kind| kind == b"covr").unwrap();
    for (at, size) in
        [(covr - 4, 0u32), (covr - 4, 1), (covr - 4, 1 << 31), (covr + 4, 7), (covr + 4, u32::MAX)]
    {
        let mut bytes = whole.clone();
        bytes[at..at + 4].copy_from_slice(&size.to_be_bytes());
        let mut demux = open(bytes).unwrap();
        assert_eq!(demux.tracks().len(), 1);
        let taken = demux.cover().unwrap();
        assert!(taken.is_none() || size == 0, "{size}: {taken:?}");
        assert_eq!(drain(demux.as_mut()).unwrap().len(), 25);
    }
    // Something else than a picture is told.
    let mut bytes = whole.clone();
    bytes[covr + 20] = 0;
    let mut demux = open(bytes).unwrap();
    assert_eq!(demux.cover().unwrap(), None);
    assert!(demux.warnings()[0].contains("(`covr`) is left out"), "{:?}", demux.warnings());
}
