//! Requests over a limit are refused with a reason, and succeed when there is room again.

use crate::server::rig::{DRIVERS, Rig};
use std::time::Duration;

#[test]
fn connections_over_the_limit_are_refused_with_a_time_to_ask_again() {
    for driver in DRIVERS {
        let rig = Rig::new(|config| {
            config.driver = driver;
            config.connections_max = 3;
        });
        let mut held: Vec<_> = (0..3).map(|_| rig.connect()).collect();
        for client in &mut held {
            // The answer shows that the connection was taken.
            assert_eq!(client.ask("HEAD /files/film.mp4", "").status, 200);
        }
        let mut fourth = rig.connect();
        let answer = fourth.answer(false);
        assert_eq!((answer.status, answer.field("Retry-After")), (503, Some("5")));
        assert!(fourth.rest().is_empty());
        assert_eq!(held[1].ask("HEAD /files/film.mp4", "").status, 200, "an accepted client stays connected");
        drop(held.pop());
        // Its place is free as soon as the server has noticed that it left.
        while rig.connect().try_status("HEAD /files/film.mp4") != Some(200) {}
        drop(held);
        // Every accepted connection is counted down again. Otherwise there would never be room for
        // three.
        let three_are_in = || {
            let mut held: Vec<_> = (0..3).map(|_| rig.connect()).collect();
            held.iter_mut().all(|client| client.try_status("HEAD /files/film.mp4") == Some(200))
        };
        while !three_are_in() {}
    }
}

#[test]
fn sessions_over_the_limit_are_refused_with_a_time_to_ask_again() {
    let rig = Rig::new(|config| config.sessions_max = 2);
    let first = rig.session();
    rig.session();
    let refused = rig.connect().ask("GET /watch/film/master.m3u8", "");
    assert_eq!(refused.status, 503);
    let retry_after_s: u64 = refused.field("Retry-After").expect("a time").parse().expect("a number");
    assert!((1..=300).contains(&retry_after_s));
    assert_eq!(rig.metric("reel_sessions_refused_total"), 1.0);
    let key = first.trim_start_matches("/s/").trim_end_matches('/');
    let closed = rig.connect().ask(&format!("DELETE /api/v1/sessions/{key}"), "");
    assert_eq!(closed.status, 204, "{}", closed.head);
    assert_eq!(rig.connect().ask(&format!("GET {first}master.m3u8"), "").status, 410);
    rig.session();
}

#[test]
fn sessions_refused_by_the_api_are_counted_as_well() {
    let rig = Rig::new(|config| config.sessions_max = 1);
    let body = r#"{"title":"film"}"#;
    let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let open = || rig.connect().ask_with("POST /api/v1/sessions", &fields, body).status;
    assert_eq!((open(), open()), (201, 503));
    assert_eq!(rig.metric("reel_sessions_refused_total"), 1.0);
}

#[test]
fn a_session_that_was_silent_ends_and_is_opened_again_by_its_address() {
    let rig = Rig::new(|config| config.session_idle = Duration::from_millis(300));
    let session = rig.session();
    let mut client = rig.connect();
    let files = ["master.m3u8", "0/1.m4s", "film.mp4"];
    let before = files.map(|file| client.ask(&format!("GET {session}{file}"), ""));
    for (file, before) in files.iter().zip(&before) {
        rig.await_metric("reel_sessions", |sessions| sessions == 0.0);
        let described = client.ask(&format!("HEAD {session}{file}"), "");
        assert_eq!(described.status, 200, "{file}");
        assert_eq!(described.field("Content-Type"), before.field("Content-Type"));
        assert_eq!(rig.metric("reel_sessions"), 0.0, "HEAD opens no session");
        let again = client.ask(&format!("GET {session}{file}"), "");
        assert!(again.status == 200 && again.body == before.body, "{file}: {}", again.head);
    }
    let absent = client.ask(&format!("GET {session}0/999.m4s"), "");
    assert_eq!(absent.status, 404);
    // Another title with the same name has other bytes.
    rig.await_metric("reel_sessions", |sessions| sessions == 0.0);
    rig.library.remove("film").expect("removed");
    assert_eq!(client.ask(&format!("GET {session}0/1.m4s"), "").status, 404);
    rig.ingest_again();
    let gone = client.ask(&format!("GET {session}0/1.m4s"), "");
    assert_eq!(gone.status, 410);
    assert!(String::from_utf8_lossy(&gone.body).contains("/watch/"), "it says how to continue");
    // A session that its client has closed stays closed, also one that had ended before.
    let session = rig.session();
    rig.await_metric("reel_sessions", |sessions| sessions == 0.0);
    let key = session.trim_start_matches("/s/").trim_end_matches('/');
    assert_eq!(rig.connect().ask(&format!("DELETE /api/v1/sessions/{key}"), "").status, 204);
    assert_eq!(client.ask(&format!("GET {session}master.m3u8"), "").status, 410);
    assert_eq!(client.ask("GET /watch/film/master.m3u8", "").status, 307, "the connection lives");
}
