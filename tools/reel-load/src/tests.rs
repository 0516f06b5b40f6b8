//! Fleets against a small server. What depends on time is tested in `player_laws`; here it is
//! counts, and times with much room.

mod server;

use super::{Arrivals, Hls, Outcome, Paced, Plan, Reading, Viewing, fleet::Fleet, run};
use server::{Answer, Server};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const MASTER: &str = "#EXTM3U\n\
    #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"s\",DEFAULT=YES,URI=\"1/media.m3u8\"\n\
    #EXT-X-STREAM-INF:BANDWIDTH=9000000,AUDIO=\"a\"\n0/media.m3u8\n";

/// Three segments of 0.2 s.
const MEDIA: &str = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXT-X-MAP:URI=\"init.mp4\"\n\
    #EXTINF:0.2,\n1.m4s\n#EXTINF:0.2,\n2.m4s\n#EXTINF:0.2,\n3.m4s\n#EXT-X-ENDLIST\n";

const INIT_BYTES: usize = 700;
const SEGMENT_BYTES: usize = 20_000;

/// A film like Reel serves it: `/watch/TITLE/master.m3u8` leads to `/s/KEY/...`.
fn film(path: &str) -> Answer {
    match path.rsplit('/').next().unwrap() {
        "master.m3u8" if path.starts_with("/watch/") => Answer::redirect("/s/key/master.m3u8"),
        "master.m3u8" => Answer::text(MASTER),
        "media.m3u8" => Answer::text(MEDIA),
        "init.mp4" => Answer::bytes(INIT_BYTES),
        name if name.ends_with(".m4s") => Answer::bytes(SEGMENT_BYTES),
        _ => Answer::status(404),
    }
}

/// Players that have the whole film before its picture moves: whatever this machine does meanwhile,
/// nothing can be late.
fn careful(server: &Server, viewers: usize) -> Plan {
    let mut plan = Plan::players(vec![server.url("/watch/film/master.m3u8")], viewers);
    plan.viewing = Viewing::Hls(Hls { startup: Duration::from_secs(10), ..Hls::default() });
    plan
}

fn played(plan: Plan) -> Outcome {
    run(plan).unwrap()
}

/// Longer than any test: what takes so long never comes.
const NEVER: Duration = Duration::from_secs(3600);

/// Plays without end, until a second after `told`.
fn played_until_told(mut plan: Plan, told: Receiver<()>) -> Outcome {
    plan.duration = Some(NEVER);
    let fleet = Fleet::start(plan).unwrap();
    let stopper = fleet.stopper();
    std::thread::spawn(move || {
        let _ = told.recv();
        std::thread::sleep(Duration::from_secs(1));
        stopper.stop();
    });
    fleet.wait(|_| {}).unwrap()
}

#[test]
fn players_play_films_to_their_end() {
    let server = Server::start(|request| film(&request.path));
    let outcome = played(careful(&server, 5));
    let viewers = &outcome.viewers;
    assert_eq!((viewers.came, viewers.sessions, viewers.admitted, viewers.started), (5, 5, 5, 5));
    assert_eq!((viewers.refused, viewers.failed, viewers.retries), (0, 0, 0), "{:?}", viewers.failures);
    assert_eq!((viewers.stalls, viewers.late_bytes, viewers.late_segments), (0, 0, 0));
    assert_eq!((viewers.segments, viewers.bytes), (30, 30 * SEGMENT_BYTES as u64));
    assert_eq!((viewers.played_s * 10.0).round(), 30.0);
    assert_eq!(viewers.startup_ms.count, 5);
    // Redirected once, then beside where the redirect led.
    assert_eq!(server.asked("/watch/film/master.m3u8"), 5);
    assert_eq!(server.asked("/s/key/0/init.mp4"), 5);
    assert_eq!(server.asked("/s/key/1/3.m4s"), 5);
    // One connection for pictures and one for sound.
    assert_eq!(server.connections(), 10);
    assert!(outcome.client.tick_late_ms.count > 0);
}

