//! `--mapped` of `reel tap` and `reel pour`: a program takes the place of the command, as with
//! `env` and `nice`. So signals, the process id and the exit status are its own.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::failure::Failure;

/// What of the program is the socket in which its streams wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standard {
    Input,
    Output,
}

/// The program and its arguments, before any stream is opened for it.
pub(super) fn filter(filter: &[OsString], example: &str) -> Result<Command, Failure> {
    let Some((program, arguments)) = filter.split_first() else {
        return Err(Failure::usage("--mapped needs a program to run, after `--`").help(format!(
            "{example}: FILTER uses reel_client or reel_mms.h (docs/programs.md); any other program goes between pipes, without --mapped"
        )));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Runs the program in place of this one. Returns only if it cannot be run.
pub(super) fn run(mut filter: Command, standard: Standard, socket: OwnedFd) -> Failure {
    match standard {
        Standard::Input => filter.stdin(socket),
        Standard::Output => filter.stdout(socket),
    };
    let error = filter.exec();
    Failure::path("run", Path::new(filter.get_program()), &error)
}
