//! The life of a title: ingested, listed, exported, removed.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use crate::cli::films::{large, short, short_small};
use crate::cli::rig::Place;

#[test]
fn a_title_is_ingested_listed_exported_and_removed() {
    let place = Place::with_volume();
    let free = place.free_bytes();
    let film = short();
    let ingest = place.reel(&["ingest", "volume", film.to_str().unwrap(), "--name", "A Short Film"]).done();
    assert!(ingest.stderr.contains("A Short Film: title a-short-film, "), "{}", ingest.stderr);
    assert!(place.free_bytes() < free);

    let listed = place.reel(&["titles", "volume", "--json"]).done().json();
    let title = &listed["titles"][0];
    assert_eq!(title["id"], "a-short-film");
    assert_eq!(title["name"], "A Short Film");
    assert_eq!(title["video"][0]["width"], 640);
    assert_eq!(title["audio"].as_array().unwrap().len(), 1);
    assert!((title["duration_s"].as_f64().unwrap() - 6.0).abs() < 0.2, "{title}");
    let table = place.reel(&["titles", "volume"]).done().stdout;
    assert!(table.starts_with("TITLE") && table.contains("640x360"), "{table}");

    place.reel(&["export", "volume", "a-short-film"]).done();
    let exported = fs::read(place.path("a-short-film.mp4")).unwrap();
    assert_eq!(&exported[4..8], b"ftyp");
    place
        .reel(&["export", "volume", "a-short-film"])
        .refused(2, &["a-short-film.mp4 already exists", "--force"]);
    place.reel(&["export", "volume", "a-short-film", "--force"]).done();
    assert_eq!(fs::read(place.path("a-short-film.mp4")).unwrap(), exported);
    let streamed = place.command(&["export", "volume", "a-short-film", "-"]).output().unwrap();
    assert_eq!(streamed.stdout, exported);

    place.reel(&["remove", "volume", "a-short-film"]).done();
    assert!(place.titles().is_empty());
    assert_eq!(place.free_bytes(), free);
    place.reel(&["volume", "check", "volume"]).done();
}

#[test]
fn an_export_names_what_it_leaves_out() {
    let place = Place::with_volume();
    fs::copy(short(), place.path("film.mp4")).unwrap();
    fs::copy(short_small(), place.path("small.mp4")).unwrap();
    fs::write(place.path("film.de.srt"), "1\n00:00:01,000 --> 00:00:02,000\nHallo\n").unwrap();
    place.reel(&["ingest", "volume", "--title", "Film", "film.mp4", "small.mp4"]).done();
    let said = place.reel(&["export", "volume", "film", "out.mp4"]).done().stderr;
    let note = said.lines().find(|line| line.contains("not in the file")).unwrap();
    assert!(note.contains("the rendition of 320x180") && note.contains("subtitles de"), "{note}");
    assert!(!note.contains("640x360"), "{note}");
    let quiet = place.reel(&["-q", "export", "volume", "film", "again.mp4"]).done();
    assert_eq!(quiet.stderr, "");
    // There is no note if the export is complete.
    place.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    assert!(!place.reel(&["export", "volume", "short"]).done().stderr.contains("not in the file"));
}

#[test]
fn several_films_are_several_titles() {
    let place = Place::with_volume();
    let film = short();
    let film = film.to_str().unwrap();
    let made = place.reel(&["ingest", "volume", film, film, "--json"]).done().json();
    assert_eq!(made["titles"][0]["id"], "short");
    assert_eq!(made["titles"][1]["id"], "short-2");
    assert_eq!(place.titles(), ["short", "short-2"]);
}

#[test]
fn a_bad_film_does_not_stop_the_others() {
    let place = Place::with_volume();
    let film = short();
    fs::write(place.path("bad.mp4"), "not a film").unwrap();
    place.reel(&["ingest", "volume", "bad.mp4", film.to_str().unwrap()]).refused(1, &["bad.mp4"]);
    assert_eq!(place.titles(), ["short"]);
}

#[test]
fn removing_is_all_or_none() {
    let place = Place::with_volume();
    place.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    place.reel(&["remove", "volume", "short", "shorter"]).refused(3, &["\"shorter\"", "reel titles"]);
    assert_eq!(place.titles(), ["short"]);
}

#[test]
fn a_quiet_command_prints_no_progress() {
    let place = Place::with_volume();
    let done = place.reel(&["--quiet", "ingest", "volume", short().to_str().unwrap()]).done();
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("", ""));
}

#[test]
fn a_killed_ingest_is_complete_or_not_there() {
    let place = Place::new();
    place.reel(&["volume", "create", "volume", "--size", "600M"]).done();
    let free = place.free_bytes();
    let film = large();
    for delay_ms in [5, 30, 80, 150, 250, 400] {
        let mut command = place.command(&["ingest", "volume", film.to_str().unwrap()]);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        match place.titles()[..] {
            [] => assert_eq!(place.free_bytes(), free, "killed after {delay_ms} ms, space is missing"),
            [ref id] => {
                place.reel(&["export", "volume", id, "whole.mp4", "--force"]).done();
                place.reel(&["remove", "volume", id]).done();
            }
            ref more => panic!("one film became {more:?}"),
        }
        place.reel(&["volume", "check", "volume"]).done();
    }
}