#[test]
fn a_segment_that_is_withheld_stalls_the_player_and_its_bytes_are_late() {
    let (release, released) = channel();
    let released = Mutex::new(released);
    let server = Server::start(move |request| {
        let answer = film(&request.path);
        if !request.path.ends_with("0/2.m4s") {
            return answer;
        }
        let _ = released.lock().unwrap().recv();
        answer.after(Duration::from_millis(1500))
    });
    let fleet = Fleet::start(Plan::players(vec![server.url("/s/key/master.m3u8")], 1)).unwrap();
    // It is withheld until the player has stalled, and for another 1.5 s.
    let outcome = fleet.wait(|now| {
        if now.stalled > 0 {
            let _ = release.send(());
        }
    });
    let outcome = outcome.unwrap();
    let viewers = &outcome.viewers;
    assert!(viewers.stalls >= 1 && viewers.stalled_s > 1.0, "{viewers:?}");
    assert!(viewers.late_bytes >= SEGMENT_BYTES as u64 && viewers.latest_s > 1.0, "{viewers:?}");
    assert!(viewers.first_late_s.is_some() && viewers.longest_stall_s <= viewers.stalled_s);
    assert_eq!((viewers.segments, viewers.failed), (6, 0));
}

#[test]
fn refusals_are_counted_with_their_reason_and_what_would_be_granted() {
    let admitted = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        if request.path.starts_with("/watch") && admitted.fetch_add(1, Ordering::SeqCst) >= 2 {
            return Answer::problem(
                r#"{"title":"Not admitted","resource":"disk","member":3,"grantable_rate_bps":1500000}"#,
            );
        }
        film(&request.path)
    });
    let outcome = played(careful(&server, 6));
    let viewers = &outcome.viewers;
    assert_eq!((viewers.came, viewers.admitted, viewers.refused, viewers.failed), (6, 2, 4, 0));
    let refusal = &viewers.refusals[0];
    assert_eq!((refusal.reason.as_str(), refusal.count), ("disk 3", 4));
    assert_eq!(refusal.grantable_bps, Some((1_500_000, 1_500_000)));
}

#[test]
fn a_viewer_that_was_refused_may_ask_again() {
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let first = request.path.starts_with("/watch") && asked.fetch_add(1, Ordering::SeqCst) == 0;
        if first { Answer::problem(r#"{"title":"Full","retry_after_s":1}"#) } else { film(&request.path) }
    });
    let mut plan = careful(&server, 1);
    let hls = Hls { retry: true, startup: Duration::from_secs(10), ..Hls::default() };
    plan.viewing = Viewing::Hls(hls);
    let viewers = played(plan).viewers;
    assert_eq!((viewers.came, viewers.sessions, viewers.refused, viewers.admitted), (1, 2, 1, 1));
}

#[test]
fn servers_of_all_manners_are_understood() {
    for behaviour in [Answer::chunked, Answer::closing, Answer::until_closed] {
        let server = Server::start(move |request| behaviour(film(&request.path)));
        let viewers = played(careful(&server, 2)).viewers;
        assert_eq!((viewers.failed, viewers.retries), (0, 0), "{:?}", viewers.failures);
        assert_eq!((viewers.segments, viewers.bytes), (12, 12 * SEGMENT_BYTES as u64));
    }
}

#[test]
fn a_body_that_breaks_off_is_asked_for_again() {
    let broken = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let answer = film(&request.path);
        let first = request.path.ends_with("0/2.m4s") && broken.fetch_add(1, Ordering::SeqCst) == 0;
        if first { answer.broken_off() } else { answer }
    });
    let viewers = played(careful(&server, 1)).viewers;
    assert_eq!((viewers.retries, viewers.failed, viewers.segments), (1, 0, 6));
}

#[test]
fn what_is_wrong_is_said() {
    for (path, answer, wanted) in [
        ("/a.m3u8", Answer::status(404), "status 404"),
        ("/a.m3u8", Answer::text("<html>"), "no playlist: it begins with \"<html>\""),
        (
            "/a.m3u8",
            Answer::text("#EXTM3U\n#EXTINF:x,\n1.ts\n"),
            "line 2 of the playlist: \"x\" is no duration",
        ),
        ("/a.m3u8", Answer::redirect("https://127.0.0.1/a.m3u8"), "TLS"),
        ("/a.m3u8", Answer::redirect("/a.m3u8"), "redirects"),
    ] {
        let server = Server::start(move |_| answer.clone());
        let viewers = played(Plan::players(vec![server.url(path)], 2)).viewers;
        assert_eq!((viewers.failed, viewers.admitted), (2, 0));
        assert!(viewers.failures[0].reason.contains(wanted), "{:?} for {wanted}", viewers.failures);
    }
    let outcome = played(Plan::players(vec!["http://127.0.0.1:9/a.m3u8".into()], 1));
    assert!(outcome.viewers.failures[0].reason.contains("connecting: connection refused"));
    let error = |plan: Plan| format!("{:#}", Fleet::start(plan).err().unwrap());
    assert!(error(Plan::players(vec!["file.m3u8".into()], 1)).contains("write http://host:port/path"));
    let server = Server::start(|_| Answer::text("{}"));
    assert!(error(Plan::players(vec![server.url("/")], 1)).contains("is this a Reel server?"));
}

