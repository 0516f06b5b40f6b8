//! Watched directories with simulated clocks.

use super::listener::Report;
use super::taken::Taken;
use super::*;
use crate::limits::{
    WARNING_BYTES_MAX, WARNINGS_MAX, WATCH_LOOK_MAX_NS, WATCH_QUIET_MAX_S, WATCH_QUIET_MIN_S, WATCH_SHOWN_MAX,
};
use reel_rt::now_ns;
use std::cell::RefCell;
use std::sync::mpsc;

/// A directory, and titles made from its files.
struct Hall {
    dir: tempfile::TempDir,
    titles: RefCell<Vec<(String, Stamp)>>,
    removed: Vec<Stamp>,
    /// What each ingest warns of.
    warnings: Vec<String>,
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

    fn warnings_of(&self, _title: &str) -> Vec<String> {
        self.warnings.clone()
    }
}

impl Hall {
    fn new() -> (Hall, Watcher) {
        let dir = tempfile::tempdir().expect("tempdir");
        let watcher = Watcher::with(dir.path(), Taken::in_memory());
        (
            Hall {
                dir,
                titles: RefCell::default(),
                removed: Vec::new(),
                warnings: Vec::new(),
                clock_s: 0,
                unix_s: 2_000_000_000,
            },
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

    fn remove(&self, name: &str) {
        fs::remove_file(self.dir.path().join(name)).expect("removed");
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
            watcher.took(&arrival, Ok(Ingested { id, warnings: self.warnings.clone() }));
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

fn taken(title: &str) -> WatchState {
    WatchState::Taken { title: title.to_owned(), warnings: Vec::new() }
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
    let reason = format!("it is ingested when it has not changed for {WATCH_QUIET_MIN_S} s");
    assert_eq!(state(&watcher, "film.ts"), WatchState::Waiting { reason });
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
    assert_eq!(state(&watcher, "film.ts"), taken("t0"));
}

#[test]
fn a_file_that_a_program_has_open_waits_and_one_that_was_closed_does_not() {
    let (mut hall, mut watcher) = Hall::new();
    let path = hall.dir.path().join("film.ts");
    hall.write("film.ts", "a");
    watcher.hear(vec![Report::Written(path.clone())]);
    assert_eq!(hall.settle(&mut watcher), [], "a pause of a recorder");
    let reason = format!(
        "a program is writing it; it is ingested when the program has closed it, or it has not changed for {WATCH_QUIET_MAX_S} s"
    );
    assert_eq!(state(&watcher, "film.ts"), WatchState::Waiting { reason });
    hall.write("film.ts", "ab");
    watcher.hear(vec![Report::Written(path.clone()), Report::Closed(path.clone())]);
    assert_eq!(hall.scan(&mut watcher), []);
    hall.wait(WATCH_QUIET_MIN_S);
    assert_eq!(hall.scan(&mut watcher), new(&["film.ts"]));
}

#[test]
fn what_nothing_was_reported_of_is_judged_by_its_pauses() {
    let (mut hall, mut watcher) = Hall::new();
    let path = hall.dir.path().join("film.ts");
    for lost in [false, true] {
        hall.write("film.ts", "a");
        watcher.hear(vec![Report::Written(path.clone())]);
        hall.scan(&mut watcher);
        hall.wait(1);
        // Another machine continues, or a report is lost.
        hall.write("film.ts", "ab");
        watcher.hear(if lost { vec![Report::Closed(path.clone()), Report::Lost] } else { Vec::new() });
        assert_eq!(hall.scan(&mut watcher), []);
        hall.wait(WATCH_QUIET_MIN_S - 1);
        assert_eq!(hall.scan(&mut watcher), []);
        hall.wait(1);
        assert_eq!(hall.scan(&mut watcher).len(), 1);
        hall.wait(WATCH_QUIET_MAX_S);
        hall.remove("film.ts");
        hall.scan(&mut watcher);
    }
}

#[test]
fn a_film_of_which_a_part_is_missing_waits_for_it_but_not_for_ever() {
    let (mut hall, mut watcher) = Hall::new();
    let boxed = |kind: &str| format!("\0\0\0\x0c{kind}    ");
    let whole = ["ftyp", "moov", "mdat"].map(boxed).concat();
    hall.write("film.mp4", &whole[..whole.len() - 1]);
    hall.write("lost.mp4", &whole[..whole.len() - 1]);
    assert_eq!(hall.settle(&mut watcher), []);
    hall.wait(100);
    assert_eq!(hall.scan(&mut watcher), []);
    let WatchState::Waiting { reason } = state(&watcher, "film.mp4") else { panic!("it waits") };
    assert!(reason.starts_with("a part of it is missing, as its container says"), "{reason}");
    // After a pause of 110 s, a film that does not say where it ends would wait for 300.
    hall.write("film.mp4", &whole);
    assert_eq!(hall.settle(&mut watcher), new(&["film.mp4"]));
    hall.wait(WATCH_QUIET_MAX_S);
    assert_eq!(hall.scan(&mut watcher), new(&["lost.mp4"]), "its program may be gone");
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
    assert_eq!(state(&watcher, "c/01.ts"), taken("t1"));
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
    assert_eq!(state(&watcher, "film.ts"), taken("film"));
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
fn a_title_of_an_earlier_run_is_shown_with_its_warnings() {
    let (mut hall, mut watcher) = Hall::new();
    hall.write("film.ts", "a");
    assert_eq!(hall.settle(&mut watcher), new(&["film.ts"]));
    hall.warnings = vec!["3 packets are missing".to_owned()];
    let mut later = Watcher::with(hall.dir.path(), Taken::in_memory());
    assert_eq!(hall.settle(&mut later), []);
    let (title, warnings) = ("t0".to_owned(), hall.warnings.clone());
    assert_eq!(state(&later, "film.ts"), WatchState::Taken { title, warnings });
}

#[test]
fn warnings_are_shown_before_titles_without_and_are_bounded() {
    let (mut hall, mut watcher) = Hall::new();
    hall.write("a.ts", "a");
    assert_eq!(hall.settle(&mut watcher), new(&["a.ts"]));
    let long = "ö".repeat(WARNING_BYTES_MAX);
    hall.warnings = [vec![long], vec!["one packet".to_owned(); WARNINGS_MAX]].concat();
    hall.write("b.ts", "b");
    assert_eq!(hall.settle(&mut watcher), new(&["b.ts"]));
    let files = watcher.report().files;
    assert_eq!(files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["b.ts", "a.ts"]);
    let warnings = |file: &WatchedFile| match &file.state {
        WatchState::Taken { warnings, .. } => warnings.clone(),
        state => panic!("{}: {state:?}", file.path),
    };
    let shown = warnings(&files[0]);
    assert_eq!(shown.len(), WARNINGS_MAX);
    assert!(shown[0].len() <= WARNING_BYTES_MAX && shown[0].ends_with("ö..."), "{}", shown[0]);
    assert_eq!(shown.last().expect("not empty"), "and 2 more, which are in the log");
    // Those of so many files are kept, whatever arrives. The first files make room in the report.
    hall.warnings = vec!["one packet".to_owned()];
    (0..=WATCH_SHOWN_MAX).for_each(|number| hall.write(&format!("c{number}.ts"), "c"));
    hall.settle(&mut watcher);
    ["b.ts", "c0.ts", "c1.ts"].iter().for_each(|name| hall.remove(name));
    hall.scan(&mut watcher);
    let is_kept = |file: &&WatchedFile| warnings(file) == ["one packet"];
    assert_eq!(watcher.report().files.iter().filter(is_kept).count(), WATCH_SHOWN_MAX - 3);
    for name in ["c98.ts", "c99.ts"] {
        let file = watcher.report().files.into_iter().find(|file| file.path == name).expect("shown");
        assert_eq!(warnings(&file), ["it has warnings, which its title has"]);
    }
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
    for (name, why) in [
        ("empty.mp4", "it is empty"),
        ("film.mp4.part", "when it is renamed"),
        ("film.part.mp4", "when it is renamed"),
        ("film.mkv.crdownload", "when it is renamed"),
    ] {
        let WatchState::Waiting { reason } = state(&watcher, name) else { panic!("{name} waits") };
        assert!(reason.contains(why), "{name}: {reason}");
    }
    let shown = watcher.report().files;
    assert!(!shown.iter().any(|file| file.path.contains("hidden") || file.path.contains('~')), "{shown:?}");
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
    assert_eq!(state(&watcher, "film.mp4"), taken("t0"));
}

#[test]
fn watching_ends_with_its_sender_and_shows_what_is_wrong() {
    let (hall, watcher) = Hall::new();
    let none = Watcher::with(&hall.dir.path().join("none"), Taken::in_memory());
    for (watcher, has_problem) in [(watcher, false), (none, true)] {
        let (sender, stop) = mpsc::channel();
        drop(sender);
        let mut shown = None;
        let take = |_: &Arrival| -> Result<Ingested, String> { panic!("nothing is there") };
        let life = WatchLife::beginning(now_ns());
        watch(watcher, &stop, &hall, take, |report| shown = Some(report), &life);
        assert_eq!(shown.expect("shown").problem.is_some(), has_problem);
    }
}

/// Two files, of which the first panics when it is taken, or when that is to be shown.
fn panicking(where_shown: bool) -> (Vec<String>, WatchReport, u64) {
    let (mut hall, watcher) = Hall::new();
    hall.unix_s = 1_000_000_000;
    hall.write("a.mp4", "x");
    hall.write("b.mp4", "y");
    let (sender, stop) = mpsc::channel();
    let mut sender = Some(sender);
    let (mut taken, mut last, life) = (Vec::new(), WatchReport::default(), WatchLife::beginning(now_ns()));
    let has_panicked = || life.panics() > 0;
    let is_ingested =
        |report: &WatchReport| report.files.iter().any(|file| file.state == WatchState::Ingesting);
    let take = |arrival: &Arrival| {
        assert!(where_shown || has_panicked(), "on purpose");
        taken.push(arrival.stamp.file_name.clone());
        Ok(Ingested { id: arrival.stamp.file_name.clone(), warnings: Vec::new() })
    };
    let show = |report: WatchReport| {
        assert!(!where_shown || has_panicked() || !is_ingested(&report), "on purpose");
        if has_panicked() && report.files.iter().any(|file| matches!(file.state, WatchState::Taken { .. })) {
            // The watch ends after this scan.
            sender = None;
        }
        last = report;
    };
    watch(watcher, &stop, &hall, take, show, &life);
    (taken, last, life.panics())
}

#[test]
fn a_panic_on_one_file_leaves_the_next_one_to_be_taken() {
    let (taken, last, panics) = panicking(false);
    assert_eq!((taken, panics), (vec!["b.mp4".to_owned()], 1));
    let failed = last.files.iter().find(|file| file.path == "a.mp4").expect("shown");
    assert!(
        matches!(&failed.state, WatchState::Failed { reason } if reason.contains("panicked")),
        "{failed:?}"
    );
}

#[test]
fn a_panic_between_files_loses_none_of_them() {
    let (taken, _, panics) = panicking(true);
    assert_eq!((taken, panics), (vec!["a.mp4".to_owned(), "b.mp4".to_owned()], 1));
}

/// A look is asked about after so long a time that it would hang, while it is under way, while its
/// file is ingested, and after it.
#[test]
fn a_look_that_does_not_end_hangs_and_an_ingest_does_not() {
    let (mut hall, watcher) = Hall::new();
    hall.unix_s = 1_000_000_000;
    hall.write("a.mp4", "x");
    let life = WatchLife::beginning(now_ns());
    let would_hang = || life.hangs(now_ns() + WATCH_LOOK_MAX_NS + 1);
    assert!(!life.hangs(now_ns()) && would_hang(), "a thread that ends before its first look is noticed");
    let (sender, stop) = mpsc::channel();
    let mut sender = Some(sender);
    let (mut ingests, mut shown) = (Vec::new(), Vec::new());
    let take = |_: &Arrival| {
        ingests.push(would_hang());
        Ok(Ingested { id: "a".to_owned(), warnings: Vec::new() })
    };
    let show = |report: WatchReport| {
        shown.push(would_hang());
        if matches!(report.files[..], [WatchedFile { state: WatchState::Taken { .. }, .. }]) {
            sender = None;
        }
    };
    watch(watcher, &stop, &hall, take, show, &life);
    assert_eq!(ingests, [false]);
    assert!(shown.len() >= 2 && shown.iter().all(|hangs| *hangs), "before and after the ingest: {shown:?}");
    assert!(!would_hang(), "between two looks it only waits");
}
