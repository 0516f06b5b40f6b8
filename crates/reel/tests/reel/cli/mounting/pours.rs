//! Streams of what programs pour, in the tree.

use std::fs;
use std::io::Write;
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use reel_testkit::run_in_own_mounts;
use rustix::io::Errno;

use super::rig::Mount;
use super::streams::{Stream, await_no_session, await_sessions, read_some};
use crate::cli::films::short;
use crate::cli::rig::{PATIENCE, TestDir};
use crate::cli::serving::Running;

#[test]
fn three_shells_control_a_poured_stream() {
    run_in_own_mounts("cli::mounting::pours::three_shells");
}

#[test]
fn the_data_of_a_poured_stream_are_what_its_program_pours() {
    run_in_own_mounts("cli::mounting::pours::data");
}

#[test]
fn three_shells_join_a_poured_stream() {
    run_in_own_mounts("cli::mounting::pours::joins");
}

/// What a script prints about a stream that a program pours, in the tree as current directory.
const SCRIPT: &str = r#"
set -u
n=$(cat streams/clone); s=streams/$n
(echo live/none > $s/title) 2>/dev/null || cat $s/error
(echo live/ > $s/title) 2>/dev/null || cat $s/error
(echo live/a/b > $s/title) 2>/dev/null || cat $s/error
echo live/studio > $s/title || cat $s/error
cat $s/title
echo 2 > $s/position
(echo start > $s/ctl) 2>/dev/null || cat $s/error
echo 0 > $s/position; echo 1k > $s/rate
(echo start > $s/ctl) 2>/dev/null || cat $s/error
echo 90M > $s/rate
echo start > $s/ctl || cat $s/error
cat $s/state $s/rate $s/position
(echo seek 1 > $s/ctl) 2>/dev/null || cat $s/error
(echo interactive > $s/class) 2>/dev/null || cat $s/error
(echo start > $s/ctl) 2>/dev/null || cat $s/error
echo pause > $s/ctl; cat $s/state
echo aperiodic > $s/class; echo start > $s/ctl; cat $s/state
echo close > $s/ctl
"#;

const SAID: &str = "\
no program pours \"none\" now; `reel pour NAME` does
that is no id of a title; `ls titles` shows them
that is no id of a title; `ls titles` shows them
live/studio
a poured stream begins where it is now; write 0 to `position`
the stream has 80000000 bits per second, so 1000 can never be in time
playing
80000000

a poured stream plays where it is now, and has no other place
a poured stream plays in its class to its end; `pause` it first
the stream is playing
paused
playing
";

fn serving() -> (TestDir, Running) {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap(), "--name", "Der Film"]).done();
    let serve = ["serve", "volume", "--listen", "127.0.0.1:0", "--programs-socket", "reel.sock"];
    let server = Running::start(&dir, &serve);
    (dir, server)
}

/// A program that pours what is written to its standard input.
struct Pour {
    child: Child,
    /// `None` when it has got all.
    input: Option<ChildStdin>,
}

