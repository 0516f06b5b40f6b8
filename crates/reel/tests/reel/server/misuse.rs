//! Clients and administrators that send forbidden requests, beside an admitted viewer that must not
//! be disturbed.

use crate::server::rig::{Answer, Client, Rig, head, patient};
use reel::server::ServeConfig;
use reel_http::faults::hold_text;
use reel_library::{IngestOptions, Input};
use reel_qos::DiskPrice;
use reel_volume::{Members, Volume, VolumeOptions};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A server on fast disks with admission, so that a request is refused only for its own fault.
fn promising() -> Rig {
    promising_with(64 << 20, 100, |_| {})
}

/// A server whose disks are measured.
pub(crate) fn promising_with(
    arena_bytes: usize,
    sessions_max: usize,
    change: impl FnOnce(&mut ServeConfig),
) -> Rig {
    let mut rig = Rig::with_memory(arena_bytes, |config| {
        config.promise.admission = true;
        config.sessions_max = sessions_max;
        change(config);
    });
    rig.stop();
    let price = DiskPrice {
        read_request_ns: 100_000,
        read_mib_ns: 400_000,
        write_request_ns: 200_000,
        write_mib_ns: 800_000,
        independent_limits: false,
    };
    (0..5).for_each(|member| rig.library.volume().disks().set_price(member, price.into()));
    rig.start();
    rig
}

/// As [`beside_a_slow_viewer`], and no reservation may be withdrawn.
fn beside_a_viewer<T>(rig: &Rig, work: impl FnOnce() -> T) -> T {
    let result = beside_a_slow_viewer(rig, work);
    assert_eq!(rig.metric("reel_unpromised_total"), 0.0, "what was promised was taken back");
    result
}

