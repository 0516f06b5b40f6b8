//! Chromium plays films from the real server's pages: the browser suite of `web/test` against a
//! real server.

use crate::foreign::rig::{cache_dir, outcome, reel, run, start};
use crate::server::below::nginx::{Nginx, blocks};
use crate::server::casts::in_a_network;
use reel_compare::Server;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// A film as people watch it: video of `height` lines, two languages, subtitles.
fn film(dir: &Path, height: u32) -> PathBuf {
    let subtitles = dir.join("subtitles.srt");
    std::fs::write(&subtitles, "1\n00:00:01,000 --> 00:00:39,000\nA line of text\n").unwrap();
    let path = dir.join(format!("{height}.mp4"));
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args([
        "-nostdin",
        "-loglevel",
        "error",
        "-y",
        "-f",
        "lavfi",
        "-i",
        "testsrc2=size=1280x720:rate=25",
    ]);
    ffmpeg
        .args(["-f", "lavfi", "-i", "sine=frequency=440", "-f", "lavfi", "-i", "sine=frequency=660", "-i"])
        .arg(subtitles);
    ffmpeg.args([
        "-map",
        "0",
        "-map",
        "1",
        "-map",
        "2",
        "-map",
        "3",
        "-t",
        "40",
        "-vf",
        &format!("scale=-2:{height}"),
    ]);
    ffmpeg.args(
        "-c:v libx264 -preset ultrafast -g 50 -keyint_min 50 -sc_threshold 0 -c:a aac -c:s mov_text"
            .split(' '),
    );
    ffmpeg.args([
        "-metadata:s:a:0",
        "language=eng",
        "-metadata:s:a:1",
        "language=deu",
        "-metadata:s:s:0",
        "language=eng",
    ]);
    run(ffmpeg.arg(&path));
    path
}

/// Fails unless the browser suite passes against a real server, or what `arguments` of its
/// `run.ts` select.
pub(crate) fn assert_suite_passes(arguments: &[&str]) {
    let dir = tempfile::tempdir_in(cache_dir()).unwrap();
    let volume = crate::foreign::rig::volume(dir.path(), &[]);
    let films = [720, 360].map(|height| film(dir.path(), height));
    run(reel().arg("ingest").arg(&volume).args(["--title", "A film for people"]).args(&films));
    let server = start(&volume, &[]);
    assert_script_passes("test:browser", arguments, &server);
}

/// Fails unless a script of the pages' `package.json` passes against a server. One at a time: each
/// compiles the tests of the pages first, into the same directory.
pub(crate) fn assert_script_passes(script: &str, arguments: &[&str], server: &Server) {
    assert_script_passes_with(script, arguments, &server.url, &[]);
}

/// The same with more variables of the environment. Returns what the script says.
fn assert_script_passes_with(script: &str, arguments: &[&str], url: &str, more: &[(&str, &str)]) -> String {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    let mut npm = Command::new("npm");
    npm.args(["run", "--silent", script, "--"]).args(arguments);
    let output = outcome(npm.current_dir(web).env("REEL_URL", url).envs(more.iter().copied()));
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn a_cast_is_begun_and_stopped_by_click_on_the_real_server() {
    in_a_network("foreign::browser::inside::casts");
}

mod inside {
    use super::*;

    #[test]
    #[ignore = "child of a_cast_is_begun_and_stopped_by_click_on_the_real_server, in a name space of its own"]
    fn casts() {
        let dir = tempfile::tempdir_in(cache_dir()).unwrap();
        let volume = crate::foreign::rig::volume(dir.path(), &[]);
        let film = film(dir.path(), 360);
        run(reel().arg("ingest").arg(&volume).args(["--title", "A film for people"]).arg(&film));
        run(reel().args(["form", "add"]).arg(&volume).args(["a-film-for-people", "ts"]));
        let server = start(&volume, &[]);
        let arguments = ["casts", "--test-name-pattern=a cast of the real server"];
        let said =
            assert_script_passes_with("test:browser", &arguments, &server.url, &[("REEL_GROUPS", "1")]);
        assert!(said.contains("✔ a cast of the real server is begun"), "{said}");
    }
}

#[test]
fn a_film_plays_from_the_library_of_the_real_server() {
    assert_suite_passes(&["player", "--test-name-pattern=from the library"]);
}

#[test]
fn pages_play_and_lead_on_below_a_path_of_nginx() {
    let dir = tempfile::tempdir_in(cache_dir()).unwrap();
    let volume = crate::foreign::rig::volume(dir.path(), &[]);
    run(reel().arg("ingest").arg(&volume).args(["--title", "A film for people"]).arg(film(dir.path(), 360)));
    let server = start(&volume, &[]);
    let [(block, _), _] = blocks();
    let Some(nginx) = Nginx::start(&block, server.address.parse().unwrap()) else { return };
    let said = assert_script_passes_with("test:browser", &["below"], &nginx.url(), &[]);
    assert!(said.contains("✔ below a path, links lead to pages below it"), "{said}");
}
