//! Every form of a request gets the right answer.

use crate::server::rig::{DRIVERS, Rig, head};
use reel_disk::Fault;
use reel_testkit::Rng;

#[test]
fn requests_in_one_packet_are_answered_in_order() {
    for driver in DRIVERS {
        let rig = Rig::new(|config| config.driver = driver);
        let session = rig.session();
        let mut client = rig.connect();
        let requests = [
            head(&format!("GET {session}master.m3u8"), ""),
            head("HEAD /files/film.mp4", "Range: bytes=1-2\r\n"),
            head(&format!("GET {session}film.mp4"), "Range: bytes=100-199\r\n"),
            head(&format!("GET {session}nothing"), ""),
            head(&format!("OPTIONS {session}master.m3u8"), ""),
            head("GET /files/film.mp4", ""),
            // Not for the data plane: the connection is handed to the control plane after all
            // earlier requests.
            head("GET /healthz", ""),
        ];
        client.send(requests.concat().as_bytes());

        let master = client.answer(false);
        assert_eq!(master.status, 200);
        assert!(master.body.starts_with(b"#EXTM3U"));
        let whole = client.answer(true);
        assert_eq!((whole.status, whole.announced_bytes()), (200, rig.film.len()));
        let part = client.answer(false);
        assert_eq!(part.status, 206);
        assert!(part.body == rig.film[100..200]);
        assert_eq!(client.answer(false).status, 404);
        assert_eq!(client.answer(false).status, 204);
        let film = client.answer(false);
        assert_eq!(film.status, 200);
        assert!(film.body == rig.film);
        let health = client.answer(false);
        assert_eq!((health.status, health.field("Connection")), (200, Some("close")));
        assert!(client.rest().is_empty());
        assert_eq!(rig.metric("reel_http_responses_cut_total"), 0.0);
    }
}

#[test]
fn the_description_of_the_api_lists_every_status() {
    let rig = Rig::new(|_| {});
    let described = rig.connect().ask("GET /api/v1/openapi.json", "").body;
    let described: serde_json::Value = serde_json::from_slice(&described).expect("JSON");
    for (file, path) in [
        ("master.m3u8", "/watch/{id}/master.m3u8"),
        ("manifest.mpd", "/watch/{id}/manifest.mpd"),
        ("film.mp4", "/watch/{id}/{name}.mp4"),
    ] {
        let status = rig.connect().ask(&format!("GET /watch/film/{file}"), "").status.to_string();
        let promised = &described["paths"][path]["get"]["responses"];
        assert!(promised[&status].is_object(), "{path} answers {status}, not one of {promised}");
    }
}

#[test]
fn a_head_may_arrive_byte_by_byte() {
    for driver in DRIVERS {
        let rig = Rig::new(|config| config.driver = driver);
        let mut client = rig.connect();
        for _ in 0..2 {
            for byte in head("GET /files/film.mp4", "Range: bytes=-7\r\n").bytes() {
                client.send(&[byte]);
            }
            let answer = client.answer(false);
            assert_eq!(answer.status, 206);
            assert!(answer.body == rig.film[rig.film.len() - 7..]);
        }
    }
}

/// Ranges that begin and end anywhere, many within header, tables and both tracks. Members return
/// wrong data and fail as well.
#[test]
fn every_range_equals_that_range_of_the_whole() {
    for fault in [None, Some(Fault::CorruptReads), Some(Fault::FailReads)] {
        let rig = Rig::with_memory(0, |_| {});
        if let Some(fault) = fault {
            rig.faults.inject(3, fault);
        }
        let session = rig.session();
        let mut client = rig.connect();
        let bytes = rig.film.len() as u64;
        let mut rng = Rng::new(1);
        for number in 0..60_u64 {
            let from = rng.below(if number % 2 == 0 { 40_000 } else { bytes });
            let last = (from + rng.below(1_500_000)).min(bytes - 1);
            let path =
                if number % 3 == 0 { "/files/film.mp4".to_owned() } else { format!("{session}film.mp4") };
            let answer = client.ask(&format!("GET {path}"), &format!("Range: bytes={from}-{last}\r\n"));
            assert_eq!(answer.status, 206);
            assert_eq!(answer.field("Content-Range"), Some(format!("bytes {from}-{last}/{bytes}").as_str()));
            assert!(answer.body == rig.film[from as usize..=last as usize], "{from}-{last}");
        }
        rig.await_metric("reel_buffers_reserved", |reserved| reserved == 0.0);
    }
}

#[test]
fn malformed_requests_are_refused_and_the_refusal_arrives() {
    let rig = Rig::new(|_| {});
    let garbage = "x".repeat(100_000);
    let lines = "\r\n".repeat(50_000);
    let body = head("POST /files/film.mp4", &format!("Content-Length: {}\r\n", 40_000)) + &"y".repeat(40_000);
    let many_fields = head("GET /files/film.mp4", &"A: b\r\n".repeat(101));
    for (nonsense, status) in [(&garbage, 414), (&lines, 431), (&body, 400), (&many_fields, 431)] {
        let mut client = rig.connect();
        client.send(nonsense.as_bytes());
        let answer = client.answer(false);
        assert_eq!((answer.status, answer.field("Connection")), (status, Some("close")), "{}", answer.head);
        assert!(client.rest().is_empty());
    }
    assert_eq!(rig.connect().ask("DELETE /files/film.mp4", "").status, 405);
    assert_eq!(rig.connect().ask("GET /files/other.mp4", "").status, 404);
    assert_eq!(rig.connect().ask("GET /watch/other/master.m3u8", "").status, 404);
}

