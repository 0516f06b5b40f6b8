//! A server that clients find below a path of a proxy: every address that it gives leads below it.

pub(crate) mod nginx;
mod proxy;

use crate::server::rig::{Answer, Client, Rig, patient};
use proxy::{BELOW, Passing};
use reel_serve::Proxies;
use reel_testkit::Url;
use reel_volume::GeometryPreset;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};

/// As nginx does it with nothing but `proxy_pass http://127.0.0.1:8080/`.
const STRIPS: Passing = Passing { strips: true, adds: "" };
/// As it does it with a field more.
const NAMES: Passing = Passing { strips: true, adds: "X-Forwarded-Prefix: /reel\r\n" };
/// As with `proxy_pass http://127.0.0.1:8080`: the path is in the configuration of the server.
const KEEPS: Passing = Passing { strips: false, adds: "" };

/// Answers of a server by way of a proxy.
struct Below {
    rig: Rig,
    proxy: SocketAddr,
}

impl Below {
    fn new(passing: Passing) -> Below {
        // With room for more films.
        let rig = Rig::with_volume(GeometryPreset::Cmaf, 256 << 20, 64 << 20, |config| {
            config.control.proxies = Proxies::new(vec!["127.0.0.1".parse().expect("a range")]);
            if !passing.strips {
                config.control.base_path = BELOW.parse().expect("a path");
            }
        });
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
fn redirects_to_sessions_stay_below_the_path() {
    for passing in [STRIPS, KEEPS] {
        assert_sessions_stay_below(&Below::new(passing));
    }
}

fn assert_sessions_stay_below(below: &Below) {
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
    for passing in [STRIPS, KEEPS] {
        let below = Below::new(passing);
        let list = format!("{BELOW}/library.m3u");
        let playlist = text(below.found(&list));
        let entries: Vec<&str> = references(&playlist).collect();
        assert_eq!(entries.len(), 1, "{playlist}");
        let redirect = below.get(&joined(&list, entries[0]));
        assert!(below.found(&redirect.location().expect("a session")).body == below.rig.film);
    }
}

#[test]
fn answers_to_changes_lead_below_the_path() {
    for passing in [STRIPS, KEEPS] {
        assert_changes_lead_below(&Below::new(passing));
    }
}

fn assert_changes_lead_below(below: &Below) {
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
    for passing in [STRIPS, KEEPS] {
        assert_pages_find_their_files(&Below::new(passing));
    }
}

fn assert_pages_find_their_files(below: &Below) {
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

/// Every text in JSON that is a path.
fn paths(json: &Value) -> Vec<String> {
    match json {
        Value::String(text) if text.starts_with('/') => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(paths).collect(),
        Value::Object(fields) => fields.values().flat_map(paths).collect(),
        _ => Vec::new(),
    }
}

/// People and scripts put them behind the host of the proxy.
#[test]
fn addresses_in_json_lead_below_a_path_that_the_server_is_told() {
    for passing in [NAMES, KEEPS] {
        assert_json_leads_below(&Below::new(passing));
    }
}

fn assert_json_leads_below(below: &Below) {
    let title = below.found(&format!("{BELOW}/api/v1/titles/film")).json();
    let session = below.post(&format!("{BELOW}/api/v1/sessions"), r#"{"title":"film"}"#);
    assert_eq!(session.status, 201, "{}", session.head);
    let addresses = [paths(&title), paths(&session.json())].concat();
    assert_eq!(addresses.len(), 8, "{addresses:?}");
    for address in addresses {
        assert!(address.starts_with(&format!("{BELOW}/")), "{address}");
        let answer = below.get(&address);
        match answer.location() {
            None => assert_eq!(answer.status, 200, "{address}: {}", answer.head),
            Some(location) => drop(below.found(&location)),
        }
    }
}

#[test]
fn webdav_lists_and_reads_files_below_the_path() {
    for passing in [NAMES, KEEPS] {
        assert_files_are_listed_below(&Below::new(passing));
    }
}

fn assert_files_are_listed_below(below: &Below) {
    let mut client = below.connect();
    let fields = "Host: reel\r\nDepth: 1\r\nContent-Length: 0\r\nConnection: close\r\n";
    client.send(format!("PROPFIND {BELOW}/dav/copy/ HTTP/1.1\r\n{fields}\r\n").as_bytes());
    let head = client.answer_head();
    let found = String::from_utf8(client.rest()).expect("text");
    assert_eq!(head.status, 207, "{}", head.head);
    let hrefs: Vec<&str> =
        found.split("<D:href>").skip(1).filter_map(|rest| rest.split('<').next()).collect();
    let file = format!("{BELOW}/dav/copy/film.mp4");
    assert!(hrefs.contains(&&*file), "{found}");
    assert!(hrefs.iter().all(|href| href.starts_with(&format!("{BELOW}/dav/copy/"))), "{found}");
    assert!(below.found(&file).body == below.rig.film);
}

/// The server itself is asked by checks, programs and viewers at home.
#[test]
fn a_server_with_a_path_is_there_without_it_too() {
    let below = Below::new(KEEPS);
    assert_eq!(below.rig.connect().ask("GET /healthz", "").status, 200);
    let redirect = below.rig.connect().ask("GET /watch/film/film.mp4", "");
    let location = redirect.location().expect("a session");
    assert!(location.starts_with("/s/"), "{location}");
    assert!(below.rig.connect().ask(&format!("GET {location}"), "").body == below.rig.film);
    let home = below.rig.connect().ask(&format!("GET {BELOW}"), "");
    assert_eq!((home.status, home.location().as_deref()), (308, Some("/reel/")));
    for elsewhere in ["/reels/healthz", "/reel/reel/healthz", "/reel/../healthz", "/reel//healthz"] {
        assert_eq!(below.rig.connect().ask(&format!("GET {elsewhere}"), "").status, 404, "{elsewhere}");
    }
}

/// A client may write the field, too: only what a proxy says is used, and only if it is a path.
#[test]
fn a_path_that_is_none_and_one_of_no_proxy_are_not_used() {
    let below = Below::new(STRIPS);
    for (address, field) in
        [(1, "//evil.example"), (1, "/.."), (1, "/a/../../b"), (1, "/a%0d%0ab"), (9, "/reel")]
    {
        let mut client = below.rig.connect_from(address);
        let fields = format!("X-Forwarded-Prefix: {field}\r\n");
        let titles = client.ask("GET /api/v1/titles", &fields);
        let titles = titles.json();
        assert_eq!(titles["titles"][0]["download"], "/files/film.mp4?download", "{field}");
    }
}
