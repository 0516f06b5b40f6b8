//! `reel tap`, and servers that programs connect to.

use std::fs;
use std::os::unix::net::UnixListener;
use std::process::Stdio;

use crate::cli::films::short;
use crate::cli::rig::Place;
use crate::cli::serving::Running;

fn serving(place: &Place) -> Running {
    place.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    Running::start(place, &["serve", "volume", "--listen", "127.0.0.1:0", "--programs-socket", "reel.sock"])
}

#[test]
fn a_tapped_title_equals_its_export() {
    let place = Place::with_volume();
    let _server = serving(&place);
    let tapped = place.command(&["tap", "short", "--stats"]).output().unwrap();
    let said = String::from_utf8_lossy(&tapped.stderr).into_owned();
    assert!(tapped.status.success(), "{said}");
    assert!(said.contains(&format!("{} bytes", tapped.stdout.len())), "{said}");
    let rest = place.command(&["tap", "short", "--from", "1000", "--class", "aperiodic"]).output().unwrap();
    assert!(rest.stdout == tapped.stdout[1000..]);
    drop(_server);
    place.reel(&["export", "volume", "short", "short.mp4"]).done();
    assert!(fs::read(place.path("short.mp4")).unwrap() == tapped.stdout);
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_failure() {
    let place = Place::with_volume();
    let _server = serving(&place);
    let mut tap = place.command(&["tap", "short"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(tap.stdout.take());
    assert!(tap.wait().unwrap().success());
}

#[test]
fn errors_are_reported_as_messages() {
    let place = Place::with_volume();
    place.reel(&["tap", "short"]).refused(3, &["reel.sock", "--programs-socket"]);
    let server = serving(&place);
    place.reel(&["tap", "nothing"]).refused(3, &["there is no title nothing"]);
    place.reel(&["tap", "short", "--class", "nobody"]).refused(1, &["no class nobody"]);
    place.reel(&["tap", "short", "--from", "99999999999"]).refused(1, &["ends after"]);
    drop(server);
    // A killed server leaves its socket. Connecting to it fails, and the next server replaces it.
    place.reel(&["tap", "short"]).refused(1, &["reel.sock"]);
    let _server = Running::start(
        &place,
        &["serve", "volume", "--listen", "127.0.0.1:0", "--programs-socket", "reel.sock"],
    );
    assert!(place.command(&["tap", "short"]).output().unwrap().status.success());
}

#[test]
fn a_server_replaces_no_socket_in_use_and_no_file() {
    let place = Place::with_volume();
    let serve = ["serve", "volume", "--listen", "127.0.0.1:0", "--programs-socket", "taken"];
    fs::write(place.path("taken"), "a file").unwrap();
    place.reel(&serve).refused(1, &["taken"]);
    assert_eq!(fs::read(place.path("taken")).unwrap(), b"a file");
    fs::remove_file(place.path("taken")).unwrap();
    let _listener = UnixListener::bind(place.path("taken")).unwrap();
    place.reel(&serve).refused(1, &["taken"]);
}
