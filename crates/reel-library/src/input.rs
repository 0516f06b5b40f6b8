//! What an ingest is given, and what it tells while it runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One file to be taken.
#[derive(Clone, Debug)]
pub struct Input {
    /// Where its bytes are.
    pub path: PathBuf,
    /// The name to remember, where it is not that of `path` (uploads).
    pub file_name: Option<String>,
}

impl Input {
    /// The file at a path, under its own name.
    pub fn new(path: impl Into<PathBuf>) -> Input {
        Input { path: path.into(), file_name: None }
    }
}

/// How to take it.
#[derive(Clone, Debug, Default)]
pub struct IngestOptions {
    /// The title's name; without it the first file's name gives it.
    pub name: Option<String>,
    /// Do not look for subtitle files beside the inputs.
    pub no_sidecars: bool,
    /// Lets another thread end the ingest.
    pub stop: Stop,
}

/// A flag that ends an ingest soon after it was raised. Clones are the same flag.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Raises the flag, for good.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was raised.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What an ingest is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading the structure of the files.
    Opening,
    /// Repacking and storing.
    Storing,
    /// Making the poster, writing the index.
    Finishing,
}

/// How far an ingest has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The file being read.
    pub file_name: String,
    /// Bytes of all inputs read so far.
    pub done_bytes: u64,
    /// Bytes of all inputs.
    pub total_bytes: u64,
    /// Bytes per second since the storing began; 0 until it can be told.
    pub rate_bytes_per_s: u64,
    /// What is being done.
    pub phase: Phase,
}

/// A title taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingested {
    /// Its id.
    pub id: String,
    /// What the person should know: tracks left out, damage stepped over.
    pub warnings: Vec<String>,
}
