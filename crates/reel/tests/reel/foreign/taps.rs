//! `reel tap` and the C example: a title read from a server's memory equals the source for ffmpeg.

use crate::foreign::films::FILMS;
use crate::foreign::frames::assert_same;
use crate::foreign::rig::{outcome, reel, run, start, volume};
use reel_compare::{Bounds, Server};
use reel_pour::{PourTerms, Pours, Read};
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

pub(crate) fn compiler() -> Option<&'static str> {
    ["cc", "gcc", "clang"].into_iter().find(|name| Command::new(name).arg("--version").output().is_ok())
}

/// An example in C as a program in this directory.
pub(crate) fn compiled(compiler: &str, name: &str, dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../reel-client/c/{name}.c"));
    let program = dir.join(name);
    let flags = ["-O2", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o"];
    run(Command::new(compiler).args(flags).arg(&program).arg(source));
    program
}

/// Waits for a line of the metrics page.
fn await_metric(server: &Server, line: &str) {
    let (begun, url) = (Instant::now(), format!("{}/metrics", server.url));
    while !run(Command::new("curl").args(["-sf", &url])).lines().any(|of_page| of_page == line) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{line} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
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
    let Some(compiler) = compiler() else { return println!("skipped: no C compiler") };
    let dir = tempfile::tempdir().unwrap();
    let (server, socket) = server(dir.path());
    let program = compiled(compiler, "tap", dir.path());
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
    let arguments = ["--hold", "1", "--then", "aperiodic", socket.to_str().unwrap(), film.id()];
    assert!(outcome(Command::new(&program).args(arguments)).stdout == whole, "a message at a time");
    let refused = outcome(Command::new(&program).arg(&socket).arg("nothing"));
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("there is no title nothing"));
}

/// Pictures and sound are read in step by the program in C: together they are the film.
#[test]
fn the_c_example_plays_pictures_and_sound_in_step() {
    let Some(compiler) = compiler() else { return println!("skipped: no C compiler") };
    let dir = tempfile::tempdir().unwrap();
    let (_server, socket) = server(dir.path());
    let program = compiled(compiler, "in_step", dir.path());
    let film = FILMS.iter().take(3).find(|film| film.video && film.audio == 1).expect("one with both");
    let [pictures, sound, both] = ["pictures.mp4", "sound.mp4", "both.mkv"].map(|name| dir.path().join(name));
    let stream = |track: &str, path: &Path| format!("{}#{track}={}", film.id(), path.display());
    let streams = [stream("video", &pictures), stream("audio", &sound)];
    let said = run(Command::new(&program).arg(&socket).arg("0").args(&streams));
    assert!(said.starts_with("at most "), "{said}");
    let merged = Command::new("ffmpeg")
        .args(["-nostdin", "-loglevel", "error", "-i"])
        .arg(&pictures)
        .arg("-i")
        .arg(&sound)
        .args(["-map", "0", "-map", "1", "-c", "copy"])
        .arg(&both)
        .status();
    assert!(merged.unwrap().success());
    let (source, both) = (film.path(), both.to_str().unwrap());
    assert_same(source.to_str().unwrap(), both, Bounds::FRAGMENTS, film.file);
    for (wrong, why) in [
        (stream("voice", &sound), "names no track"),
        (stream("text", &sound), "has no such track"),
        (format!("nothing={}", sound.display()), "there is no title nothing"),
    ] {
        let refused = outcome(Command::new(&program).arg(&socket).args(["0", &streams[0], &wrong]));
        assert!(!refused.status.success());
        assert!(String::from_utf8_lossy(&refused.stderr).contains(why), "{wrong}");
    }
    let late = outcome(Command::new(&program).arg(&socket).arg("100000").args(&streams));
    assert!(String::from_utf8_lossy(&late.stderr).contains("ends before that time"));
}

