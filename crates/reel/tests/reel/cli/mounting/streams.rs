//! Streams that are controlled as files.

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use reel_testkit::run_in_own_mounts;
use rustix::io::Errno;

use super::rig::{Mount, serving};
use crate::cli::rig::PATIENCE;
use crate::cli::serving::Running;

#[test]
fn three_shells_control_a_stream() {
    run_in_own_mounts("cli::mounting::streams::three_shells");
}

#[test]
fn the_data_of_a_stream_are_the_bytes_of_its_title_while_it_is_admitted() {
    run_in_own_mounts("cli::mounting::streams::data");
}

#[test]
fn what_cannot_be_done_with_a_stream_has_its_number_and_its_reason() {
    run_in_own_mounts("cli::mounting::streams::errors");
}

#[test]
fn what_the_server_refuses_now_and_what_it_always_would_are_told_apart() {
    run_in_own_mounts("cli::mounting::streams::refusals");
}

#[test]
fn ten_thousand_streams_are_refused_and_harm_nothing() {
    run_in_own_mounts("cli::mounting::streams::many");
}

/// What a script prints about a stream, in the tree as current directory.
const SCRIPT: &str = r#"
set -u
n=$(cat streams/clone); s=streams/$n
cat $s/state $s/class $s/title $s/error
echo der-film > $s/title; echo periodic > $s/class; echo 5M > $s/rate
echo start > $s/ctl || cat $s/error; cat $s/state
cat $s/title $s/class $s/rate $s/position $s/error $s/refusal
(echo 2 > $s/position) 2>/dev/null || cat $s/error
echo pause > $s/ctl; cat $s/state
printf 'seek 5' >> $s/ctl; test "$(cat $s/position)" != 0 && echo moved
(echo stop > $s/ctl) 2>/dev/null || cat $s/error
(printf 'start\npause\n' | dd of=$s/ctl bs=1M) 2>/dev/null || cat $s/error
(dd if=/dev/zero of=$s/title bs=1M count=1) 2>/dev/null || cat $s/error
echo start > $s/ctl; cat $s/state; cat $s/error
echo close > $s/ctl; test -e $s || echo gone
"#;

const SAID: &str = "\
new
periodic


playing
der-film
periodic
5000000
0


the stream is playing; settings are written before start
paused
moved
\"stop\" is no command; there are start, pause, seek SECONDS, join DEST, split, merge NUMBER and close
write one line at a time; nothing was done
a line has at most 4096 bytes
playing

gone
";

#[test]
#[ignore = "child of three_shells_control_a_stream, with mounts of its own"]
fn three_shells() {
    let (dir, server) = serving();
    let mount = Mount::of(&dir, &server);
    mount.assert_three_shells_say(SCRIPT, SAID);
}

/// A stream of the first film, which is not started.
pub(super) struct Stream<'a> {
    mount: &'a Mount,
    number: String,
}

impl<'a> Stream<'a> {
    pub(super) fn of(mount: &'a Mount) -> Stream<'a> {
        let number = mount.text("streams/clone").unwrap().trim_end().to_owned();
        let stream = Stream { mount, number };
        stream.write("title", "der-film").unwrap();
        stream
    }

    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.mount.path().join("streams").join(&self.number).join(file)
    }

    pub(super) fn write(&self, file: &str, line: &str) -> Result<(), i32> {
        fs::write(self.path(file), line).map_err(|error| error.raw_os_error().expect("of the kernel"))
    }

    /// The line of a file, without its end.
    pub(super) fn line(&self, file: &str) -> String {
        let text = self.mount.text(&format!("streams/{}/{file}", self.number)).unwrap();
        text.strip_suffix('\n').expect("a line").to_owned()
    }

    /// Waits until a file has this line.
    pub(super) fn await_line(&self, file: &str, line: &str) {
        self.mount.await_that(&format!("streams/{}/{file}", self.number), |text| text.trim_end() == line);
    }
}

