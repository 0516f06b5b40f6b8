//! Watched directories with simulated clocks.

use super::taken::Taken;
use super::*;
use crate::limits::{WATCH_QUIET_MAX_S, WATCH_QUIET_MIN_S};
use std::cell::RefCell;
use std::sync::mpsc;

/// A directory, and titles made from its files.
struct Hall {
    dir: tempfile::TempDir,
    titles: RefCell<Vec<(String, Stamp)>>,
    removed: Vec<Stamp>,
    clock_s: u64,
    unix_s: u64,
}

impl KnownTitles for Hall {
    fn titles_of(&self, stamp: &Stamp) -> Vec<String> {
        let titles = self.titles.borrow();
        titles.iter().filter(|(_, of)| of == stamp).map(|(id, _)| id.clone()).collect()
    }

    fn source_of(&self, title: &str) -> Option<Stamp> {
        self.titles.borrow().iter().find(|(id, _)| id == title).map(|(_, of)| of.clone())
    }

    fn was_removed(&self, stamp: &Stamp) -> bool {
        self.removed.contains(stamp)
    }
}

impl Hall {
    fn new() -> (Hall, Watcher) {
        let dir = tempfile::tempdir().expect("tempdir");
        let watcher = Watcher::with(dir.path(), Taken::in_memory());
        (
            Hall { dir, titles: RefCell::default(), removed: Vec::new(), clock_s: 0, unix_s: 2_000_000_000 },
            watcher,
        )
    }

    /// Writes a file that was last modified at the present of the test.
    fn write(&self, name: &str, text: &str) {
        let path = self.dir.path().join(name);
        fs::write(&path, text).expect("written");
        let time = UNIX_EPOCH + std::time::Duration::from_secs(self.unix_s);
        fs::File::options().write(true).open(&path).expect("there").set_modified(time).expect("set");
    }

    fn wait(&mut self, seconds: u64) {
        (self.clock_s, self.unix_s) = (self.clock_s + seconds, self.unix_s + seconds);
    }

    /// Scans, and returns the names of what arrived with what each replaces.
    fn scan(&self, watcher: &mut Watcher) -> Vec<(String, Option<String>)> {
        let now = Now { clock_s: self.clock_s, unix_s: self.unix_s };
        let arrivals = watcher.scan(now, self).expect("readable");
        let mut names = Vec::new();
        for arrival in arrivals {
            let mut titles = self.titles.borrow_mut();
            let new = format!("t{}", titles.len());
            let id = arrival.replaces.clone().unwrap_or(new);
            titles.retain(|(other, _)| *other != id);
            titles.push((id.clone(), arrival.stamp.clone()));
            drop(titles);
            watcher.took(&arrival, Ok(id));
            let below = arrival.path.strip_prefix(self.dir.path()).expect("below").display().to_string();
            names.push((below, arrival.replaces));
        }
        names
    }

    /// Two scans with enough time between them.
    fn settle(&mut self, watcher: &mut Watcher) -> Vec<(String, Option<String>)> {
        let before = self.scan(watcher);
        self.wait(WATCH_QUIET_MIN_S);
        [before, self.scan(watcher)].concat()
    }
}

fn new(names: &[&str]) -> Vec<(String, Option<String>)> {
    names.iter().map(|name| ((*name).to_owned(), None)).collect()
}

fn state(watcher: &Watcher, path: &str) -> WatchState {
    let files = watcher.report().files;
    files.into_iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path}")).state
}

fn skipped(watcher: &Watcher, path: &str) -> String {
    match state(watcher, path) {
        WatchState::Skipped { reason } => reason,
        state => panic!("{path}: {state:?}"),
    }
}

#[test]
fn a_file_that_pauses_is_one_title_and_is_replaced_if_it_grew_after_all() {
    let (mut hall, mut watcher) = Hall::new();
    hall.write("film.ts", "a");
    assert_eq!(hall.scan(&mut watcher), []);
    hall.wait(9);
    assert_eq!(hall.scan(&mut watcher), []);
    assert_eq!(state(&watcher, "film.ts"), WatchState::Waiting { quiet_s: WATCH_QUIET_MIN_S });
    hall.write("film.ts", "ab");
    assert_eq!(hall.scan(&mut watcher), []);
    // It has paused for nine seconds, so ten are not enough.
    hall.wait(20);
    assert_eq!(hall.scan(&mut watcher), []);
    hall.wait(7);
    assert_eq!(hall.scan(&mut watcher), new(&["film.ts"]));
    hall.wait(100);
    assert_eq!(hall.scan(&mut watcher), [], "once");
    hall.write("film.ts", "abc");
    assert_eq!(hall.scan(&mut watcher), []);
    hall.wait(WATCH_QUIET_MAX_S);
    assert_eq!(hall.scan(&mut watcher), [("film.ts".to_owned(), Some("t0".to_owned()))]);
    assert_eq!(hall.titles.borrow().len(), 1);
    assert_eq!(state(&watcher, "film.ts"), WatchState::Taken { title: "t0".to_owned() });
}

