//! Files arriving.

use super::fake::{Answer, Server};
use crate::watch_directory;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::Value;
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
    let address = answer.header("location").to_owned();
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
    assert_eq!((answer.status, answer.header("location")), (StatusCode::CREATED, "/api/v1/titles/amelie"));
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
    let job = ended(&server, later.header("location")).await;
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
    let first = upload(&server, "filename=a.mp4", "FILM").await.header("location").to_owned();
    let second = upload(&server, "filename=b.mp4", "FILM").await.header("location").to_owned();
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
    let first = upload(&server, "filename=a.mp4", "FILM").await.header("location").to_owned();
    let second = upload(&server, "filename=b.mp4", "FILM").await.header("location").to_owned();
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
    let first = upload(&server, "filename=a.mp4", "FILM").await.header("location").to_owned();
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
    let reason = watched["files"][0]["reason"].as_str().expect("a reason");
    assert!(reason.contains("not an MP4"), "{reason}");
    assert_eq!(states, [("good.mp4".to_owned(), Some("good".to_owned())), ("bad.mp4".to_owned(), None)]);
}
