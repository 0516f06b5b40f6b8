//! What the lines of one test program say: which tests ended and how, which take long, and which
//! were skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// libtest names a test that has run for this long, once.
const ANNOUNCED_AFTER: Duration = Duration::from_secs(60);

/// A test that has exceeded its limit is ended before the whole program counts as silent, which
/// takes this part of the limit longer.
const SILENCE_MORE: u32 = 6;

/// Stands for the test that failed when the program did, and each of its tests has a result.
pub(crate) const WHOLE_PROGRAM: &str = "(the whole program)";

/// What may pass before a test ends, or before a program says something.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    /// For a test that has no limit of its own.
    pub(crate) usual: Duration,
    /// For tests that are known to take longer.
    pub(crate) of_tests: BTreeMap<String, Duration>,
}

impl Limits {
    fn of(&self, test: &str) -> Duration {
        self.of_tests.get(test).copied().unwrap_or_default().max(self.usual)
    }

    /// A program says nothing for longer than this only if it hangs.
    fn silence(&self) -> Duration {
        let longest = self.of_tests.values().copied().fold(self.usual, Duration::max);
        longest + longest / SILENCE_MORE
    }
}

/// What has been read of a program that was started with `--show-output`.
#[derive(Debug)]
pub(crate) struct Progress {
    limits: Limits,
    last_line: Instant,
    /// When each test that takes long has to have ended.
    long: BTreeMap<String, Instant>,
    passed: BTreeSet<String>,
    failed: BTreeSet<String>,
    ignored: BTreeSet<String>,
    skips: BTreeMap<String, BTreeSet<String>>,
    section: Section,
    summed_up: bool,
}

/// The parts of libtest's output.
#[derive(Debug, PartialEq)]
enum Section {
    /// A line for each test that ends, and after those all the rest.
    Results,
    /// What the tests that passed printed, under the name of each.
    Output { of: String },
    /// The names of the tests that passed.
    Names,
}

impl Progress {
    /// Nothing read yet, at `now`.
    pub(crate) fn new(limits: Limits, now: Instant) -> Self {
        Self {
            limits,
            last_line: now,
            long: BTreeMap::new(),
            passed: BTreeSet::new(),
            failed: BTreeSet::new(),
            ignored: BTreeSet::new(),
            skips: BTreeMap::new(),
            section: Section::Results,
            summed_up: false,
        }
    }

    /// Takes the next line, read at `now`. Whether it is to be shown: the output of tests that
    /// passed is not.
    pub(crate) fn line(&mut self, line: &str, now: Instant) -> bool {
        self.last_line = now;
        match &mut self.section {
            Section::Results if line == "successes:" => {
                self.section = Section::Output { of: String::new() };
                false
            }
            Section::Results => {
                self.result(line, now);
                true
            }
            Section::Output { .. } if line == "successes:" => {
                self.section = Section::Names;
                false
            }
            Section::Output { of } => {
                if let Some(test) =
                    line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"))
                {
                    test.clone_into(of);
                } else if let Some(reason) = line.strip_prefix("skipped: ") {
                    self.skips.entry(of.clone()).or_default().insert(reason.trim().to_owned());
                }
                false
            }
            Section::Names if line == "failures:" || line.starts_with("test result: ") => {
                self.section = Section::Results;
                self.result(line, now);
                true
            }
            Section::Names => false,
        }
    }

    fn result(&mut self, line: &str, now: Instant) {
        self.summed_up |= line.starts_with("test result: ");
        let Some(rest) = line.strip_prefix("test ") else { return };
        if let Some((test, _)) = rest.split_once(" has been running for over ") {
            let left = self.limits.of(test).saturating_sub(ANNOUNCED_AFTER);
            self.long.insert(test.to_owned(), now + left);
        } else if let Some((test, outcome)) = rest.rsplit_once(" ... ") {
            let test = test.strip_suffix(" - should panic").unwrap_or(test).to_owned();
            self.long.remove(&test);
            let ended = match outcome.split([',', ' ']).next() {
                Some("ok") => &mut self.passed,
                Some("ignored") => &mut self.ignored,
                _ => &mut self.failed,
            };
            ended.insert(test);
        }
    }

    /// When the program is to be ended unless it says something before: a test has had its time, or
    /// nothing was said for as long.
    pub(crate) fn ends_at(&self) -> Instant {
        let silent = self.last_line + self.limits.silence();
        self.long.values().copied().fold(silent, Instant::min)
    }

    /// The tests that passed though they left something out, each with the reasons.
    pub(crate) fn skips(&self) -> impl Iterator<Item = (&str, String)> {
        let passed = self.skips.iter().filter(|(test, _)| self.passed.contains(*test));
        passed.map(|(test, reasons)| {
            (test.as_str(), reasons.iter().map(String::as_str).collect::<Vec<_>>().join("; "))
        })
    }

