//! A server that clients find below a path of a proxy: every address that it gives leads below it.

mod proxy;

use crate::server::rig::{Answer, Client, Rig, patient};
use proxy::{BELOW, Passing};
use reel_testkit::Url;
use reel_volume::GeometryPreset;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};

/// As nginx does it with nothing but `proxy_pass http://127.0.0.1:8080/`.
const STRIPS: Passing = Passing { strips: true, adds: "" };

/// Answers of a server by way of a proxy.
struct Below {
    rig: Rig,
    proxy: SocketAddr,
}

impl Below {
    fn new(passing: Passing) -> Below {
        // With room for more films.
        let rig = Rig::with_volume(GeometryPreset::Cmaf, 256 << 20, 64 << 20, |_| {});
        let proxy = proxy::start(rig.address(), passing);
        Below { rig, proxy }
    }

    fn connect(&self) -> Client {
        Client::on(patient(TcpStream::connect(self.proxy).expect("connected")))
    }

    /// What is at a path of the proxy.
    fn get(&self, path: &str) -> Answer {
        self.connect().ask(&format!("GET {path}"), "")
    }

    /// What is there, which has to be there.
    fn found(&self, path: &str) -> Answer {
        let answer = self.get(path);
        assert!(path.starts_with(&format!("{BELOW}/")) && answer.status == 200, "{path}: {}", answer.head);
        answer
    }

    fn post(&self, path: &str, body: &str) -> Answer {
        let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        self.connect().ask_with(&format!("POST {path}"), &fields, body)
    }

    /// Everything that playlists lead to from one of them, which has to be there.
    fn follow(&self, playlist: &str) -> BTreeSet<String> {
        let (mut found, mut next) = (BTreeSet::new(), vec![playlist.to_owned()]);
        while let Some(path) = next.pop() {
            if !found.insert(path.clone()) {
                continue;
            }
            let body = self.found(&path).body;
            if path.ends_with(".m3u8") {
                let text = String::from_utf8(body).expect("text");
                next.extend(references(&text).map(|reference| joined(&path, reference)));
            }
        }
        found
    }
}

/// The references in a playlist (RFC 8216, sections 4.1 and 4.2).
fn references(playlist: &str) -> impl Iterator<Item = &str> {
    playlist.lines().filter_map(|line| match line.strip_prefix('#') {
        None => Some(line).filter(|line| !line.is_empty()),
        Some(tag) => tag.split_once("URI=\"").and_then(|(_, rest)| rest.split('"').next()),
    })
}

/// The path of a reference in what is at a path.
fn joined(path: &str, reference: &str) -> String {
    let base = Url::parse(&format!("http://reel{path}")).expect("an address");
    base.join(reference).expect("a reference").target
}

fn text(answer: Answer) -> String {
    String::from_utf8(answer.body).expect("text")
}

#[test]
fn redirects_to_sessions_stay_below_a_path_that_the_server_does_not_know() {
    let below = Below::new(STRIPS);
    assert_eq!(below.get("/watch/film/film.mp4").status, 404, "the proxy has other things there");
    for file in ["master.m3u8", "manifest.mpd", "film.mp4"] {
        let asked = format!("{BELOW}/watch/film/{file}");
        let redirect = below.get(&asked);
        assert_eq!(redirect.status, 307, "{}", redirect.head);
        let location = redirect.location().expect("a place to go");
        match file {
            "master.m3u8" => {
                let found = below.follow(&location);
                assert!(found.iter().any(|path| path.ends_with("/1/1.m4s")), "{found:?}");
            }
            "manifest.mpd" => {
                let manifest = text(below.found(&location));
                let base = manifest.split_once("<BaseURL>").and_then(|(_, rest)| rest.split('<').next());
                let base = base.expect("its directory");
                // Some players take the address that they asked for.
                assert_eq!(joined(&location, base), joined(&asked, base));
                below.found(&joined(&joined(&location, base), "0/init.mp4"));
            }
            _ => assert!(below.found(&location).body == below.rig.film),
        }
    }
    assert_eq!(below.found(&format!("{BELOW}/files/film.mp4")).body.len(), below.rig.film.len());
}

#[test]
fn playlists_of_the_library_lead_below_the_path() {
    let below = Below::new(STRIPS);
    let list = format!("{BELOW}/library.m3u");
    let playlist = text(below.found(&list));
    let entries: Vec<&str> = references(&playlist).collect();
    assert_eq!(entries.len(), 1, "{playlist}");
    let redirect = below.get(&joined(&list, entries[0]));
    assert!(below.found(&redirect.location().expect("a session")).body == below.rig.film);
}

#[test]
fn answers_to_changes_lead_below_the_path() {
    let below = Below::new(STRIPS);
    for (path, body, status) in [
        ("/api/v1/sessions", r#"{"title":"film"}"#, 201),
        ("/api/v1/titles/film/forms/ts", "", 202),
        ("/api/v1/volume/scrub", "", 202),
    ] {
        let answer = below.post(&format!("{BELOW}{path}"), body);
        assert_eq!(answer.status, status, "{path}: {}", answer.head);
        let made = below.found(&answer.location().expect("a place to go")).json();
        let name = if status == 201 { "key" } else { "id" };
        assert_eq!(made[name], answer.json()[name], "{path}");
    }
    let (fields, film) = (format!("Content-Length: {}\r\n", below.rig.film.len()), &below.rig.film);
    let mut client = below.connect();
    client.send(
        format!("POST {BELOW}/api/v1/titles?filename=b.mp4&wait=true HTTP/1.1\r\nHost: reel\r\n{fields}\r\n")
            .as_bytes(),
    );
    client.send(film);
    let stored = client.answer(false);
    assert_eq!(stored.status, 201, "{}", stored.head);
    let title: Value = below.found(&stored.location().expect("a title")).json();
    assert_eq!(title["name"], "b");
}

/// The page is the same program at each of its paths.
#[test]
fn the_pages_find_their_files_from_every_path_below() {
    let below = Below::new(STRIPS);
    for path in ["/", "/casts", "/dashboard", "/title/film"] {
        let path = format!("{BELOW}{path}");
        let answer = below.get(&path);
        // A build without pages says how to make them.
        let page = String::from_utf8(answer.body).expect("text");
        let files: Vec<&str> = page.split("=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let files: Vec<&str> = files.into_iter().filter(|file| file.starts_with('.')).collect();
        assert!(files.len() >= 3, "{page}");
        for file in files {
            below.found(&joined(&path, file));
        }
    }
}
