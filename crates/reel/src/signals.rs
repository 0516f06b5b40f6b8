//! What is wished from outside: to stop (SIGTERM, or SIGINT from a terminal), or to read the certificate again (SIGHUP).

use std::io;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A supervisor may send a signal to the process and to its group (timeout does, and a terminal beside `make`): both
/// are one wish.
const SAME_WISH: Duration = Duration::from_millis(500);

/// How often the server is looked after.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The end, by the signal of this name.
    End(&'static str),
    /// A new look at the certificate.
    Reload,
    /// Nothing from outside: time to see whether all is well inside.
    Look,
}

/// SIGTERM, SIGINT and SIGHUP, which no longer end the process by themselves.
pub(crate) struct Signals {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// From now on the signals are kept for [`Signals::wait`].
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

    /// Blocks until one of them comes, or it is time to look.
    pub(crate) fn wait(&mut self) -> Wish {
        let Self { runtime, terminate, interrupt, hang_up } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => Wish::End("SIGTERM"),
                _ = interrupt.recv() => Wish::End("SIGINT"),
                _ = hang_up.recv() => Wish::Reload,
                () = tokio::time::sleep(LOOK_EVERY) => Wish::Look,
            }
        })
    }

    /// The next wish for the end is granted at once: whoever asks twice does not want to wait. Within [`SAME_WISH`] it is an
    /// echo of the first.
    pub(crate) fn end_at_the_next(mut self) {
        let first = Instant::now();
        std::thread::spawn(move || {
            loop {
                if let Wish::End(name) = self.wait()
                    && first.elapsed() >= SAME_WISH
                {
                    eprintln!("{name} again: ending at once");
                    std::process::exit(1);
                }
            }
        });
    }
}
