//! Volumes are created, inspected, damaged, repaired and refused.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::cli::films::{short, short_stream};
use crate::cli::freezing::Mounted;
use crate::cli::rig::{Outcome, TestDir};

#[test]
fn a_new_volume_shows_its_properties() {
    let dir = TestDir::new();
    let made = dir.reel(&["volume", "create", "volume", "--size", "200M", "--json"]).done().json();
    assert_eq!(made["geometry"]["data_rows"], 4);
    assert_eq!(made["geometry"]["symbol_bytes"], 1408);
    assert_eq!(made["members"].as_array().unwrap().len(), 5);
    let status = dir.reel(&["volume", "status", "volume", "--json"]).done().json();
    assert_eq!(status["id"], made["volume"]);
    assert_eq!(status["state"], "ok");
    assert_eq!(status["free_bytes"], made["capacity_bytes"]);
    assert_eq!(status["members"].as_array().unwrap().len(), 5);
    let said = dir.reel(&["volume", "status", "volume"]).done().stdout;
    assert!(said.contains("member-0.reel") && said.contains("present"), "{said}");
}

#[test]
fn a_geometry_says_what_its_parity_can_do_on_the_network() {
    let dir = TestDir::new();
    // After fewer members, the last one is of another volume.
    let create = ["volume", "create", "volume", "--size", "200M", "--force", "--overwrite-volume"];
    let with = |more: &[&str]| dir.reel(&[&create[..], more].concat()).done();
    let made = with(&["--geometry", "ts", "--json"]).json();
    let geometry = &made["geometry"];
    assert_eq!((&geometry["symbol_bytes"], &geometry["row_symbols"]), (&json!(1316), &json!(20)));
    assert_eq!((&geometry["unit_rows"], &geometry["allows_st_2022_1"]), (&json!(7), &json!(true)));
    let said = with(&["--geometry", "ts"]).stdout;
    assert!(said.contains("column FEC of SMPTE ST 2022-1 with L = 20, D = 4"), "{said}");
    let said = with(&["--geometry", "ts", "--members", "4"]).stdout;
    assert!(said.contains("no column FEC") && said.contains("L = 20, D = 3"), "{said}");
    let said = with(&[]).stdout;
    assert!(said.contains("L = 32, D = 4") && said.contains("GStreamer"), "{said}");
    let said = with(&["--symbol-bytes", "1024"]).stdout;
    assert!(said.contains("fewer than 1316"), "{said}");
    let film = dir.path("film.ts");
    fs::copy(short_stream(), &film).unwrap();
    let refused = ["ingest", "volume", "film.ts", "--form", "ts"];
    dir.reel(&refused).refused(1, &["1024 bytes", "--geometry ts"]);
    assert!(dir.titles().is_empty());
}

#[test]
fn members_may_be_anywhere() {
    let dir = TestDir::new();
    for name in ["a", "b", "c"] {
        fs::create_dir(dir.path(name)).unwrap();
    }
    let members = ["--members", "a/x", "b/y", "c/z"];
    dir.reel(&[&["volume", "create", "volume", "--size", "90M"][..], &members].concat()).done();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    fs::remove_file(dir.path("b/y")).unwrap();
    dir.reel(&["export", "volume", "short"]).done();
    dir.reel(&["volume", "check", "volume"])
        .code
        .filter(|&code| code == 4)
        .expect("a missing member is damage");
}

#[test]
fn a_volume_is_not_overwritten() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    dir.reel(&["volume", "create", "volume", "--size", "200M"]).refused(2, &["already", "--force"]);
    assert_eq!(dir.titles(), ["short"]);
    dir.reel(&["volume", "create", "volume", "--size", "200M", "--force"]).done();
    assert!(dir.titles().is_empty());
}

/// The name of a device that is not there was one such place; all others are named.
#[test]
fn a_volume_in_memory_is_named_as_one() {
    let dir = TestDir::in_memory();
    let made = dir.reel(&["volume", "create", "volume", "--size", "90M", "--members", "3"]).done();
    let words = "files in memory, so they are lost when this machine stops";
    assert_eq!(made.stderr.matches(words).count(), 1, "{}", made.stderr);
    assert!(made.stderr.contains("volume/member-2.reel"), "{}", made.stderr);
    fs::remove_file(dir.path("volume/member-1.reel")).unwrap();
    let replaced = dir.reel(&["volume", "replace", "volume", "1", "volume/new"]).done();
    assert!(replaced.stderr.contains(words), "{}", replaced.stderr);
    let on_disk = TestDir::new();
    let made = on_disk.reel(&["volume", "create", "volume", "--size", "90M", "--members", "3"]).done();
    assert!(!made.stderr.contains(words), "{}", made.stderr);
}