/// A film is read by one program in C and poured by another one; a player gets every byte.
#[test]
fn the_c_example_pours_what_another_one_reads() {
    let Some(compiler) = compiler() else { return println!("skipped: no C compiler") };
    let dir = tempfile::tempdir().unwrap();
    let (server, socket) = server(dir.path());
    let [tap, pour] = ["tap", "pour"].map(|name| compiled(compiler, name, dir.path()));
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
    await_metric(&server, "reel_pours 1");
    let url = format!("{}/live/studio", server.url);
    let played = dir.path().join("played");
    let mut player = Command::new("curl").args(["-sf", "-o"]).arg(&played).arg(&url).spawn().unwrap();
    await_metric(&server, "reel_pour_viewers 1");
    let mut input = pouring.stdin.take().unwrap();
    input.write_all(&tapped).unwrap();
    drop(input);
    assert!(pouring.wait().unwrap().success());
    assert!(player.wait().unwrap().success());
    let played = fs::read(played).unwrap();
    assert!(played == tapped, "{} of {} bytes", played.len(), tapped.len());
}

/// Hashes of pictures and of sound. How they are interleaved depends on seeking.
fn hashes(input: &str) -> [Vec<String>; 2] {
    let hashed = ["-nostdin", "-loglevel", "error", "-i", input, "-f", "framehash", "-hash", "md5", "-"];
    let hashed = String::from_utf8(outcome(Command::new("ffmpeg").args(hashed)).stdout).unwrap();
    ["0,", "1,"].map(|stream| {
        let of_stream = hashed.lines().filter(|line| line.starts_with(stream));
        of_stream.filter_map(|line| line.rsplit(' ').next()).map(str::to_owned).collect()
    })
}

/// ffmpeg makes a transport stream at the pace of its film, and another one decodes it from the
/// server while it comes: the same pictures and the same sound.
#[test]
fn ffmpeg_plays_what_ffmpeg_pours() {
    let dir = tempfile::tempdir().unwrap();
    let (server, socket) = server(dir.path());
    let made = dir.path().join("made.ts");
    let sources = ["-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=4", "-f", "lavfi", "-i", "sine=d=4"];
    let coded = ["-c:v", "libx264", "-g", "25", "-pix_fmt", "yuv420p", "-c:a", "aac", "-f", "mpegts"];
    run(Command::new("ffmpeg").args(["-loglevel", "error"]).args(sources).args(coded).arg(&made));
    let mut pour = reel()
        .args(["pour", "studio", "--rate", "40M", "--delay", "500ms", "--quiet", "--socket"])
        .arg(&socket)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    await_metric(&server, "reel_pours 1");
    let url = format!("{}/live/studio", server.url);
    let played = std::thread::scope(|scope| {
        let player = scope.spawn(|| hashes(&url));
        await_metric(&server, "reel_pour_viewers 1");
        let mut input = pour.stdin.take().unwrap();
        input.write_all(&fs::read(&made).unwrap()).unwrap();
        drop(input);
        assert!(pour.wait().unwrap().success());
        player.join().unwrap()
    });
    let expected = hashes(made.to_str().unwrap());
    assert!(expected[0].len() == 100 && expected[1].len() > 150, "4 s of pictures and of sound");
    assert_eq!(played, expected);
}