#[test]
fn a_file_that_was_there_for_long_needs_two_scans() {
    let (mut hall, mut watcher) = Hall::new();
    hall.write("film.ts", "a");
    hall.wait(3600);
    assert_eq!(hall.scan(&mut watcher), []);
    hall.wait(2);
    assert_eq!(hall.scan(&mut watcher), new(&["film.ts"]));
}

#[test]
fn subtitles_that_come_late_become_a_part_of_the_title() {
    let (mut hall, mut watcher) = Hall::new();
    hall.write("film.ts", "a");
    hall.write("film 2.ts", "b");
    assert_eq!(hall.settle(&mut watcher), new(&["film 2.ts", "film.ts"]));
    hall.write("film.de.srt", "x");
    assert_eq!(hall.settle(&mut watcher), []);
    hall.wait(WATCH_QUIET_MAX_S);
    assert_eq!(hall.scan(&mut watcher), [("film.ts".to_owned(), Some("t1".to_owned()))]);
    hall.wait(WATCH_QUIET_MAX_S);
    assert_eq!(hall.scan(&mut watcher), []);
}

#[test]
fn equal_looking_files_are_told_apart_and_links_are_not() {
    let (mut hall, mut watcher) = Hall::new();
    for dir in ["a", "b", "c"] {
        fs::create_dir(hall.dir.path().join(dir)).expect("made");
    }
    hall.write("a/01.ts", "x");
    hall.write("b/01.ts", "y");
    let dir = hall.dir.path().to_owned();
    let link = |name: &str| dir.join(name);
    std::os::unix::fs::symlink(link("a/01.ts"), link("c/link.ts")).expect("linked");
    fs::hard_link(link("b/01.ts"), link("0.ts")).expect("linked");
    assert_eq!(hall.settle(&mut watcher), new(&["0.ts", "a/01.ts"]));
    assert_eq!(skipped(&watcher, "b/01.ts"), "it is the same file as 0.ts");
    assert_eq!(skipped(&watcher, "c/link.ts"), "it is the same file as a/01.ts");
    // A file that is moved keeps its title, and does not hide another one that looks like it.
    fs::rename(link("a/01.ts"), link("c/01.ts")).expect("moved");
    fs::remove_file(link("c/link.ts")).expect("removed");
    assert_eq!(hall.settle(&mut watcher), []);
    assert_eq!(state(&watcher, "c/01.ts"), WatchState::Taken { title: "t1".to_owned() });
    hall.write("a/01.ts", "z");
    let same_time = UNIX_EPOCH + std::time::Duration::from_secs(2_000_000_000);
    let file = fs::File::options().write(true).open(link("a/01.ts")).expect("there");
    file.set_modified(same_time).expect("set");
    assert_eq!(hall.settle(&mut watcher), new(&["a/01.ts"]), "equal in name, size and time");
    assert_eq!(hall.titles.borrow().len(), 3);
}

#[test]
fn a_removed_title_stays_removed_until_its_file_changes() {
    let (mut hall, mut watcher) = Hall::new();
    hall.write("film.ts", "a");
    assert_eq!(hall.settle(&mut watcher), new(&["film.ts"]));
    let stamp = hall.titles.borrow_mut().remove(0).1;
    hall.removed.push(stamp);
    // The next start: with the records, and without them.
    for taken in [std::mem::replace(&mut watcher.taken, Taken::in_memory()), Taken::in_memory()] {
        watcher = Watcher::with(hall.dir.path(), taken);
        assert_eq!(hall.settle(&mut watcher), []);
        assert!(skipped(&watcher, "film.ts").contains("touch the file"));
    }
    hall.write("film.ts", "a");
    hall.scan(&mut watcher);
    hall.wait(WATCH_QUIET_MAX_S);
    assert_eq!(hall.scan(&mut watcher), new(&["film.ts"]));
}