#[test]
fn a_failed_creation_leaves_nothing() {
    let dir = TestDir::new();
    for (arguments, code, word) in [
        (&["--size", "1M"][..], 2, "--size"),
        (&["--size", "900P"], 1, "space"),
        (&["--members", "1"], 2, "member"),
        (&["--members", "0"], 2, "member"),
        (&["--members", "5", "--data-rows", "9"], 2, "geometry"),
        (&["--members", "5", "--symbol-bytes", "0"], 2, "geometry"),
        (&["--members", "5", "--parity", "2"], 2, "parity"),
        (&["--members", "m", "m"], 2, "twice"),
        (&["--members", "m", "./m", "n", "--size", "90M"], 2, "twice"),
    ] {
        let arguments = [&["volume", "create", "volume"][..], arguments].concat();
        dir.reel(&arguments).refused(code, &[word]);
        assert!(dir.names("").is_empty(), "{arguments:?} left {:?}", dir.names(""));
    }
    dir.reel(&["volume", "create", "--members", "5", "dir"]).refused(2, &[]);
}

#[test]
fn damage_is_reported_with_its_member_and_code_4() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    let sound = dir.reel(&["volume", "check", "volume", "--json"]).done().json();
    assert_eq!(sound["sound"], true);
    fs::remove_file(dir.path("volume/member-3.reel")).unwrap();
    let check = dir.reel(&["volume", "check", "volume"]);
    assert_eq!(check.code, Some(4), "{}{}", check.stdout, check.stderr);
    assert!(check.stdout.contains("member 3") && check.stdout.contains("missing"), "{}", check.stdout);
    let status = dir.reel(&["volume", "status", "volume", "--json"]).done().json();
    assert_eq!(status["state"], "degraded");
    assert_eq!(status["members"][3]["state"], "missing");
    dir.reel(&["export", "volume", "short"]).done();
}

