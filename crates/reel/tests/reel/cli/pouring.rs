//! `reel pour`, alone and behind `reel tap`.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::cli::films::short;
use crate::cli::rig::TestDir;
use crate::cli::serving::Running;

fn serving(dir: &TestDir) -> Running {
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    Running::start(dir, &["serve", "volume", "--listen", "127.0.0.1:0", "--programs-socket", "reel.sock"])
}

fn await_metric(server: &Running, line: &str) {
    let begun = Instant::now();
    while !server.text("/metrics").lines().any(|of_page| of_page == line) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{line} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A title goes through a filter of the shell and back into the server, from which a player reads
/// it.
#[test]
fn what_a_filter_makes_of_a_title_is_played_while_it_comes() {
    let dir = TestDir::with_volume();
    let server = serving(&dir);
    let tapped = dir.command(&["tap", "short", "--class", "aperiodic"]).output().unwrap().stdout;
    let mut pour = dir
        .command(&[
            "pour",
            "short-again",
            "--rate",
            "400M",
            "--delay",
            "500ms",
            "--type",
            "video/mp4",
            "--stats",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    await_metric(&server, "reel_pours 1");
    let url = format!("http://{}/live/short-again", server.address());
    let player = std::thread::spawn(move || {
        let arguments = ["--silent", "--show-error", "--fail", "--max-time", "100", &url];
        std::process::Command::new("curl").args(arguments).output().expect("curl")
    });
    await_metric(&server, "reel_pour_viewers 1");
    let mut tap = dir
        .command(&["tap", "short", "--class", "aperiodic"])
        .stdout(Stdio::from(pour.stdin.take().unwrap()))
        .spawn()
        .unwrap();
    assert!(tap.wait().unwrap().success());
    let poured = pour.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&poured.stderr).into_owned();
    assert!(poured.status.success(), "{said}");
    assert!(said.contains("others play it at /live/short-again of the server"), "{said}");
    assert!(said.contains(&format!("{} bytes", tapped.len())), "{said}");
    let played = player.join().unwrap();
    assert!(played.status.success(), "{}", String::from_utf8_lossy(&played.stderr));
    assert!(played.stdout == tapped, "{} of {} bytes", played.stdout.len(), tapped.len());
}

#[test]
fn what_cannot_be_poured_is_said() {
    let dir = TestDir::with_volume();
    let pour = |arguments: &[&str]| {
        let arguments: Vec<&str> = ["pour"].into_iter().chain(arguments.iter().copied()).collect();
        dir.reel(&arguments)
    };
    pour(&["studio", "--rate", "5M"]).refused(3, &["reel.sock", "--programs-socket"]);
    pour(&["studio"]).refused(2, &["--rate"]);
    let _server = serving(&dir);
    pour(&["Studio", "--rate", "5M"]).refused(1, &["cannot be the name of a poured stream"]);
    pour(&["studio", "--rate", "5M", "--delay", "1h"]).refused(1, &["the delay"]);
    pour(&["studio", "--rate", "5M", "--type", "text/html"]).refused(1, &["no media type of a stream"]);
    pour(&["studio", "--rate", "100"]).refused(1, &["the rate in bits per second cannot be 104"]);
    // Nothing on standard input is a stream without a byte.
    let mut empty = dir.command(&["pour", "studio", "--rate", "5M"]).stdin(Stdio::piped()).spawn().unwrap();
    empty.stdin.take().unwrap().flush().unwrap();
    assert!(empty.wait().unwrap().success());
}
