//! A stored title gets subtitles: from a server that plays it, and by a command.

use std::fs;

use rustix::process::Signal;

use crate::cli::films::short;
use crate::cli::rig::TestDir;
use crate::cli::serving::Running;
use reel_testkit::http::exchange;

const CUE: &str = "1\n00:00:01,000 --> 00:00:02,000\nHallo\n";

/// What a server lists of a title: whether playlist and manifest name subtitles, and their files.
fn listed(server: &Running, session: &str, numbers: &[usize]) -> (bool, bool, Vec<String>) {
    let playlist = server.text(&format!("{session}/master.m3u8"));
    let manifest = server.text(&format!("{session}/manifest.mpd"));
    let files = numbers.iter().map(|track| server.text(&format!("{session}/{track}/text.vtt"))).collect();
    (playlist.contains("TYPE=SUBTITLES"), manifest.contains("text/vtt"), files)
}

fn session(server: &Running) -> String {
    let location = server.location("/watch/short/master.m3u8");
    location.strip_suffix("/master.m3u8").expect("a playlist").to_owned()
}

#[test]
fn subtitles_are_added_under_a_viewer_and_stay_after_a_restart() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    let mut server = Running::start(&dir, &["serve", "volume", "--listen", "127.0.0.1:0"]);
    let before = session(&server);
    let segment = server.get(&format!("{before}/0/1.m4s")).body;
    let post = |query: &str, body: &str| {
        let path = format!("/api/v1/titles/short/subtitles?{query}");
        let body = ("application/octet-stream", body.as_bytes());
        exchange(server.address(), "POST", &path, Some(body)).unwrap()
    };
    let refused = post("filename=short.de.srt", "a letter");
    assert_eq!(refused.head.status, 422);
    assert!(refused.text().unwrap().contains("short.de.srt: there is no cue"), "{:?}", refused.text());
    let added = post("filename=short.de.srt&label=All%20of%20it", CUE);
    assert_eq!(added.head.status, 201, "{:?}", added.text());
    assert!(added.text().unwrap().contains("All of it"));
    assert_eq!(post("filename=short.de.srt&label=All%20of%20it", CUE).head.status, 409);

    assert_eq!(listed(&server, &before, &[]), (false, false, Vec::new()), "a viewer's session stays");
    assert_eq!(server.get(&format!("{before}/0/1.m4s")).body, segment);
    let text = "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\nHallo\n".to_owned();
    let now = session(&server);
    assert_eq!(listed(&server, &now, &[2]), (true, true, vec![text.clone()]));
    assert_eq!(server.get(&format!("{now}/0/1.m4s")).body, segment, "the film is the same");
    assert_eq!(server.get("/files/short.mp4").head.status, 200);
    assert_eq!(server.signal(Signal::TERM), Some(0));

    let server = Running::start(&dir, &["serve", "volume", "--listen", "127.0.0.1:0"]);
    assert_eq!(listed(&server, &session(&server), &[2]), (true, true, vec![text]));
}

#[test]
fn a_command_adds_subtitles_or_says_why_not() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    fs::write(dir.path("x.srt"), CUE).unwrap();
    fs::write(dir.path("letter.srt"), "Dear all").unwrap();
    let add = |more: &[&str]| dir.reel(&[&["subtitles", "volume", "short"], more].concat());
    let said = add(&["x.srt", "--language", "pt-BR", "--label", "Commentary", "--forced"]).done().stderr;
    assert!(said.contains("added to short"), "{said}");
    let titles = dir.reel(&["titles", "volume", "--json"]).done().json();
    assert_eq!(titles["titles"][0]["subtitles"][0]["language"], "pt-BR", "{titles}");
    add(&["x.srt", "--language", "pt-BR", "--label", "Commentary", "--forced"])
        .refused(1, &["has subtitles in pt-BR", "another label"]);
    add(&["letter.srt"]).refused(1, &["letter.srt: there is no cue", "SubRip"]);
    add(&["x.srt", "--language", "Portuguese"]).refused(1, &["Portuguese", "write it as en"]);
    add(&["none.srt"]).refused(3, &["none.srt"]);
    dir.reel(&["subtitles", "volume", "none", "x.srt"]).refused(3, &["\"none\"", "reel titles"]);
    dir.reel(&["volume", "check", "volume"]).done();
}
