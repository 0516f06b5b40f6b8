//! Files arriving.

use super::fake::{Answer, Server};
use crate::limits::{UPLOAD_LOOK_EVERY, UPLOAD_WAIT_MAX, UPLOADS_MAX};
use crate::sessions::ClientAddress;
use crate::{Problem, watch_directory};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use reel_library::{IngestError, SubtitleError};
use reel_qos::ClientShare;
use reel_volume::VolumeError;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

/// Asks for a job until it has ended. The time limit only ends a test that hangs.
async fn ended(server: &Server, address: &str) -> Value {
    for _ in 0..3000 {
        let job = server.get(address).await.json();
        if matches!(job["state"].as_str(), Some("done" | "failed" | "cancelled")) {
            return job;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the job did not end");
}

async fn upload(server: &Server, query: &str, body: impl Into<Body>) -> Answer {
    server.post(&format!("/api/v1/titles?{query}"), body).await
}

#[tokio::test]
async fn an_upload_becomes_a_job_and_then_a_title() {
    let server = Server::new();
    let answer = upload(&server, "filename=my_film.mp4", "FILM of my life").await;
    assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.text());
    let address = answer.location();
    assert_eq!(address, format!("/api/v1/jobs/{}", answer.json()["id"].as_str().expect("an id")));
    let job = ended(&server, &address).await;
    assert_eq!((job["state"].as_str(), job["title_id"].as_str()), (Some("done"), Some("my-film")));
    assert_eq!((&job["done_bytes"], &job["warnings"][0]), (&Value::from(15), &Value::from("a warning")));
    assert_eq!(server.get("/api/v1/titles/my-film").await.json()["name"], "my film");
    assert_eq!(server.spool_files(), 0);
}

#[tokio::test]
async fn waiting_gives_the_title_itself() {
    let server = Server::new();
    let answer = upload(&server, "filename=x.mp4&name=Am%C3%A9lie%20%2F..%2F%00&wait=true", "FILM").await;
    assert_eq!((answer.status, &*answer.location()), (StatusCode::CREATED, "/api/v1/titles/amelie"));
    assert_eq!(answer.json()["name"], "Amélie /../");
    let again = upload(&server, "name=Am%C3%A9lie&wait=true", "FILM").await;
    assert_eq!(again.json()["id"], "amelie-2");
}

#[tokio::test]
async fn an_upload_can_take_the_place_of_a_title() {
    let server = Server::new();
    upload(&server, "name=one&wait=true", "FILM").await;
    let over = upload(&server, "name=two&replaces=one&wait=true", "FILM").await;
    assert_eq!((over.status, &over.json()["id"]), (StatusCode::CREATED, &Value::from("one")));
    assert_eq!(over.json()["name"], "two");
    assert!(upload(&server, "name=x&replaces=none&wait=true", "FILM").await.problem(404).contains("none"));
    assert_eq!(server.get("/api/v1/titles").await.json()["titles"].as_array().expect("a list").len(), 1);
}

#[tokio::test]
async fn several_files_in_one_body_become_one_title() {
    let server = Server::new();
    let query = |files: &str| format!("wait=true&files={files}");
    let files = query("film.mp4/4/film%20720.mp4/7/film.en.srt/3");
    let title = upload(&server, &files, "FILMFILM720srt").await;
    assert_eq!(title.status, StatusCode::CREATED, "{}", title.text());
    let title = title.json();
    assert_eq!((title["id"].as_str(), &title["bytes"]), (Some("film"), &Value::from(14)));
    assert_eq!(title["video"].as_array().map(Vec::len), Some(2), "the subtitles are no rendition");
    assert_eq!(title["source"], serde_json::json!({ "name": "film.mp4", "bytes": 4 }));
    // However the body is cut on its way.
    let pieces = ["FI", "LMFILM72", "0sr", "t"].map(Ok::<_, std::io::Error>);
    let body = Body::from_stream(futures_util::stream::iter(pieces));
    assert_eq!(upload(&server, &files, body).await.json()["bytes"], 14);

    for (files, body, told) in [
        ("film.mp4/4/b.mp4", "FILM", "the size of \"b.mp4\""),
        ("film.mp4/x", "FILM", "the size of \"film.mp4\""),
        ("film.mp4/0", "FILM", "the size of \"film.mp4\""),
        ("film.srt/4", "FILM", "is no film"),
        ("film.mp4/4/a.srt/3", "FILMab", "shorter than its files"),
        ("film.mp4/4/a.srt/3", "FILM", "shorter than its files"),
        ("film.mp4/4", "FILMs", "longer than its files"),
    ] {
        let body = Body::from_stream(futures_util::stream::iter([Ok::<_, std::io::Error>(body)]));
        let detail = upload(&server, &query(files), body).await.problem(400);
        assert!(detail.contains(told), "{files}: {detail}");
    }
    let many = ["a.mp4/1"; 100].join("/");
    assert!(upload(&server, &query(&many), "FILM").await.problem(400).contains("too many"));
    let garbage = upload(&server, &query("film.mp4/4/b.mp4/3"), "FILMbad").await;
    assert!(garbage.problem(422).starts_with("b.mp4:"));
    assert_eq!(server.spool_files(), 0);
}

#[tokio::test]
async fn a_title_is_given_another_name() {
    let server = Server::new();
    upload(&server, "name=one&wait=true", "FILM").await;
    let patch = |id: &str, body: &str| {
        let request =
            Request::patch(format!("/api/v1/titles/{id}")).header("content-type", "application/json");
        server.send(request.body(Body::from(body.to_owned())).expect("a request"))
    };
    let changed = patch("one", "{\"name\": \"Another \\u202e one\"}").await;
    assert_eq!((changed.status, &changed.json()["name"]), (StatusCode::OK, &Value::from("Another one")));
    assert_eq!(server.get("/api/v1/titles/one").await.json()["name"], "Another one");
    assert!(patch("none", "{\"name\": \"x\"}").await.problem(404).contains("none"));
    assert!(patch("one", "{\"name\": \" \"}").await.problem(422).contains("visible"));
    assert!(patch("one", "{\"id\": \"x\"}").await.problem(400).contains("id"));
}

#[tokio::test]
async fn a_stored_title_gets_a_form() {
    let server = Server::new();
    server.add("one").await;
    let path = "/api/v1/titles/one/forms/ts";
    assert!(server.post(path, "").await.problem(409).contains("has the form ts already"));
    server.library.titles.lock().expect("lock").values_mut().for_each(|title| {
        std::sync::Arc::make_mut(title).forms.clear();
    });
    let begun = server.post(path, "").await;
    assert_eq!(begun.status, StatusCode::ACCEPTED, "{}", begun.text());
    let address = begun.location();
    assert_eq!(begun.json()["file_name"], "one: form ts");
    let mut job = begun.json();
    while job["state"] == "ingesting" {
        tokio::time::sleep(Duration::from_millis(5)).await;
        job = server.get(&address).await.json();
    }
    let said = (&job["state"], &job["title_id"], &job["warnings"][0]);
    assert_eq!(said, (&"done".into(), &"one".into(), &"subtitles are left out".into()));
    assert_eq!(server.get("/api/v1/titles/one").await.json()["forms"][0]["form"], "ts");
    assert!(server.post(path, "").await.problem(409).contains("has the form ts already"));
    assert!(server.post("/api/v1/titles/none/forms/ts", "").await.problem(404).contains("none"));
    let foreign = Request::post(path).header("origin", "http://evil.example");
    server.send(foreign.body(Body::empty()).expect("a request")).await.problem(403);
}

#[tokio::test]
async fn a_stored_title_gets_subtitles() {
    let server = Server::new();
    server.add("one").await;
    let post = async |query: &str, body: &str| {
        server.post(&format!("/api/v1/titles/one/subtitles?{query}"), body.to_owned()).await
    };
    let added = post("filename=..%2Fone.fr.srt&language=fr&label=All&forced=true", "SUBTITLES").await;
    assert_eq!(added.status, StatusCode::CREATED, "{}", added.text());
    let added = added.json();
    let wanted = serde_json::json!({ "track": 3, "language": "fr", "name": "All", "forced": true });
    assert_eq!((&added["title"]["subtitles"][1], &added["warnings"][0]), (&wanted, &Value::from("a guess")));
    assert_eq!(server.get("/api/v1/titles/one").await.json(), added["title"]);

    let second = post("language=fr&label=All", "SUBTITLES").await.problem(409);
    assert!(second.ends_with("; give these another label"), "{second}");
    let garbage = post("filename=..%2Fx.srt", "garbage").await.problem(422);
    assert!(garbage.starts_with("x.srt: there is no cue in the file; "), "{garbage}");
    assert!(post("title=x", "SUBTITLES").await.problem(400).contains("title"));
    let none = server.post("/api/v1/titles/none/subtitles", "SUBTITLES").await;
    assert!(none.problem(404).contains("none"));
    let large = vec![b'x'; (8 << 20) + 1];
    let unannounced = Body::from_stream(futures_util::stream::iter([Ok::<_, std::io::Error>(large.clone())]));
    for body in [Body::from(large), unannounced] {
        assert!(server.post("/api/v1/titles/one/subtitles", body).await.problem(413).contains("8388608"));
    }
    let foreign = Request::post("/api/v1/titles/one/subtitles").header("origin", "http://evil.example");
    server.send(foreign.body(Body::from("SUBTITLES")).expect("a request")).await.problem(403);
    assert_eq!(server.get("/api/v1/titles/one").await.json(), added["title"], "nothing of these was taken");
    let read_only = VolumeError::ReadOnly { reason: "a member is read-only".to_owned() };
    let read_only = Problem::from(SubtitleError::Store(IngestError::Volume(read_only)));
    assert_eq!(read_only.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(read_only.detail().contains("a member is read-only"));
    server.control.drain();
    assert!(post("", "SUBTITLES").await.problem(503).contains("shutting down"));
}

#[tokio::test]
async fn garbage_is_refused_with_the_reason() {
    let server = Server::new();
    for wait in ["true", "false"] {
        let answer = upload(&server, &format!("filename=..%2F..%2Fetc%2Fx.mp4&wait={wait}"), "garbage").await;
        let detail = answer.problem(422);
        assert!(detail.contains("not an MP4") && detail.starts_with("x.mp4:"), "{detail}");
    }
    assert!(upload(&server, "filename=a.mp4", "").await.problem(422).contains("empty"));
    let jobs = server.get("/api/v1/jobs").await.json();
    assert_eq!(jobs["jobs"].as_array().expect("a list").len(), 3);
    assert!(
        jobs["jobs"]
            .as_array()
            .expect("a list")
            .iter()
            .all(|job| job["state"] == "failed" && job["error"].is_string())
    );
    assert_eq!(server.spool_files(), 0);
}

#[tokio::test]
async fn forms_and_odd_queries_are_refused() {
    let server = Server::new();
    let form = Request::post("/api/v1/titles")
        .header("content-type", "multipart/form-data; boundary=x")
        .body(Body::from("FILM"));
    assert!(server.send(form.expect("a request")).await.problem(415).contains("--data-binary"));
    assert!(upload(&server, "nmae=x", "FILM").await.problem(400).contains("nmae"));
    assert!(upload(&server, "wait=perhaps", "FILM").await.problem(400).contains("`true` or `false`"));
}

#[tokio::test]
async fn too_large_is_reported_before_and_during_the_upload() {
    let server = Server::with_limit(10);
    let announced = Request::post("/api/v1/titles")
        .header("content-length", "11")
        .body(Body::from("FILM and on"))
        .expect("a request");
    assert!(server.send(announced).await.problem(413).contains("10 bytes"));
    assert_eq!(server.get("/api/v1/jobs").await.json()["jobs"], serde_json::json!([]), "nothing was begun");
    assert!(upload(&server, "", "FILM and on").await.problem(413).contains("10 bytes"));
    assert_eq!(server.spool_files(), 0);
}

#[tokio::test]
async fn a_full_volume_is_reported_at_once_or_at_the_end() {
    let server = Server::new();
    server.library.free_bytes.store(3, Ordering::Relaxed);
    let announced = Request::post("/api/v1/titles")
        .header("content-length", "4")
        .body(Body::from("FILM"))
        .expect("a request");
    assert!(server.send(announced).await.problem(507).contains("3 bytes free"));
    assert!(upload(&server, "wait=true", "FILM").await.problem(507).contains("3 bytes free"));
    let later = upload(&server, "", "FILM").await;
    let job = ended(&server, &later.location()).await;
    assert!(job["error"].as_str().is_some_and(|error| error.contains("3 bytes free")), "{job}");
}

#[tokio::test]
async fn a_spool_directory_without_room_or_rights_is_named() {
    let server = Server::with_limit(u64::MAX);
    server.library.free_bytes.store(u64::MAX, Ordering::Relaxed);
    let huge = Request::post("/api/v1/titles")
        .header("content-length", (1_u64 << 60).to_string())
        .body(Body::empty());
    let detail = server.send(huge.expect("a request")).await.problem(507);
    assert!(detail.contains("upload.spool_dir"), "{detail}");
    std::fs::write(server.spool.path().join("spool"), "a file where a directory should be").expect("written");
    let detail = upload(&server, "", "FILM").await.problem(500);
    assert!(detail.contains("upload.spool_dir"), "{detail}");
}

#[tokio::test]
async fn a_body_that_breaks_off_leaves_nothing() {
    let server = Server::new();
    let parts = [Ok("FI"), Err(std::io::Error::other("the client is gone"))];
    let body = Body::from_stream(futures_util::stream::iter(parts));
    assert!(upload(&server, "filename=a.mp4", body).await.problem(400).contains("after 2 bytes"));
    let job = &server.get("/api/v1/jobs").await.json()["jobs"][0];
    assert_eq!(job["state"], "failed");
    assert_eq!(server.spool_files(), 0);
    assert_eq!(server.get("/api/v1/titles").await.json()["titles"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn ingests_wait_their_turn_and_can_be_cancelled() {
    let server = Server::new();
    let gate = server.library.gate.lock().await;
    let first = upload(&server, "filename=a.mp4", "FILM").await.location();
    let second = upload(&server, "filename=b.mp4", "FILM").await.location();
    assert_eq!(server.get(&second).await.json()["state"], "ingesting");
    server.control.stop();
    drop(gate);
    for address in [first, second] {
        let job = ended(&server, &address).await;
        assert!(job["error"].as_str().is_some_and(|e| e.contains("stopped")), "{job}");
    }
}

/// Its slot, and its space in the spool directory, are free for others then.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_can_be_cancelled() {
    let server = Server::new();
    let gate = server.library.gate.lock().await;
    let first = upload(&server, "filename=a.mp4", "FILM").await.location();
    let second = upload(&server, "filename=b.mp4", "FILM").await.location();
    assert_eq!(server.call("DELETE", &second).await.status, StatusCode::ACCEPTED);
    assert_eq!(ended(&server, &second).await["state"], "cancelled");
    assert_eq!(server.get(&first).await.json()["state"], "ingesting");
    drop(gate);
    assert_eq!(ended(&server, &first).await["state"], "done");
}

#[tokio::test]
async fn an_upload_that_stands_still_can_be_cancelled() {
    let server = Server::new();
    let parts = futures_util::stream::iter([Ok::<_, std::io::Error>("FILM")]);
    let body = Body::from_stream(futures_util::StreamExt::chain(parts, futures_util::stream::pending()));
    let end = async {
        while server.control.jobs().list().first().is_none_or(|job| job.done_bytes == 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let id = server.control.jobs().list()[0].id.clone();
        server.call("DELETE", &format!("/api/v1/jobs/{id}")).await.status
    };
    let (answer, ended) = tokio::join!(upload(&server, "filename=a.mp4", body), end);
    assert_eq!(ended, StatusCode::ACCEPTED);
    assert!(answer.problem(503).contains("stopped"), "{}", answer.text());
    assert_eq!(server.get("/api/v1/jobs").await.json()["jobs"][0]["state"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_drains_finishes_running_uploads_and_begins_no_new_ones() {
    let server = Server::new();
    let gate = server.library.gate.lock().await;
    let first = upload(&server, "filename=a.mp4", "FILM").await.location();
    server.control.drain();
    let detail = upload(&server, "filename=b.mp4", "FILM").await.problem(503);
    assert!(detail.contains("shutting down"), "{detail}");
    drop(gate);
    server.control.drained().await;
    assert_eq!(server.get(&first).await.json()["state"], "done");
}

/// Each holds one of the few slots for uploads.
#[tokio::test(start_paused = true)]
async fn an_upload_that_hardly_moves_ends_and_one_over_a_slow_line_does_not() {
    let server = Server::new();
    let body = |bytes: usize, parts: u32, seconds: u64| {
        let parts = futures_util::stream::unfold(0, move |part| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            let piece = if part == 0 { b"FILM".to_vec() } else { vec![0; bytes] };
            (part < parts).then_some((Ok::<_, std::io::Error>(piece), part + 1))
        });
        Body::from_stream(parts)
    };
    let detail = upload(&server, "filename=a.mp4", body(1, 10_000, 7)).await.problem(408);
    assert!(detail.contains("less than 65536 bytes arrived in 60 s, after 11 in all"), "{detail}");
    assert_eq!(server.spool_files(), 0);
    let answer = upload(&server, "filename=b.mp4&wait=true", body(8 << 10, 120, 5)).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
}

#[tokio::test]
async fn an_upload_that_stands_still_at_shutdown_gets_an_answer() {
    let server = Server::new();
    let parts = futures_util::stream::iter([Ok::<_, std::io::Error>("FILM")]);
    let body = Body::from_stream(futures_util::StreamExt::chain(parts, futures_util::stream::pending()));
    let control = server.control.clone();
    let stop = async move {
        while control.jobs().list().first().is_none_or(|job| job.done_bytes == 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        control.stop();
    };
    let (answer, ()) = tokio::join!(upload(&server, "filename=a.mp4", body), stop);
    assert!(answer.problem(503).contains("send it again"), "{}", answer.text());
    assert_eq!((server.spool_files(), answer.header("retry-after")), (0, "30"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_directory_feeds_the_same_jobs() {
    let server = Server::new();
    let dir = tempfile::tempdir().expect("tempdir");
    std::fs::write(dir.path().join("good.mp4"), "FILM").expect("written");
    std::fs::write(dir.path().join("bad.mp4"), "garbage").expect("written");
    for name in ["good.mp4", "bad.mp4"] {
        // Old enough to be complete.
        let file = std::fs::File::options().write(true).open(dir.path().join(name)).expect("there");
        file.set_modified(SystemTime::UNIX_EPOCH).expect("set");
    }
    assert_eq!(server.get("/api/v1/watch").await.json()["directory"], Value::Null);
    let watching = watch_directory(server.control.clone(), dir.path(), tokio::runtime::Handle::current())
        .expect("begun");
    for _ in 0..3000 {
        let watched = server.get("/api/v1/watch").await.json();
        let has_ended =
            |file: &Value| ["failed", "taken"].contains(&file["state"].as_str().expect("a state"));
        let files = watched["files"].as_array().expect("a list");
        if files.len() == 2 && files.iter().all(has_ended) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let check = server.get("/readyz").await.json()["checks"][5].clone();
    assert_eq!((&check["name"], &check["ok"]), (&json!("watch"), &json!(true)));
    tokio::task::spawn_blocking(move || drop(watching)).await.expect("ended");
    let states: Vec<_> =
        server.control.jobs().list().into_iter().map(|job| (job.file_name, job.title_id)).collect();
    let watched = server.get("/api/v1/watch").await.json();
    let shown = |number: usize| {
        let file = &watched["files"][number];
        [&file["path"], &file["state"], &file["title_id"]].map(|value| value.as_str().map(str::to_owned))
    };
    assert_eq!(shown(0), [Some("bad.mp4".to_owned()), Some("failed".to_owned()), None]);
    assert_eq!(shown(1), ["good.mp4", "taken", "good"].map(|text| Some(text.to_owned())));
    let warnings = [0, 1].map(|number| &watched["files"][number]["warnings"]);
    assert_eq!(warnings, [&json!([]), &json!(["a warning"])]);
    let reason = watched["files"][0]["reason"].as_str().expect("a reason");
    assert!(reason.contains("not an MP4"), "{reason}");
    assert_eq!(states, [("good.mp4".to_owned(), Some("good".to_owned())), ("bad.mp4".to_owned(), None)]);
}

/// Waits until so many probes run. The time limit only ends a test that hangs.
async fn probing(server: &Server, count: usize) {
    for _ in 0..3000 {
        if server.library.probing.load(Ordering::Relaxed) == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} probes run", server.library.probing.load(Ordering::Relaxed));
}

#[tokio::test]
async fn a_file_is_not_parsed_for_a_client_that_has_left_or_cancelled() {
    let server = Server::new();
    server.library.endless_probes.store(true, Ordering::Relaxed);
    tokio::select! {
        answer = upload(&server, "filename=a.mp4", "FILM") => panic!("an answer: {}", answer.text()),
        () = probing(&server, 1) => {}
    }
    // The request was dropped, as it is when its connection closes.
    probing(&server, 0).await;
    let cancelled = async {
        probing(&server, 1).await;
        let jobs = server.get("/api/v1/jobs").await.json();
        let id = jobs["jobs"][0]["id"].as_str().expect("the running one is first").to_owned();
        server.call("DELETE", &format!("/api/v1/jobs/{id}")).await;
    };
    let (answer, ()) = tokio::join!(upload(&server, "filename=b.mp4", "FILM"), cancelled);
    assert!(!answer.status.is_success(), "{}", answer.text());
    probing(&server, 0).await;
    let stopped = async {
        probing(&server, 1).await;
        server.control.stop();
    };
    let (answer, ()) = tokio::join!(upload(&server, "filename=c.mp4", "FILM"), stopped);
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.text());
    probing(&server, 0).await;
}

#[tokio::test]
async fn work_on_files_has_the_lowest_priority_and_other_work_does_not() {
    let server = Server::new();
    upload(&server, "name=one&wait=true", "FILM").await;
    upload(&server, "name=one&replaces=one&wait=true", "FILM").await;
    server.post("/api/v1/titles/one/subtitles?language=de", "SUBTITLES").await;
    let file = server.spool.path().join("b.mp4");
    std::fs::write(&file, "FILM").expect("written");
    server.control.ingest_file(file, None).await.expect("taken");
    let seen = std::mem::take(&mut *server.library.niceness.lock().expect("lock"));
    // Two uploads, each with a look before its ingest and one in it; subtitles; the watched file.
    assert_eq!(seen, [reel_rt::limits::BACKGROUND_NICE; 9]);
    let others = crate::on_blocking_thread(reel_rt::niceness).await.expect("it ends");
    assert_eq!(others, reel_rt::niceness(), "threads of the pool stay as they are");
}

#[tokio::test]
async fn a_client_has_its_share_of_the_uploads_and_others_may_upload() {
    let server = Server::with(|config| config.shares.share = ClientShare::permille(750));
    let client = |number| ClientAddress(IpAddr::from([192, 0, 2, number]));
    let post = |number| {
        let mut request =
            Request::post("/api/v1/titles?name=x&wait=true").body(Body::from("FILM")).expect("one");
        request.extensions_mut().insert(client(number));
        server.send(request)
    };
    let places = &server.control.inner.upload_places;
    let held: Vec<_> = std::iter::from_fn(|| places.take(Some(client(7).0)).ok()).collect();
    assert_eq!(held.len(), UPLOADS_MAX * 3 / 4);
    let refused = post(7).await;
    assert_eq!((refused.status, refused.header("retry-after")), (StatusCode::TOO_MANY_REQUESTS, "30"));
    assert!(refused.text().contains("this client has 12 uploads under way, which is its share"));
    assert_eq!(post(8).await.status, StatusCode::CREATED);
    drop(held);
    assert_eq!(post(7).await.status, StatusCode::CREATED);
}

/// A body of so many bytes a second, without end.
fn dripping(bytes: usize) -> Body {
    let parts = futures_util::stream::unfold((), move |()| async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Some((Ok::<_, std::io::Error>(vec![0; bytes]), ()))
    });
    Body::from_stream(parts)
}

/// An upload of the client 192.0.2.`number`.
async fn upload_of(server: &Server, number: u8, body: Body) -> Answer {
    let mut request = Request::post("/api/v1/titles?name=x&wait=true").body(body).expect("one");
    request.extensions_mut().insert(ClientAddress(IpAddr::from([192, 0, 2, number])));
    server.send(request).await
}

/// Sixteen clients hold all places with uploads that crawl, come again as soon as one of them ends,
/// and are within their shares.
#[tokio::test(start_paused = true)]
async fn an_ordinary_client_gets_a_place_in_time_beside_uploads_that_crawl() {
    let server = Server::with(|config| {
        (config.shares.share, config.upload_bytes_max) = (ClientShare::permille(750), 1 << 40);
    });
    // More clients than places.
    let crawl = |number: u8| {
        let server = &server;
        async move {
            loop {
                let answer = upload_of(server, number, dripping(1000)).await;
                assert!(matches!(answer.status.as_u16(), 408 | 503), "{}", answer.text());
                if answer.status == StatusCode::REQUEST_TIMEOUT {
                    assert!(answer.text().contains("others wait for the place of this upload"));
                }
            }
        }
    };
    let crawlers = futures_util::future::join_all((100..124).map(crawl));
    let ordinary = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        for number in 1..5 {
            let from = tokio::time::Instant::now();
            // Read as soon as the upload has its place. What follows is real work on files, and the
            // paused clock advances meanwhile at any speed.
            let film = futures_util::stream::once(async move {
                let waited = from.elapsed();
                assert!(waited <= UPLOAD_WAIT_MAX + UPLOAD_LOOK_EVERY, "{waited:?}");
                Ok::<_, std::io::Error>("FILM")
            });
            let answer = upload_of(&server, number, Body::from_stream(film)).await;
            assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
        }
    };
    tokio::select! {
        _ = crawlers => unreachable!("they continue"),
        () = ordinary => {}
    }
}

/// Uploads at an ordinary rate keep their places, and so do those that crawl while no client waits.
#[tokio::test(start_paused = true)]
async fn uploads_that_do_not_crawl_make_no_room() {
    let server = Server::with(|config| config.upload_bytes_max = 1 << 40);
    let places = &server.control.inner.upload_places;
    let mut held: Vec<_> = (0..UPLOADS_MAX - 1).map(|_| places.take(None).expect("free")).collect();
    held.iter().for_each(|place| assert!(place.has_arrived(), "they wait for their ingest"));
    let steady = upload_of(&server, 1, dripping(64 << 10));
    let others = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(upload_of(&server, 2, Body::from("FILM")).await.status, StatusCode::SERVICE_UNAVAILABLE);
        held.pop();
        let crawls = upload_of(&server, 3, dripping(2000));
        let alone = tokio::time::sleep(Duration::from_secs(300));
        tokio::select! {
            answer = crawls => panic!("{}", answer.text()),
            () = alone => {}
        }
    };
    tokio::select! {
        answer = steady => panic!("{}", answer.text()),
        () = others => {}
    }
}
