//! Joins of what programs pour.

mod night;

use super::{Joining, add, names};
use crate::server::rig::{Answer, DRIVERS, admitting};
use reel_client::{Client, PourWanted};
use reel_play::UplinkRate;
use serde_json::json;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

fn pour(joining: &Joining, bytes_per_s: u64) -> (Client, u64) {
    let mut client = Client::connect(&joining.rig.socket()).expect("connected");
    let wanted = PourWanted {
        name: "studio".to_owned(),
        content_type: "video/mp2t".to_owned(),
        bytes_per_s,
        workahead_bytes: 1_000_000,
        delay_ns: 1_000_000_000,
    };
    let stream = client.pour(wanted).expect("poured");
    (client, stream)
}

fn open(joining: &Joining, name: &str, class: &str) -> Answer {
    let body = json!({ "class": class }).to_string();
    let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    joining.rig.connect().ask_with(&format!("POST /api/v1/pours/{name}/sessions"), &fields, &body)
}

fn session(joining: &Joining, class: &str) -> String {
    let opened = open(joining, "studio", class);
    assert_eq!(opened.status, 201, "{}", String::from_utf8_lossy(&opened.body));
    let session = opened.json();
    assert_eq!((&session["title"], &session["class"]), (&"live/studio".into(), &class.into()));
    session["key"].as_str().expect("a key").to_owned()
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// Two outlets, the second one from where the stream is then; in both kinds of classes.
#[test]
fn what_a_program_pours_is_played_into_files_while_it_comes() {
    for (driver, class) in DRIVERS.into_iter().zip(["periodic", "aperiodic"]) {
        let joining = Joining::new(|config| {
            admitting(config);
            config.driver = driver;
        });
        let (mut client, stream) = pour(&joining, 20_000_000);
        let key = session(&joining, class);
        let added = joining.add(&key, "file:first.ts");
        assert_eq!(added.status, 201, "{}", String::from_utf8_lossy(&added.body));
        let bytes = pattern(3_000_000);
        client.put(stream, &bytes[..1_000_000]).expect("put");
        let path = format!("GET /api/v1/sessions/{key}/outlets/0");
        super::until("the first bytes", || {
            joining.rig.connect().ask(&path, "").json()["bytes"].as_u64() == Some(1_000_000)
        });
        let added = joining.add(&key, "file:second.ts");
        assert_eq!((added.status, &added.json()["from_byte"]), (201, &json!(1_000_000)));
        client.put(stream, &bytes[1_000_000..]).expect("put");
        client.end_pour(stream).expect("ended");
        for (number, name, expected) in [(0, "first.ts", &bytes[..]), (1, "second.ts", &bytes[1_000_000..])] {
            let ended = joining.ended(&key, number);
            assert_eq!(
                (&ended["state"], &ended["bytes"]),
                (&"complete".into(), &expected.len().into()),
                "{ended}"
            );
            let written = fs::read(joining.path(name)).expect("written");
            assert!(written == expected, "{driver:?} {class} {name}: {} bytes", written.len());
        }
        // The stream is over, and the session has nothing to play.
        let gone = joining.add(&key, "file:third.ts");
        assert_eq!(gone.status, 410, "{}", String::from_utf8_lossy(&gone.body));
        let (mut client, stream) = pour(&joining, 1_000_000);
        let again = joining.add(&key, "file:third.ts");
        assert_eq!(again.status, 410, "it was admitted for another rate");
        client.end_pour(stream).expect("ended");
    }
}

#[test]
fn a_program_that_is_gone_leaves_no_file_of_what_it_has_poured() {
    let joining = Joining::new(admitting);
    let (mut client, stream) = pour(&joining, 20_000_000);
    let key = session(&joining, "periodic");
    assert_eq!(joining.add(&key, "file:half.ts").status, 201);
    client.put(stream, &pattern(200_000)).expect("put");
    joining.rig.await_metric("reel_join_bytes_total", |bytes| bytes == 200_000.0);
    drop(client);
    let ended = joining.ended(&key, 0);
    let reason = ended["reason"].as_str().expect("a reason");
    assert!(reason.contains("the program that pours the stream is gone"), "{ended}");
    super::until("no file", || names(joining.directory.path()).is_empty());
}

/// The end of the stream comes at once after that of the session.
#[test]
fn a_session_that_was_closed_leaves_no_file_although_its_stream_ends_then() {
    let joining = Joining::new(admitting);
    let (mut client, stream) = pour(&joining, 20_000_000);
    let key = session(&joining, "periodic");
    assert_eq!(joining.add(&key, "file:closed.ts").status, 201);
    client.put(stream, &pattern(200_000)).expect("put");
    joining.rig.await_metric("reel_join_bytes_total", |bytes| bytes == 200_000.0);
    let closed = joining.rig.connect().ask(&format!("DELETE /api/v1/sessions/{key}"), "");
    assert_eq!(closed.status, 204);
    client.end_pour(stream).expect("ended");
    joining.rig.await_metric("reel_join_outlets", |outlets| outlets == 0.0);
    super::until("no file", || names(joining.directory.path()).is_empty());
    assert_eq!(joining.rig.metric("reel_join_outlets_complete_total"), 0.0);
}

#[test]
fn what_a_session_of_a_poured_stream_cannot_do_is_said() {
    let joining = Joining::new(admitting);
    assert_eq!(open(&joining, "studio", "periodic").status, 404);
    let (_client, _) = pour(&joining, 20_000_000);
    assert_eq!(open(&joining, "studio", "royal").status, 400);
    let key = session(&joining, "periodic");
    let refused = add(&joining.rig, &key, &json!({ "to": "file:a.ts", "from_byte": 1 }));
    assert_eq!(refused.status, 422, "{}", String::from_utf8_lossy(&refused.body));
    // It has no form that a player asks for.
    for (path, status) in
        [("master.m3u8", 404), ("manifest.mpd", 404), ("studio.mp4", 403), ("live/studio", 404)]
    {
        let answer = joining.rig.connect().ask(&format!("GET /s/{key}/{path}"), "");
        assert_eq!(answer.status, status, "{path}: {}", answer.head);
    }
    let told = joining.rig.connect().ask(&format!("DELETE /api/v1/sessions/{key}"), "");
    assert_eq!(told.status, 204);
    joining.rig.await_metric("reel_pour_viewers", |viewers| viewers == 0.0);
}

#[test]
fn a_lease_has_bounds() {
    let joining = Joining::new(admitting);
    let (mut client, stream) = pour(&joining, 20_000_000);
    let key = session(&joining, "periodic");
    for lease_s in [0, 3601] {
        let refused = add(&joining.rig, &key, &json!({ "to": "file:a.ts", "lease_s": lease_s }));
        assert_eq!(refused.status, 422, "{}", String::from_utf8_lossy(&refused.body));
    }
    client.end_pour(stream).expect("ended");
}

/// A client that was killed asks for nothing any more.
fn an_outlet_ends_with_its_lease() {
    let joining = Joining::new(admitting);
    let (mut client, stream) = pour(&joining, 20_000_000);
    let key = session(&joining, "periodic");
    let added = add(&joining.rig, &key, &json!({ "to": "file:a.ts", "lease_s": 1 }));
    assert_eq!(added.status, 201, "{}", String::from_utf8_lossy(&added.body));
    client.put(stream, &pattern(200_000)).expect("put");
    joining.rig.await_metric("reel_join_outlets", |outlets| outlets == 0.0);
    let ended = joining.ended(&key, 0);
    assert!(ended["reason"].as_str().expect("a reason").contains("longer than its lease"), "{ended}");
    super::until("no file", || names(joining.directory.path()).is_empty());
    client.end_pour(stream).expect("ended");
}

/// How far the time of housekeeping is ahead, in the one test that changes it.
static AHEAD_NS: AtomicU64 = AtomicU64::new(0);

fn clock_ahead() -> u64 {
    reel_rt::now_ns() + AHEAD_NS.load(Ordering::Relaxed)
}

/// There is room for one. What it holds is released while nothing uses it, and reserved again when
/// it is played.
#[test]
fn a_session_that_nothing_uses_holds_nothing() {
    let joining = Joining::new(|config| {
        admitting(config);
        config.promise.network_bps = Some(20_000_000);
        config.promise.uplink = UplinkRate::Known(20_000_000);
        config.housekeeping_clock = clock_ahead;
    });
    let (mut client, stream) = pour(&joining, 1_500_000);
    let first = session(&joining, "periodic");
    assert_eq!(open(&joining, "studio", "periodic").status, 503, "there is room for one");
    // From now on, what nothing has used for a moment was not used for a minute.
    AHEAD_NS.store(60_000_000_000, Ordering::Relaxed);
    let mut opened = None;
    super::until("room for another one", || {
        let answer = open(&joining, "studio", "periodic");
        opened = (answer.status == 201).then(|| answer.json());
        opened.is_some()
    });
    let second = opened.expect("opened");
    let second = second["key"].as_str().expect("a key");
    assert_eq!(joining.add(second, "file:second.ts").status, 201);
    let refused = joining.add(&first, "file:first.ts");
    assert_eq!(refused.status, 503, "{}", String::from_utf8_lossy(&refused.body));
    client.put(stream, &pattern(200_000)).expect("put");
    client.end_pour(stream).expect("ended");
    assert_eq!(joining.ended(second, 0)["state"], "complete");
    // The stream is over, so nothing of it is reserved much longer.
    super::until("nothing reserved", || {
        joining.rig.metric("reel_promised_ratio{resource=\"network\"}") == 0.0
    });
}