#[test]
fn a_library_is_asked_for_its_titles() {
    let server = Server::start(|request| match request.path.as_str() {
        "/api/v1/titles" => {
            let title = |id: &str| {
                format!(
                    r#"{{"watch":{{"hls":"/watch/{id}/master.m3u8"}},"download":"/files/{id}.mp4","poster":"/img/{id}.jpg"}}"#
                )
            };
            Answer::text(&format!(r#"{{"titles":[{},{}]}}"#, title("a"), title("b")))
        }
        "/files/a.mp4" | "/files/b.mp4" => Answer::bytes(50_000),
        "/" | "/img/a.jpg" | "/img/b.jpg" => Answer::bytes(100),
        path => film(path.split('?').next().unwrap()),
    });
    let mut plan = careful(&server, 4);
    plan.urls = vec![server.url("/")];
    plan.class = Some("guests".to_owned());
    plan.downloads = Reading { clients: 2, ..Reading::default() };
    plan.browsers = Reading { clients: 3, think: Duration::from_millis(20), ..Reading::default() };
    let outcome = played(plan);
    assert_eq!((outcome.viewers.started, outcome.viewers.failed), (4, 0), "{:?}", outcome.viewers.failures);
    assert_eq!(server.asked("/watch/a/master.m3u8?class=guests"), 2);
    assert_eq!(server.asked("/watch/b/master.m3u8?class=guests"), 2);
    let downloads = outcome.downloads.unwrap();
    assert_eq!((downloads.clients, downloads.requests, downloads.bytes), (2, 2, 100_000));
    let browsers = outcome.browsers.unwrap();
    assert_eq!((browsers.clients, browsers.failed), (3, 0), "{:?}", browsers.failures);
    assert!(browsers.requests > 0 && browsers.response_ms.count == browsers.requests);
}

#[test]
fn the_same_seed_chooses_the_same_titles() {
    let chosen = |seed| {
        let server = Server::start(|request| film(&request.path));
        let mut plan = careful(&server, 12);
        plan.urls = (0..10).map(|title| server.url(&format!("/watch/{title}/master.m3u8"))).collect();
        plan.viewing =
            Viewing::Hls(Hls { zipf: Some(0.5), startup: Duration::from_secs(10), ..Hls::default() });
        plan.seed = seed;
        played(plan);
        (0..10).map(|title| server.asked(&format!("/watch/{title}/master.m3u8"))).collect::<Vec<_>>()
    };
    assert_eq!(chosen(3), chosen(3));
    assert_ne!(chosen(3), chosen(4));
}

#[test]
fn a_fleet_can_be_stopped_and_says_what_was() {
    let server = Server::start(|request| film(&request.path));
    let mut plan = careful(&server, 3);
    plan.duration = Some(Duration::from_secs(3600));
    let fleet = Fleet::start(plan).unwrap();
    let stopper = fleet.stopper();
    let outcome = fleet
        .wait(|now| {
            if now.bytes > 0 {
                stopper.stop()
            }
        })
        .unwrap();
    assert!(outcome.interrupted && outcome.viewers.started >= 3 && !outcome.samples.is_empty());
    // Who has seen a title chooses another, until the end.
    assert!(outcome.viewers.sessions >= outcome.viewers.started);
    assert!(outcome.viewers.played_s > 0.0);
}

#[test]
fn a_remote_control_pauses_seeks_and_changes_titles() {
    let (tell, told) = channel();
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        // Three films for each viewer, which take 0.6 s if nothing is pressed.
        if request.path.starts_with("/watch") && asked.fetch_add(1, Ordering::SeqCst) == 24 {
            let _ = tell.send(());
        }
        film(&request.path)
    });
    let mut plan = careful(&server, 8);
    let vcr = Some(Duration::from_millis(100));
    plan.viewing = Viewing::Hls(Hls { vcr, startup: Duration::from_secs(10), ..Hls::default() });
    let viewers = played_until_told(plan, told).viewers;
    assert!(viewers.pauses > 0 && viewers.seeks > 0 && viewers.sessions > 8, "{viewers:?}");
    assert_eq!((viewers.failed, viewers.late_bytes), (0, 0), "{:?}", viewers.failures);
}

