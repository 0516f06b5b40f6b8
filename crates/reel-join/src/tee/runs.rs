//! What a branch's schedule (N, d) really was: how much it sends without a pause, and how long its
//! pauses are. Pure.

use crate::limits::{PAUSE_NOTED_NS, RUNS_REMEMBERED};

/// A schedule (N, d), as it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentRuns {
    /// Bytes of a run: a mean of the last ones. 0 before the first run has ended.
    pub run_bytes: u64,
    /// The pause after it: a mean of the last ones.
    pub pause_ns: u64,
}

/// The run of a branch.
#[derive(Debug, Default)]
pub(super) struct Runs {
    means: SentRuns,
    /// Sent since its last pause.
    bytes: u64,
    /// When it last ended sending something; 0 before the first time.
    ended_ns: u64,
    is_sending: bool,
}

impl Runs {
    /// It begins to send something.
    pub(super) fn begins(&mut self, now_ns: u64) {
        let pause_ns = now_ns.saturating_sub(self.ended_ns);
        if std::mem::replace(&mut self.is_sending, true) || self.bytes == 0 || pause_ns < PAUSE_NOTED_NS {
            return;
        }
        let SentRuns { run_bytes, pause_ns: mean_ns } = self.means;
        let is_first = run_bytes == 0;
        let mean = |before: u64, now: u64| match is_first {
            true => now,
            false => before - before / RUNS_REMEMBERED + now / RUNS_REMEMBERED,
        };
        let run_bytes = mean(run_bytes, self.bytes).max(1);
        self.means = SentRuns { run_bytes, pause_ns: mean(mean_ns, pause_ns) };
        self.bytes = 0;
    }

    /// It has sent so many bytes of that.
    pub(super) fn ends(&mut self, bytes: u64, now_ns: u64) {
        self.is_sending = false;
        self.bytes += bytes;
        self.ended_ns = now_ns;
    }

    pub(super) fn means(&self) -> SentRuns {
        self.means
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_schedule_is_that_of_the_last_runs() {
        let (mut runs, mut now_ns) = (Runs::default(), 0);
        let mut run = |calls: u64, bytes: u64, pause_ns: u64| {
            for _ in 0..calls {
                runs.begins(now_ns);
                now_ns += MS;
                runs.ends(bytes, now_ns);
            }
            now_ns += pause_ns;
            runs.begins(now_ns);
            runs.ends(0, now_ns);
            runs.means()
        };
        assert_eq!(run(3, 1000, 5 * MS), SentRuns { run_bytes: 3000, pause_ns: 5 * MS });
        for _ in 0..300 {
            run(1, 700, MS);
        }
        let SentRuns { run_bytes, pause_ns } = run(1, 700, MS);
        assert!(run_bytes.abs_diff(700) < 10 && pause_ns.abs_diff(MS) < 100, "{run_bytes} {pause_ns}");
    }

    #[test]
    fn what_follows_at_once_is_of_the_same_run() {
        let mut runs = Runs::default();
        for turn in 0..50 {
            let now_ns = turn * MS;
            runs.begins(now_ns);
            runs.ends(1000, now_ns + MS - PAUSE_NOTED_NS + 1);
        }
        assert_eq!(runs.means(), SentRuns::default());
        runs.begins(50 * MS);
        runs.begins(51 * MS);
        assert_eq!(runs.means(), SentRuns::default(), "it sends already");
        runs.ends(0, 51 * MS);
        runs.begins(60 * MS);
        assert_eq!(runs.means(), SentRuns { run_bytes: 50_000, pause_ns: 9 * MS });
    }
}
