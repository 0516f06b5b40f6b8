//! Tests that mount file systems.

use crate::own_process::{judge, said};
use std::path::Path;
use std::process::Command;

/// Runs an ignored test of this test program as a child, with mounts and processes of its own: both
/// end with it, whatever happens. `test` is the path of the test. Needs root, `unshare` and
/// /dev/fuse; without them the test is skipped, and the output says so. Of the output of the child,
/// lines that begin with `figures: ` or `skipped: ` are printed.
///
/// # Panics
/// If the child fails, with its output, or if there is no such test.
pub fn run_in_own_mounts(test: &str) {
    if !Path::new("/dev/fuse").exists() {
        return println!("skipped: no /dev/fuse, so nothing can be mounted");
    }
    let me = std::env::current_exe().expect("a test program knows its file");
    let own = ["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let mut command = Command::new("unshare");
    command.args(own).arg(me).args(["--ignored", "--exact", test, "--nocapture"]);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return println!("skipped: no unshare: {error}"),
    };
    let said = said(&output);
    if !said.contains("running 0 tests") && !said.contains("running 1 test") {
        let last = said.lines().last().unwrap_or_default();
        return println!("skipped: no root, or no mounts of its own: {last}");
    }
    judge(&output, test);
}
