//! Outlets whose destination is replaced while their session is played.

use super::datagrams::{Receiver, datagrams_of, is_added, joining, refused, stream_session};
use super::{Joining, PATIENCE, listener, received};
use crate::server::rig::{Answer, DRIVERS};
use reel_volume::GeometryPreset;
use serde_json::json;
use std::fs;
use std::io::Read;

fn replace(joining: &Joining, key: &str, number: u64, to: &str) -> Answer {
    let body = json!({ "to": to }).to_string();
    let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let path = format!("PUT /api/v1/sessions/{key}/outlets/{number}");
    joining.rig.connect().ask_with(&path, &fields, &body)
}

/// The first byte of the destination that has taken the place.
fn from_byte(replaced: &Answer, to: &str) -> usize {
    assert_eq!(replaced.status, 200, "{to}: {}", String::from_utf8_lossy(&replaced.body));
    let outlet = replaced.json();
    assert_eq!((&outlet["number"], &outlet["to"]), (&json!(0), &json!(to)));
    outlet["from_byte"].as_u64().expect("a number") as usize
}

/// Waits until an outlet has got something.
fn await_bytes(joining: &Joining, key: &str, number: u64) {
    super::until("a first byte", || {
        let path = format!("GET /api/v1/sessions/{key}/outlets/{number}");
        let outlet = joining.rig.connect().ask(&path, "").json();
        outlet["bytes"].as_u64().is_some_and(|bytes| bytes > 0) || outlet["state"] != "joined"
    });
}

/// From a file to a connection, to datagrams, to a file: each one has what comes after the one
/// before it. The file beside them is not disturbed.
#[test]
fn each_destination_begins_where_the_one_before_it_ends() {
    for (driver, preset) in DRIVERS.into_iter().zip([GeometryPreset::Ts, GeometryPreset::Cmaf]) {
        let (listening, tcp, _) = listener();
        let receiver = Receiver::new();
        let udp = format!("udp:{}", receiver.to);
        let to = [tcp.clone(), udp.clone()];
        let (joining, stream) = joining(preset, 20, &to, |config| config.driver = driver);
        let key = stream_session(&joining.rig, "periodic");
        is_added(&joining.add(&key, "file:first.ts"));
        is_added(&joining.add(&key, "file:beside.ts"));
        await_bytes(&joining, &key, 0);
        let second = from_byte(&replace(&joining, &key, 0, &tcp), &tcp);
        super::until("the first file", || joining.path("first.ts").exists());
        assert!(fs::read(joining.path("first.ts")).expect("written") == stream[..second], "{second} bytes");
        let bytes = std::thread::scope(|scope| {
            let bytes = scope.spawn(|| received(&listening));
            await_bytes(&joining, &key, 0);
            let third = from_byte(&replace(&joining, &key, 0, &udp), &udp);
            (bytes.join().expect("received"), third)
        });
        let (bytes, third) = bytes;
        assert!(!bytes.is_empty() && stream[second..].starts_with(&bytes), "{} bytes", bytes.len());
        assert_eq!(third, (second + bytes.len()).next_multiple_of(188), "the next packet");
        await_bytes(&joining, &key, 0);
        let fourth = from_byte(&replace(&joining, &key, 0, "file:last.ts"), "file:last.ts");
        let sent = &stream[third..fourth];
        let datagrams = receiver.datagrams(datagrams_of(sent).count());
        assert!(datagrams.iter().map(Vec::as_slice).eq(datagrams_of(sent)), "{third} to {fourth}");
        for number in 0..2 {
            let ended = joining.ended(&key, number);
            assert_eq!(ended["state"], "complete", "{driver:?}: {ended}");
        }
        assert!(fs::read(joining.path("last.ts")).expect("written") == stream[fourth..]);
        let beside = joining.ended(&key, 1)["from_byte"].as_u64().expect("a number") as usize;
        assert!(fs::read(joining.path("beside.ts")).expect("written") == stream[beside..]);
        assert!(second > 0 && second < third && third < fourth && fourth < stream.len());
        assert_eq!(joining.rig.metric("reel_join_outlets_cut_total"), 0.0);
        joining.rig.await_metric("reel_join_outlets", |outlets| outlets == 0.0);
        assert_eq!(joining.rig.metric("reel_join_outlets_complete_total"), 5.0);
    }
}

/// A destination that takes nothing is replaced at once, and has what its socket took.
#[test]
fn a_destination_that_reads_nothing_is_replaced() {
    for driver in DRIVERS {
        let (listening, to, target) = listener();
        rustix::net::sockopt::set_socket_recv_buffer_size(&listening, 4096).expect("set");
        let joining = Joining::new(|config| {
            config.driver = driver;
            config.join.to = vec![target];
        });
        let key = joining.session("aperiodic");
        is_added(&joining.add(&key, &to));
        let (mut silent, _) = listening.accept().expect("accepted");
        await_bytes(&joining, &key, 0);
        let from = from_byte(&replace(&joining, &key, 0, "file:rest.mp4"), "file:rest.mp4");
        let ended = joining.ended(&key, 0);
        assert_eq!(ended["state"], "complete", "{driver:?}: {ended}");
        let film = &joining.rig.film;
        assert!(from > 0 && from < film.len(), "{from} of {} bytes", film.len());
        assert!(fs::read(joining.path("rest.mp4")).expect("written") == film[from..]);
        silent.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut bytes = Vec::new();
        silent.read_to_end(&mut bytes).expect("read");
        assert!(bytes == film[..from], "{} bytes instead of {from}", bytes.len());
    }
}

#[test]
fn what_cannot_take_the_place_leaves_the_outlet_as_it_was() {
    let receiver = Receiver::new();
    let udp = format!("udp:{}", receiver.to);
    let (joining, stream) = joining(GeometryPreset::Ts, 20, std::slice::from_ref(&udp), |_| {});
    fs::write(joining.path("there.ts"), b"before").expect("written");
    let key = stream_session(&joining.rig, "periodic");
    is_added(&joining.add(&key, "file:whole.ts"));
    refused(&replace(&joining, &key, 0, "file:there.ts"), 409, "exists already");
    refused(&replace(&joining, &key, 0, "file:whole.ts"), 409, "being written");
    refused(&replace(&joining, &key, 0, "file:a/b"), 422, "a slash");
    refused(&replace(&joining, &key, 0, "udp:127.0.0.1:9"), 403, "[join]");
    refused(&replace(&joining, &key, 1, "file:other.ts"), 404, "outlet 1");
    assert_eq!(replace(&joining, &"0".repeat(key.len()), 0, "file:other.ts").status, 404);
    // Another session sends there.
    let other = stream_session(&joining.rig, "aperiodic");
    is_added(&joining.add(&other, &udp));
    refused(&replace(&joining, &key, 0, &udp), 409, "another outlet sends to");
    let ended = joining.ended(&key, 0);
    assert_eq!((&ended["state"], &ended["from_byte"]), (&json!("complete"), &json!(0)), "{ended}");
    assert!(fs::read(joining.path("whole.ts")).expect("written") == stream);
    // One that has ended has no place.
    refused(&replace(&joining, &key, 0, "file:other.ts"), 404, "has ended");
    assert!(!joining.path("other.ts").exists());
}