    /// Whether libtest has printed its own sum.
    pub(crate) fn summed_up(&self) -> bool {
        self.summed_up
    }

    /// The lines that libtest owes when its program did not end by itself: a result of each of the
    /// `listed` tests that has none, and the sum. `why` says what happened.
    pub(crate) fn close(&self, listed: &[String], why: &str, now: Instant) -> Vec<String> {
        let ended = |test: &&String| {
            [&self.passed, &self.failed, &self.ignored].iter().any(|tests| tests.contains(*test))
        };
        let mut lines = Vec::new();
        for test in listed.iter().filter(|test| !ended(test)) {
            let over = self.long.get(test).is_some_and(|end| *end <= now);
            let what = if over { "it took too long" } else { "it had not ended" };
            lines.push(format!("test {test} ... FAILED ({what}: {why})"));
        }
        if lines.is_empty() {
            lines.push(format!("test {WHOLE_PROGRAM} ... FAILED ({why})"));
        }
        let failed = self.failed.len() + lines.len();
        lines.push(format!(
            "test result: FAILED. {} passed; {failed} failed; {} ignored; 0 measured; 0 filtered out; {why}",
            self.passed.len(),
            self.ignored.len()
        ));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(300);

    fn read(lines: &str) -> (Progress, Vec<&str>, Instant) {
        let now = Instant::now();
        let of_tests = BTreeMap::from([("patient".to_owned(), 2 * LIMIT)]);
        let mut progress = Progress::new(Limits { usual: LIMIT, of_tests }, now);
        let shown = lines.lines().filter(|line| progress.line(line, now)).collect();
        (progress, shown, now)
    }

    #[test]
    fn a_skip_is_read_from_the_output_of_the_test_that_passed() {
        let (progress, shown, _) = read(
            "\nrunning 3 tests\ntest a::one ... ok\ntest two ... ok\ntest three ... FAILED\n\n\
            successes:\n\n---- a::one stdout ----\nskipped: no fuse\nskipped: no fuse\nskipped: no root\n\n\
            ---- two stdout ----\ntest result: ok. 7 passed\n\n\nsuccesses:\n    a::one\n    two\n\n\
            failures:\n\n---- three stdout ----\nskipped: no tap\n\nfailures:\n    three\n\n\
            test result: FAILED. 2 passed; 1 failed; 0 ignored",
        );
        assert_eq!(progress.skips().collect::<Vec<_>>(), [("a::one", "no fuse; no root".to_owned())]);
        assert_eq!(
            shown[..5],
            ["", "running 3 tests", "test a::one ... ok", "test two ... ok", "test three ... FAILED"]
        );
        assert_eq!(shown.iter().filter(|line| line.starts_with("test result")).count(), 1);
        assert!(progress.summed_up() && !shown.contains(&"successes:") && shown.contains(&"failures:"));
    }

    #[test]
    fn a_test_has_its_own_time_and_silence_is_bounded_too() {
        let (mut progress, _, begun) = read("running 3 tests");
        assert_eq!(progress.ends_at(), begun + 2 * LIMIT + 2 * LIMIT / SILENCE_MORE);
        let later = begun + Duration::from_secs(60);
        progress.line("test slow has been running for over 60 seconds", later);
        progress.line("test patient has been running for over 60 seconds", later);
        assert_eq!(progress.ends_at(), begun + LIMIT, "60 s of its time are over when it is named");
        progress.line("test quick ... ok", later + Duration::from_secs(100));
        assert_eq!(progress.ends_at(), begun + LIMIT, "what others do gives it no more");
        progress.line("test slow ... ok <170.000s>", later + Duration::from_secs(110));
        assert_eq!(progress.ends_at(), begun + 2 * LIMIT, "some tests may take longer");
    }

    #[test]
    fn what_has_no_result_fails_when_the_program_is_ended() {
        let (mut progress, _, begun) = read(
            "running 4 tests\ntest done ... ok\ntest left ... ignored, child of done\ntest p - should panic ... ok\n\
             test slow has been running for over 60 seconds",
        );
        progress.line("test wrong ... FAILED", begun);
        let listed = ["done", "left", "p", "slow", "waiting", "wrong"].map(str::to_owned);
        let lines = progress.close(&listed, "300 s are over", begun + LIMIT);
        assert_eq!(
            lines,
            [
                "test slow ... FAILED (it took too long: 300 s are over)",
                "test waiting ... FAILED (it had not ended: 300 s are over)",
                "test result: FAILED. 2 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; 300 s are over",
            ]
        );
    }

    #[test]
    fn a_program_of_no_tests_fails_as_one() {
        let (progress, _, begun) = read("hello");
        let lines = progress.close(&[], "ended by signal 6", begun);
        assert_eq!(lines[0], "test (the whole program) ... FAILED (ended by signal 6)");
        assert!(lines[1].contains(" 0 passed; 1 failed;") && !progress.summed_up());
    }
}
