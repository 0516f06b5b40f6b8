//! `reel demo`: makes films, a volume and a server, and prints the URL to open.

mod ffmpeg;
mod films;

use std::path::Path;

use reel_library::{Library, media_files, stamp_of};
use reel_volume::{Members, Volume, VolumeOptions};

use crate::args::DemoArguments;
use crate::command::{self, Access, Job};
use crate::config::{Config, LogConfig, LogLevel};
use crate::failure::{Exit, Failure};
use crate::limits::DEMO_FILMS_MAX;
use crate::logging::{self, say};

/// Members of the demo's volume.
const MEMBERS: usize = 5;

/// The smallest volume that is created; the generated films take a tenth of it.
const VOLUME_BYTES_MIN: u64 = 1 << 30;

/// `reel demo`.
pub(crate) fn run(arguments: &DemoArguments, quiet: bool) -> Result<Exit, Failure> {
    let log = LogConfig { level: LogLevel::Warn, ..LogConfig::default() };
    logging::start(&log)?;
    let films = match &arguments.media {
        Some(dir) => films_in(dir)?,
        None => films::make(&arguments.dir.join("films"), films::FILM_S, quiet)?
            .into_iter()
            .map(|film| Job { files: film.files, name: Some(film.name.into()), stream: false })
            .collect(),
    };
    let volume = arguments.dir.join("volume");
    let library = library(&volume, &films, quiet)?;
    take(&library, &films, quiet)?;
    // The server opens the volume again, with the memory for serving.
    drop(library);
    if !quiet {
        say(format!("Ctrl-C ends the server; films and volume stay in {}", arguments.dir.display()));
    }
    command::serve(&Config { listen: arguments.listen, volume: Some(volume), log, ..Config::default() })
}

/// All films of a directory, each as one title.
fn films_in(dir: &Path) -> Result<Vec<Job>, Failure> {
    let files = media_files(dir).map_err(|error| Failure::path("read", dir, &error))?;
    if files.is_empty() {
        return Err(Failure::not_found(format!("there is no film in {}", dir.display()))
            .help("use a directory with mp4, mov, mkv, webm or ts files, or omit --media"));
    }
    if files.len() > DEMO_FILMS_MAX {
        say(format!(
            "note: {} has {} films; the demo uses the first {DEMO_FILMS_MAX}",
            dir.display(),
            files.len()
        ));
    }
    let job = |file| Job { files: vec![file], name: None, stream: false };
    Ok(files.into_iter().take(DEMO_FILMS_MAX).map(job).collect())
}

/// The volume of an earlier run, or a new one with space for `films`.
fn library(volume: &Path, films: &[Job], quiet: bool) -> Result<Library, Failure> {
    if !volume.exists() {
        let file_bytes = |file| std::fs::metadata(file).map_or(0, |metadata| metadata.len());
        let bytes: u64 = films.iter().flat_map(|job| &job.files).map(file_bytes).sum();
        // A fifth is parity; the rest leaves space for uploads.
        let size_bytes = VOLUME_BYTES_MIN.max(bytes.saturating_mul(2));
        let options =
            VolumeOptions { members: Members::Count(MEMBERS), size_bytes, ..VolumeOptions::default() };
        Volume::create(volume, options).map_err(Failure::volume)?;
        if !quiet {
            say(format!("created a volume of {MEMBERS} members in {}", volume.display()));
        }
    }
    command::open_library(volume, Access::Write)
}

/// Ingests the films that are not in the library yet. A film that cannot be ingested is reported
/// and skipped.
fn take(library: &Library, films: &[Job], quiet: bool) -> Result<(), Failure> {
    for job in films {
        let Some(first) = job.files.first() else { continue };
        let stamp = stamp_of(first).map_err(|error| Failure::path("read", first, &error))?;
        if library.knows(&stamp) {
            continue;
        }
        if let Err(failure) = command::ingest(library, job, quiet) {
            if films.len() == 1 {
                return Err(failure);
            }
            say(failure);
        }
    }
    Ok(())
}
