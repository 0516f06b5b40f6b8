//! Titles, sessions, volume, health, pages: what is asked without a body of its own.

use super::fake::{Answer, Server};
use crate::VolumeState;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use std::sync::atomic::Ordering;

#[tokio::test]
async fn titles_are_listed_shown_and_removed() {
    let server = Server::new();
    assert_eq!(server.get("/api/v1/titles").await.json(), serde_json::json!({ "titles": [] }));
    let id = server.add("Big%20Film").await;
    assert_eq!(id, "big-film");
    let title = server.get("/api/v1/titles/big-film").await;
    assert_eq!(title.status, StatusCode::OK);
    assert_eq!(
        title.json(),
        serde_json::json!({
            "id": "big-film", "name": "Big Film", "source": {"name": "Big Film.mp4", "bytes": 4}, "duration_s": 1.235, "added": "1970-01-01T00:00:00Z", "bytes": 4,
            "video": [{"track": 0, "width": 1920, "height": 1080, "codec": "avc1.640028", "frame_rate": 23.976, "bitrate_bps": 8_000_000}],
            "audio": [{"track": 1, "language": "", "name": "Comments", "codec": "mp4a.40.2", "channels": 2, "sample_rate": 48000, "default": true}],
            "subtitles": [{"track": 2, "language": "de", "name": "", "forced": true}],
            "chapters": [{"start_s": 1.0, "name": "Part two"}],
            "forms": [{"form": "ts", "bytes": 7, "average_bps": 8, "peak_bps": 9}],
            "poster": "/img/big-film.svg",
            "watch": {"hls": "/watch/big-film/master.m3u8", "dash": "/watch/big-film/manifest.mpd", "progressive": "/watch/big-film/big-film.mp4"},
            "download": "/files/big-film.mp4?download",
            "warnings": [],
        })
    );
    assert_eq!(server.get("/api/v1/titles").await.json()["titles"][0], title.json());
    assert_eq!(server.call("DELETE", "/api/v1/titles/big-film").await.status, StatusCode::NO_CONTENT);
    for method in ["GET", "DELETE"] {
        let detail = server.call(method, "/api/v1/titles/big-film").await.problem(404);
        assert!(detail.contains("big-film"), "{detail}");
    }
}

#[tokio::test]
async fn the_list_of_titles_wakes_disks_and_nothing_else_does() {
    let server = Server::new();
    let id = server.add("Big%20Film").await;
    let looks = || server.library.looks.load(Ordering::Relaxed);
    for path in ["/", "/metrics", "/readyz", "/api/v1/volume", "/api/v1/dashboard", "/library.m3u"] {
        server.get(path).await;
    }
    server.get(&format!("/img/{id}.svg")).await;
    server.get(&format!("/api/v1/titles/{id}")).await;
    server.call("HEAD", "/api/v1/titles").await;
    assert_eq!(looks(), 0);
    server.get("/api/v1/titles").await;
    assert_eq!(looks(), 1);
}

#[tokio::test]
async fn a_title_that_is_set_aside_says_why() {
    let server = Server::new();
    let id = server.add("Big%20Film").await;
    let list = || async { server.get("/api/v1/titles").await.json()["titles"][0]["problem"].clone() };
    assert!(list().await.is_null());
    let titles_check = || async { server.get("/readyz").await.json()["checks"][4].clone() };
    assert_eq!(titles_check().await["ok"], true);
    let reason = "big-film is set aside";
    server.sessions.set_aside.lock().expect("lock").insert(id, reason.to_owned());
    assert_eq!(list().await, reason);
    assert_eq!(server.get("/api/v1/titles/big-film").await.json()["problem"], reason);
    assert_eq!(titles_check().await, serde_json::json!({ "name": "titles", "ok": false, "detail": reason }));
    assert_eq!(server.get("/readyz").await.status, StatusCode::OK, "the others can be played");
}

