//! Subtitles are added to stored titles.

use crate::films;
use crate::test_library::TestLibrary;
use reel_library::{IngestOptions, Input, Library, LibraryError, SubtitleError, SubtitleFile};
use reel_media::TrackKind;
use reel_qos::Class;
use std::fs;
use std::io::Read;

const CUE: &str = "1\n00:00:01,000 --> 00:00:02,000\nGrüße\n";

fn file(name: &str, content: impl Into<Vec<u8>>) -> SubtitleFile {
    SubtitleFile { file_name: name.to_owned(), bytes: content.into(), ..SubtitleFile::default() }
}

/// A library with the title `film` of five seconds.
fn with_film(test_library: &TestLibrary) -> Library {
    let library = test_library.library();
    let film = films::make(test_library.path(), "film.mp4", 5, films::H264_AAC);
    library.ingest(&[Input::new(&film)], &IngestOptions::default(), &mut |_| {}).expect("taken");
    library
}

/// The stored file of the last track.
fn last_track(library: &Library) -> String {
    let title = library.open("film").expect("opens");
    let track = title.index().tracks.last().expect("has tracks");
    assert_eq!(track.track.kind, TrackKind::Subtitle);
    let map = title.track_map(track.object).expect("has its bytes").clone();
    let mut text = String::new();
    library.volume().reader(map, 0..track.bytes, Class::INTERACTIVE).read_to_string(&mut text).expect("text");
    text
}

#[test]
fn a_stored_title_gets_subtitles_and_keeps_them() {
    let test_library = TestLibrary::new(64 << 20);
    let library = with_film(&test_library);
    let played = library.open("film").expect("opens");
    let before = library.summary("film").expect("listed");
    let added = library.add_subtitles("film", &file("film.de.forced.srt", CUE)).expect("added");
    assert_eq!(added, Vec::<String>::new());
    let given = SubtitleFile {
        language: Some("pt_BR".to_owned()),
        label: Some("Commentary \u{202e}".to_owned()),
        ..file("other.vtt", "WEBVTT\n\n00:02.000 --> 00:09.000\nOi\n\n10:00:00.000 --> 10:00:01.000\nlate\n")
    };
    let added = library.add_subtitles("film", &given).expect("added");
    assert!(added.len() == 1 && added[0].starts_with("cues that begin after the end"), "{added:?}");
    assert_eq!(played.index().tracks.len(), 2, "who plays it continues with what it had");

    let check = |library: &Library| {
        let now = library.summary("film").expect("listed");
        let listed: Vec<_> =
            now.subtitles.iter().map(|s| (s.track, s.language.as_deref(), s.forced)).collect();
        assert_eq!(listed, [(2, Some("de"), true), (3, Some("pt-BR"), false)]);
        assert_eq!(now.subtitles[1].name.as_deref(), Some("Commentary"));
        assert_eq!((&now.video, &now.audio), (&before.video, &before.audio));
        assert_eq!((now.duration_s, now.added_unix_s), (before.duration_s, before.added_unix_s));
        assert_eq!(now.warnings, [format!("other.vtt: {}", added[0])]);
        let text = last_track(library);
        assert!(text.starts_with("WEBVTT\n\n00:00:02.000 --> 00:00:0") && text.ends_with("\nOi\n"), "{text}");
    };
    check(&library);
    drop((played, library));
    let library = test_library.library();
    check(&library);
    let report = library.volume().check(&mut |_| true);
    assert!(report.complete && report.titles.is_empty(), "{report:?}");
}

#[test]
fn what_cannot_be_added_is_refused_in_words_and_changes_nothing() {
    let test_library = TestLibrary::new(64 << 20);
    let library = with_film(&test_library);
    library.add_subtitles("film", &file("film.de.srt", CUE)).expect("added");
    let (before, free) = (library.record("film").expect("there"), library.volume().free_bytes());
    let utf16: Vec<u8> = CUE.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let late = CUE.replace("00:00:0", "01:00:0");
    let language =
        |language: &str| SubtitleFile { language: Some(language.to_owned()), ..file("x.srt", CUE) };
    for (file, told) in [
        (file("film.srt", "no cues"), "film.srt: there is no cue in the file; SubRip (.srt), WebVTT"),
        (file("film.srt", fs::read(test_library.path().join("film.mp4")).expect("read")), "it is no text"),
        (file("film.srt", utf16), "UTF-16 without a byte order mark; save subtitles as UTF-8"),
        (file("film.srt", late), "film.srt: cues that begin after the end of picture and sound (00:00:05."),
        (file("film.srt", vec![b'x'; (8 << 20) + 1]), "larger than 8 MiB"),
        (file("film.de.srt", CUE), "the title has subtitles in de and without a label already"),
        (language("DE"), "in DE and without a label already; give these another label"),
        (language("english"), "\"english\" is no language; write it as en"),
    ] {
        let refused = library.add_subtitles("film", &file).expect_err(told).to_string();
        assert!(refused.contains(told), "{refused}");
    }
    let none = library.add_subtitles("none", &file("none.srt", CUE));
    assert!(matches!(none, Err(SubtitleError::Title(LibraryError::NoSuchTitle { .. }))));
    assert_eq!((library.record("film").expect("there"), library.volume().free_bytes()), (before, free));
}
