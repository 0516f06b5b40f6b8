//! Files made by ffmpeg are ingested into a real volume and exported again.

use crate::films;
use crate::test_library;
use crate::test_library::TestLibrary;
use reel_library::{IngestError, IngestOptions, Input, LibraryError, Phase, PosterKind, Progress, Stop};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::thread;

fn named(name: &str) -> IngestOptions {
    IngestOptions { name: Some(name.to_owned()), ..IngestOptions::default() }
}

#[test]
fn an_export_decodes_like_the_ingested_file() {
    let test_library = TestLibrary::new(96 << 20);
    let library = test_library.library();
    let aac = films::H264_AAC;
    let vp9: &[&str] =
        &["-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-g", "50", "-c:a", "libopus"];
    for (name, seconds, options) in
        [("a.mp4", 9, aac), ("b.mkv", 5, aac), ("c.ts", 5, aac), ("d.webm", 3, vp9)]
    {
        let film = films::make(test_library.path(), name, seconds, options);
        let ingested =
            library.ingest(&[Input::new(&film)], &IngestOptions::default(), &mut |_| {}).expect(name);
        let out = test_library.path().join(format!("{}.out.mp4", ingested.id));
        let bytes = library
            .export(&ingested.id, &mut fs::File::create(&out).expect("made"), &mut |_, _| {})
            .expect("exported");
        assert_eq!(bytes, fs::metadata(&out).expect("there").len());
        let (before, after) = (films::frames(&film, "v:0"), films::frames(&out, "v:0"));
        assert!(before.len() > 25 * (seconds as usize - 1), "{name}");
        assert_eq!(before, after, "{name}");
        assert!(!films::frames(&out, "a:0").is_empty(), "{name}");

        let summary = library.summary(&ingested.id).expect("listed");
        assert_eq!((summary.video[0].width, summary.video[0].height), (320, 180));
        assert!((summary.video[0].frame_rate - 25.0).abs() < 0.1, "{summary:?}");
        assert!((summary.duration_s - f64::from(seconds)).abs() < 0.5, "{summary:?}");
        assert_eq!(summary.problem, None);
        let poster = library.poster(&ingested.id).expect("a poster");
        assert_eq!(poster.kind, PosterKind::Jpeg);
        assert!(poster.bytes.starts_with(&[0xff, 0xd8]));
    }
    assert_eq!(library.summaries().iter().map(|s| s.id.as_str()).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
}

#[test]
fn titles_survive_the_volume_being_opened_again() {
    let test_library = TestLibrary::new(64 << 20);
    let film =
        films::make(test_library.path(), "Ünï ../cödé.mp4".replace('/', "_").as_str(), 3, films::H264_AAC);
    let library = test_library.library();
    let stamp = reel_library::stamp_of(&film).expect("there");
    assert!(!library.knows(&stamp));
    let id = library
        .ingest(&[Input::new(&film)], &named("../../Am\u{202e}élie\0"), &mut |_| {})
        .expect("taken")
        .id;
    assert_eq!(id, "am-elie");
    assert!(library.knows(&stamp));
    let again = library.ingest(&[Input::new(&film)], &named("am elie"), &mut |_| {}).expect("taken").id;
    assert_eq!(again, "am-elie-2");
    drop(library);
    let library = test_library.library();
    assert_eq!(library.summary("am-elie").expect("there").name, "../../Am élie");
    assert!(library.knows(&stamp));
    let title = library.open("am-elie").expect("opens");
    assert!(library.opened("am-elie").is_some_and(|other| Arc::ptr_eq(&other, &title)), "read once");
    assert_eq!(title.index().tracks.len(), 2);
}

#[test]
fn sidecars_names_and_progress_are_as_expected() {
    let test_library = TestLibrary::new(64 << 20);
    let film = films::make(test_library.path(), "my_film.mp4", 5, films::H264_AAC);
    fs::write(test_library.path().join("my_film.de.forced.srt"), "1\n00:00:01,000 --> 00:00:02,000\nGrüße\n")
        .expect("written");
    fs::write(test_library.path().join("my_film.fr.srt"), "nothing in it").expect("written");
    let library = test_library.library();
    let mut reports: Vec<Progress> = Vec::new();
    let ingested = library
        .ingest(&[Input::new(&film)], &IngestOptions::default(), &mut |progress| reports.push(progress))
        .expect("taken");
    assert_eq!(ingested.id, "my-film");
    assert!(ingested.warnings.iter().any(|w| w.contains("my_film.fr.srt")), "{:?}", ingested.warnings);
    let summary = library.summary("my-film").expect("there");
    assert_eq!(summary.warnings, ingested.warnings, "they are kept");
    assert_eq!(summary.name, "my film");
    assert_eq!(summary.subtitles.len(), 1);
    assert_eq!((summary.subtitles[0].language.as_deref(), summary.subtitles[0].forced), (Some("de"), true));
    assert!(reports.windows(2).all(|pair| pair[0].done_bytes <= pair[1].done_bytes));
    let last = reports.last().expect("reports");
    assert_eq!((last.done_bytes, last.phase), (last.total_bytes, Phase::Finishing));
    assert_eq!(last.total_bytes, fs::metadata(&film).expect("there").len());
}

#[test]
fn a_late_cue_of_a_sidecar_does_not_set_the_length() {
    let test_library = TestLibrary::new(64 << 20);
    let film = films::make(test_library.path(), "sub.mp4", 3, films::H264_AAC);
    let cues = "1\n00:00:01,000 --> 00:00:02,000\nHi\n\n2\n10:00:00,000 --> 10:00:03,000\nx\n\n\
                3\n-00:00:02,000 --> -00:00:01,000\nearly\n";
    fs::write(test_library.path().join("sub.srt"), cues).expect("written");
    let library = test_library.library();
    let ingested =
        library.ingest(&[Input::new(&film)], &IngestOptions::default(), &mut |_| {}).expect("taken");
    let summary = library.summary("sub").expect("there");
    assert!((summary.duration_s - 3.0).abs() < 0.1, "{summary:?}");
    assert_eq!(summary.subtitles.len(), 1);
    for told in ["end of picture and sound", "1, from 10:00:00.000", "before the beginning are left out: 1"] {
        assert!(ingested.warnings.iter().any(|w| w.contains(told)), "{told}: {:?}", ingested.warnings);
    }
}

#[test]
fn the_default_moving_track_is_the_picture() {
    let test_library = TestLibrary::new(64 << 20);
    let library = test_library.library();
    let source = films::make(test_library.path(), "source.mp4", 3, films::H264_AAC);
    let (still, angle) = ("testsrc=size=300x400:rate=1:d=1", "testsrc=size=300x400:rate=25:d=3");
    for (name, picture, default, told) in [
        ("still.mkv", still, "-disposition:v:0 0 -disposition:v:1 default", "one still picture \"Other\""),
        ("still-default.mkv", still, "-disposition:v:0 default -disposition:v:1 0", "one still picture"),
        ("still.mp4", still, "", "one still picture"),
        ("angle.mkv", angle, "-disposition:v:0 0 -disposition:v:1 default", "(\"Other\", 300 x 400)"),
    ] {
        let arguments = format!(
            "-f lavfi -i {picture} -i {} -map 0:v -map 1:v -map 1:a -c copy -c:v:0 libx264 \
             -preset:v:0 ultrafast -metadata:s:v:0 title=Other {default}",
            source.display()
        );
        let film = films::compose(test_library.path(), name, &arguments);
        let ingested =
            library.ingest(&[Input::new(&film)], &IngestOptions::default(), &mut |_| {}).expect(name);
        let summary = library.summary(&ingested.id).expect("listed");
        let sizes: Vec<_> = summary.video.iter().map(|video| (video.width, video.height)).collect();
        assert_eq!(sizes, [(320, 180)], "{name}");
        assert!((summary.duration_s - 3.0).abs() < 0.1, "{name}: {summary:?}");
        assert!(ingested.warnings.iter().any(|w| w.contains(told)), "{name}: {:?}", ingested.warnings);
    }
}

#[test]
fn subtitles_that_are_not_beside_the_film_can_be_given() {
    let test_library = TestLibrary::new(64 << 20);
    let film = films::make(test_library.path(), "film.mp4", 3, films::H264_AAC);
    let spooled = test_library.path().join("17");
    fs::write(&spooled, "1\n00:00:01,000 --> 00:00:02,000\nBonjour\n").expect("written");
    let given = Input { path: spooled, file_name: Some("film.fr.forced.srt".to_owned()) };
    let library = test_library.library();
    let options = IngestOptions { sidecars: vec![given], no_sidecars: true, ..named("Film") };
    let id = library.ingest(&[Input::new(&film)], &options, &mut |_| {}).expect("taken").id;
    let subtitles = library.summary(&id).expect("listed").subtitles.clone();
    let subtitles: Vec<_> = subtitles.iter().map(|track| (track.language.as_deref(), track.forced)).collect();
    assert_eq!(subtitles, [(Some("fr"), true)]);
}

#[test]
fn a_title_is_renamed_everywhere_and_stays_the_same() {
    let test_library = TestLibrary::new(64 << 20);
    let sound = films::make(test_library.path(), "song.m4a", 3, &["-vn", "-c:a", "aac"]);
    let library = test_library.library();
    let id = library.ingest(&[Input::new(&sound)], &named("Song"), &mut |_| {}).expect("taken").id;
    let before = library.summary(&id).expect("listed");
    let (_, mark) = library.poster_mark(&id).expect("a poster");
    library.rename(&id, " Another\u{202e} <song> ").expect("renamed");
    let after = library.summary(&id).expect("listed");
    let known = reel_library::TitleSummary { name: "Another <song>".to_owned(), ..(*before).clone() };
    assert_eq!(*after, known);
    let card = String::from_utf8(library.poster(&id).expect("a poster").bytes).expect("text");
    assert!(card.contains("Another") && !card.contains(">Song<"), "{card}");
    assert_ne!(library.poster_mark(&id).expect("a poster").1, mark, "clients ask for it again");
    assert!(library.open(&id).is_ok());
    assert!(library.rename("none", "x").is_err());
}

#[test]
fn a_sidecar_in_a_code_page_is_read_and_the_guess_is_named() {
    let test_library = TestLibrary::new(64 << 20);
    let film = films::make(test_library.path(), "enc.mp4", 5, films::H264_AAC);
    let cues =
        b"1\n00:00:01,000 --> 00:00:02,000\nIt\x92s 5 \x80\x85\n2\n00:00:03,000 --> 00:00:04,000\ntwo\n";
    fs::write(test_library.path().join("enc.srt"), cues).expect("written");
    let sidecar = reel_library::read_sidecar(&test_library.path().join("enc.srt"), "enc.srt", "enc.mp4")
        .expect("readable");
    let texts: Vec<&str> = sidecar.cues.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["It’s 5 €…", "two"]);
    let library = test_library.library();
    let ingested =
        library.ingest(&[Input::new(&film)], &IngestOptions::default(), &mut |_| {}).expect("taken");
    assert!(ingested.warnings.iter().any(|w| w.contains("read as windows-1252")), "{:?}", ingested.warnings);
}

