//! `cargo xtask tally LOG`: the sum of every test runner's own summary.

use std::fs;
use std::ops::AddAssign;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

/// Reads the log of `make test` and ends with one line: `N passed, N failed, N skipped`.
pub(crate) fn run(log: &Path) -> Result<ExitCode> {
    let bytes = fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
    let tally = Tally::of(&String::from_utf8_lossy(&bytes));
    println!("{} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.skipped);
    Ok(if tally.failed == 0 && tally.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl Tally {
    /// Adds up the summaries of cargo, node:test and vitest, and the stages that failed without a failed test.
    fn of(log: &str) -> Self {
        let mut whole = Self::default();
        let mut stage = Self::default();
        for line in log.lines().map(plain) {
            let line = line.trim();
            stage += cargo(line).or_else(|| node(line)).or_else(|| vitest(line)).unwrap_or_default();
            if let Some(verdict) = line.strip_prefix("stage ") {
                // What does not compile runs no test, and must not pass for it.
                if verdict.contains(": FAILED") && stage.failed == 0 {
                    stage.failed = 1;
                }
                whole += std::mem::take(&mut stage);
            }
        }
        whole += stage;
        whole
    }
}

/// `test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s`.
fn cargo(line: &str) -> Option<Tally> {
    let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let count =
        |name: &str| counts.split(';').find_map(|part| part.trim().strip_suffix(name)?.trim().parse().ok());
    Some(Tally { passed: count("passed")?, failed: count("failed")?, skipped: count("ignored")? })
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

/// `Tests  1 failed | 4 passed | 2 skipped (7)`.
fn vitest(line: &str) -> Option<Tally> {
    let counts = line.strip_prefix("Tests ")?.trim().rsplit_once(" (")?.0;
    let mut tally = Tally::default();
    for part in counts.split('|') {
        let (count, name) = part.trim().split_once(' ')?;
        let count: u64 = count.parse().ok()?;
        match name {
            "passed" => tally.passed += count,
            "failed" => tally.failed += count,
            "skipped" | "todo" => tally.skipped += count,
            _ => return None,
        }
    }
    Some(tally)
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

    #[test]
    fn runners_are_added_up() {
        let log = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            stage test: ok in 3 s\n# pass 2\n# fail 0\n# skipped 1\n\
            \u{1b}[2m      Tests \u{1b}[22m \u{1b}[1m\u{1b}[32m4 passed\u{1b}[39m\u{1b}[22m\u{1b}[90m (4)\u{1b}[39m\n";
        assert_eq!(Tally::of(log), Tally { passed: 11, failed: 0, skipped: 2 });
    }

    #[test]
    fn failures_are_counted() {
        let log = "test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\nstage test: FAILED in 1 s\n\
            Tests  1 failed | 4 passed (5)\nstage web: FAILED in 2 s";
        assert_eq!(Tally::of(log), Tally { passed: 9, failed: 3, skipped: 0 });
    }

    #[test]
    fn a_stage_that_runs_no_test_fails_as_one() {
        let log = "error: could not compile\nstage clippy: FAILED in 1 s\nstage docs: ok in 1 s";
        assert_eq!(Tally::of(log), Tally { passed: 0, failed: 1, skipped: 0 });
    }
}
