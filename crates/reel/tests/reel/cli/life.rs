//! The life of a title: ingested, listed, exported, removed.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::cli::films::{large, short, short_small, short_stream};
use crate::cli::rig::TestDir;
use crate::cli::serving::Running;
use reel_testkit::http::exchange;
use rustix::process::Signal;
use serde_json::json;

#[test]
fn a_title_is_ingested_listed_exported_and_removed() {
    let dir = TestDir::with_volume();
    let free = dir.free_bytes();
    let film = short();
    let ingest = dir.reel(&["ingest", "volume", film.to_str().unwrap(), "--name", "A Short Film"]).done();
    assert!(ingest.stderr.contains("A Short Film: title a-short-film, "), "{}", ingest.stderr);
    assert!(dir.free_bytes() < free);

    let listed = dir.reel(&["titles", "volume", "--json"]).done().json();
    let title = &listed["titles"][0];
    assert_eq!(title["id"], "a-short-film");
    assert_eq!(title["name"], "A Short Film");
    assert_eq!(title["video"][0]["width"], 640);
    assert_eq!(title["audio"].as_array().unwrap().len(), 1);
    assert!((title["duration_s"].as_f64().unwrap() - 6.0).abs() < 0.2, "{title}");
    let table = dir.reel(&["titles", "volume"]).done().stdout;
    assert!(table.starts_with("TITLE") && table.contains("640x360"), "{table}");

    dir.reel(&["export", "volume", "a-short-film"]).done();
    let exported = fs::read(dir.path("a-short-film.mp4")).unwrap();
    assert_eq!(&exported[4..8], b"ftyp");
    dir.reel(&["export", "volume", "a-short-film"])
        .refused(2, &["a-short-film.mp4 already exists", "--force"]);
    dir.reel(&["export", "volume", "a-short-film", "--force"]).done();
    assert_eq!(fs::read(dir.path("a-short-film.mp4")).unwrap(), exported);
    let streamed = dir.command(&["export", "volume", "a-short-film", "-"]).output().unwrap();
    assert_eq!(streamed.stdout, exported);

    dir.reel(&["remove", "volume", "a-short-film"]).done();
    assert!(dir.titles().is_empty());
    assert_eq!(dir.free_bytes(), free);
    dir.reel(&["volume", "check", "volume"]).done();
}

#[test]
fn an_export_names_what_it_leaves_out() {
    let dir = TestDir::with_volume();
    fs::copy(short(), dir.path("film.mp4")).unwrap();
    fs::copy(short_small(), dir.path("small.mp4")).unwrap();
    fs::write(dir.path("film.de.srt"), "1\n00:00:01,000 --> 00:00:02,000\nHallo\n").unwrap();
    dir.reel(&["ingest", "volume", "--title", "Film", "film.mp4", "small.mp4"]).done();
    let said = dir.reel(&["export", "volume", "film", "out.mp4"]).done().stderr;
    let note = said.lines().find(|line| line.contains("not in the file")).unwrap();
    assert!(note.contains("the rendition of 320x180") && note.contains("subtitles de"), "{note}");
    assert!(!note.contains("640x360"), "{note}");
    let quiet = dir.reel(&["-q", "export", "volume", "film", "again.mp4"]).done();
    assert_eq!(quiet.stderr, "");
    // There is no note if the export is complete.
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    assert!(!dir.reel(&["export", "volume", "short"]).done().stderr.contains("not in the file"));
}

#[test]
fn a_transport_stream_is_stored_and_exported_as_it_is() {
    let dir = TestDir::with_volume();
    fs::copy(short_stream(), dir.path("film.ts")).unwrap();
    dir.reel(&["ingest", "volume", "film.ts", "--form", "ts"]).done();
    let title = dir.reel(&["titles", "volume", "--json"]).done().json()["titles"][0].clone();
    let forms = title["forms"].as_array().unwrap();
    assert_eq!((&forms[0]["form"], &forms[1]["form"]), (&json!("cmaf"), &json!("ts")));
    let rate_bps = forms[1]["average_bps"].as_u64().unwrap();
    assert!((1_900_000..2_100_000).contains(&rate_bps), "{title}");
    assert!(dir.reel(&["titles", "volume"]).done().stdout.contains("cmaf+ts"));
    dir.reel(&["export", "volume", "film", "--form", "ts", "out.ts"]).done();
    assert!(fs::read(dir.path("out.ts")).unwrap() == fs::read(dir.path("film.ts")).unwrap());
    dir.reel(&["export", "volume", "film"]).done();
    assert_eq!(&fs::read(dir.path("film.mp4")).unwrap()[4..8], b"ftyp");
    dir.reel(&["volume", "check", "volume"]).done();

    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    dir.reel(&["export", "volume", "short", "--form", "ts"]).refused(1, &["no form ts", "reel form add"]);
}

