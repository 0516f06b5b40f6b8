//! Titles that are read as files: players are admitted by how they read, and downloads are not.

use crate::server::rig::{Answer, Client, Rig, admitting, full, narrow, patient, socket_from};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than a client is watched before it counts as a player. The system takes a fifth of the
/// film ahead of the client.
const WATCHED: Duration = Duration::from_secs(15);
const A_WHILE: Duration = Duration::from_millis(2500);
const RANGE: &str = "Range: bytes=0-\r\n";

/// Takes the body of an answer evenly in this time.
pub(super) fn take(client: &mut Client, answer: &Answer, time: Duration) -> Vec<u8> {
    const STEPS: u32 = 100;
    let (begun, bytes) = (Instant::now(), answer.announced_bytes());
    let mut body = Vec::new();
    for step in 1..=STEPS {
        let until = bytes * step as usize / STEPS as usize;
        body.extend(client.read(until - body.len()));
        thread::sleep((time * step / STEPS).saturating_sub(begun.elapsed()));
    }
    body
}

/// Asks at an address of its own, and takes the film in this time.
fn read(rig: &Rig, number: u8, request: &str, fields: &str, time: Duration) {
    let mut client = Client::on(patient(socket_from(number, rig.address())));
    client.send(super::rig::head(request, fields).as_bytes());
    let answer = client.answer_head();
    assert!(matches!(answer.status, 200 | 206), "{}", answer.head);
    assert!(take(&mut client, &answer, time) == rig.film, "{request}");
}

fn admitted(rig: &Rig) -> (f64, f64) {
    (rig.metric("reel_http_readers_admitted_total"), rig.metric("reel_sessions"))
}

#[test]
fn a_file_that_is_read_at_the_pace_of_the_film_is_played_and_all_else_is_copied() {
    let rig = Rig::new(admitting);
    thread::scope(|scope| {
        // What is not played: all of it, a download by name, one of another class, two at once.
        scope.spawn(|| read(&rig, 11, "GET /files/film.mp4", "", WATCHED));
        scope.spawn(|| read(&rig, 12, "GET /files/film.mp4?download", RANGE, WATCHED));
        scope.spawn(|| read(&rig, 13, "GET /files/film.mp4?class=aperiodic", RANGE, WATCHED));
        scope.spawn(|| read(&rig, 14, "GET /files/film.mp4", RANGE, WATCHED));
        scope.spawn(|| read(&rig, 14, "GET /files/film.mp4", RANGE, WATCHED));
        scope.spawn(|| read(&rig, 15, "GET /files/film.mp4", RANGE, Duration::ZERO));
        scope.spawn(|| read(&rig, 16, "GET /dav/copy/film.mp4", "", WATCHED));
    });
    assert_eq!(admitted(&rig), (0.0, 0.0));
    for _ in 0..20 {
        rig.connect().ask("HEAD /files/film.mp4", RANGE);
        rig.connect().ask("HEAD /dav/play/film.mp4", "");
    }
    assert_eq!(admitted(&rig), (0.0, 0.0));
    read(&rig, 21, "GET /files/film.mp4", RANGE, WATCHED);
    assert_eq!(admitted(&rig), (1.0, 1.0));
    // It seeks, and is in its session at once.
    let mut client = rig.connect_from(21);
    let half = rig.film.len() / 2;
    let answer = client.ask("GET /files/film.mp4", &format!("Range: bytes={half}-\r\n"));
    assert!(answer.body == rig.film[half..]);
    assert_eq!(admitted(&rig), (1.0, 1.0));
}

#[test]
fn a_file_among_those_that_are_played_is_played_after_a_second() {
    let rig = Rig::new(admitting);
    // A probe looks at the beginning and at the end.
    let end = format!("Range: bytes={}-\r\n", rig.film.len() - 1000);
    for fields in ["Range: bytes=0-999\r\n", &end] {
        assert_eq!(rig.connect().ask("GET /dav/play/film.mp4", fields).status, 206);
    }
    assert_eq!(admitted(&rig), (0.0, 0.0));
    read(&rig, 21, "GET /dav/play/film.mp4", "", A_WHILE);
    assert_eq!(admitted(&rig), (1.0, 1.0));
    // It reads in pieces from now on; another client begins.
    let mut client = rig.connect_from(21);
    let (piece, mut film) = (rig.film.len() / 5, Vec::new());
    while film.len() < rig.film.len() {
        let from = film.len();
        let fields = format!("Range: bytes={from}-{}\r\n", from + piece - 1);
        film.extend(client.ask("GET /dav/play/film.mp4", &fields).body);
    }
    assert!(film == rig.film);
    read(&rig, 22, "GET /dav/play/film.mp4", RANGE, A_WHILE);
    assert_eq!(admitted(&rig), (2.0, 2.0));
}

#[test]
fn a_reader_without_room_gets_its_bytes_without_a_promise() {
    let rig = Rig::new(full);
    read(&rig, 21, "GET /dav/play/film.mp4", "", A_WHILE);
    assert_eq!(admitted(&rig), (0.0, 0.0));
    assert!(rig.metric("reel_http_readers_refused_total") >= 1.0);
}

#[test]
fn a_client_that_vanishes_leaves_no_response_under_way() {
    let rig = Rig::new(admitting);
    for _ in 0..3 {
        let mut client = Client::on(patient(narrow(rig.address())));
        client.send(super::rig::head("GET /files/film.mp4", RANGE).as_bytes());
        client.answer_head();
        client.read(1000);
    }
    // Otherwise this one would be one of several at once.
    let mut client = Client::on(patient(narrow(rig.address())));
    client.send(super::rig::head("GET /files/film.mp4", RANGE).as_bytes());
    let answer = client.answer_head();
    assert!(take(&mut client, &answer, WATCHED) == rig.film);
    assert_eq!(admitted(&rig), (1.0, 1.0));
}