/// 40 blocks and a bit.
const FILE_BYTES: usize = 40 * 4096 + 100;

fn paced(server: &Server, startup_s: u64, ahead_s: u64) -> Outcome {
    let mut plan = Plan::players(vec![server.url("/a.mp4"), server.url("/b.mp4")], 4);
    plan.viewing = Viewing::Paced(Paced {
        rate_bps: 10_000_000,
        block_bytes: 4096,
        startup: Some(Duration::from_secs(startup_s)),
        ahead: Some(Duration::from_secs(ahead_s)),
    });
    played(plan)
}

#[test]
fn paced_readers_read_every_block_and_know_the_late_ones() {
    let server = Server::start(|_| Answer::bytes(FILE_BYTES));
    // All is asked for at once and due in half a minute.
    let outcome = paced(&server, 30, 30);
    let reads = outcome.paced.unwrap();
    assert_eq!((reads.reads, reads.late_reads, reads.late_bytes), (4 * 41, 0, 0));
    assert_eq!(reads.bytes, 4 * FILE_BYTES as u64);
    assert_eq!((outcome.viewers.came, outcome.viewers.failed), (4, 0));
    // Asked for when it is due: no server is quick enough.
    let reads = paced(&server, 0, 0).paced.unwrap();
    assert_eq!((reads.late_reads, reads.late_bytes), (reads.reads, reads.bytes));
    assert_eq!((reads.late_reads_percent, reads.late_bytes_percent), (100.0, 100.0));
}

#[test]
fn a_rate_limit_holds() {
    let server = Server::start(|_| Answer::bytes(100_000));
    let mut plan = Plan::players(vec![server.url("/a.m3u8")], 0);
    plan.downloads = Reading { clients: 1, urls: vec![server.url("/a.mp4")], ..Reading::default() };
    plan.rate_limit_bps = Some(1_000_000);
    plan.arrivals = Arrivals { over: Duration::ZERO, ..plan.arrivals };
    let outcome = played(plan);
    // 0.8 s at that rate, less the burst at the start and what was still on its way.
    assert_eq!(outcome.downloads.unwrap().bytes, 100_000);
    assert!(outcome.took_s > 0.5, "{}", outcome.took_s);
}

#[test]
fn a_file_that_never_opens_is_late_as_a_whole() {
    let (tell, told) = channel();
    let server = Server::start(move |_| {
        let _ = tell.send(());
        Answer::bytes(FILE_BYTES).after(NEVER)
    });
    let mut plan = Plan::players(vec![server.url("/a.mp4")], 1);
    plan.viewing =
        Viewing::Paced(Paced { rate_bps: 4096 * 8 * 50, block_bytes: 4096, startup: None, ahead: None });
    let reads = played_until_told(plan, told).paced.unwrap();
    assert!(
        reads.unread >= 30 && reads.late_reads == reads.unread && reads.reads == reads.unread,
        "{reads:?}"
    );
}

#[test]
fn reads_that_never_come_are_late() {
    let (tell, told) = channel();
    let server = Server::start(move |request| {
        let answer = Answer::bytes(FILE_BYTES);
        if request.is_range_from(0) {
            return answer;
        }
        let _ = tell.send(());
        answer.after(NEVER)
    });
    let mut plan = Plan::players(vec![server.url("/a.mp4")], 1);
    plan.viewing =
        Viewing::Paced(Paced { rate_bps: 4096 * 8 * 50, block_bytes: 4096, startup: None, ahead: None });
    let reads = played_until_told(plan, told).paced.unwrap();
    // 50 a second, for a second after the second one was asked for; one came.
    assert!(reads.unread >= 30, "{reads:?}");
    assert!(reads.late_reads >= reads.unread && reads.reads == reads.unread + 1, "{reads:?}");
}
