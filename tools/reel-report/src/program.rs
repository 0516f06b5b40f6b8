//! Programs that experiments run.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The example `name` of a package, where `cargo build --example` puts it: in `examples` beside
/// this program.
///
/// # Errors
/// An example that was not built; the message says how to build it.
pub fn example(package: &str, name: &str) -> Result<PathBuf> {
    let program = env::current_exe()?.with_file_name("examples").join(name);
    ensure!(
        program.exists(),
        "{} does not exist; build it with cargo build --release -p {package} --example {name}",
        program.display()
    );
    Ok(program)
}

/// Runs a command to its end, without input; what it prints.
///
/// # Errors
/// A command that does not start or fails; the message is what it says on its standard error.
pub fn output(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("starting {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(output.stdout)
}

/// The same with a command that prints JSON.
///
/// # Errors
/// Those of [`output`], and an output that is no JSON.
pub fn output_json(command: &mut Command) -> Result<Value> {
    let text = output(command)?;
    serde_json::from_slice(&text).with_context(|| format!("{command:?} does not print JSON"))
}
