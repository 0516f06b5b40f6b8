//! What `reel sim` prints, and how it ends.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use std::process::{Command, Output, Stdio};

fn sim(options: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_reel-sim")).args(options.split(' ')).output().unwrap()
}

#[test]
fn a_seed_that_holds_is_told_with_its_digest() {
    let run = || sim("--seed 1 --hours 0.01 --viewers 5 --plain");
    let (first, second) = (run(), run());
    let digest = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("36 simulated seconds"), "{text}");
        text.lines().next().unwrap().to_owned()
    };
    assert!(first.status.success() && digest(&first).starts_with("digest "));
    assert_eq!(digest(&first), digest(&second));
}

#[test]
fn json_is_a_line_for_each_seed() {
    let output = sim("--seed 3 --seeds 2 --jobs 1 --hours 0.01 --viewers 5 --plain --json");
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let seeds: Vec<u64> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()?["seed"].as_u64())
        .collect();
    assert_eq!(seeds, [3, 4], "{text}");
}

#[test]
fn unknown_faults_are_refused() {
    let output = sim("--seed 1 --faults earthquakes");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no fault `earthquakes`"));
}

#[test]
fn a_closed_pipe_ends_it_quietly_and_early() {
    let options = "--seed 1 --seeds 1000000 --jobs 2 --hours 0.01 --viewers 2 --plain";
    let mut sim = Command::new(env!("CARGO_BIN_EXE_reel-sim"))
        .args(options.split(' '))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(sim.stdout.take());
    // A million seeds would take days: the run ends because the reader of its output is gone.
    let output = sim.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
