//! A server over a member whose file system is frozen: its writes hang in the kernel.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use reel_testkit::http::exchange;
use rustix::process::{Pid, Signal, kill_process};

use crate::cli::films::short;
use crate::cli::rig::TestDir;
use crate::cli::serving::Running;
use crate::held_prices::hold_prices_of;

/// Far longer than an answer takes, and shorter than writes hang here.
const ANSWER_TIME: Duration = Duration::from_secs(20);

/// Four times as long as the end of a server may take.
const END_TIME: Duration = Duration::from_secs(60);

/// A file system in a file, mounted. It is unmounted with its value.
pub(crate) struct Mounted(PathBuf);

/// Keeps a file system frozen.
struct Frozen(PathBuf);

impl Mounted {
    /// An ext4 with so many bytes; `None` if this user or kernel has none.
    pub(crate) fn ext4(dir: &TestDir, bytes: u64) -> Option<Mounted> {
        Mounted::of_kind("ext4", dir, bytes)
    }

    /// A file system of a kind that `mkfs` knows, in the directory `mounted`.
    pub(crate) fn of_kind(kind: &str, dir: &TestDir, bytes: u64) -> Option<Mounted> {
        let (image, place) = (dir.path("image"), dir.path("mounted"));
        fs::File::create(&image).unwrap().set_len(bytes).unwrap();
        fs::create_dir(&place).unwrap();
        let made = run(&format!("mkfs.{kind}"), &["-q", "-F"], &[&image])
            .and_then(|()| run("mount", &["-o", "loop"], &[&image, &place]));
        match made {
            Ok(()) => Some(Mounted(place)),
            Err(reason) => {
                println!("skipped: no {kind} can be mounted here: {reason}");
                None
            }
        }
    }

    fn freeze(&self) -> Frozen {
        run("fsfreeze", &["--freeze"], &[&self.0]).unwrap();
        Frozen(self.0.clone())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The kernel may still close what a killed server had open.
        let begun = Instant::now();
        while run("umount", &[], &[&self.0]).is_err() && begun.elapsed() < END_TIME {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = run("fsfreeze", &["--unfreeze"], &[&self.0]);
    }
}

fn run(command: &str, arguments: &[&str], paths: &[&Path]) -> Result<(), String> {
    let output = Command::new(command).args(arguments).args(paths).output();
    let output = output.map_err(|error| format!("{command}: {error}"))?;
    let said = || format!("{command}: {}", String::from_utf8_lossy(&output.stderr).trim());
    if output.status.success() { Ok(()) } else { Err(said()) }
}

/// Asserts that requests for these paths are answered.
fn assert_answers(address: SocketAddr, paths: &[&'static str]) {
    for &path in paths {
        let (sender, receiver) = channel();
        std::thread::spawn(move || sender.send(exchange(address, "GET", path, None).is_ok()));
        assert!(receiver.recv_timeout(ANSWER_TIME).unwrap_or(false), "{path} is not answered");
    }
}

/// Waits until a process has called exit. It stays a zombie while the kernel keeps a thread of it.
fn await_exit(pid: Pid) {
    let begun = Instant::now();
    let status = format!("/proc/{}/status", pid.as_raw_nonzero());
    while !fs::read_to_string(&status).unwrap().contains("\nState:\tZ") {
        assert!(begun.elapsed() < END_TIME, "the server does not call exit");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A volume with a title, and one member on a file system that can be frozen.
fn volume_on(dir: &TestDir) {
    let members = ["a.reel", "b.reel", "c.reel", "mounted/d.reel"].map(|name| dir.path(name));
    let paths = members.iter().map(|path| path.to_str().unwrap());
    let create = ["volume", "create", "volume", "--size", "160M", "--members"];
    dir.reel(&create.into_iter().chain(paths).collect::<Vec<_>>()).done();
    hold_prices_of(&dir.path("volume"), &members);
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
}

#[test]
fn a_server_ends_while_the_writes_of_a_member_hang_that_it_starts_with() {
    let dir = TestDir::new();
    let Some(mounted) = Mounted::ext4(&dir, 128 << 20) else { return };
    volume_on(&dir);
    let frozen = mounted.freeze();
    let mut command = dir.command(&["serve", "volume", "--listen", "127.0.0.1:0"]);
    let mut server = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(server.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("waiting for a member to answer") || !line.contains("d.reel") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended");
    }
    let pid = Pid::from_child(&server);
    kill_process(pid, Signal::TERM).unwrap();
    await_exit(pid);
    drop(frozen);
    assert_eq!(server.wait().unwrap().code(), Some(1));
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("SIGTERM: stopping") && rest.contains("thaw its file system"), "{rest}");
    dir.reel(&["volume", "check", "volume"]).done();
}

#[test]
fn a_server_answers_and_ends_while_the_writes_of_a_member_hang() {
    let dir = TestDir::new();
    let Some(mounted) = Mounted::ext4(&dir, 128 << 20) else { return };
    volume_on(&dir);
    dir.reel(&["volume", "create", "other", "--size", "200M"]).done();
    let mut server = Running::start(&dir, &["serve", "volume", "--listen", "127.0.0.1:0"]);
    let address = server.address();
    let mut kept_open = TcpStream::connect(address).unwrap();
    kept_open.write_all(b"GET /healthz HTTP/1.1\r\nHost: reel\r\n\r\n").unwrap();
    kept_open.read_exact(&mut [0; 15]).unwrap();

    let frozen = mounted.freeze();
    // Its commit hangs.
    let removing = std::thread::spawn(move || exchange(address, "DELETE", "/api/v1/titles/short", None));
    for _ in 0..3 {
        assert_answers(address, &["/readyz", "/metrics", "/healthz", "/api/v1/volume", "/api/v1/titles"]);
        assert_answers(address, &["/api/v1/jobs", "/api/v1/capacity", "/dashboard", "/"]);
        std::thread::sleep(Duration::from_millis(500));
    }

    kill_process(server.pid(), Signal::TERM).unwrap();
    kept_open.set_read_timeout(Some(END_TIME)).unwrap();
    match kept_open.read_to_end(&mut Vec::new()) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    await_exit(server.pid());
    let _ = removing.join().unwrap();
    drop(TcpListener::bind(address).unwrap());
    let other = Running::start(&dir, &["serve", "other", "--listen", &address.to_string()]);
    assert_eq!(other.get("/healthz").head.status, 200);

    drop(frozen);
    assert_eq!(server.ended(), Some(1));
    let said = server.said();
    assert!(said.contains("has not answered writes") && said.contains("d.reel"), "{said}");
    dir.reel(&["volume", "check", "volume"]).done();
}