/// A directory with a volume in it and a copy of the program, where every user may read: those of
/// the build may be in one that others may not enter.
fn readable_by_others() -> TestDir {
    let dir = TestDir::in_system_directory();
    dir.create_volume(&["--size", "200M"]);
    fs::set_permissions(dir.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    // Not by this process: while it writes the copy, a child that it starts meanwhile holds the
    // file open, and then it cannot be executed.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_reel")).arg(dir.path("program")).status();
    assert!(copied.unwrap().success());
    fs::set_permissions(dir.path("program"), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// A command for reel in `dir` as a user without write permission. A test that runs as root, whom
/// permissions do not stop, changes to another user.
fn as_reader(dir: &TestDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(dir.path("program"));
    command.args(arguments).current_dir(dir.path("")).stdin(Stdio::null());
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(65534).gid(65534);
    }
    command
}

#[test]
fn members_that_may_not_be_written_are_not_called_missing() {
    let dir = readable_by_others();
    let modes = |mode: u32| {
        for member in 0..5 {
            let path = dir.path(&format!("volume/member-{member}.reel"));
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    modes(0o444);
    let film = dir.path("short.mp4");
    fs::copy(short(), &film).unwrap();
    let ingest = || {
        let output = as_reader(&dir, &["ingest", "volume", "short.mp4"]).output().unwrap();
        Outcome::of(output)
    };
    let words = [
        "5 of its 5 members",
        "tolerates the loss of 1:",
        "denied",
        "Permission denied",
        "help: give this user",
    ];
    let refused = ingest().refused(1, &words);
    assert!(!refused.stderr.contains("missing") && !refused.stderr.contains("volume.toml"), "{refused:?}");
    let read = Outcome::of(as_reader(&dir, &["titles", "volume"]).output().unwrap());
    read.done();
    modes(0o000);
    ingest().refused(1, &["the loss of an unknown number of members"]);
}

#[test]
fn a_lost_member_is_replaced_and_rebuilt() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    dir.reel(&["volume", "rebuild", "volume"]).refused(2, &["every member is in use", "scrub"]);
    dir.reel(&["volume", "replace", "volume", "3", "new"])
        .refused(1, &["in use and healthy", "--replace-healthy"]);
    fs::write(dir.path("precious.mp4"), "a film").unwrap();
    let replace = |flag: &str| dir.reel(&["volume", "replace", "volume", "3", "precious.mp4", flag]);
    replace("--force").refused(1, &["in use and healthy", "--replace-healthy"]);
    replace("--replace-healthy").refused(2, &["precious.mp4 is not empty", "--force to overwrite it"]);
    assert_eq!(fs::read(dir.path("precious.mp4")).unwrap(), b"a film");
    fs::remove_file(dir.path("volume/member-3.reel")).unwrap();
    dir.reel(&["volume", "rebuild", "volume"]).refused(2, &["no disk to rebuild on", "replace"]);
    let scrub = dir.reel(&["volume", "scrub", "volume"]);
    assert_eq!(scrub.code, Some(4), "{}", scrub.stdout);
    dir.reel(&["volume", "replace", "volume", "3", "new"]).refused(1, &["there is nothing at", "--create"]);
    assert!(!dir.path("new").exists());
    let made = dir.reel(&["volume", "replace", "volume", "3", "new", "--create", "--json"]).done().json();
    assert_eq!((&made["member"], &made["state"]), (&3.into(), &"rebuilding".into()));
    let status = dir.reel(&["volume", "status", "volume", "--json"]).done().json();
    assert_eq!((&status["state"], &status["members"][3]["in_use"]), (&"degraded".into(), &false.into()));
    let rebuilt = dir.reel(&["volume", "rebuild", "volume", "--rate", "500M", "--json"]).done().json();
    assert_eq!(
        (&rebuilt["member"], &rebuilt["complete"], &rebuilt["lost_rows"]),
        (&3.into(), &true.into(), &0.into())
    );
    let sound = dir.reel(&["volume", "check", "volume", "--json"]).done().json();
    assert_eq!(sound["sound"], true);
    fs::remove_file(dir.path("volume/member-0.reel")).unwrap();
    dir.reel(&["export", "volume", "short"]).done();
}

/// The advice is for the replacement. The size of the volume is what it is.
#[test]
fn a_replacement_without_space_for_it_is_refused_in_its_own_words() {
    let dir = TestDir::with_volume();
    let Some(_mounted) = Mounted::ext4(&dir, 20 << 20) else { return };
    fs::remove_file(dir.path("volume/member-3.reel")).unwrap();
    let words = ["there is not enough space", "free space there, or use another disk"];
    let refused =
        dir.reel(&["volume", "replace", "volume", "3", "mounted/new", "--create"]).refused(1, &words);
    assert!(!refused.stderr.contains("--size"), "{refused:?}");
    assert!(!dir.path("mounted/new").exists());
}

#[test]
fn a_file_system_that_cannot_reserve_space_is_named() {
    let dir = TestDir::new();
    let Some(_mounted) = Mounted::of_kind("ext2", &dir, 300 << 20) else { return };
    let made = dir.reel(&["volume", "create", "mounted/volume", "--size", "200M"]).done();
    let words = "this file system cannot reserve space";
    assert_eq!(made.stderr.matches(words).count(), 5, "{}", made.stderr);
}

#[test]
fn a_truncated_member_is_replaced_at_its_path() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    let member = fs::OpenOptions::new().write(true).open(dir.path("volume/member-0.reel")).unwrap();
    member.set_len(20 << 20).unwrap();
    let check = dir.reel(&["volume", "check", "volume"]);
    assert!(check.stdout.contains("Bring the right one back, or replace it"), "{}", check.stdout);
    let words = ["member 0", "is truncated", "help: bring the right disk back, or replace it with"];
    dir.reel(&["volume", "rebuild", "volume"]).refused(2, &words);
    dir.reel(&["volume", "rebuild", "volume", "0"]).refused(2, &words);
    let replace = ["volume", "replace", "volume", "0", "volume/member-0.reel"];
    let words = ["is already member 0 of the Reel volume", "use --force to overwrite it"];
    dir.reel(&replace).refused(2, &words);
    dir.reel(&[&replace[..], &["--force"]].concat()).done();
    dir.reel(&["volume", "rebuild", "volume"]).done();
    dir.reel(&["volume", "check", "volume"]).done();
}

#[test]
fn quiet_commands_print_only_errors_and_no_message_appears_twice() {
    let dir = TestDir::new();
    let silent = |arguments: &[&str]| {
        let ended = dir.reel(&[&["-q"], arguments].concat()).done();
        assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""), "{arguments:?}");
    };
    silent(&["volume", "create", "volume", "--size", "200M"]);
    fs::remove_file(dir.path("volume/member-3.reel")).unwrap();
    for arguments in [&["status", "volume"][..], &["check", "volume"]] {
        let said = dir.reel(&[&["volume"], arguments].concat());
        let both = said.stdout + &said.stderr;
        assert_eq!(both.matches("member 3 (volume/member-3.reel): missing").count(), 1, "{both}");
    }
    let titles = dir.reel(&["titles", "volume"]).done();
    assert!(titles.stderr.contains("WARN") && titles.stderr.contains("member 3"), "{}", titles.stderr);
    let titles = dir.reel(&["-q", "titles", "volume"]).done();
    assert!(titles.stderr.is_empty() && !titles.stdout.is_empty(), "{titles:?}");
    silent(&["ingest", "volume", short().to_str().unwrap()]);
    silent(&["volume", "replace", "volume", "3", "new", "--create"]);
    silent(&["volume", "rebuild", "volume"]);
    dir.reel(&["-q", "volume", "rebuild", "volume"]).refused(2, &["every member is in use"]);
}

