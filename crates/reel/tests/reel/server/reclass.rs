//! Sessions that change their class while they are open: responses under way continue, and what is
//! refused stays as it was.

use crate::server::misuse::promising_with;
use crate::server::promise::{dear_members_of, watch_title};
use crate::server::rig::{Answer, Client, DRIVERS, Rig, head};
use reel_qos::{ClassSpec, ClassTable, Kind};
use serde_json::{Value, json};
use std::sync::Arc;

/// Two classes with deadlines and two without.
pub(crate) fn classes([periodic, gold]: [u32; 2]) -> Arc<ClassTable> {
    let class = |name: &str, kind, permille| ClassSpec::new(name, kind, permille);
    let specs = vec![
        class("periodic", Kind::Periodic, periodic),
        class("interactive", Kind::Interactive, 100),
        class("aperiodic", Kind::Aperiodic, 50),
        class("gold", Kind::Periodic, gold),
        class("bulk", Kind::Aperiodic, 50),
    ];
    Arc::new(ClassTable::new(specs).expect("shares that add up"))
}

/// Asks for another class of the session of a key.
pub(crate) fn change(client: &mut Client, key: &str, class: &str, fields: &str) -> Answer {
    let body = json!({ "class": class }).to_string();
    let fields = format!("{fields}Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    client.ask_with(&format!("PATCH /api/v1/sessions/{key}"), &fields, &body)
}

/// Opens a session of the file of a title; its address and its key.
fn open(rig: &Rig, title: &str, query: &str) -> (String, String) {
    let answer = watch_title(rig, title, &format!("{title}.mp4{query}"));
    assert_eq!(answer.status, 307, "{}", String::from_utf8_lossy(&answer.body));
    let location = answer.location().expect("a redirect");
    let key = location.split('/').nth(2).expect("a key").to_owned();
    (location, key)
}

fn class_of(rig: &Rig, key: &str) -> Value {
    let answer = rig.connect().ask(&format!("GET /api/v1/sessions/{key}"), "");
    assert_eq!(answer.status, 200);
    answer.json()["class"].clone()
}

pub(crate) fn dashboard(rig: &Rig) -> Value {
    rig.connect().ask("GET /api/v1/dashboard", "").json()
}

#[test]
fn a_response_under_way_continues_in_each_class_with_every_byte() {
    for driver in DRIVERS {
        let mut rig = promising_with(64 << 20, 100, |config| config.driver = driver);
        rig.stop();
        rig.library.volume().disks().clone().set_classes(classes([400, 400]));
        rig.start();
        let (file, key) = open(&rig, "film", "?class=periodic");
        let mut viewer = rig.connect_narrow();
        viewer.send(head(&format!("GET {file}"), "").as_bytes());
        let answer = viewer.answer_head();
        assert_eq!((answer.status, answer.announced_bytes()), (200, rig.film.len()));
        let mut film = viewer.read(1000);
        let sent = |class: &str| rig.metric(&format!("reel_http_media_bytes_total{{class=\"{class}\"}}"));
        for class in ["gold", "bulk", "periodic", "aperiodic", "interactive", "gold"] {
            let changed = change(&mut rig.connect(), &key, class, "");
            assert_eq!((changed.status, &changed.json()["class"]), (200, &json!(class)), "{driver:?}");
            assert_eq!(class_of(&rig, &key), class);
            assert_eq!(dashboard(&rig)["sessions"][0]["class"], class);
            let before = sent(class);
            while sent(class) < before + 32_768.0 {
                assert!(film.len() + 2000 < rig.film.len(), "{driver:?}: nothing is sent in {class}");
                film.extend(viewer.read(1000));
            }
        }
        film.extend(viewer.read(rig.film.len() - film.len()));
        assert!(film == rig.film, "{driver:?}: other bytes");
        // The connection continues, and so does the session.
        let part = viewer.ask(&format!("GET {file}"), "Range: bytes=100-199\r\n");
        assert_eq!((part.status, part.body), (206, rig.film[100..200].to_vec()));
        assert_eq!(
            rig.metric("reel_unpromised_total"),
            0.0,
            "{driver:?}: a class had no room for its session"
        );
    }
}

#[test]
fn a_player_of_segments_continues_in_another_class() {
    let rig = dear_members_of(classes([400, 400]));
    let open = |query: &str| {
        let answer = watch_title(&rig, "long", &format!("master.m3u8{query}"));
        let location = answer.location().expect("a redirect");
        location.strip_suffix("master.m3u8").expect("the playlist").to_owned()
    };
    let (plain, session) = (open("?class=aperiodic"), open(""));
    let key = session.split('/').nth(2).expect("a key");
    let segment = |session: &str, number| {
        let answer = rig.connect().ask(&format!("GET {session}0/{number}.m4s"), "");
        assert_eq!(answer.status, 200, "{}", answer.head);
        answer.body
    };
    // What a start begins with is read as interactive.
    for (number, class) in [(1, "periodic"), (2, "gold"), (3, "bulk")] {
        assert_eq!(change(&mut rig.connect(), key, class, "").status, 200);
        assert!(segment(&session, number) == segment(&plain, number), "segment {number}");
    }
    // A core counts sent bytes in a later section, which may be after the client has them.
    for class in ["gold", "bulk"] {
        rig.await_metric(&format!("reel_http_media_bytes_total{{class=\"{class}\"}}"), |bytes| bytes > 0.0);
    }
    assert_eq!(class_of(&rig, key), "bulk");
}

/// A viewer of the long title, whose response is under way.
struct Viewer {
    key: String,
    client: Client,
    bytes: Vec<u8>,
}

impl Viewer {
    fn of(rig: &Rig) -> Viewer {
        let (file, key) = open(rig, "long", "");
        let mut client = rig.connect_narrow();
        client.send(head(&format!("GET {file}"), "").as_bytes());
        assert_eq!(client.answer_head().status, 200);
        let bytes = client.read(1000);
        Viewer { key, client, bytes }
    }
}

#[test]
fn a_class_that_is_full_refuses_and_all_stays_as_it_was() {
    let rig = dear_members_of(classes([600, 200]));
    let mut long = Vec::new();
    rig.library.export("long", &mut long, &mut |_, _| {}).expect("exported");
    let mut others = vec![Viewer::of(&rig)];
    assert_eq!(change(&mut rig.connect(), &others[0].key, "gold", "").status, 200);
    // They have begun at different times, so more of them fit than would begin at once.
    let (mut viewer, before, refusal) = loop {
        let viewer = Viewer::of(&rig);
        let before = in_classes(&rig);
        let answer = change(&mut rig.connect(), &viewer.key, "gold", "");
        match answer.status {
            200 => others.push(viewer),
            _ => break (viewer, before, answer),
        }
        assert!(others.len() < 64, "the class is never full");
    };
    let told = refusal.json();
    assert_eq!((refusal.status, &told["type"]), (503, &json!("urn:reel:problem:not-admitted")), "{told}");
    assert!(told["asked"].as_u64() > told["available"].as_u64(), "{told}");
    assert!(told["grantable_rate_bps"].is_u64() && refusal.field("Retry-After").is_some(), "{told}");
    assert_eq!(class_of(&rig, &viewer.key), "periodic");
    assert_eq!(in_classes(&rig), before, "it has what it had");
    // The others end, and there is room.
    for other in others {
        let end = format!("DELETE /api/v1/sessions/{}", other.key);
        assert_eq!(rig.connect().ask(&end, "").status, 204);
    }
    let changed = change(&mut rig.connect(), &viewer.key, "gold", "");
    assert_eq!((changed.status, class_of(&rig, &viewer.key)), (200, json!("gold")));
    let left = long.len() - viewer.bytes.len();
    viewer.bytes.extend(viewer.client.read(left));
    assert!(viewer.bytes == long, "other bytes");
}

/// The sessions and their classes. Which of them are on time depends on how busy the machine is.
pub(crate) fn in_classes(rig: &Rig) -> Value {
    let shown = dashboard(rig);
    let sessions = shown["sessions"].as_array().expect("sessions").iter();
    let mut all: Vec<String> = sessions.map(|one| format!("{} {}", one["key_hint"], one["class"])).collect();
    all.sort();
    json!(all)
}

#[test]
fn classes_that_are_not_there_and_sessions_that_are_not_are_refused() {
    let rig = Rig::new(|_| {});
    let (_, key) = open(&rig, "film", "");
    let unknown = change(&mut rig.connect(), &key, "royal", "");
    assert_eq!((unknown.status, &unknown.json()["type"]), (400, &json!("urn:reel:problem:no-such-class")));
    let foreign = change(&mut rig.connect(), &key, "aperiodic", "Origin: http://evil.example\r\n");
    assert_eq!((foreign.status, &foreign.json()["type"]), (403, &json!("urn:reel:problem:foreign-origin")));
    assert_eq!(class_of(&rig, &key), "periodic");
    assert_eq!(rig.connect().ask(&format!("DELETE /api/v1/sessions/{key}"), "").status, 204);
    for gone in [key.as_str(), "0", "00112233445566778899aabbccddeeff"] {
        let ended = change(&mut rig.connect(), gone, "aperiodic", "");
        assert_eq!((ended.status, &ended.json()["type"]), (404, &json!("urn:reel:problem:no-such-session")));
    }
}

/// A key is no right to the share of others.
#[test]
fn a_class_of_others_is_refused_to_clients_elsewhere() {
    let rig = Rig::new(|config| {
        config.control.proxies = reel_serve::Proxies::new(vec!["127.0.0.1".parse().expect("a range")]);
    });
    let from = "X-Forwarded-For: 192.0.2.7\r\n";
    let answer = rig.connect().ask("GET /watch/film/film.mp4", from);
    let location = answer.location().expect("a place to go");
    let key = location.split('/').nth(2).expect("a key").to_owned();
    let refused = change(&mut rig.connect(), &key, "interactive", from);
    assert_eq!((refused.status, &refused.json()["type"]), (403, &json!("urn:reel:problem:class-of-others")));
    assert_eq!(class_of(&rig, &key), "periodic");
    assert_eq!(change(&mut rig.connect(), &key, "aperiodic", from).status, 200);
}

/// Each change takes the ledger a decision.
#[test]
fn a_session_that_changes_all_the_time_is_told_to_wait() {
    let rig = promising_with(64 << 20, 100, |_| {});
    let (_, key) = open(&rig, "film", "");
    let refused = (0..1_000).find_map(|number| {
        let class = if number % 2 == 0 { "aperiodic" } else { "periodic" };
        Some(change(&mut rig.connect(), &key, class, "")).filter(|answer| answer.status != 200)
    });
    let refused = refused.expect("it is told to wait");
    assert_eq!((refused.status, refused.field("Retry-After")), (429, Some("1")));
}
