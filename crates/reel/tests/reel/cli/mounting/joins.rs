//! Streams that the server plays into files.

use std::fs;
use std::net::UdpSocket;
use std::time::Instant;

use reel_testkit::run_in_own_mounts;
use rustix::process::Signal;

use super::rig::Mount;
use super::streams::{Stream, await_no_session};
use crate::cli::films::longer;
use crate::cli::rig::{PATIENCE, TestDir};
use crate::cli::serving::Running;

#[test]
fn three_shells_join_and_split_a_stream() {
    run_in_own_mounts("cli::mounting::joins::three_shells");
}

#[test]
fn a_directory_within_a_mounted_tree_is_refused() {
    run_in_own_mounts("cli::mounting::joins::own_mount");
}

#[test]
fn a_transport_stream_is_joined_to_datagrams_and_to_a_stream() {
    run_in_own_mounts("cli::mounting::joins::packets");
}

#[test]
fn a_server_that_is_killed_leaves_no_half_file() {
    let (dir, mut server) = joining();
    let class = "/watch/der-film/der-film.mp4?class=periodic";
    let key = server.location(class).split('/').nth(2).unwrap().to_owned();
    let outlets = format!("/api/v1/sessions/{key}/outlets");
    let body = br#"{"to":"file:copy.mp4"}"#;
    let added =
        reel_testkit::http::exchange(server.address(), "POST", &outlets, Some(("application/json", body)));
    assert_eq!(added.unwrap().head.status, 201);
    let begun = Instant::now();
    let outlet = || serde_json::from_str::<serde_json::Value>(&server.text(&format!("{outlets}/0"))).unwrap();
    while outlet()["bytes"] == 0 {
        assert!(begun.elapsed() < PATIENCE, "nothing is written");
    }
    server.signal(Signal::KILL);
    let names = dir.names("joined");
    assert!(names.len() == 1 && names[0].starts_with(".reel-join-"), "{names:?}");
    let _server = start(&dir);
    assert_eq!(dir.names("joined"), [""; 0], "the part is removed");
}

/// A server with a film that lasts longer than a script takes, on a busy machine, too. It may write
/// to the directory `joined`.
fn joining() -> (TestDir, Running) {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", longer().to_str().unwrap(), "--name", "Der Film"]).done();
    fs::create_dir(dir.path("joined")).unwrap();
    configure(&dir, "joined");
    let server = start(&dir);
    (dir, server)
}

fn configure(dir: &TestDir, directory: &str) {
    let text = format!(
        "arena_bytes = \"128M\"\n[join]\ndirectory = \"{directory}\"\nto = [\"udp:127.0.0.1:5000\"]\n"
    );
    fs::write(dir.path("reel.toml"), text).unwrap();
}

const SERVE: [&str; 6] = ["serve", "volume", "--listen", "127.0.0.1:0", "--config", "reel.toml"];

fn start(dir: &TestDir) -> Running {
    Running::start(dir, &SERVE)
}

/// What a script prints about a stream that is joined, in the tree as current directory.
const SCRIPT: &str = r#"
set -u
n=$(cat streams/clone); s=streams/$n
echo der-film > $s/title; echo periodic > $s/class
(echo split > $s/ctl) 2>/dev/null || cat $s/error
(echo "join file:a/$n.mp4" > $s/ctl) 2>/dev/null || cat $s/state
(echo "join udp:127.0.0.1:5000" > $s/ctl) 2>/dev/null || cat $s/error
(echo "join tcp:127.0.0.1:5000" > $s/ctl) 2>/dev/null || cat $s/error
(echo "join fd:3" > $s/ctl) 2>/dev/null || cat $s/error
echo "join file:first-$n.mp4" > $s/ctl || cat $s/error
echo split > $s/ctl; echo "file:second-$n.mp4" > $s/out/1/dest
cat $s/state $s/out/0/state $s/out/1/state; ls $s/out
(cat $s/data) 2>/dev/null || echo busy
(echo pause > $s/ctl) 2>/dev/null || cat $s/error
(echo "tcp:127.0.0.1:5000" > $s/out/1/dest) 2>/dev/null || echo kept
test "$(cat $s/out/1/dest)" = "file:second-$n.mp4" && echo same
echo "file:third-$n.mp4" > $s/out/1/dest || cat $s/error
test "$(cat $s/out/1/dest)" = "file:third-$n.mp4" && echo other
test "$(cat $s/out/0/dest)" = "file:first-$n.mp4" && echo same
while test "$(cat $s/state)" = joined; do sleep 0.2; done
cat $s/state $s/position $s/out/0/state $s/out/1/state $s/out/0/error
test "$(cat $s/out/0/late)" -ge 0 && echo counted
test "$(cat $s/out/0/bytes)" -gt "$(cat $s/out/1/bytes)" && echo more
(echo split > $s/ctl) 2>/dev/null || cat $s/error
(cat $s/out/2/state) 2>/dev/null || echo none
echo close > $s/ctl; test -e $s || echo gone
"#;

