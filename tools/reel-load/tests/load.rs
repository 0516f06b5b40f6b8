//! `reel load` as a program.

use std::process::Command;

#[test]
fn wrong_usage_ends_with_code_2_and_what_could_not_be_done_with_1() {
    let load = |options: &[&str]| {
        let ended = Command::new(env!("CARGO_BIN_EXE_reel-load")).args(options).output().unwrap();
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    // No server listens on the port of discard.
    let url = "http://127.0.0.1:9/film/master.m3u8";
    for (options, words) in [
        (&[url, "-n", "0"][..], "no client would come"),
        (&[url, "--threads", "0"], "threads"),
        (&[url, "--from", "here"], "here"),
        (&[url, "--buffer", "long"], "--buffer"),
    ] {
        let (code, said) = load(options);
        assert!(code == Some(2) && said.contains(words), "{options:?}: {code:?} {said}");
    }
    let (code, said) = load(&[url]);
    assert!(code == Some(1) && said.starts_with("error: "), "{code:?} {said}");
}
