//! `reel subtitles`: adds subtitles to a stored title.

use std::io::Read;
use std::path::Path;

use reel_library::SubtitleFile;
use reel_library::limits::SIDECAR_BYTES_MAX;
use reel_rt::open_input;

use super::ingest::require_files;
use super::{Access, open_library};
use crate::args::SubtitlesArguments;
use crate::failure::{Exit, Failure};
use crate::logging::say;

/// `reel subtitles`.
pub(super) fn run(arguments: &SubtitlesArguments, quiet: bool) -> Result<Exit, Failure> {
    let path = &arguments.file;
    require_files(std::slice::from_ref(path))?;
    let file = SubtitleFile {
        file_name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        bytes: read(path)?,
        language: arguments.language.clone(),
        label: arguments.label.clone(),
        forced: arguments.forced,
    };
    let library = open_library(&arguments.volume, Access::Write)?;
    let warnings =
        library.add_subtitles(&arguments.title, &file).map_err(|error| Failure::subtitles(&error))?;
    if !quiet {
        warnings.iter().for_each(|warning| say(format!("warning: {warning}")));
        say(format!("added to {}", arguments.title));
    }
    Ok(Exit::Done)
}

/// The bytes of a file, and one beyond the limit if there are more, which is refused later.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    open_input(path)
        .and_then(|file| file.take(SIDECAR_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| Failure::path("read", path, &error))?;
    Ok(bytes)
}
