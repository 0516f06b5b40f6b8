//! Pipes without a writer at the names of files: whatever opens one must not wait.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;

use crate::cli::films::{short, short_stream};
use crate::cli::rig::{Outcome, TestDir};
use crate::cli::serving::Running;

pub(crate) fn make_pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

#[test]
fn a_pipe_that_a_command_is_given_is_refused_at_once() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    make_pipe(&dir.path("pipe"));
    let _socket = UnixListener::bind(dir.path("socket")).unwrap();
    let regular = "it is not a regular file";
    let disk = "neither a file nor a block device";
    let commands: [(&[&str], i32, &str); 9] = [
        (&["serve", "--config"], 2, regular),
        (&["ingest", "volume"], 1, regular),
        (&["check"], 1, regular),
        (&["subtitles", "volume", "short"], 1, regular),
        (&["receive"], 1, regular),
        (&["probe"], 1, disk),
        (&["volume", "find", "volume"], 1, disk),
        (&["volume", "replace", "volume", "2", "--replace-healthy", "--force"], 2, disk),
        (&["volume", "create", "new", "--force", "--members", "a", "b"], 2, disk),
    ];
    for (command, code, words) in commands {
        for name in ["pipe", "socket", "/dev/zero"] {
            dir.reel(&[command, &[name]].concat()).refused(code, &[name, words]);
        }
    }
    for option in [&["export", "volume", "short"][..], &["receive", "rtp://127.0.0.1:59996", "-o"]] {
        dir.reel(&[option, &["pipe"]].concat()).refused(2, &["pipe"]);
    }
    dir.reel(&["receive", "rtp://127.0.0.1:59996", "--force", "-o", "pipe"])
        .refused(1, &["no program reads the pipe", "start its reader"]);
    let text = "volume = \"volume\"\nlisten = \"127.0.0.1:0\"\n[tls]\nlisten = \"127.0.0.1:0\"\n";
    fs::write(
        dir.path("reel.toml"),
        format!("{text}certificate = \"pipe\"\nkey = \"pipe\"\ngenerate = false\n"),
    )
    .unwrap();
    let refused = dir.reel(&["serve", "--config", "reel.toml"]);
    assert!(refused.code.is_some_and(|code| code > 0) && refused.stderr.contains("pipe"), "{refused:?}");
    dir.reel(&["volume", "check", "volume"]).done();
    // A shell makes such a pipe, and its writer is there.
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"<html>").unwrap();
    drop(writer);
    let received = dir.command(&["receive", "/dev/stdin"]).stdin(reader).output().unwrap();
    Outcome::of(received).refused(1, &["line 1 of the description"]);
}

/// A damaged file of the volume's directory costs what was in it, and so does a pipe.
#[test]
fn pipes_in_the_directory_of_a_volume_do_not_keep_a_server_waiting() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    fs::create_dir(dir.path("incoming")).unwrap();
    fs::copy(short_stream(), dir.path("incoming/film.ts")).unwrap();
    for name in ["incoming/film.en.srt", "incoming/other.ts"] {
        make_pipe(&dir.path(name));
    }
    let names = [
        "profile-0.toml",
        "profile-1.quick.toml",
        "profile-2.learnt.toml",
        "profile-3.toml",
        "sessions",
        "sessions.new",
        "removed.txt",
        "removed.new",
        "watched.txt",
        "watched.new",
        "volume.toml.new",
    ];
    for path in names.map(|name| dir.path("volume").join(name)) {
        let _ = fs::remove_file(&path);
        make_pipe(&path);
    }
    for command in [
        &["capacity", "volume", "--rate", "5M"][..],
        &["titles", "volume"],
        &["volume", "check", "volume"],
        &["remove", "volume", "short"],
    ] {
        dir.reel(command).done();
    }
    let arguments = ["serve", "volume", "--listen", "127.0.0.1:0", "--watch", "incoming"];
    let mut server = Running::start(&dir, &arguments);
    assert_eq!(server.get("/healthz").head.status, 200);
    assert_eq!(server.signal(Signal::TERM), Some(0));
    let said = server.said();
    let pipes = ["member 0: its profile cannot be read", "volume/sessions", "cannot read volume/watched.txt"];
    for words in pipes {
        let line =
            said.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {said}"));
        assert!(line.contains("it is not a regular file"), "{line}");
    }
    // The file that lists the members is written as well.
    fs::remove_file(dir.path("volume/member-3.reel")).unwrap();
    dir.reel(&["volume", "replace", "volume", "3", "volume/new"]).done();
}