#[test]
fn titles_of_other_ways_in_are_adopted() {
    let (mut hall, mut watcher) = Hall::new();
    hall.write("film.ts", "a");
    let stamp = stamp_of(&hall.dir.path().join("film.ts")).expect("there");
    hall.titles.borrow_mut().push(("film".to_owned(), stamp));
    assert_eq!(hall.settle(&mut watcher), []);
    assert_eq!(state(&watcher, "film.ts"), WatchState::Taken { title: "film".to_owned() });
}

#[test]
fn a_failure_is_shown_and_tried_again_when_the_file_changes() {
    let (mut hall, mut watcher) = Hall::new();
    hall.write("film.ts", "a");
    hall.scan(&mut watcher);
    hall.wait(10);
    let now = Now { clock_s: hall.clock_s, unix_s: hall.unix_s };
    let arrival = watcher.scan(now, &hall).expect("readable").remove(0);
    watcher.took(&arrival, Err("no film".to_owned()));
    assert_eq!(state(&watcher, "film.ts"), WatchState::Failed { reason: "no film".to_owned() });
    hall.wait(1000);
    assert_eq!(hall.scan(&mut watcher), []);
    hall.write("film.ts", "ab");
    hall.scan(&mut watcher);
    hall.wait(WATCH_QUIET_MAX_S);
    assert_eq!(hall.scan(&mut watcher), new(&["film.ts"]));
}

#[test]
fn everything_but_complete_media_files_is_skipped() {
    use std::os::unix::ffi::OsStrExt;
    let (mut hall, mut watcher) = Hall::new();
    fs::create_dir_all(hall.dir.path().join("Series/Season 1")).expect("made");
    fs::create_dir_all(hall.dir.path().join(".hidden")).expect("made");
    for name in [
        ".hidden.mp4",
        "film.mp4.part",
        "film.part.mp4",
        "film.mkv.crdownload",
        "notes.txt",
        "~film.mp4",
        ".hidden/film.mp4",
        "a.MKV",
        "Series/Season 1/b ö.ts",
    ] {
        hall.write(name, "x");
    }
    hall.write("empty.mp4", "");
    let odd = std::ffi::OsStr::from_bytes(b"caf\xe9.ts");
    fs::write(hall.dir.path().join(odd), "x").expect("written");
    std::os::unix::fs::symlink(hall.dir.path(), hall.dir.path().join("again")).expect("linked");
    assert_eq!(hall.settle(&mut watcher), new(&["Series/Season 1/b ö.ts", "a.MKV"]));
    assert!(skipped(&watcher, "caf\u{fffd}.ts").contains("UTF-8"));
    assert!(skipped(&watcher, "again").contains("not followed"));
    assert_eq!(watcher.take_complaints().len(), 2);
    assert_eq!(watcher.take_complaints(), [""; 0]);
    hall.scan(&mut watcher);
    assert_eq!(watcher.take_complaints(), [""; 0], "each is reported once");
}

#[test]
fn a_file_that_is_put_back_keeps_its_title() {
    let (mut hall, mut watcher) = Hall::new();
    hall.write("film.mp4", "x");
    let film = hall.dir.path().join("film.mp4");
    let aside = hall.dir.path().join(".aside");
    assert_eq!(hall.settle(&mut watcher), new(&["film.mp4"]));
    fs::rename(&film, &aside).expect("moved");
    assert_eq!(hall.settle(&mut watcher), []);
    assert_eq!(watcher.report().files, []);
    fs::rename(&aside, &film).expect("moved");
    assert_eq!(hall.settle(&mut watcher), []);
    assert_eq!(state(&watcher, "film.mp4"), WatchState::Taken { title: "t0".to_owned() });
}

#[test]
fn watching_ends_with_its_sender_and_shows_what_is_wrong() {
    let (hall, watcher) = Hall::new();
    let none = Watcher::with(&hall.dir.path().join("none"), Taken::in_memory());
    for (watcher, has_problem) in [(watcher, false), (none, true)] {
        let (sender, stop) = mpsc::channel();
        drop(sender);
        let mut shown = None;
        let take = |_: &Arrival| -> Result<String, String> { panic!("nothing is there") };
        watch(watcher, &stop, &hall, take, |report| shown = Some(report));
        assert_eq!(shown.expect("shown").problem.is_some(), has_problem);
    }
}
