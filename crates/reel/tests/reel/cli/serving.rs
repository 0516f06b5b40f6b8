//! Servers are started, refused and stopped.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::cli::films::{large, short};
use crate::cli::rig::{PATIENCE, TestDir};
use crate::media_memory;
use reel_testkit::Url;
use reel_testkit::http::{Response, exchange};

/// A server that is killed when the test ends, for whatever reason.
pub(crate) struct Running {
    child: Child,
    address: SocketAddr,
    line: String,
}

impl Running {
    /// A server with little media memory, unless the arguments name a configuration.
    pub(crate) fn start(dir: &TestDir, arguments: &[&str]) -> Self {
        let mut command = dir.command(arguments);
        if arguments[0] == "serve" {
            command.args(media_memory::little(arguments));
        }
        Self::launch(command)
    }

    pub(crate) fn launch(command: Command) -> Self {
        Self::launch_with_log(command, Stdio::piped())
    }

    /// As [`Running::launch`], with this standard error.
    pub(crate) fn launch_with_log(mut command: Command, stderr: impl Into<Stdio>) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (say, said) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = stdout.read_line(&mut line).and_then(|_| say.send(line).map_err(std::io::Error::other));
        });
        let line = said.recv_timeout(PATIENCE).unwrap_or_default();
        let address = line
            .split("http://")
            .nth(1)
            .and_then(|rest| rest.split('/').next())
            .and_then(|text| text.parse().ok());
        let Some(address) = address else {
            let _ = child.kill();
            let mut said = String::new();
            child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
            panic!("no server: {line}{said}");
        };
        Self { child, address, line }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        self.try_get(path).expect("an answer")
    }

    /// As [`Running::get`], for a server that may end meanwhile.
    pub(crate) fn try_get(&self, path: &str) -> Option<Response> {
        exchange(self.address, "GET", path, None).ok()
    }

    /// The text that a request is answered with.
    pub(crate) fn text(&self, path: &str) -> String {
        self.get(path).text().unwrap().to_owned()
    }

    /// The target of the redirect of a request.
    pub(crate) fn location(&self, path: &str) -> String {
        let head = self.get(path).head;
        let location = head.field("Location").unwrap_or_else(|| panic!("no redirect: {}", head.text));
        let asked = Url::parse(&format!("http://reel{path}")).unwrap();
        asked.join(location).unwrap().target
    }

    /// Sends a signal and waits for the end; returns the exit code.
    pub(crate) fn signal(&mut self, signal: rustix::process::Signal) -> Option<i32> {
        rustix::process::kill_process(self.pid(), signal).unwrap();
        self.ended()
    }

    /// Its standard error, once it has ended.
    pub(crate) fn said(&mut self) -> String {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }

    /// Waits for the end; returns the exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "the server does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_prints_its_address_and_stops_on_a_signal() {
    use rustix::process::Signal;
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Running::start(&dir, &["serve", "volume", "--listen", "127.0.0.1:0"]);
        assert!(server.line.starts_with("serving 1 titles at http://127.0.0.1:"), "{}", server.line);
        assert_eq!(server.get("/healthz").head.status, 200);
        assert!(server.text("/api/v1/titles").contains("\"short\""));
        assert_eq!(server.signal(signal), Some(0));
    }
    // The lock is released with the server.
    dir.reel(&["remove", "volume", "short"]).done();
}

/// A request for the control plane may follow one for media in the same packet: the socket is
/// handed over in between.
#[test]
fn requests_sent_together_are_all_answered() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    let mut server = Running::start(&dir, &["serve", "volume", "--listen", "127.0.0.1:0"]);
    let mut socket = TcpStream::connect(server.address).unwrap();
    let media = "HEAD /files/short.mp4 HTTP/1.1\r\nHost: reel\r\n\r\n";
    let control = "GET /healthz HTTP/1.1\r\nHost: reel\r\n\r\n";
    socket.write_all(format!("{media}{media}{control}").as_bytes()).unwrap();
    let mut responses = String::new();
    socket.read_to_string(&mut responses).unwrap();
    assert_eq!(responses.matches("HTTP/1.1 200 OK\r\n").count(), 3, "{responses}");
    assert!(responses.ends_with("ok\n"), "{responses}");
    assert_eq!(server.signal(rustix::process::Signal::TERM), Some(0));
}

/// `timeout` and other programs send a signal to the process and to its group. A person would take
/// longer to repeat it.
#[test]
fn a_signal_that_arrives_twice_at_once_counts_once() {
    use rustix::process::{Pid, Signal, kill_process};
    let dir = TestDir::new();
    dir.create_volume(&["--size", "400M"]);
    dir.reel(&["ingest", "volume", large().to_str().unwrap(), "--name", "large"]).done();
    let mut server = Running::start(&dir, &["serve", "volume", "--listen", "127.0.0.1:0"]);
    // An unfinished response keeps the server from ending before the second signal.
    let mut viewer = TcpStream::connect(server.address).unwrap();
    viewer.write_all(b"GET /files/large.mp4 HTTP/1.0\r\n\r\n").unwrap();
    viewer.read_exact(&mut [0; 1000]).unwrap();
    kill_process(Pid::from_child(&server.child), Signal::INT).unwrap();
    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    std::thread::spawn(move || viewer.read_to_end(&mut Vec::new()));
    assert_eq!(server.ended(), Some(0));
}

