//! Joins: sessions that the server itself plays into destinations.

mod datagrams;
mod live;
mod other_machine;
mod poured;
mod replacing;
mod shared_window;

use crate::server::rig::{Answer, DRIVERS, Rig, admitting};
use reel::server::{JoinConfig, ServeConfig};
use reel_join::Target;
use reel_serve::{AllowedClients, Proxies};
use serde_json::{Value, json};
use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

/// A directory for files, and a server that may write there.
struct Joining {
    rig: Rig,
    directory: tempfile::TempDir,
}

impl Joining {
    fn new(change: impl FnOnce(&mut ServeConfig)) -> Joining {
        let directory = tempfile::tempdir().expect("tempdir");
        let join = JoinConfig { directory: Some(directory.path().to_owned()), ..JoinConfig::default() };
        let rig = Rig::new(|config| {
            config.join = join;
            change(config);
        });
        Joining { rig, directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The key of a session of the film as one file.
    fn session(&self, class: &str) -> String {
        session(&self.rig, class)
    }

    fn add(&self, key: &str, to: &str) -> Answer {
        add(&self.rig, key, &json!({ "to": to }))
    }

    /// Waits until an outlet has ended, and returns what is known of it then.
    fn ended(&self, key: &str, number: u64) -> Value {
        let (begun, path) = (Instant::now(), format!("GET /api/v1/sessions/{key}/outlets/{number}"));
        loop {
            let outlet = self.rig.connect().ask(&path, "").json();
            if outlet["state"] != "joined" {
                return outlet;
            }
            assert!(begun.elapsed() < PATIENCE, "{outlet}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn session(rig: &Rig, class: &str) -> String {
    session_of(rig, "film", class)
}

/// The key of a session of a title as one file.
fn session_of(rig: &Rig, title: &str, class: &str) -> String {
    let answer = rig.connect().ask(&format!("GET /watch/{title}/{title}.mp4?class={class}"), "");
    assert_eq!(answer.status, 307, "{}", answer.head);
    let location = answer.location().expect("a place to go");
    location.split('/').nth(2).expect("a key").to_owned()
}

fn add(rig: &Rig, key: &str, body: &Value) -> Answer {
    let body = body.to_string();
    let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    rig.connect().ask_with(&format!("POST /api/v1/sessions/{key}/outlets"), &fields, &body)
}

/// The names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("read");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The film is played in both kinds of classes, by both drivers; the file has every byte of it.
#[test]
fn a_session_is_played_into_a_file() {
    for (driver, class) in DRIVERS.into_iter().zip(["periodic", "aperiodic"]) {
        let joining = Joining::new(|config| {
            admitting(config);
            config.driver = driver;
        });
        let key = joining.session(class);
        let added = joining.add(&key, "file:copy.mp4");
        assert_eq!(added.status, 201, "{}", String::from_utf8_lossy(&added.body));
        assert_eq!(added.json()["number"], 0);
        let ended = joining.ended(&key, 0);
        assert_eq!(ended["state"], "complete", "{driver:?} {class}: {ended}");
        assert_eq!(ended["bytes"], joining.rig.film.len(), "{ended}");
        if class == "periodic" {
            // The film is longer than what a join is ahead.
            let runs = (ended["run_bytes"].as_u64(), ended["pause_ms"].as_f64());
            assert!(runs.0.is_some_and(|bytes| bytes > 0) && runs.1.is_some_and(|ms| ms > 0.0), "{ended}");
        }
        assert!(fs::read(joining.path("copy.mp4")).expect("written") == joining.rig.film, "other bytes");
        assert_eq!(names(joining.directory.path()), ["copy.mp4"]);
        // Another one begins where it is told to.
        let added = add(&joining.rig, &key, &json!({ "to": "file:rest.mp4", "from_byte": 1000 }));
        assert_eq!((added.status, &added.json()["number"]), (201, &json!(1)));
        assert_eq!(joining.ended(&key, 1)["state"], "complete");
        assert!(fs::read(joining.path("rest.mp4")).expect("written") == joining.rig.film[1000..]);
        let listed = joining.rig.connect().ask(&format!("GET /api/v1/sessions/{key}/outlets"), "").json();
        assert_eq!(listed["outlets"].as_array().map(Vec::len), Some(2), "{listed}");
        joining.rig.await_metric("reel_join_outlets", |outlets| outlets == 0.0);
        assert_eq!(joining.rig.metric("reel_join_outlets_complete_total"), 2.0);
    }
}

#[test]
fn each_refusal_says_why() {
    let joining = Joining::new(|_| {});
    fs::write(joining.path("there.mp4"), b"before").expect("written");
    std::os::unix::fs::symlink(joining.path("nowhere"), joining.path("link.mp4")).expect("linked");
    let key = joining.session("aperiodic");
    for (to, status, says) in [
        ("file:there.mp4", 409, "exists already"),
        ("file:link.mp4", 409, "exists already"),
        ("file:a/b.mp4", 422, "a slash"),
        ("file:../b.mp4", 422, "a slash"),
        ("file:..", 422, "a directory"),
        ("file:", 422, "empty"),
        ("copy.mp4", 422, "file:NAME"),
        ("fd:3", 422, "file:NAME"),
    ] {
        let refused = joining.add(&key, to);
        let detail = refused.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert!(refused.status == status && detail.contains(says), "{to}: {} {detail}", refused.status);
    }
    let beyond = json!({ "to": "file:a.mp4", "from_byte": joining.rig.film.len() + 1 });
    assert_eq!(add(&joining.rig, &key, &beyond).status, 422);
    let other = "0".repeat(key.len());
    assert_eq!(joining.add(&other, "file:a.mp4").status, 404);
    assert_eq!(joining.add("no-key", "file:a.mp4").status, 404);
    until("the end of what was begun", || names(joining.directory.path()).len() == 2);
    assert_eq!(fs::read(joining.path("there.mp4")).expect("read"), b"before");
    assert!(!joining.path("nowhere").exists(), "a link was followed");
}

/// Without a directory in the configuration nothing is possible, and the refusal names the key.
/// A proxy names the clients. By default only those on this machine may, and where clients are
/// chosen, only those.
#[test]
fn only_chosen_clients_have_sessions_played_into_destinations() {
    let chosen = || AllowedClients::At(vec!["192.0.2.0/24".parse().expect("a range")]);
    for (clients, local, elsewhere) in [(None, 201, 403), (Some(chosen()), 403, 201)] {
        let joining = Joining::new(|config| {
            config.control.proxies = Proxies::new(vec!["127.0.0.1".parse().expect("a range")]);
            config.join.clients = clients.unwrap_or_default();
        });
        for (client, status, name) in [("127.0.0.1", local, "local"), ("192.0.2.7", elsewhere, "elsewhere")] {
            let fields = format!("X-Forwarded-For: {client}\r\n");
            let opened = joining.rig.connect().ask("GET /watch/film/film.mp4?class=aperiodic", &fields);
            let location = opened.location().expect("a place to go");
            let key = location.split('/').nth(2).expect("a key");
            let body = json!({ "to": format!("file:{name}") }).to_string();
            let fields =
                format!("{fields}Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
            let request = format!("POST /api/v1/sessions/{key}/outlets");
            let added = joining.rig.connect().ask_with(&request, &fields, &body);
            let said = String::from_utf8_lossy(&added.body);
            assert_eq!(added.status, status, "{client}: {said}");
            let names_the_key = said.contains("join.clients") && said.contains(client);
            assert!(status == 201 || names_the_key, "{said}");
        }
    }
}

#[test]
fn nothing_is_allowed_by_default() {
    let rig = Rig::new(|_| {});
    let key = session(&rig, "aperiodic");
    let refused = add(&rig, &key, &json!({ "to": "file:copy.mp4" }));
    assert_eq!(refused.status, 403);
    let detail = refused.json()["detail"].to_string();
    assert!(detail.contains("[join]") && detail.contains("directory"), "{detail}");
}

/// An outlet ends with its session, or when it is removed; nothing half is left.
#[test]
fn an_outlet_ends_with_its_session() {
    let joining = Joining::new(admitting);
    let key = joining.session("periodic");
    assert_eq!(joining.add(&key, "file:whole.mp4").status, 201);
    assert_eq!(joining.add(&key, "file:removed.mp4").status, 201);
    let mut client = joining.rig.connect();
    assert_eq!(client.ask(&format!("DELETE /api/v1/sessions/{key}/outlets/1"), "").status, 204);
    until("the end of the second one", || {
        !names(joining.directory.path()).iter().any(|name| name == "removed.mp4")
    });
    let ended = joining.rig.connect().ask(&format!("DELETE /api/v1/sessions/{key}"), "");
    assert_eq!(ended.status, 204);
    // Either it was complete before, or nothing of it is left.
    joining.rig.await_metric("reel_join_outlets", |outlets| outlets == 0.0);
    until("the end of all parts", || {
        names(joining.directory.path()).iter().all(|name| !name.starts_with(".reel-join-"))
    });
    let gone = joining.rig.connect().ask(&format!("GET /api/v1/sessions/{key}/outlets"), "");
    assert_eq!(gone.status, 404);
}

/// A server that is stopped leaves nothing half, and ends.
#[test]
fn a_server_that_stops_leaves_no_half_file() {
    let mut joining = Joining::new(admitting);
    let key = joining.session("periodic");
    assert_eq!(joining.add(&key, "file:copy.mp4").status, 201);
    joining.rig.stop();
    for name in names(joining.directory.path()) {
        let whole = fs::read(joining.path(&name)).expect("read");
        assert!(name == "copy.mp4" && whole == joining.rig.film, "{name} is left");
    }
    let Joining { rig, .. } = joining;
    rig.reopen();
}

/// A listener, and the destination that it is.
fn listener() -> (TcpListener, String, Target) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let to = format!("tcp:{}", listener.local_addr().expect("bound"));
    let target = to.parse().expect("a destination");
    (listener, to, target)
}

/// A port that no other program can have and where nothing listens, and the destination that it is.
fn silent() -> (OwnedFd, String, Target) {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
    let held = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&held, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("bound");
    let address = SocketAddr::try_from(getsockname(&held).expect("bound")).expect("an address");
    let to = format!("tcp:{address}");
    let target = to.parse().expect("a destination");
    (held, to, target)
}

/// All bytes that a connection brings.
fn received(listener: &TcpListener) -> Vec<u8> {
    let (mut socket, _) = listener.accept().expect("accepted");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).expect("read");
    bytes
}

#[test]
fn a_session_is_sent_over_tcp() {
    for driver in DRIVERS {
        let (listening, to, target) = listener();
        let (_silent, to_silent, silent_target) = silent();
        let joining = Joining::new(|config| {
            config.driver = driver;
            config.join.to = vec![target, silent_target];
        });
        let key = joining.session("aperiodic");
        assert_eq!(joining.add(&key, &to).status, 201);
        assert!(received(&listening) == joining.rig.film, "{driver:?}: other bytes");
        assert_eq!(joining.ended(&key, 0)["state"], "complete");
        // Another port is not allowed, and what does not listen is said.
        let refused = joining.add(&key, &to_silent);
        assert!(
            refused.status == 422 && refused.json()["detail"].to_string().contains("takes no connection")
        );
        let (_other, to, _) = listener();
        let refused = joining.add(&key, &to);
        assert!(refused.status == 403 && refused.json()["detail"].to_string().contains("[join]"));
    }
}

/// Of two outlets one never reads: it is cut, and the other one gets everything.
#[test]
fn an_outlet_that_never_reads_is_cut_and_the_other_one_is_whole() {
    for driver in DRIVERS {
        let (listening, to, target) = listener();
        rustix::net::sockopt::set_socket_recv_buffer_size(&listening, 4096).expect("set");
        let joining = Joining::new(|config| {
            config.driver = driver;
            config.join.to = vec![target];
        });
        let key = joining.session("aperiodic");
        assert_eq!(joining.add(&key, &to).status, 201);
        let (silent, _) = listening.accept().expect("accepted");
        // Alone it stands still, and is not cut.
        let added = joining.add(&key, "file:rest.mp4");
        assert_eq!(added.status, 201, "{}", String::from_utf8_lossy(&added.body));
        let cut = joining.ended(&key, 0);
        assert!(cut["reason"].as_str().is_some_and(|why| why.contains("too slow")), "{driver:?}: {cut}");
        let whole = joining.ended(&key, 1);
        assert_eq!(whole["state"], "complete", "{driver:?}: {whole}");
        let from = whole["from_byte"].as_u64().expect("a number") as usize;
        assert!(fs::read(joining.path("rest.mp4")).expect("written") == joining.rig.film[from..]);
        assert_eq!(joining.rig.metric("reel_join_outlets_cut_total"), 1.0);
        drop(silent);
    }
}
