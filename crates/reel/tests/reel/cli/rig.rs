//! Runs commands to their end, each in a temporary directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::held_prices::hold_prices;

/// Longer than any command takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    /// The result of a command that has ended.
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Expects success.
    #[track_caller]
    pub(crate) fn done(self) -> Self {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        self
    }

    /// Expects this exit code, one error message, and every one of these words in it.
    #[track_caller]
    pub(crate) fn refused(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        let errors = self.stderr.lines().filter(|line| line.starts_with("error: ")).count();
        assert_eq!(errors, 1, "one clear message: {}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "no {word:?} in: {}", self.stderr);
        }
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// Its standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}

/// A directory with a volume in it, removed at the end of the test.
pub(crate) struct TestDir {
    dir: TempDir,
}

impl TestDir {
    /// An empty directory on the disk of the build, not in memory.
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    /// An empty directory where the system has its temporary ones, which may be in memory.
    pub(crate) fn in_system_directory() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// An empty directory in memory.
    pub(crate) fn in_memory() -> Self {
        Self { dir: tempfile::tempdir_in("/dev/shm").unwrap() }
    }

    /// A directory with a volume named `volume` of five members with 40 MiB each. What a read of
    /// them takes is the same on every machine.
    pub(crate) fn with_volume() -> Self {
        let dir = Self::new();
        dir.create_volume(&["--size", "200M"]);
        dir
    }

    /// The same with members that were not measured.
    pub(crate) fn with_unmeasured_volume() -> Self {
        let dir = Self::new();
        dir.reel(&["volume", "create", "volume", "--size", "200M"]).done();
        dir
    }

    /// Creates a volume named `volume` with these options. What a read of its members takes is the
    /// same on every machine.
    pub(crate) fn create_volume(&self, options: &[&str]) {
        self.reel(&[&["volume", "create", "volume"], options].concat()).done();
        hold_prices(&self.path("volume"));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs reel in this directory. A command that does not end is killed, and has no exit code.
    pub(crate) fn reel(&self, arguments: &[&str]) -> Outcome {
        Outcome::of(bounded_output(self.command(arguments)))
    }

    /// A command for reel in this directory, not started yet.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reel"));
        command.args(arguments).current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    /// Ids of the titles in the volume.
    pub(crate) fn titles(&self) -> Vec<String> {
        let listed = self.reel(&["titles", "volume", "--json"]).done().json();
        let titles = listed["titles"].as_array().unwrap();
        titles.iter().map(|title| title["id"].as_str().unwrap().to_owned()).collect()
    }

    /// Bytes free in the volume.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.reel(&["volume", "status", "volume", "--json"]).done().json()["free_bytes"].as_u64().unwrap()
    }

    /// Names in this directory, sorted.
    pub(crate) fn names(&self, dir: &str) -> Vec<String> {
        names(&self.path(dir))
    }
}

/// The output of a command, which is killed if it does not end.
fn bounded_output(mut command: Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    let (ended, end) = channel::<()>();
    let watchdog = thread::spawn(move || {
        if end.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(ended);
    watchdog.join().unwrap();
    output
}

/// Names in a directory, sorted.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
