//! Ingests files from a directory as they arrive.

mod ending;
mod growth;
mod life;
mod listener;
mod scan;
mod taken;
#[cfg(test)]
mod tests;
mod watcher;

pub use life::WatchLife;
pub use watcher::{KnownTitles, Now, Watcher};

use crate::input::Ingested;
use crate::limits::WATCH_PERIOD;
use crate::naming::{compared_file_name, path_file_name};
use scan::Scan;
use std::convert::Infallible;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::UNIX_EPOCH;

/// Identifies a file's content without reading it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The name without its directory.
    pub file_name: String,
    /// Size.
    pub bytes: u64,
    /// Modification time in seconds since 1970; 0 when it is earlier or not known.
    pub modified_unix_s: u64,
}

/// The subtitle files beside a film, which become a part of its title.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SidecarStamp {
    files: u64,
    bytes: u64,
    newest_unix_s: u64,
}

/// A file that is ready to be ingested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its path.
    pub path: PathBuf,
    /// Its stamp, by which the catalogue identifies it later.
    pub stamp: Stamp,
    /// The id of the title that was made from it before it grew, or before its subtitles came: the
    /// new title takes its place.
    pub replaces: Option<String>,
}

/// A file of a watched directory, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedFile {
    /// Its path below the directory.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// What has become of it.
    pub state: WatchState,
}

/// What has become of a file of a watched directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// It may be incomplete.
    Waiting {
        /// Why, and when it is ingested.
        reason: String,
    },
    /// It is being ingested.
    Ingesting,
    /// A title was made from it.
    Taken {
        /// The id of the title.
        title: String,
        /// What was left out or changed, as many as are shown.
        warnings: Vec<String>,
    },
    /// It could not be ingested. It is tried again when it changes.
    Failed {
        /// Why.
        reason: String,
    },
    /// It is not ingested.
    Skipped {
        /// Why, and what to do.
        reason: String,
    },
}

/// What a watched directory holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchReport {
    /// Why the directory cannot be read, or not all of it.
    pub problem: Option<String>,
    /// The files: those that are not ingested, those that may be, titles with warnings, and titles.
    pub files: Vec<WatchedFile>,
    /// How many more there are.
    pub more: usize,
}

/// Scans a directory every [`WATCH_PERIOD`] and passes every complete new file to `take`, until the
/// sender of `stop` is dropped. `take` returns the title, or why there is none. It may be
/// slow; the next scan is later then. `show` gets what the directory holds when that has changed. A
/// directory that cannot be read is logged once and tried again, so that a disk may be mounted
/// later. A panic ends one scan or costs one file its title. `life` says whether the thread
/// continues. Blocks.
pub fn watch(
    mut watcher: Watcher,
    stop: &Receiver<Infallible>,
    known: &dyn KnownTitles,
    mut take: impl FnMut(&Arrival) -> Result<Ingested, String>,
    mut show: impl FnMut(WatchReport),
    life: &WatchLife,
) {
    let mut take = |arrival: &Arrival| {
        life.waits();
        let outcome = guarded(life, || take(arrival)).unwrap_or_else(|| {
            Err("the server panicked on it, which is a defect; the reason is in the log".to_owned())
        });
        life.looks();
        outcome
    };
    let (mut readable, mut shown) = (true, None);
    loop {
        life.looks();
        let look = || {
            look(&mut watcher, &mut readable, known, &mut take, &mut |watcher| {
                show_changed(watcher, &mut shown, &mut show);
            })
        };
        if guarded(life, look).is_none() {
            watcher.look_again();
        }
        life.waits();
        if stop.recv_timeout(WATCH_PERIOD) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// One scan, with what it finds.
fn look(
    watcher: &mut Watcher,
    readable: &mut bool,
    known: &dyn KnownTitles,
    take: &mut dyn FnMut(&Arrival) -> Result<Ingested, String>,
    show: &mut dyn FnMut(&Watcher),
) {
    match watcher.scan(Now::read(), known) {
        Ok(arrivals) => {
            if !*readable {
                tracing::info!(dir = %watcher.dir().display(), "the watched directory can be read again");
            }
            *readable = true;
            for arrival in arrivals {
                watcher.begins(&arrival.path);
                show(watcher);
                let outcome = take(&arrival);
                watcher.took(&arrival, outcome);
            }
        }
        Err(e) if *readable => {
            *readable = false;
            tracing::warn!(dir = %watcher.dir().display(), error = %e, "the watched directory cannot be read; it is tried again");
        }
        Err(_) => {}
    }
    for complaint in watcher.take_complaints() {
        tracing::warn!("{complaint}");
    }
    show(watcher);
}

/// Does one step. `None` if it panicked, which is logged and counted.
fn guarded<R>(life: &WatchLife, step: impl FnOnce() -> R) -> Option<R> {
    let done = catch_unwind(AssertUnwindSafe(step)).ok();
    if done.is_none() {
        life.panicked();
        tracing::error!(
            "the thread of the watched directory panicked, which is a defect (the reason is above); it continues with its next step"
        );
    }
    done
}

fn show_changed(watcher: &Watcher, shown: &mut Option<WatchReport>, show: &mut impl FnMut(WatchReport)) {
    let report = watcher.report();
    if shown.as_ref() != Some(&report) {
        show(report.clone());
        *shown = Some(report);
    }
}

/// The media files of a directory and the directories below it that are not empty, by path.
///
/// # Errors
/// If the directory itself cannot be read.
pub fn media_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let films = Scan::of(dir)?.films;
    Ok(films.into_iter().filter(|(_, found)| found.stamp.bytes > 0).map(|(path, _)| path).collect())
}

/// The stamp of a file as the catalogue stores it.
///
/// # Errors
/// If the metadata of the file cannot be read.
pub fn stamp_of(path: &Path) -> io::Result<Stamp> {
    Ok(stamp(path, &fs::metadata(path)?).0)
}

fn stamp(path: &Path, metadata: &fs::Metadata) -> (Stamp, u32) {
    let since =
        metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    (
        Stamp {
            file_name: compared_file_name(&path_file_name(path)),
            bytes: metadata.len(),
            modified_unix_s: since.as_secs(),
        },
        since.subsec_nanos(),
    )
}
