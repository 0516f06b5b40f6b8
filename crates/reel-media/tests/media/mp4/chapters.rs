//! Chapters of MP4 and QuickTime files, and cues before the beginning.

use super::boxes::{boxed, full, rewrite, split, words};
use super::files::{H264, PICTURE, film, text};
use super::movie::{Trak, movie};
use super::sources::{Memory, Read, read};
use reel_media::TrackKind;
use std::fs;

const METADATA: &str = ";FFMETADATA1\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=700\ntitle=One <&>\n\
                        [CHAPTER]\nTIMEBASE=1/1000\nSTART=700\nEND=2000\ntitle=\u{201e}Zwei\u{201c}\n";

fn named(list: &[(u64, &str)]) -> Vec<(u64, String)> {
    list.iter().map(|(ns, name)| (*ns, (*name).to_owned())).collect()
}

fn read_movie(traks: &[Trak]) -> Read {
    read(Memory(movie(b"isom", traks))).expect("a valid movie")
}

/// ffmpeg writes both kinds into MP4, and only the track into MOV.
#[test]
fn chapters_of_ffmpeg() {
    let path = text("chapters.txt", METADATA);
    let arguments: &[&[&str]] = &[PICTURE, &["-f", "ffmetadata", "-i", &path, "-map_chapters", "1"], H264];
    for extension in ["mov", "mp4", "m4v"] {
        let file = fs::read(film(extension, arguments)).expect("the film was made");
        let without_track = rewrite(&file, &mut |kind, body| {
            let refers = kind == b"trak" && split(body).iter().any(|(kind, _)| kind == b"tref");
            refers.then(|| rewrite_without(body, b"tref"))
        });
        let film = read(Memory(file)).expect("a valid file");
        assert_eq!(film.tracks.len(), 1, "{extension}: {:?}", film.tracks);
        assert_eq!(film.chapters, named(&[(0, "One <&>"), (700_000_000, "\u{201e}Zwei\u{201c}")]));
        assert_eq!(film.warnings, Vec::<String>::new(), "{extension}");
        if extension == "mp4" {
            // The list of Nero's programs; the track alone would be subtitles.
            let film = read(Memory(without_track)).expect("a valid file");
            assert_eq!(film.chapters, named(&[(0, "One <&>"), (700_000_000, "\u{201e}Zwei\u{201c}")]));
        }
    }
}

fn rewrite_without(trak: &[u8], removed: &[u8; 4]) -> Vec<u8> {
    let kept = split(trak).into_iter().filter(|(kind, _)| kind != removed);
    boxed(b"trak", &kept.flat_map(|(kind, body)| boxed(&kind, &body)).collect::<Vec<_>>())
}

fn name_sample(name: &str) -> Vec<u8> {
    [&(name.len() as u16).to_be_bytes(), name.as_bytes()].concat()
}

/// A film whose second track holds chapters of a second each.
fn with_chapter_track(names: &[&str], edits: Vec<(u32, i32)>) -> Vec<Trak> {
    let samples = names.iter().map(|name| name_sample(name)).collect();
    let chapters = Trak { samples, edits, ..Trak::new(2, b"text", boxed(b"text", &[0; 51]), 1000, 1000, 0) };
    let refers = boxed(b"tref", &boxed(b"chap", &words(&[2])));
    vec![Trak { in_trak: refers, ..Trak::video(1, 100) }, chapters]
}

#[test]
fn edit_lists_move_chapters() {
    let names = ["a", "b", "c", "d"];
    let read = |edits| read_movie(&with_chapter_track(&names, edits)).chapters;
    let seconds = |list: &[(u64, &str)]| -> Vec<(u64, String)> {
        list.iter().map(|(s, name)| (s * 1_000_000_000, (*name).to_owned())).collect()
    };
    assert_eq!(read(Vec::new()), seconds(&[(0, "a"), (1, "b"), (2, "c"), (3, "d")]));
    assert_eq!(read(vec![(2000, 2000)]), seconds(&[(0, "c"), (1, "d")]));
    assert_eq!(read(vec![(2500, 1500)])[..2], [(0, "b".to_owned()), (500_000_000, "c".to_owned())]);
    assert_eq!(read(vec![(3000, -1), (2000, 0)]), seconds(&[(3, "a"), (4, "b")]));
    // Samples of no bytes are pauses between chapters, those with an empty text are chapters.
    let mut traks = with_chapter_track(&names, Vec::new());
    traks[1].samples[1] = Vec::new();
    traks[1].samples[2] = name_sample("");
    assert_eq!(read_movie(&traks).chapters, seconds(&[(0, "a"), (2, ""), (3, "d")]));
}