const SAID: &str = "\
the stream is new; join it first
paused
der-film has no form ts, a transport stream stored as it is; `reel form add VOLUME TITLE ts` makes one
the server does not allow tcp:127.0.0.1:5000; write it to the list `to = [\"tcp:ADDRESS:PORT\", \"udp:ADDRESS:PORT\"]` below `[join]` in reel.toml
there is no destination \"fd:3\"; write file:NAME for a new file of the server's join.directory, tcp:ADDRESS:PORT, or for a transport stream udp:ADDRESS:PORT, rtp:ADDRESS:PORT, or live:NAME for a poured stream
joined
joined
joined
0
1
busy
the stream is joined, so it cannot be paused
kept
same
other
same
ended
16
complete
complete

counted
more
the stream is ended; join it first
none
gone
";

#[test]
#[ignore = "child of three_shells_join_and_split_a_stream, with mounts of its own"]
fn three_shells() {
    let (dir, server) = joining();
    let film = server.get("/files/der-film.mp4").body;
    let mount = Mount::of(&dir, &server);
    mount.assert_three_shells_say(SCRIPT, SAID);
    let names = dir.names("joined");
    assert!(!names.is_empty() && names.len().is_multiple_of(3), "{names:?}");
    for first in names.iter().filter(|name| name.starts_with("first-")) {
        let bytes = |name: &str| fs::read(dir.path("joined").join(name)).unwrap();
        assert!(bytes(first) == film, "{first}: other bytes");
        // The second file was completed when the third took its place.
        let rest = ["second-", "third-"].map(|name| bytes(&first.replace("first-", name))).concat();
        assert!(!rest.is_empty() && film.ends_with(&rest), "{first}: other bytes");
    }
}

#[test]
#[ignore = "child of a_directory_within_a_mounted_tree_is_refused, with mounts of its own"]
fn own_mount() {
    let (dir, mut server) = joining();
    let mount = Mount::of(&dir, &server);
    server.signal(Signal::TERM);
    for directory in ["tree", "tree/titles"] {
        configure(&dir, directory);
        dir.reel(&SERVE).refused(2, &["reel mount", "another file system"]);
    }
    drop(mount);
}

/// The script of the dsplice note, with a stream that others watch as its second branch.
#[test]
#[ignore = "child of a_transport_stream_is_joined_to_datagrams_and_to_a_stream, with mounts of its own"]
fn packets() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", longer().to_str().unwrap(), "--name", "Der Film"]).done();
    dir.reel(&["form", "add", "volume", "der-film", "ts"]).done();
    dir.reel(&["export", "volume", "der-film", "stored.ts", "--form", "ts"]).done();
    let stored = fs::read(dir.path("stored.ts")).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 16 << 20).unwrap();
    let to = format!("udp:{}", socket.local_addr().unwrap());
    fs::write(dir.path("reel.toml"), format!("[join]\nlive = true\nto = [\"{to}\"]\n")).unwrap();
    let server = start(&dir);
    let film = server.get("/files/der-film.mp4").body;
    let mount = Mount::of(&dir, &server);
    let stream = Stream::of(&mount);
    stream.write("class", "periodic").unwrap();
    // What was begun as MP4 continues as a transport stream.
    stream.write("ctl", "start").unwrap();
    assert_eq!(stream.line("state"), "playing");
    stream.write("ctl", &format!("join {to}")).unwrap();
    stream.write("ctl", "split").unwrap();
    stream.write("out/1/dest", "live:studio").unwrap();
    assert_eq!(stream.line("state"), "joined");
    let watched = server.get("/live/studio").body;
    stream.await_line("state", "ended");
    assert_eq!(
        (stream.line("out/0/state"), stream.line("out/1/state")),
        ("complete".into(), "complete".into())
    );
    socket.set_nonblocking(true).unwrap();
    let (mut sent, mut datagram) = (Vec::new(), [0; 2000]);
    while let Ok(bytes) = socket.recv(&mut datagram) {
        sent.extend_from_slice(&datagram[..bytes]);
    }
    assert!(!stored.is_empty() && sent == stored, "{} of {} bytes", sent.len(), stored.len());
    assert!(!watched.is_empty() && stored.ends_with(&watched), "{} bytes", watched.len());
    // It is read as MP4 again, from the beginning.
    stream.write("rate", "80M").unwrap();
    let copy = fs::read(stream.path("data"));
    assert!(copy.unwrap() == film, "other bytes");
    await_no_session(&server);
}
