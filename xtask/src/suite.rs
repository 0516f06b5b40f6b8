//! `cargo xtask test [ARGUMENTS OF CARGO TEST] [-- FILTERS]`: builds test programs, runs two of
//! them at a time, and names the tests that took longest.
//!
//! Each program runs below `xtask run-tests`, with a time limit for each test. Most programs wait
//! most of the time: for disks, sockets and other programs. A test that failed runs again by
//! itself in the end.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::again::{self, Attempt, Failed};
use crate::scratch::Scratch;
use crate::workspace::{self, Package};

/// Test programs that run at once.
const PROGRAMS_AT_ONCE: usize = 2;

/// So many of the tests that took longest are named...
const SLOWEST: usize = 10;

/// ...and all that took longer than this.
const SLOW_MS: u64 = 30_000;

/// A test program that is built.
#[derive(Debug)]
pub(crate) struct TestProgram {
    pub(crate) package: String,
    /// The name of its target: that of the file or directory of tests, or of the crate.
    pub(crate) target: String,
    layer: u64,
    directory: PathBuf,
    executable: PathBuf,
    /// This program, which runs it.
    runner: PathBuf,
}

/// A program that has ended.
struct Ended {
    program: TestProgram,
    arguments: Vec<String>,
    outcome: Attempt,
}

/// Builds what the arguments of `cargo test` select, and runs it.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let mut parts = arguments.splitn(2, |argument| argument == "--");
    let (selection, filters) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let programs = build(root, selection)?;
    ensure!(!programs.is_empty(), "these arguments select no test program");
    let passed = run_all(programs, |_| filters.to_vec())?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds the test programs of a selection of packages and targets.
pub(crate) fn build(root: &Path, selection: &[String]) -> Result<Vec<TestProgram>> {
    // Building may replace this program, and its path is not known afterwards.
    let runner = std::env::current_exe().context("cannot find this program")?;
    let output = workspace::cargo(root)
        .args(["test", "--no-run", "--message-format", "json-render-diagnostics"])
        .args(selection)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "the tests cannot be built");
    let packages = workspace::packages(root)?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut programs: Vec<TestProgram> = messages
        .lines()
        .filter_map(|line| program(&serde_json::from_str(line).ok()?, &packages, root, &runner))
        .collect();
    // The programs of the highest layers test the whole server, and take longest.
    programs.sort_by(|a, b| (b.layer, &a.package, &a.target).cmp(&(a.layer, &b.package, &b.target)));
    Ok(programs)
}

/// The test program that a message of cargo announces.
fn program(message: &Value, packages: &[Package], root: &Path, runner: &Path) -> Option<TestProgram> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let manifest = Path::new(message["manifest_path"].as_str()?).strip_prefix(root).ok()?;
    let package = packages.iter().find(|package| Path::new(&package.manifest) == manifest)?;
    Some(TestProgram {
        package: package.name.clone(),
        target: message["target"]["name"].as_str()?.to_owned(),
        layer: package.layer.unwrap_or_default(),
        directory: root.join(package.directory()),
        executable: PathBuf::from(message["executable"].as_str()?),
        runner: runner.to_owned(),
    })
}

/// Runs programs, each with the filters that `filters` gives for it, and what failed again by
/// itself. Whether all tests passed.
pub(crate) fn run_all(
    programs: Vec<TestProgram>,
    filters: impl Fn(&TestProgram) -> Vec<String> + Sync,
) -> Result<bool> {
    let scratch = Scratch::new()?;
    let ended = run_side_by_side(programs, filters, &scratch)?;
    print_slowest(&ended);
    let failed: Vec<_> = ended.iter().filter(|ended| !ended.outcome.passed).map(Ended::failed).collect();
    for Failed { program, .. } in &failed {
        println!("error: {} did not pass", program.program.name());
    }
    let run = |ended: &&Ended, test: &str| ended.program.run(&exactly(test, &ended.arguments), &scratch);
    again::settle(&failed, |ended| ended.program.name(), run, |line| println!("{line}"))
}

/// Runs programs, and prints what they say.
fn run_side_by_side(
    programs: Vec<TestProgram>,
    filters: impl Fn(&TestProgram) -> Vec<String> + Sync,
    scratch: &Scratch,
) -> Result<Vec<Ended>> {
    let count = programs.len();
    println!("     Running {count} test programs, {PROGRAMS_AT_ONCE} at a time");
    let waiting = Mutex::new(programs.into_iter().collect::<VecDeque<_>>());
    let next = || waiting.lock().ok()?.pop_front();
    // One block of output is printed at a time.
    let printed: Mutex<Vec<Ended>> = Mutex::new(Vec::new());
    let worker = || -> Result<()> {
        while let Some(program) = next() {
            let begun = Instant::now();
            let arguments = filters(&program);
            let outcome = program.run(&arguments, scratch)?;
            let Ok(mut printed) = printed.lock() else { break };
            let (name, seconds) = (program.name(), begun.elapsed().as_secs_f64());
            let (number, said) = (printed.len() + 1, again::quoted(&outcome.output));
            println!("     Program {name} ({number} of {count}, {seconds:.1} s)\n{said}");
            printed.push(Ended { program, arguments, outcome });
        }
        Ok(())
    };
    std::thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..PROGRAMS_AT_ONCE).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            worker.join().map_err(|_| anyhow::anyhow!("a thread that runs tests ended early"))??;
        }
        Ok(())
    })?;
    printed.into_inner().context("a thread that runs tests ended early")
}

