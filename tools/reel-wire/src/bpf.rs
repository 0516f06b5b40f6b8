//! Programs for the kernel: written in C, compiled by clang when they are needed.

use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::process::{Command, Stdio};

/// The object of a source, with `NAME=VALUE` defined.
pub(crate) fn compile(source: &str, defined: &[String]) -> Result<Vec<u8>> {
    let mut clang = Command::new("clang");
    clang.args(["-O2", "-g", "-target", "bpf", "-x", "c", "-c", "-", "-o", "-"]);
    clang.args(defined.iter().map(|defined| format!("-D{defined}")));
    let child = clang.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child
        .context("programs for the kernel are compiled by clang; is it installed? (apt install clang)")?;
    // A source is smaller than a pipe, and clang reads it before it writes.
    child.stdin.take().context("a child without its input")?.write_all(source.as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "clang does not compile a program for the kernel: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(output.stdout)
}
