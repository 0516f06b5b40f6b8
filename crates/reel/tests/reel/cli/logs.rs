//! A log that cannot be written neither ends nor holds a server: a full disk, a reader that is
//! gone, and one that stands still.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use reel_testkit::free_address;
use reel_testkit::http::{Client, exchange};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};

use crate::cli::films::short;
use crate::cli::rig::TestDir;
use crate::cli::serving::Running;

/// A volume with one film, and a configuration that logs every request.
fn site() -> TestDir {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    let config = "arena_bytes = \"64M\"\nvolume = \"volume\"\nlisten = \"127.0.0.1:0\"\nlog.access = true\n";
    fs::write(dir.path("reel.toml"), config).unwrap();
    dir
}

fn serve(dir: &TestDir, stderr: impl Into<Stdio>) -> Running {
    Running::launch_with_log(dir.command(&["serve", "--config", "reel.toml"]), stderr)
}

fn disk_that_is_full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

fn pipe_without_reader() -> PipeWriter {
    std::io::pipe().unwrap().1
}

/// A pipe that takes no byte more, and its other end.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'\n'; 4096]).is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

/// Lines of the log that were dropped so far.
fn dropped(server: &Running) -> u64 {
    let page = server.text("/metrics");
    let value = page.lines().find_map(|line| line.strip_prefix("reel_log_lines_dropped_total "));
    value.unwrap_or_else(|| panic!("{page}")).parse().unwrap()
}

/// Requests for media over one connection, each with this name of a program.
fn ask_for_media(server: &Running, count: usize, agent: &str) {
    let mut client = Client::connect(server.address()).unwrap();
    let fields = format!("Host: reel\r\nRange: bytes=0-0\r\nUser-Agent: {agent}\r\n");
    for _ in 0..count {
        client.request("GET /files/short.mp4 HTTP/1.1", &fields).unwrap();
        let head = client.head().unwrap();
        assert_eq!((head.status, client.body(&head).unwrap().len()), (206, 1));
    }
}

/// Media, pages, API and signals are answered; the end comes in order and in time.
fn continues_to_its_end(mut server: Running) {
    ask_for_media(&server, 20, "test");
    for path in ["/", "/healthz", "/api/v1/titles", "/files/short.mp4"] {
        let answer = server.get(path);
        assert_eq!(answer.head.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
    }
    let before = dropped(&server);
    kill_process(server.pid(), Signal::HUP).unwrap();
    // Each question for the count is a line, too; the signal is one more.
    let (mut asked, begun) = (1, Instant::now());
    while dropped(&server) <= before + asked {
        assert!(begun.elapsed() < Duration::from_secs(60), "the signal is not in the count");
        asked += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    ask_for_media(&server, 1, "test");
    assert_eq!(server.signal(Signal::TERM), Some(0));
}

#[test]
fn a_server_whose_log_is_on_a_full_disk_serves_on_and_counts_lines() {
    continues_to_its_end(serve(&site(), disk_that_is_full()));
}

#[test]
fn a_server_whose_log_has_no_reader_any_more_serves_on_and_counts_lines() {
    continues_to_its_end(serve(&site(), pipe_without_reader()));
}

/// More than the lines that may wait: 2 MiB.
fn overfill(server: &Running) {
    let agent = "x".repeat(3000);
    for _ in 0..20 {
        ask_for_media(server, 100, &agent);
        if dropped(server) > 0 {
            return;
        }
    }
    panic!("no line is dropped");
}

#[test]
fn a_server_whose_log_stands_still_starts_serves_and_ends() {
    let (_unread, log) = full_pipe();
    let server = serve(&site(), log);
    overfill(&server);
    continues_to_its_end(server);
}

#[test]
fn a_log_that_is_read_again_says_how_many_lines_it_lost_and_has_the_last_one() {
    let dir = site();
    let (reader, log) = full_pipe();
    let mut server = serve(&dir, log);
    overfill(&server);
    let mut log = BufReader::new(reader);
    let lost: u64 = loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "the log has ended");
        if let Some((before, _)) = line.split_once(" lines of the log were dropped") {
            break before.rsplit(' ').next().unwrap().parse().unwrap();
        }
    };
    assert_eq!(dropped(&server), lost);
    assert_eq!(server.signal(Signal::TERM), Some(0));
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("SIGTERM: stopping") && rest.trim().ends_with("stopped"), "{rest}");
}

/// What a server prints on standard output is for people. There may be no reader.
#[test]
fn a_server_needs_no_reader_of_its_standard_output() {
    let dir = site();
    let (_unread, full) = full_pipe();
    for stdout in [Stdio::from(disk_that_is_full()), pipe_without_reader().into(), full.into()] {
        let address = free_address();
        let mut command = dir.command(&["serve", "--config", "reel.toml", "--listen", &address.to_string()]);
        let mut child = command.stdout(stdout).stderr(Stdio::null()).spawn().unwrap();
        await_health(address);
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

fn await_health(address: SocketAddr) {
    let begun = Instant::now();
    while exchange(address, "GET", "/healthz", None).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the server does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn commands_do_their_work_without_a_reader_of_their_messages() {
    let dir = site();
    for stderr in [Stdio::from(disk_that_is_full()), pipe_without_reader().into()] {
        let removed = dir.command(&["remove", "volume", "short"]).stderr(stderr).status().unwrap();
        assert_eq!(removed.code(), Some(0));
        dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    }
    for (stdout, code) in [(Stdio::from(pipe_without_reader()), 0), (disk_that_is_full().into(), 1)] {
        let mut command = dir.command(&["titles", "volume"]);
        let status = command.stdout(stdout).stderr(pipe_without_reader()).status().unwrap();
        assert_eq!(status.code(), Some(code));
    }
    let missing = dir.command(&["titles", "nothing"]).stderr(disk_that_is_full()).status().unwrap();
    assert_eq!(missing.code(), Some(3));
}
