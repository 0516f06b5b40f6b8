//! Streams whose reader, mount or server ends in the middle.

use std::fs;
use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::time::Instant;

use reel_testkit::run_in_own_mounts;
use rustix::io::Errno;
use rustix::process::{Signal, kill_process};

use super::rig::{Mount, serving};
use super::streams::{Stream, await_no_session, read_some, sessions};
use crate::cli::rig::PATIENCE;
use crate::cli::serving::Running;

#[test]
fn a_killed_reader_gives_back_what_was_reserved() {
    run_in_own_mounts("cli::mounting::stream_endings::reader");
}

#[test]
fn a_killed_mount_gives_its_reader_an_error_and_reserves_nothing_for_long() {
    run_in_own_mounts("cli::mounting::stream_endings::mount");
}

#[test]
fn an_unmounted_tree_leaves_no_session() {
    run_in_own_mounts("cli::mounting::stream_endings::unmounted");
}

#[test]
fn a_killed_server_gives_an_error_and_the_next_one_continues() {
    run_in_own_mounts("cli::mounting::stream_endings::server");
}

#[test]
fn a_silent_server_stops_no_reader_for_good() {
    run_in_own_mounts("cli::mounting::stream_endings::silent");
}

/// A stream that is read, and its first bytes. It has sent at most 128 KiB.
fn begun(stream: &Stream<'_>) -> (fs::File, Vec<u8>) {
    let mut data = fs::File::open(stream.path("data")).unwrap();
    let mut bytes = vec![0; 1000];
    let some = read_some(&mut data, &mut bytes).unwrap();
    bytes.truncate(some);
    (data, bytes)
}

/// Reads on until an error that is not to be repeated, or the end.
fn read_on(data: &mut fs::File, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut piece = [0; 1 << 16];
    loop {
        match read_some(data, &mut piece)? {
            0 => return Ok(()),
            some => bytes.extend_from_slice(&piece[..some]),
        }
    }
}

#[test]
#[ignore = "child of a_killed_reader_gives_back_what_was_reserved, with mounts of its own"]
fn reader() {
    let (dir, server) = serving();
    let mount = Mount::of(&dir, &server);
    let stream = Stream::of(&mount);
    let mut cat = Command::new("cat").arg(stream.path("data")).stdout(Stdio::piped()).spawn().unwrap();
    // The film does not fit into the pipe, so it is read no further.
    cat.stdout.as_mut().unwrap().read_exact(&mut [0; 1000]).unwrap();
    assert_eq!(sessions(&server).len(), 1);
    cat.kill().unwrap();
    cat.wait().unwrap();
    stream.await_line("state", "paused");
    await_no_session(&server);
    // One that waits in a read.
    stream.write("ctl", "start").unwrap();
    let mut cat = Command::new("cat").arg(stream.path("data")).stdout(Stdio::null()).spawn().unwrap();
    stream.await_line("state", "playing");
    stream.write("ctl", "pause").unwrap();
    cat.kill().unwrap();
    cat.wait().unwrap();
    await_no_session(&server);
    assert!(fs::File::open(stream.path("data")).is_ok(), "there is no reader any more");
}

#[test]
#[ignore = "child of a_killed_mount_gives_its_reader_an_error_and_reserves_nothing_for_long, with mounts of its own"]
fn mount() {
    let (dir, server) = serving();
    let mount = Mount::of(&dir, &server);
    let (mut data, mut bytes) = begun(&Stream::of(&mount));
    assert_eq!(sessions(&server)[0]["reserved"], true);
    mount.signal(Signal::KILL);
    let error = read_on(&mut data, &mut bytes).unwrap_err().raw_os_error();
    let gone = [Errno::NOTCONN, Errno::CONNABORTED].map(|errno| Some(errno.raw_os_error()));
    assert!(gone.contains(&error), "{error:?}");
    let begun = Instant::now();
    while sessions(&server).iter().any(|session| session["reserved"] == true) {
        assert!(begun.elapsed() < 2 * PATIENCE, "{:?}", sessions(&server));
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[test]
#[ignore = "child of an_unmounted_tree_leaves_no_session, with mounts of its own"]
fn unmounted() {
    let (dir, server) = serving();
    let mount = Mount::of(&dir, &server);
    let _open = begun(&Stream::of(&mount));
    Stream::of(&mount).write("ctl", "start").unwrap();
    assert_eq!(sessions(&server).len(), 2);
    mount.signal(Signal::TERM).done();
    await_no_session(&server);
}

#[test]
#[ignore = "child of a_killed_server_gives_an_error_and_the_next_one_continues, with mounts of its own"]
fn server() {
    let (dir, mut server) = serving();
    let film = server.get("/files/der-film.mp4").body;
    let mount = Mount::of(&dir, &server);
    let stream = Stream::of(&mount);
    let (mut data, mut bytes) = begun(&stream);
    let address = server.address().to_string();
    server.signal(Signal::KILL);
    let error = read_on(&mut data, &mut bytes).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert!(bytes.len() < film.len(), "{} bytes", bytes.len());
    assert_eq!(stream.line("state"), "failed");
    assert!(stream.line("error").contains("the server does not answer"), "{}", stream.line("error"));
    assert_eq!(stream.write("ctl", "start"), Err(Errno::IO.raw_os_error()));
    drop(data);
    let next = Running::start(&dir, &["serve", "volume", "--listen", &address]);
    let mut data = fs::File::open(stream.path("data")).unwrap();
    read_on(&mut data, &mut bytes).unwrap();
    assert!(bytes == film, "{} and {} bytes", bytes.len(), film.len());
    // The session of before the end of the server is one of a client that is silent.
    assert!(sessions(&next).iter().all(|session| session["title"] == "der-film"));
}

#[test]
#[ignore = "child of a_silent_server_stops_no_reader_for_good, with mounts of its own"]
fn silent() {
    let (dir, server) = serving();
    let film = server.get("/files/der-film.mp4").body;
    let mount = Mount::of(&dir, &server);
    let stream = Stream::of(&mount);
    let (mut data, mut bytes) = begun(&stream);
    kill_process(server.pid(), Signal::STOP).unwrap();
    let mut piece = [0; 1 << 16];
    let error = loop {
        match data.read(&mut piece) {
            Ok(some) => bytes.extend_from_slice(&piece[..some]),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    kill_process(server.pid(), Signal::CONT).unwrap();
    read_on(&mut data, &mut bytes).unwrap();
    assert!(bytes == film, "{} and {} bytes", bytes.len(), film.len());
    await_no_session(&server);
}
