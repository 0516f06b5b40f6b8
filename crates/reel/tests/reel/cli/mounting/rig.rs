//! A server with a film, and its tree.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::cli::films::short;
use crate::cli::rig::{Outcome, PATIENCE, TestDir};
use crate::cli::serving::Running;

/// A server with two films.
pub(super) fn serving() -> (TestDir, Running) {
    let dir = TestDir::with_volume();
    let film = short();
    dir.reel(&["ingest", "volume", film.to_str().unwrap(), "--name", "Der Film – 映画"]).done();
    dir.reel(&["ingest", "volume", film.to_str().unwrap(), "--name", "../../etc/passwd"]).done();
    let server = Running::start(&dir, &["serve", "volume", "--listen", "127.0.0.1:0"]);
    (dir, server)
}

/// The arguments with which a server is mounted on the directory `tree`. Answers have the longest
/// time, so that none is late on a busy machine.
pub(super) fn arguments(server: &Running) -> [String; 6] {
    ["mount", "tree", "--of", &format!("http://{}", server.address()), "--timeout", "60s"].map(str::to_owned)
}

/// A mounted tree. Its program is killed when the test ends.
pub(super) struct Mount {
    child: Child,
    path: PathBuf,
}

impl Mount {
    /// Mounts on the directory `tree`, which is made if it does not exist.
    pub(super) fn of(dir: &TestDir, server: &Running) -> Mount {
        Mount::with(dir, &arguments(server))
    }

    /// The same with these arguments.
    pub(super) fn with(dir: &TestDir, arguments: &[String; 6]) -> Mount {
        let _ = fs::create_dir(dir.path("tree"));
        Mount::launch(dir.command(&arguments.each_ref().map(String::as_str)), dir.path("tree"))
    }

    /// Runs a command that mounts on a path, and waits until it says that it is done.
    pub(super) fn launch(mut command: Command, path: PathBuf) -> Mount {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (say, said) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = stdout.read_line(&mut line).and_then(|_| say.send(line).map_err(io::Error::other));
        });
        let line = said.recv_timeout(PATIENCE).unwrap_or_default();
        let mount = Mount { child, path };
        if !line.contains(" is mounted on ") {
            panic!("nothing is mounted: {line}{}", mount.signal(Signal::KILL).stderr);
        }
        mount
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Shells that are installed say this and nothing else when they run a script in the tree.
    pub(super) fn assert_three_shells_say(&self, script: &str, expected: &str) {
        for shell in [&["bash"][..], &["dash"], &["busybox", "sh"]] {
            if !is_installed(shell[0]) {
                continue;
            }
            let mut command = Command::new(shell[0]);
            let output =
                command.args(&shell[1..]).args(["-c", script]).current_dir(&self.path).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            let complained = String::from_utf8_lossy(&output.stderr);
            assert_eq!((&*said, &*complained), (expected, ""), "{shell:?}");
        }
    }

    /// The text of a file, or the error number of what failed.
    pub(super) fn text(&self, file: &str) -> Result<String, i32> {
        fs::read_to_string(self.path.join(file)).map_err(|error| error.raw_os_error().expect("of the kernel"))
    }

    /// Waits until a file can be read.
    pub(super) fn await_text(&self, file: &str) {
        self.await_that(file, |_| true);
    }

    /// Waits until a file has a text of this kind.
    pub(super) fn await_that(&self, file: &str, is_wanted: impl Fn(&str) -> bool) {
        self.await_result(file, |result| result.as_deref().is_ok_and(&is_wanted));
    }

    /// Waits until a file gives a text or an error number of this kind.
    pub(super) fn await_result(&self, file: &str, is_wanted: impl Fn(&Result<String, i32>) -> bool) {
        let begun = Instant::now();
        loop {
            let result = self.text(file);
            if is_wanted(&result) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{file} gives {result:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a signal, and waits for the end.
    pub(super) fn signal(self, signal: Signal) -> Outcome {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.ended()
    }

    /// Waits for the end.
    pub(super) fn ended(mut self) -> Outcome {
        let begun = Instant::now();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(begun.elapsed() < PATIENCE, "it does not end"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        Outcome { code: status.code(), stdout: String::new(), stderr }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a path is a mount point.
pub(super) fn is_mounted(path: &Path) -> bool {
    let path = path.to_str().unwrap();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == Some(path))
}

/// Runs a program that has to succeed.
pub(super) fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Whether a program is installed; the output says so if it is not.
pub(super) fn is_installed(program: &str) -> bool {
    let output = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
    if !output.status.success() {
        println!("skipped: {program} is not installed");
    }
    output.status.success()
}
