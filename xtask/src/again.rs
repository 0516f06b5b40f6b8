//! Tests that failed are run again, each by itself, after everything else has ended.
//!
//! A test that passes then is flaky: the run is green, and the test is named. Bazel, Chromium and
//! nextest do the same. What is printed of repeated runs is quoted, so that it is counted neither
//! as a result nor as a summary.

use anyhow::Result;

use crate::progress::WHOLE_PROGRAM;

/// How often a test may run in all.
const TRIES: usize = 3;

/// More failures than this have one cause, which running again would only hide.
const FAILED_MAX: usize = 10;

/// Stands before each line that counts for nothing.
const QUOTE: &str = "| ";

/// What a run of one test said, and whether it passed.
pub(crate) struct Attempt {
    pub(crate) output: String,
    pub(crate) passed: bool,
}

/// Tests that failed, in a program each.
pub(crate) struct Failed<P> {
    pub(crate) program: P,
    /// Their names as libtest knows them. Empty if the program failed without naming a test.
    pub(crate) tests: Vec<String>,
}

/// Runs tests again by `run`, which is given a program and the name of a test, and says by `say`
/// how that ended. Whether each of them has passed.
pub(crate) fn settle<P>(
    failed: &[Failed<P>],
    name: impl Fn(&P) -> String,
    mut run: impl FnMut(&P, &str) -> Result<Attempt>,
    mut say: impl FnMut(&str),
) -> Result<bool> {
    let count: usize = failed.iter().map(|failed| failed.tests.len()).sum();
    if count > FAILED_MAX || failed.iter().any(|failed| failed.tests.is_empty()) {
        return Ok(failed.is_empty());
    }
    let mut all_passed = true;
    for Failed { program, tests } in failed {
        for test in tests {
            let full_name = format!("{} {test}", name(program));
            let mut passed = false;
            for attempt in 2..=TRIES {
                say(&format!("     Again, by itself: {full_name} (try {attempt} of {TRIES})"));
                let Attempt { output, passed: succeeded } = run(program, test)?;
                // A program that runs no test succeeds, too.
                passed = succeeded && with_outcome(&output, "ok").any(|ran| ran == test);
                output.lines().filter_map(|line| shown(line, passed)).for_each(|line| say(&line));
                if passed {
                    say(&format!("flaky test: {full_name}: passed at try {attempt} of {TRIES}"));
                    break;
                }
            }
            all_passed &= passed;
        }
    }
    Ok(all_passed)
}

/// A line of a repeated run as it is shown. A skip counts also then, if the test passed.
fn shown(line: &str, passed: bool) -> Option<String> {
    let is_skip = passed && line.starts_with("skipped test: ");
    (!line.is_empty()).then(|| if is_skip { line.to_owned() } else { format!("{QUOTE}{line}") })
}

/// The names of the tests that failed, from the output of a program. None if the program failed
/// though each of its tests has a result: what failed then is no test that could run again.
pub(crate) fn failed_tests(output: &str) -> Vec<String> {
    let failed: Vec<&str> = with_outcome(output, "FAILED").collect();
    if failed.contains(&WHOLE_PROGRAM) {
        return Vec::new();
    }
    failed.into_iter().map(str::to_owned).collect()
}

