//! Repository chores: `cargo xtask tidy` checks the rules of the repository, `limits` prints the
//! constants of limits.rs with their reasons, `api-types` writes the types of the web client,
//! `check` checks what a change needs, `compare` compares what is served of a film with the film,
//! `test` runs tests with time limits and counts skipped ones, `properties` runs those that draw
//! their inputs, and `tally LOG` adds up test runs.
#![forbid(unsafe_code)]

mod again;
mod api_types;
mod changes;
mod check;
mod compare;
mod dependencies;
mod descendants;
mod documents;
mod files;
mod finding;
mod hops;
mod layers;
mod licences;
mod limits;
mod names;
mod progress;
mod properties;
mod results;
mod runner;
mod rust_text;
mod scratch;
mod skips;
mod sources;
mod suite;
mod tally;
mod tidy;
mod unsafe_crates;
mod words;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["api-types"] => api_types::run(&repository()?, api_types::Mode::Write),
        ["api-types", "--check"] => api_types::run(&repository()?, api_types::Mode::Check),
        ["tidy"] => tidy::run(&repository()?),
        ["limits"] => limits::run(&repository()?),
        ["results"] => results::run(&repository()?, false),
        ["results", "--check"] => results::run(&repository()?, true),
        ["words"] => words::run(&repository()?),
        ["compare", _, ..] => compare::run(&repository()?, &arguments[1..]),
        ["check", ..] => check::run(&repository()?, &arguments[1..]),
        ["test", ..] => suite::run(&repository()?, &arguments[1..]),
        ["properties", ..] => properties::run(&repository()?, &arguments[1..]),
        ["run-tests", program, ..] => runner::run(program, &arguments[2..]),
        ["tally", log] => tally::run(Path::new(log), None),
        ["tally", log, expected] => tally::run(Path::new(log), Some(Path::new(expected))),
        _ => bail!(
            "usage: cargo xtask api-types [--check] | check [--all] [--base COMMIT] | compare FILE... | limits | properties ARGUMENTS OF CARGO TEST | results [--check] | tidy | words | test ARGUMENTS OF CARGO TEST | tally LOG [EXPECTED SKIPS]"
        ),
    }
}

/// The repository's root.
fn repository() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_path_buf).context("xtask lies in the root of the repository")
}
