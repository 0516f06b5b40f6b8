//! The data plane over TLS: the same bytes, the same limits, and a certificate that changes while
//! clients are connected.

use crate::server::files::take;
use crate::server::limits::sharing;
use crate::server::rig::{Client, DRIVERS, Rig, admitting, narrow, patient, socket_from};
use reel::server::TlsConfig;
use reel_http::CertificateFiles;
use reel_http::limits::HANDSHAKES_MAX;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion, version};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const BOTH: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];

/// A server with a TLS certificate of its own, in a directory that outlives it.
struct Secured {
    rig: Rig,
    dir: tempfile::TempDir,
}

impl Secured {
    fn new(change: impl FnOnce(&mut reel::server::ServeConfig)) -> Self {
        let dir = tempfile::tempdir().expect("tempdir");
        let files = files(dir.path(), Some(vec!["localhost".to_owned()]));
        let rig = Rig::new(|config| {
            let listen = SocketAddr::from(([127, 0, 0, 1], 0));
            config.tls = Some(TlsConfig { listen, files, http2: true, handshakes_max: HANDSHAKES_MAX });
            change(config);
        });
        Secured { rig, dir }
    }

    fn certificate(&self) -> PathBuf {
        self.dir.path().join("certificate.pem")
    }

    fn connect(&self, version: &'static SupportedProtocolVersion) -> Client {
        Client::on(self.shake_hands(patient(self.tcp()), version))
    }

    fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.rig.tls_address()).expect("connected")
    }

    /// A client that trusts only the certificate that is in the directory now.
    fn shake_hands(
        &self,
        socket: TcpStream,
        version: &'static SupportedProtocolVersion,
    ) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.certificate()).expect("a certificate")).expect("usable");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .expect("a version")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().expect("a name");
        let session = ClientConnection::new(Arc::new(config), name).expect("a client");
        let mut stream = StreamOwned::new(session, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).expect("a handshake");
        }
        stream
    }
}

fn files(dir: &Path, generate_for: Option<Vec<String>>) -> CertificateFiles {
    CertificateFiles { certificate: dir.join("certificate.pem"), key: dir.join("key.pem"), generate_for }
}

#[test]
fn the_same_bytes_arrive_with_and_without_tls() {
    for driver in DRIVERS {
        let secured = Secured::new(|config| config.driver = driver);
        let film = &secured.rig.film;
        for version in BOTH {
            // All over one connection: it stays open between requests.
            let mut client = secured.connect(version);
            let answer = client.ask("GET /files/film.mp4", "");
            assert_eq!((answer.status, answer.body == *film), (200, true));
            for (from, to) in [(0, 0), (1, 300_000), (film.len() - 5, film.len() - 1)] {
                let answer = client.ask("GET /files/film.mp4", &format!("Range: bytes={from}-{to}\r\n"));
                assert_eq!((answer.status, answer.body == film[from..=to]), (206, true), "{from}-{to}");
            }
            let head = client.ask("HEAD /files/film.mp4", "");
            assert_eq!((head.status, head.announced_bytes()), (200, film.len()));
            assert_eq!(client.ask("GET /watch/film/master.m3u8", "").status, 307);
            let last = client.ask("GET /files/film.mp4", "Connection: close\r\n");
            assert!(last.body == *film);
            assert!(client.rest().is_empty(), "the end is said, or rustls would call it cut off");
        }
        let metric = |name| secured.rig.metric(name);
        assert_eq!((metric("reel_tls_handshakes_total"), metric("reel_tls_failures_total")), (2.0, 0.0));
    }
}

/// The alert that ends a connection comes after the last byte, not after what has come so far.
#[test]
fn a_poured_stream_is_sealed_while_it_comes() {
    let secured = Secured::new(|_| {});
    let mut program = reel_client::Client::connect(&secured.rig.socket()).expect("connected");
    for version in BOTH {
        let wanted = reel_client::PourWanted {
            name: "studio".to_owned(),
            content_type: "audio/L16".to_owned(),
            bytes_per_s: 10_000_000,
            workahead_bytes: 1_000_000,
            delay_ns: 1_000_000_000,
        };
        let stream = program.pour(wanted).expect("poured");
        let mut viewer = secured.shake_hands(patient(secured.tcp()), version);
        viewer.write_all(b"GET /live/studio HTTP/1.0\r\n\r\n").expect("sent");
        secured.rig.await_metric("reel_pour_viewers", |viewers| viewers == 1.0);
        let mut got = Vec::new();
        for part in 0..3_u8 {
            program.put(stream, &[part; 50_000]).expect("put");
            let mut some = [0; 1000];
            // Each part comes before the next one is poured.
            while got.iter().filter(|byte| **byte == part).count() < 50_000 {
                let bytes = viewer.read(&mut some).expect("more comes");
                assert!(bytes > 0, "it has not ended");
                got.extend_from_slice(&some[..bytes]);
            }
        }
        program.end_pour(stream).expect("ended");
        assert_eq!(viewer.read(&mut [0]).expect("the end is said"), 0);
    }
}

