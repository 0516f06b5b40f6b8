//! Titles by WebDAV: read by rclone, davfs2 and VLC, and by a client that exposes every byte.

mod davfs2;
mod litmus;
mod multistatus;
mod rclone;
mod vlc;

use super::many_titles::{self, TITLES};
use super::rig::{Answer, DRIVERS, Rig, unchunked};
use multistatus::Entry;
use reel_library::SubtitleFile;
use std::collections::BTreeSet;

/// The directories of files.
const DIRECTORIES: [&str; 2] = ["/dav/play/", "/dav/copy/"];

/// Where clients find the directory of everything.
fn url(rig: &Rig) -> String {
    format!("http://{}/dav/", rig.address())
}

/// The answer of the server to a PROPFIND.
fn propfind(rig: &Rig, path: &str, depth: &str, body: &str) -> Answer {
    let fields = format!("Depth: {depth}\r\nContent-Length: {}\r\n", body.len());
    let mut client = rig.connect();
    client.send(format!("PROPFIND {path} HTTP/1.1\r\nHost: reel\r\n{fields}\r\n{body}").as_bytes());
    let mut answer = client.answer_head();
    let rest = client.rest();
    let is_chunked = answer.field("Transfer-Encoding") == Some("chunked");
    answer.body = rest;
    if is_chunked {
        let (body, is_whole) = unchunked(&answer.body);
        assert!(is_whole, "{}", answer.head);
        answer.body = body;
    }
    answer
}

/// What is said of a path and of what it holds.
fn listed(rig: &Rig, path: &str, depth: &str, body: &str) -> Vec<Entry> {
    let answer = propfind(rig, path, depth, body);
    assert_eq!(answer.status, 207, "{}", answer.head);
    multistatus::read(std::str::from_utf8(&answer.body).expect("UTF-8"))
}

/// Everything that clients can see, to compare.
fn everything(rig: &Rig) -> Vec<u8> {
    let answers = ["/dav/", "/dav/play/", "/dav/copy/"].map(|path| propfind(rig, path, "1", "").body);
    answers.concat()
}

#[test]
fn properties_of_a_file_are_what_head_tells() {
    for driver in DRIVERS {
        let rig = Rig::new(|config| config.driver = driver);
        let compare = || {
            for directory in DIRECTORIES {
                let entries = listed(&rig, directory, "1", "");
                let hrefs: Vec<&str> = entries.iter().map(|entry| entry.href.as_str()).collect();
                assert_eq!(hrefs, [directory, &format!("{directory}film.mp4")]);
                let head = rig.connect().ask(&format!("HEAD {}", entries[1].href), "");
                assert_eq!(head.status, 200, "{}", head.head);
                for (property, field) in [
                    ("getcontentlength", "Content-Length"),
                    ("getcontenttype", "Content-Type"),
                    ("getetag", "ETag"),
                    ("getlastmodified", "Last-Modified"),
                ] {
                    assert_eq!(Some(entries[1].value(property)), head.field(field), "{property}");
                }
                assert_eq!(entries[1].value("getcontentlength"), rig.film.len().to_string());
            }
        };
        compare();
        let subtitles = SubtitleFile {
            file_name: "film.en.srt".to_owned(),
            bytes: b"1\n00:00:00,000 --> 00:00:01,000\nHi\n".to_vec(),
            language: Some("en".to_owned()),
            label: None,
            forced: false,
        };
        rig.library.add_subtitles("film", &subtitles).expect("added");
        compare();
        rig.library.rename("film", "Tom & <\"Jerry's\"> Größe").expect("renamed");
        compare();
        let entries = listed(&rig, "/dav/copy/film.mp4", "0", "");
        assert_eq!(entries[0].value("displayname"), "Tom & <\"Jerry's\"> Größe");
    }
}

