//! Writes of too much at once, cuts, offsets, and several writers of one file.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::{Duration, Instant};

use reel_testkit::run_in_own_mounts;
use rustix::io::Errno;

use super::joins::joining;
use super::rig::{Mount, serving};
use super::streams::{Stream, await_no_session, read_some};
use crate::cli::rig::{PATIENCE, TestDir};

#[test]
fn large_writes_and_cuts_change_nothing() {
    run_in_own_mounts("cli::mounting::odd_writes::large");
}

#[test]
fn offsets_have_no_effect_on_lines_and_data_have_none() {
    run_in_own_mounts("cli::mounting::odd_writes::offsets");
}

#[test]
fn two_writers_of_a_stream_leave_it_right() {
    run_in_own_mounts("cli::mounting::odd_writes::two_of_ctl");
}

#[test]
fn two_writers_of_a_destination_leave_it_right() {
    run_in_own_mounts("cli::mounting::odd_writes::two_of_dest");
}

/// More than the kernel hands over at once.
const LARGE_BYTES: usize = 1 << 20;

#[test]
#[ignore = "child of large_writes_and_cuts_change_nothing, with mounts of its own"]
fn large() {
    let (dir, server) = joining();
    let mount = Mount::of(&dir, &server);
    let (new, joined) = (Stream::of(&mount), Stream::of(&mount));
    for (file, line) in [("class", "aperiodic"), ("rate", "5M"), ("position", "2.5")] {
        new.write(file, line).unwrap();
    }
    joined.write("ctl", "join file:first.mp4").unwrap();
    joined.write("ctl", "split").unwrap();
    let settings = ["title", "class", "rate", "position"].map(|file| (&new, file));
    let dests = ["out/0/dest", "out/1/dest"].map(|file| (&joined, file));
    let readable: Vec<_> = settings.into_iter().chain(dests).collect();
    let ctls = [(&new, "ctl"), (&joined, "ctl")];
    let written: Vec<_> = readable.iter().copied().chain(ctls).collect();
    let values = || -> Vec<String> {
        let states = [(&new, "state"), (&joined, "state")];
        // That of the joined branch, too, whose bytes come meanwhile.
        let shown = readable.iter().copied().chain(states).chain([(&joined, "out/0/state")]);
        shown.map(|(stream, file)| stream.line(file)).collect()
    };
    let before = values();
    assert_eq!(
        before,
        ["der-film", "aperiodic", "5000000", "2.5", "file:first.mp4", "", "new", "joined", "joined"]
    );
    for begin in ["", "periodic\n", "7M\n", "3\n", "start\n", "close\n", "file:second.mp4\n"] {
        let large = format!("{begin}{}", "\n".repeat(LARGE_BYTES - begin.len()));
        for (stream, file) in &written {
            assert_eq!(stream.write(file, &large), Err(Errno::INVAL.raw_os_error()), "{file}");
            assert!(stream.line("error").contains("at most 4096 bytes"), "{}", stream.line("error"));
        }
    }
    assert_eq!(values(), before);
    for (stream, file) in &written {
        let path = stream.path(file);
        for script in [": > \"$0\"", "truncate -s 100 \"$0\"", "truncate -s 0 \"$0\""] {
            let output = Command::new("sh").args(["-c", script]).arg(&path).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{file} {script}: {said}");
        }
        drop(fs::File::options().write(true).truncate(true).open(&path).unwrap());
    }
    assert_eq!(values(), before);
    joined.write("ctl", "close").unwrap();
    await_no_session(&server);
    await_no_part(&dir);
    assert_eq!(dir.names("joined"), [""; 0]);
}

#[test]
#[ignore = "child of offsets_have_no_effect_on_lines_and_data_have_none, with mounts of its own"]
fn offsets() {
    const FAR: u64 = 1 << 40;
    let (dir, server) = serving();
    let mount = Mount::of(&dir, &server);
    let film = server.get("/files/der-film.mp4").body;
    let stream = Stream::of(&mount);
    let rate = fs::File::options().write(true).open(stream.path("rate")).unwrap();
    for (line, offset, value) in [("7M\n", FAR, "7000000"), ("80M", 1, "80000000")] {
        assert_eq!(rate.write_at(line.as_bytes(), offset).unwrap(), line.len());
        assert_eq!(stream.line("rate"), value);
    }
    assert_eq!(rate.write_at(b"fast", FAR).unwrap_err().raw_os_error(), Some(Errno::INVAL.raw_os_error()));
    assert_eq!(stream.line("rate"), "80000000");
    // A text has the places of a file, and nothing behind its end.
    let state = fs::File::open(stream.path("state")).unwrap();
    let mut bytes = [0; 100];
    for (offset, part) in [(0, "new\n"), (2, "w\n"), (4, ""), (FAR, "")] {
        let read = state.read_at(&mut bytes, offset).unwrap();
        assert_eq!(&bytes[..read], part.as_bytes(), "at {offset}");
    }
    // `data` has no places, and continues where it was.
    let mut data = fs::File::open(stream.path("data")).unwrap();
    let none = Some(Errno::SPIPE.raw_os_error());
    let mut copy = vec![0; 1000];
    let some = read_some(&mut data, &mut copy).unwrap();
    copy.truncate(some);
    for offset in [0, 5, FAR] {
        assert_eq!(data.read_at(&mut bytes, offset).unwrap_err().raw_os_error(), none);
        assert_eq!(data.seek(SeekFrom::Start(offset)).unwrap_err().raw_os_error(), none);
    }
    let mut piece = [0; 1 << 16];
    loop {
        match read_some(&mut data, &mut piece).unwrap() {
            0 => break,
            some => copy.extend_from_slice(&piece[..some]),
        }
    }
    assert!(copy == film, "{} and {} bytes", copy.len(), film.len());
}

