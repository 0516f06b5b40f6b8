//! The key of a session is for its title, its class and, if that is configured, its client.

use crate::server::promise::watch_title;
use crate::server::reclass::change;
use crate::server::rig::{Answer, Rig};
use reel_serve::Proxies;
use serde_json::json;
use std::process::Command;

const VIEWER: &str = "X-Forwarded-For: 192.0.2.7\r\n";
const OTHER: &str = "X-Forwarded-For: 192.0.2.8\r\n";

/// A session of the file of the film, and its key.
fn key_of(answer: &Answer) -> String {
    let location = answer.location().expect("a place to go");
    location.split('/').nth(2).expect("a key").to_owned()
}

fn detail(answer: &Answer) -> String {
    answer.json()["detail"].as_str().expect("words").to_owned()
}

#[test]
fn a_key_does_not_play_another_title() {
    let rig = Rig::new(|_| {});
    let key = key_of(&watch_title(&rig, "film", "film.mp4"));
    for file in ["other.mp4", "Film.mp4", "other.ts"] {
        let request = format!("/s/{key}/{file}");
        let refused = rig.connect().ask(&format!("GET {request}"), "");
        assert_eq!(refused.status, 403, "{file}");
        assert!(refused.head.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{}", refused.head);
        assert!(detail(&refused).contains("this key is for the title film; open "), "{}", detail(&refused));
        assert_eq!(rig.connect().ask(&format!("HEAD {request}"), "").status, 403, "{file}");
    }
    let part = rig.connect().ask(&format!("GET /s/{key}/film.mp4"), "Range: bytes=0-99\r\n");
    assert_eq!((part.status, part.body), (206, rig.film[..100].to_vec()));
}

#[test]
fn a_key_does_not_play_in_another_class_until_its_session_has_changed_to_it() {
    let rig = Rig::new(|_| {});
    let key = key_of(&watch_title(&rig, "film", "master.m3u8"));
    for file in ["master.m3u8", "0/1.m4s", "0/media.m3u8", "film.mp4"] {
        let ask = |class: &str| rig.connect().ask(&format!("GET /s/{key}/{file}?class={class}"), "");
        assert_eq!(ask("periodic").status, 200, "{file}");
        for other in ["aperiodic", "royal"] {
            let refused = ask(other);
            assert_eq!(refused.status, 403, "{file}");
            let help = format!("open the title again with /watch/film/master.m3u8?class={other}");
            assert!(detail(&refused).contains(&help), "{}", detail(&refused));
        }
    }
    assert_eq!(change(&mut rig.connect(), &key, "aperiodic", "").status, 200);
    let ask = |class: &str| rig.connect().ask(&format!("GET /s/{key}/0/1.m4s?class={class}"), "").status;
    assert_eq!((ask("aperiodic"), ask("periodic")), (200, 403));
}

fn proxied(binds_sessions: bool) -> Rig {
    Rig::new(|config| {
        config.binds_sessions = binds_sessions;
        config.control.proxies = Proxies::new(vec!["127.0.0.1".parse().expect("a range")]);
    })
}

#[test]
fn a_key_that_is_handed_on_plays_elsewhere_only_if_it_is_not_bound() {
    let rig = proxied(false);
    let key = key_of(&rig.connect().ask("GET /watch/film/film.mp4", VIEWER));
    assert_eq!(rig.connect().ask(&format!("HEAD /s/{key}/film.mp4"), OTHER).status, 200);

    let rig = proxied(true);
    let key = key_of(&rig.connect().ask("GET /watch/film/film.mp4", VIEWER));
    for request in ["GET", "HEAD"].map(|method| format!("{method} /s/{key}/film.mp4")) {
        assert_eq!(rig.connect().ask(&request, VIEWER).status, 200, "{request}");
        for elsewhere in [OTHER, ""] {
            let refused = rig.connect().ask(&request, elsewhere);
            assert_eq!(refused.status, 403, "{request}");
            if request.starts_with("GET") {
                assert!(detail(&refused).contains("bind_sessions_to_address"), "{}", detail(&refused));
                assert!(detail(&refused).contains("open the title again"), "{}", detail(&refused));
            }
        }
    }
    let of_key = format!("/api/v1/sessions/{key}");
    let by_api = |fields: &str| {
        let shown = rig.connect().ask(&format!("GET {of_key}"), fields);
        let changed = change(&mut rig.connect(), &key, "aperiodic", fields);
        let ended = rig.connect().ask(&format!("DELETE {of_key}"), fields);
        [shown, changed, ended]
    };
    for refused in by_api(OTHER) {
        let kind = &refused.json()["type"];
        assert_eq!((refused.status, kind), (403, &json!("urn:reel:problem:key-of-other-client")));
    }
    assert_eq!(by_api(VIEWER).map(|answer| answer.status), [200, 200, 204]);
}

/// A user of this machine, as `reel mount` names it.
const USER: &str = "Reel-User: 1001\r\n";

/// The answers to requests with the key of a session: of media, by the API, and of its outlets.
fn uses(rig: &Rig, key: &str, fields: &str) -> [Answer; 4] {
    let played = rig.connect().ask(&format!("GET /s/{key}/film.mp4"), fields);
    let shown = rig.connect().ask(&format!("GET /api/v1/sessions/{key}"), fields);
    let changed = change(&mut rig.connect(), key, "aperiodic", fields);
    let outlets = rig.connect().ask(&format!("GET /api/v1/sessions/{key}/outlets"), fields);
    [played, shown, changed, outlets]
}

#[test]
fn the_key_of_a_user_of_this_machine_is_for_that_user() {
    let mut rig = Rig::new(|_| {});
    let key = key_of(&rig.connect().ask("GET /watch/film/film.mp4", USER));
    // Who names no user, another one, what is none, or comes through a proxy.
    let others = ["", "Reel-User: 1002\r\n", "Reel-User: root\r\n", "Reel-User: 1001\r\nReel-User: 1001\r\n"];
    let proxied = format!("{USER}X-Forwarded-For: 127.0.0.1\r\n");
    let refused_to = |rig: &Rig, others: &[&str]| {
        for fields in others {
            for refused in uses(rig, &key, fields) {
                assert_eq!(refused.status, 403, "{fields:?}");
                assert!(detail(&refused).contains("to another user of this machine"), "{}", detail(&refused));
            }
            assert_eq!(rig.connect().ask(&format!("DELETE /api/v1/sessions/{key}"), fields).status, 403);
        }
    };
    refused_to(&rig, &others);
    refused_to(&rig, &[&proxied]);
    assert_eq!(uses(&rig, &key, USER).map(|answer| answer.status), [200; 4]);
    rig.stop();
    rig.start();
    // The next server knows whose it is.
    for fields in others {
        assert_eq!(rig.connect().ask(&format!("GET /s/{key}/film.mp4"), fields).status, 403, "{fields:?}");
        assert_eq!(rig.connect().ask(&format!("DELETE /api/v1/sessions/{key}"), fields).status, 403);
    }
    assert_eq!(uses(&rig, &key, USER).map(|answer| answer.status), [200; 4]);
    refused_to(&rig, &others);
    assert_eq!(rig.connect().ask(&format!("DELETE /api/v1/sessions/{key}"), USER).status, 204);
}

/// A program of another user than root and the server's is of that user, whatever it says.
#[test]
fn a_program_cannot_speak_for_another_user() {
    const PROGRAM: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let rig = Rig::new(|_| {});
    let ask = |path: &str, user: u32| {
        let url = format!("http://{}{path}", rig.address());
        let named = format!("Reel-User: {user}");
        let mut curl = Command::new("setpriv");
        curl.args(["--reuid", &PROGRAM.to_string(), "--clear-groups", "curl", "-sS", "-o", "/dev/null"]);
        curl.args(["-w", "%{http_code} %{redirect_url}", "-H", &named, &url]);
        String::from_utf8(curl.output().expect("curl runs").stdout).expect("text")
    };
    let key = key_of(&rig.connect().ask("GET /watch/film/film.mp4", USER));
    assert_eq!(ask(&format!("/s/{key}/film.mp4"), 1001), "403 ");
    assert_eq!(ask(&format!("/api/v1/sessions/{key}"), 1001), "403 ");
    // What it opens for root is its own.
    let opened = ask("/watch/film/film.mp4", 0);
    let key = opened.split('/').rev().nth(1).expect("an address with a key");
    let own = format!("Reel-User: {PROGRAM}\r\n");
    assert_eq!(uses(&rig, key, "Reel-User: 0\r\n").map(|answer| answer.status), [403; 4]);
    assert_eq!(uses(&rig, key, &own).map(|answer| answer.status), [200; 4]);
    assert_eq!(ask(&format!("/s/{key}/film.mp4"), PROGRAM), "200 ");
}

/// The next server knows the session by what was kept, until its client asks.
#[test]
fn a_key_of_a_session_that_has_ended_is_for_the_same() {
    let mut rig = proxied(true);
    let key = key_of(&rig.connect().ask("GET /watch/film/film.mp4", VIEWER));
    rig.stop();
    rig.start();
    let ask = |file: &str, fields: &str| rig.connect().ask(&format!("GET /s/{key}/{file}"), fields);
    for (file, fields) in [("film.mp4", OTHER), ("other.mp4", VIEWER), ("film.mp4?class=aperiodic", VIEWER)] {
        assert_eq!(ask(file, fields).status, 403, "{file}");
    }
    assert_eq!(rig.metric("reel_sessions"), 0.0, "none of them has opened it again");
    let again = rig.connect().ask(&format!("DELETE /api/v1/sessions/{key}"), OTHER);
    assert_eq!(again.status, 403);
    let played = ask("film.mp4", VIEWER);
    assert_eq!((played.status, played.body == rig.film), (200, true));
}