#[test]
fn lost_bytes_cut_a_response_short() {
    let rig = Rig::new(|_| {});
    let session = rig.session();
    let mut client = rig.connect();
    assert_eq!(client.ask(&format!("GET {session}master.m3u8"), "").status, 200);
    for member in [1, 2] {
        rig.faults.inject(member, Fault::FailReads);
    }
    client.send(head(&format!("GET {session}film.mp4"), "").as_bytes());
    let answer = client.answer_head();
    let rest = client.rest();
    assert!(rest.len() < answer.announced_bytes() && rig.film.starts_with(&rest));
    rig.await_metric("reel_http_responses_cut_total", |cut| cut == 1.0);
    rig.await_metric("reel_buffers_reserved", |reserved| reserved == 0.0);
    for member in [1, 2] {
        rig.faults.clear(member);
    }
    assert!(rig.connect().ask(&format!("GET {session}film.mp4"), "").body == rig.film);
}

/// Library scanners and players look at a title with HEAD before they play it.
#[test]
fn to_look_at_a_title_reserves_nothing() {
    let rig = Rig::new(|_| {});
    let mut client = rig.connect();
    for (file, kind) in [
        ("master.m3u8", "application/vnd.apple.mpegurl"),
        ("manifest.mpd", "application/dash+xml"),
        ("film.mp4", "video/mp4"),
    ] {
        for _ in 0..100 {
            client.send(head(&format!("HEAD /watch/film/{file}"), "").as_bytes());
            let answer = client.answer(true);
            assert_eq!((answer.status, answer.field("Content-Type")), (200, Some(kind)), "{}", answer.head);
            if file == "film.mp4" {
                assert_eq!(answer.announced_bytes(), rig.film.len());
                assert_eq!(answer.field("Accept-Ranges"), Some("bytes"));
            }
        }
    }
    assert_eq!(rig.metric("reel_sessions"), 0.0);
    assert_eq!(rig.metric("reel_sessions_refused_total"), 0.0);
    for (target, status) in
        [("other/master.m3u8", 404), ("film/master.m3u8?class=nonsense", 400), ("film/other.mp4", 404)]
    {
        client.send(head(&format!("HEAD /watch/{target}"), "").as_bytes());
        assert_eq!(client.answer(true).status, status, "{target}");
    }
    assert_eq!(client.ask("GET /watch/film/master.m3u8", "").status, 307, "there is room for a viewer");
}

#[test]
fn equal_targets_are_answered_equally_whatever_their_form() {
    let rig = Rig::new(|_| {});
    let session = rig.session();
    let media = [format!("{session}master.m3u8"), format!("{session}0/init.mp4"), "/files/film.mp4".into()];
    let pages = ["/healthz", "/api/v1/titles", "/api/v1/titles/film", "/title/film", "/"].map(str::to_owned);
    for path in media.iter().chain(&pages) {
        let plain = rig.connect().ask(&format!("GET {path}"), "");
        assert_eq!(plain.status, 200, "{path}");
        let encode = |c: char| match c {
            '/' => "/".to_owned(),
            c => format!("%{:02x}", u32::from(c)),
        };
        let encoded: String = path.chars().map(encode).collect();
        let slash = path.rfind('/').unwrap_or_default();
        for target in [
            encoded.clone(),
            format!("http://reel{path}"),
            format!("HTTP://reel{encoded}"),
            format!("{path}?nothing=%61"),
        ] {
            let answer = rig.connect().ask(&format!("GET {target}"), "");
            assert_eq!(answer.status, 200, "{target}: {}", answer.head);
            assert!(answer.body == plain.body, "{target}");
        }
        if slash > 0 {
            let joined = format!("{}%2f{}", &path[..slash], &path[slash + 1..]);
            assert_eq!(rig.connect().ask(&format!("GET {joined}"), "").status, 404, "{joined}");
        }
    }
    let watched = rig.connect().ask("GET /w%61tch/%66ilm/master%2Em3u8?class=%61periodic", "");
    assert_eq!(watched.status, 307, "{}", watched.head);
}

#[test]
fn a_player_of_another_origin_may_send_what_players_send() {
    let rig = Rig::new(|_| {});
    for path in ["/watch/film/master.m3u8", "/files/film.mp4"] {
        let asked = "Origin: http://player\r\nAccess-Control-Request-Method: GET\r\n\
             Access-Control-Request-Headers: cmcd-session,content-type\r\n";
        let answer = rig.connect().ask(&format!("OPTIONS {path}"), asked);
        assert_eq!((answer.status, answer.field("Access-Control-Allow-Origin")), (204, Some("*")));
        let allowed = answer.field("Access-Control-Allow-Headers").expect("fields").to_ascii_lowercase();
        let allowed: Vec<&str> = allowed.split(',').map(str::trim).collect();
        for field in ["*", "range", "content-type", "accept-encoding", "cmcd-object", "cmcd-request"] {
            assert!(allowed.contains(&field), "{field}: {allowed:?}");
        }
        assert!(allowed.contains(&"cmcd-session") && allowed.contains(&"cmcd-status"), "{allowed:?}");
    }
}

/// An entry of the playlist is relative to it, and leads to the whole film.
#[test]
fn the_playlist_of_the_library_leads_to_films() {
    let rig = Rig::new(|_| {});
    let playlist = rig.connect().ask("GET /library.m3u", "");
    assert_eq!(playlist.status, 200);
    let lines = String::from_utf8(playlist.body).expect("text");
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines, ["#EXTM3U", "#EXTINF:3,film", "watch/film/film.mp4"]);
    let sent = rig.connect().ask(&format!("GET /{}", lines[2]), "");
    assert_eq!(sent.status, 307);
    let film = rig.connect().ask(&format!("GET {}", sent.location().expect("a place")), "");
    assert!(film.body == rig.film, "{} bytes", film.body.len());
}
