//! A volume, a server, and commands run to their end.

use crate::foreign::films::{FILMS, Film, by_day};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A running `reel serve`. It is stopped with this value or with the test process.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) address: String,
    pid: u32,
    supervisor: Child,
}

/// Films are made once and kept between runs.
pub(crate) fn cache_dir() -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("films");
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// Runs a command that must succeed; returns its standard output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = outcome(command);
    assert!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command to its end, with any result.
pub(crate) fn outcome(command: &mut Command) -> Output {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("cannot run {program}: {error}; scripts/setup test installs it"))
}

/// The binary under test.
pub(crate) fn reel() -> Command {
    Command::new(env!("CARGO_BIN_EXE_reel"))
}

/// A new volume in `dir` with every given film.
pub(crate) fn volume(dir: &Path, films: &[PathBuf]) -> PathBuf {
    let volume = dir.join("volume");
    run(reel().args(["volume", "create"]).arg(&volume).args(["--size", "900M"]));
    for film in films {
        run(reel().arg("ingest").arg(&volume).arg(film));
    }
    volume
}

/// Runs the server as its child and stops it when its own input ends: with the [`Server`], or with
/// the test process, for whatever reason that ends.
const SUPERVISOR: &str = r#"exec 3<&0; "$@" </dev/null & echo $!; cat <&3 >/dev/null; kill $!; wait $!"#;

impl Server {
    /// Serves a volume on a free port.
    pub(crate) fn start(volume: &Path, more: &[&str]) -> Server {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let mut command = Command::new("sh");
        command
            .args(["-c", SUPERVISOR, "sh", env!("CARGO_BIN_EXE_reel"), "serve"])
            .arg(volume)
            .args(["--listen", &address])
            .args(more);
        let mut supervisor = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(supervisor.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let server = Server {
            url: format!("http://{address}"),
            address,
            pid: line.trim().parse().unwrap(),
            supervisor,
        };
        let started = Instant::now();
        while std::net::TcpStream::connect(&server.address).is_err() {
            assert!(started.elapsed() < Duration::from_secs(60), "the server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// The server's process.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        let _ = self.supervisor.wait();
    }
}

/// The server that the tests of the day share, with the films of [`by_day`]. It ends with the test
/// process.
pub(crate) fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| serve("shared-volume", &by_day()))
}

/// The server that the tests of the night share, with every film of [`FILMS`].
pub(crate) fn shared_at_night() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| serve("shared-volume-at-night", &FILMS.iter().collect::<Vec<_>>()))
}

fn serve(directory: &str, films: &[&Film]) -> Server {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(directory);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    let films: Vec<_> = films.iter().map(|film| film.path()).collect();
    Server::start(&volume(&dir, &films), &[])
}