#[test]
fn renditions_become_a_ladder_or_are_refused() {
    let test_library = TestLibrary::new(96 << 20);
    let library = test_library.library();
    let small: Vec<&str> = films::H264_AAC.iter().copied().chain(["-vf", "scale=160:90"]).collect();
    let odd: Vec<&str> = films::H264_AAC
        .iter()
        .copied()
        .chain(["-g", "37", "-keyint_min", "37", "-sc_threshold", "0"])
        .collect();
    let large = films::make(test_library.path(), "large.mp4", 9, films::H264_AAC);
    let small = films::make(test_library.path(), "small.mp4", 9, &small);
    let odd = films::make(test_library.path(), "odd.mp4", 9, &odd);
    let song = films::make(test_library.path(), "song.mp4", 9, &["-map", "1:a", "-c:a", "aac"]);
    let inputs = |files: &[&PathBuf]| files.iter().map(|file| Input::new(*file)).collect::<Vec<_>>();

    let free = library.volume().free_bytes();
    for (files, word) in [(&[&large, &odd], "segment"), (&[&large, &song], "no video")] {
        let error = library.ingest(&inputs(files), &named("film"), &mut |_| {}).expect_err("refused");
        assert!(matches!(&error, IngestError::Ladder { .. }) && error.to_string().contains(word), "{error}");
        assert_eq!(library.volume().free_bytes(), free, "nothing remains of it");
    }

    let ingested = library.ingest(&inputs(&[&small, &large]), &named("film"), &mut |_| {}).expect("taken");
    assert!(
        ingested.warnings.iter().any(|w| w.contains("large.mp4") && w.contains("audio")),
        "{:?}",
        ingested.warnings
    );
    let summary = library.summary("film").expect("there");
    assert_eq!(summary.video.iter().map(|v| v.height).collect::<Vec<_>>(), [180, 90], "best first");
    assert_eq!(summary.audio.len(), 1);
    let out = test_library.path().join("out.mp4");
    library.export("film", &mut fs::File::create(&out).expect("made"), &mut |_, _| {}).expect("exported");
    assert_eq!(films::frames(&out, "v:0"), films::frames(&large, "v:0"), "the best one is exported");
}

