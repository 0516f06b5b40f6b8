//! Invalid films, and paths that do not exist.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::cli::films::{large, short};
use crate::cli::pipes::make_pipe;
use crate::cli::rig::TestDir;
use reel_testkit::Rng;

#[test]
fn invalid_films_are_refused_and_leave_nothing() {
    let dir = TestDir::with_volume();
    let free = dir.free_bytes();
    let film = fs::read(short()).unwrap();
    let random = Rng::new(1).bytes(100_000);
    let mut broken = film.clone();
    // The movie box is at the end of this file: without it the file is unreadable.
    broken.truncate(film.len() / 2);
    for (name, bytes) in [
        ("empty.mp4", &[][..]),
        ("text.mkv", b"once upon a time"),
        ("random.ts", &random),
        ("cut.mp4", &broken),
    ] {
        fs::write(dir.path(name), bytes).unwrap();
        dir.reel(&["ingest", "volume", name]).refused(1, &[name]);
        assert!(dir.titles().is_empty(), "{name}");
        assert_eq!(dir.free_bytes(), free, "{name} left something behind");
    }
    dir.reel(&["volume", "check", "volume"]).done();
}

/// Opening a named pipe like a file would wait for a writer for ever.
#[test]
fn anything_but_a_regular_file_is_refused_at_once() {
    let dir = TestDir::with_volume();
    make_pipe(&dir.path("pipe.mp4"));
    dir.reel(&["ingest", "volume", "pipe.mp4"]).refused(1, &["pipe.mp4", "not a regular file"]);
    dir.reel(&["ingest", "volume", "/dev/zero"]).refused(1, &["/dev/zero", "not a regular file"]);
}

#[test]
fn refusals_of_invalid_films_come_with_advice() {
    let dir = TestDir::with_volume();
    let film = fs::read(short()).unwrap();
    fs::write(dir.path("empty.mp4"), "").unwrap();
    fs::write(dir.path("cut.mp4"), &film[..film.len() / 2]).unwrap();
    fs::write(dir.path("text.mp4"), "once upon a time").unwrap();
    for (name, advice) in [
        ("empty.mp4", "help: copy or record it again"),
        ("cut.mp4", "help: copy it again in full"),
        ("text.mp4", "(it looks like text)\nhelp: use one of these"),
    ] {
        dir.reel(&["ingest", "volume", name]).refused(1, &[name, advice]);
    }
}

#[test]
fn a_volume_without_enough_members_says_what_to_do() {
    let dir = TestDir::with_volume();
    for member in [0, 3] {
        fs::remove_file(dir.path(&format!("volume/member-{member}.reel"))).unwrap();
    }
    let outcome = dir.reel(&["volume", "status", "volume"]);
    assert!(!outcome.stderr.contains("computed from"), "nothing can be computed: {}", outcome.stderr);
    outcome.refused(1, &["member-0.reel", "member-3.reel", "help: bring back enough of them"]);
}

#[test]
fn missing_things_are_named() {
    let dir = TestDir::with_volume();
    let film = short();
    let film = film.to_str().unwrap();
    dir.reel(&["ingest", "volume", "nothing.mp4"]).refused(3, &["nothing.mp4"]);
    // The typo is found before the first film is ingested.
    dir.reel(&["ingest", "volume", film, "nothing.mp4"]).refused(3, &["nothing.mp4"]);
    assert!(dir.titles().is_empty());
    dir.reel(&["ingest", "volume", "."]).refused(2, &["is a directory"]);
    for arguments in [
        &["volume", "status", "nowhere"][..],
        &["volume", "check", "nowhere"],
        &["titles", "nowhere"],
        &["remove", "nowhere", "x"],
        &["export", "nowhere", "x"],
        &["ingest", "nowhere", film],
        &["serve", "nowhere"],
    ] {
        dir.reel(arguments).refused(3, &["nowhere", "reel volume create"]);
    }
    fs::create_dir(dir.path("empty")).unwrap();
    dir.reel(&["titles", "empty"]).refused(3, &["empty"]);
    dir.reel(&["export", "volume", "x", "dir/x.mp4"]).refused(3, &["x"]);
    assert_eq!(dir.names(""), ["empty", "volume"]);
}

