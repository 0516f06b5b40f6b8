//! `reel tap --mapped` and `reel pour --mapped`: filters that share memory with the server.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use gain::Gain;
use reel_arena::mms::Ending;
use reel_client::{Client, ClientError, OpenedStream, PourRequest, PourWanted, Reply, Request, say};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, kill_process};

use crate::cli::films::{longer, short};
use crate::cli::rig::TestDir;
use crate::cli::serving::Running;

#[path = "../../../examples/gain/gain.rs"]
mod gain;

const PATIENCE: Duration = Duration::from_secs(120);

fn serving(dir: &TestDir) -> Running {
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    Running::start(dir, &["serve", "volume", "--listen", "127.0.0.1:0", "--programs-socket", "reel.sock"])
}

/// A filter that exists as this executable: the example in C.
fn meter(dir: &TestDir) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reel-client/c/meter.c");
    let program = dir.path("meter");
    let flags = ["-O2", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o"];
    let compiled = Command::new("cc").args(flags).arg(&program).arg(source).status();
    assert!(compiled.expect("a C compiler; scripts/setup test installs one").success());
    program
}

/// A script that waits until the test opens the pipe `go`, and is the meter then.
fn meter_that_waits(dir: &TestDir) {
    meter(dir);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.path("go"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    fs::write(dir.path("later"), "#!/bin/sh\nread ready < go\nexec ./meter\n").unwrap();
    fs::set_permissions(dir.path("later"), fs::Permissions::from_mode(0o700)).unwrap();
}

fn await_metric(server: &Running, line: &str) {
    let begun = Instant::now();
    while !server.text("/metrics").lines().any(|of_page| of_page == line) {
        assert!(begun.elapsed() < PATIENCE, "{line} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Nothing of a filter is left at the server.
fn await_nothing(server: &Running) {
    for line in ["reel_program_streams 0", "reel_pours 0", "reel_sessions 0"] {
        await_metric(server, line);
    }
}

/// A player of a poured stream, once it is there.
fn player(server: &Running, name: &str) -> Child {
    let url = format!("http://{}/live/{name}", server.address());
    let arguments = ["--silent", "--show-error", "--fail", "--max-time", "600", &url];
    let player = Command::new("curl").args(arguments).stdout(Stdio::piped()).spawn().expect("curl");
    await_metric(server, "reel_pour_viewers 1");
    player
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn tapped(dir: &TestDir, title: &str) -> Vec<u8> {
    dir.command(&["tap", title, "--class", "aperiodic"]).output().unwrap().stdout
}

/// A filter in C reads a title and pours it, behind two commands and a shell whose process it is.
#[test]
fn what_a_mapped_filter_pours_is_what_it_has_read() {
    let dir = TestDir::with_volume();
    let server = serving(&dir);
    let title = tapped(&dir, "short");
    meter_that_waits(&dir);
    let tap = ["tap", "--mapped", "short", "--class", "aperiodic", "--"];
    let pour =
        ["pour", "--mapped", "again", "--rate", "400M", "--delay", "500ms", "--type", "video/mp4", "--"];
    let mut command = dir.command(&tap);
    command.arg(env!("CARGO_BIN_EXE_reel")).args(pour).arg("./later").stderr(Stdio::piped());
    let filter = command.spawn().unwrap();
    await_metric(&server, "reel_pours 1");
    let player = player(&server, "again");
    fs::write(dir.path("go"), "\n").unwrap();
    let filter = filter.wait_with_output().unwrap();
    assert!(filter.status.success(), "{}", said(&filter));
    assert!(said(&filter).contains("others play it at /live/again of the server"), "{}", said(&filter));
    assert!(said(&filter).contains(&format!("1 titles, {} bytes", title.len())), "{}", said(&filter));
    let played = player.wait_with_output().unwrap();
    assert!(played.status.success(), "{}", said(&played));
    assert!(played.stdout == title, "{} of {} bytes", played.stdout.len(), title.len());
    await_nothing(&server);
}

/// Several titles are one set on one connection, and standard output stays what it was.
#[test]
fn a_filter_inherits_a_set_of_titles() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", longer().to_str().unwrap()]).done();
    let server = serving(&dir);
    meter(&dir);
    let bytes = tapped(&dir, "short").len() + tapped(&dir, "longer").len();
    let tap = ["tap", "--mapped", "short", "longer", "--class", "aperiodic", "--", "./meter"];
    let counted = dir.command(&tap).output().unwrap();
    assert!(counted.status.success(), "{}", said(&counted));
    let counted = String::from_utf8(counted.stdout).unwrap();
    assert!(counted.starts_with(&format!("2 titles, {bytes} bytes in ")), "{counted}");
    await_nothing(&server);
}

/// A filter in Rust behind both commands: this test program, whose standard output belongs to the
/// test harness. So a shell moves the poured stream to standard error.
#[test]
fn a_filter_in_rust_reads_and_pours_in_shared_memory() {
    let dir = TestDir::with_volume();
    let server = serving(&dir);
    let mut source = Client::connect(&dir.path("reel.sock")).unwrap();
    let sound: Vec<u8> = (0..50_000_u32).flat_map(|sample| ((sample % 1000) as i16).to_be_bytes()).collect();
    let wanted = PourWanted {
        name: "left".to_owned(),
        content_type: "audio/L16".to_owned(),
        bytes_per_s: 5_000_000,
        workahead_bytes: 100_000,
        delay_ns: 500_000_000,
    };
    let stream = source.pour(wanted).unwrap();
    let child = "cli::mapped::the_filter_in_rust";
    let shell = r#"exec "$0" --exact "$1" --ignored 2>&1 > child.log"#;
    let pour = ["pour", "--mapped", "loud", "--rate", "40M", "--delay", "500ms", "--type", "audio/L16", "--"];
    let mut filter = dir
        .command(&["tap", "--mapped", "live/left", "--", env!("CARGO_BIN_EXE_reel")])
        .args(pour)
        .args(["sh", "-c", shell])
        .arg(std::env::current_exe().unwrap())
        .arg(child)
        .spawn()
        .unwrap();
    await_metric(&server, "reel_pours 2");
    await_metric(&server, "reel_program_streams 1");
    let url = format!("http://{}/live/loud", server.address());
    let player = Command::new("curl").args(["-sf", &url]).stdout(Stdio::piped()).spawn().expect("curl");
    await_metric(&server, "reel_pour_viewers 2");
    for part in sound.chunks(7001) {
        source.put(stream, part).unwrap();
    }
    source.end_pour(stream).unwrap();
    let status = filter.wait().unwrap();
    assert!(status.success(), "{}", fs::read_to_string(dir.path("child.log")).unwrap());
    let played = player.wait_with_output().unwrap();
    let doubled = Gain::new(2.0).of(&sound);
    assert!(played.status.success() && played.stdout == doubled, "{} bytes", played.stdout.len());
    await_nothing(&server);
}

#[test]
#[ignore = "child of a_filter_in_rust_reads_and_pours_in_shared_memory"]
fn the_filter_in_rust() {
    let (mut tap, streams) = Client::inherit_tap().unwrap();
    let mut pour = Client::inherit_pour_from(io::stderr().as_fd()).unwrap();
    assert_eq!((&*pour.wanted.name, &*pour.wanted.content_type), ("loud", "audio/L16"));
    assert!(matches!(Client::inherit_tap(), Err(ClientError::NotInherited(_))), "taken once");
    assert!(matches!(Client::inherit_pour_from(io::stderr().as_fd()), Err(ClientError::NotInherited(_))));
    // Neither the connections nor memories are inherited by what the filter starts.
    let mut input = Vec::new();
    assert_eq!(io::stdin().read_to_end(&mut input).unwrap(), 0, "standard input is empty");
    let listed = Command::new("ls").args(["-l", "/proc/self/fd"]).stderr(Stdio::null()).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("/dev/null"), "{listed}");
    assert!(!listed.contains("socket:") && !listed.contains("memfd:"), "{listed}");
    let mut gain = Gain::new(2.0);
    while tap.state(&streams).pop().flatten().is_some_and(|state| state.ending.is_none()) {
        for held in tap.read(&streams, true).unwrap() {
            let mut sound = Vec::new();
            tap.copy(&held, &mut sound);
            tap.give_back(held.stream, 1).unwrap();
            pour.client.put(pour.stream, &gain.of(&sound)).unwrap();
        }
    }
    assert_eq!(tap.state(&streams).pop().flatten().unwrap().ending, Some(Ending::Complete));
    pour.client.end_pour(pour.stream).unwrap();
}

#[test]
fn the_process_its_signals_and_its_exit_code_are_those_of_the_filter() {
    let dir = TestDir::with_volume();
    let server = serving(&dir);
    let run = |script: &str| {
        let tap = ["tap", "--mapped", "short", "--", env!("CARGO_BIN_EXE_reel")];
        let pour = ["pour", "--mapped", "again", "--rate", "4M", "--quiet", "--", "sh", "-c", script];
        let child = dir.command(&tap).args(pour).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id().to_string();
        (pid, child.wait_with_output().unwrap())
    };
    let (pid, ended) = run("echo $$ >&2; exit 7");
    assert_eq!((ended.status.code(), said(&ended).trim()), (Some(7), &*pid));
    await_nothing(&server);
    // Reel ignores this signal; a filter is killed by it unless it wants otherwise.
    let (_, ended) = run("kill -PIPE $$; sleep 1");
    assert_eq!(ended.status.signal(), Some(Signal::PIPE.as_raw()), "{}", said(&ended));
    // The two sockets are all that a filter inherits.
    let (_, ended) = run("ls -l /proc/$$/fd >&2");
    assert_eq!(said(&ended).matches("socket:").count(), 2, "{}", said(&ended));
    assert!(!said(&ended).contains("memfd:"), "{}", said(&ended));
    await_nothing(&server);
}

#[test]
fn what_is_refused_is_said_by_the_command_and_no_filter_runs() {
    let dir = TestDir::with_volume();
    let touch = |before: &[&str]| dir.reel(&[before, &["--", "touch", "ran"]].concat());
    touch(&["tap", "--mapped", "short"]).refused(3, &["reel.sock", "--programs-socket"]);
    let server = serving(&dir);
    touch(&["tap", "--mapped", "nothing"]).refused(3, &["there is no title nothing"]);
    touch(&["tap", "--mapped", "short", "nothing"]).refused(3, &["there is no title nothing"]);
    touch(&["tap", "--mapped", "short", "--class", "unknown"]).refused(1, &["no class unknown"]);
    touch(&["tap", "--mapped", "short", "--from", "99999999999"]).refused(1, &["ends after"]);
    touch(&["pour", "--mapped", "Studio", "--rate", "5M"])
        .refused(1, &["cannot be the name of a poured stream"]);
    touch(&["pour", "--mapped", "studio", "--rate", "5M", "--delay", "1h"]).refused(1, &["the delay"]);
    touch(&["tap", "--mapped", "short", "--stats"]).refused(2, &["--stats", "--mapped"]);
    touch(&["tap", "short"]).refused(2, &["--mapped"]);
    let many = ["short"; 17];
    touch(&[&["tap", "--mapped"], &many[..]].concat()).refused(2, &["16 streams at most"]);
    assert!(!dir.path("ran").exists());
    dir.reel(&["tap", "--mapped", "short"])
        .refused(2, &["needs a program", "reel tap --mapped TITLE -- FILTER"]);
    dir.reel(&["pour", "--mapped", "studio", "--rate", "5M"])
        .refused(2, &["needs a program", "reel pour --mapped NAME --rate RATE -- FILTER"]);
    dir.reel(&["tap", "short", "short"]).refused(2, &["several titles", "--mapped"]);
    dir.reel(&["tap", "--mapped", "short", "--", "./none"]).refused(3, &["cannot run ./none"]);
    let pour = ["pour", "--mapped", "studio", "--rate", "5M", "--quiet", "--"];
    dir.reel(&[&pour[..], &["./none"]].concat()).refused(3, &["cannot run ./none"]);
    await_nothing(&server);
    // The name is free, and is taken while a filter runs.
    let mut filter = dir.command(&[&pour[..], &["sleep", "1000"]].concat()).spawn().unwrap();
    await_metric(&server, "reel_pours 1");
    touch(&["pour", "--mapped", "studio", "--rate", "5M"]).refused(1, &["being poured already"]);
    filter.kill().unwrap();
    filter.wait().unwrap();
    await_nothing(&server);
}

/// Whether a filter has taken its streams or not, they end with its process.
#[test]
fn a_filter_that_is_killed_leaves_nothing_at_the_server() {
    let dir = TestDir::with_volume();
    let server = serving(&dir);
    meter(&dir);
    let mut source = Client::connect(&dir.path("reel.sock")).unwrap();
    let wanted = PourWanted {
        name: "source".to_owned(),
        content_type: "audio/L16".to_owned(),
        bytes_per_s: 5_000_000,
        workahead_bytes: 100_000,
        delay_ns: 500_000_000,
    };
    let stream = source.pour(wanted).unwrap();
    for program in [&["./meter"][..], &["sleep", "1000"]] {
        let tap = ["tap", "--mapped", "live/source", "--", env!("CARGO_BIN_EXE_reel")];
        let pour = ["pour", "--mapped", "again", "--rate", "40M", "--delay", "500ms", "--quiet", "--"];
        let mut filter = dir.command(&tap).args(pour).args(program).spawn().unwrap();
        await_metric(&server, "reel_pours 2");
        let url = format!("http://{}/live/again", server.address());
        let player = Command::new("curl").args(["-sf", &url]).stdout(Stdio::piped()).spawn().expect("curl");
        await_metric(&server, "reel_pour_viewers 2");
        if program[0] == "./meter" {
            let before = poured_bytes(&server);
            source.put(stream, &[7; 1000]).unwrap();
            let begun = Instant::now();
            while poured_bytes(&server) < before + 2000 {
                assert!(begun.elapsed() < PATIENCE, "the filter pours nothing");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        kill_process(Pid::from_child(&filter), Signal::KILL).unwrap();
        assert_eq!(filter.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
        let played = player.wait_with_output().unwrap();
        assert!(!played.status.success(), "its viewer is cut off");
        await_metric(&server, "reel_pours 1");
        await_metric(&server, "reel_program_streams 0");
    }
    source.end_pour(stream).unwrap();
}

fn poured_bytes(server: &Running) -> u64 {
    let page = server.text("/metrics");
    let line = page.lines().find_map(|line| line.strip_prefix("reel_pour_bytes_total "));
    line.unwrap().parse::<f64>().unwrap() as u64
}

/// A program that does not know what it has inherited gets the end, or cannot write. Nothing waits.
#[test]
fn a_filter_without_the_library_ends_at_once() {
    let dir = TestDir::with_volume();
    let server = serving(&dir);
    let read = dir.command(&["tap", "--mapped", "short", "--", "cat"]).output().unwrap();
    assert!(read.status.success() && read.stdout.starts_with(b"RLMS") && read.stdout.len() < 100);
    await_nothing(&server);
    let pour = ["pour", "--mapped", "again", "--rate", "4M", "--quiet", "--", "cat", "reel.toml"];
    fs::write(dir.path("reel.toml"), "# some text").unwrap();
    let wrote = dir.command(&pour).output().unwrap();
    assert!(!wrote.status.success() && said(&wrote).contains("Broken pipe"), "{}", said(&wrote));
    await_nothing(&server);
}

/// What is no inherited stream, or a forged one, is told in one line.
#[test]
fn a_filter_that_inherits_something_else_says_so() {
    let dir = TestDir::new();
    let meter = meter(&dir);
    let run = |input: Stdio| Command::new(&meter).stdin(input).output().unwrap();
    let fails = |input: Stdio, text: &str| {
        let ended = run(input);
        assert_eq!(ended.status.code(), Some(1), "{text}: {}", said(&ended));
        assert!(said(&ended).contains(text) && said(&ended).lines().count() == 1, "{}", said(&ended));
    };
    let none = "standard input is no stream of `reel tap --mapped`";
    fails(Stdio::null(), none);
    fails(Stdio::piped(), none);
    let (_other, stream) = pair(SocketType::STREAM);
    fails(stream.into(), none);
    let (_open, empty) = pair(SocketType::SEQPACKET);
    fails(empty.into(), none);
    let opened = OpenedStream {
        tag: u64::MAX,
        file_bytes: 1,
        arena_bytes: u64::MAX,
        producer_bytes: 1 << 40,
        consumer_bytes: 4096,
    };
    let opened = Reply::Opened(opened).encode();
    for (message, descriptors, text) in [
        (&b"garbage"[..], 0, "no valid stream"),
        (&opened[..40], 4, "no valid stream"),
        (&opened, 3, "no valid stream"),
        (&opened, 4, "the server's memory cannot be used"),
    ] {
        fails(forged(message, descriptors).into(), text);
    }
}

/// The same of standard output, when standard input is a right one.
#[test]
fn a_filter_that_inherits_a_forged_pour_says_so() {
    let dir = TestDir::with_volume();
    let server = serving(&dir);
    meter(&dir);
    let request = |workahead_bytes| {
        let request = PourRequest {
            tag: u64::MAX,
            name: "studio".to_owned(),
            content_type: "audio/L16".to_owned(),
            bytes_per_s: 1_000_000,
            workahead_bytes,
            delay_ns: 1,
            producer_bytes: workahead_bytes,
        };
        Request::Pour(request).encode().unwrap()
    };
    for (message, descriptors, text) in [
        (b"garbage".to_vec(), 3, "no valid stream"),
        (request(1 << 20)[..70].to_vec(), 3, "no valid stream"),
        (request(1 << 20), 2, "no valid stream"),
        (request(8), 3, "no valid stream"),
        (request(u64::MAX), 3, "no valid stream"),
        (request(1 << 20), 3, "the memory of the stream cannot be used"),
    ] {
        let mut filter = dir.command(&["tap", "--mapped", "short", "--", "./meter"]);
        let filter = filter.stdout(forged(&message, descriptors)).stderr(Stdio::piped()).spawn().unwrap();
        let ended = filter.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(1), "{text}: {}", said(&ended));
        assert!(said(&ended).contains(text) && said(&ended).lines().count() == 1, "{}", said(&ended));
    }
    await_nothing(&server);
}

fn pair(kind: SocketType) -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap()
}

/// An inherited socket with this message in it, and so many descriptors that are no memory.
fn forged(message: &[u8], descriptors: usize) -> OwnedFd {
    let (own, inherited) = pair(SocketType::SEQPACKET);
    let files: Vec<_> = (0..descriptors).map(|_| fs::File::open("/dev/null").unwrap()).collect();
    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    assert!(say(&own, message, &files).unwrap());
    inherited
}
