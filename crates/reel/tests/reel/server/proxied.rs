//! Clients behind a reverse proxy.

use crate::server::misuse::{promising_with, text};
use crate::server::rig::{Answer, Client, DRIVERS, Rig, head, patient, socket_from};
use reel_library::{IngestOptions, Input};
use reel_play::UplinkRate;
use reel_serve::{AllowedClients, ClassRights, Proxies};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const CLIENT: &str = "192.0.2.7";
const NAMED: &[u8] = b"PROXY TCP4 192.0.2.7 192.0.2.1 40000 443\r\n";
const OPEN: &str = "GET /watch/film/master.m3u8";

/// A server that believes this machine's proxies, or none.
fn rig(believes: bool) -> Rig {
    let proxies = if believes { vec!["127.0.0.1".parse().expect("a range")] } else { Vec::new() };
    promising_with(64 << 20, 100, |config| config.control.proxies = Proxies::new(proxies))
}

/// A connection that begins with these bytes.
fn after(rig: &Rig, first: &[u8]) -> Client {
    let mut client = rig.connect();
    client.send(first);
    client
}

/// The clients of the sessions that the dashboard shows, oldest first.
fn clients(rig: &Rig) -> Vec<String> {
    let dashboard = rig.connect().ask("GET /api/v1/dashboard", "");
    let dashboard: Value = serde_json::from_slice(&dashboard.body).expect("JSON");
    let sessions = dashboard["sessions"].as_array().expect("a list").iter();
    sessions.map(|session| session["client"].as_str().expect("an address").to_owned()).collect()
}

fn open(client: &mut Client, forwarded: &str) -> Answer {
    client.ask(OPEN, &format!("X-Forwarded-For: {forwarded}\r\n"))
}

#[test]
fn a_proxy_names_its_clients_and_no_other_address_does() {
    let rig = rig(true);
    assert_eq!(after(&rig, NAMED).ask(OPEN, "").status, 307);
    let mut proxy = rig.connect();
    for client in ["192.0.2.8", "203.0.113.1, 2001:db8::9"] {
        assert_eq!(open(&mut proxy, client).status, 307);
    }
    assert_eq!(proxy.ask(OPEN, "").status, 307);
    assert_eq!(clients(&rig), [CLIENT, "192.0.2.8", "2001:db8::9", "127.0.0.1"]);

    let rig = self::rig(false);
    assert_eq!(after(&rig, NAMED).ask(OPEN, "").status, 505, "no request of HTTP");
    assert_eq!(open(&mut rig.connect(), CLIENT).status, 307);
    assert_eq!(clients(&rig), ["127.0.0.1"]);
}

#[test]
fn the_control_plane_knows_the_same_clients() {
    let rig = rig(true);
    let (post, body) = ("POST /api/v1/sessions", "{\"title\": \"film\"}");
    let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    assert_eq!(after(&rig, NAMED).ask_with(post, &fields, body).status, 201);
    let forwarded = format!("{fields}X-Forwarded-For: 192.0.2.8\r\n");
    assert_eq!(rig.connect().ask_with(post, &forwarded, body).status, 201);
    assert_eq!(clients(&rig), [CLIENT, "192.0.2.8"]);
}

#[test]
fn a_header_in_pieces_is_read_and_a_wrong_one_is_refused() {
    let rig = rig(true);
    let mut client = after(&rig, &NAMED[..3]);
    std::thread::sleep(Duration::from_millis(20));
    client.send(&NAMED[3..]);
    assert_eq!(client.ask(OPEN, "").status, 307);
    let mut client = after(&rig, b"PROXY TCP4 nonsense\r\n");
    assert_eq!(client.answer(false).status, 400);
}

#[test]
fn a_header_that_comes_twice_or_after_a_request_is_none() {
    let rig = rig(true);
    // Only the first one is one. The second is the head of a request, and not a valid one.
    let mut client = after(&rig, &[NAMED, NAMED].concat());
    client.send(b"Host: reel\r\n\r\n");
    assert_eq!(client.answer(false).status, 505);
    let mut client = rig.connect();
    assert_eq!(client.ask(OPEN, "").status, 307);
    client.send(NAMED);
    client.send(b"Host: reel\r\n\r\n");
    assert_eq!(client.answer(false).status, 505);
    assert_eq!(clients(&rig), ["127.0.0.1"]);
    // One that is cut holds nothing, and what ends there is no request.
    for cut in [1, 12, NAMED.len() - 1] {
        let stream = TcpStream::connect(rig.address()).expect("connected");
        (&stream).write_all(&NAMED[..cut]).expect("sent");
        stream.shutdown(std::net::Shutdown::Write).expect("ended");
        let mut answer = Vec::new();
        patient(stream).read_to_end(&mut answer).expect("it ends");
        assert!(answer.is_empty(), "{cut}: {}", String::from_utf8_lossy(&answer));
    }
}