impl Pour {
    fn of(dir: &TestDir, mount: &Mount) -> Pour {
        let mut command =
            dir.command(&["pour", "studio", "--rate", "80M", "--type", "application/octet-stream"]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let stream = Stream::of(mount);
        let begun = Instant::now();
        while stream.write("title", "live/studio").is_err() {
            assert!(begun.elapsed() < PATIENCE, "{}", stream.line("error"));
            std::thread::sleep(Duration::from_millis(20));
        }
        stream.write("ctl", "close").unwrap();
        Pour { child, input }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }
}

impl Drop for Pour {
    fn drop(&mut self) {
        // It has ended, or the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "child of three_shells_control_a_poured_stream, with mounts of its own"]
fn three_shells() {
    let (dir, server) = serving();
    let mount = Mount::of(&dir, &server);
    let pour = Pour::of(&dir, &mount);
    mount.assert_three_shells_say(SCRIPT, SAID);
    // That of the program.
    await_sessions(&server, 1);
    drop(pour);
    await_no_session(&server);
}

#[test]
#[ignore = "child of the_data_of_a_poured_stream_are_what_its_program_pours, with mounts of its own"]
fn data() {
    let (dir, server) = serving();
    let mount = Mount::of(&dir, &server);
    let bytes: Vec<u8> = (0..3_000_000_usize).map(|at| (at * 7 + at / 251) as u8).collect();
    let mut pour = Pour::of(&dir, &mount);
    let stream = Stream::of(&mount);
    stream.write("title", "live/studio").unwrap();
    let mut data = fs::File::open(stream.path("data")).unwrap();
    pour.write(&bytes[..1000]);
    let mut first = vec![0; 1000];
    let mut copy = Vec::new();
    while copy.len() < 1000 {
        let read = read_some(&mut data, &mut first).unwrap();
        copy.extend_from_slice(&first[..read]);
    }
    assert_eq!(stream.line("state"), "playing");
    // The rest, from another thread, and the end.
    let rest = bytes[1000..].to_vec();
    let writer = std::thread::spawn(move || {
        pour.write(&rest);
        // The end of its input is that of the stream.
        pour.input = None;
        assert!(pour.child.wait().unwrap().success());
    });
    let mut block = vec![0; 100_000];
    loop {
        match read_some(&mut data, &mut block).unwrap() {
            0 => break,
            read => copy.extend_from_slice(&block[..read]),
        }
    }
    writer.join().unwrap();
    assert!(copy == bytes, "{} bytes", copy.len());
    assert_eq!(stream.line("state"), "ended");
    drop(data);
    await_no_session(&server);
    // A program that is killed: what came, and an error.
    let mut pour = Pour::of(&dir, &mount);
    stream.write("title", "live/studio").unwrap();
    let mut data = fs::File::open(stream.path("data")).unwrap();
    pour.write(b"only this");
    let mut copy = Vec::new();
    while copy.len() < 9 {
        let read = read_some(&mut data, &mut block).unwrap();
        copy.extend_from_slice(&block[..read]);
    }
    assert_eq!(copy, b"only this");
    drop(pour);
    let error = read_some(&mut data, &mut block).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert_eq!(stream.line("state"), "failed");
    let why = stream.line("error");
    assert!(why.contains("its program is gone"), "{why}");
    drop(data);
    await_no_session(&server);
}

/// What a script prints about poured streams that it joins to files of the server.
const JOINING: &str = r#"
set -u
n=$(cat streams/clone); s=streams/$n
echo live/studio > $s/title
echo "join file:$n-first" > $s/ctl || cat $s/error
cat $s/state $s/out/0/state
(cat $s/data) 2>/dev/null || echo "it is joined"
echo split > $s/ctl; echo "file:$n-second" > $s/out/1/dest || cat $s/error
(echo "udp:127.0.0.1:5000" > $s/out/1/dest) 2>/dev/null || cat $s/error
cat $s/out/1/state
echo close > $s/ctl
"#;

const JOINED: &str = "\
joined
joined
it is joined
the server does not allow udp:127.0.0.1:5000; write it to the list `to = [\"tcp:ADDRESS:PORT\", \"udp:ADDRESS:PORT\"]` below `[join]` in reel.toml
joined
";

#[test]
#[ignore = "child of three_shells_join_a_poured_stream, with mounts of its own"]
fn joins() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap(), "--name", "Der Film"]).done();
    fs::create_dir(dir.path("joined")).unwrap();
    fs::write(dir.path("reel.toml"), "[join]\ndirectory = \"joined\"\n").unwrap();
    let serve = ["serve", "volume", "--config", "reel.toml", "--listen", "127.0.0.1:0"];
    let server = Running::start(&dir, &[&serve[..], &["--programs-socket", "reel.sock"]].concat());
    let mount = Mount::of(&dir, &server);
    let mut pour = Pour::of(&dir, &mount);
    mount.assert_three_shells_say(JOINING, JOINED);
    await_sessions(&server, 1);
    // One that is not closed gets all.
    let stream = Stream::of(&mount);
    stream.write("title", "live/studio").unwrap();
    stream.write("ctl", "join file:whole").unwrap();
    pour.write(&[7; 300_000]);
    pour.input = None;
    stream.await_line("state", "ended");
    assert_eq!(
        (stream.line("out/0/state"), stream.line("out/0/bytes")),
        ("complete".into(), "300000".into())
    );
    assert_eq!(fs::read(dir.path("joined/whole")).unwrap(), [7; 300_000]);
    assert_eq!(dir.names("joined"), ["whole"], "those that were closed are removed");
    await_no_session(&server);
}
