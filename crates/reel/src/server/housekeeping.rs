//! The thread that keeps sessions, capacities and shared reservations, so that no serving thread
//! does.

use super::ServeError;
use reel_play::{Housekeeper, PlayableTitle};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Between two steps: four in a round, so that what is given back can be reserved again soon.
const STEP_EVERY: Duration = Duration::from_millis(250);

/// The running thread.
pub(super) struct Housekeeping {
    /// The thread ends when this is dropped.
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Housekeeping {
    /// Starts the thread.
    pub(super) fn start(mut housekeeper: Housekeeper<PlayableTitle>) -> Result<Self, ServeError> {
        let (stop, stopped) = channel();
        let run = move || {
            while stopped.recv_timeout(STEP_EVERY) == Err(RecvTimeoutError::Timeout) {
                housekeeper.step(reel_rt::now_ns());
            }
        };
        let thread = thread::Builder::new().name("reel-housekeeping".to_owned()).spawn(run);
        Ok(Self { stop, thread: thread.map_err(ServeError::Thread)? })
    }

    /// Ends the thread and waits for it: at most for the step under way.
    pub(super) fn stop(self) {
        drop(self.stop);
        // A panic in it was told when it happened.
        let _ = self.thread.join();
    }
}
