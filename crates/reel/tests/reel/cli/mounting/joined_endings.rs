//! Streams that are joined when their mount or their server is killed, or when their disk is full.

mod night;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use reel_testkit::run_in_own_mounts;
use rustix::process::Signal;

use super::joins::{joining, start};
use super::rig::{Mount, run};
use super::streams::{Stream, await_no_session, sessions};
use crate::cli::films::{long_stream, longer};
use crate::cli::rig::{PATIENCE, TestDir};
use crate::cli::serving::Running;

#[test]
fn a_joined_stream_fails_when_its_server_was_killed_and_another_one_runs() {
    run_in_own_mounts("cli::mounting::joined_endings::next_server");
}

#[test]
fn a_full_disk_ends_its_branch_and_no_other_one() {
    run_in_own_mounts("cli::mounting::joined_endings::full_disk");
}

/// A film of ten minutes and a poured stream, which last longer than a lease.
#[test]
#[ignore = "child of a_killed_mount_leaves_no_file_of_a_joined_stream_and_nothing_reserved, with mounts of its own"]
fn killed_mount() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", long_stream().to_str().unwrap(), "--name", "Der Film"]).done();
    fs::create_dir(dir.path("joined")).unwrap();
    fs::write(dir.path("reel.toml"), "arena_bytes = \"128M\"\n[join]\ndirectory = \"joined\"\n").unwrap();
    let serve = ["serve", "volume", "--listen", "127.0.0.1:0", "--config", "reel.toml"];
    let server = Running::start(&dir, &[&serve[..], &["--programs-socket", "reel.sock"]].concat());
    let mut pour = dir.command(&["pour", "studio", "--rate", "8M"]);
    let mut pour = pour.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    pour.stdin.as_mut().unwrap().write_all(&[0x47; 188 * 100]).unwrap();
    let mount = Mount::of(&dir, &server);
    let (title, live) = (Stream::of(&mount), Stream::of(&mount));
    title.write("ctl", "join file:title").unwrap();
    await_true("the poured stream", || live.write("title", "live/studio").is_ok());
    live.write("ctl", "join file:live").unwrap();
    mount.await_that(&format!("{}/out/0/bytes", relative(&title)), |text| text != "0\n");
    assert_eq!((dir.names("joined").len(), sessions(&server).len()), (2, 2));
    mount.signal(Signal::KILL);
    await_true("the end of the parts", || dir.names("joined").is_empty());
    await_true("the end of what is reserved", || {
        sessions(&server).iter().all(|session| session["reserved"] == false)
    });
    // The program that pours is not concerned.
    assert!(pour.try_wait().unwrap().is_none());
    drop(pour.stdin.take());
    assert!(pour.wait().unwrap().success());
    assert_eq!(dir.names("joined"), [""; 0]);
}

fn await_true(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
#[ignore = "child of a_joined_stream_fails_when_its_server_was_killed_and_another_one_runs, with mounts of its own"]
fn next_server() {
    let (dir, mut server) = joining();
    let address = server.address().to_string();
    let mount = Mount::of(&dir, &server);
    let stream = Stream::of(&mount);
    stream.write("ctl", "join file:copy").unwrap();
    server.signal(Signal::KILL);
    let serve = ["serve", "volume", "--listen", &address, "--config", "reel.toml"];
    let server = Running::start(&dir, &serve);
    stream.await_line("state", "failed");
    // The next server may know the session, but not what was written.
    let reasons = ["there is no session with this key", "perhaps the server was restarted"];
    let error = stream.line("error");
    assert!(reasons.iter().any(|reason| error.contains(reason)), "{error}");
    assert_eq!((stream.line("out/0/state"), stream.line("out/0/error")), ("ended".into(), error));
    assert_eq!(dir.names("joined"), [""; 0]);
    await_no_session(&server);
    stream.write("ctl", "join file:copy").unwrap();
    assert_eq!(stream.line("state"), "joined");
}

#[test]
#[ignore = "child of a_joined_stream_fails_when_its_server_is_killed_and_none_runs, with mounts of its own"]
fn no_server() {
    let (dir, mut server) = joining();
    let mount = Mount::of(&dir, &server);
    let stream = Stream::of(&mount);
    stream.write("ctl", "join file:copy").unwrap();
    server.signal(Signal::KILL);
    stream.await_line("state", "failed");
    let error = stream.line("error");
    assert!(error.contains("the server does not answer"), "{error}");
    assert_eq!((stream.line("out/0/state"), stream.line("out/0/error")), ("ended".into(), error));
    let _next = start(&dir);
    assert_eq!(dir.names("joined"), [""; 0]);
}

#[test]
#[ignore = "child of a_full_disk_ends_its_branch_and_no_other_one, with mounts of its own"]
fn full_disk() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", longer().to_str().unwrap(), "--name", "Der Film"]).done();
    fs::create_dir(dir.path("joined")).unwrap();
    run("mount", &["-t", "tmpfs", "-o", "size=2m", "tmpfs", dir.path("joined").to_str().unwrap()]);
    // 16 KiB are free.
    fs::write(dir.path("joined/large"), vec![7; (2 << 20) - (16 << 10)]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("tcp:{}", listener.local_addr().unwrap());
    let text = format!("arena_bytes = \"128M\"\n[join]\ndirectory = \"joined\"\nto = [\"{to}\"]\n");
    fs::write(dir.path("reel.toml"), text).unwrap();
    let server = start(&dir);
    let film = server.get("/files/der-film.mp4").body;
    let receiver = std::thread::spawn(move || {
        let mut got = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut got).unwrap();
        got
    });
    let mount = Mount::of(&dir, &server);
    let stream = Stream::of(&mount);
    stream.write("ctl", &format!("join {to}")).unwrap();
    stream.write("ctl", "split").unwrap();
    stream.write("out/1/dest", "file:copy").unwrap();
    stream.await_line("out/1/state", "ended");
    let why = stream.line("out/1/error");
    assert!(why.contains("no space is left in the directory; free some, and join again"), "{why}");
    assert_eq!(dir.names("joined"), ["large"], "no part is left");
    // The stream continues, or has come to its end meanwhile.
    stream.await_line("state", "ended");
    assert_eq!((stream.line("out/0/state"), stream.line("out/0/error")), ("complete".into(), "".into()));
    let got = receiver.join().unwrap();
    assert!(got == film, "{} of {} bytes", got.len(), film.len());
    await_no_session(&server);
}

/// The directory of a stream within the tree.
fn relative(stream: &Stream<'_>) -> String {
    let path = stream.path("");
    let name = path.file_name().expect("a number").to_str().expect("digits").to_owned();
    format!("streams/{name}")
}
