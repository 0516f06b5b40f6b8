//! `reel ingest`: stores films in a volume.

use std::path::{Path, PathBuf};
use std::time::Instant;

use reel_library::{IngestOptions, Ingested, Input, Library, clean_name, is_blank};
use serde_json::json;

use super::volume::{network_use, sends_parity};
use super::{Access, open_library};
use crate::args::{FormName, IngestArguments};
use crate::failure::{Exit, Failure};
use crate::logging::say;
use crate::output::print;
use crate::progress::{Meter, Unit, rate_text};

/// Files that become one title.
pub(crate) struct Job {
    /// One file, or renditions of one title.
    pub(crate) files: Vec<PathBuf>,
    /// The title's name; made from the first file's name if `None`.
    pub(crate) name: Option<String>,
    /// Whether the file, a transport stream, is also stored as it is.
    pub(crate) stream: bool,
}

/// `reel ingest`.
pub(super) fn run(arguments: &IngestArguments, quiet: bool) -> Result<Exit, Failure> {
    let jobs = jobs(arguments)?;
    let library = open_library(&arguments.volume, Access::Write)?;
    let mut exit = Exit::Done;
    let mut results = Vec::new();
    let alone = jobs.len() == 1;
    for job in &jobs {
        match ingest(&library, job, quiet || arguments.json) {
            Ok(ingested) => results.push(json!({ "id": ingested.id, "warnings": ingested.warnings })),
            Err(failure) if alone => return Err(failure),
            // One bad file does not stop the others; the exit code reports it.
            Err(failure) => {
                say(&failure);
                exit = failure.exit;
            }
        }
    }
    let geometry = library.volume().geometry();
    let has_stream = !results.is_empty() && jobs.iter().any(|job| job.stream);
    if has_stream && !quiet && !arguments.json && !sends_parity(geometry) {
        say(network_use(geometry));
    }
    if arguments.json {
        print(&json!({ "titles": results }).to_string())?;
    }
    Ok(exit)
}

/// Ingests one title into `library`, with progress.
pub(crate) fn ingest(library: &Library, job: &Job, quiet: bool) -> Result<Ingested, Failure> {
    let inputs: Vec<Input> = job.files.iter().map(Input::new).collect();
    let (name, stream) = (job.name.clone(), job.stream);
    let options = IngestOptions { name, stream, ..IngestOptions::default() };
    let label = job.label();
    let mut meter = Meter::new(label.clone(), Unit::Bytes, quiet);
    let begun = Instant::now();
    let mut total_bytes = 0;
    let ingested = library
        .ingest(&inputs, &options, &mut |progress| {
            total_bytes = progress.total_bytes;
            meter.set(progress.done_bytes, progress.total_bytes);
        })
        .map_err(|error| Failure::ingest(&error))?;
    for warning in &ingested.warnings {
        meter.note(&format!("warning: {label}: {warning}"));
    }
    meter.finish(&format!("{label}: title {}, {}", ingested.id, rate_text(total_bytes, begun.elapsed())));
    Ok(ingested)
}

/// All files are looked at before work begins, so that a typo in the last name does not show after
/// an hour.
pub(super) fn require_files(files: &[PathBuf]) -> Result<(), Failure> {
    for file in files {
        let metadata = std::fs::metadata(file).map_err(|error| Failure::path("read", file, &error))?;
        if metadata.is_dir() {
            return Err(Failure::usage(format!("{} is a directory", file.display()))
                .help("name the files in it, or let `reel serve --watch` ingest all of them"));
        }
    }
    Ok(())
}

impl Job {
    pub(super) fn label(&self) -> String {
        match (&self.name, self.files.first()) {
            (Some(name), _) => clean_name(name),
            (None, Some(file)) => file_label(file),
            (None, None) => String::new(),
        }
    }
}

fn jobs(arguments: &IngestArguments) -> Result<Vec<Job>, Failure> {
    require_files(&arguments.files)?;
    let stream = arguments.form == FormName::Ts;
    let given = |name: &Option<String>| name.clone().filter(|name| !is_blank(name));
    if arguments.title.is_some() {
        return Ok(vec![Job { files: arguments.files.clone(), name: given(&arguments.title), stream }]);
    }
    if arguments.name.is_some() && arguments.files.len() > 1 {
        return Err(Failure::usage("--name names one title, and there are several files")
            .help("use --title NAME if the files are renditions of one title"));
    }
    let job = |file: &PathBuf| Job { files: vec![file.clone()], name: given(&arguments.name), stream };
    Ok(arguments.files.iter().map(job).collect())
}

fn file_label(file: &Path) -> String {
    // A foreign name must not send control characters to the terminal.
    clean_name(&file.file_name().unwrap_or(file.as_os_str()).to_string_lossy())
}