#[test]
fn bad_files_are_refused_and_leave_nothing() {
    let test_library = TestLibrary::new(64 << 20);
    let library = test_library.library();
    let film = films::make(test_library.path(), "film.mp4", 6, films::H264_AAC);
    let bytes = fs::read(&film).expect("read");
    let write = |name: &str, bytes: &[u8]| {
        let path = test_library.path().join(name);
        fs::write(&path, bytes).expect("written");
        path
    };
    let noise: Vec<u8> = (0..100_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let free = library.volume().free_bytes();
    let cases: [(PathBuf, &str); 5] = [
        (write("empty.mp4", b""), "empty"),
        (write("noise.mp4", &noise), "not an MP4"),
        (write("half.mp4", &bytes[..bytes.len() / 2]), "half.mp4"),
        (test_library.path().join("none.mp4"), "cannot open"),
        (test_library.path().to_owned(), "cannot open"),
    ];
    for (path, word) in &cases {
        let error =
            library.ingest(&[Input::new(path)], &IngestOptions::default(), &mut |_| {}).expect_err("refused");
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(library.volume().free_bytes(), free, "{error}");
        assert!(library.summaries().is_empty());
    }
    assert!(matches!(library.ingest(&[], &IngestOptions::default(), &mut |_| {}), Err(IngestError::NoInput)));
    let many = vec![Input::new(&film); 17];
    assert!(matches!(
        library.ingest(&many, &IngestOptions::default(), &mut |_| {}),
        Err(IngestError::TooManyInputs { files: 17 })
    ));
}

#[test]
fn a_full_volume_is_reported_before_anything_is_written() {
    let test_library = TestLibrary::new(64 << 20);
    let library = test_library.library();
    let large = test_library.path().join("large.mp4");
    let film = films::make(test_library.path(), "film.mp4", 3, films::H264_AAC);
    fs::copy(&film, &large).expect("copied");
    // Padding after the last box: the file is large, and still valid.
    let bytes = 80_000_000 - fs::metadata(&large).expect("there").len();
    append_free_box(&large, bytes);
    let mut phases = Vec::new();
    let error = library
        .ingest(&[Input::new(&large)], &IngestOptions::default(), &mut |progress| phases.push(progress.phase))
        .expect_err("no space");
    assert!(matches!(error, IngestError::NoSpace { .. }), "{error}");
    assert!(!phases.contains(&Phase::Storing));
    // Titles until the volume is full: the last one fails, and all the others are complete.
    let mut titles = 0;
    let error = loop {
        match library.ingest(&[Input::new(&film)], &IngestOptions::default(), &mut |_| {}) {
            Ok(_) => titles += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, IngestError::NoSpace { .. }), "{error}");
    assert!(titles > 2);
    assert_eq!(library.summaries().len(), titles);
    for summary in library.summaries() {
        library.remove(&summary.id).expect("removed");
    }
    assert!(
        library.ingest(&[Input::new(&film)], &IngestOptions::default(), &mut |_| {}).is_ok(),
        "there is space again"
    );
}

#[test]
fn a_stopped_ingest_leaves_nothing() {
    let test_library = TestLibrary::new(64 << 20);
    let library = test_library.library();
    let film = films::make(test_library.path(), "film.mp4", 6, films::H264_AAC);
    let free = library.volume().free_bytes();
    for at in [Phase::Storing, Phase::Finishing] {
        let options = IngestOptions::default();
        let stop = options.stop.clone();
        let result = library.ingest(&[Input::new(&film)], &options, &mut |progress| {
            if progress.phase == at {
                stop.stop();
            }
        });
        assert!(matches!(result, Err(IngestError::Cancelled)), "{result:?}");
        assert_eq!(library.volume().free_bytes(), free);
    }
}

#[test]
fn a_removed_title_is_freed_when_its_last_holder_drops_it() {
    let test_library = TestLibrary::new(64 << 20);
    let library = test_library.library();
    let film = films::make(test_library.path(), "film.mp4", 3, films::H264_AAC);
    let free = library.volume().free_bytes();
    let id = library.ingest(&[Input::new(&film)], &IngestOptions::default(), &mut |_| {}).expect("taken").id;
    library.summaries();
    let playing = library.open(&id).expect("opens");
    library.remove(&id).expect("removed");
    assert!(matches!(library.open(&id), Err(LibraryError::NoSuchTitle { .. })));
    assert!(matches!(library.remove(&id), Err(LibraryError::NoSuchTitle { .. })));
    assert!(library.volume().free_bytes() < free, "its bytes are still being played");
    drop(playing);
    assert_eq!(library.volume().free_bytes(), free);
}

#[test]
fn a_film_takes_the_place_of_its_earlier_title() {
    let test_library = TestLibrary::new(64 << 20);
    let library = test_library.library();
    let film = |seconds| [Input::new(films::make(test_library.path(), "a.ts", seconds, films::H264_AAC))];
    let first = library.ingest(&film(2), &named("A Name"), &mut |_| {}).expect("taken");
    let before = library.open(&first.id).expect("opened");
    let over = IngestOptions { replaces: Some(first.id.clone()), ..IngestOptions::default() };
    let second = library.ingest(&film(5), &over, &mut |_| {}).expect("taken");
    assert_eq!(second.id, first.id);
    let summaries = library.summaries();
    assert_eq!((summaries.len(), &summaries[0].name[..]), (1, "A Name"));
    assert!((summaries[0].duration_s - 5.0).abs() < 0.5, "{summaries:?}");
    assert_ne!(library.open(&first.id).expect("opened").stamp(), before.stamp());
    // The title was removed meanwhile.
    library.remove(&first.id).expect("removed");
    let third = library.ingest(&film(3), &over, &mut |_| {}).expect("taken");
    assert_eq!((third.id.as_str(), library.summaries().len()), ("a", 1));
}

#[test]
fn a_check_says_what_an_ingest_stores_and_leaves_out() {
    let test_library = TestLibrary::new(64 << 20);
    let library = test_library.library();
    let film = films::make(test_library.path(), "a film.mkv", 4, films::H264_AAC);
    fs::write(test_library.path().join("a film.de.srt"), "no cue").expect("written");
    let inputs = [Input::new(&film)];
    let free_bytes = library.volume().free_bytes();
    let mut read_bytes = 0;
    let checked =
        reel_library::check(&inputs, &IngestOptions::default(), &mut |at| read_bytes = at.done_bytes)
            .expect("it can be ingested");
    assert_eq!(read_bytes, fs::metadata(&film).expect("there").len(), "to its end");
    assert_eq!((library.volume().free_bytes(), library.summaries().len()), (free_bytes, 0));
    let ingested = library.ingest(&inputs, &IngestOptions::default(), &mut |_| {}).expect("taken");
    assert_eq!((&checked.title.id, &checked.warnings), (&ingested.id, &ingested.warnings));
    assert!(checked.warnings[0].contains("a film.de.srt"), "{:?}", checked.warnings);
    let stored = library.summary(&ingested.id).expect("listed");
    assert!(checked.title.bytes > 0 && checked.title.bytes < stored.bytes);
    let known = reel_library::TitleSummary {
        added_unix_s: stored.added_unix_s,
        bytes: stored.bytes,
        forms: stored.forms.clone(),
        plain_file: stored.plain_file.clone(),
        stamp: stored.stamp.clone(),
        poster: stored.poster,
        ..checked.title
    };
    assert_eq!(known, *stored);
    let bad = test_library.path().join("bad.mp4");
    fs::write(&bad, "no film").expect("written");
    let refused = reel_library::check(&[Input::new(bad)], &IngestOptions::default(), &mut |_| {});
    assert!(matches!(refused, Err(IngestError::Media { .. })));
}

#[test]
fn a_title_opened_by_many_at_once_is_open_once() {
    let test_library = TestLibrary::new(64 << 20);
    let film = films::make(test_library.path(), "film.mp4", 3, films::H264_AAC);
    let id =
        test_library.library().ingest(&[Input::new(&film)], &named("Film"), &mut |_| {}).expect("taken").id;
    let library = test_library.library();
    let start = Barrier::new(8);
    let open = || {
        start.wait();
        library.open(&id).expect("opened")
    };
    let titles: Vec<_> = thread::scope(|scope| {
        let openers: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        openers.into_iter().map(|opener| opener.join().expect("no panic")).collect()
    });
    assert!(titles.iter().all(|title| Arc::ptr_eq(title, &titles[0])));
}

#[test]
fn a_killed_ingest_leaves_nothing() {
    if let Ok(volume_dir) = std::env::var("REEL_TEST_VOLUME") {
        ingest_and_die(Path::new(&volume_dir));
    }
    let test_library = TestLibrary::new(64 << 20);
    let film = films::make(test_library.path(), "film.mp4", 6, films::H264_AAC);
    let free = test_library.library().volume().free_bytes();
    // Runs this test again as a child, which ingests and kills itself on the way.
    for phase in ["Storing", "Finishing"] {
        let status = std::process::Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "ingest::a_killed_ingest_leaves_nothing", "--nocapture"])
            .env("REEL_TEST_VOLUME", test_library.volume_dir())
            .env("REEL_TEST_FILM", &film)
            .env("REEL_TEST_PHASE", phase)
            .stdout(std::process::Stdio::null())
            .status()
            .expect("runs");
        assert_eq!(status.signal(), Some(9), "killed while {phase}, and not failed otherwise");
        let library = test_library.library();
        assert!(library.summaries().is_empty());
        assert_eq!(library.volume().free_bytes(), free, "killed while {phase}");
    }
}

