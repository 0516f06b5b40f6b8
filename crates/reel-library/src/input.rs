//! The input of an ingest, and its progress.

use crate::naming::{clean_file_name, path_file_name};
use crate::summary::TitleSummary;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One file to be ingested.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its path.
    pub path: PathBuf,
    /// The name to record, if it is not that of `path` (uploads).
    pub file_name: Option<String>,
}

impl Input {
    /// The name to record.
    pub(crate) fn name(&self) -> String {
        self.file_name.as_deref().map_or_else(|| path_file_name(&self.path), clean_file_name)
    }

    /// The file at a path, with the name that it has there.
    pub fn new(path: impl Into<PathBuf>) -> Input {
        Input { path: path.into(), file_name: None }
    }
}

/// Options of an ingest.
#[derive(Clone, Debug, Default)]
pub struct IngestOptions {
    /// The title's name; made from the first file's name if `None`.
    pub name: Option<String>,
    /// Whether to ignore subtitle files beside the inputs.
    pub no_sidecars: bool,
    /// Subtitle files of the first input that are not beside it (uploads).
    pub sidecars: Vec<Input>,
    /// Whether the title gets the form `ts`, too. A transport stream is stored as it is, and as
    /// that alone if players could not play it. The tracks of other files are multiplexed.
    pub stream: bool,
    /// The id of the title that the new one takes the place of, in one step. It keeps its name,
    /// unless [`IngestOptions::name`] gives another one. If it is removed meanwhile, the title is
    /// published as a new one.
    pub replaces: Option<String>,
    /// Lets another thread end the ingest.
    pub stop: Stop,
}

/// What an ingest of files would give.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The title, without its tables, index and poster.
    pub title: TitleSummary,
    /// What would be left out or changed, as in [`Ingested::warnings`].
    pub warnings: Vec<String>,
}

/// A flag that ends an ingest soon after it was raised. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Raises the flag permanently.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was raised.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The current step of an ingest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading the structure of the files.
    Opening,
    /// Repacking and storing.
    Storing,
    /// Making the poster, writing the index.
    Finishing,
}

/// The progress of an ingest.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The file being read.
    pub file_name: String,
    /// Bytes of all inputs read so far.
    pub done_bytes: u64,
    /// Bytes of all inputs.
    pub total_bytes: u64,
    /// Bytes per second since storing began; 0 until it can be computed.
    pub rate_bytes_per_s: u64,
    /// The current step.
    pub phase: Phase,
}

/// An ingested title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingested {
    /// Its id.
    pub id: String,
    /// Notes for the user: tracks that were left out, damage that was skipped.
    pub warnings: Vec<String>,
}
