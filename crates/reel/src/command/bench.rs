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
    become_program("reel-bench", &arguments.arguments)
}

/// Replaces this process by another program of this workspace, in the directory of this one.
pub(super) fn become_program(
    name: &str,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<Exit, Failure> {
    let own =
        env::current_exe().map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
    let program = own.with_file_name(name);
    // It returns only if the program could not be started.
    let error = Command::new(&program).args(arguments).exec();
    match error.kind() {
        ErrorKind::NotFound => Err(Failure::not_found(format!("{} does not exist", program.display()))
            .help(format!("build it beside reel: cargo build --release --package {name}"))),
        _ => Err(Failure::path("start", &program, &error)),
    }
}
