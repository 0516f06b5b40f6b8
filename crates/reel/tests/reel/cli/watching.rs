//! A watched directory: what becomes of its files, and what the API says of them.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, Instant, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::Value;

use crate::cli::films::{short, short_stream};
use crate::cli::rig::TestDir;
use crate::cli::serving::Running;

const CUE: &str = "1\n00:00:01,000 --> 00:00:02,000\nHallo\n";

/// Long enough for three pauses of a file on a busy machine; only a failure takes so long.
const PATIENCE: Duration = Duration::from_secs(200);

/// A volume with a directory `incoming` that a server watches.
struct Watched {
    dir: TestDir,
}

impl Watched {
    fn new() -> Self {
        let dir = TestDir::new();
        dir.create_volume(&["--size", "400M"]);
        fs::create_dir(dir.path("incoming")).unwrap();
        Self { dir }
    }

    fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.dir.path("incoming").join(name.as_ref())
    }

    /// Writes a file that was last modified long ago, so that it is complete.
    fn put(&self, name: impl AsRef<OsStr>, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        let modified = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
    }

    fn append(&self, name: &str, bytes: &[u8]) {
        let mut file = fs::File::options().append(true).open(self.path(name)).unwrap();
        file.write_all(bytes).unwrap();
    }

    fn serve(&self) -> Running {
        Running::start(&self.dir, &["serve", "volume", "--listen", "127.0.0.1:0", "--watch", "incoming"])
    }
}

/// What the API says of a file; null if it says nothing.
fn file(server: &Running, path: &str) -> Value {
    let watch: Value = serde_json::from_str(&server.text("/api/v1/watch")).unwrap();
    let mut files = watch["files"].as_array().unwrap().iter();
    files.find(|file| file["path"] == path).cloned().unwrap_or_default()
}

/// Waits until the API says that a file is in this state.
#[track_caller]
fn await_state(server: &Running, path: &str, state: &str) -> Value {
    await_file(server, path, state, |file| file["state"] == state)
}