#[tokio::test]
async fn players_get_all_titles_as_a_playlist() {
    let server = Server::new();
    assert_eq!(server.get("/library.m3u").await.text(), "#EXTM3U\n");
    for name in ["Zoo", "big%20film", "Broken"] {
        server.add(name).await;
    }
    server.sessions.set_aside.lock().expect("lock").insert("broken".to_owned(), "it panicked".to_owned());
    let playlist = server.get("/library.m3u").await;
    assert_eq!(playlist.header("content-type"), "audio/x-mpegurl");
    let lines =
        ["#EXTINF:2,big film", "watch/big-film/master.m3u8", "#EXTINF:2,Zoo", "watch/zoo/master.m3u8"];
    assert_eq!(playlist.text(), format!("#EXTM3U\n{}\n", lines.join("\n")));
}

#[tokio::test]
async fn the_list_of_titles_is_sent_again_only_when_it_has_changed() {
    let server = Server::new();
    server.add("Film").await;
    let list = server.get("/api/v1/titles").await;
    assert_eq!(list.header("content-type"), "application/json");
    let ask = |tag: &str| Request::get("/api/v1/titles").header("if-none-match", tag).body(Body::empty());
    let tag = list.header("etag").to_owned();
    let again = server.send(ask(&tag).expect("a request")).await;
    assert_eq!((again.status, again.header("etag")), (StatusCode::NOT_MODIFIED, tag.as_str()));
    assert!(again.body.is_empty());
    server.add("Another").await;
    let changed = server.send(ask(&tag).expect("a request")).await;
    assert_eq!(changed.status, StatusCode::OK);
    assert_eq!(changed.json()["titles"].as_array().map(Vec::len), Some(2));
    assert_ne!(changed.header("etag"), tag);
}

#[tokio::test]
async fn lists_and_pages_are_packed_for_clients_that_take_it() {
    let server = Server::new();
    for number in 0..40 {
        server.add(&format!("film-{number}")).await;
    }
    let ask = |path: &str| Request::get(path).header("accept-encoding", "gzip, br");
    let send =
        |request: axum::http::request::Builder| server.send(request.body(Body::empty()).expect("a request"));
    for path in ["/api/v1/titles", "/library.m3u", "/api/v1/openapi.json"] {
        let plain = server.get(path).await;
        for _ in 0..2 {
            let packed = send(ask(path)).await;
            assert_eq!(
                (packed.status, packed.header("content-encoding")),
                (StatusCode::OK, "gzip"),
                "{path}"
            );
            let mut unpacked = Vec::new();
            let read = std::io::Read::read_to_end(
                &mut flate2::read::GzDecoder::new(&packed.body[..]),
                &mut unpacked,
            );
            assert!(read.is_ok() && unpacked == plain.body, "{path}");
            assert!(packed.body.len() * 2 < plain.body.len(), "{path}");
            assert_eq!((packed.header("vary"), plain.header("vary")), ("accept-encoding", "accept-encoding"));
            assert_eq!(plain.header("content-encoding"), "", "{path}");
        }
    }
    // The tag of the packed list is that of the list.
    let packed = send(ask("/api/v1/titles")).await;
    let again = send(ask("/api/v1/titles").header("if-none-match", packed.header("etag"))).await;
    assert_eq!((again.status, again.body.len()), (StatusCode::NOT_MODIFIED, 0));
    let sessions = send(ask("/api/v1/sessions")).await;
    assert_eq!(sessions.header("content-encoding"), "", "they have keys");
}

