//! Requests over a limit are refused with a reason, and succeed when there is room again.

use crate::server::rig::{Client, DRIVERS, Rig, head, patient, socket_from};
use reel_http::limits::ASIDE_CONNECTIONS_MAX;
use reel_qos::ClientShare;
use reel_serve::PlaceShares;
use rustix::event::{PollFd, PollFlags, poll};
use std::cell::RefCell;
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn connections_over_the_limit_are_refused_with_a_time_to_ask_again() {
    for driver in DRIVERS {
        let rig = Rig::new(|config| {
            config.driver = driver;
            config.connections_max = 3;
        });
        // Connections with a response under way stay. The answer shows that they were taken.
        let mut held: Vec<_> = (0..3).map(|_| playing(rig.connect_narrow())).collect();
        let mut fourth = rig.connect();
        let answer = fourth.ask(GET, "");
        assert_eq!((answer.status, answer.field("Retry-After")), (503, Some("5")));
        assert!(fourth.rest().is_empty());
        // One that says nothing learns it a little later.
        let mut silent = rig.connect();
        assert_eq!(silent.answer(false).status, 503);
        assert!(silent.rest().is_empty());
        assert!(held[1].read(rig.film.len()) == rig.film, "an accepted client stays connected");
        assert_eq!(held[1].ask(HEAD, "").status, 200);
        drop(held.pop());
        // Its place is free as soon as the server has noticed that it left.
        while rig.connect().try_status(HEAD) != Some(200) {}
        drop(held);
        // Every accepted connection is counted down again. Otherwise there would never be room for
        // three.
        let three_are_in = || {
            let mut held: Vec<_> = (0..3).map(|_| rig.connect()).collect();
            held.iter_mut().all(|client| client.try_status(HEAD) == Some(200))
        };
        while !three_are_in() {}
    }
}

/// What watches the server is answered when all connections are taken, and many are silent beyond.
#[test]
fn health_is_answered_when_all_connections_are_taken() {
    for driver in DRIVERS {
        let rig = Rig::new(|config| {
            config.driver = driver;
            config.connections_max = 3;
        });
        let held: Vec<_> = (0..3).map(|_| playing(rig.connect_narrow())).collect();
        let silent: Vec<_> = (0..2 * ASIDE_CONNECTIONS_MAX).map(|_| rig.connect()).collect();
        for path in ["/healthz", "/readyz", "/metrics"] {
            let answer = rig.connect().ask(&format!("GET {path}"), "");
            assert_eq!(answer.status, 200, "{path}: {}", answer.head);
        }
        assert_eq!(rig.connect().ask("GET /api/v1/titles", "").status, 503);
        // The oldest of the silent ones was refused for the newest.
        let refused = silent.into_iter().next().expect("there are some").answer(false);
        assert_eq!(refused.status, 503);
        drop(held);
    }
}

/// One client takes all connections that one client may have. Another one is served.
#[test]
fn a_client_with_its_share_of_connections_is_refused_and_others_are_not() {
    let rig = Rig::new(|config| {
        config.connections_max = 16;
        config.control.shares = sharing();
    });
    let mut held: Vec<Client> = (0..12).map(|_| playing(rig.connect_from(2))).collect();
    let refused = rig.connect_from(2).ask(GET, "");
    assert_eq!((refused.status, refused.field("Retry-After")), (429, Some("5")));
    assert!(String::from_utf8_lossy(&refused.body).contains("this client has 12 connections"));
    assert_eq!(rig.connect_from(3).ask(HEAD, "").status, 200);
    drop(held.pop());
    // Its place is free as soon as the server has noticed that it left.
    while rig.connect_from(2).try_status(HEAD) != Some(200) {}
}

/// Connections without a request end for new ones: those of the client itself if it has its share,
/// else those of the client that has the most.
#[test]
fn quiet_connections_make_room_for_new_ones_and_playing_ones_stay() {
    for driver in DRIVERS {
        // Threads learn at different times that their connections are quiet. Only one thread alone
        // knows them in the order in which they were answered.
        for serve_threads in [1, 2] {
            let rig = Rig::new(|config| {
                config.driver = driver;
                config.serve_threads = serve_threads;
                config.connections_max = 16;
                config.control.shares = sharing();
            });
            let mut playing_one = playing(rig.connect_from(2));
            let mut quiet: Vec<Quiet> = (0..11).map(|_| Quiet::new(&rig, 2)).collect();
            // A new connection of the same client.
            quiet.push(Quiet::new(&rig, 2));
            let first = remove_ended(&mut quiet);
            // All places are taken.
            let mut others: Vec<Quiet> = (3..8).map(|number| Quiet::new(&rig, number)).collect();
            let second = remove_ended(&mut quiet);
            if serve_threads == 1 {
                assert_eq!((first, second), (0, 0), "the one that was quiet for the longest ends");
            }
            for other in quiet.iter_mut().chain(&mut others) {
                assert_eq!(other.client.ask(HEAD, "").status, 200, "the others stay");
            }
            assert!(playing_one.read(rig.film.len()) == rig.film);
        }
    }
}

/// A connection that was answered, and waits.
struct Quiet {
    client: Client,
    /// To see whether it has ended.
    socket: TcpStream,
}

impl Quiet {
    fn new(rig: &Rig, number: u8) -> Quiet {
        let stream = patient(socket_from(number, rig.address()));
        let socket = stream.try_clone().expect("a second descriptor");
        let mut client = Client::on(stream);
        assert_eq!(client.ask(HEAD, "").status, 200);
        Quiet { client, socket }
    }
}

/// Waits until one of these connections has ended, and returns its place among them.
fn remove_ended(quiet: &mut Vec<Quiet>) -> usize {
    let mut sockets: Vec<_> = quiet.iter().map(|quiet| PollFd::new(&quiet.socket, PollFlags::IN)).collect();
    poll(&mut sockets, None).expect("polled");
    let place = sockets.iter().position(|socket| !socket.revents().is_empty()).expect("one");
    drop(sockets);
    assert!(quiet.remove(place).client.rest().is_empty());
    place
}

const HEAD: &str = "HEAD /files/film.mp4";
const GET: &str = "GET /files/film.mp4";

/// A connection with a response under way, whose head was read.
fn playing(mut client: Client) -> Client {
    client.send(head("GET /files/film.mp4", "").as_bytes());
    assert_eq!(client.answer_head().status, 200);
    client
}

/// One client may hold three times what it leaves free, also on this machine.
pub(crate) fn sharing() -> PlaceShares {
    PlaceShares { share: ClientShare::permille(750), binds_loopback: true, ..PlaceShares::default() }
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

/// Something that watches a page, such as a checker of links, keeps no place for its viewer.
#[test]
fn head_is_no_sign_of_life_of_a_session() {
    let rig = Rig::new(|config| config.session_idle = Duration::from_secs(2));
    let session = rig.session();
    let client = RefCell::new(rig.connect());
    let look = || client.borrow_mut().ask(&format!("HEAD {session}0/1.m4s"), "").status;
    rig.await_metric("reel_sessions", |sessions| look() == 200 && sessions == 0.0);
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
