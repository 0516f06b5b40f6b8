//! The runner of test programs, beside a real one: what libtest prints is not ours to define.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

const TESTS: &str = r#"
#[test]
fn passes() { println!("not a skip"); }

#[test]
fn leaves_out() { return println!("skipped: no such device"); }

#[test]
fn hangs() {
    if std::env::var_os("HANG").is_some() {
        std::thread::sleep(std::time::Duration::from_secs(1000));
    }
}

#[test]
fn leaves_behind() {
    if std::env::var_os("LEAVE").is_some() {
        // A child of a child, which has the standard error of all.
        let left = "sleep 1000 & echo $! > $LEAVE";
        assert!(std::process::Command::new("sh").args(["-c", left]).status().unwrap().success());
        panic!("before it is ended");
    }
}

#[test]
fn aborts() {
    if std::env::var_os("ABORT").is_some() {
        std::process::abort();
    }
}
"#;

/// A program of the tests above, where cargo would have put it.
fn program(dir: &tempfile::TempDir) -> PathBuf {
    let source = dir.path().join("tests.rs");
    fs::write(&source, TESTS).unwrap();
    let program = dir.path().join("deps/tests");
    fs::create_dir(dir.path().join("deps")).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let status = Command::new(rustc).arg("--test").arg(&source).arg("-o").arg(&program).status().unwrap();
    assert!(status.success());
    program
}

fn run(program: &PathBuf, change: impl FnOnce(&mut Command)) -> (Output, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("run-tests").arg(program).env("CARGO_PKG_NAME", "package");
    change(&mut command);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    (output, text)
}

#[test]
fn skips_are_named_hanging_tests_end_and_dead_programs_are_summed_up() {
    let dir = tempfile::tempdir().unwrap();
    let program = program(&dir);

    let (output, text) = run(&program, |_| {});
    assert!(output.status.success(), "{text}");
    assert!(text.contains("test result: ok. 5 passed"), "{text}");
    assert!(text.ends_with("skipped test: package leaves_out: no such device\n"), "{text}");
    assert!(!text.contains("not a skip"), "what passed is not shown: {text}");

    let (output, text) = run(&program, |command| {
        command.env("HANG", "1").env("REEL_TEST_LIMIT_S", "3");
    });
    assert!(!output.status.success());
    assert!(text.contains("test hangs ... FAILED (it had not ended: the time limit is 3 s)"), "{text}");
    assert!(text.contains("test result: FAILED. 4 passed; 1 failed; 0 ignored;"), "{text}");

    let (output, text) = run(&program, |command| {
        command.env("ABORT", "1").args(["aborts", "--exact"]);
    });
    assert!(!output.status.success());
    assert!(
        text.contains("test aborts ... FAILED (it had not ended: the program was ended by signal 6)"),
        "{text}"
    );
    assert!(text.contains("test result: FAILED. 0 passed; 1 failed;"), "{text}");
}

#[test]
fn what_a_failed_test_has_started_holds_nothing_open() {
    let dir = tempfile::tempdir().unwrap();
    let (program, left) = (program(&dir), dir.path().join("left"));
    // Returns when all have closed the standard error.
    let (output, text) = run(&program, |command| {
        command.env("LEAVE", &left).args(["leaves_behind", "--exact"]);
    });
    assert!(!output.status.success());
    assert!(text.contains("left behind by package, and killed: sleep"), "{text}");
    let id = fs::read_to_string(left).unwrap();
    let command = fs::read(format!("/proc/{}/cmdline", id.trim())).unwrap_or_default();
    assert!(!command.starts_with(b"sleep"), "{id}");
}
