//! Sessions of transport streams that are played into poured streams, from which others read them.

use super::datagrams::{joining, stream_session};
use super::{Joining, add, session_of};
use crate::server::rig::{Answer, Rig, unchunked};
use reel_volume::GeometryPreset;
use serde_json::json;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::JoinHandle;

fn allowing(live: bool, seconds: u32) -> (Joining, Vec<u8>) {
    joining(GeometryPreset::Ts, seconds, &[], |config| config.join.live = live)
}

/// Reads a poured stream to its end: the bytes, and whether its last chunk came.
fn view(rig: &Rig, name: &str) -> JoinHandle<(Vec<u8>, bool)> {
    let mut socket = TcpStream::connect(rig.address()).expect("connected");
    socket.set_read_timeout(Some(super::PATIENCE)).expect("set");
    let request = format!("GET /live/{name} HTTP/1.1\r\nHost: reel\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).expect("sent");
    std::thread::spawn(move || {
        let mut all = Vec::new();
        // A response that is cut off may end with a reset.
        let _ = socket.read_to_end(&mut all);
        let head = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        assert!(all.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&all[..head]));
        unchunked(&all[head..])
    })
}

fn refused(answer: &Answer, status: u16, says: &str) {
    let detail = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
    assert!(answer.status == status && detail.contains(says), "{} {detail}", answer.status);
}

/// A title is played into a stream, which is watched, and joined to a file again.
#[test]
fn a_session_is_played_into_a_stream_that_others_watch() {
    for class in ["periodic", "aperiodic"] {
        let (joining, stream) = allowing(true, 12);
        let key = stream_session(&joining.rig, class);
        let added = joining.add(&key, "live:studio");
        assert_eq!(added.status, 201, "{}", String::from_utf8_lossy(&added.body));
        let viewer = view(&joining.rig, "studio");
        joining.rig.await_metric("reel_pour_viewers", |viewers| viewers == 1.0);
        let body = json!({ "class": "aperiodic" }).to_string();
        let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        let opened = joining.rig.connect().ask_with("POST /api/v1/pours/studio/sessions", &fields, &body);
        assert_eq!(opened.status, 201, "{}", String::from_utf8_lossy(&opened.body));
        let second = opened.json()["key"].as_str().expect("a key").to_owned();
        assert_eq!(joining.add(&second, "file:copy.ts").status, 201);
        let other = stream_session(&joining.rig, "aperiodic");
        refused(&joining.add(&other, "live:studio"), 409, "is being poured already");
        let (watched, is_whole) = viewer.join().expect("watched");
        // On a busy machine a viewer comes after the first bytes are due.
        let is_end = !watched.is_empty() && watched.len().is_multiple_of(188) && stream.ends_with(&watched);
        assert!(is_whole && is_end, "{class}: {} of {} bytes", watched.len(), stream.len());
        assert_eq!(joining.ended(&key, 0)["state"], "complete");
        assert_eq!(joining.ended(&second, 0)["state"], "complete");
        let copy = fs::read(joining.path("copy.ts")).expect("written");
        assert!(
            !copy.is_empty() && copy.len().is_multiple_of(188) && stream.ends_with(&copy),
            "{}",
            copy.len()
        );
        assert_eq!(joining.rig.metric("reel_pours"), 0.0);
    }
}

#[test]
fn a_stream_that_a_session_plays_into_breaks_off_with_its_outlet() {
    let (joining, stream) = allowing(true, 20);
    let key = stream_session(&joining.rig, "periodic");
    assert_eq!(joining.add(&key, "live:studio").status, 201);
    let viewer = view(&joining.rig, "studio");
    joining.rig.await_metric("reel_pour_bytes_total", |bytes| bytes > 0.0);
    joining.rig.await_metric("reel_pour_viewers", |viewers| viewers == 1.0);
    let removed = joining.rig.connect().ask(&format!("DELETE /api/v1/sessions/{key}/outlets/0"), "");
    assert_eq!(removed.status, 204);
    let (watched, is_whole) = viewer.join().expect("watched");
    assert!(!is_whole && stream.starts_with(&watched) && watched.len() < stream.len());
    joining.rig.await_metric("reel_pours_broken_total", |broken| broken == 1.0);
}

#[test]
fn what_cannot_be_played_into_a_stream_is_refused() {
    let (joining, _) = allowing(false, 1);
    let key = stream_session(&joining.rig, "aperiodic");
    refused(&joining.add(&key, "live:studio"), 403, "live = true");
    let (joining, _) = allowing(true, 1);
    let film = session_of(&joining.rig, "film", "aperiodic");
    refused(&joining.add(&film, "live:studio"), 422, "only a transport stream");
    let key = stream_session(&joining.rig, "aperiodic");
    refused(&add(&joining.rig, &key, &json!({ "to": "live:Studio" })), 422, "cannot be the name");
    refused(&joining.add(&key, "live:"), 422, "cannot be the name");
}
