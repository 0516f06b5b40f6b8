//! How often a thread may begin again after panics.

use crate::limits::{RESTARTS_MAX, RESTARTS_WITHIN_NS};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The restarts of one thread.
#[derive(Debug)]
pub(crate) struct Restarts {
    max: usize,
    /// All of them, for others to read.
    pub(crate) count: Arc<AtomicU32>,
    /// The times of the last ones.
    last_ns: VecDeque<u64>,
}

impl Restarts {
    /// The thread ends with its first panic.
    pub(crate) fn none() -> Self {
        Self { max: 0, count: Arc::default(), last_ns: VecDeque::new() }
    }

    /// The thread begins again, unless it panics repeatedly in a short time.
    pub(crate) fn some() -> Self {
        Self { max: RESTARTS_MAX, ..Self::none() }
    }

    /// Whether a thread that has panicked may begin again. Then this is counted.
    pub(crate) fn may_restart(&mut self, now_ns: u64) -> bool {
        let is_old = |last_ns: &u64| now_ns.saturating_sub(*last_ns) > RESTARTS_WITHIN_NS;
        while self.last_ns.front().is_some_and(is_old) {
            self.last_ns.pop_front();
        }
        if self.last_ns.len() >= self.max {
            return false;
        }
        self.last_ns.push_back(now_ns);
        self.count.fetch_add(1, Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panics_repeatedly_ends() {
        let mut restarts = Restarts::some();
        assert!((0..RESTARTS_MAX as u64).all(|now_ns| restarts.may_restart(now_ns)));
        assert!(!restarts.may_restart(RESTARTS_WITHIN_NS));
        assert!(restarts.may_restart(RESTARTS_WITHIN_NS + 1), "the first was long ago");
        assert!(!restarts.may_restart(RESTARTS_WITHIN_NS + 1));
        assert!(!Restarts::none().may_restart(0));
    }
}
