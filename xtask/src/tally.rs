//! `cargo xtask tally LOG [EXPECTED]`: the sum of every test runner's own summary, and what was
//! skipped for which reason.

use std::collections::BTreeMap;
use std::fs;
use std::ops::AddAssign;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::skips::{Expected, Line, Skip};

/// Reads the log of `make test`, prints what was skipped and what passed only when it ran again,
/// and ends with one line: `N passed, N failed, N skipped`. Fails if a test failed, if none passed,
/// and if one was skipped that is not on the list `expected`.
pub(crate) fn run(log: &Path, expected: Option<&Path>) -> Result<ExitCode> {
    let bytes = fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
    let (tally, skips) = Tally::of(&String::from_utf8_lossy(&bytes));
    let mut tests_of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for skip in &skips {
        tests_of.entry(&skip.reason).or_default().push(&skip.test);
    }
    for (reason, tests) in tests_of {
        println!("skipped, {reason}: {}", tests.join(", "));
    }
    let mut unexpected = 0;
    if let Some(path) = expected {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let expected = Expected::of(&text).with_context(|| format!("in {}", path.display()))?;
        for Skip { test, reason } in skips.iter().filter(|skip| !expected.lists(skip)) {
            println!("error: skipped, but not listed in {}: {test}: {reason}", path.display());
            unexpected += 1;
        }
    }
    if tally.flaky > 0 {
        println!("{} flaky, each named in a line `flaky test: ...`", tally.flaky);
    }
    println!("{} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.skipped);
    let good = tally.failed == 0 && tally.passed > 0 && unexpected == 0;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Signed, because a line may say that what a later one counts is to be counted otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    passed: i64,
    failed: i64,
    skipped: i64,
    /// Tests among those that passed which failed before.
    flaky: i64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.flaky += other.flaky;
    }
}

impl Tally {
    /// Adds up the summaries of cargo and node:test, and the stages that failed without a failed
    /// test; lists what was skipped.
    fn of(log: &str) -> (Self, Vec<Skip>) {
        let mut whole = Self::default();
        let mut stage = Self::default();
        let mut skips = Vec::new();
        for line in log.lines().map(plain) {
            let line = line.trim();
            match Line::of(line) {
                Some(Line::CountedAsPassed(skip)) => {
                    stage += Self { passed: -1, skipped: 1, ..Self::default() };
                    skips.push(skip);
                }
                Some(Line::CountedAsSkipped(skip)) => skips.push(skip),
                Some(Line::Elsewhere) => stage.skipped -= 1,
                None => {}
            }
            if line.starts_with("flaky test: ") {
                // Its runner has counted it as failed.
                stage += Self { passed: 1, failed: -1, flaky: 1, ..Self::default() };
            }
            stage += cargo(line).or_else(|| node(line)).unwrap_or_default();
            if let Some(verdict) = line.strip_prefix("stage ") {
                // What does not compile runs no test, and must not pass for it.
                if verdict.contains(": FAILED") && stage.failed == 0 {
                    stage.failed = 1;
                }
                whole += std::mem::take(&mut stage);
            }
        }
        whole += stage;
        (whole, skips)
    }
}

/// `test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s`.
fn cargo(line: &str) -> Option<Tally> {
    let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let count =
        |name: &str| counts.split(';').find_map(|part| part.trim().strip_suffix(name)?.trim().parse().ok());
    let none = Tally::default();
    Some(Tally { passed: count("passed")?, failed: count("failed")?, skipped: count("ignored")?, ..none })
}

/// One line of the summary of node:test: `# pass 5` or `ℹ pass 5`.
fn node(line: &str) -> Option<Tally> {
    let (name, count) = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ "))?.split_once(' ')?;
    let count = count.parse().ok()?;
    let none = Tally::default();
    match name {
        "pass" => Some(Tally { passed: count, ..none }),
        "fail" | "cancelled" => Some(Tally { failed: count, ..none }),
        "skipped" => Some(Tally { skipped: count, ..none }),
        _ => None,
    }
}

/// `line` without terminal colours.
fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        text.push_str(before);
        rest = after.find('m').map_or("", |end| &after[end + 1..]);
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(log: &str) -> (i64, i64, i64, i64) {
        let Tally { passed, failed, skipped, flaky } = Tally::of(log).0;
        (passed, failed, skipped, flaky)
    }

    #[test]
    fn what_passed_when_it_ran_again_is_flaky_and_its_other_runs_do_not_count() {
        let log = "test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n\
            | test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 6 filtered out\n\
            flaky test: reel/reel a::b: passed at try 2 of 3\nstage test: FAILED in 1 s";
        assert_eq!(counts(log), (6, 1, 0, 1));
        assert_eq!(counts(&log.replace("2 failed", "1 failed").replace("FAILED in", "ok in")), (6, 0, 0, 1));
    }

    #[test]
    fn runners_are_added_up() {
        let log = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            stage test: ok in 3 s\n\u{1b}[34m# pass 2\u{1b}[39m\n# fail 0\n# skipped 1\n";
        assert_eq!(counts(log), (7, 0, 2, 0));
    }

    #[test]
    fn failures_are_counted() {
        let log = "test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\nstage test: FAILED in 1 s\n\
            ℹ pass 4\nℹ fail 1\nstage web: FAILED in 2 s";
        assert_eq!(counts(log), (9, 3, 0, 0));
    }

    #[test]
    fn a_stage_that_runs_no_test_fails_as_one() {
        let log = "error: could not compile\nstage clippy: FAILED in 1 s\nstage docs: ok in 1 s";
        assert_eq!(counts(log), (0, 1, 0, 0));
    }

    #[test]
    fn what_returned_early_is_skipped_and_a_child_of_a_test_is_no_test() {
        let log = "test killed::child ... ignored, child of a_killed_process_leaves_what_it_had_acknowledged\n\
            test slow ... ignored, takes a day\n\
            test result: ok. 5 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out\n\
            skipped test: reel-ring trains::lent: no ifb: it needs root\nstage test: ok in 3 s";
        let (tally, skips) = Tally::of(log);
        assert_eq!((tally.passed, tally.failed, tally.skipped), (4, 0, 2));
        let reported: Vec<_> = skips.iter().map(|skip| (skip.test.as_str(), skip.reason.as_str())).collect();
        assert_eq!(reported, [("slow", "takes a day"), ("reel-ring trains::lent", "no ifb: it needs root")]);
    }
}