/// The tests whose outcome begins so, from the output of a program.
fn with_outcome<'a>(output: &'a str, wanted: &'a str) -> impl Iterator<Item = &'a str> {
    let results = output.lines().take_while(|line| *line != FAILURES);
    results.filter_map(move |line| {
        let (test, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
        outcome.starts_with(wanted).then(|| test.strip_suffix(" - should panic").unwrap_or(test))
    })
}

/// Stands before what failed tests printed, and again before their names.
const FAILURES: &str = "failures:";

/// The output of a program, with what its failed tests printed quoted: that may be the output of
/// other runners of tests.
pub(crate) fn quoted(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let first = lines.iter().position(|line| *line == FAILURES);
    let last = lines.iter().rposition(|line| *line == FAILURES);
    let is_quoted =
        |place: usize| first.is_some_and(|first| place > first) && last.is_some_and(|last| place < last);
    let mut text = String::with_capacity(output.len());
    for (place, line) in lines.iter().enumerate() {
        if is_quoted(place) && !line.is_empty() {
            text.push_str(QUOTE);
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settles tests of one program that pass at the given tries; returns what was said.
    fn settled(tests: &[(&str, usize)]) -> (bool, Vec<String>) {
        let failed =
            [Failed { program: "p", tests: tests.iter().map(|(test, _)| (*test).to_owned()).collect() }];
        let mut tries = vec![1; tests.len()];
        let mut said = Vec::new();
        let run = |_: &&str, test: &str| {
            let place = tests.iter().position(|(name, _)| *name == test).unwrap();
            tries[place] += 1;
            let passed = tries[place] >= tests[place].1;
            let outcome = if passed { "ok" } else { "FAILED" };
            let output = format!("test {test} ... {outcome}\ntest result: 1\nskipped test: p a: no fuse\n");
            Ok(Attempt { output, passed })
        };
        let passed =
            settle(&failed, |name| (*name).to_owned(), run, |line| said.push(line.to_owned())).unwrap();
        (passed, said)
    }

    #[test]
    fn a_test_that_passes_by_itself_is_flaky_and_its_skip_counts() {
        let (passed, said) = settled(&[("a", 3)]);
        assert!(passed);
        assert_eq!(said.iter().filter(|line| *line == "skipped test: p a: no fuse").count(), 1, "{said:?}");
        assert_eq!(said.last().map(String::as_str), Some("flaky test: p a: passed at try 3 of 3"));
        assert!(!said.iter().any(|line| line.starts_with("test result")));
    }

    #[test]
    fn a_test_that_fails_three_times_is_red_and_the_others_run() {
        let (passed, said) = settled(&[("a", 4), ("b", 2)]);
        assert!(!passed);
        assert_eq!(said.last().map(String::as_str), Some("flaky test: p b: passed at try 2 of 3"));
    }

    #[test]
    fn a_program_that_runs_no_test_again_has_not_passed() {
        let failed = [Failed { program: "p", tests: vec!["a".to_owned()] }];
        let run = |_: &&str, _: &str| Ok(Attempt { output: "running 0 tests\n".to_owned(), passed: true });
        assert!(!settle(&failed, |name| (*name).to_owned(), run, |_| {}).unwrap());
        let died = format!("test a ... ok\ntest {WHOLE_PROGRAM} ... FAILED (ended by signal 11)\n");
        assert!(failed_tests(&died).is_empty());
    }

    #[test]
    fn many_failures_and_those_without_a_name_are_red_at_once() {
        let many: Vec<String> = (0..=FAILED_MAX).map(|number| number.to_string()).collect();
        let many: Vec<_> = many.iter().map(|name| (name.as_str(), 2)).collect();
        assert_eq!(settled(&many), (false, Vec::new()));
        assert_eq!(settled(&[]), (false, Vec::new()));
    }

    #[test]
    fn failed_tests_are_read_from_the_results_and_their_output_is_quoted() {
        let output = "test a ... ok\ntest b - should panic ... FAILED <1.0s>\ntest c ... FAILED (it had not ended)\n\
            failures:\n\n---- b stdout ----\ntest d ... FAILED\nfailures:\nℹ fail 2\n\nfailures:\n    b\n\n\
            test result: FAILED. 1 passed; 2 failed; 0 ignored\n";
        assert_eq!(failed_tests(output), ["b", "c"]);
        let quoted = quoted(output);
        assert!(quoted.contains("\n| failures:\n| ℹ fail 2\n\nfailures:\n    b\n"), "{quoted}");
        assert!(quoted.ends_with("\ntest result: FAILED. 1 passed; 2 failed; 0 ignored\n"));
    }
}
