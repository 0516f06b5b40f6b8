//! What ends while it is used: titles, and the server.

use crate::server::rig::{Client, DRIVERS, Rig, head};
use reel_volume::{RepairOptions, Replacement};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The time to drain where everything ends by itself: only ends a test that hangs.
const LONG: Duration = Duration::from_secs(600);
/// The time to drain where something never ends by itself.
const SHORT: Duration = Duration::from_secs(1);

#[test]
fn a_title_that_is_removed_plays_to_its_end() {
    let rig = Rig::with_memory(0, |_| {});
    let session = rig.session();
    let free_bytes = rig.library.volume().free_bytes();
    let mut client = rig.connect_narrow();
    client.send(head(&format!("GET {session}film.mp4"), "").as_bytes());
    let bytes = client.answer_head().announced_bytes();
    rig.library.remove("film").expect("removed");
    assert_eq!(rig.connect().ask("GET /watch/film/master.m3u8", "").status, 404);
    assert_eq!(rig.library.volume().free_bytes(), free_bytes, "somebody watches it");
    assert!(client.read(bytes) == rig.film);
    let key = session.trim_start_matches("/s/").trim_end_matches('/');
    assert_eq!(rig.connect().ask(&format!("DELETE /api/v1/sessions/{key}"), "").status, 204);
    drop(client);
    rig.await_metric("reel_volume_free_bytes", |free| free > free_bytes as f64);
}

#[test]
fn a_server_that_stops_finishes_the_responses_under_way() {
    for driver in DRIVERS {
        let mut rig = Rig::new(|config| (config.driver, config.drain_time) = (driver, LONG));
        let mut idle = rig.connect();
        assert_eq!(idle.ask("HEAD /files/film.mp4", "").status, 200);
        let mut clients: Vec<_> = (0..3).map(|_| rig.connect_narrow()).collect();
        for client in &mut clients {
            client.send(head("GET /files/film.mp4", "").as_bytes());
            assert_eq!(client.answer_head().announced_bytes(), rig.film.len());
        }
        std::thread::scope(|scope| {
            for mut client in clients {
                let film = rig.film.clone();
                scope.spawn(move || assert!(client.rest() == film));
            }
            let server = rig.server.take().expect("running");
            scope.spawn(move || server.stop().expect("a clean end"));
        });
        assert!(idle.rest().is_empty());
        rig.reopen();
    }
}

/// The client reads nothing, and is cut off after the limit for draining.
#[test]
fn a_server_that_stops_cuts_off_a_client_that_reads_nothing() {
    let mut rig = Rig::new(|config| config.drain_time = SHORT);
    let mut client = rig.connect_narrow();
    client.send(head("GET /files/film.mp4", "").as_bytes());
    let bytes = client.answer_head().announced_bytes();
    rig.stop();
    let taken = client.rest();
    assert!(taken.len() < bytes && rig.film.starts_with(&taken));
    rig.reopen();
}

/// An upload whose second half is missing, and the number of bytes that were sent.
fn half_an_upload(rig: &Rig) -> (Client, usize) {
    // The volume has room for one of them.
    rig.library.remove("film").expect("removed");
    let mut client = rig.connect();
    let half = rig.film.len() / 2;
    let length = format!("Content-Length: {}\r\n", rig.film.len());
    client.send(head("POST /api/v1/titles?filename=again.mp4&wait=true", &length).as_bytes());
    client.send(&rig.film[..half]);
    rig.await_metric("reel_jobs", |jobs| jobs > 0.0);
    (client, half)
}

#[test]
fn a_server_that_stops_accepts_the_uploads_that_are_under_way() {
    let mut rig = Rig::new(|config| config.drain_time = LONG);
    let (mut client, half) = half_an_upload(&rig);
    let server = rig.server.take().expect("running");
    std::thread::scope(|scope| {
        scope.spawn(move || server.stop().expect("a clean end"));
        while TcpStream::connect(rig.address()).is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
        client.send(&rig.film[half..]);
        let answer = client.answer(false);
        assert_eq!(answer.status, 201, "{}", answer.head);
    });
    assert!(rig.library.has("again"));
    rig.reopen();
}