#[test]
fn answers_are_what_the_rfc_allows() {
    let rig = Rig::new(|_| {});
    let asked = "<?xml version='1.0'?><d:propfind xmlns:d='DAV:' xmlns:o='urn:a&amp;&lt;&quot;b'><d:prop><d:resourcetype/>\
        <o:größe/><d:quota/><plain/><d:getetag/></d:prop></d:propfind>";
    let included = "<propfind xmlns='DAV:'><allprop/><include><acl/></include></propfind>";
    let names = "<propfind xmlns='DAV:'><propname/></propfind>";
    for path in ["/dav", "/dav/", "/dav/play", "/dav/play/", "/dav/copy/"] {
        let entries = listed(&rig, path, "1", asked);
        assert_eq!(entries[0].href, format!("{}/", path.trim_end_matches('/')));
        for entry in &entries {
            let is_directory = entry.href.ends_with('/');
            assert_eq!(entry.value("resourcetype"), if is_directory { "{DAV:}collection" } else { "" });
            let unknown = ["{DAV:}quota", "{urn:a&<\"b}größe", "{}plain"];
            assert!(unknown.iter().all(|name| entry.missing.contains(*name)), "{entry:?}");
            assert_eq!(entry.missing.contains("{DAV:}getetag"), is_directory);
        }
        let (named, all) = (listed(&rig, path, "1", names), listed(&rig, path, "1", included));
        for (named, all) in named.iter().zip(&all) {
            assert!(named.found.keys().eq(all.found.keys()), "{named:?} {all:?}");
            assert!(named.missing.is_empty() && all.missing.contains("{DAV:}acl"));
            let is_file = all.found.contains_key("{DAV:}getcontentlength");
            assert_eq!(is_file, !all.href.ends_with('/'), "a length makes it a file");
        }
    }
    let one = listed(&rig, "/dav/play/film.mp4", "1", "");
    assert_eq!((one.len(), one[0].href.as_str()), (1, "/dav/play/film.mp4"));
    let infinite = propfind(&rig, "/dav/", "infinity", "");
    assert_eq!(infinite.status, 403);
    assert!(String::from_utf8_lossy(&infinite.body).contains("propfind-finite-depth"));
    assert_eq!(propfind(&rig, "/dav/play/none.mp4", "0", "").status, 404);
}

#[test]
fn a_directory_of_3000_titles_is_listed_each_once() {
    let rig = Rig::over(many_titles::options(), 64 << 20, |_| {});
    many_titles::add_titles(&rig);
    for directory in DIRECTORIES {
        let entries = listed(&rig, directory, "1", "");
        let hrefs: BTreeSet<&str> = entries.iter().map(|entry| entry.href.as_str()).collect();
        assert_eq!((entries.len(), hrefs.len()), (TITLES + 1, TITLES + 1), "{directory}");
        assert!(hrefs.contains(format!("{directory}title-2999.mp4").as_str()));
    }
    rclone::lists(&rig, TITLES);
}

#[test]
fn nothing_can_be_written() {
    let rig = Rig::new(|_| {});
    let before = everything(&rig);
    for method in ["PUT", "DELETE", "MKCOL", "COPY", "MOVE", "PROPPATCH", "LOCK", "UNLOCK", "POST", "PATCH"] {
        for path in ["/dav/", "/dav/copy/", "/dav/copy/film.mp4", "/dav/play/film.mp4", "/dav/copy/new.mp4"] {
            let fields = "Content-Length: 4\r\nDestination: /dav/copy/new.mp4\r\n";
            let answer = rig.connect().ask_with(&format!("{method} {path}"), fields, "FILM");
            assert_eq!(answer.status, 405, "{method} {path}: {}", answer.head);
            assert_eq!(answer.field("Allow"), Some("OPTIONS, GET, HEAD, PROPFIND"));
            assert_eq!(answer.json()["type"], "urn:reel:problem:read-only");
        }
    }
    let options = rig.connect().ask("OPTIONS /dav/play/film.mp4", "");
    assert_eq!((options.status, options.field("DAV")), (200, Some("1")), "{}", options.head);
    assert!(everything(&rig) == before);
}

#[test]
fn bad_questions_are_refused_and_disturb_no_others() {
    let rig = Rig::new(|_| {});
    let bomb: String = (1..10).fold("<!ENTITY a0 'ha'>".to_owned(), |text, number| {
        let inner = format!("&a{};", number - 1).repeat(10);
        format!("{text}<!ENTITY a{number} '{inner}'>")
    });
    let bomb = format!("<!DOCTYPE a [{bomb}]><propfind xmlns='DAV:'><prop>&a9;</prop></propfind>");
    let nested = format!("<propfind xmlns='DAV:'><prop>{}", "<a>".repeat(10_000));
    let large = format!("<propfind xmlns='DAV:'><prop>{}</prop></propfind>", " ".repeat(10 << 20));
    for (body, status) in [(&bomb, 400), (&nested, 400), (&large, 413)] {
        let answer = propfind(&rig, "/dav/", "0", body);
        assert_eq!(answer.status, status, "{}", answer.head);
    }
    // One that never ends its body keeps no other from being answered.
    let mut silent = rig.connect();
    silent.send(b"PROPFIND /dav/ HTTP/1.1\r\nHost: reel\r\nDepth: 0\r\nContent-Length: 100\r\n\r\n<propfind");
    assert_eq!(listed(&rig, "/dav/", "1", "").len(), 3);
    assert_eq!(silent.answer(false).status, 408);
}
