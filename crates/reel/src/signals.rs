//! Signals: to stop (SIGTERM, or SIGINT from a terminal), or to reload the certificate (SIGHUP).

use std::io;
use std::time::{Duration, Instant};

use crate::ending::shut_down_sockets;
use crate::logging;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// A supervisor may send a signal to the process and to its group (`timeout` does, and a terminal
/// running `make`). Both are one request.
const ECHO_TIME: Duration = Duration::from_millis(500);

/// How often the server's state is checked.
const CHECK_PERIOD: Duration = Duration::from_secs(1);

/// Why [`Signals::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Stop, by the signal of this name.
    Stop(&'static str),
    /// Reload the certificate.
    Reload,
    /// No signal: time to check the state of the server.
    Check,
}

/// SIGTERM, SIGINT and SIGHUP, which no longer end the process by themselves.
pub(crate) struct Signals {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// From now on the signals are queued for [`Signals::wait`].
    pub(crate) fn catch() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (terminate, interrupt, hang_up) = {
            let _inside = runtime.enter();
            (
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
                signal(SignalKind::hangup())?,
            )
        };
        Ok(Self { runtime, terminate, interrupt, hang_up })
    }

    /// Blocks until a signal arrives or it is time for a check.
    pub(crate) fn wait(&mut self) -> Event {
        let Self { runtime, terminate, interrupt, hang_up } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => Event::Stop("SIGTERM"),
                _ = interrupt.recv() => Event::Stop("SIGINT"),
                _ = hang_up.recv() => Event::Reload,
                () = tokio::time::sleep(CHECK_PERIOD) => Event::Check,
            }
        })
    }

    /// Waits for a value, or for a signal to stop, of which it returns the name. `None` if the
    /// value never comes.
    pub(crate) fn wait_for<T>(&mut self, mut value: oneshot::Receiver<T>) -> Result<Option<T>, &'static str> {
        let Self { runtime, terminate, interrupt, .. } = self;
        runtime.block_on(async {
            tokio::select! {
                biased;
                value = &mut value => Ok(value.ok()),
                _ = terminate.recv() => Err("SIGTERM"),
                _ = interrupt.recv() => Err("SIGINT"),
            }
        })
    }

    /// The next signal to stop ends the process at once. Within [`ECHO_TIME`] it counts as an echo
    /// of the first.
    pub(crate) fn end_at_the_next_stop(mut self) {
        let first = Instant::now();
        std::thread::spawn(move || {
            loop {
                if let Event::Stop(name) = self.wait()
                    && first.elapsed() >= ECHO_TIME
                {
                    logging::say(format!("{name} again: ending at once"));
                    shut_down_sockets();
                    logging::flush();
                    std::process::exit(1);
                }
            }
        });
    }
}