#[test]
fn an_export_that_cannot_be_written_leaves_nothing() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    dir.reel(&["export", "volume", "short", "no/such/dir.mp4"]).refused(3, &["no/such/dir.mp4"]);
    dir.reel(&["export", "volume", "short", "volume"]).refused(2, &["volume"]);
    assert_eq!(dir.names(""), ["volume"]);
}

/// The volume could not be opened any more, or would be without a member.
#[test]
fn no_output_of_a_command_replaces_a_part_of_a_volume() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    dir.reel(&["volume", "create", "other", "--size", "90M", "--members", "x", "y", "z"]).done();
    std::os::unix::fs::symlink("volume", dir.path("link")).unwrap();
    dir.reel(&["export", "volume", "short", "volume/short.mp4"]).done();
    fs::write(dir.path("disk"), vec![7; 5 << 20]).unwrap();
    let plan = ["cast", "plan", "--duration", "180s", "--rate", "4M", "--wait", "5s", "--force", "--svg"];
    let commands: [&[&str]; 4] = [
        &["export", "volume", "short", "--force"],
        &["receive", "rtp://127.0.0.1:59997", "--timeout", "300ms", "--force", "-o"],
        &plan,
        &["probe", "disk", "--seconds", "1", "--out"],
    ];
    for (name, words) in [
        ("volume/member-2.reel", "is member 2 of the Reel volume"),
        ("link/volume.toml", "names the members of a Reel volume"),
        ("other/volume.toml", "names the members of a Reel volume"),
        ("y", "is member 1 of the Reel volume"),
        ("volume/short.mp4", "is in the directory of the Reel volume"),
    ] {
        for command in commands {
            let before = fs::metadata(dir.path(name)).unwrap();
            dir.reel(&[command, &[name]].concat()).refused(2, &[name, words]);
            let after = fs::metadata(dir.path(name)).unwrap();
            assert_eq!((before.ino(), before.len()), (after.ino(), after.len()));
        }
    }
    assert_eq!(dir.titles(), ["short"]);
}

/// A rename over a pipe or over a link such as `/dev/stdout` would replace it by a file.
#[test]
fn an_export_replaces_nothing_but_files() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    make_pipe(&dir.path("pipe"));
    fs::write(dir.path("file"), "old").unwrap();
    std::os::unix::fs::symlink("file", dir.path("link")).unwrap();
    for name in ["pipe", "link"] {
        dir.reel(&["export", "volume", "short", name, "--force"])
            .refused(2, &[name, "not a regular file", "- > PATH"]);
    }
    assert_eq!(fs::read(dir.path("file")).unwrap(), b"old");
    assert!(fs::symlink_metadata(dir.path("link")).unwrap().is_symlink());
    dir.reel(&["export", "volume", "short", "file", "--force"]).done();
    assert_eq!(dir.names(""), ["file", "link", "pipe", "volume"]);
}

#[test]
fn a_film_larger_than_the_volume_leaves_it_as_it_was() {
    let dir = TestDir::new();
    dir.reel(&["volume", "create", "volume", "--size", "30M", "--catalogue", "64K"]).done();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    let free = dir.free_bytes();
    let film = large();
    assert!(fs::metadata(&film).unwrap().len() > 30 << 20, "the film must not fit");
    dir.reel(&["ingest", "volume", film.to_str().unwrap()]).refused(1, &["free"]);
    assert_eq!(dir.titles(), ["short"]);
    assert_eq!(dir.free_bytes(), free);
    dir.reel(&["volume", "check", "volume"]).done();
}

#[test]
fn wrong_usage_is_code_2() {
    let dir = TestDir::new();
    for arguments in [
        &["volume", "create", "v", "--size", "lots"][..],
        &["volume", "create", "v", "--size", "-1"],
        &["volume", "create", "v", "--code", "raid6"],
        &["serve", "v", "--listen", "localhost"],
        &["ingest", "v"],
        &["frobnicate"],
    ] {
        let outcome = dir.reel(arguments);
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.starts_with("error: "), "{}", outcome.stderr);
    }
    assert_eq!(dir.reel(&[]).code, Some(2));
    let help = dir.reel(&["help"]).done().stdout;
    for word in ["demo", "volume", "ingest", "serve", "Exit codes:"] {
        assert!(help.contains(word), "{help}");
    }
    assert!(dir.names("").is_empty());
}
