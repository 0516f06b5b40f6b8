//! `reel remove`: removes titles from a volume.

use super::{Access, open_library};
use crate::args::RemoveArguments;
use crate::failure::{Exit, Failure};
use crate::logging::say;

/// `reel remove`.
pub(super) fn run(arguments: &RemoveArguments, quiet: bool) -> Result<Exit, Failure> {
    let library = open_library(&arguments.volume, Access::Write)?;
    // All or none: missing titles are found before any is removed.
    for id in &arguments.titles {
        library.record(id).map_err(|error| Failure::library(&error))?;
    }
    for id in &arguments.titles {
        library.remove(id).map_err(|error| Failure::library(&error))?;
        if !quiet {
            say(format!("removed {id}"));
        }
    }
    Ok(Exit::Done)
}