/// Fragmented MP4 that was poured for two seconds: a viewer that comes then plays what follows.
#[test]
fn ffmpeg_plays_fragments_that_were_poured_before_it_came() {
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("made.mp4");
    let sources = ["-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=4", "-f", "lavfi", "-i", "sine=d=4"];
    let coded = ["-c:v", "libx264", "-bf", "0", "-g", "25", "-pix_fmt", "yuv420p", "-c:a", "aac"];
    let fragmented = ["-movflags", "frag_keyframe+empty_moov+default_base_moof", "-f", "mp4"];
    let mut ffmpeg = Command::new("ffmpeg");
    run(ffmpeg.args(["-loglevel", "error"]).args(sources).args(coded).args(fragmented).arg(&made));
    let bytes = fs::read(&made).unwrap();
    let pours = Pours::default();
    let terms = PourTerms {
        bytes_per_s: 1_000_000,
        workahead_bytes: 1_000_000,
        delay_ns: 1_000_000_000,
        content_type: "video/mp4".to_owned(),
    };
    let mut writer = pours.begin("studio", terms, 0).unwrap();
    let (before, after) = bytes.split_at(bytes.len() / 2);
    before.chunks(5000).for_each(|message| writer.push(message.into(), 0));
    let now_ns = 60_000_000_000;
    let mut viewer = pours.view("studio", now_ns).unwrap();
    after.chunks(5000).for_each(|message| writer.push(message.into(), now_ns));
    writer.complete();
    let mut played = Vec::new();
    while let Read::Messages(messages, _) = viewer.read(64 << 10) {
        messages.iter().for_each(|message| played.extend_from_slice(message));
    }
    let late = dir.path().join("late.mp4");
    fs::write(&late, played).unwrap();
    let ([pictures, _], [all, _]) = (hashes(late.to_str().unwrap()), hashes(made.to_str().unwrap()));
    assert!(pictures.len() == 25 || pictures.len() == 50, "{} pictures of whole fragments", pictures.len());
    assert!(all.ends_with(&pictures));
}

/// Subtitles are burnt into a film between tap and pour: a player gets the pictures that ffmpeg
/// makes of the film itself.
#[test]
fn subtitles_are_burnt_in_between_tap_and_pour() {
    let dir = tempfile::tempdir().unwrap();
    let (server, socket) = server(dir.path());
    fs::write(dir.path().join("said.srt"), "1\n00:00:01,000 --> 00:00:02,000\nIt was a dark night.\n")
        .unwrap();
    let lossless =
        ["-c:v", "libx264", "-qp", "0", "-preset", "ultrafast", "-c:a", "aac", "-f", "mpegts", "-"];
    let ffmpeg = |input: &str, then: &[&str]| {
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.current_dir(dir.path()).args(["-loglevel", "error", "-i", input]).args(then);
        ffmpeg
    };
    let burnt = ["-vf", "subtitles=said.srt"];
    let mut filter = ffmpeg("-", &[&burnt[..], &lossless].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pour = reel()
        .args(["pour", "subtitled", "--rate", "400M", "--delay", "500ms", "--quiet", "--socket"])
        .arg(&socket)
        .stdin(filter.stdout.take().unwrap())
        .spawn()
        .unwrap();
    await_metric(&server, "reel_pours 1");
    let url = format!("{}/live/subtitled", server.url);
    let [played, _] = std::thread::scope(|scope| {
        let player = scope.spawn(|| hashes(&url));
        await_metric(&server, "reel_pour_viewers 1");
        // The command is gone then, and with it the test's own end of the pipe.
        let mut tap = reel()
            .args(["tap", FILMS[0].id(), "--class", "aperiodic", "--socket"])
            .arg(&socket)
            .stdout(filter.stdin.take().unwrap())
            .spawn()
            .unwrap();
        for program in [&mut tap, &mut filter, &mut pour] {
            assert!(program.wait().unwrap().success());
        }
        player.join().unwrap()
    });
    let film = FILMS[0].path();
    let of_film = |filter: &[&str]| {
        let made = outcome(&mut ffmpeg(film.to_str().unwrap(), &[filter, &lossless].concat())).stdout;
        fs::write(dir.path().join("made.ts"), made).unwrap();
        let [pictures, _] = hashes(dir.path().join("made.ts").to_str().unwrap());
        pictures
    };
    let (with, without) = (of_film(&burnt), of_film(&[]));
    assert!(played == with, "{} and {} pictures", played.len(), with.len());
    let differ = with.iter().zip(&without).filter(|(with, without)| with != without).count();
    assert!((15..=35).contains(&differ), "{differ} pictures of a second have a subtitle");
}
