//! curl and ffmpeg as scanners, downloaders and players that jump: what their sessions hold.

use crate::foreign::curl::{effective_url, get};
use crate::foreign::rig::{cache_dir, outcome, run, start, volume};
use crate::kept::kept;
use reel_compare::Server;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Seconds of the film, which has a segment for each four of them.
const FILM_S: usize = 64;

/// A server with one film of 1 Mb/s and these lines in its configuration.
fn serve(configuration: &str) -> (TempDir, Server) {
    let dir = tempfile::tempdir_in(cache_dir()).unwrap();
    let film = dir.path().join("film.mp4");
    fs::copy(kept("steady.mp4", make), &film).unwrap();
    let config = dir.path().join("reel.toml");
    fs::write(&config, configuration).unwrap();
    let server = start(&volume(dir.path(), &[film]), &["--config", config.to_str().unwrap()]);
    (dir, server)
}

fn make(path: &Path) {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args("-nostdin -loglevel error -y -f lavfi -i testsrc2=size=320x180:rate=25".split(' '));
    ffmpeg.args("-f lavfi -i sine=440:sample_rate=48000 -c:v libx264 -preset ultrafast -g 100".split(' '));
    ffmpeg.args("-keyint_min 100 -b:v 900k -minrate 900k -maxrate 900k -bufsize 900k -c:a aac".split(' '));
    run(ffmpeg.args(["-nal-hrd", "cbr", "-t", &FILM_S.to_string()]).arg(path));
}

/// The status of a request of curl, without its redirects.
fn status(arguments: &[&str]) -> String {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--max-time", "60", "--output", "/dev/null", "--write-out", "%{http_code} "]);
    String::from_utf8(outcome(curl.args(arguments)).stdout).unwrap().trim().to_owned()
}

/// Sessions with reservations.
fn reserved(server: &Server) -> u64 {
    let dashboard: serde_json::Value =
        serde_json::from_str(&get(&format!("{}/api/v1/dashboard", server.url))).unwrap();
    dashboard["sessions_reserved"].as_u64().unwrap()
}

/// A library scanner asks for the head of everything.
#[test]
fn seventy_heads_of_curl_reserve_nothing() {
    let (_dir, server) = serve("");
    let url = format!("{}/watch/film/film.mp4", server.url);
    let playlist = format!("{}/watch/film/master.m3u8", server.url);
    for of in [&url, &playlist] {
        let mut arguments = vec!["--head"];
        // Each address has an output of its own.
        (0..70).for_each(|_| arguments.extend(["--output", "/dev/null", of]));
        let statuses = status(&arguments);
        assert_eq!(statuses, vec!["200"; 70].join(" "), "{of}");
    }
    assert_eq!(reserved(&server), 0);
    assert_eq!(status(&[&url]), "307", "there is room for a viewer");
    assert_eq!(reserved(&server), 1);
}

/// ffmpeg takes a film of a minute in a second; what was sent needs nothing any more.
#[test]
fn a_film_that_ffmpeg_has_fetched_whole_holds_nothing() {
    let (_dir, server) = serve("");
    for file in ["master.m3u8", "manifest.mpd", "film.mp4"] {
        let url = effective_url(&format!("{}/watch/film/{file}", server.url));
        assert!(reserved(&server) > 0, "{file}");
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-nostdin", "-loglevel", "error", "-i", &url, "-map", "0", "-c", "copy"]);
        run(ffmpeg.args(["-f", "null", "-"]));
        let fetched = Instant::now();
        while reserved(&server) > 0 {
            assert!(fetched.elapsed().as_secs() < FILM_S as u64 / 2, "{file} holds its reservation");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// A viewer who jumps about on a full server, sixteen times as fast as the film.
#[test]
fn a_client_that_jumps_is_sent_its_own_segments_by_a_full_server() {
    let (_dir, server) = serve("[promise]\nnetwork_bps = \"8M\"\nclient_share_permille = 1000\n");
    let watch = format!("{}/watch/film/master.m3u8", server.url);
    let master = effective_url(&watch);
    let mut others = 0;
    while status(&[&watch]) == "307" {
        others += 1;
        assert!(others < 40, "it is never full");
    }
    assert!(others > 1, "others watch");
    let session = master.rsplit_once('/').unwrap().0;
    let (segments, mut refused) = (FILM_S / 4, 0);
    for request in 0..48_usize {
        let segment = 1 + request * 7 % segments;
        let track = request % 2;
        let got = status(&["--fail", &format!("{session}/{track}/{segment}.m4s")]);
        assert_eq!(got, "200", "request {request}: segment {segment} of track {track}");
        // New sessions take all that is left, also what the others give back.
        refused += usize::from(status(&[&watch]) == "503");
        std::thread::sleep(Duration::from_millis(125));
    }
    assert!(refused > 24, "it was full {refused} times");
}