#[tokio::test]
async fn every_answer_closes_its_connection_and_is_not_sniffed() {
    let server = Server::new();
    for path in ["/", "/api/v1/titles", "/healthz", "/none", "/img/none.jpg"] {
        let answer = server.get(path).await;
        assert_eq!(answer.header("connection"), "close", "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert!(!answer.header("cache-control").is_empty(), "{path}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_a_problem() {
    let server = Server::new();
    for path in [
        "/none",
        "/api",
        "/api/v1/none",
        "/api/v1/jobs/7",
        "/img/x",
        "/img/none.jpg",
        "/assets/none.js",
        "/s/k/master.m3u8",
    ] {
        server.get(path).await.problem(404);
    }
    server.call("DELETE", "/api/v1/sessions/none").await.problem(404);
    // Text in a path comes back as JSON text, never as markup.
    let answer = server.get("/%3Cscript%3E").await;
    assert!(answer.problem(404).contains("%3Cscript"), "{}", answer.text());
}

#[tokio::test]
async fn a_wrong_method_is_answered_with_the_right_ones() {
    let server = Server::new();
    for (method, path, allow) in [
        ("PUT", "/api/v1/titles", "GET,HEAD,POST"),
        ("POST", "/api/v1/titles/x", "GET,HEAD,PATCH,DELETE"),
        ("POST", "/metrics", "GET,HEAD"),
        ("PUT", "/api/v1/sessions/x", "GET,HEAD,PATCH,DELETE"),
    ] {
        let answer = server.call(method, path).await;
        answer.problem(405);
        assert_eq!(answer.header("allow"), allow, "{method} {path}");
    }
}

#[tokio::test]
async fn options_tells_the_methods_of_every_address() {
    let server = Server::new();
    for (path, allow) in [
        ("/", "GET,HEAD"),
        ("/readyz", "GET,HEAD"),
        ("/api/v1/titles", "GET,HEAD,POST"),
        ("/api/v1/sessions/x", "GET,HEAD,PATCH,DELETE"),
        ("*", "GET, HEAD, OPTIONS"),
    ] {
        let answer = server.call("OPTIONS", path).await;
        assert_eq!((answer.status, answer.header("allow")), (StatusCode::NO_CONTENT, allow), "{path}");
    }
    server.call("OPTIONS", "/nothing").await.problem(404);
}

#[tokio::test]
async fn sessions_open_and_close() {
    let server = Server::new();
    let open = |title: &str| {
        Request::post("/api/v1/sessions")
            .header("content-type", "application/json")
            .body(Body::from(format!("{{\"title\":\"{title}\"}}")))
            .expect("a request")
    };
    let answer = server.send(open("film")).await;
    assert_eq!((answer.status, &*answer.location()), (StatusCode::CREATED, "/api/v1/sessions/k0"));
    let session = serde_json::json!({
        "key": "k0", "title": "film", "class": "periodic", "hls": "/s/k0/master.m3u8", "dash": "/s/k0/manifest.mpd",
        "progressive": "/s/k0/film.mp4", "expires_in_s": 300,
        "starts_in_s": 0, "start_bound_s": 2,
    });
    assert_eq!(answer.json(), session);
    let listed = serde_json::json!({ "key_hint": "k0", "title": "film", "expires_in_s": 300 });
    assert_eq!(server.get("/api/v1/sessions").await.json(), serde_json::json!({ "sessions": [listed] }));
    assert!(server.send(open("none")).await.problem(404).contains("none"));
    assert!(server.send(open("none+none")).await.problem(404).contains("same title"));
    assert!(server.send(open("broken")).await.problem(500).contains("damaged"));
    let long = server.send(open("long")).await;
    assert!(long.problem(503).contains("longer than a day"));
    assert_eq!(long.json()["type"], "urn:reel:problem:too-long", "to ask again is of no use");
    assert_eq!(long.header("retry-after"), "");
    assert_eq!(server.send(open("film")).await.status, StatusCode::CREATED);
    let refused = server.send(open("film")).await;
    assert!(refused.problem(503).contains("two are enough"));
    assert_eq!(refused.header("retry-after"), "7");
    assert_eq!(server.call("DELETE", "/api/v1/sessions/k0").await.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn the_class_of_a_session_is_changed_or_stays() {
    let server = Server::new();
    let request = |method: &str, path: &str, body: &str| {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        request.body(Body::from(body.to_owned())).expect("a request")
    };
    let of_key = "/api/v1/sessions/k0";
    server.send(request("PATCH", of_key, r#"{"class":"gold"}"#)).await.problem(404);
    server.send(request("POST", "/api/v1/sessions", r#"{"title":"film"}"#)).await;
    let changed = server.send(request("PATCH", of_key, r#"{"class":"gold"}"#)).await;
    assert_eq!((changed.status, &changed.json()["class"]), (StatusCode::OK, &"gold".into()));
    let kind = |answer: &Answer| answer.json()["type"].as_str().unwrap_or_default().to_owned();
    for (class, status, problem, retry_after) in [
        ("none", 400, "urn:reel:problem:no-such-class", ""),
        ("others", 403, "urn:reel:problem:class-of-others", ""),
        ("full", 503, "urn:reel:problem:not-admitted", "7"),
        ("often", 429, "urn:reel:problem:not-admitted", "1"),
    ] {
        let refused = server.send(request("PATCH", of_key, &format!("{{\"class\":\"{class}\"}}"))).await;
        assert!(refused.problem(status).contains(class));
        assert_eq!((&*kind(&refused), refused.header("retry-after")), (problem, retry_after));
        assert_eq!(server.get(of_key).await.json()["class"], "gold", "it has the class that it had");
    }
    server.send(request("PATCH", of_key, r#"{"klass":"gold"}"#)).await.problem(400);
    let mut foreign = request("PATCH", of_key, r#"{"class":"bulk"}"#);
    foreign.headers_mut().insert("sec-fetch-site", "cross-site".parse().expect("a value"));
    server.send(foreign).await.problem(403);
    server.call("DELETE", of_key).await;
    server.get(of_key).await.problem(404);
}

#[tokio::test]
async fn bodies_that_are_not_what_is_asked_for() {
    let server = Server::new();
    let post = |media_type: &str, body: Vec<u8>| {
        Request::post("/api/v1/sessions")
            .header("content-type", media_type)
            .body(Body::from(body))
            .expect("a request")
    };
    server.send(post("text/plain", b"{}".to_vec())).await.problem(415);
    assert!(server.send(post("application/json", b"{".to_vec())).await.problem(400).contains("EOF"));
    assert!(
        server
            .send(post("application/json", b"{\"titel\":1}".to_vec()))
            .await
            .problem(400)
            .contains("expected `title`")
    );
    server.send(post("application/json; charset=utf-8", vec![b' '; 1 << 20])).await.problem(413);
    server.post("/api/v1/sessions", "{}").await.problem(415);
}

#[tokio::test]
async fn other_sites_may_read_but_not_change() {
    let server = Server::new();
    server.add("a").await;
    let request = |method: &str, site: &str| {
        Request::builder()
            .method(method)
            .uri("/api/v1/titles/a")
            .header("host", "reel.lan")
            .header("sec-fetch-site", site)
            .header("origin", "http://evil.example")
            .body(Body::empty())
            .expect("a request")
    };
    assert!(server.send(request("DELETE", "cross-site")).await.problem(403).contains("evil.example"));
    assert_eq!(server.send(request("GET", "cross-site")).await.status, StatusCode::OK);
    assert_eq!(server.send(request("DELETE", "same-origin")).await.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn health_and_readiness_are_different_things() {
    let server = Server::new();
    assert_eq!(server.get("/healthz").await.text(), "ok\n");
    assert_eq!(server.get("/readyz").await.json()["ready"], true);
    *server.library.state.lock().expect("lock") = VolumeState::Degraded;
    let degraded = server.get("/readyz").await;
    assert_eq!(
        (degraded.status, &degraded.json()["checks"][3]["ok"]),
        (StatusCode::OK, &serde_json::json!(false))
    );
    *server.library.state.lock().expect("lock") = VolumeState::Failed;
    assert_eq!(server.get("/readyz").await.status, StatusCode::SERVICE_UNAVAILABLE);
    *server.library.state.lock().expect("lock") = VolumeState::Ok;
    server.control.stop();
    assert_eq!(server.get("/readyz").await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(server.get("/healthz").await.status, StatusCode::OK);
}

#[tokio::test]
async fn the_volume_is_described() {
    let server = Server::new();
    server.library.free_bytes.store(77, Ordering::Relaxed);
    let volume = server.get("/api/v1/volume").await.json();
    assert_eq!(volume["free_bytes"], 77);
    assert_eq!(volume["members"][0]["state"], "present");
    assert_eq!(volume["geometry"]["data_rows"], 4);
}

#[tokio::test]
async fn posters_are_cached_and_harmless() {
    let server = Server::new();
    let id = server.add("%3Cb%3E").await;
    let answer = server.get(&format!("/img/{id}.svg")).await;
    assert_eq!((answer.status, answer.header("content-type")), (StatusCode::OK, "image/svg+xml"));
    assert!(answer.header("content-security-policy").contains("default-src 'none'"));
    assert!(answer.text().contains("&lt;b&gt;"));
    let again = Request::get(format!("/img/{id}.svg")).header("if-none-match", answer.header("etag"));
    let again = server.send(again.body(Body::empty()).expect("a request")).await;
    assert_eq!((again.status, again.body.len()), (StatusCode::NOT_MODIFIED, 0));
    server.get(&format!("/img/{id}.jpg")).await.problem(404);
}

#[tokio::test]
async fn pages_are_there_or_say_how_to_make_them() {
    let server = Server::new();
    server.add("a").await;
    let home = server.get("/").await;
    assert!(home.header("content-type").starts_with("text/html"));
    assert!(home.header("content-security-policy").starts_with("default-src 'self'; media-src 'self' blob:"));
    let (known, unknown) = (server.get("/title/a").await, server.get("/title/b").await);
    let lost =
        Request::get("/lost").header("accept", "text/html,*/*").body(Body::empty()).expect("a request");
    let lost = server.send(lost).await;
    assert!(lost.header("content-type").starts_with("text/html"));
    if home.status == StatusCode::OK {
        assert_eq!(
            (known.status, unknown.status, lost.status.as_u16()),
            (StatusCode::OK, StatusCode::NOT_FOUND, 404)
        );
        assert!(home.text().contains("<div id=\"app\">"));
        let again = Request::get("/").header("if-none-match", home.header("etag")).body(Body::empty());
        assert_eq!(server.send(again.expect("a request")).await.status, StatusCode::NOT_MODIFIED);
        let script =
            home.text().split('"').find(|part| part.starts_with("./assets/") && part.ends_with(".js"));
        let script = server.get(&script.expect("the page has a script")[1..]).await;
        assert_eq!(script.status, StatusCode::OK);
        assert!(script.header("cache-control").contains("immutable"));
    } else {
        assert_eq!(home.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(home.text().contains("npm --prefix web"));
    }
}

#[tokio::test]
async fn requests_and_jobs_are_counted() {
    let server = Server::new();
    server.get("/none").await;
    server.get("/healthz").await;
    let answer = server.get("/metrics").await;
    assert!(answer.header("content-type").starts_with("text/plain; version=0.0.4"));
    assert!(answer.text().contains("reel_control_responses_total{status=\"4xx\"} 1\n"), "{}", answer.text());
    assert!(answer.text().contains("reel_control_responses_total{status=\"2xx\"} 1\n"), "{}", answer.text());
    assert!(answer.text().contains("reel_jobs{state=\"ingesting\"} 0\n"), "{}", answer.text());
}

#[tokio::test]
async fn heads_have_no_body() {
    let server = Server::new();
    let head = server.call("HEAD", "/api/v1/volume").await;
    assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0));
    assert_eq!(head.header("content-length"), server.get("/api/v1/volume").await.body.len().to_string());
}

/// DNS rebinding: to the browser, the page of another site belongs to this server.
#[tokio::test]
async fn a_site_whose_name_leads_here_changes_nothing() {
    let server = Server::new();
    let id = server.add("film").await;
    let ask = |host: &str| {
        Request::builder()
            .method("DELETE")
            .uri(format!("/api/v1/titles/{id}"))
            .header("host", host)
            .header("origin", format!("http://{host}"))
            .header("sec-fetch-site", "same-origin")
            .body(Body::empty())
            .expect("a request")
    };
    let detail = server.send(ask("evil.example:8080")).await.problem(403);
    assert!(detail.contains("evil.example:8080") && detail.contains("`hosts` in reel.toml"), "{detail}");
    assert_eq!(server.send(ask("192.168.1.2:8080")).await.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn the_times_of_a_title_as_one_file_are_told() {
    let server = Server::new();
    let times = server.get("/api/v1/titles/film/file-times").await;
    assert_eq!(
        times.json(),
        serde_json::json!({
            "bytes": 250, "duration_ns": 5_000_000_000_u64,
            "stretches": [{"byte": 0, "at_ns": 0}, {"byte": 100, "at_ns": 2_000_000_000}],
        })
    );
    assert_eq!(server.get("/api/v1/titles/film/file-times?form=ts").await.status, StatusCode::OK);
    server.get("/api/v1/titles/film/file-times?form=avi").await.problem(400);
    server.get("/api/v1/titles/none/file-times").await.problem(404);
}