#[test]
fn a_form_is_made_of_the_tracks_of_a_title() {
    let dir = TestDir::with_volume();
    let film = short();
    dir.reel(&["ingest", "volume", film.to_str().unwrap()]).done();
    let said = dir.reel(&["form", "add", "volume", "short", "ts"]).done().stderr;
    assert!(said.contains("short: form ts, ") && said.contains(" s at "), "{said}");
    assert!(said.contains("no column FEC of SMPTE ST 2022-1"), "{said}");
    assert!(dir.reel(&["titles", "volume"]).done().stdout.contains("cmaf+ts"));
    dir.reel(&["export", "volume", "short", "--form", "ts", "out.ts"]).done();
    assert_eq!(fs::read(dir.path("out.ts")).unwrap()[0], 0x47);
    dir.reel(&["form", "add", "volume", "short", "ts"]).refused(1, &["has the form ts already", "export"]);
    dir.reel(&["form", "add", "volume", "none", "ts"]).refused(3, &["\"none\"", "reel titles"]);
    dir.reel(&["volume", "check", "volume"]).done();

    let as_stream = ["ingest", "volume", film.to_str().unwrap(), "--form", "ts", "--name", "Both"];
    dir.reel(&as_stream).done();
    let titles = dir.reel(&["titles", "volume", "--json"]).done().json();
    assert_eq!(titles["titles"][0]["forms"].as_array().unwrap().len(), 2, "{titles}");
    dir.reel(&["ingest", "volume", film.to_str().unwrap(), "--name", "Later"]).done();
    let made = dir.reel(&["form", "add", "volume", "later", "ts", "--json"]).done().json();
    assert!(made["peak_bps"].as_u64() >= made["average_bps"].as_u64(), "{made}");
    assert!((made["duration_s"].as_f64().unwrap() - 7.0).abs() < 0.3, "{made}");
}

#[test]
fn a_running_server_makes_a_form() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    let mut server = Running::start(&dir, &["serve", "volume", "--listen", "127.0.0.1:0"]);
    let begun = Instant::now();
    let add = || exchange(server.address(), "POST", "/api/v1/titles/short/forms/ts", None).unwrap();
    let mut added = add();
    // On a machine whose disks are busy for seconds, the server has to ask its members first
    // whether they are still its own.
    while added.head.status == 503 && added.text().unwrap().contains("owner record could not be renewed") {
        assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", added.text());
        std::thread::sleep(Duration::from_millis(200));
        added = add();
    }
    assert_eq!(added.head.status, 202, "{:?}", added.text());
    let title = || server.text("/api/v1/titles/short");
    while !title().contains(r#""form":"ts""#) {
        assert!(begun.elapsed() < Duration::from_secs(120), "{}", server.text("/api/v1/jobs"));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(server.get("/files/short.mp4").head.status, 200);
    assert_eq!(server.signal(Signal::TERM), Some(0));
    dir.reel(&["export", "volume", "short", "--form", "ts", "out.ts"]).done();
    dir.reel(&["volume", "check", "volume"]).done();
}

#[test]
fn several_films_are_several_titles() {
    let dir = TestDir::with_volume();
    let film = short();
    let film = film.to_str().unwrap();
    let made = dir.reel(&["ingest", "volume", film, film, "--json"]).done().json();
    assert_eq!(made["titles"][0]["id"], "short");
    assert_eq!(made["titles"][1]["id"], "short-2");
    assert_eq!(dir.titles(), ["short", "short-2"]);
}

#[test]
fn a_bad_film_does_not_stop_the_others() {
    let dir = TestDir::with_volume();
    let film = short();
    fs::write(dir.path("bad.mp4"), "not a film").unwrap();
    dir.reel(&["ingest", "volume", "bad.mp4", film.to_str().unwrap()]).refused(1, &["bad.mp4"]);
    assert_eq!(dir.titles(), ["short"]);
}

#[test]
fn removing_is_all_or_none() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    dir.reel(&["remove", "volume", "short", "shorter"]).refused(3, &["\"shorter\"", "reel titles"]);
    assert_eq!(dir.titles(), ["short"]);
}

#[test]
fn a_quiet_command_prints_no_progress() {
    let dir = TestDir::with_volume();
    let done = dir.reel(&["--quiet", "ingest", "volume", short().to_str().unwrap()]).done();
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("", ""));
}

/// Waits until no process has the volume open. A killed ingest may have been starting ffmpeg, whose
/// process holds what it inherited until it runs its own program.
fn await_free(dir: &TestDir) {
    let begun = Instant::now();
    while dir.command(&["titles", "volume"]).output().unwrap().status.code() != Some(0) {
        assert!(begun.elapsed() < Duration::from_secs(120), "the volume stays in use");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_check_needs_no_volume_and_names_every_bad_file() {
    let dir = TestDir::new();
    let film = short();
    let film = film.to_str().unwrap();
    let shown = dir.reel(&["check", film]).done();
    assert!(shown.stdout.contains("picture 640x360, ") && shown.stdout.contains("sound mp4a.40.2, "));
    let json = dir.reel(&["check", "--json", film]).done().json();
    assert_eq!(json["titles"][0]["title"]["video"][0]["width"], 640);
    fs::write(dir.path("bad.mp4"), "no film").unwrap();
    let mixed = dir.reel(&["check", dir.path("bad.mp4").to_str().unwrap(), film]);
    assert!(mixed.stdout.contains("picture 640x360, "), "{}", mixed.stdout);
    mixed.refused(1, &["bad.mp4", "not an MP4"]);
    dir.reel(&["check", "--renditions", film, film]).done();
}

#[test]
fn a_killed_ingest_is_complete_or_not_there() {
    let dir = TestDir::new();
    dir.create_volume(&["--size", "600M"]);
    let free = dir.free_bytes();
    let film = large();
    for delay_ms in [5, 30, 80, 150, 250, 400] {
        let mut command = dir.command(&["ingest", "volume", film.to_str().unwrap()]);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        await_free(&dir);
        match dir.titles()[..] {
            [] => assert_eq!(dir.free_bytes(), free, "killed after {delay_ms} ms, space is missing"),
            [ref id] => {
                dir.reel(&["export", "volume", id, "whole.mp4", "--force"]).done();
                dir.reel(&["remove", "volume", id]).done();
            }
            ref more => panic!("one film became {more:?}"),
        }
        dir.reel(&["volume", "check", "volume"]).done();
    }
}
