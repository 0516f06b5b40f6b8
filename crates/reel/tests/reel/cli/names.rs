//! Names of every kind, ingested and exported.

use std::fs;

use crate::cli::films::short;
use crate::cli::rig::TestDir;

#[test]
fn files_may_have_any_name() {
    let long = format!("{}.mp4", "l".repeat(251));
    let names = [
        ("a film with spaces.mp4", "a-film-with-spaces"),
        ("Фильм – 映画 🎬.mp4", ""),
        ("..mp4", ""),
        ("-dash.mp4", "dash"),
        ("quote\"and'quote.mp4", ""),
        ("new\nline.mp4", ""),
        (&long, ""),
    ];
    let dir = TestDir::with_volume();
    for (name, id) in names {
        fs::copy(short(), dir.path(name)).unwrap();
        let file = format!("./{name}");
        let made = dir.reel(&["ingest", "volume", &file, "--json"]).done().json();
        let made = made["titles"][0]["id"].as_str().unwrap().to_owned();
        let plain = made.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        assert!(plain && (1..=64).contains(&made.len()), "{name:?} became {made:?}");
        assert!(id.is_empty() || made == id, "{name:?} became {made:?}");
        dir.reel(&["export", "volume", &made]).done();
        fs::remove_file(dir.path(name)).unwrap();
    }
    assert_eq!(dir.titles().len(), names.len());
}

#[test]
fn an_empty_name_counts_as_missing() {
    let dir = TestDir::with_volume();
    let film = short();
    for option in ["--name", "--title"] {
        for name in ["", " \u{200b}"] {
            dir.reel(&["ingest", "volume", film.to_str().unwrap(), option, name]).done();
        }
    }
    assert_eq!(dir.titles(), ["short", "short-2", "short-3", "short-4"]);
}

#[test]
fn names_do_not_reach_the_terminal_raw() {
    let dir = TestDir::with_volume();
    fs::copy(short(), dir.path("red\u{1b}[31m.mp4")).unwrap();
    let outcome = dir.reel(&["ingest", "volume", "red\u{1b}[31m.mp4"]).done();
    assert!(outcome.stderr.contains("title red-31m") && !outcome.stderr.contains('\u{1b}'), "{outcome:?}");
}

#[test]
fn ids_cannot_leave_the_directory() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap(), "--name", "../../etc/passwd"]).done();
    let titles = dir.titles();
    assert!(!titles[0].contains(['/', '.']), "{titles:?}");
    for id in ["../short", "", "a/b", "short.mp4", &"x".repeat(5000)] {
        dir.reel(&["export", "volume", id, "out.mp4"]).refused(3, &["no title"]);
    }
    assert_eq!(dir.names(""), ["volume"]);
}

#[test]
fn a_name_that_is_not_utf8_is_accepted() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let dir = TestDir::with_volume();
    let name = OsStr::from_bytes(b"film-\xff.mp4");
    fs::copy(short(), dir.path("").join(name)).unwrap();
    let output = dir.command(&["ingest", "volume"]).arg(name).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(dir.titles().len(), 1);
}
