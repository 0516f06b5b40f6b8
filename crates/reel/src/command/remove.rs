//! `reel remove`: titles out of a volume.

use super::{Access, open_library};
use crate::args::RemoveArguments;
use crate::failure::{Exit, Failure};

/// `reel remove`.
pub(super) fn run(arguments: &RemoveArguments, quiet: bool) -> Result<Exit, Failure> {
    let library = open_library(&arguments.volume, Access::Write)?;
    // All or none of a typo: what is not there is found before anything is gone.
    for id in &arguments.titles {
        library.record(id).map_err(|error| Failure::library(&error))?;
    }
    for id in &arguments.titles {
        library.remove(id).map_err(|error| Failure::library(&error))?;
        if !quiet {
            eprintln!("removed {id}");
        }
    }
    Ok(Exit::Done)
}