#[test]
fn the_clients_of_forwarded_are_known_to_media_and_to_the_control_plane() {
    let rig = rig(true);
    let (post, body) = ("POST /api/v1/sessions", "{\"title\": \"film\"}");
    let json = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let last = "Forwarded: for=203.0.113.9;proto=https, for=\"[2001:db8::9]:4711\"\r\n";
    assert_eq!(rig.connect().ask(OPEN, last).status, 307);
    assert_eq!(rig.connect().ask_with(post, &format!("{json}{last}"), body).status, 201);
    // Several fields are one list, and the field that most proxies write counts before it.
    let two = "Forwarded: for=203.0.113.9\r\nForwarded: for=192.0.2.8\r\n";
    let both = "Forwarded: for=203.0.113.9\r\nX-Forwarded-For: 192.0.2.7\r\n";
    for fields in [two, both] {
        assert_eq!(rig.connect().ask(OPEN, fields).status, 307);
        assert_eq!(rig.connect().ask_with(post, &format!("{json}{fields}"), body).status, 201);
    }
    let [two, both] = [["192.0.2.8"; 2], [CLIENT; 2]];
    assert_eq!(clients(&rig), [["2001:db8::9"; 2], two, both].concat());

    let rig = self::rig(false);
    assert_eq!(rig.connect().ask(OPEN, last).status, 307);
    assert_eq!(clients(&rig), ["127.0.0.1"], "from an address that is no proxy");
}

/// One viewer behind the proxy takes all that one client may have. Another one is admitted.
#[test]
fn viewers_behind_a_proxy_have_shares_of_their_own() {
    let rig = rig(true);
    let mut proxy = rig.connect();
    let mut refused = (0..64).map(|_| open(&mut proxy, CLIENT)).filter(|answer| answer.status != 307);
    let refused = refused.next().expect("it has its share");
    assert!(
        refused.status == 429 && text(&refused).contains("the share of this client"),
        "{}",
        text(&refused)
    );
    assert_eq!(open(&mut proxy, "192.0.2.8").status, 307);
    // The proxy itself speaks for many viewers.
    let stream = patient(TcpStream::connect(rig.address()).expect("connected"));
    assert_eq!(Client::on(stream).ask(OPEN, "").status, 307);
}

#[test]
fn a_client_elsewhere_gets_the_classes_that_are_for_it() {
    const INTERACTIVE: &str = "GET /watch/film/master.m3u8?class=interactive";
    let rig = rig(true);
    let from = |client: &str| format!("X-Forwarded-For: {client}\r\n");
    for (class, status) in [("periodic", 307), ("aperiodic", 307), ("interactive", 403), ("none", 400)] {
        let request = format!("{OPEN}?class={class}");
        assert_eq!(rig.connect().ask(&request, &from(CLIENT)).status, status, "{class}");
    }
    let refused = rig.connect().ask(INTERACTIVE, &from(CLIENT));
    assert!(text(&refused).contains("the class interactive is not for this client"), "{}", text(&refused));
    assert_eq!(rig.connect().ask(INTERACTIVE, "").status, 307, "this machine may");

    let allowed = AllowedClients::At(vec!["192.0.2.0/24".parse().expect("a range")]);
    let rig = promising_with(64 << 20, 100, |config| {
        config.control.proxies = Proxies::new(vec!["127.0.0.1".parse().expect("a range")]);
        config.class_rights = ClassRights::new([("interactive".to_owned(), allowed)]);
    });
    for (client, status) in [(CLIENT, 307), ("198.51.100.1", 403)] {
        assert_eq!(rig.connect().ask(INTERACTIVE, &from(client)).status, status, "{client}");
    }
}

/// Other viewers have the rest of the network for some seconds. The client may wait for that, but
/// it has its share then: the answer is the same as if the rest were free.
#[test]
fn a_client_that_would_wait_for_more_than_its_share_is_told_of_the_share() {
    let mut rig = promising_with(256 << 20, 100, |config| {
        config.control.proxies = Proxies::new(vec!["127.0.0.1".parse().expect("a range")]);
        (config.promise.network_bps, config.promise.start_wait_s) = (Some(4_000_000), 30);
        config.promise.uplink = UplinkRate::Known(4_000_000);
    });
    rig.stop();
    ingest(&rig, "long", 120);
    ingest(&rig, "short", 6);
    rig.start();
    let mut proxy = rig.connect();
    let watch = |proxy: &mut Client, title: &str, client: &str| {
        let request = format!("GET /watch/{title}/master.m3u8");
        proxy.ask(&request, &format!("X-Forwarded-For: {client}\r\n"))
    };
    let opened = (0..60).take_while(|_| watch(&mut proxy, "long", CLIENT).status == 307).count();
    assert!((4..60).contains(&opened), "{opened} streams are the share of one client");
    assert!(wait_for_a_start(&rig, "short", 1).is_some(), "the rest of the network is used");
    let refused = watch(&mut proxy, "long", CLIENT);
    assert!(
        refused.status == 429 && text(&refused).contains("the share of this client"),
        "{}",
        text(&refused)
    );
}