/// Ends by its own signal, or by a panic, which the parent test distinguishes.
fn ingest_and_die(volume_dir: &Path) -> ! {
    let var = |name: &str| std::env::var(name).expect("set by the test that runs this");
    let library = test_library::open(volume_dir);
    let (film, phase) = (var("REEL_TEST_FILM"), var("REEL_TEST_PHASE"));
    let mut reports = 0;
    let result = library.ingest(&[Input::new(film)], &IngestOptions::default(), &mut |progress| {
        if format!("{:?}", progress.phase) == phase {
            reports += 1;
            // The first report of a phase comes before its work; the second report of storing comes
            // after all of it.
            if phase == "Finishing" || reports == 2 {
                let _ =
                    std::process::Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
            }
        }
    });
    panic!("the process survived: {result:?}");
}

fn append_free_box(path: &Path, bytes: u64) {
    use std::io::Write;
    let mut file = fs::OpenOptions::new().append(true).open(path).expect("opened");
    file.write_all(&(bytes as u32).to_be_bytes()).expect("written");
    file.write_all(b"free").expect("written");
    let at = file.metadata().expect("there").len();
    file.set_len(at + bytes - 8).expect("grown");
}

/// The mean red, green and blue of a picture.
fn mean_colour(dir: &Path, picture: &[u8]) -> [u8; 3] {
    let path = dir.join("poster.jpg");
    fs::write(&path, picture).expect("written");
    let output = std::process::Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-i"])
        .arg(&path)
        .args(["-vf", "scale=1:1:flags=area,format=rgb24", "-f", "rawvideo", "-"])
        .output()
        .expect("ffmpeg is installed");
    output.stdout.try_into().expect("one pixel")
}