/// What is sealed is watched as what is not.
#[test]
fn a_player_of_a_file_is_admitted_over_tls() {
    let secured = Secured::new(admitting);
    let mut client =
        Client::on(secured.shake_hands(patient(narrow(secured.rig.tls_address())), &version::TLS13));
    client.send(crate::server::rig::head("GET /dav/play/film.mp4", "Range: bytes=0-\r\n").as_bytes());
    let answer = client.answer_head();
    assert!(take(&mut client, &answer, Duration::from_millis(2500)) == secured.rig.film);
    let metric = |name| secured.rig.metric(name);
    assert_eq!((metric("reel_http_readers_admitted_total"), metric("reel_sessions")), (1.0, 1.0));
}

#[test]
fn a_request_that_is_not_for_media_is_handed_over_with_its_keys() {
    let secured = Secured::new(|_| {});
    for version in BOTH {
        // After media, and with the body of its request in later records.
        let mut client = secured.connect(version);
        assert_eq!(client.ask("GET /files/film.mp4", "Range: bytes=0-99\r\n").body.len(), 100);
        let answer = client.ask_with(
            "POST /api/v1/sessions",
            "Content-Type: application/json\r\nContent-Length: 16\r\n",
            "{\"title\":\"film\"}",
        );
        assert_eq!((answer.status, answer.field("Connection")), (201, Some("close")), "{}", answer.head);
        assert!(client.rest().is_empty());
        let metrics = secured.connect(version).ask("GET /metrics", "");
        let text = String::from_utf8(metrics.body).expect("text");
        assert!(text.contains("reel_tls_certificate_not_after_seconds "), "{text}");
    }
}

