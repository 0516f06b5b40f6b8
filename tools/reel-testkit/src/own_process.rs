//! Parts of tests that need a process of their own.

use std::process::{Command, Output};

/// Runs an ignored test of this test program as a child: what it changes of its process (limits,
/// descriptors) changes nothing for other tests. `test` is the path of the test. Of the output of
/// the child, lines that begin with `figures: ` or `skipped: ` are printed.
///
/// # Panics
/// If the child fails, with its output, or if there is no such test.
pub fn run_in_own_process(test: &str) {
    let me = std::env::current_exe().expect("a test program knows its file");
    let output = Command::new(me).args(["--ignored", "--exact", test, "--nocapture"]).output();
    let output = output.expect("a process for the test");
    judge(&output, test);
}

/// Prints what is kept of the output of a child.
///
/// # Panics
/// As [`run_in_own_process`].
pub(crate) fn judge(output: &Output, test: &str) {
    let said = said(output);
    assert!(!said.contains("running 0 tests"), "no ignored test of this program is called {test}");
    assert!(output.status.success(), "{said}");
    let is_kept = |line: &&str| ["figures: ", "skipped: "].iter().any(|start| line.starts_with(start));
    said.lines().filter(is_kept).for_each(|line| println!("{line}"));
}

/// All that a process has written.
pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
