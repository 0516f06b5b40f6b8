//! Work in system calls that may never return, on a thread of its own.
//!
//! A write that a disk thread does not answer is given up. While a volume is opened, and before a
//! disk becomes a member, there is no disk thread yet. A call that hangs in the kernel cannot be
//! ended. So the caller stops waiting for it, and the thread does nothing more when the call
//! returns.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::error::VolumeError;
use crate::limits::SPIN_UP_SHOWN_NS;

/// Tells the caller that the work proceeds.
pub(crate) struct Progress {
    /// How long the next step may take. Nothing if no caller waits like that.
    steps: Option<Sender<Duration>>,
    is_given_up: Arc<AtomicBool>,
}

/// The caller does not wait any more.
#[derive(Debug)]
pub(crate) struct GivenUp;

impl Progress {
    /// Of work that no caller gives up.
    pub(crate) fn unwatched() -> Progress {
        Progress { steps: None, is_given_up: Arc::default() }
    }

    /// Says that the last step has ended, and how long the next one may take.
    pub(crate) fn next(&self, at_most_ns: u64) -> Result<(), GivenUp> {
        if let Some(steps) = &self.steps {
            let _ = steps.send(Duration::from_nanos(at_most_ns));
        }
        if self.is_given_up.load(Ordering::Acquire) { Err(GivenUp) } else { Ok(()) }
    }
}

/// Runs work whose first step may take so long. What became of it, or how many seconds a step took
/// that was given up. `slow` is called once if a step takes longer than [`SPIN_UP_SHOWN_NS`].
pub(crate) fn patiently<T: Send + 'static>(
    name: &str,
    at_most_ns: u64,
    slow: impl FnOnce(),
    work: impl FnOnce(&Progress) -> T + Send + 'static,
) -> Result<Result<T, u64>, VolumeError> {
    let (steps, next_step) = channel();
    let (done, result) = channel();
    let is_given_up = Arc::new(AtomicBool::new(false));
    let progress = Progress { steps: Some(steps), is_given_up: Arc::clone(&is_given_up) };
    let run = move || {
        // Without a result the steps end, and the caller sees that.
        if let Ok(found) = catch_unwind(AssertUnwindSafe(|| work(&progress))) {
            let _ = done.send(found);
        }
        drop(progress);
    };
    let failed = |reason: String| VolumeError::options(format!("the thread {name} {reason}"), None);
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map_err(|error| failed(format!("cannot be started: {error}")))?;
    match silent_for(&next_step, Duration::from_nanos(at_most_ns), slow) {
        Some(silent) => {
            is_given_up.store(true, Ordering::Release);
            Ok(Err(silent.as_secs()))
        }
        None => result.recv().map(Ok).map_err(|_| failed("panicked, which is a defect".to_owned())),
    }
}

/// Waits until the steps end; how long one took that did not end in time.
fn silent_for(next_step: &Receiver<Duration>, first: Duration, slow: impl FnOnce()) -> Option<Duration> {
    let (mut at_most, mut slow) = (first, Some(slow));
    loop {
        let shown = Duration::from_nanos(SPIN_UP_SHOWN_NS).min(at_most);
        let mut answer = next_step.recv_timeout(shown);
        if answer == Err(RecvTimeoutError::Timeout) && at_most > shown {
            if let Some(slow) = slow.take() {
                slow();
            }
            answer = next_step.recv_timeout(at_most - shown);
        }
        match answer {
            Ok(next) => at_most = next,
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => return Some(at_most),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG_NS: u64 = 600_000_000_000;

    #[test]
    fn steps_in_time_lead_to_the_result() {
        let sum = patiently(
            "reel-test",
            LONG_NS,
            || (),
            |progress| (0..100).map(|step| progress.next(LONG_NS).map_or(0, |()| step)).sum::<u32>(),
        );
        assert_eq!(sum.unwrap(), Ok(4950));
    }

    #[test]
    fn a_step_that_does_not_end_is_given_up_and_no_other_follows() {
        let (held, release) = channel::<()>();
        let (say, said) = channel();
        let given_up = patiently(
            "reel-test",
            LONG_NS,
            || (),
            move |progress| {
                progress.next(1_000_000).unwrap();
                let _ = release.recv();
                say.send(progress.next(LONG_NS).is_err()).unwrap();
            },
        );
        assert_eq!(given_up.unwrap(), Err(0));
        drop(held);
        assert!(said.recv().unwrap(), "it must do nothing more");
    }

    #[test]
    fn a_slow_step_is_named_and_waited_for() {
        let (hold, held) = channel::<()>();
        let waited = patiently("reel-test", LONG_NS, || drop(hold), move |_| held.recv().is_err());
        assert_eq!(waited.unwrap(), Ok(true));
    }

    #[test]
    fn a_panic_is_an_error() {
        let text =
            patiently("reel-test", LONG_NS, || (), |_| panic!("on purpose")).map(|_: Result<(), u64>| ());
        assert!(text.unwrap_err().to_string().contains("panicked"));
    }
}