/// The arguments that run one test: its name, and the options of the run in which it failed.
fn exactly(test: &str, arguments: &[String]) -> Vec<String> {
    let options = arguments.iter().filter(|argument| argument.starts_with('-') && *argument != "--exact");
    options.cloned().chain([test.to_owned(), "--exact".to_owned()]).collect()
}

impl Ended {
    fn failed(&self) -> Failed<&Self> {
        Failed { program: self, tests: again::failed_tests(&self.outcome.output) }
    }
}

impl TestProgram {
    /// Its package and target.
    fn name(&self) -> String {
        format!("{}/{}", self.package, self.target)
    }

    /// One that is known by name only.
    #[cfg(test)]
    pub(crate) fn named(package: &str, target: &str) -> Self {
        let nowhere = PathBuf::new;
        Self {
            package: package.to_owned(),
            target: target.to_owned(),
            layer: 0,
            directory: nowhere(),
            executable: nowhere(),
            runner: nowhere(),
        }
    }

    /// Runs it as cargo would, with its temporary files in `scratch`.
    fn run(&self, arguments: &[String], scratch: &Scratch) -> Result<Attempt> {
        let output = Command::new(&self.runner)
            .arg("run-tests")
            .arg(&self.executable)
            .args(arguments)
            .current_dir(&self.directory)
            .env("CARGO_PKG_NAME", &self.package)
            .env("CARGO_MANIFEST_DIR", &self.directory)
            .env("TMPDIR", scratch.path())
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run the tests of {}", self.name()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Attempt { output: text, passed: output.status.success() })
    }
}

/// Names the tests that took longest.
fn print_slowest(ended: &[Ended]) {
    let mut tests: Vec<(u64, String)> = ended
        .iter()
        .flat_map(|Ended { program, outcome, .. }| {
            let name = program.name();
            let timed = outcome.output.lines().filter_map(duration);
            timed.map(move |(test, took_ms)| (took_ms, format!("{name} {test}")))
        })
        .collect();
    tests.sort_unstable_by(|a, b| b.cmp(a));
    println!("the tests that took longest:");
    let named = tests.iter().enumerate().take_while(|(place, test)| *place < SLOWEST || test.0 > SLOW_MS);
    for (_, (took_ms, test)) in named {
        println!("{:>8}.{:01} s  {test}", took_ms / 1000, took_ms % 1000 / 100);
    }
}

/// The name of the test of a line `test NAME ... ok <1.234s>`, and its milliseconds.
fn duration(line: &str) -> Option<(&str, u64)> {
    let (test, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let seconds: f64 = outcome.rsplit_once(" <")?.1.strip_suffix("s>")?.parse().ok()?;
    // No test takes longer than this number can say.
    Some((test, (seconds * 1000.0) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_test_is_read_from_its_line() {
        assert_eq!(duration("test a::b ... ok <1.234s>"), Some(("a::b", 1234)));
        assert_eq!(duration("test a ... FAILED <61.000s>"), Some(("a", 61_000)));
        assert_eq!(duration("test a ... ok"), None);
        assert_eq!(duration("test result: ok. 5 passed"), None);
    }

    #[test]
    fn a_test_runs_again_with_the_options_of_its_run() {
        let arguments = ["--ignored", "night::"].map(str::to_owned);
        assert_eq!(exactly("night::a", &arguments), ["--ignored", "night::a", "--exact"]);
    }

    #[test]
    fn a_test_program_is_known_by_the_message_of_cargo() {
        let package = Package {
            name: "reel-http".into(),
            manifest: "crates/reel-http/Cargo.toml".into(),
            layer: Some(8),
            uses: Vec::new(),
            quick: Vec::new(),
        };
        let message = |test: bool| {
            serde_json::json!({
                "reason": "compiler-artifact",
                "manifest_path": "/reel/crates/reel-http/Cargo.toml",
                "profile": { "test": test },
                "target": { "name": "reel_http" },
                "executable": "/reel/target/debug/deps/reel_http-1",
            })
        };
        let root = Path::new("/reel");
        let found =
            program(&message(true), std::slice::from_ref(&package), root, Path::new("xtask")).unwrap();
        assert_eq!((found.name().as_str(), found.layer), ("reel-http/reel_http", 8));
        assert_eq!(found.directory, Path::new("/reel/crates/reel-http"));
        assert!(program(&message(false), std::slice::from_ref(&package), root, Path::new("xtask")).is_none());
    }
}
