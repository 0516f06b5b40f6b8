//! `reel load`: becomes the program `reel-load` beside this one.

use super::bench::become_program;
use crate::args::LoadArguments;
use crate::failure::{Exit, Failure};

/// `reel load`.
pub(super) fn run(arguments: &LoadArguments) -> Result<Exit, Failure> {
    become_program("reel-load", &arguments.arguments)
}
