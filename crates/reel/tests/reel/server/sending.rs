//! How bytes get into sockets: what the kernel reports is counted, and decides how later bytes are
//! sent.

use crate::server::rig::{DRIVERS, Rig, head};
use reel_ring::{DriverChoice, Ring, RingConfig};
use std::time::Instant;

const FILM: &str = "GET /files/film.mp4";

/// Media memory of which a part may be lent.
const LARGE_BYTES: usize = 192 << 20;

/// What a client with a narrow window reads. Its kernel opens the window by some kilobytes every
/// 200 ms after it was closed.
const LATE_BYTES: usize = 200 * 1024;

fn sent(rig: &Rig, how: &str) -> f64 {
    rig.metric(&format!("reel_sent_bytes_total{{how=\"{how}\"}}"))
}

fn tries(driver: DriverChoice) -> bool {
    driver == DriverChoice::Auto
        && Ring::new(RingConfig { entries: 8, driver }, None).expect("a ring").sends_zero_copy()
}

#[test]
fn a_local_socket_is_probed_once_and_copied_to_afterwards() {
    for driver in DRIVERS {
        let rig = Rig::with_memory(LARGE_BYTES, |config| config.driver = driver);
        let begun = Instant::now();
        let mut client = rig.connect();
        for _ in 0..4 {
            assert!(client.ask(FILM, "").body == rig.film, "every byte is right, however it was sent");
        }
        rig.await_metric("reel_sent_bytes_total", |bytes| bytes >= 4.0 * rig.film.len() as f64);
        assert_eq!(sent(&rig, "zero_copy"), 0.0, "loopback copies");
        let late = sent(&rig, "copied_late");
        if tries(driver) {
            // It is tried again after a second at the earliest, which a busy machine takes.
            let tries = 1 + begun.elapsed().as_secs();
            let most = 65_536.0 * tries as f64;
            assert!(late > 0.0 && late <= most, "{tries} tries, as small as they may be: {late}");
        } else {
            assert_eq!(late, 0.0);
        }
        assert_eq!(rig.metric("reel_zero_copy_refused_total"), 0.0);
    }
}

#[test]
fn with_little_memory_nothing_is_lent() {
    let rig = Rig::new(|_| {});
    assert!(rig.connect().ask(FILM, "").body == rig.film);
    // A core counts sent bytes in a later section, which may be after the client has them.
    rig.await_metric("reel_sent_bytes_total", |bytes| bytes >= rig.film.len() as f64);
    assert_eq!(sent(&rig, "copied_late") + sent(&rig, "zero_copy"), 0.0);
    assert!(sent(&rig, "copied") >= rig.film.len() as f64);
}

#[test]
fn without_zero_copy_nothing_is_lent() {
    let rig = Rig::with_memory(LARGE_BYTES, |config| config.zero_copy = false);
    assert!(rig.connect().ask(FILM, "").body == rig.film);
    rig.await_metric("reel_sent_bytes_total", |bytes| bytes >= rig.film.len() as f64);
    assert_eq!(sent(&rig, "copied_late") + sent(&rig, "zero_copy"), 0.0);
    assert!(sent(&rig, "copied") >= rig.film.len() as f64);
    // Admission learns its price from the time that this took.
    for threads in ["http", "disk"] {
        let taken = format!("reel_threads_processor_seconds{{threads=\"{threads}\"}}");
        rig.await_metric(&taken, |seconds| seconds > 0.0);
    }
    rig.await_metric("reel_send_mib_seconds{front_end=\"http\"}", |seconds| seconds > 0.0);
}

#[test]
fn a_client_that_stops_reading_during_a_probe_delays_no_other_and_holds_no_memory() {
    let rig = Rig::with_memory(LARGE_BYTES, |_| {});
    let mut stalled: Vec<_> = (0..6)
        .map(|_| {
            let mut client = rig.connect_narrow();
            client.send(head(FILM, "").as_bytes());
            assert_eq!(client.answer_head().status, 200);
            client
        })
        .collect();
    assert!(rig.connect().ask(FILM, "").body == rig.film);
    // One client reads on and gets its bytes, however long ago they were sent.
    let mut late = stalled.pop().expect("six of them");
    assert!(late.read(LATE_BYTES) == rig.film[..LATE_BYTES]);
    drop((stalled, late));
    rig.await_metric("reel_http_connections", |open| open == 0.0);
    rig.await_metric("reel_arena_pieces{state=\"sending\"}", |pieces| pieces == 0.0);
}
