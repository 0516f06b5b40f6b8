//! `cargo xtask api-types`: the types of the web client, written from the server's types.
//!
//! The schemas are known only to the compiled server. So a test of its crate writes the file, or
//! compares it.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::workspace;

/// The crate whose types the API is made of.
const CRATE: &str = "reel-api";

/// The test that compares the file with the schemas.
const TEST: &str = "the_types_of_the_web_client_are_those_of_the_server";

/// Makes the test write the file.
const WRITE: &str = "REEL_WRITE_API_TYPES";

/// What to do with the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Fail if it is not what the server says.
    Check,
    /// Write it.
    Write,
}

/// Runs the test.
pub(crate) fn run(root: &Path, mode: Mode) -> Result<ExitCode> {
    let mut cargo = workspace::cargo(root);
    cargo.args(["test", "--quiet", "--package", CRATE, "--lib", "--", TEST]);
    match mode {
        Mode::Check => cargo.env_remove(WRITE),
        Mode::Write => cargo.env(WRITE, "1"),
    };
    let status = cargo.status().context("cargo could not be started")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
