//! The wish to stop: SIGTERM, or SIGINT from a terminal.

use std::io;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A supervisor may send a signal to the process and to its group (timeout does, and a terminal beside `make`): both
/// are one wish.
const SAME_WISH: Duration = Duration::from_millis(500);

/// SIGTERM and SIGINT, which no longer end the process by themselves.
pub(crate) struct Signals {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From now on the signals are kept for [`Signals::wait`].
    pub(crate) fn catch() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let (terminate, interrupt) = {
            let _inside = runtime.enter();
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
        };
        Ok(Self { runtime, terminate, interrupt })
    }

    /// Blocks until one of them comes, and names it.
    pub(crate) fn wait(&mut self) -> &'static str {
        let Self { runtime, terminate, interrupt } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        })
    }

    /// The next one ends the process at once: whoever asks twice does not want to wait. Within [`SAME_WISH`] it is an
    /// echo of the first.
    pub(crate) fn end_at_the_next(mut self) {
        let first = Instant::now();
        std::thread::spawn(move || {
            let mut name = self.wait();
            while first.elapsed() < SAME_WISH {
                name = self.wait();
            }
            eprintln!("{name} again: ending at once");
            std::process::exit(1);
        });
    }
}
