//! Chapters of Matroska files: ffmpeg's, and what it does not write.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own material has failed")]

use crate::mkv_made::{block_body, cluster, element, file, mp3_frames, number, open};
use crate::oracle::*;
use std::sync::OnceLock;

fn chapters(bytes: Vec<u8>) -> Vec<(u64, String)> {
    let demux = open(bytes).unwrap();
    demux.chapters().iter().map(|chapter| (chapter.start_ns, chapter.name.clone())).collect()
}

fn named(list: &[(u64, &str)]) -> Vec<(u64, String)> {
    list.iter().map(|(ns, name)| (*ns, (*name).to_owned())).collect()
}

#[test]
fn chapters_of_ffmpeg() {
    let film_dir = FilmDir::new();
    let metadata = ";FFMETADATA1\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=700\ntitle=One\n\
                    [CHAPTER]\nTIMEBASE=1/1000\nSTART=700\nEND=2000\ntitle=Zw\u{f6}lf\n";
    let metadata = film_dir.write("chapters.txt", metadata.as_bytes());
    let input = words(&format!("-f ffmetadata -i {} -map_chapters 1 -c:a libopus", metadata.display()));
    for name in ["a.mka", "a.webm"] {
        let path = film_dir.make(name, &[tone(440, 48_000, 2), input.clone()]);
        let expected = named(&[(0, "One"), (700_000_000, "Zw\u{f6}lf")]);
        assert_eq!(chapters(std::fs::read(path).unwrap()), expected, "{name}");
    }
}

fn atom(start: u64, name: &str, extra: &[u8]) -> Vec<u8> {
    let display = element(0x80, &element(0x85, name.as_bytes()));
    element(0xb6, &[number(0x91, start), display, extra.to_vec()].concat())
}

fn edition(flags: &[u8], atoms: &[Vec<u8>]) -> Vec<u8> {
    element(0x45b9, &[flags, &atoms.concat()].concat())
}

/// A film of two frames whose clusters begin at `ms`.
fn film(before: &[u8], ms: u64, behind: &[u8]) -> Vec<u8> {
    static FRAMES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let frames = FRAMES.get_or_init(mp3_frames);
    let blocks =
        [element(0xa3, &block_body(0, 0x80, &frames[0])), element(0xa3, &block_body(24, 0x80, &frames[1]))];
    file(&[], &[before, &cluster(ms, &blocks), behind].concat())
}

#[test]
fn the_default_edition_without_hidden_chapters() {
    let hidden = edition(&[number(0x45bd, 1), number(0x45db, 1)].concat(), &[atom(0, "hidden", &[])]);
    let plain = edition(&[], &[atom(0, "plain", &[])]);
    let default = edition(
        &number(0x45db, 1),
        &[
            atom(9, "nine", &[]),
            atom(5, "five", &atom(6, "within", &[])),
            atom(7, "hidden", &number(0x98, 1)),
            atom(8, "disabled", &number(0x4598, 0)),
            atom(8, "elsewhere", &element(0x6e67, &[7; 16])),
            element(0xb6, &number(0x91, 10)),
            element(0xb6, &element(0x80, &element(0x85, b"no time"))),
        ],
    );
    let all = element(0x1043_a770, &[hidden.clone(), plain.clone(), default].concat());
    assert_eq!(chapters(film(&all, 0, &[])), named(&[(5, "five"), (9, "nine"), (10, "")]));
    let first = element(0x1043_a770, &[hidden.clone(), plain].concat());
    assert_eq!(chapters(film(&first, 0, &[])), named(&[(0, "plain")]));
    assert_eq!(chapters(film(&element(0x1043_a770, &hidden), 0, &[])), []);
}