#[test]
fn silent_damage_is_repaired_by_a_scrub() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    let member = fs::OpenOptions::new().write(true).open(dir.path("volume/member-1.reel")).unwrap();
    let data_offset = 9 << 20;
    std::os::unix::fs::FileExt::write_all_at(&member, &[0x5a; 100_000], data_offset).unwrap();
    assert_eq!(dir.reel(&["volume", "check", "volume"]).code, Some(4));
    let repaired = dir.reel(&["volume", "scrub", "volume"]).done();
    assert!(repaired.stdout.contains("repaired:"), "{}", repaired.stdout);
    let again = dir.reel(&["volume", "scrub", "volume", "--json"]).done().json();
    assert_eq!((&again["sound"], &again["repaired_rows"]), (&true.into(), &0.into()));
    dir.reel(&["volume", "check", "volume"]).done();
}

/// Following the hints must lead to the volume, and not to its end.
#[test]
fn a_lost_volume_file_is_written_again_from_the_members() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    let file = dir.path("volume/volume.toml");
    let good = fs::read(&file).unwrap();
    for torn in [None, Some(&b""[..]), Some(&good[..good.len() / 2]), Some(&[0; 300])] {
        fs::remove_file(&file).unwrap();
        if let Some(torn) = torn {
            fs::write(&file, torn).unwrap();
        }
        for arguments in [&["titles", "volume"][..], &["volume", "create", "volume", "--size", "200M"]] {
            let said =
                dir.reel(arguments).refused(1, &["holds 5 members", "reel volume find DIR", "--write"]);
            assert!(!said.stderr.contains("create") && !said.stderr.contains("--force"), "{}", said.stderr);
        }
        let found = dir.reel(&["volume", "find", "volume", "--json"]).done().json();
        let members = found["members"].as_array().unwrap();
        assert!(members.len() == 5 && members.iter().all(|member| member["text"] == "whole"), "{found}");
        let said = dir.reel(&["volume", "find", "volume", "--write"]).done().stdout;
        assert!(said.contains("member 4 of 5 of the volume") && said.contains("wrote volume/"), "{said}");
        assert_eq!(fs::read(&file).unwrap(), good, "as it was made");
        assert_eq!(dir.titles(), ["short"]);
        dir.reel(&["volume", "check", "volume"]).done();
    }
    dir.reel(&["volume", "find", "volume", "--write"]).refused(2, &["volume.toml that can be read"]);
}

#[test]
fn what_was_found_must_be_one_volume() {
    let dir = TestDir::new();
    let names = ["a", "b", "c", "d"];
    names.iter().for_each(|name| fs::create_dir(dir.path(name)).unwrap());
    let members = ["--members", "a/x", "b/y", "c/z", "d/w"];
    dir.reel(&[&["volume", "create", "volume", "--size", "90M"][..], &members].concat()).done();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    fs::remove_file(dir.path("volume/volume.toml")).unwrap();
    let find = |more: &[&str]| dir.reel(&[&["volume", "find", "volume"][..], more].concat());
    assert_eq!(find(&[]).code, Some(3));
    find(&["a/x", "b/y", "--write"]).refused(2, &["2 of 4 members were found, and 3 are needed"]);
    find(&["a/x", "nothing"]).refused(3, &["nothing"]);
    fs::write(dir.path("film"), "a film").unwrap();
    find(&["film"]).refused(2, &["does not start like a member"]);
    // A copy of a member, which may be older.
    fs::copy(dir.path("a/x"), dir.path("copy")).unwrap();
    find(&["a/x", "copy", "b/y", "c/z", "--write"]).refused(2, &["are copies of one member"]);
    dir.reel(&["volume", "create", "other", "--size", "90M", "--members", "1x", "2x", "3x"]).done();
    let said = find(&["a/x", "b/y", "c/z", "1x", "--write"]).refused(2, &["several volumes", "--volume ID"]);
    let found = find(&["c/z", "--json"]).done().json();
    let id = found["members"][0]["volume"].as_str().unwrap();
    assert!(said.stderr.contains(id));
    // Three of four are enough, in any order, and the fourth is named as missing.
    find(&["c/z", "a/x", "1x", "b/y", "--write", "--volume", id]).done();
    assert_eq!(dir.titles(), ["short"]);
    let status = dir.reel(&["volume", "status", "volume"]).done().stdout;
    assert!(status.contains("member-3.reel): missing"), "{status}");
    fs::rename(dir.path("d/w"), dir.path("volume/member-3.reel")).unwrap();
    dir.reel(&["volume", "check", "volume"]).done();
}
