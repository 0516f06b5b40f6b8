//! Media memory shared by many clients. Clients that read nothing hold none, and neither do clients
//! that have left.

use crate::server::rig::{Client, DRIVERS, Rig, head};
use reel_disk::Fault;

const FILM: &str = "GET /files/film.mp4";

fn start(mut client: Client) -> (Client, usize) {
    client.send(head(FILM, "").as_bytes());
    let answer = client.answer_head();
    assert_eq!(answer.status, 200);
    (client, answer.announced_bytes())
}

#[test]
fn clients_that_vanish_hold_no_memory() {
    for driver in DRIVERS {
        let rig = Rig::new(|config| config.driver = driver);
        let clients: Vec<_> = (0..8).map(|_| start(rig.connect_narrow())).collect();
        rig.await_metric("reel_buffers_reserved", |reserved| reserved > 0.0);
        for (mut client, _) in clients {
            assert!(client.read(1000) == rig.film[..1000]);
        }
        rig.await_metric("reel_buffers_reserved", |reserved| reserved == 0.0);
        // The connection of the metrics request is handed over to the control plane and no longer
        // counted.
        rig.await_metric("reel_http_connections", |open| open == 0.0);
        assert_eq!(rig.metric("reel_readers_waiting"), 0.0);
    }
}

#[test]
fn clients_that_read_nothing_do_not_stop_the_others() {
    for driver in DRIVERS {
        // Memory for two stripes at a time.
        let rig = Rig::with_memory(0, |config| config.driver = driver);
        let stalled: Vec<_> = (0..12).map(|_| start(rig.connect_narrow())).collect();
        for _ in 0..2 {
            assert!(rig.connect().ask(FILM, "").body == rig.film);
        }
        std::thread::scope(|scope| {
            for (mut client, bytes) in stalled {
                let rig = &rig;
                scope.spawn(move || assert!(client.read(bytes) == rig.film));
            }
        });
        rig.await_metric("reel_buffers_reserved", |reserved| reserved == 0.0);
        assert!(rig.metric("reel_readers_released_total") > 0.0);
        assert_eq!(rig.metric("reel_readers_waiting"), 0.0);
    }
}

#[test]
fn eighty_clients_that_read_nothing_do_not_delay_four_others() {
    for memory in [0, 64 << 20] {
        let rig = Rig::with_memory(memory, |_| {});
        let stalled: Vec<_> = (0..80).map(|_| start(rig.connect_narrow())).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert!(rig.connect().ask(FILM, "").body == rig.film));
            }
        });
        drop(stalled);
        rig.await_metric("reel_buffers_reserved", |reserved| reserved == 0.0);
        assert_eq!(rig.metric("reel_readers_waiting"), 0.0);
    }
}

/// Every stripe has a row to decode, there are more viewers than memory, and each viewer is at
/// another place of the title.
#[test]
fn wrong_data_of_a_member_and_little_memory_do_not_stop_a_response() {
    let rig = Rig::with_memory(0, |config| config.serve_threads = 4);
    rig.faults.inject(1, Fault::CorruptReads);
    std::thread::scope(|scope| {
        for viewer in 0..8 {
            let rig = &rig;
            scope.spawn(move || {
                let from = rig.film.len() / 10 * viewer;
                let answer = rig.connect().ask(FILM, &format!("Range: bytes={from}-\r\n"));
                assert!(answer.body == rig.film[from..]);
            });
        }
    });
    assert!(rig.metric("reel_volume_rows_decoded_total") > 0.0);
    rig.await_metric("reel_buffers_reserved", |reserved| reserved == 0.0);
    assert_eq!(rig.metric("reel_http_responses_cut_total"), 0.0);
}