/// The sessions of a server, as its dashboard shows them.
pub(super) fn sessions(server: &Running) -> Vec<serde_json::Value> {
    let dashboard: serde_json::Value = serde_json::from_str(&server.text("/api/v1/dashboard")).unwrap();
    dashboard["sessions"].as_array().expect("a list").clone()
}

/// Waits until a server has no session.
pub(super) fn await_no_session(server: &Running) {
    await_sessions(server, 0);
}

pub(super) fn await_sessions(server: &Running, count: usize) {
    let begun = Instant::now();
    while sessions(server).len() != count {
        assert!(begun.elapsed() < PATIENCE, "{:?}", sessions(server));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The next bytes of a stream: a read that is to be repeated is.
pub(super) fn read_some(data: &mut fs::File, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match data.read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[test]
#[ignore = "child of the_data_of_a_stream_are_the_bytes_of_its_title_while_it_is_admitted, with mounts of its own"]
fn data() {
    let (dir, server) = serving();
    let mount = Mount::of(&dir, &server);
    let film = server.get("/files/der-film.mp4").body;
    // `cat` opens it, which admits it.
    let stream = Stream::of(&mount);
    let mut cat = Command::new("cat").arg(stream.path("data")).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = cat.stdout.take().unwrap();
    let mut copy = vec![0; 1000];
    out.read_exact(&mut copy).unwrap();
    assert_eq!(stream.line("state"), "playing");
    let admitted = sessions(&server);
    let shown = (&admitted[0]["title"], &admitted[0]["class"], &admitted[0]["reserved"]);
    assert_eq!((admitted.len(), shown), (1, (&"der-film".into(), &"periodic".into(), &true.into())));
    assert_ne!(stream.line("rate"), "", "that of the title");
    out.read_to_end(&mut copy).unwrap();
    assert!(cat.wait().unwrap().success());
    assert!(copy == film, "{} and {} bytes", copy.len(), film.len());
    assert_eq!(stream.line("state"), "ended");
    await_no_session(&server);
    // Again, from a position on, at another rate, a few bytes at a time, by two readers one after
    // the other.
    stream.write("position", "4").unwrap();
    stream.write("rate", "80M").unwrap();
    stream.write("ctl", "start").unwrap();
    let mut copy = Vec::new();
    let mut piece = [0; 777];
    for reader in 0..2 {
        let mut data = fs::File::open(stream.path("data")).unwrap();
        assert_eq!(fs::File::open(stream.path("data")).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        loop {
            let bytes = read_some(&mut data, &mut piece).unwrap();
            copy.extend_from_slice(&piece[..bytes]);
            if bytes == 0 || (reader == 0 && copy.len() > 20_000) {
                break;
            }
        }
        drop(data);
        if reader == 0 {
            stream.await_line("state", "paused");
            await_no_session(&server);
        }
    }
    assert!(film.ends_with(&copy) && copy.len() < film.len() / 2, "{} bytes", copy.len());
    stream.await_line("state", "ended");
    await_no_session(&server);
}

#[test]
#[ignore = "child of what_cannot_be_done_with_a_stream_has_its_number_and_its_reason, with mounts of its own"]
fn errors() {
    let (dir, server) = serving();
    let mount = Mount::of(&dir, &server);
    let stream = Stream::of(&mount);
    let number = |errno: Errno| Err(errno.raw_os_error());
    for (file, line, errno, reason) in [
        ("title", "none", Errno::NOENT, "there is no title \"none\""),
        ("title", "a/b", Errno::INVAL, "that is no id of a title"),
        ("class", "gold", Errno::INVAL, "there is no class \"gold\""),
        ("rate", "fast", Errno::INVAL, "\"fast\" is no rate"),
        ("position", "-1", Errno::INVAL, "\"-1\" is no position"),
        ("ctl", "pause", Errno::BUSY, "the stream is new"),
        ("ctl", "seek 1", Errno::BUSY, "the stream is new; write `position`"),
        ("ctl", "merge 2", Errno::NOENT, "there is no stream 2"),
        ("title", "der-film+none", Errno::NOENT, "there is no title \"none\""),
        ("title", "der-film+der-film", Errno::INVAL, "both parts are the same title"),
        ("ctl", "start\nstart\n", Errno::INVAL, "write one line at a time"),
        ("ctl", &"x".repeat(4097), Errno::INVAL, "a line has at most 4096 bytes"),
    ] {
        assert_eq!(stream.write(file, line), number(errno), "{file} {line:.20}");
        let error = stream.line("error");
        assert!(error.contains(reason), "{file} {line:.20}: {error}");
    }
    assert_eq!(stream.line("title"), "der-film");
    // What can never be in time, and what is behind the end.
    stream.write("rate", "1k").unwrap();
    assert_eq!(stream.line("error"), "", "of what was done well");
    assert_eq!(stream.write("ctl", "start"), number(Errno::DQUOT));
    assert!(stream.line("error").contains("so 1000 can never be in time"), "{}", stream.line("error"));
    stream.write("rate", "5M").unwrap();
    stream.write("position", "100").unwrap();
    assert_eq!(stream.write("ctl", "start"), number(Errno::INVAL));
    let opened = fs::File::open(stream.path("data")).unwrap_err();
    assert_eq!(opened.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
    stream.write("position", "0").unwrap();
    stream.write("ctl", "start").unwrap();
    assert_eq!(stream.write("ctl", "start"), number(Errno::BUSY));
    assert_eq!(stream.write("ctl", "seek 100"), number(Errno::INVAL));
    // What is read cannot be written, and the other way round.
    for file in ["state", "error", "refusal", "data"] {
        assert_eq!(stream.write(file, "x"), number(Errno::ACCESS), "{file}");
    }
    let text = |path: &str| mount.text(path).map(drop);
    assert_eq!(text(&format!("streams/{}/ctl", stream.number)), number(Errno::ACCESS));
    let errno = |result: io::Result<()>| result.unwrap_err().kind();
    assert_eq!(errno(fs::write(stream.path("new"), "x")), io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(errno(fs::write(mount.path().join("streams/clone"), "x")), io::ErrorKind::ReadOnlyFilesystem);
    let directory = mount.path().join("streams").join(&stream.number);
    assert_eq!(errno(fs::remove_dir(directory)), io::ErrorKind::ReadOnlyFilesystem);
    stream.write("ctl", "close").unwrap();
    assert_eq!(text(&format!("streams/{}/state", stream.number)), number(Errno::NOENT));
    assert_eq!(text("streams/01/state"), number(Errno::NOENT));
    await_no_session(&server);
}

#[test]
#[ignore = "child of ten_thousand_streams_are_refused_and_harm_nothing, with mounts of its own"]
fn many() {
    let (dir, server) = serving();
    let mount = Mount::of(&dir, &server);
    let results: Vec<_> = (0..10_000).map(|_| mount.text("streams/clone")).collect();
    let made = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(made, 64);
    assert!(results[64..].iter().all(|result| *result == Err(Errno::NOSPC.raw_os_error())));
    assert_eq!(fs::read_dir(mount.path().join("streams")).unwrap().count(), 65);
    assert!(mount.text("capacity").is_ok() && sessions(&server).is_empty());
    // There is room again.
    fs::write(mount.path().join("streams/7/ctl"), "close").unwrap();
    assert_eq!(mount.text("streams/clone").as_deref(), Ok("65\n"));
}

/// Waits until the sessions of a server have these classes.
fn await_classes(server: &Running, wanted: &[&str]) {
    let begun = Instant::now();
    loop {
        let sessions = sessions(server);
        let mut classes: Vec<_> = sessions.iter().filter_map(|session| session["class"].as_str()).collect();
        classes.sort();
        if classes == wanted {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{classes:?} instead of {wanted:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a stream, and has another one refused what it wants beside it. What a stream that is not
/// read has reserved is free after some seconds, so on a slow machine it is tried again.
fn refused_beside(started: &Stream<'_>, refused: &Stream<'_>, want: (&str, &str), undo: (&str, &str)) {
    let begun = Instant::now();
    loop {
        let _ = started.write("ctl", "pause");
        // It may have to wait for the end of the session of the other one.
        if started.write("ctl", "start").is_ok() {
            match refused.write(want.0, want.1) {
                Err(number) => return assert_eq!(number, Errno::AGAIN.raw_os_error()),
                Ok(()) => refused.write(undo.0, undo.1).unwrap(),
            }
        }
        assert!(begun.elapsed() < PATIENCE, "it is not refused");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The film needs 0.47 MB in its first second.
#[test]
#[ignore = "child of what_the_server_refuses_now_and_what_it_always_would_are_told_apart, with mounts of its own"]
fn refusals() {
    let (dir, mut server) = serving();
    let start = |network: &str| {
        let promise = format!(
            "[promise]\nnetwork_bps = \"{network}\"\nstart_wait_s = 0\nclient_share_permille = 1000\n"
        );
        fs::write(dir.path("reel.toml"), format!("arena_bytes = \"128M\"\n{promise}")).unwrap();
        Running::start(&dir, &["serve", "volume", "--config", "reel.toml", "--listen", "127.0.0.1:0"])
    };
    server.signal(rustix::process::Signal::TERM);
    let mut server = start("4800k");
    let mount = Mount::of(&dir, &server);
    let (first, second) = (Stream::of(&mount), Stream::of(&mount));
    refused_beside(&first, &second, ("ctl", "start"), ("ctl", "pause"));
    assert_eq!(second.line("state"), "refused");
    assert!(second.line("error").contains("the network is fully reserved"), "{}", second.line("error"));
    let refusal: serde_json::Value = serde_json::from_str(&second.line("refusal")).unwrap();
    assert_eq!((&refusal["status"], &refusal["resource"]), (&503.into(), &"network".into()), "{refusal}");
    assert!(refusal["never"].is_null() && refusal["retry_after_s"].is_u64(), "{refusal}");
    // What needs nothing of the sort is taken, and so is the second one when the first has paused.
    second.write("class", "aperiodic").unwrap();
    second.write("ctl", "start").unwrap();
    assert_eq!(second.line("refusal"), "");
    // The class of one that plays changes if there is room for it, and otherwise stays.
    refused_beside(&first, &second, ("class", "periodic"), ("class", "aperiodic"));
    assert_eq!((second.line("state"), second.line("class")), ("playing".to_owned(), "aperiodic".to_owned()));
    assert!(second.line("refusal").contains("\"status\":503"), "{}", second.line("refusal"));
    first.write("class", "aperiodic").unwrap();
    await_classes(&server, &["aperiodic", "aperiodic"]);
    second.write("class", "periodic").unwrap();
    await_classes(&server, &["aperiodic", "periodic"]);
    second.write("ctl", "close").unwrap();
    await_classes(&server, &["aperiodic"]);
    first.write("class", "periodic").unwrap();
    first.write("ctl", "pause").unwrap();
    await_no_session(&server);
    let third = Stream::of(&mount);
    refused_beside(&third, &first, ("ctl", "start"), ("ctl", "pause"));
    mount.signal(rustix::process::Signal::TERM).done();
    server.signal(rustix::process::Signal::TERM);
    // A network that is too small for one.
    let server = start("600k");
    let mount = Mount::of(&dir, &server);
    let stream = Stream::of(&mount);
    assert_eq!(stream.write("ctl", "start"), Err(Errno::DQUOT.raw_os_error()));
    assert!(stream.line("refusal").contains("\"never\":true"), "{}", stream.line("refusal"));
    let opened = fs::File::open(stream.path("data")).unwrap_err();
    assert_eq!(opened.raw_os_error(), Some(Errno::DQUOT.raw_os_error()));
}
