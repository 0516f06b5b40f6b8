//! What ends while it is used: titles, and the server.

use crate::rig::{DRIVERS, Rig, head};

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
fn a_server_that_stops_finishes_what_it_has_begun() {
    for driver in DRIVERS {
        let mut rig = Rig::new(|config| config.driver = driver);
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

/// The client takes nothing: after the limit for draining it is cut off.
#[test]
fn a_server_that_stops_does_not_wait_for_ever() {
    let mut rig = Rig::new(|_| {});
    let mut client = rig.connect_narrow();
    client.send(head("GET /files/film.mp4", "").as_bytes());
    let bytes = client.answer_head().announced_bytes();
    rig.stop();
    let taken = client.rest();
    assert!(taken.len() < bytes && rig.film.starts_with(&taken));
    rig.reopen();
}
