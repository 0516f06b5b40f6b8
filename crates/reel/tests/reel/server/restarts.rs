//! Viewers continue when the server is started again.

use crate::server::promise::{dear_members, dear_members_on, watch_title};
use crate::server::rig::Rig;
use std::thread;
use std::time::Duration;

/// The folder of a new session of the long film, if one is admitted.
fn admitted(rig: &Rig) -> Option<String> {
    let answer = watch_title(rig, "long", "master.m3u8");
    let folder = || Some(answer.location()?.strip_suffix("master.m3u8")?.to_owned());
    if answer.status == 307 { folder() } else { None }
}

fn status(rig: &Rig, path: &str) -> u16 {
    rig.connect().ask(&format!("GET {path}"), "").status
}

/// As many viewers as fit begin so long after each other, and the server is started again.
fn viewers_continue(mut rig: Rig, between_ms: u64, restart_ms: u64) {
    let begin = || {
        thread::sleep(Duration::from_millis(between_ms));
        let folder = admitted(&rig)?;
        (1..=6).for_each(|number| assert_eq!(status(&rig, &format!("{folder}0/{number}.m4s")), 200));
        Some(folder)
    };
    let folders: Vec<String> = std::iter::from_fn(begin).take(100).collect();
    assert!(folders.len() > 1 && folders.len() < 100, "{}", folders.len());
    rig.stop();
    thread::sleep(Duration::from_millis(restart_ms));
    rig.start();
    assert_eq!(rig.metric("reel_sessions"), folders.len() as f64, "all continue before newcomers come");
    assert_eq!(admitted(&rig), None, "a newcomer gets what is left");
    for folder in &folders {
        for number in 7..=8 {
            let answer = rig.connect().ask(&format!("GET {folder}0/{number}.m4s"), "");
            assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        }
    }
    assert_eq!(rig.metric("reel_unpromised_total"), 0.0, "what was promised is kept");
}

#[test]
fn viewers_continue_after_a_restart_in_the_memory_that_they_had() {
    viewers_continue(dear_members(1), 0, 300);
}

#[test]
fn viewers_continue_after_a_restart_on_the_network_that_they_filled() {
    viewers_continue(dear_members_on(1, Some(8_000_000)), 70, 300);
}

#[test]
fn a_session_that_plays_a_file_continues_and_one_that_was_closed_does_not() {
    let mut rig = dear_members(1);
    let answer = watch_title(&rig, "long", "long.mp4");
    let file = answer.location().expect("a place to go");
    let range = |rig: &Rig, from: u64| {
        let fields = format!("Range: bytes={from}-{}\r\n", from + 9_999);
        rig.connect().ask(&format!("GET {file}"), &fields).status
    };
    assert_eq!(range(&rig, 0), 206);
    let closed = admitted(&rig).expect("there is room");
    assert_eq!(status(&rig, &format!("{closed}0/1.m4s")), 200);
    let key = closed.trim_matches('/').rsplit('/').next().expect("a key").to_owned();
    assert_eq!(rig.connect().ask(&format!("DELETE /api/v1/sessions/{key}"), "").status, 204);
    rig.stop();
    rig.start();
    assert_eq!(rig.metric("reel_sessions"), 1.0);
    assert_eq!(range(&rig, 10_000), 206);
    assert_eq!(rig.metric("reel_unpromised_total"), 0.0);
    assert_eq!(status(&rig, &format!("{closed}0/2.m4s")), 410);
}
