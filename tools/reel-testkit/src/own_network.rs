//! Tests that need interfaces and routes of their own.

use crate::own_process::{judge, said};
use std::process::Command;

/// Runs an ignored test of this test program as a child, in a network namespace that ends with it.
/// `setup` are commands of the shell that make its interfaces and routes; `test` is the path of the
/// test. Needs root, `unshare` and `ip`; without them the test is skipped, and the output says so.
/// Of the output of the child, lines that begin with `figures: ` or `skipped: ` are printed.
///
/// # Panics
/// If the child fails, with its output, or if there is no such test.
pub fn run_in_own_network(setup: &str, test: &str) {
    let me = std::env::current_exe().expect("a test program knows its file");
    let script = format!("{setup} && exec \"$0\" --ignored --exact \"$1\" --nocapture");
    let output = Command::new("unshare").args(["--net", "sh", "-c", &script]).arg(me).arg(test).output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return println!("skipped: no unshare: {error}"),
    };
    let said = said(&output);
    if !said.contains("running 0 tests") && !said.contains("running 1 test") {
        let last = said.lines().last().unwrap_or_default();
        return println!("skipped: no root, iproute2 or kind of device: {last}");
    }
    judge(&output, test);
}