#[test]
fn a_cover_becomes_the_poster() {
    let test_library = TestLibrary::new(96 << 20);
    let (library, dir) = (test_library.library(), test_library.path());
    let red = films::compose(dir, "cover.png", "-f lavfi -i color=c=red:size=300x450 -frames:v 1");
    let red = red.display();
    let blue = "-f lavfi -i color=c=blue:size=320x180:rate=25:duration=2";
    let x264 = "libx264 -preset ultrafast -threads 1 -pix_fmt yuv420p";
    let sound = "-f lavfi -i sine=duration=2";
    let films = [
        ("a.mkv", format!("{blue} -c:v {x264} -attach {red} -metadata:s:t:0 mimetype=image/png")),
        (
            "b.mp4",
            format!("{blue} -i {red} -map 0 -map 1 -c:v:0 {x264} -c:v:1 copy -disposition:v:1 attached_pic"),
        ),
        ("c.m4a", format!("{sound} -i {red} -map 0 -map 1 -c:a aac -c:v copy -disposition:v:0 attached_pic")),
        ("d.mkv", format!("-i {red} {blue} -map 0 -map 1 -c:v {x264}")),
        ("e.mov", format!("-i {red} {blue} -map 1 -map 0 -c:v:0 {x264} -c:v:1 png")),
    ];
    for (name, arguments) in films {
        let film = films::compose(dir, name, &arguments);
        let ingested = library.ingest(&[Input::new(&film)], &IngestOptions::default(), &mut |_| {});
        let ingested = ingested.expect(name);
        let poster = library.poster(&ingested.id).expect("a poster");
        assert_eq!(poster.kind, PosterKind::Jpeg, "{name}");
        let [r, g, b] = mean_colour(dir, &poster.bytes);
        assert!(r > 200 && g < 50 && b < 50, "{name}: {r} {g} {b}, {:?}", ingested.warnings);
    }
}