/// Runs `work` beside an admitted viewer that reads the title in small pieces meanwhile, and the
/// rest of it afterwards. No byte of it may be wrong.
fn beside_a_slow_viewer<T>(rig: &Rig, work: impl FnOnce() -> T) -> T {
    let redirect = rig.connect().ask("GET /watch/film/film.mp4", "");
    assert_eq!(redirect.status, 307, "{}", redirect.head);
    let file = redirect.location().expect("a place to go");
    let done = AtomicBool::new(false);
    let mut viewer = rig.connect_narrow();
    viewer.send(head(&format!("GET {file}"), "").as_bytes());
    let answer = viewer.answer_head();
    assert_eq!(answer.status, 200);
    let bytes = answer.announced_bytes();
    assert_eq!(bytes, rig.film.len());
    let result = std::thread::scope(|scope| {
        let playing = scope.spawn(|| {
            let mut at = 0;
            while at < bytes {
                let piece = if done.load(Ordering::Acquire) { bytes - at } else { 512.min(bytes - at) };
                assert!(viewer.read(piece) == rig.film[at..at + piece], "wrong bytes at {at}");
                at += piece;
                if !done.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        done.store(true, Ordering::Release);
        playing.join().expect("the viewer is not disturbed");
        result
    });
    assert_eq!(rig.metric("reel_http_responses_cut_total"), 0.0);
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn client_of_pages(rig: &Rig, path: &str) -> Answer {
    rig.connect().ask(&format!("GET {path}"), "")
}

pub(crate) fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

fn send(rig: &Rig, request: &str, body: &str) -> (u16, Value) {
    let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let answer = rig.connect().ask_with(request, &fields, body);
    (answer.status, serde_json::from_slice(&answer.body).unwrap_or(Value::Null))
}

/// Runs a job to its end.
fn work(rig: &Rig, path: &str, body: &str) -> Value {
    let (status, job) = send(rig, &format!("POST /api/v1/volume/{path}"), body);
    assert_eq!(status, 202, "{job}");
    work_of(rig, &job)
}

/// A connection from another address of this machine.
fn connect_from(last: u8, rig: &Rig) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&socket, &SocketAddr::from(([127, 0, 0, last], 0))).expect("bound");
    connect(&socket, &rig.address()).expect("connected");
    patient(socket.into())
}

/// More sessions in a few seconds than the server has to bear in a minute.
#[test]
fn ten_thousand_sessions_opened_and_dropped_do_not_disturb_a_viewer() {
    // The reservations of 64 viewers that have not requested anything yet are a small part of a
    // server, and a large part of a small one.
    let rig = promising_with(512 << 20, 1000, |_| {});
    let open = head("GET /watch/film/master.m3u8", "");
    let (mut opened, mut refused) = (0, 0);
    beside_a_slow_viewer(&rig, || {
        for connection in 0..500 {
            let mut client = Client::on(connect_from(2, &rig));
            client.send(open.repeat(20).as_bytes());
            if connection % 10 != 0 {
                // Dropped with its answers under way.
                continue;
            }
            for _ in 0..20 {
                let answer = client.answer(false);
                match answer.status {
                    307 => opened += 1,
                    429 => {
                        refused += 1;
                        let retry_after_s: u64 =
                            answer.field("Retry-After").expect("a time").parse().expect("a number");
                        assert!(retry_after_s > 0);
                        assert!(text(&answer).contains("\"detail\""), "{}", text(&answer));
                    }
                    other => panic!("{other}: {}", text(&answer)),
                }
            }
        }
        // A new client from another address is admitted.
        let session = rig.session();
        assert_eq!(rig.connect().ask(&format!("GET {session}0/1.m4s"), "").status, 200);
    });
    assert!(opened > 0 && refused > 0, "{opened} opened, {refused} refused");
    assert!(rig.metric("reel_sessions") <= 300.0, "one address has at most 256");
}

#[test]
fn guessed_and_ended_keys_give_no_access() {
    let rig = promising();
    let session = rig.session();
    let key = session.trim_start_matches("/s/").trim_end_matches('/').to_owned();
    beside_a_viewer(&rig, || {
        let first = key.as_bytes()[0];
        let changed = format!("{}{}", if first == b'0' { '1' } else { '0' }, &key[1..]);
        let guesses = [
            changed,
            "0".repeat(32),
            "f".repeat(32),
            key.to_uppercase() + "G",
            key[..31].to_owned(),
            format!("{key}0"),
            format!("{key}%00"),
            format!("%{:02x}{}", first, &key[1..]),
            "..".to_owned(),
            "*".to_owned(),
        ];
        let mut client = rig.connect();
        for guess in guesses.iter().chain((0..500).map(|n| format!("{n:032x}")).collect::<Vec<_>>().iter()) {
            let answer = client.ask(&format!("GET /s/{guess}/master.m3u8"), "");
            // An escaped key is the key itself, which is harmless. No other guess may succeed.
            if guess.starts_with('%') && answer.status == 200 {
                continue;
            }
            assert!([404, 410].contains(&answer.status), "{guess}: {}", answer.head);
            assert!(text(&answer).contains("\"detail\""), "{}", text(&answer));
        }
        // The list of sessions does not contain their keys.
        let listed = text(&client_of_pages(&rig, "/api/v1/sessions"))
            + &text(&client_of_pages(&rig, "/api/v1/dashboard"));
        assert!(listed.contains(&key[..4]) && !listed.contains(&key), "{listed}");
        let sessions = rig.metric("reel_sessions");
        let (status, _) = send(&rig, &format!("DELETE /api/v1/sessions/{}", "0".repeat(32)), "");
        assert_eq!((status, rig.metric("reel_sessions")), (404, sessions));
        // Two clients with the same key are one viewer, and both get right bytes.
        let segment = client.ask(&format!("GET {session}0/1.m4s"), "");
        let replayed = Client::on(connect_from(3, &rig)).ask(&format!("GET {session}0/1.m4s"), "");
        assert!(segment.status == 200 && replayed.body == segment.body);
        assert_eq!(rig.metric("reel_sessions"), sessions);
        // A key is useless after the session's end.
        assert_eq!(send(&rig, &format!("DELETE /api/v1/sessions/{key}"), "").0, 204);
        let gone = rig.connect().ask(&format!("GET {session}0/1.m4s"), "");
        assert_eq!(gone.status, 410);
        assert!(text(&gone).contains("open the title again with /watch/"), "{}", text(&gone));
    });
}

#[test]
fn quotas_that_do_not_add_up_are_refused_and_nothing_changes() {
    let rig = promising();
    let class =
        |name: &str, kind: &str, share: i64| json!({ "name": name, "kind": kind, "share_permille": share });
    let (periodic, interactive) =
        (class("periodic", "periodic", 700), class("interactive", "interactive", 150));
    let aperiodic = class("aperiodic", "aperiodic", 150);
    let before = rig.connect().ask("GET /api/v1/classes", "").body;
    beside_a_viewer(&rig, || {
        for (wrong, word) in [
            (json!([periodic, interactive, class("aperiodic", "aperiodic", 151)]), "1001"),
            (json!([periodic, interactive]), "aperiodic"),
            (json!([periodic, interactive, class("aperiodic", "aperiodic", 149)]), "999"),
            (json!([class("periodic", "periodic", 4_000_000_000), interactive, aperiodic]), ""),
            (json!([class("periodic", "periodic", -1), interactive, aperiodic]), ""),
            (
                json!([
                    class("periodic", "periodic", 0),
                    class("interactive", "interactive", 850),
                    aperiodic
                ]),
                "",
            ),
            (json!([periodic, periodic, interactive, aperiodic]), ""),
            (json!([class("periodic", "royal", 700), interactive, aperiodic]), "royal"),
            (json!([class("", "periodic", 700), interactive, aperiodic]), ""),
            (json!([]), ""),
            (json!({ "periodic": 700 }), ""),
            (json!([class(&"x".repeat(10_000), "periodic", 700), interactive, aperiodic]), ""),
        ] {
            let (status, problem) = send(&rig, "PUT /api/v1/classes", &wrong.to_string());
            assert!((400..500).contains(&status), "{wrong}: {status} {problem}");
            let detail = problem["detail"].as_str().unwrap_or_else(|| panic!("no words: {problem}"));
            assert!(detail.contains(word), "no {word:?} in {detail}");
            assert_eq!(rig.connect().ask("GET /api/v1/classes", "").body, before, "{wrong}");
        }
    });
}

/// A film of this length with one picture every ten seconds.
fn long_film(rig: &Rig, length_s: u32) -> PathBuf {
    let path = rig.path("long.mp4");
    let source = format!("color=size=64x64:rate=1/10:duration={length_s}");
    let made = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", &source])
        .args(["-c:v", "libx264", "-preset", "ultrafast", "-g", "1", "-pix_fmt", "yuv420p"])
        .arg(&path)
        .status();
    assert!(made.expect("ffmpeg is installed").success());
    path
}

/// While a text of a long title is written, the only serve thread answers others.
#[test]
fn the_playlists_of_a_long_title_are_written_beside_the_serve_threads() {
    let rig = promising_with(64 << 20, 100, |config| config.serve_threads = 1);
    let path = long_film(&rig, 6000);
    let named = IngestOptions { name: Some("long".to_owned()), ..IngestOptions::default() };
    beside_a_viewer(&rig, || {
        rig.library.ingest(&[Input::new(path.clone())], &named, &mut |_| {}).expect("taken");
        let opened = rig.connect().ask("GET /watch/long/master.m3u8?class=aperiodic", "");
        let master = opened.location().expect("a session");
        let session = master.trim_end_matches("master.m3u8").to_owned();
        let held = hold_text(&format!("{session}0/media.m3u8"));
        std::thread::scope(|scope| {
            let asks = || rig.connect().ask(&format!("GET {session}0/media.m3u8"), "").status;
            let asking = scope.spawn(asks);
            while !held.is_waited_for() && !asking.is_finished() {
                std::thread::yield_now();
            }
            assert_eq!(rig.connect().ask("HEAD /files/film.mp4", "").status, 200);
            assert!(!asking.is_finished(), "the text was written by another thread than it should be");
            drop(held);
            assert_eq!(asking.join().expect("no panic"), 200);
        });
        let mut client = rig.connect();
        for (file, line, count) in [
            ("master.m3u8", "0/media.m3u8", 1),
            // The first two of 600 pictures are in one segment: until the second, the first may be
            // followed by a pause.
            ("0/media.m3u8", ".m4s", 599),
            ("0/iframes.m3u8", ".m4s", 599),
            ("manifest.mpd", "<Period", 1),
        ] {
            let head = client.ask(&format!("HEAD {session}{file}"), "");
            let first = client.ask(&format!("GET {session}{file}"), "");
            assert_eq!((head.status, first.status), (200, 200), "{file}: {}", text(&first));
            assert_eq!(text(&first).matches(line).count(), count, "{file}");
            let again = client.ask(&format!("GET {session}{file}"), "");
            assert_eq!(again.body, first.body, "{file}");
        }
        assert_eq!(client.ask(&format!("GET {session}7/media.m3u8"), "").status, 404);
    });
}

/// A day and an hour.
#[test]
fn a_title_that_is_too_long_to_reserve_is_refused_with_an_alternative() {
    let rig = promising();
    let path = long_film(&rig, 90000);
    let named = IngestOptions { name: Some("long".to_owned()), ..IngestOptions::default() };
    beside_a_viewer(&rig, || {
        rig.library.ingest(&[Input::new(path.clone())], &named, &mut |_| {}).expect("taken");
        for file in ["master.m3u8", "manifest.mpd", "long.mp4"] {
            let refused = rig.connect().ask(&format!("GET /watch/long/{file}"), "");
            assert_eq!(refused.status, 503, "{file}: {}", text(&refused));
            assert!(text(&refused).contains("?class=aperiodic"), "{}", text(&refused));
            assert!(text(&refused).contains("\"urn:reel:problem:too-long\""), "{}", text(&refused));
            assert_eq!(refused.field("Retry-After"), None, "it will not become shorter");
            let way_out = rig.connect().ask(&format!("GET /watch/long/{file}?class=aperiodic"), "");
            assert_eq!(way_out.status, 307, "{}", text(&way_out));
        }
        let (status, problem) = send(&rig, "POST /api/v1/sessions", r#"{"title":"long"}"#);
        assert_eq!((status, problem["type"].as_str()), (503, Some("urn:reel:problem:too-long")), "{problem}");
        assert!(problem["help"].as_str().is_some_and(|help| help.contains("?class=aperiodic")), "{problem}");
    });
    // The title is still available for clients that need no reservation.
    assert_eq!(rig.connect().ask("HEAD /files/long.mp4", "").status, 200);
}

#[test]
fn a_smaller_replacement_and_the_wrong_member_are_refused_and_nothing_is_overwritten() {
    let mut rig = promising();
    let volume = |rig: &Rig| -> Value {
        serde_json::from_slice(&rig.connect().ask("GET /api/v1/volume", "").body).expect("JSON")
    };
    let before = volume(&rig);
    // Another volume's disk, and a disk that is too small.
    let other = rig.path("other");
    let options = VolumeOptions {
        members: Members::Count(3),
        size_bytes: 64 << 20,
        catalogue_bytes: Some(64 << 10),
        ..VolumeOptions::default()
    };
    Volume::create(&other, options).expect("created");
    let foreign = std::fs::read_dir(&other)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.metadata().is_ok_and(|found| found.len() > 1 << 20))
        .min()
        .expect("a member of it");
    let small = rig.path("small");
    std::fs::File::create(&small).and_then(|file| file.set_len(1 << 20)).expect("made");
    let foreign_before = std::fs::read(&foreign).expect("read");
    beside_a_viewer(&rig, || {
        let new = rig.path("new");
        for (member, path, words) in [
            (1, &new, "in use and healthy; stop the server and use `reel volume replace --replace-healthy`"),
            (1, &foreign, ""),
            (1, &small, ""),
            (99, &new, "99"),
        ] {
            let body = json!({ "member": member, "path": path }).to_string();
            let (status, job) = send(&rig, "POST /api/v1/volume/replace", &body);
            let reported = if status == 202 {
                let job = work_of(&rig, &job);
                assert_eq!(job["state"], "failed", "{job}");
                job["error"].as_str().expect("words").to_owned()
            } else {
                assert!((400..500).contains(&status), "{status} {job}");
                job["detail"].as_str().expect("words").to_owned()
            };
            assert!(reported.contains(words), "no {words:?} in {reported}");
        }
    });
    assert!(std::fs::read(&foreign).expect("read") == foreign_before, "another volume was written to");
    assert_eq!(volume(&rig), before);

    // One member is really lost, and the replacement is too small. The loss stays, and nothing else
    // is lost.
    rig.faults.inject(2, reel_disk::Fault::Vanish);
    // A new server has nothing in memory, so it reads from the members and notices the loss.
    rig.stop();
    rig.start();
    assert!(rig.connect().ask("GET /files/film.mp4", "").body == rig.film);
    beside_a_viewer(&rig, || {
        for (member, path, words) in [
            (2, &small, "use a larger disk"),
            (2, &foreign, "stop the server and use `reel volume replace --overwrite-volume`"),
            (3, &rig.path("new"), "member 2 cannot be read either"),
        ] {
            let job = work(&rig, "replace", &json!({ "member": member, "path": path }).to_string());
            assert_eq!(job["state"], "failed", "{job}");
            let reported = job["error"].as_str().expect("words");
            assert!(reported.contains(words), "no {words:?} in {reported}");
        }
    });
    assert!(std::fs::read(&foreign).expect("read") == foreign_before, "another volume was written to");
    rig.faults.clear(2);
    let job = work(&rig, "replace", &json!({ "member": 2, "path": rig.path("volume/new") }).to_string());
    assert_eq!(job["state"], "done", "{job}");
    rig.faults.inject(4, reel_disk::Fault::Vanish);
    rig.stop();
    rig.start();
    assert!(rig.connect().ask("GET /files/film.mp4", "").body == rig.film, "it protects again");
}

fn work_of(rig: &Rig, job: &Value) -> Value {
    let (begun, id) = (Instant::now(), job["id"].as_str().expect("an id"));
    loop {
        let job = rig.connect().ask(&format!("GET /api/v1/jobs/{id}"), "");
        let job: Value = serde_json::from_slice(&job.body).expect("JSON");
        if job["state"] != "running" {
            return job;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Peers that send false acknowledgements: for a segment that was never sent, a window that never
/// opens, and a reset in the middle.
#[test]
fn clients_that_never_read_or_are_cut_off_do_not_disturb_others() {
    let rig = promising();
    beside_a_viewer(&rig, || {
        let mut silent = Vec::new();
        for number in 0..24 {
            let mut client = rig.connect_narrow();
            client.send(head("GET /files/film.mp4", "").as_bytes());
            if number % 2 == 0 {
                silent.push(client);
            }
        }
        for _ in 0..5 {
            assert!(rig.connect().ask("GET /files/film.mp4", "").body == rig.film);
        }
    });
    rig.await_metric("reel_http_connections", |open| open == 0.0);
    rig.await_metric("reel_buffers_reserved", |reserved| reserved == 0.0);
}
