//! Repository chores: `cargo xtask house` checks the rules of the house, `limits` writes the page of all limits,
//! `api-types` writes the types of the web client, and `tally LOG` adds up test runs.
#![forbid(unsafe_code)]

mod api_types;
mod dependencies;
mod documents;
mod files;
mod finding;
mod floors;
mod house;
mod licences;
mod limits;
mod results;
mod rust_text;
mod sources;
mod tally;
mod unsafe_rooms;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["api-types"] => api_types::run(&repository()?, api_types::Mode::Write),
        ["api-types", "--check"] => api_types::run(&repository()?, api_types::Mode::Check),
        ["house"] => house::run(&repository()?),
        ["limits"] => limits::run(&repository()?),
        ["results"] => results::run(&repository()?, false),
        ["results", "--check"] => results::run(&repository()?, true),
        ["words"] => words::run(&repository()?),
        ["tally", log] => tally::run(Path::new(log)),
        _ => bail!(
            "usage: cargo xtask api-types [--check] | house | limits | results [--check] | words | tally LOG"
        ),
    }
}

/// The repository's root.
fn repository() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_path_buf).context("xtask lies in the root of the repository")
}
