//! `cargo xtask test ARGUMENTS`: `cargo test ARGUMENTS` with a time limit for each test, and with
//! a list of skipped tests.
//!
//! Cargo starts every test program through `xtask run-tests PROGRAM ARGUMENTS`. libtest has no time
//! limits, and counts a test that returns early as passed. So that runner reads the output. It ends
//! a program when one of its tests exceeds the limit, and names the tests that printed `skipped: `
//! and what is missing.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::descendants;
use crate::progress::Progress;

/// What a test may take when `REEL_TEST_LIMIT_S` does not say, in seconds. Only a test that hangs
/// should reach it, even while another program keeps the processors busy.
const LIMIT_S: u64 = 600;

/// Tests that run at once on each processor. Those of the server mostly wait.
const TESTS_PER_PROCESSOR: usize = 2;

/// How often the end of the program is looked for while it says nothing.
const POLL: Duration = Duration::from_millis(50);

/// Runs `cargo test` with `arguments`; its exit code.
pub(crate) fn cargo_test(arguments: &[String]) -> Result<ExitCode> {
    let runner = std::env::current_exe().context("cannot find this program")?;
    let runner = runner.to_str().context("the path of this program is not UTF-8")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let status = Command::new(cargo)
        .arg("--config")
        .arg(format!("target.'cfg(all())'.runner = [{runner:?}, \"run-tests\"]"))
        .arg("test")
        .args(arguments)
        .status()
        .context("cannot run cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one test program and reads along. Fails as the program does, and when a test takes too
/// long.
pub(crate) fn run(program: &str, arguments: &[String]) -> Result<ExitCode> {
    let limit_s = match std::env::var("REEL_TEST_LIMIT_S") {
        Ok(text) => text.parse().context("REEL_TEST_LIMIT_S is a number of seconds")?,
        Err(_) => LIMIT_S,
    };
    let limit = Duration::from_secs(limit_s);
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped());
    if is_libtest(program) {
        command.arg("--show-output");
    }
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        // With one thread libtest does not say which test takes long.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        command.env("RUST_TEST_THREADS", (TESTS_PER_PROCESSOR * processors).to_string());
    }
    let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
    let lines = lines_of(child.stdout.take().context("the program has no output")?);
    let mut progress = Progress::new(limit, Instant::now());
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
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
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
    loop {
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
