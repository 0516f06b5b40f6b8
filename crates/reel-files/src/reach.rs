//! What the log says about a server that does not answer.

use crate::server::AskError;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The least time between two failures that are logged: files are read far more often.
const LOGGED_EVERY: Duration = Duration::from_secs(1);

/// Whether the server answers, as the log has said.
#[derive(Default)]
pub(crate) struct Reach {
    logged: Mutex<Logged>,
}

#[derive(Default)]
struct Logged {
    is_failing: bool,
    failed: Option<Instant>,
}

impl Reach {
    /// A question was answered, or not.
    pub(crate) fn note(&self, failure: Option<&AskError>, now: Instant) {
        match failure {
            Some(error) if self.is_news(true, now) => {
                tracing::warn!("{error}; until it does, files give errors");
            }
            None if self.is_news(false, now) => tracing::warn!("the server answers again"),
            _ => {}
        }
    }

    /// Whether a line is due.
    fn is_news(&self, is_failing: bool, now: Instant) -> bool {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let is_soon = logged.failed.is_some_and(|at| now.saturating_duration_since(at) < LOGGED_EVERY);
        if logged.is_failing == is_failing || (is_failing && is_soon) {
            return false;
        }
        logged.is_failing = is_failing;
        if is_failing {
            logged.failed = Some(now);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_logged_and_no_more_than_one_failure_a_second() {
        let (reach, now) = (Reach::default(), Instant::now());
        let at = |is_failing, ms| reach.is_news(is_failing, now + Duration::from_millis(ms));
        assert!(!at(false, 0) && at(true, 0) && !at(true, 5000), "a failure is told once");
        assert!(at(false, 5001) && !at(false, 5002), "and its end");
        assert!(at(true, 5003) && at(false, 5004) && !at(true, 5005) && !at(false, 5006), "not each of many");
        assert!(at(true, 6003));
    }
}
