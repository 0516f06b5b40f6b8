//! The thread that maintains sessions, capacities and shared reservations, so that no serve thread
//! has to.

use super::ServeError;
use super::guarded::guarded;
use reel_play::{Housekeeper, PlayableTitle};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The time between two steps. Four steps in a round, so that released reservations can be used
/// again soon.
const STEP_EVERY: Duration = Duration::from_millis(250);

/// Panics in a row after which the thread ends, and with it the server: a second without
/// housekeeping. Reservations are not kept right without it.
const PANICS_MAX: u32 = 4;

/// The running thread.
pub(super) struct Housekeeping {
    /// The thread ends when this is dropped.
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Housekeeping {
    /// Starts the thread, which has the time of each step from `clock`.
    pub(super) fn start(
        mut housekeeper: Housekeeper<PlayableTitle>,
        clock: fn() -> u64,
    ) -> Result<Self, ServeError> {
        Self::stepping(STEP_EVERY, move || housekeeper.step(clock()))
    }

    /// A thread that does such a step periodically. What a step measures, the next one measures
    /// again, so a panic costs one step. After [`PANICS_MAX`] panics in a row the thread ends.
    fn stepping(every: Duration, mut step: impl FnMut() + Send + 'static) -> Result<Self, ServeError> {
        let (stop, stopped) = channel();
        let run = move || {
            let mut panics = 0;
            while panics < PANICS_MAX && stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                panics = if guarded(&mut step) { 0 } else { panics + 1 };
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

    #[test]
    fn a_step_that_panics_costs_one_step_and_four_in_a_row_end_the_thread() {
        let (steps, stepped) = channel();
        let mut number: u32 = 0;
        let step = move || {
            number += 1;
            steps.send(number).expect("the test listens");
            assert!(number.is_multiple_of(PANICS_MAX) && number < 3 * PANICS_MAX, "on purpose");
        };
        let housekeeping = Housekeeping::stepping(Duration::from_millis(1), step).expect("a thread");
        // Three of four panic, until all do.
        let all: Vec<u32> = stepped.iter().collect();
        assert_eq!(all.len() as u32, 3 * PANICS_MAX);
        while housekeeping.is_alive() {
            thread::yield_now();
        }
        housekeeping.stop();
    }
}
