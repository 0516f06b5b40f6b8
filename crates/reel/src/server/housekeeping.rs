//! The thread that maintains sessions, capacities and shared reservations, so that no serve thread
//! has to.

use super::ServeError;
use reel_play::{Housekeeper, PlayableTitle};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The time between two steps. Four steps in a round, so that released reservations can be used
/// again soon.
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

    /// Whether the thread is running.
    pub(super) fn is_alive(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Ends the thread and waits for it, at most for the current step.
    pub(super) fn stop(self) {
        drop(self.stop);
        // A panic of the thread was logged when it happened.
        let _ = self.thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_has_ended_is_not_alive() {
        let (stop, stopped) = channel();
        let thread = thread::spawn(move || {
            let _ = stopped.recv();
        });
        let housekeeping = Housekeeping { stop, thread };
        assert!(housekeeping.is_alive());
        // As after a panic: without having been stopped.
        assert!(housekeeping.stop.send(()).is_ok());
        while housekeeping.is_alive() {
            thread::yield_now();
        }
        housekeeping.stop();
    }
}