/// Waits until what the API says of a file is as wanted.
#[track_caller]
fn await_file(server: &Running, path: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let file = file(server, path);
        if holds(&file) {
            return file;
        }
        assert!(begun.elapsed() < PATIENCE, "not {what}: {file}, {}", server.text("/api/v1/watch"));
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The titles as the API lists them, by id.
fn titles(server: &Running) -> Vec<Value> {
    let listed: Value = serde_json::from_str(&server.text("/api/v1/titles")).unwrap();
    let mut titles = listed["titles"].as_array().unwrap().clone();
    titles.sort_by_key(|title| title["id"].to_string());
    titles
}

fn lengths_s(server: &Running) -> Vec<(String, i64)> {
    let length = |title: &Value| title["duration_s"].as_f64().unwrap().round() as i64;
    titles(server).iter().map(|title| (title["id"].as_str().unwrap().to_owned(), length(title))).collect()
}

#[test]
fn a_file_that_pauses_is_one_title_and_one_that_grew_after_all_is_replaced() {
    let watched = Watched::new();
    let film = fs::read(short_stream()).unwrap();
    let (first, rest) = film.split_at(film.len() / 2 / 188 * 188);
    watched.put("grew.ts", first);
    fs::write(watched.path("pauses.ts"), first).unwrap();
    let server = watched.serve();
    let taken = await_state(&server, "grew.ts", "taken");
    assert_eq!(lengths_s(&server), [("grew".to_owned(), 3)], "half of it, and nothing of the other");
    let waiting = await_state(&server, "pauses.ts", "waiting");
    let reason = waiting["reason"].as_str().unwrap();
    assert!(reason.starts_with("it is ingested when it has not changed for "), "{reason}");
    watched.append("grew.ts", rest);
    watched.append("pauses.ts", rest);
    // The pause was of seconds, so the file is complete only after several of them.
    await_state(&server, "grew.ts", "waiting");
    let whole = |file: &Value| file["state"] == "taken" && file["bytes"] == film.len();
    let grown = await_file(&server, "grew.ts", "taken again", whole);
    assert_eq!(grown["title_id"], taken["title_id"], "in place of its title");
    await_file(&server, "pauses.ts", "taken", whole);
    assert_eq!(lengths_s(&server), [("grew".to_owned(), 6), ("pauses".to_owned(), 6)]);
}

#[test]
fn a_recording_becomes_a_title_when_its_program_has_closed_it() {
    let watched = Watched::new();
    let film = fs::read(short_stream()).unwrap();
    let (first, rest) = film.split_at(film.len() / 2 / 188 * 188);
    let server = watched.serve();
    // What is in the directory is known to be watched when one of its files was seen.
    watched.put("other.ts", &film);
    await_state(&server, "other.ts", "taken");
    let mut recording = fs::File::create(watched.path("recording.ts")).unwrap();
    recording.write_all(first).unwrap();
    let is_open = |file: &Value| {
        file["reason"].as_str().is_some_and(|reason| reason.starts_with("a program is writing it"))
    };
    await_file(&server, "recording.ts", "being written", is_open);
    recording.write_all(rest).unwrap();
    drop(recording);
    await_file(&server, "recording.ts", "taken", |file| {
        assert_ne!((&file["state"], &file["bytes"]), (&"taken".into(), &first.len().into()), "half of it");
        file["state"] == "taken"
    });
    assert_eq!(lengths_s(&server), [("other".to_owned(), 6), ("recording".to_owned(), 6)]);
}

#[test]
fn subtitles_that_arrive_before_or_after_their_film_belong_to_its_title() {
    let watched = Watched::new();
    let film = fs::read(short()).unwrap();
    watched.put("early.en.srt", CUE.as_bytes());
    watched.put("early.mp4", &film);
    watched.put("late.mp4", &film);
    let server = watched.serve();
    let languages = || -> Vec<Vec<String>> {
        let of = |title: &Value| {
            let subtitles = title["subtitles"].as_array().unwrap().iter();
            subtitles.map(|track| track["language"].as_str().unwrap().to_owned()).collect()
        };
        titles(&server).iter().map(of).collect()
    };
    await_state(&server, "early.mp4", "taken");
    let before = await_state(&server, "late.mp4", "taken");
    assert_eq!(languages(), [vec!["en".to_owned()], vec![]]);
    watched.put("late.de.srt", CUE.as_bytes());
    await_state(&server, "late.mp4", "waiting");
    let after = await_state(&server, "late.mp4", "taken");
    assert_eq!(after["title_id"], before["title_id"], "in place of its title");
    assert_eq!(languages(), [["en"], ["de"]]);
}

#[test]
fn what_is_no_title_is_listed_with_its_reason() {
    let watched = Watched::new();
    let film = fs::read(short()).unwrap();
    let other = [&film[..film.len() - 1], b"x"].concat();
    watched.put("a/01.mp4", &film);
    watched.put("b/01.mp4", &other);
    fs::create_dir(watched.path("c")).unwrap();
    symlink(watched.path("a/01.mp4"), watched.path("c/soft.mp4")).unwrap();
    fs::hard_link(watched.path("b/01.mp4"), watched.path("c/hard.mp4")).unwrap();
    symlink(watched.path("a"), watched.path("again")).unwrap();
    symlink("nowhere.mp4", watched.path("dangling.mp4")).unwrap();
    watched.put(OsStr::from_bytes(b"caf\xe9.mp4"), &film);
    watched.put("letter.mp4", b"Dear all");
    watched.put("empty.mp4", b"");
    watched.put("new.mp4.part", &film);
    let server = watched.serve();
    await_state(&server, "letter.mp4", "failed");
    await_state(&server, "b/01.mp4", "taken");
    for (path, state, why) in [
        ("c/soft.mp4", "skipped", "it is the same file as a/01.mp4"),
        ("c/hard.mp4", "skipped", "it is the same file as b/01.mp4"),
        ("again", "skipped", "links to directories are not followed"),
        ("dangling.mp4", "skipped", "No such file"),
        ("caf\u{fffd}.mp4", "skipped", "its name is not UTF-8; rename it"),
        ("letter.mp4", "failed", "letter.mp4"),
        ("empty.mp4", "waiting", "it is empty"),
        ("new.mp4.part", "waiting", "it is ingested when it is renamed"),
    ] {
        let file = await_state(&server, path, state);
        let reason = file["reason"].as_str().unwrap();
        assert!(reason.contains(why), "{path}: {reason}");
        assert_eq!(file["title_id"], Value::Null, "{path}");
    }
    // Equal in name, size and time, and yet two films.
    assert_eq!(titles(&server).len(), 2, "{:?}", titles(&server));
    let of = |path: &str| file(&server, path)["title_id"].as_str().map(str::to_owned);
    assert!(of("a/01.mp4").is_some() && of("b/01.mp4").is_some());
    assert_ne!(of("a/01.mp4"), of("b/01.mp4"));
    // A file that gets a right name becomes a title.
    fs::rename(watched.path("new.mp4.part"), watched.path("new.mp4")).unwrap();
    fs::rename(watched.path(OsStr::from_bytes(b"caf\xe9.mp4")), watched.path("café.mp4")).unwrap();
    await_state(&server, "new.mp4", "taken");
    await_state(&server, "café.mp4", "taken");
    assert_eq!(titles(&server).len(), 4);
}

#[test]
fn what_was_left_out_of_a_file_is_said_beside_its_title() {
    let watched = Watched::new();
    let film = fs::read(short_stream()).unwrap();
    let hole = [&film[..188 * 2000], &film[188 * 2030..]].concat();
    watched.put("torn.ts", &hole);
    watched.put("whole.ts", &film);
    let mut server = watched.serve();
    await_state(&server, "whole.ts", "taken");
    let torn = await_state(&server, "torn.ts", "taken");
    let warnings: Vec<&str> =
        torn["warnings"].as_array().unwrap().iter().map(|warning| warning.as_str().unwrap()).collect();
    assert!(warnings.iter().any(|warning| warning.contains("are missing at one place")), "{warnings:?}");
    assert_eq!(file(&server, "whole.ts")["warnings"], Value::Array(Vec::new()));
    // They are kept with the title.
    server.signal(Signal::TERM);
    let listed = watched.dir.reel(&["titles", "volume", "--warnings"]).done().stdout;
    assert!(listed.lines().skip(1).all(|line| line.starts_with("torn ")), "{listed}");
    assert_eq!(listed.lines().count(), 1 + warnings.len(), "{listed}");
    let server = watched.serve();
    await_state(&server, "whole.ts", "taken");
    assert_eq!(await_state(&server, "torn.ts", "taken")["warnings"], torn["warnings"]);
    let title: Value = serde_json::from_str(&server.text("/api/v1/titles/torn")).unwrap();
    assert_eq!(title["warnings"], torn["warnings"]);
}
