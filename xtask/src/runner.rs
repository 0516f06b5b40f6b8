//! `xtask run-tests PROGRAM ARGUMENTS`: runs one test program with a time limit for each test, and
//! lists the skipped tests.
//!
//! libtest has no time limits, and counts a test that returns early as passed. So this program
//! reads the output. It ends the test program when one of its tests exceeds the limit, and names
//! the tests that printed `skipped: ` and what is missing.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::descendants;
use crate::progress::{Limits, Progress};

/// What a test may take when `REEL_TEST_LIMIT_S` does not say, in seconds. Tests that need longer
/// belong to the night, or into [`SLOW_TESTS`].
const LIMIT_S: u64 = 60;

/// The tests of the day that may take longer: lines `PACKAGE TEST: SECONDS: REASON`.
const SLOW_TESTS: &str = ".ci/slow-tests.txt";

/// Tests that run at once on each processor. Those of the server mostly wait.
const TESTS_PER_PROCESSOR: usize = 2;

/// How often the end of the program is looked for while it says nothing.
const POLL: Duration = Duration::from_millis(50);

/// How often adopted processes are let go that have ended. Some tests wait until a process has.
const REAP_EVERY: Duration = Duration::from_millis(200);

/// Runs one test program and reads along. Fails as the program does, and when a test takes too
/// long.
pub(crate) fn run(program: &str, arguments: &[String]) -> Result<ExitCode> {
    let limit_s = match std::env::var("REEL_TEST_LIMIT_S") {
        Ok(text) => text.parse().context("REEL_TEST_LIMIT_S is a number of seconds")?,
        Err(_) => LIMIT_S,
    };
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let slow = fs::read_to_string(crate::repository()?.join(SLOW_TESTS)).unwrap_or_default();
    let limits = Limits {
        usual: Duration::from_secs(limit_s),
        of_tests: slow_tests(&slow, &package).with_context(|| format!("in {SLOW_TESTS}"))?,
    };
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped());
    if is_libtest(program) {
        // libtest reports times only as an unstable option, and accepts that from stable compilers
        // if this variable is set.
        command.args(["--show-output", "-Zunstable-options", "--report-time"]).env("RUSTC_BOOTSTRAP", "1");
    }
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        // With one thread libtest does not say which test takes long.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        command.env("RUST_TEST_THREADS", (TESTS_PER_PROCESSOR * processors).to_string());
    }
    descendants::adopt()?;
    let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
    let lines = lines_of(child.stdout.take().context("the program has no output")?);
    let mut progress = Progress::new(limits, Instant::now());
    let status = follow(&mut child, &lines, &mut progress)?;
    let why = match status {
        Some(status) if progress.summed_up() || status.success() => None,
        Some(status) => Some(ended(status)),
        None => {
            descendants::kill(child.id())?;
            child.wait().context("cannot wait for the program")?;
            Some(format!("the time limit is {limit_s} s"))
        }
    };
    for name in descendants::kill_adopted()? {
        println!("left behind by {package}, and killed: {name}");
    }
    for (test, reasons) in progress.skips() {
        println!("skipped test: {package} {test}: {reasons}");
    }
    if let Some(why) = &why {
        for line in progress.close(&list(program, arguments), why, Instant::now()) {
            println!("{line}");
        }
    }
    let passed = why.is_none() && status.is_some_and(|status| status.success());
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::from(101) })
}

/// The tests of a package that may take longer, from lines `PACKAGE TEST: SECONDS: REASON`. Empty
/// lines and those that begin with `#` say nothing.
fn slow_tests(text: &str, package: &str) -> Result<BTreeMap<String, Duration>> {
    let mut tests = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut parts = line.splitn(3, ": ");
        let (Some(name), Some(seconds), Some(_)) = (parts.next(), parts.next(), parts.next()) else {
            bail!("this is not PACKAGE TEST: SECONDS: REASON: {line}")
        };
        let seconds = seconds.parse().with_context(|| format!("these are no seconds: {line}"))?;
        if let Some(test) = name.strip_prefix(package).and_then(|rest| rest.strip_prefix(' ')) {
            tests.insert(test.to_owned(), Duration::from_secs(seconds));
        }
    }
    Ok(tests)
}

/// Cargo's own test programs are built by libtest; those of rustdoc are not, and know fewer
/// options.
fn is_libtest(program: &str) -> bool {
    Path::new(program).parent().and_then(Path::file_name).is_some_and(|dir| dir == "deps")
}

/// The lines that come through `output`, without their ends, as they come.
fn lines_of(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line)).into_owned();
            if sender.send(text).is_err() {
                break;
            }
            line.clear();
        }
    });
    lines
}

/// Shows the lines until the program ends, and says how it did; `None` when the time is over
/// before.
fn follow(
    child: &mut Child,
    lines: &Receiver<String>,
    progress: &mut Progress,
) -> Result<Option<ExitStatus>> {
    let mut reaped = Instant::now();
    loop {
        if reaped.elapsed() >= REAP_EVERY {
            descendants::reap(child.id())?;
            reaped = Instant::now();
        }
        match lines.recv_timeout(POLL) {
            Ok(line) => {
                show(&line, progress);
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(POLL / 10),
            Err(RecvTimeoutError::Timeout) => {}
        }
        // A process that a test left behind may hold the output open: that it closes is not what
        // counts.
        if let Some(status) = child.try_wait().context("cannot wait for the program")? {
            while let Ok(line) = lines.recv_timeout(POLL) {
                show(&line, progress);
            }
            return Ok(Some(status));
        }
        if Instant::now() >= progress.ends_at() {
            return Ok(None);
        }
    }
}

fn show(line: &str, progress: &mut Progress) {
    if progress.line(line, Instant::now()) {
        // There may be no reader any more; the exit code still counts.
        let _ = writeln!(std::io::stdout(), "{line}");
    }
}

fn ended(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("the program was ended by signal {signal}"),
        (None, code) => format!("the program ended with {}", code.unwrap_or_default()),
    }
}

/// The names of the tests that `arguments` select; none if the program cannot say.
fn list(program: &str, arguments: &[String]) -> Vec<String> {
    if !is_libtest(program) {
        return Vec::new();
    }
    let output = Command::new(program).args(arguments).args(["--list", "--format", "terse"]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_tests_are_listed_by_package_with_a_reason() {
        let text = "# comment\n\nreel a::b: 120: a film of a minute\nreel-sim a: 90: many seeds\n";
        let found = slow_tests(text, "reel").unwrap();
        assert_eq!(found, BTreeMap::from([("a::b".to_owned(), Duration::from_secs(120))]));
        assert!(slow_tests("reel a: 120", "reel").is_err());
        assert!(slow_tests("reel a: long: film", "reel").is_err());
    }
}
