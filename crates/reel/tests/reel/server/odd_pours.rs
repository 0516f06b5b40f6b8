//! Programs that pour late, pour garbage, or stop without an end.

use crate::server::pours::{get, pattern, read_to_end, wanted};
use crate::server::rig::{Rig, unchunked};
use reel_client::{Client, ClientError, PourWanted};
use std::io::Read;

/// A viewer has ten seconds, more than a busy machine stands still.
fn patient(name: &str) -> PourWanted {
    PourWanted { bytes_per_s: 1_000_000, delay_ns: 10_000_000_000, ..wanted(name) }
}

/// The last message of one program is held back until all of the other one has been played.
#[test]
fn a_program_that_pours_late_loses_nothing_and_makes_no_other_late() {
    let rig = Rig::new(|_| {});
    let mut late = Client::connect(&rig.socket()).expect("connected");
    let mut prompt = Client::connect(&rig.socket()).expect("connected");
    let of_late = late.pour(patient("late")).expect("poured");
    let of_prompt = prompt.pour(patient("prompt")).expect("poured");
    let mut waits = get(&rig, "late", "1.0");
    let viewer = read_to_end(get(&rig, "prompt", "1.0"));
    rig.await_metric("reel_pour_viewers", |viewers| viewers == 2.0);
    let (first, last) = (pattern(50_000), pattern(70_001));
    late.put(of_late, &first).expect("put");
    // What came before the pause is played meanwhile.
    let mut got = Vec::new();
    while !got.ends_with(&first) {
        let mut piece = [0; 4096];
        let some = waits.read(&mut piece).expect("read");
        assert!(some > 0, "an end after {} bytes", got.len());
        got.extend_from_slice(&piece[..some]);
    }
    let bytes = pattern(1_500_000);
    for part in bytes.chunks(20_001) {
        prompt.put(of_prompt, part).expect("put");
    }
    prompt.end_pour(of_prompt).expect("ended");
    assert!(viewer.join().expect("read").1 == bytes, "other bytes");
    late.put(of_late, &last).expect("put");
    late.end_pour(of_late).expect("ended");
    waits.read_to_end(&mut got).expect("read");
    assert!(got.ends_with(&[first, last].concat()), "other bytes");
    rig.await_metric("reel_pour_viewers", |viewers| viewers == 0.0);
    assert_eq!(rig.metric("reel_pour_late_bytes_total"), 0.0);
    assert_eq!(rig.metric("reel_pours_broken_total"), 0.0);
}

/// Bytes without any order, which are the same in each run (xorshift, Marsaglia 2003).
fn garbage(bytes: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()[0]
    };
    (0..bytes).map(|_| next()).collect()
}

#[test]
fn garbage_of_a_transport_stream_is_passed_on() {
    let rig = Rig::new(|_| {});
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let stream = client.pour(wanted("studio")).expect("poured");
    let early = read_to_end(get(&rig, "studio", "1.1"));
    rig.await_metric("reel_pour_viewers", |viewers| viewers == 1.0);
    let bytes = garbage(1_000_003);
    let (before, after) = bytes.split_at(500_001);
    before.chunks(7_001).for_each(|part| client.put(stream, part).expect("put"));
    let later = read_to_end(get(&rig, "studio", "1.1"));
    rig.await_metric("reel_pour_viewers", |viewers| viewers == 2.0);
    after.chunks(65_000).for_each(|part| client.put(stream, part).expect("put"));
    client.end_pour(stream).expect("ended");
    let (got, is_whole) = unchunked(&early.join().expect("read").1);
    assert!(is_whole && got == bytes, "{} bytes", got.len());
    let (got, is_whole) = unchunked(&later.join().expect("read").1);
    assert!(is_whole && got.len() >= after.len() && bytes.ends_with(&got), "{} bytes", got.len());
    let download = rig.connect().ask("GET /files/film.mp4", "");
    assert!(download.status == 200 && download.body == rig.film);
}

#[test]
fn a_program_that_stops_without_an_end_keeps_its_name_and_its_window() {
    let rig = Rig::new(|_| {});
    let mut stopped = Client::connect(&rig.socket()).expect("connected");
    let stream = stopped.pour(wanted("studio")).expect("poured");
    stopped.put(stream, b"the beginning").expect("put");
    let mut viewer = get(&rig, "studio", "1.1");
    rig.await_metric("reel_pour_viewers", |viewers| viewers == 1.0);
    stopped.put(stream, b"and more").expect("put");
    let mut head = [0; 12];
    viewer.read_exact(&mut head).expect("a head");
    assert_eq!(&head, b"HTTP/1.1 200");
    let mut next = Client::connect(&rig.socket()).expect("connected");
    match next.pour(wanted("studio")) {
        Err(ClientError::Refused { text, .. }) => assert!(text.contains("is being poured already"), "{text}"),
        other => panic!("{other:?}"),
    }
    // Windows of 41 MB (the workahead, and twice the delay) do not fit twice.
    match next.pour(wanted("other")) {
        Err(ClientError::Refused { text, .. }) => assert!(text.contains("free"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert_eq!((rig.metric("reel_pours"), rig.metric("reel_pour_viewers")), (1.0, 1.0));
    drop(stopped);
    rig.await_metric("reel_pours_broken_total", |broken| broken == 1.0);
    let mut rest = Vec::new();
    // It may end with a reset.
    let _ = viewer.read_to_end(&mut rest);
    assert!(!rest.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&rest));
    assert!(next.pour(wanted("studio")).is_ok());
}
