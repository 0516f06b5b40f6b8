//! A watched directory: its new files become jobs like uploads.

use crate::ControlPlane;
use crate::wire::Watch;
use reel_library::{Arrival, Ingested, watch};
use reel_metrics::{MetricsPage, MetricsSource};
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
    let panics = Arc::new(WatchPanics::default());
    control.metrics().register(Arc::clone(&panics) as Arc<dyn MetricsSource>);
    let thread = thread::Builder::new().name("reel-watch".to_owned()).spawn(move || {
        let watcher = control.library().watcher(&dir);
        let take = |arrival: &Arrival| take(&control, &runtime, arrival);
        let show = |report| control.show_watched(Watch::new(&dir, report));
        watch(watcher, &stop, control.library(), take, show, &panics.0);
    })?;
    Ok(Watching { stop: Some(sender), thread: Some(thread) })
}

fn take(control: &ControlPlane, runtime: &Handle, arrival: &Arrival) -> Result<Ingested, String> {
    if control.stop_flag().is_stopped() {
        return Err("the server is stopping".to_owned());
    }
    let file = arrival.path.display().to_string();
    match runtime.block_on(control.ingest_file(arrival.path.clone(), arrival.replaces.clone())) {
        Ok(ingested) => {
            for warning in &ingested.warnings {
                tracing::warn!(file, "{warning}");
            }
            let said = if arrival.replaces.is_some() { "taken again" } else { "taken" };
            tracing::info!(file, title = ingested.id, "{said} from the watched directory");
            Ok(ingested)
        }
        Err(problem) => {
            tracing::warn!(file, error = %problem, "not taken; it is tried again when it changes");
            Err(problem.to_string())
        }
    }
}

/// Panics of the thread, after which it continued.
#[derive(Debug, Default)]
struct WatchPanics(AtomicU64);

impl MetricsSource for WatchPanics {
    fn collect(&self, page: &mut MetricsPage) {
        page.counter(
            "reel_watch_panics_total",
            "Panics of the thread of the watched directory, after which it continued; each is a defect.",
            &[],
            self.0.load(Ordering::Relaxed),
        );
    }
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