#[test]
#[ignore = "child of two_writers_of_a_stream_leave_it_right, with mounts of its own"]
fn two_of_ctl() {
    let (dir, server) = serving();
    let mount = Mount::of(&dir, &server);
    let film = server.get("/files/der-film.mp4").body;
    let stream = Stream::of(&mount);
    stream.write("rate", "80M").unwrap();
    // What one of them does has its turn, or is refused for what the other one has done.
    let refusals = [Errno::BUSY, Errno::AGAIN].map(Errno::raw_os_error);
    let done: Vec<usize> = std::thread::scope(|scope| {
        let write = || {
            let lines = (0..200).flat_map(|_| ["start", "pause"]);
            let results: Vec<_> = lines.map(|line| stream.write("ctl", line)).collect();
            let errors = results.iter().filter_map(|result| result.err());
            errors.for_each(|errno| assert!(refusals.contains(&errno), "{errno}"));
            results.iter().filter(|result| result.is_ok()).count()
        };
        let writers = [scope.spawn(write), scope.spawn(write)];
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert!(done.iter().sum::<usize>() > 0, "{done:?}");
    let state = stream.line("state");
    assert!(["playing", "paused", "refused"].contains(&&*state), "{state}");
    if state == "playing" {
        stream.write("ctl", "pause").unwrap();
    }
    await_no_session(&server);
    // It plays from its beginning, since it was never read.
    let mut copy = Vec::new();
    fs::File::open(stream.path("data")).unwrap().read_to_end(&mut copy).unwrap();
    assert!(copy == film, "{} and {} bytes", copy.len(), film.len());
    await_no_session(&server);
}

#[test]
#[ignore = "child of two_writers_of_a_destination_leave_it_right, with mounts of its own"]
fn two_of_dest() {
    let (dir, server) = joining();
    let mount = Mount::of(&dir, &server);
    let film = server.get("/files/der-film.mp4").body;
    let stream = Stream::of(&mount);
    stream.write("ctl", "join file:first").unwrap();
    let taken: Vec<String> = std::thread::scope(|scope| {
        let write = |writer: char| {
            let names = (0..20).map(move |number| format!("file:{writer}-{number}"));
            let is_taken = |dest: &String| match stream.write("out/0/dest", dest) {
                Ok(()) => true,
                // The other one is being written, or all has come.
                Err(errno) => {
                    assert_eq!(errno, Errno::BUSY.raw_os_error(), "{dest}: {}", stream.line("error"));
                    false
                }
            };
            names.filter(is_taken).collect::<Vec<_>>()
        };
        let writers = ['a', 'b'].map(|writer| scope.spawn(move || write(writer)));
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    let dest = stream.line("out/0/dest");
    // On a busy machine all may have come before the first of them was written.
    let is_first = taken.is_empty() && dest == "file:first";
    assert!(is_first || taken.contains(&dest), "{dest} of {taken:?}");
    stream.write("ctl", "close").unwrap();
    await_no_session(&server);
    await_no_part(&dir);
    assert_tiles(&dir, &film);
}

/// What is not complete is removed soon after the session has ended.
fn await_no_part(dir: &TestDir) {
    let begun = Instant::now();
    while dir.names("joined").iter().any(|name| name.starts_with('.')) {
        assert!(begun.elapsed() < PATIENCE, "a part is left: {:?}", dir.names("joined"));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The files that were completed have the bytes of the film, each one once.
fn assert_tiles(dir: &TestDir, film: &[u8]) {
    let names = dir.names("joined");
    let mut files: Vec<Vec<u8>> =
        names.iter().map(|name| fs::read(dir.path("joined").join(name)).unwrap()).collect();
    files.retain(|file| !file.is_empty());
    let mut rest = film;
    while !files.is_empty() {
        let next = files.iter().position(|file| rest.starts_with(file));
        let next = files.swap_remove(next.unwrap_or_else(|| panic!("other bytes: {names:?}")));
        rest = &rest[next.len()..];
    }
    assert!(rest.len() < film.len(), "nothing was written: {names:?}");
}