#[test]
fn chapters_of_a_part_of_a_film_count_from_its_beginning() {
    const S: u64 = 1_000_000_000;
    let atoms = [atom(0, "a", &[]), atom(3600 * S, "b", &[]), atom(3602 * S, "c", &[])];
    let all = element(0x1043_a770, &edition(&[], &atoms));
    assert_eq!(chapters(film(&all, 3_601_000, &[])), named(&[(0, "b"), (S, "c")]));
}

/// Programs that edit a file put what has grown behind the clusters, and say where.
#[test]
fn chapters_and_attached_files_behind_the_clusters() {
    let behind = element(0x1043_a770, &edition(&[], &[atom(3, "behind", &[])]));
    let cover = element(0x61a7, &[element(0x466e, b"notes.txt"), element(0x465c, &[1; 40])].concat());
    let attached = element(0x1941_a469, &cover);
    let seek = |id: u32, position: u64| {
        element(0x4dbb, &[element(0x53ab, &id.to_be_bytes()), number(0x53ac, position)].concat())
    };
    let made = |chapters_at: u64, attached_at: u64| {
        let seeks = [seek(0x1043_a770, chapters_at), seek(0x1941_a469, attached_at)].concat();
        film(&element(0x114d_9b74, &seeks), 0, &[behind.clone(), attached.clone()].concat())
    };
    // Positions count from the body of the segment, which begins after a head of 12 bytes.
    let whole = made(0, 0);
    let segment = whole.windows(4).position(|id| id == [0x18, 0x53, 0x80, 0x67]).unwrap() as u64 + 12;
    let place = |id: [u8; 4]| whole.windows(4).rposition(|at| at == id).unwrap() as u64 - segment;
    let (chapters_at, attached_at) = (place([0x10, 0x43, 0xa7, 0x70]), place([0x19, 0x41, 0xa4, 0x69]));
    let bytes = made(chapters_at, attached_at);
    assert_eq!(chapters(bytes.clone()), named(&[(3, "behind")]));
    let demux = open(bytes).unwrap();
    assert!(demux.warnings().iter().any(|warning| warning.contains("notes.txt")), "{:?}", demux.warnings());
    // Positions that are wrong, or of nothing.
    for wrong in [0, 1, chapters_at + 1, chapters_at - 12, whole.len() as u64, 1 << 31, 1 << 63, u64::MAX] {
        assert_eq!(chapters(made(wrong, wrong)), [], "{wrong}");
    }
}

#[test]
fn hostile_chapters() {
    for start in [1 << 31, (1 << 63) - 1, 1 << 63, u64::MAX] {
        let all = element(0x1043_a770, &edition(&[], &[atom(start, "late", &[]), atom(1, "one", &[])]));
        let mut expected = vec![(1, "one".to_owned())];
        expected.extend(i64::try_from(start).ok().map(|ns| (ns as u64, "late".to_owned())));
        assert_eq!(chapters(film(&all, 0, &[])), expected, "{start}");
    }
    let many: Vec<_> = (0..5000).map(|at| atom(at, "x", &[])).collect();
    let demux = open(film(&element(0x1043_a770, &edition(&[], &many)), 0, &[])).unwrap();
    assert_eq!(demux.chapters().len(), 4096);
    assert!(demux.warnings()[0].contains("more than 4096 chapters"), "{:?}", demux.warnings());
    // More bytes than are read: no chapters, but the film.
    let large = element(0x1043_a770, &[edition(&[], &[atom(1, "one", &[])]), vec![0; 5 << 20]].concat());
    let mut demux = open(film(&large, 0, &[])).unwrap();
    assert!(demux.chapters().is_empty() && demux.warnings()[0].contains("chapters are left out"));
    assert_eq!(drain(demux.as_mut()).unwrap().len(), 2);
    // Cut off at every byte, inside an element of the right length.
    let list = edition(&number(0x45db, 1), &[atom(1, "one", &[]), atom(2, "two", &[])]);
    for end in 0..list.len() {
        assert!(chapters(film(&element(0x1043_a770, &list[..end]), 0, &[])).len() < 2, "{end}");
    }
}