/// What a proxy on this machine is sent leaves the machine again, so it waits for the link. What a
/// program on it is sent does not.
#[test]
fn what_a_gateway_on_this_machine_is_sent_waits_for_the_link() {
    for is_gateway in [true, false] {
        let rig = promising_with(64 << 20, 100, |config| {
            if is_gateway {
                let gateways = || vec!["127.0.0.9".parse().expect("a range")];
                config.control.proxies = Proxies::default().with_gateways(gateways());
                config.gateways = gateways();
            }
            // So slow that the film would take minutes.
            (config.promise.network_bps, config.promise.uplink) = (Some(20_000), UplinkRate::Known(20_000));
        });
        let mut client = Client::on(patient(socket_from(9, rig.address())));
        if is_gateway {
            client.send(head("GET /files/film.mp4?download", "").as_bytes());
            rig.await_metric("reel_uplink_waiting", |waiting| waiting == 1.0);
        } else {
            assert!(client.ask("GET /files/film.mp4?download", "").body == rig.film);
        }
    }
}

/// Ingests a film of a low rate that lasts so many seconds.
fn ingest(rig: &Rig, name: &str, seconds: u32) {
    let source = rig.path(&format!("{name}.mp4"));
    let status = std::process::Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-f", "lavfi", "-i"])
        .arg(format!("testsrc2=size=320x180:rate=5:duration={seconds}"))
        .args(["-c:v", "libx264", "-preset", "ultrafast", "-g", "20", "-pix_fmt", "yuv420p"])
        .arg(&source)
        .status();
    assert!(status.expect("ffmpeg is installed").success());
    let named = IngestOptions { name: Some(name.to_owned()), ..IngestOptions::default() };
    rig.library.ingest(&[Input::new(source)], &named, &mut |_| {}).expect("taken");
}

/// Opens sessions of different clients until one of them has to wait so long for its start, and
/// returns the path of its files.
fn wait_for_a_start(rig: &Rig, title: &str, wait_s: u64) -> Option<String> {
    let body = format!("{{\"title\": \"{title}\"}}");
    (1..60).find_map(|number| {
        let fields = format!(
            "X-Forwarded-For: 198.51.100.{number}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
        let session = rig.connect().ask_with("POST /api/v1/sessions", &fields, &body);
        assert_eq!(session.status, 201, "{}", text(&session));
        let session: Value = serde_json::from_slice(&session.body).expect("JSON");
        let waits = session["starts_in_s"].as_u64().expect("a number") >= wait_s;
        waits.then(|| format!("/s/{}/", session["key"].as_str().expect("a key")))
    })
}

/// A client that closes its connection while its answer waits for the start gives its room to
/// others at once. A player that waits on another connection, too, keeps it.
#[test]
fn a_client_that_leaves_while_its_answer_waits_holds_nothing_any_more() {
    for driver in DRIVERS {
        let mut rig = promising_with(256 << 20, 100, |config| {
            config.driver = driver;
            config.control.proxies = Proxies::new(vec!["127.0.0.1".parse().expect("a range")]);
            (config.promise.network_bps, config.promise.start_wait_s) = (Some(4_000_000), 600);
            config.promise.uplink = UplinkRate::Known(4_000_000);
        });
        rig.stop();
        ingest(&rig, "short", 300);
        rig.start();
        // Long enough that the start does not come before the end of the test, on any machine.
        let session = wait_for_a_start(&rig, "short", 200).expect("the network is used");
        let key = session.split('/').nth(2).expect("a key").to_owned();
        let asks = || {
            let mut client = rig.connect();
            client.send(head(&format!("GET {session}0/1.m4s"), "").as_bytes());
            client
        };
        let (first, second) = (asks(), asks());
        // Clients that have left are looked for four times a second.
        let is_seen = Duration::from_secs(1);
        std::thread::sleep(is_seen);
        drop(first);
        std::thread::sleep(is_seen);
        assert!(is_reserved(&rig, &key), "it waits elsewhere");
        drop(second);
        // Otherwise it is released five seconds after its start.
        let from = Instant::now();
        while is_reserved(&rig, &key) {
            assert!(from.elapsed() < Duration::from_secs(120), "not at once");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Whether the dashboard shows that a session has a reservation.
fn is_reserved(rig: &Rig, key: &str) -> bool {
    let dashboard = rig.connect().ask("GET /api/v1/dashboard", "");
    let dashboard: Value = serde_json::from_slice(&dashboard.body).expect("JSON");
    let mut sessions = dashboard["sessions"].as_array().expect("a list").iter();
    let session = sessions.find(|session| session["key_hint"] == key[..4]).expect("it is open");
    session["reserved"].as_bool().expect("yes or no")
}