#[test]
fn slow_clients_get_every_byte_and_keep_no_buffer_from_others() {
    let secured = Secured::new(|_| {});
    // More clients than there are buffers to seal in (31 for each of two cores here). None of them
    // reads anything.
    let slow: Vec<_> = (0..80)
        .map(|_| {
            let mut client =
                Client::on(secured.shake_hands(patient(narrow(secured.rig.tls_address())), &version::TLS13));
            client.send(crate::server::rig::head("GET /files/film.mp4", "").as_bytes());
            client
        })
        .collect();
    secured.rig.await_metric("reel_tls_parked_total", |parked| parked > 0.0);
    let quick = secured.connect(&version::TLS13).ask("GET /files/film.mp4", "");
    assert!(quick.body == secured.rig.film);
    let film = Arc::new(secured.rig.film.clone());
    let readers = slow.into_iter().map(|mut client| {
        let film = Arc::clone(&film);
        thread::spawn(move || assert!(client.answer(false).body == *film))
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.join().expect("the whole film");
    }
}

#[test]
fn clients_that_leave_in_the_middle_release_their_buffers() {
    let mut secured = Secured::new(|_| {});
    for round in 0..60 {
        let mut stream = secured.shake_hands(patient(narrow(secured.rig.tls_address())), BOTH[round % 2]);
        stream.write_all(crate::server::rig::head("GET /files/film.mp4", "").as_bytes()).expect("sent");
        let mut first = [0; 1000];
        stream.read_exact(&mut first).expect("the beginning");
    }
    secured.rig.await_metric("reel_http_connections", |open| open == 0.0);
    let whole = secured.connect(&version::TLS13).ask("GET /files/film.mp4", "");
    assert!(whole.body == secured.rig.film);
    secured.rig.stop();
    secured.rig.reopen();
}

#[test]
fn a_client_without_tls_gets_an_answer_and_does_not_disturb_others() {
    let secured = Secured::new(|_| {});
    let mut viewer = secured.connect(&version::TLS13);
    viewer.send(crate::server::rig::head("GET /files/film.mp4", "").as_bytes());
    let mut plain = secured.tcp();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: reel\r\n\r\n").expect("sent");
    let mut answer = String::new();
    plain.read_to_string(&mut answer).expect("an answer");
    assert!(
        answer.starts_with("HTTP/1.1 400 ") && answer.contains("begin the address with https://"),
        "{answer}"
    );
    let length = answer.split_once("\r\n\r\n").expect("a body").1.len();
    assert!(answer.contains(&format!("Content-Length: {length}\r\n")), "{answer}");
    for garbage in [
        b"\x16\x03\x01\xff\xff".to_vec(),
        b"\x80\x2e\x01\x00\x02".to_vec(),
        vec![0; 20_000],
        b"\x16\x03\x01\x00\x04\x01\x00\x00\x00".to_vec(),
        b"\x17\x03\x03\x00\x10aaaaaaaaaaaaaaaa".to_vec(),
    ] {
        let mut stranger = secured.tcp();
        // The server may close the connection before all of it is sent.
        let _ = stranger.write_all(&garbage);
        let mut alert = Vec::new();
        let _ = stranger.read_to_end(&mut alert);
        assert!(alert.is_empty() || alert[0] == 21, "an alert or nothing: {alert:?}");
    }
    // Half a hello, half-closed and left.
    let mut half = secured.tcp();
    half.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc").expect("sent");
    half.shutdown(std::net::Shutdown::Write).expect("shut");
    assert_eq!(half.read_to_end(&mut Vec::new()).expect("the end"), 0);
    assert!(secured.rig.metric("reel_tls_failures_total") >= 5.0);
    assert!(viewer.answer(false).body == secured.rig.film);
}

#[test]
fn garbage_on_an_established_connection_ends_that_one_alone() {
    let secured = Secured::new(|_| {});
    for version in BOTH {
        let mut stream = secured.shake_hands(patient(secured.tcp()), version);
        stream.sock.write_all(b"\x17\x03\x03\x00\x20this was sealed with no key of ours").expect("sent");
        let mut rest = Vec::new();
        let error = stream.read_to_end(&mut rest).expect_err("an alert").to_string();
        assert!(error.contains("BadRecordMac"), "{error}");
    }
    assert_eq!(
        secured.connect(&version::TLS13).ask("GET /files/film.mp4", "Range: bytes=0-9\r\n").status,
        206
    );
}

#[test]
fn requests_in_pieces_and_one_after_the_other_are_understood() {
    let secured = Secured::new(|_| {});
    let mut client = secured.connect(&version::TLS13);
    for byte in crate::server::rig::head("GET /files/film.mp4", "Range: bytes=5-9\r\n").as_bytes() {
        client.send(&[*byte]);
    }
    assert!(client.answer(false).body == secured.rig.film[5..10]);
    // Two requests at once: the second is decrypted with the first.
    let request = crate::server::rig::head("GET /files/film.mp4", "Range: bytes=1-3\r\n");
    client.send(format!("{request}{request}").as_bytes());
    for _ in 0..2 {
        assert!(client.answer(false).body == secured.rig.film[1..4]);
    }
}

#[test]
fn new_clients_get_the_new_certificate_and_old_connections_stay() {
    let secured = Secured::new(|_| {});
    let mut old = secured.connect(&version::TLS13);
    let range = "Range: bytes=0-9\r\n";
    assert_eq!(old.ask("GET /files/film.mp4", range).status, 206);
    let made = reel_tls::generate(&["localhost".to_owned()], std::time::SystemTime::now()).expect("made");
    fs::write(secured.certificate(), &made.certificate).expect("written");
    fs::write(secured.dir.path().join("key.pem"), &made.key).expect("written");
    let server = secured.rig.server.as_ref().expect("running");
    assert_eq!(server.reload_certificates(), Some(true));
    // The new client trusts only the new certificate.
    assert_eq!(secured.connect(&version::TLS13).ask("GET /files/film.mp4", range).status, 206);
    assert_eq!(old.ask("GET /files/film.mp4", range).status, 206, "the old connection continues");
    assert_eq!(secured.rig.metric("reel_tls_reloads_total"), 1.0);
}

#[test]
fn a_drained_server_ends_with_clients_in_every_state() {
    let mut secured = Secured::new(|_| {});
    let silent = secured.tcp();
    let mut half = secured.tcp();
    half.write_all(b"\x16\x03\x01").expect("sent");
    let mut idle = secured.connect(&version::TLS13);
    assert_eq!(idle.ask("GET /files/film.mp4", "Range: bytes=0-9\r\n").status, 206);
    thread::sleep(Duration::from_millis(20));
    secured.rig.stop();
    for mut left in [silent, half] {
        assert_eq!(left.read(&mut [0; 10]).unwrap_or(0), 0);
    }
}

/// A renewal with a certificate that is expired, made for another key, not yet valid, malformed or
/// missing. New clients get the old certificate, and connected clients continue to play.
#[test]
fn a_certificate_that_cannot_be_used_changes_nothing_while_the_server_runs() {
    let made = |days_ago: u64| {
        let when = std::time::SystemTime::now() - Duration::from_secs(days_ago * 86_400);
        reel_tls::generate(&["localhost".to_owned()], when).expect("made")
    };
    let dir = tempfile::tempdir().expect("tempdir");
    let (good, other, old) = (made(0), made(1), made(500));
    let ahead = reel_tls::generate(
        &["localhost".to_owned()],
        std::time::SystemTime::now() + Duration::from_secs(200_000),
    )
    .expect("made");
    let put = |certificate: &str, key: &str| {
        fs::write(dir.path().join("certificate.pem"), certificate).expect("written");
        fs::write(dir.path().join("key.pem"), key).expect("written");
    };
    put(&good.certificate, &good.key);
    let files = files(dir.path(), None);
    let rig = Rig::new(|config| {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        config.tls = Some(TlsConfig { listen, files, http2: true, handshakes_max: HANDSHAKES_MAX });
    });
    let secured = Secured { rig, dir: tempfile::tempdir().expect("tempdir") };
    // The certificate that clients trust is always the good one.
    fs::write(secured.certificate(), &good.certificate).expect("written");
    let film = &secured.rig.film;
    let server = secured.rig.server.as_ref().expect("running");
    let mut viewer = Client::on(secured.shake_hands(narrow(secured.rig.tls_address()), &version::TLS13));
    viewer.send(crate::server::rig::head("GET /files/film.mp4", "").as_bytes());
    let bytes = viewer.answer_head().announced_bytes();
    let mut at = 0;
    for (number, (certificate, key)) in [
        (&old.certificate, &old.key),
        (&good.certificate, &other.key),
        (&other.certificate, &good.key),
        (&ahead.certificate, &ahead.key),
        (&"-----BEGIN CERTIFICATE-----\nnonsense\n".to_owned(), &good.key),
        (&String::new(), &String::new()),
        (&"\0".repeat(100_000), &good.key),
    ]
    .into_iter()
    .enumerate()
    {
        put(certificate, key);
        assert_eq!(server.reload_certificates(), Some(false), "case {number}");
        assert!(viewer.read(1000) == film[at..at + 1000], "case {number}");
        at += 1000;
        let newcomer = secured.connect(&version::TLS13).ask("GET /files/film.mp4", "Range: bytes=0-9\r\n");
        assert_eq!(newcomer.status, 206, "case {number}");
    }
    fs::remove_file(dir.path().join("key.pem")).expect("removed");
    assert_eq!(server.reload_certificates(), Some(false), "it is gone");
    assert!(secured.rig.metric("reel_tls_reloads_total{result=\"refused\"}") >= 8.0);
    assert!(viewer.read(bytes - at) == film[at..]);
    put(&other.certificate, &other.key);
    assert_eq!(server.reload_certificates(), Some(true), "the next good one is taken");
}

/// A proxy that passes TLS through names its client before the handshake (version 2).
#[test]
fn a_proxy_names_its_client_before_the_handshake() {
    let secured = Secured::new(|config| {
        config.control.proxies = reel_serve::Proxies::new(vec!["127.0.0.1".parse().expect("a range")]);
    });
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend([192, 0, 2, 7, 192, 0, 2, 1, 0x9c, 0x40, 1, 187]);
    for version in BOTH {
        let mut socket = patient(secured.tcp());
        socket.write_all(&header[..9]).expect("sent");
        thread::sleep(Duration::from_millis(20));
        socket.write_all(&header[9..]).expect("sent");
        let mut client = Client::on(secured.shake_hands(socket, version));
        assert_eq!(client.ask("GET /watch/film/master.m3u8", "").status, 307);
    }
    let dashboard = secured.connect(&version::TLS13).ask("GET /api/v1/dashboard", "");
    let dashboard = String::from_utf8_lossy(&dashboard.body).into_owned();
    assert_eq!(dashboard.matches("\"client\":\"192.0.2.7\"").count(), 2, "{dashboard}");
}

/// Clients that connect and send nothing make room for handshakes: first for those of the same
/// client, and when all places are taken, for those of any.
#[test]
fn silent_handshakes_make_room_for_others() {
    let secured = Secured::new(|config| {
        config.serve_threads = 1;
        config.control.shares = sharing();
        if let Some(tls) = &mut config.tls {
            tls.handshakes_max = 16;
        }
    });
    let from = |number| patient(socket_from(number, secured.rig.tls_address()));
    let mut silent: Vec<TcpStream> = (0..13).map(|_| from(2)).collect();
    assert_eq!(silent.remove(0).read(&mut [0]).expect("closed"), 0, "its client has its share");
    let _others: Vec<TcpStream> = (3..7).map(from).collect();
    let mut client = Client::on(secured.shake_hands(from(7), &version::TLS13));
    assert_eq!(silent.remove(0).read(&mut [0]).expect("closed"), 0, "its client has the most");
    assert_eq!(client.ask("HEAD /files/film.mp4", "").status, 200);
    let mut same = Client::on(secured.shake_hands(from(2), &version::TLS13));
    assert_eq!(same.ask("HEAD /files/film.mp4", "").status, 200);
    assert_eq!(secured.rig.metric("reel_http_connections_made_room_total"), 3.0);
}