/// The rest never arrives. After the limit for draining the client gets the reason, and the server
/// ends.
#[test]
fn a_server_that_stops_answers_the_uploads_that_it_breaks_off() {
    let mut rig = Rig::new(|config| config.drain_time = SHORT);
    let (mut client, _) = half_an_upload(&rig);
    let server = rig.server.take().expect("running");
    std::thread::scope(|scope| {
        scope.spawn(move || server.stop().expect("a clean end"));
        let answer = client.answer(false);
        let text = String::from_utf8(answer.body).expect("text");
        assert!(answer.status == 503 && text.contains("send it again"), "{text}");
        drop(client);
    });
    assert!(!rig.library.has("again"));
    rig.reopen();
}

/// The open files work on, and after the end of the server their bytes are gone.
#[test]
fn a_member_whose_file_is_removed_is_noticed_and_replaced() {
    let rig = Rig::new(|_| {});
    std::fs::remove_file(rig.path("volume/member-3.reel")).expect("removed");
    rig.await_metric("reel_volume_members_lost", |lost| lost > 0.0);
    assert_eq!(rig.metric("reel_volume_members_taken_out_total"), 1.0);
    let report = rig.connect().ask("GET /api/v1/volume", "").body;
    let report = String::from_utf8_lossy(&report);
    assert!(report.contains("degraded") && report.contains("its file was removed"), "{report}");
    // A rebuild would fill the file that is gone.
    let volume = rig.library.volume();
    let rebuilt = volume.rebuild(3, RepairOptions::default(), &mut |_| true);
    let text = rebuilt.expect_err("it is removed").to_string();
    assert!(text.contains("its file was removed") && text.contains("reel volume replace"), "{text}");
    let path = rig.path("volume/member-3.reel");
    let replacement = Replacement::new(3, path);
    volume.replace(&replacement).expect("replaced");
    volume.rebuild(3, RepairOptions::default(), &mut |_| true).expect("filled");
    rig.await_metric("reel_volume_members_lost", |lost| lost == 0.0);
    let mut rig = rig;
    rig.stop();
    rig.reopen();
}

/// The second one stays in use, since its open file still has its bytes, and no title outlives this
/// server.
#[test]
fn with_more_members_removed_than_parity_can_restore_a_server_is_not_ready() {
    let rig = Rig::new(|_| {});
    let ready = || {
        let answer = rig.connect().ask("GET /readyz", "");
        (answer.status, String::from_utf8(answer.body).expect("text"))
    };
    std::fs::remove_file(rig.path("volume/member-3.reel")).expect("removed");
    rig.await_metric("reel_volume_members_lost", |lost| lost > 0.0);
    let (status, text) = ready();
    assert!(status == 200 && text.contains("member 3 (") && text.contains("its file was removed"), "{text}");
    std::fs::remove_file(rig.path("volume/member-1.reel")).expect("removed");
    let begun = Instant::now();
    let text = loop {
        match ready() {
            (503, text) => break text,
            (_, text) => assert!(begun.elapsed() < Duration::from_secs(120), "it stays ready: {text}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    for words in [
        "more members are lost than parity can restore",
        "member 3 (",
        "member 1 (",
        "in use only because no other can be spared",
        "rebuild or replace the member that is out, then replace this one",
    ] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    assert!(rig.connect().ask("GET /files/film.mp4", "").body == rig.film);
    // What it says to do helps.
    let volume = rig.library.volume();
    for member in [3, 1] {
        let path = rig.path(&format!("volume/new-{member}"));
        volume.replace(&Replacement::new(member, path)).expect("replaced");
        volume.rebuild(member, RepairOptions::default(), &mut |_| true).expect("filled");
    }
    assert_eq!(ready().0, 200);
    let mut rig = rig;
    rig.stop();
    rig.reopen();
}
