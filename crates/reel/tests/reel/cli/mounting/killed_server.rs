//! A server that is killed while programs pour and read, and others watch what they pour.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use reel_testkit::run_in_own_mounts;
use rustix::io::Errno;
use rustix::process::Signal;

use super::rig::Mount;
use super::streams::{Stream, read_some};
use crate::cli::films::longer;
use crate::cli::rig::{Outcome, PATIENCE, TestDir};
use crate::cli::serving::Running;

#[test]
fn a_killed_server_tells_programs_and_viewers_and_the_next_one_serves_them() {
    run_in_own_mounts("cli::mounting::killed_server::programs");
}

/// A command whose standard output is read.
struct Reader(Child);

impl Reader {
    fn of(mut command: Command) -> Reader {
        Reader(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Waits for its first byte.
    fn await_byte(&mut self) {
        self.0.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    }

    fn ended(self) -> Outcome {
        self.ended_after().1
    }

    /// The number of bytes that came until its end, and how it ended.
    fn ended_after(self) -> (usize, Outcome) {
        let output = self.0.wait_with_output().unwrap();
        (output.stdout.len(), Outcome::of(output))
    }
}

/// Pours `studio` until its input ends.
fn pour(dir: &TestDir) -> (Reader, ChildStdin) {
    let mut command = dir.command(&["pour", "studio", "--rate", "8M", "--type", "audio/L16"]);
    command.stdin(Stdio::piped());
    let mut program = Reader::of(command);
    let input = program.0.stdin.take().unwrap();
    (program, input)
}

fn await_metric(server: &Running, line: &str) {
    let begun = Instant::now();
    while !server.text("/metrics").lines().any(|of_page| of_page == line) {
        assert!(begun.elapsed() < PATIENCE, "{line} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn watching(server: &Running) -> Reader {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--no-buffer"]);
    curl.arg(format!("http://{}/live/studio", server.address()));
    Reader::of(curl)
}

#[test]
#[ignore = "child of a_killed_server_tells_programs_and_viewers_and_the_next_one_serves_them, with mounts of its own"]
fn programs() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", longer().to_str().unwrap(), "--name", "Der Film"]).done();
    let serve = |listen: &str| {
        Running::start(&dir, &["serve", "volume", "--listen", listen, "--programs-socket", "reel.sock"])
    };
    let mut server = serve("127.0.0.1:0");
    let address = server.address().to_string();
    let mount = Mount::of(&dir, &server);
    let (program, mut input) = pour(&dir);
    await_metric(&server, "reel_pours 1");
    let tap = |title: &str| Reader::of(dir.command(&["tap", title]));
    let mut readers = [watching(&server), tap("live/studio"), tap("der-film")];
    let stream = Stream::of(&mount);
    stream.write("title", "live/studio").unwrap();
    let mut data = fs::File::open(stream.path("data")).unwrap();
    await_metric(&server, "reel_pour_viewers 3");
    // The program writes until it has ended.
    let writer = std::thread::spawn(move || while input.write_all(&[7; 10_000]).is_ok() {});
    readers.iter_mut().for_each(Reader::await_byte);
    let mut piece = [0; 1 << 16];
    assert!(read_some(&mut data, &mut piece).unwrap() > 0);

    server.signal(Signal::KILL);
    let what_to_do = "when a server runs again";
    program.ended().refused(1, &["the server has closed the connection", what_to_do, "pour again"]);
    writer.join().unwrap();
    let [(_, viewer), (_, live), (bytes, title)] = readers.map(Reader::ended_after);
    assert!(![Some(0), None].contains(&viewer.code), "{viewer:?}");
    assert!(viewer.stderr.starts_with("curl: "), "{viewer:?}");
    live.refused(1, &["the server has closed the connection", what_to_do, "read again"]);
    let continues = format!("--from {} continues there", 1 + bytes);
    title.refused(1, &["the server has closed the connection", what_to_do, &continues]);
    let error = loop {
        match read_some(&mut data, &mut piece) {
            Ok(0) => panic!("an end"),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert_eq!(stream.line("state"), "failed");
    assert!(stream.line("error").contains("the stream has broken off"), "{}", stream.line("error"));
    drop(data);

    // Of the same name, at the same address and socket.
    let server = serve(&address);
    let (program, mut input) = pour(&dir);
    await_metric(&server, "reel_pours 1");
    let mut readers = [watching(&server), Reader::of(dir.command(&["tap", "live/studio"]))];
    let mut data = fs::File::open(stream.path("data")).unwrap();
    await_metric(&server, "reel_pour_viewers 3");
    input.write_all(b"all of it").unwrap();
    drop(input);
    program.ended().done();
    for reader in &mut readers {
        let mut got = String::new();
        reader.0.stdout.as_mut().unwrap().read_to_string(&mut got).unwrap();
        assert_eq!(got, "all of it");
    }
    readers.into_iter().for_each(|reader| drop(reader.ended().done()));
    let mut got = Vec::new();
    loop {
        match read_some(&mut data, &mut piece).unwrap() {
            0 => break,
            some => got.extend_from_slice(&piece[..some]),
        }
    }
    assert_eq!(got, b"all of it");
}
