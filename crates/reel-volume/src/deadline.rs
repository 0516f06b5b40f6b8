//! Requests of a member while its volume is opened, each with a deadline.
//!
//! The disk threads have deadlines of their own. Before they are started, a request is one call
//! that the kernel may keep for ever: in a read of a disk that hangs, or in a write to a frozen
//! file system.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Runs a request on a thread of its own. `slow` is called once if it has not ended after `shown`.
/// Returns `None` if it has not ended after `patience`: the thread stays as long as the kernel
/// keeps it.
pub(crate) fn within<T: Send + 'static>(
    [shown, patience]: [Duration; 2],
    slow: impl FnOnce(),
    request: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, answer) = channel();
    let thread = std::thread::Builder::new().name("reel-open".to_owned());
    let spawned = thread.spawn(move || {
        // Not taken if the patience has ended.
        let _ = sender.send(request());
    });
    if let Err(error) = spawned {
        tracing::error!(%error, "cannot start a thread for a request of a member");
        return None;
    }
    match answer.recv_timeout(shown.min(patience)) {
        Err(RecvTimeoutError::Timeout) => {
            slow();
            answer.recv_timeout(patience.saturating_sub(shown)).ok()
        }
        answered => answered.ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn requests_are_waited_for_as_long_as_patience_lasts() {
        assert_eq!(within([LONG, LONG], || panic!("it is quick"), || 7), Some(7));
        let (release, held) = channel::<()>();
        let mut is_slow = false;
        let wait = move || held.recv().is_err();
        assert_eq!(within([SHORT, LONG], || drop(release), wait), Some(true));
        let (release, held) = channel::<()>();
        assert_eq!(within([SHORT, SHORT], || is_slow = true, move || held.recv().is_err()), None);
        assert!(is_slow);
        drop(release);
    }
}
