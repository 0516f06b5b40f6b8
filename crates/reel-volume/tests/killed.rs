//! A process is killed while it writes. What it had acknowledged is there, and nothing else.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

// A file of its own: a test process that starts children holds locks slightly longer than expected,
// because a child has all open files until it executes its program.
#[path = "volume/volumes/mod.rs"]
mod volumes;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use reel_volume::Volume;

use volumes::{Scratch, assert_all_right, open_options, publish};

type Titles = BTreeSet<String>;

/// Publishes and removes titles until it is killed. Prints what was acknowledged.
#[test]
#[ignore = "child of the next test"]
fn child() {
    let Some(place) = std::env::var_os("REEL_TEST_VOLUME") else { return };
    let volume = Volume::open(PathBuf::from(place), open_options()).unwrap();
    let mut say = std::io::stdout();
    for title in volume.titles().iter() {
        volume.remove(&title.id).unwrap();
        writeln!(say, "removed {}", title.id).unwrap();
    }
    for number in 0.. {
        let id = format!("t{number}");
        publish(&volume, &id, &[50_000 + number % 7 * 10_000, 5]);
        writeln!(say, "published {id}").unwrap();
        if number >= 3 {
            let id = format!("t{}", number - 3);
            volume.remove(&id).unwrap();
            writeln!(say, "removed {id}").unwrap();
        }
    }
}

#[test]
fn a_killed_process_leaves_what_it_had_acknowledged() {
    let scratch = Scratch::new(3);
    for round in 0..6u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--ignored", "--nocapture"])
            .env("REEL_TEST_VOLUME", scratch.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut lines = Vec::new();
        while !lines.last().is_some_and(|line: &String| line.starts_with("published ")) {
            lines.push(reader.next().expect("a child that works until it is killed"));
        }
        let rest = std::thread::spawn(move || reader.collect::<Vec<_>>());
        // The exact time does not matter, only that it differs in each round.
        std::thread::sleep(Duration::from_millis(round * 37));
        child.kill().unwrap();
        child.wait().unwrap();
        lines.extend(rest.join().unwrap());
        let mut titles = volumes_before(&scratch);
        let mut last = None;
        for line in &lines {
            let Some((what, id)) = line.split_once(' ') else { continue };
            match what {
                "published" => {
                    titles.insert(id.to_owned());
                }
                "removed" => {
                    titles.remove(id);
                }
                _ => continue,
            }
            last = Some((what.to_owned(), id.to_owned()));
        }
        let volume = scratch.open();
        let found: Titles = volume.titles().iter().map(|title| title.id.clone()).collect();
        // At most the one change that was in progress may be there as well.
        assert!(
            found.symmetric_difference(&titles).count() <= 1,
            "{found:?}, said {titles:?}, last {last:?}"
        );
        assert_all_right(&volume);
        let status = volume.status();
        let slots: u64 =
            volume.titles().iter().flat_map(|t| t.extents().collect::<Vec<_>>()).map(|e| e.slots).sum();
        assert_eq!(
            status.free_bytes + slots * volume.geometry().stripe_bytes() as u64,
            status.capacity_bytes
        );
        drop(volume);
        remember(&scratch, &found);
    }
}

/// The titles a child finds.
fn volumes_before(scratch: &Scratch) -> Titles {
    let text = std::fs::read_to_string(scratch.path().join("titles")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn remember(scratch: &Scratch, titles: &Titles) {
    let text: Vec<&str> = titles.iter().map(String::as_str).collect();
    std::fs::write(scratch.path().join("titles"), text.join("\n")).unwrap();
}
