//! A watched directory: its new files become jobs like uploads.

use crate::ControlPlane;
use reel_library::watch;
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use tokio::runtime::Handle;

/// A directory being watched; ends when dropped.
#[derive(Debug)]
pub struct Watching {
    stop: Option<mpsc::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

/// Watches `dir` on a separate thread. Each new file is ingested; a failure is logged once, and the
/// file stays where it is.
///
/// # Errors
/// The thread cannot be started.
pub fn watch_directory(control: ControlPlane, dir: &Path, runtime: Handle) -> io::Result<Watching> {
    let (sender, stop) = mpsc::channel();
    let dir: PathBuf = dir.to_owned();
    let thread = thread::Builder::new().name("reel-watch".to_owned()).spawn(move || {
        let known = |stamp: &_| control.library().knows(stamp);
        watch(&dir, &stop, known, |arrival| {
            if control.stop_flag().is_stopped() {
                return;
            }
            let file = arrival.path.display().to_string();
            match runtime.block_on(control.ingest_file(arrival.path, None)) {
                Ok(ingested) => {
                    for warning in &ingested.warnings {
                        tracing::warn!(file, "{warning}");
                    }
                    tracing::info!(file, title = ingested.id, "taken from the watched directory");
                }
                Err(problem) => {
                    tracing::warn!(file, error = %problem, "not taken; it is tried again when it changes")
                }
            }
        });
    })?;
    Ok(Watching { stop: Some(sender), thread: Some(thread) })
}

impl Drop for Watching {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // `ControlPlane::stop` comes first at shutdown, and ends a running ingest.
            let _ = thread.join();
        }
    }
}
