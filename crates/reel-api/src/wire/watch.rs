//! The watched directory.

use reel_library::{WatchReport, WatchState, WatchedFile};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// The watched directory, and what has become of its files.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Watch {
    /// The directory; null if none is watched.
    pub directory: Option<String>,
    /// Why it cannot be read.
    pub problem: Option<String>,
    /// Its media files, those without a title first, then those with warnings, and what is not
    /// looked at.
    pub files: Vec<WatchFile>,
    /// How many more there are.
    pub more: usize,
}

/// A file of the watched directory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WatchFile {
    /// Its path below the directory.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// What has become of it.
    pub state: WatchFileState,
    /// Why, and what to do, if there is no title.
    pub reason: Option<String>,
    /// The id of the title that was made from it.
    pub title_id: Option<String>,
    /// What of it was left out or changed, as many as are kept; the log of its ingest has all.
    pub warnings: Vec<String>,
}

/// What has become of a file of the watched directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WatchFileState {
    /// It may be incomplete.
    Waiting,
    /// It is being ingested.
    Ingesting,
    /// A title was made from it.
    Taken,
    /// It could not be ingested, and is tried again when it changes.
    Failed,
    /// It is not ingested.
    Skipped,
}

impl Watch {
    pub(crate) fn new(directory: &Path, report: WatchReport) -> Watch {
        let WatchReport { problem, files, more } = report;
        let files = files.into_iter().map(WatchFile::from).collect();
        Watch { directory: Some(directory.to_string_lossy().into_owned()), problem, files, more }
    }
}

impl From<WatchedFile> for WatchFile {
    fn from(file: WatchedFile) -> WatchFile {
        let (path, bytes) = (file.path, file.bytes);
        let none = |state, reason| {
            let warnings = Vec::new();
            WatchFile { path: path.clone(), bytes, state, reason, title_id: None, warnings }
        };
        match file.state {
            WatchState::Waiting { reason } => none(WatchFileState::Waiting, Some(reason)),
            WatchState::Ingesting => none(WatchFileState::Ingesting, None),
            WatchState::Failed { reason } => none(WatchFileState::Failed, Some(reason)),
            WatchState::Skipped { reason } => none(WatchFileState::Skipped, Some(reason)),
            WatchState::Taken { title, warnings } => {
                let (state, title_id) = (WatchFileState::Taken, Some(title));
                WatchFile { path, bytes, state, reason: None, title_id, warnings }
            }
        }
    }
}
