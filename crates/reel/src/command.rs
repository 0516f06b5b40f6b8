//! The commands, each in its own file.

mod bench;
mod capacity;
mod cast;
mod check;
mod export;
mod form;
mod ingest;
mod learnt_prices;
mod load;
mod mapped;
mod mount;
mod pour;
mod probe;
mod profiles;
mod receive;
mod remove;
mod serve;
mod sim;
mod subtitles;
mod tap;
mod titles;
mod volume;

use std::path::Path;
use std::sync::Arc;

use reel_library::Library;
use reel_volume::{OpenOptions, Volume};

use crate::args::{Arguments, Command};
use crate::config::LogConfig;
use crate::demo;
use crate::failure::{Exit, Failure};
use crate::logging;

pub(crate) use self::ingest::{Job, ingest};
pub(crate) use serve::serve;

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let quiet = arguments.quiet;
    // A server logs as configured. All other commands log only warnings and errors.
    if !matches!(arguments.command, Command::Serve(_) | Command::Demo(_)) {
        // These commands print the state of the members themselves.
        let shows_members = matches!(arguments.command, Command::Volume(_) | Command::Capacity(_));
        logging::start_for_command(&LogConfig::for_commands(quiet), shows_members);
    }
    match arguments.command {
        Command::Demo(arguments) => demo::run(&arguments, quiet),
        Command::Volume(command) => volume::run(&command, quiet),
        Command::Check(arguments) => check::run(&arguments, quiet),
        Command::Ingest(arguments) => ingest::run(&arguments, quiet),
        Command::Subtitles(arguments) => subtitles::run(&arguments, quiet),
        Command::Form(command) => form::run(&command, quiet),
        Command::Titles(arguments) => titles::run(&arguments),
        Command::Remove(arguments) => remove::run(&arguments, quiet),
        Command::Export(arguments) => export::run(&arguments, quiet),
        Command::Probe(arguments) => probe::run(&arguments, quiet),
        Command::Capacity(arguments) => capacity::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Cast(command) => cast::run(&command, quiet),
        Command::Receive(arguments) => receive::run(&arguments, quiet),
        Command::Mount(arguments) => mount::run(&arguments, quiet),
        Command::Tap(arguments) => tap::run(&arguments),
        Command::Pour(arguments) => pour::run(&arguments, quiet),
        Command::Load(arguments) => load::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
    }
}

/// How a command uses a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing is changed.
    Read,
    /// Titles are added or removed.
    Write,
}

/// Opens the volume in `dir` with its titles.
pub(crate) fn open_library(dir: &Path, access: Access) -> Result<Library, Failure> {
    let options = OpenOptions { read_only: access == Access::Read, ..OpenOptions::default() };
    let volume = Volume::open(dir, options).map_err(Failure::volume)?;
    Ok(Library::new(Arc::new(volume)))
}
