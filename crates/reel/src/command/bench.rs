//! `reel bench`: becomes the program `reel-bench` beside this one.

use std::env;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::args::BenchArguments;
use crate::failure::{Exit, Failure};

/// `reel bench`.
pub(super) fn run(arguments: &BenchArguments) -> Result<Exit, Failure> {
    become_bench(&arguments.arguments)
}

/// Goes on as the program `reel-bench` beside this one.
pub(super) fn become_bench(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Exit, Failure> {
    let own =
        env::current_exe().map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
    let bench = own.with_file_name("reel-bench");
    // Comes back only if it could not be started.
    let error = Command::new(&bench).args(arguments).exec();
    match error.kind() {
        ErrorKind::NotFound => Err(Failure::not_found(format!("{} is not there", bench.display()))
            .help("build it beside reel: cargo build --release --package reel-bench")),
        _ => Err(Failure::path("start", &bench, &error)),
    }
}
