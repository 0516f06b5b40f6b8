//! Titles as rclone lists, copies and compares them.

use super::{everything, url};
use crate::server::rig::{DRIVERS, Rig};
use std::process::{Command, Output};

/// rclone with these words. `None` if it is not here, and says so.
fn run(rig: &Rig, words: &[&str]) -> Option<Output> {
    let url = url(rig);
    let mut rclone = Command::new("rclone");
    // Without a configuration, and without trying again.
    rclone.args([
        "--config",
        "",
        "--retries=1",
        "--low-level-retries=1",
        "--timeout=60s",
        "--contimeout=60s",
    ]);
    rclone.args(["--webdav-url", url.as_str()]).args(words);
    let output = rclone.output().ok();
    if output.is_none() {
        println!("skipped: rclone is not installed");
    }
    output
}

fn said(output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    texts.concat()
}

/// rclone finds so many titles in each directory.
pub(super) fn lists(rig: &Rig, titles: usize) {
    for directory in [":webdav:play", ":webdav:copy"] {
        let Some(list) = run(rig, &["lsf", directory]) else { return };
        assert!(list.status.success(), "{}", said(&list));
        assert_eq!(String::from_utf8_lossy(&list.stdout).lines().count(), titles, "{directory}");
    }
}

#[test]
fn rclone_lists_and_reads_what_is_stored() {
    for driver in DRIVERS {
        let rig = Rig::new(|config| config.driver = driver);
        let Some(list) = run(&rig, &["lsf", "-R", "--format=ps", ":webdav:"]) else { return };
        let bytes = rig.film.len();
        let mut lines: Vec<String> =
            String::from_utf8_lossy(&list.stdout).lines().map(str::to_owned).collect();
        lines.sort();
        let files = ["copy", "play"].map(|name| format!("{name}/film.mp4;{bytes}"));
        assert_eq!(lines, ["copy/;-1", &files[0], "play/;-1", &files[1]], "{}", said(&list));

        let local = rig.path("local");
        std::fs::create_dir(&local).expect("created");
        std::fs::write(local.join("film.mp4"), &rig.film).expect("written");
        let local = local.to_str().expect("UTF-8");
        let check = run(&rig, &["check", "--download", local, ":webdav:copy"]).expect("it is here");
        assert!(check.status.success() && said(&check).contains("0 differences"), "{}", said(&check));

        for (offset, count) in [(0, 10), (12_345, 100_000), (bytes - 7, 7)] {
            let words = ["cat", "--offset", &offset.to_string(), "--count", &count.to_string()];
            let part = run(&rig, &[&words[..], &[":webdav:play/film.mp4"]].concat()).expect("it is here");
            assert!(part.stdout == rig.film[offset..offset + count], "{count} at {offset}: {}", said(&part));
        }
    }
}

#[test]
fn rclone_can_write_nothing() {
    let rig = Rig::new(|_| {});
    let before = everything(&rig);
    let source = rig.path("new.mp4");
    std::fs::write(&source, "FILM").expect("written");
    let source = source.to_str().expect("UTF-8");
    for words in [
        &["copyto", source, ":webdav:copy/new.mp4"][..],
        &["deletefile", ":webdav:copy/film.mp4"],
        &["moveto", ":webdav:copy/film.mp4", ":webdav:copy/other.mp4"],
        &["purge", ":webdav:copy"],
    ] {
        let Some(output) = run(&rig, words) else { return };
        assert!(!output.status.success(), "{words:?}: {}", said(&output));
    }
    // To rclone, 405 means that the directory is there.
    run(&rig, &["mkdir", ":webdav:other"]);
    assert!(everything(&rig) == before);
}