#[test]
fn a_cover_that_cannot_be_decoded_leaves_the_frame() {
    let test_library = TestLibrary::new(64 << 20);
    let (library, dir) = (test_library.library(), test_library.path());
    let broken = dir.join("cover.jpg");
    fs::write(&broken, [b"\xff\xd8\xff".as_slice(), &[0x5a; 5000]].concat()).expect("written");
    let blue = "-f lavfi -i color=c=blue:size=320x180:rate=25:duration=2";
    let arguments = format!(
        "{blue} -c:v libx264 -preset ultrafast -threads 1 -pix_fmt yuv420p -attach {} -metadata:s:t:0 mimetype=image/jpeg",
        broken.display()
    );
    let film = films::compose(dir, "a.mkv", &arguments);
    let ingested =
        library.ingest(&[Input::new(&film)], &IngestOptions::default(), &mut |_| {}).expect("taken");
    assert!(ingested.warnings.iter().any(|w| w.contains("cover is not used")), "{:?}", ingested.warnings);
    let [r, g, b] = mean_colour(dir, &library.poster(&ingested.id).expect("a poster").bytes);
    assert!(r < 50 && g < 50 && b > 200, "{r} {g} {b}");
}

#[test]
fn chapters_are_listed_up_to_the_end() {
    let test_library = TestLibrary::new(64 << 20);
    let (library, dir) = (test_library.library(), test_library.path());
    let chapter = |start: u32, title: &str| {
        format!("[CHAPTER]\nTIMEBASE=1/1000\nSTART={start}\nEND={}\ntitle={title}\n", start + 500)
    };
    let list = [chapter(0, "One"), chapter(500, "Two"), chapter(9000, "Late")].concat();
    fs::write(dir.join("list.txt"), format!(";FFMETADATA1\n{list}")).expect("written");
    for name in ["a.mkv", "b.mp4"] {
        let arguments = format!(
            "-f lavfi -i testsrc2=size=64x64:rate=25:duration=2 -f ffmetadata -i {} -map_chapters 1 -c:v libx264 -threads 1",
            dir.join("list.txt").display()
        );
        let film = films::compose(dir, name, &arguments);
        let ingested =
            library.ingest(&[Input::new(&film)], &IngestOptions::default(), &mut |_| {}).expect(name);
        let chapters = &library.summary(&ingested.id).expect("listed").chapters;
        let listed: Vec<_> = chapters.iter().map(|c| (c.start_ns, c.name.as_str())).collect();
        assert_eq!(listed, [(0, "One"), (500_000_000, "Two")], "{name}");
        let told = "chapters that begin after the end (00:00:02.000) are left out: 1";
        assert_eq!(ingested.warnings, [told], "{name}");
    }
}

#[test]
fn a_file_that_is_not_wanted_is_not_opened() {
    let test_library = TestLibrary::new(64 << 20);
    let film = films::make(test_library.path(), "a.mp4", 2, films::H264_AAC);
    let stop = Stop::default();
    reel_library::probe(&Input::new(&film), &stop).expect("a film");
    stop.stop();
    let probed = reel_library::probe(&Input::new(&film), &stop);
    assert!(matches!(probed, Err(IngestError::Cancelled)), "{probed:?}");
}
