//! `reel cast`: titles for any number of receivers.

mod drawing;
mod on_air;
mod plan;
mod subject;
mod table;

use crate::args::CastCommand;
use crate::failure::{Exit, Failure};

/// `reel cast ...`.
pub(super) fn run(command: &CastCommand, quiet: bool) -> Result<Exit, Failure> {
    match command {
        CastCommand::Add(arguments) => on_air::add(arguments, quiet),
        CastCommand::List(arguments) => on_air::list(arguments),
        CastCommand::Stop(arguments) => on_air::stop(arguments, quiet),
        CastCommand::Sdp(arguments) => on_air::sdp(arguments),
        CastCommand::Plan(arguments) => plan::run(arguments),
    }
}