#[test]
fn a_volume_has_one_owner() {
    let dir = TestDir::with_volume();
    let server = Running::start(&dir, &["serve", "volume", "--listen", "127.0.0.1:0"]);
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).refused(1, &["in use"]);
    dir.reel(&["serve", "volume", "--listen", "127.0.0.1:0"]).refused(1, &["in use"]);
    dir.reel(&["volume", "scrub", "volume"]).refused(1, &["in use", "POST /api/v1/volume/scrub"]);
    dir.reel(&["volume", "rebuild", "volume"]).refused(1, &["in use", "POST /api/v1/volume/rebuild"]);
    dir.reel(&["volume", "replace", "volume", "1", "new"])
        .refused(1, &["in use", "POST /api/v1/volume/replace"]);
    assert_eq!(server.get("/healthz").head.status, 200);
}

/// A disk that was late at one start is in use again soon after the next one, by itself.
#[test]
fn a_member_that_was_late_is_brought_back_by_the_next_server() {
    let dir = TestDir::new();
    dir.create_volume(&["--size", "400M"]);
    dir.reel(&["ingest", "volume", large().to_str().unwrap(), "--name", "before"]).done();
    let (member, aside) = (dir.path("volume/member-2.reel"), dir.path("aside"));
    fs::rename(&member, &aside).unwrap();
    dir.reel(&["ingest", "volume", short().to_str().unwrap(), "--name", "after"]).done();
    fs::rename(&aside, &member).unwrap();
    let status = dir.reel(&["volume", "status", "volume", "--json"]).json();
    assert_eq!(status["members"][2]["state"], "stale");

    let mut server = Running::start(&dir, &["serve", "volume", "--listen", "127.0.0.1:0"]);
    let begun = Instant::now();
    while !server.text("/api/v1/volume").contains("\"state\":\"ok\"") {
        assert!(begun.elapsed() < Duration::from_secs(120), "{}", server.text("/api/v1/jobs"));
        std::thread::sleep(Duration::from_millis(50));
    }
    // The member is in use a moment before the job that did it has ended.
    while !server.text("/api/v1/jobs").contains("member 2 is in use (it was missing for a while") {
        assert!(begun.elapsed() < Duration::from_secs(120), "{}", server.text("/api/v1/jobs"));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(server.signal(rustix::process::Signal::TERM), Some(0));
    dir.reel(&["volume", "check", "volume"]).done();

    // Without a server a command does it.
    fs::rename(&member, &aside).unwrap();
    dir.reel(&["remove", "volume", "after"]).done();
    dir.reel(&["ingest", "volume", short().to_str().unwrap(), "--name", "again"]).done();
    fs::rename(&aside, &member).unwrap();
    let report = dir.reel(&["volume", "rebuild", "volume", "--json"]).done().json();
    assert!(report["unchanged_bytes"].as_u64() > report["written_bytes"].as_u64(), "{report}");
    dir.reel(&["volume", "check", "volume"]).done();
}

#[test]
fn a_port_in_use_is_named() {
    let dir = TestDir::with_volume();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    dir.reel(&["serve", "volume", "--listen", &address])
        .refused(1, &[&address, "another program", "--listen"]);
    dir.reel(&["serve", "volume", "--listen", "203.0.113.1:80"])
        .refused(1, &["203.0.113.1:80", "no such address"]);
}

/// A film in the watched directory that was last modified long ago, so that it is complete.
fn arrive(dir: &TestDir, name: &str, modified_unix_s: u64) {
    let path = dir.path(&format!("incoming/{name}"));
    fs::copy(short(), &path).unwrap();
    let modified = std::time::UNIX_EPOCH + Duration::from_secs(modified_unix_s);
    fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
}

#[test]
fn films_in_the_watched_directory_are_ingested() {
    let dir = TestDir::with_volume();
    fs::create_dir(dir.path("incoming")).unwrap();
    let server = Running::start(&dir, &["serve", "volume", "--listen", "127.0.0.1:0", "--watch", "incoming"]);
    arrive(&dir, "arrival.mp4", 1_000_000_000);
    let begun = Instant::now();
    while !server.text("/api/v1/titles").contains("\"arrival\"") {
        assert!(begun.elapsed() < Duration::from_secs(120), "the film is not ingested");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_removed_title_is_not_ingested_again_from_the_watched_directory() {
    let dir = TestDir::with_volume();
    fs::create_dir(dir.path("incoming")).unwrap();
    let taken = |id: &str| {
        let mut server =
            Running::start(&dir, &["serve", "volume", "--listen", "127.0.0.1:0", "--watch", "incoming"]);
        let begun = Instant::now();
        while !server.text("/api/v1/titles").contains(&format!("\"{id}\"")) {
            assert!(begun.elapsed() < Duration::from_secs(120), "{id} is not ingested");
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(server.signal(rustix::process::Signal::TERM), Some(0));
        server.said()
    };
    arrive(&dir, "first.mp4", 1_000_000_000);
    taken("first");
    dir.reel(&["remove", "volume", "first"]).done();
    // Files are ingested one after the other, in the order of their names.
    arrive(&dir, "second.mp4", 1_000_000_000);
    let said = taken("second");
    assert_eq!(dir.titles(), ["second"]);
    assert!(said.contains("touch the file to have it ingested again"), "{said}");
    arrive(&dir, "first.mp4", 1_000_000_005);
    taken("first");
}

#[test]
fn a_killed_server_leaves_a_volume_that_opens() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    let mut server = Running::start(&dir, &["serve", "volume", "--listen", "127.0.0.1:0"]);
    server.signal(rustix::process::Signal::KILL);
    assert_eq!(dir.titles(), ["short"]);
    dir.reel(&["volume", "check", "volume"]).done();
}

#[test]
fn a_player_continues_after_its_server_was_killed() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    let serve = ["serve", "volume", "--listen", "127.0.0.1:0"];
    let mut server = Running::start(&dir, &serve);
    let playlist = server.location("/watch/short/master.m3u8");
    let folder = playlist.strip_suffix("master.m3u8").unwrap().to_owned();
    let segment = |server: &Running| server.get(&format!("{folder}0/1.m4s")).head.status;
    assert_eq!(segment(&server), 200);
    let kept = dir.path("volume/sessions");
    let key = folder.trim_matches('/').rsplit('/').next().unwrap().to_owned();
    let begun = Instant::now();
    while !fs::read_to_string(&kept).is_ok_and(|text| text.contains(&key)) {
        assert!(begun.elapsed() < Duration::from_secs(120), "the session is not kept");
        std::thread::sleep(Duration::from_millis(20));
    }
    server.signal(rustix::process::Signal::KILL);
    let server = Running::start(&dir, &serve);
    assert_eq!(segment(&server), 200);
}

#[test]
fn the_portable_driver_serves_the_same() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    fs::write(
        dir.path("reel.toml"),
        "volume = \"volume\"\nlisten = \"127.0.0.1:0\"\narena_bytes = \"64M\"\nexperimental.driver = \"portable\"\n",
    )
    .unwrap();
    let server = Running::start(&dir, &["serve", "--config", "reel.toml"]);
    let playlist = server.text(&server.location("/watch/short/master.m3u8"));
    assert!(playlist.contains("#EXTM3U"), "{playlist}");
}

#[test]
fn requests_are_logged_if_configured() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    for (access, format) in [(true, "json"), (false, "text")] {
        let log = format!("arena_bytes = \"64M\"\n[log]\naccess = {access}\nformat = \"{format}\"\n");
        fs::write(dir.path("reel.toml"), format!("volume = \"volume\"\nlisten = \"127.0.0.1:0\"\n{log}"))
            .unwrap();
        let mut server = Running::start(&dir, &["serve", "--config", "reel.toml"]);
        let mut stderr = server.child.stderr.take().unwrap();
        assert_eq!(server.get("/files/short.mp4").head.status, 200);
        assert_eq!(server.get("/healthz").head.status, 200);
        assert_eq!(server.signal(rustix::process::Signal::TERM), Some(0));
        let mut logged = String::new();
        stderr.read_to_string(&mut logged).unwrap();
        for path in ["/files/short.mp4", "/healthz"] {
            assert_eq!(logged.contains(path), access, "{logged}");
        }
        assert!(logged.contains("memory at most: ") && logged.contains(" if all limits"), "{logged}");
        let is_json = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
        assert!(
            logged.lines().count() > 0 && logged.lines().all(|line| is_json(line) == (format == "json")),
            "{logged}"
        );
    }
}

#[test]
fn the_demo_serves_the_films_of_a_directory() {
    let dir = TestDir::new();
    fs::create_dir(dir.path("my films")).unwrap();
    dir.reel(&["demo", "--media", "my films", "--listen", "127.0.0.1:0"])
        .refused(3, &["no film in my films"]);
    fs::copy(short(), dir.path("my films/one.mp4")).unwrap();
    for titles in [&["one"][..], &["one", "two"]] {
        let server = Running::start(&dir, &["demo", "--media", "my films", "--listen", "127.0.0.1:0"]);
        assert!(server.line.starts_with(&format!("serving {} titles", titles.len())), "{}", server.line);
        let listed = server.text("/api/v1/titles");
        assert!(titles.iter().all(|id| listed.contains(&format!("\"{id}\""))), "{listed}");
        drop(server);
        // In the second run the first film is known already.
        fs::copy(short(), dir.path("my films/two.mp4")).unwrap();
    }
}
