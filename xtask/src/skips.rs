//! Tests that did not run: the lines that name them, and the list of those that a machine is known
//! to skip.

use anyhow::{Result, bail};

/// A test that was not run, or not all of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Skip {
    /// Its package and path, or what its runner calls it.
    pub(crate) test: String,
    /// What is missing.
    pub(crate) reason: String,
}

impl Skip {
    fn new(test: &str, reason: &str) -> Self {
        Self { test: test.to_owned(), reason: reason.to_owned() }
    }
}

/// A line that names one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// From `cargo xtask test`: libtest counted it among those that passed.
    CountedAsPassed(Skip),
    /// Its runner counted it among those that were skipped.
    CountedAsSkipped(Skip),
    /// Left to the night, or a part of another test, run by that one in a process of its own: its
    /// runner counted it as skipped.
    Elsewhere,
}

impl Line {
    /// What `line` of a log names, if it names a skipped test.
    pub(crate) fn of(line: &str) -> Option<Self> {
        if let Some(named) = line.strip_prefix("skipped test: ") {
            let (test, reason) = named.split_once(": ")?;
            return Some(Self::CountedAsPassed(Skip::new(test, reason)));
        }
        // node:test, as `﹣ what is tested (0.2ms) # reason`.
        if let Some(named) = line.strip_prefix("﹣ ") {
            let (test, reason) = named.rsplit_once(" # ")?;
            let test = test.rsplit_once(" (").map_or(test, |(test, _)| test);
            return Some(Self::CountedAsSkipped(Skip::new(test, reason)));
        }
        let (test, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ignored")?;
        // A time may follow.
        let outcome = outcome.rsplit_once(" <").map_or(outcome, |(outcome, _)| outcome);
        let reason = outcome.strip_prefix(", ").unwrap_or("without a reason");
        if reason == "night" || reason.starts_with("child of ") {
            return Some(Self::Elsewhere);
        }
        Some(Self::CountedAsSkipped(Skip::new(test, reason)))
    }
}

/// The skips that are known of a machine.
#[derive(Debug)]
pub(crate) struct Expected {
    patterns: Vec<(String, String)>,
}

impl Expected {
    /// Reads lines `TEST: REASON`, in which `*` stands for any text. Empty lines and those that
    /// begin with `#` say nothing. Fails if a line has no reason.
    pub(crate) fn of(text: &str) -> Result<Self> {
        let mut patterns = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((test, reason)) = line.split_once(": ") else {
                bail!("line {} is not TEST: REASON", number + 1)
            };
            patterns.push((test.to_owned(), reason.to_owned()));
        }
        Ok(Self { patterns })
    }

    /// Whether this skip is known.
    pub(crate) fn lists(&self, skip: &Skip) -> bool {
        self.patterns.iter().any(|(test, reason)| fits(test, &skip.test) && fits(reason, &skip.reason))
    }
}

/// Whether `text` is `pattern`, whose every `*` stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match left.split_once(part) {
            Some((_, after)) => left = after,
            None => return false,
        }
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_runner_names_its_skips() {
        let named = |line| match Line::of(line) {
            Some(Line::CountedAsPassed(skip)) => ("passed", skip.test, skip.reason),
            Some(Line::CountedAsSkipped(skip)) => ("skipped", skip.test, skip.reason),
            other => panic!("{line}: {other:?}"),
        };
        let of = |kind, test: &str, reason: &str| (kind, test.to_owned(), reason.to_owned());
        assert_eq!(
            named("skipped test: reel-ring a::b: no fuse: ENOENT"),
            of("passed", "reel-ring a::b", "no fuse: ENOENT")
        );
        assert_eq!(named("﹣ a scrub (0.1ms) # no server"), of("skipped", "a scrub", "no server"));
        assert_eq!(named("test a::b ... ignored"), of("skipped", "a::b", "without a reason"));
        assert_eq!(Line::of("test child ... ignored, child of a_test"), Some(Line::Elsewhere));
        assert_eq!(Line::of("test night::long ... ignored, night"), Some(Line::Elsewhere));
        assert_eq!(Line::of("test a ... ok"), None);
    }

    #[test]
    fn a_list_knows_tests_with_their_reasons() {
        let expected = Expected::of("# CI\n\nreel-ring *lent*: no ifb*\nreel cli::a: needs root\n").unwrap();
        assert!(expected.lists(&Skip::new("reel-ring trains::lent", "no ifb: it needs root")));
        assert!(expected.lists(&Skip::new("reel cli::a", "needs root")));
        assert!(!expected.lists(&Skip::new("reel cli::a", "no fuse")));
        assert!(!expected.lists(&Skip::new("reel cli::ab", "needs root")));
        assert!(!expected.lists(&Skip::new("reel-disk trains::lent", "no ifb")));
        assert!(Expected::of("reel-ring").is_err());
    }
}
