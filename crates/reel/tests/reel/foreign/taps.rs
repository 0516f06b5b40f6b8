//! `reel tap` and the C example: a title read from a server's memory equals the source for ffmpeg.

use crate::foreign::films::FILMS;
use crate::foreign::frames::assert_same;
use crate::foreign::rig::{outcome, reel, run, start, volume};
use reel_compare::{Bounds, Server};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A server with a few films and a socket for programs, whose path must be short.
fn server(dir: &Path) -> (Server, PathBuf) {
    let films: Vec<_> = FILMS.iter().take(3).map(|film| film.path()).collect();
    let socket = dir.join("reel.sock");
    let server = start(&volume(dir, &films), &["--programs-socket", socket.to_str().unwrap()]);
    (server, socket)
}

#[test]
fn ffmpeg_reads_from_reel_tap() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, socket) = server(dir.path());
    for film in FILMS.iter().take(3) {
        // ffmpeg copies the pipe's content without decoding, so nothing else is between the two.
        let copied = dir.path().join(format!("{}.mkv", film.id()));
        let mut tap = reel()
            .arg("tap")
            .arg(film.id())
            .arg("--socket")
            .arg(&socket)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let status = Command::new("ffmpeg")
            .args(["-nostdin", "-loglevel", "error", "-i", "-", "-map", "0:v?", "-map", "0:a?", "-c", "copy"])
            .arg(&copied)
            .stdin(tap.stdout.take().unwrap())
            .status()
            .unwrap();
        assert!(status.success() && tap.wait().unwrap().success(), "{}", film.file);
        let (source, copied) = (film.path(), copied.to_str().unwrap());
        // Matroska states neither the warm-up nor the end of sound to a sample.
        assert_same(source.to_str().unwrap(), copied, Bounds::FRAGMENTS, film.file);
    }
}

#[test]
fn the_c_example_reads_a_set_of_titles() {
    let Some(compiler) =
        ["cc", "gcc", "clang"].into_iter().find(|name| Command::new(name).arg("--version").output().is_ok())
    else {
        return println!("skipped: no C compiler");
    };
    let dir = tempfile::tempdir().unwrap();
    let (server, socket) = server(dir.path());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reel-client/c/tap.c");
    let program = dir.path().join("tap");
    let flags = ["-O2", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o"];
    run(Command::new(compiler).args(flags).arg(&program).arg(&source));
    let out = |id: &str| dir.path().join(format!("{id}-c.mp4"));
    let mut command = Command::new(&program);
    command.arg(&socket);
    for film in FILMS.iter().take(3) {
        command.arg(format!("{}={}", film.id(), out(film.id()).display()));
    }
    run(&mut command);
    for film in FILMS.iter().take(3) {
        let served = dir.path().join("served.mp4");
        let url = format!("{}/watch/{1}/{1}.mp4", server.url, film.id());
        run(Command::new("curl").args(["-sfL", "-o"]).arg(&served).arg(url));
        assert!(fs::read(&served).unwrap() == fs::read(out(film.id())).unwrap(), "{}", film.file);
        let kinds = run(Command::new("ffprobe")
            .args(["-loglevel", "error", "-show_entries", "stream=codec_type", "-of", "csv=p=0"])
            .arg(out(film.id())));
        assert_eq!(kinds.lines().filter(|line| line.contains("video")).count(), usize::from(film.video));
        assert_eq!(kinds.lines().filter(|line| line.contains("audio")).count(), film.audio);
    }
    let film = &FILMS[0];
    let whole = fs::read(out(film.id())).unwrap();
    for (then, said) in [("aperiodic", ""), ("royal", "keeps its class: there is no class royal")] {
        let arguments = ["--then", then, socket.to_str().unwrap(), film.id()];
        let tapped = outcome(Command::new(&program).args(arguments));
        assert!(tapped.status.success() && tapped.stdout == whole, "{then}");
        assert!(String::from_utf8_lossy(&tapped.stderr).contains(said), "{then}");
    }
    let refused = outcome(Command::new(&program).arg(&socket).arg("nothing"));
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("there is no title nothing"));
}

/// A film is read by one program in C and poured by another one; a player gets every byte.
#[test]
fn the_c_example_pours_what_another_one_reads() {
    let Some(compiler) =
        ["cc", "gcc", "clang"].into_iter().find(|name| Command::new(name).arg("--version").output().is_ok())
    else {
        return println!("skipped: no C compiler");
    };
    let dir = tempfile::tempdir().unwrap();
    let (server, socket) = server(dir.path());
    let flags = ["-O2", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o"];
    let [tap, pour] = ["tap", "pour"].map(|name| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../reel-client/c/{name}.c"));
        run(Command::new(compiler).args(flags).arg(dir.path().join(name)).arg(source));
        dir.path().join(name)
    });
    let film = FILMS[0].id();
    let tapped = outcome(Command::new(&tap).args([socket.as_os_str(), film.as_ref()])).stdout;
    let socket = socket.to_str().unwrap();
    let refused = outcome(Command::new(&pour).args([socket, "Studio", "5000000", "video/mp4"]));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot be the name of a poured stream"));
    let mut pouring = Command::new(&pour)
        .args([socket, "studio", "160000000", "video/mp4"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let metric = |line: &str| {
        let begun = Instant::now();
        let url = format!("{}/metrics", server.url);
        while !run(Command::new("curl").args(["-sf", &url])).lines().any(|of_page| of_page == line) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{line} does not come");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    metric("reel_pours 1");
    let url = format!("{}/live/studio", server.url);
    let played = dir.path().join("played");
    let mut player = Command::new("curl").args(["-sf", "-o"]).arg(&played).arg(&url).spawn().unwrap();
    metric("reel_pour_viewers 1");
    let mut input = pouring.stdin.take().unwrap();
    input.write_all(&tapped).unwrap();
    drop(input);
    assert!(pouring.wait().unwrap().success());
    assert!(player.wait().unwrap().success());
    let played = fs::read(played).unwrap();
    assert!(played == tapped, "{} of {} bytes", played.len(), tapped.len());
}
