//! A watched directory: its new files become jobs like uploads.

use crate::ControlPlane;
use crate::wire::Watch;
use reel_library::{Arrival, Ingested, WatchLife, watch};
use reel_metrics::{MetricsPage, MetricsSource};
use reel_rt::now_ns;
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use tokio::runtime::Handle;

/// A directory being watched; ends when dropped.
#[derive(Debug)]
pub struct Watching {
    stop: Option<mpsc::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
    life: Arc<WatchLife>,
}

/// Watches `dir` on a separate thread. Each new file is ingested; a failure is logged once, and the
/// file stays where it is.
///
/// # Errors
/// The thread cannot be started.
pub fn watch_directory(control: ControlPlane, dir: &Path, runtime: Handle) -> io::Result<Watching> {
    let (sender, stop) = mpsc::channel();
    let dir: PathBuf = dir.to_owned();
    let life = Arc::new(WatchLife::beginning(now_ns()));
    control.metrics().register(Arc::new(WatchMetrics(Arc::clone(&life))));
    control.is_watched_by(&life);
    let of_thread = Arc::clone(&life);
    let thread = thread::Builder::new().name("reel-watch".to_owned()).spawn(move || {
        let watcher = control.library().watcher(&dir);
        let take = |arrival: &Arrival| take(&control, &runtime, arrival);
        let show = |report| control.show_watched(Watch::new(&dir, report));
        watch(watcher, &stop, control.library(), take, show, &of_thread);
    })?;
    Ok(Watching { stop: Some(sender), thread: Some(thread), life })
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

/// Why the thread does nothing, if it hangs.
pub(crate) fn hang(life: &WatchLife, now_ns: u64) -> Option<String> {
    life.hangs(now_ns).then(|| {
        let seconds = life.looks_for_ns(now_ns) / 1_000_000_000;
        format!(
            "a look at the watched directory has not ended for {seconds} s: its file system does not answer, or the \
             thread has ended (the log has the reason); make it answer, or restart the server"
        )
    })
}

struct WatchMetrics(Arc<WatchLife>);

impl MetricsSource for WatchMetrics {
    fn collect(&self, page: &mut MetricsPage) {
        page.counter(
            "reel_watch_panics_total",
            "Panics of the thread of the watched directory, after which it continued; each is a defect.",
            &[],
            self.0.panics(),
        );
        page.gauge(
            "reel_watch_look_seconds",
            "How long the look at the watched directory takes that is under way; 0 between two looks, and while a \
             file is ingested.",
            &[],
            self.0.looks_for_ns(now_ns()) as f64 / 1e9,
        );
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A file system that does not answer is not waited for.
        if let Some(thread) = self.thread.take().filter(|_| !self.life.hangs(now_ns())) {
            // `ControlPlane::stop` comes first at shutdown, and ends a running ingest.
            let _ = thread.join();
        }
    }
}
