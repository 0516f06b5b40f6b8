//! `reel tap`, and servers that programs connect to.

use std::fs;
use std::os::unix::net::UnixListener;
use std::process::Stdio;

use crate::cli::films::{longer, short};
use crate::cli::rig::TestDir;
use crate::cli::serving::Running;

fn serving(dir: &TestDir) -> Running {
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    Running::start(dir, &["serve", "volume", "--listen", "127.0.0.1:0", "--programs-socket", "reel.sock"])
}

#[test]
fn a_tapped_title_equals_its_export() {
    let dir = TestDir::with_volume();
    let _server = serving(&dir);
    let tapped = dir.command(&["tap", "short", "--stats"]).output().unwrap();
    let said = String::from_utf8_lossy(&tapped.stderr).into_owned();
    assert!(tapped.status.success(), "{said}");
    assert!(said.contains(&format!("{} bytes", tapped.stdout.len())), "{said}");
    let rest = dir.command(&["tap", "short", "--from", "1000", "--class", "aperiodic"]).output().unwrap();
    assert!(rest.stdout == tapped.stdout[1000..]);
    drop(_server);
    dir.reel(&["export", "volume", "short", "short.mp4"]).done();
    assert!(fs::read(dir.path("short.mp4")).unwrap() == tapped.stdout);
}

#[test]
fn a_merged_title_is_tapped() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", longer().to_str().unwrap()]).done();
    let server = serving(&dir);
    let tapped = dir.command(&["tap", "longer+short", "--class", "aperiodic"]).output().unwrap();
    assert!(tapped.status.success(), "{}", String::from_utf8_lossy(&tapped.stderr));
    assert!(server.get("/files/longer+short.mp4").body == tapped.stdout, "{} bytes", tapped.stdout.len());
    dir.reel(&["tap", "longer+none"]).refused(3, &["there is no title none"]);
    dir.reel(&["tap", "short+short"]).refused(3, &["both parts are the same title"]);
    drop(server);
    dir.reel(&["export", "volume", "longer+short", "merged.mp4"]).done();
    assert!(fs::read(dir.path("merged.mp4")).unwrap() == tapped.stdout);
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_failure() {
    let dir = TestDir::with_volume();
    let _server = serving(&dir);
    let mut tap = dir.command(&["tap", "short"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(tap.stdout.take());
    assert!(tap.wait().unwrap().success());
}

#[test]
fn errors_are_reported_as_messages() {
    let dir = TestDir::with_volume();
    dir.reel(&["tap", "short"]).refused(3, &["reel.sock", "--programs-socket"]);
    let server = serving(&dir);
    dir.reel(&["tap", "nothing"]).refused(3, &["there is no title nothing"]);
    dir.reel(&["tap", "short", "--class", "unknown"]).refused(1, &["no class unknown"]);
    dir.reel(&["tap", "short", "--from", "99999999999"]).refused(1, &["ends after"]);
    drop(server);
    // A killed server leaves its socket. Connecting to it fails, and the next server replaces it.
    dir.reel(&["tap", "short"]).refused(1, &["reel.sock"]);
    let _server = Running::start(
        &dir,
        &["serve", "volume", "--listen", "127.0.0.1:0", "--programs-socket", "reel.sock"],
    );
    assert!(dir.command(&["tap", "short"]).output().unwrap().status.success());
}

#[test]
fn a_server_replaces_no_socket_in_use_and_no_file() {
    let dir = TestDir::with_volume();
    let serve = ["serve", "volume", "--listen", "127.0.0.1:0", "--programs-socket", "taken"];
    fs::write(dir.path("taken"), "a file").unwrap();
    dir.reel(&serve).refused(1, &["taken"]);
    assert_eq!(fs::read(dir.path("taken")).unwrap(), b"a file");
    fs::remove_file(dir.path("taken")).unwrap();
    let _listener = UnixListener::bind(dir.path("taken")).unwrap();
    dir.reel(&serve).refused(1, &["taken"]);
}
