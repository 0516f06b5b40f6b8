//! Films that were joined byte by byte, as `cat` does.

use crate::film_dir::FilmDir;
use crate::mp4::boxes::{boxed, full, rewrite, split, words};
use crate::mp4::movie::{Trak, movie};
use crate::mp4::sources::{Memory, Read, read};

const PARTS: &str = "-f lavfi -i testsrc2=size=160x90:rate=25:d=2 -f lavfi -i sine={}:d=2 -c:v libx264 -preset ultrafast -bf 2 -g 25 -c:a aac";

/// Two films that differ in their sound.
fn two(extension: &str, options: &str) -> [Vec<u8>; 2] {
    let dir = FilmDir::new();
    ["440", "660"].map(|hertz| {
        let arguments = format!("{} {options}", PARTS.replace("{}", hertz));
        std::fs::read(dir.make(&format!("{hertz}.{extension}"), &arguments)).unwrap()
    })
}

fn taken(file: &[u8]) -> Read {
    read(Memory(file.to_vec())).unwrap()
}

fn left_out(at: usize, bytes: usize) -> String {
    format!(
        "another film begins at byte {at}, and its {bytes} bytes are left out: store each film in a file of its \
         own, or join them with a program that knows the container"
    )
}

/// The first film is taken as it is alone, and the rest is named.
fn assert_first_alone(what: &str, first: &[u8], more: &[u8], begins: usize, bytes: usize) {
    let alone = taken(first);
    let both = taken(&[first, more].concat());
    assert!(alone.warnings.is_empty(), "{what}: {:?}", alone.warnings);
    assert!(both.packets == alone.packets, "{what}: {} of {}", both.packets.len(), alone.packets.len());
    assert_eq!(both.warnings, [left_out(begins, bytes)], "{what}");
}

#[test]
fn another_film_in_matroska_is_named() {
    for (extension, options) in [
        ("mkv", ""),
        ("mkv", "-live 1 -f matroska"),
        ("webm", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -c:a libopus"),
        ("webm", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -c:a libopus -live 1"),
    ] {
        let what = format!("{extension} {options}");
        let [a, b] = two(extension, options);
        assert_first_alone(&what, &a, &b, a.len(), b.len());
        assert_first_alone(&what, &a, &[&b[..], &a].concat(), a.len(), a.len() + b.len());
        // Padding between them.
        let padding = [&[0xec, 0x88], &[0; 8][..]].concat();
        assert_first_alone(&what, &a, &[padding, b.clone()].concat(), a.len() + 10, b.len());
        // Padding alone, and bytes that are no film.
        for more in [&[0xec, 0x88, 0, 0, 0, 0, 0, 0, 0, 0][..], &[0; 300]] {
            let read = taken(&[&a[..], more].concat());
            assert!(read.packets == taken(&a).packets, "{what}");
            assert!(read.warnings.iter().all(|warning| !warning.contains("another film")), "{what}");
        }
    }
}

#[test]
fn another_film_after_damage_is_not_mixed_into_the_first() {
    let [mut a, b] = two("mkv", "-live 1 -f matroska");
    let whole = taken(&a).packets.len();
    let end = a.len();
    a[end - 400..].fill(0);
    let read = taken(&[&a[..], &b].concat());
    assert!((1..whole).contains(&read.packets.len()), "{}", read.packets.len());
    assert!(read.warnings.contains(&left_out(end, b.len())), "{:?}", read.warnings);
}

#[test]
fn clusters_behind_a_segment_that_states_too_small_a_size_are_taken() {
    let dir = FilmDir::new();
    let options = format!("{} -cluster_time_limit 300", PARTS.replace("{}", "440"));
    let film = std::fs::read(dir.make("a.mkv", &options)).unwrap();
    let segment = film.windows(4).position(|id| id == [0x18, 0x53, 0x80, 0x67]).unwrap();
    let cluster = film.windows(4).rposition(|id| id == [0x1f, 0x43, 0xb6, 0x75]).unwrap();
    let mut small = film.clone();
    let size = (cluster - segment - 12) as u64 | 1 << 56;
    small[segment + 4..segment + 12].copy_from_slice(&size.to_be_bytes());
    let (read, whole) = (taken(&small), taken(&film));
    assert!(read.packets == whole.packets, "{} of {}", read.packets.len(), whole.packets.len());
}

#[test]
fn another_film_in_mp4_is_named() {
    for (extension, options) in [("mp4", ""), ("mp4", "-movflags +faststart"), ("mov", "")] {
        let what = format!("{extension} {options}");
        let [a, b] = two(extension, options);
        assert_first_alone(&what, &a, &b, a.len(), b.len());
    }
    // One without an index, which was never finished.
    let [a, b] = two("mp4", "");
    let index = b.windows(4).rposition(|kind| kind == b"moov").unwrap() - 4;
    assert_first_alone("no index", &a, &b[..index], a.len(), index);
    let three = taken(&[&a[..], &b, &a].concat());
    let named = [left_out(a.len(), b.len()), left_out(a.len() + b.len(), a.len())];
    assert_eq!(three.warnings, named);
}

#[test]
fn a_moov_box_that_is_written_twice_is_named_if_it_is_another_one() {
    let file = movie(b"isom", &[Trak::video(1, 5), Trak::audio(2, 9)]);
    let (_, moov) = split(&file).pop().unwrap();
    let same = taken(&[&file[..], &boxed(b"moov", &moov)].concat());
    assert!(same.packets == taken(&file).packets && same.warnings.is_empty(), "{:?}", same.warnings);
    let more =
        rewrite(&moov, &mut |kind, _| (kind == b"stts").then(|| full(b"stts", 0, 0, &words(&[1, 5, 41]))));
    let other = taken(&[&file[..], &boxed(b"moov", &more)].concat());
    assert!(other.packets == same.packets);
    let expected = format!("another `moov` box begins at byte {}, and is not used", file.len());
    assert!(matches!(&other.warnings[..], [one] if one.starts_with(&expected)), "{:?}", other.warnings);
    // A hundred of them are read as one.
    let many = taken(&[&file[..], &boxed(b"moov", &more).repeat(100)].concat());
    assert_eq!(many.warnings, other.warnings);
}

#[test]
fn films_without_an_end_are_bounded() {
    let file = movie(b"isom", &[Trak::video(1, 5)]);
    let many = [&file[..], &boxed(b"ftyp", b"isom\0\0\0\0").repeat(10_000)].concat();
    assert!(matches!(read(Memory(many)), Ok(read) if read.packets.len() == 5));
    let many = [&file[..], &file.repeat(10_000)].concat();
    let read = read(Memory(many));
    assert!(matches!(&read, Ok(read) if read.warnings.len() == 33), "{:?}", read.err());
}