#[test]
fn a_damaged_track_of_chapters_leaves_the_film() {
    let mut traks = with_chapter_track(&["a"], Vec::new());
    traks[1].samples[0] = vec![0; (1 << 18) + 1];
    let read = read_movie(&traks);
    assert_eq!((read.tracks.len(), read.chapters.len(), read.of(0).len()), (1, 0, 100));
    assert!(read.warnings.iter().any(|warning| warning.contains("chapters")), "{:?}", read.warnings);
    // Pictures of chapters are no film, and the film is no chapter of itself.
    let pictures = Trak { ..Trak::video(2, 2) };
    let refers = boxed(b"tref", &boxed(b"chap", &words(&[2, 7])));
    let read = read_movie(&[Trak { in_trak: refers, ..Trak::video(1, 3) }, pictures]);
    assert_eq!((read.tracks.len(), read.of(0).len()), (1, 3));
    assert!(read.warnings.iter().any(|warning| warning.contains("pictures or sound of chapters")));
}

/// A movie with this body of a `chpl` box.
fn with_list(version: u8, body: &[u8]) -> Read {
    let udta = boxed(b"udta", &full(b"chpl", version, 0, body));
    let file = movie(b"isom", &[Trak::video(1, 3)]);
    let file =
        rewrite(&file, &mut |kind, body| (kind == b"moov").then(|| boxed(b"moov", &[body, &udta].concat())));
    read(Memory(file)).expect("a valid movie")
}

#[test]
fn lists_of_all_shapes() {
    let entry =
        |ticks: u64, name: &str| [&ticks.to_be_bytes()[..], &[name.len() as u8], name.as_bytes()].concat();
    let two = [entry(20_000_000, "second"), entry(5, "first")].concat();
    let expected = named(&[(500, "first"), (2_000_000_000, "second")]);
    assert_eq!(with_list(1, &[&[0, 0, 0, 0, 2][..], &two].concat()).chapters, expected);
    assert_eq!(with_list(0, &[&[2][..], &two].concat()).chapters, expected);
    // A count or a length beyond the box ends the list, and so does an impossible time.
    let whole = [&[0, 0, 0, 0, 255][..], &two].concat();
    assert_eq!(with_list(1, &whole).chapters, expected);
    for end in 0..whole.len() {
        assert!(with_list(1, &whole[..end]).chapters.len() <= 1, "{end}");
    }
    for ticks in [1 << 31, 1 << 56, 1 << 57, 1 << 63, u64::MAX] {
        let list = [&[1][..], &entry(ticks, "late")].concat();
        let expected = i64::try_from(u128::from(ticks) * 100).ok().map(|ns| (ns as u64, "late".to_owned()));
        assert_eq!(with_list(0, &list).chapters, Vec::from_iter(expected), "{ticks}");
    }
}

#[test]
fn cues_before_zero_are_given_to_the_packager() {
    let cue = |text: &str| boxed(b"vttc", &boxed(b"payl", text.as_bytes()));
    let samples = ["a", "b", "c"].map(cue).to_vec();
    let text = Trak {
        samples,
        edits: vec![(3000, 1500)],
        ..Trak::new(2, b"text", boxed(b"wvtt", &[0; 8]), 1000, 1000, 0)
    };
    let read = read_movie(&[Trak::video(1, 75), text]);
    assert_eq!(read.tracks[1].kind, TrackKind::Subtitle);
    let times: Vec<_> = read.of(1).iter().map(|(packet, _)| packet.sample.pts).collect();
    assert_eq!(times, [-1500, -500, 500]);
    assert_eq!(read.warnings, Vec::<String>::new());
}
