//! `reel sim`: becomes the program `reel-sim` beside this one.

use super::bench::become_program;
use crate::args::SimArguments;
use crate::failure::{Exit, Failure};

/// `reel sim`.
pub(super) fn run(arguments: &SimArguments) -> Result<Exit, Failure> {
    become_program("reel-sim", &arguments.arguments)
}
