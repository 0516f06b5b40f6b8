//! Dashboard, classes, capacity, and work on the volume.

use super::fake::{Answer, Server};
use crate::limits::DASHBOARD_SESSIONS_MAX;
use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::Duration;

async fn send(server: &Server, method: &str, path: &str, body: Value) -> Answer {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    server.send(request.body(Body::from(body.to_string())).expect("a request")).await
}

/// Waits until a job is over.
async fn ended(server: &Server, location: &str) -> Value {
    for _ in 0..5000 {
        let job = server.get(location).await.json();
        if job["state"] != "running" {
            return job;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("the job does not end");
}

#[tokio::test]
async fn the_dashboard_shows_members_resources_classes_and_sessions() {
    let server = Server::new();
    let shown = server.get("/api/v1/dashboard").await.json();
    assert_eq!((&shown["now_s"], &shown["round_ns"]), (&json!(77), &json!(1_000_000_000)));
    let member = &shown["members"][0];
    assert_eq!((&member["state"], &member["path"]), (&json!("present"), &json!("/m0")));
    assert_eq!((&member["slack_ms"], &member["least_slack_ms"]), (&json!(250.0), &json!(-1.5)));
    assert_eq!((&member["queued"], &member["errors"], &member["late"]), (&json!(4), &json!(1), &json!(3)));
    assert_eq!(member["last_late"], json!({ "class": "periodic", "ago_s": 7 }));
    assert_eq!(
        member["price"],
        json!({ "read_request_us": 100.0, "read_mib_us": 400.0, "independent_limits": false })
    );
    assert_eq!(
        member["measured_price"],
        json!({ "read_request_us": 23_200.0, "read_mib_us": 0.0, "independent_limits": false })
    );
    let class = &member["classes"][0];
    assert_eq!((&class["class"], &class["used_ms"]), (&json!("periodic"), &json!(1.235)));
    assert_eq!(member["classes"].as_array().map(Vec::len), Some(3), "also those that got nothing yet");
    assert_eq!(
        shown["resources"],
        json!([
            { "resource": "memory", "unit": "bytes", "used": 300, "capacity": 1000, "peak_used": 400 },
            { "resource": "network", "unit": "bytes", "used": 300, "capacity": null, "peak_used": 400 },
        ])
    );
    assert_eq!(shown["classes"][0]["deadline_misses"], 2);
    assert_eq!(shown["classes"][2]["share_permille"], 150);
    assert_eq!(shown["sessions_total"], 2);
    assert_eq!(shown["sessions"][1]["state"], "paused", "a session without a reservation comes last");
    let session = &shown["sessions"][0];
    assert_eq!((&session["client"], &session["position_s"]), (&json!("10.0.0.7"), &json!(61)));
    assert_eq!(shown["sharing"], json!({ "groups": 1, "followers": 3, "kept_bytes": 5_000_000 }));
    assert_eq!(
        shown["late"],
        json!([{
            "key_hint": "ab12", "title": "a-film", "client": "10.0.0.7", "class": "periodic",
            "units": 3, "late_ms": 120, "ago_s": 7,
        }])
    );
    assert_eq!(shown["refusals"], json!([{ "resource": "disk", "count": 6 }]));
}

#[tokio::test]
async fn the_dashboard_counts_all_reservations_and_lists_some_sessions() {
    let server = Server::new();
    server.admission.reserved.store(DASHBOARD_SESSIONS_MAX + 7, Ordering::Relaxed);
    let shown = server.get("/api/v1/dashboard").await.json();
    assert_eq!(shown["sessions"].as_array().map(Vec::len), Some(DASHBOARD_SESSIONS_MAX));
    assert_eq!(shown["sessions_total"], DASHBOARD_SESSIONS_MAX + 8);
    assert_eq!(shown["sessions_reserved"], DASHBOARD_SESSIONS_MAX + 7);
}

#[tokio::test]
async fn classes_are_changed_as_a_whole_or_not_at_all() {
    let server = Server::new();
    let class = |name: &str, kind: &str, share: u32| json!({ "name": name, "kind": kind, "share_permille": share, "network_permille": share });
    let default = server.get("/api/v1/classes").await.json();
    let periodic = json!({
        "name": "periodic", "kind": "periodic", "share_permille": 700, "network_permille": 850
    });
    assert_eq!(default[0], periodic);
    let three = |periodic: u32| {
        json!([
            class("periodic", "periodic", periodic),
            class("interactive", "interactive", 200),
            class("aperiodic", "aperiodic", 100),
        ])
    };
    let refused = send(&server, "PUT", "/api/v1/classes", three(900)).await.problem(422);
    assert!(refused.contains("1200"), "{refused}");
    let odd = json!([class("periodic", "hasty", 1000)]);
    assert!(send(&server, "PUT", "/api/v1/classes", odd).await.problem(422).contains("`hasty`"));
    send(&server, "PUT", "/api/v1/classes", json!({ "name": "x" })).await.problem(400);
    assert_eq!(server.get("/api/v1/classes").await.json(), default, "nothing was changed");

    let mut four = three(600);
    four.as_array_mut().expect("a list").push(class("premium", "periodic", 100));
    assert_eq!(send(&server, "PUT", "/api/v1/classes", four.clone()).await.json(), four);
    assert_eq!(server.get("/api/v1/classes").await.json(), four);
    assert_eq!(server.get("/api/v1/dashboard").await.json()["classes"][3]["name"], "premium");

    // Without a share of its own, the network is divided as everything else.
    let mut short = three(700);
    short.as_array_mut().expect("a list").iter_mut().for_each(|class| {
        class.as_object_mut().expect("a class").remove("network_permille");
    });
    assert_eq!(send(&server, "PUT", "/api/v1/classes", short).await.json(), three(700));
    send(&server, "PUT", "/api/v1/classes", four.clone()).await.json();

    let foreign = Request::put("/api/v1/classes")
        .header("content-type", "application/json")
        .header("sec-fetch-site", "cross-site")
        .body(Body::from(three(700).to_string()));
    server.send(foreign.expect("a request")).await.problem(403);
    assert_eq!(server.get("/api/v1/classes").await.json(), four);
}

#[tokio::test]
async fn the_capacity_for_a_rate() {
    let server = Server::new();
    assert_eq!(
        server.get("/api/v1/capacity?rate_bps=8000000").await.json(),
        json!({ "rate_bps": 8_000_000, "viewers": 12, "stopped_by": { "resource": "disk", "member": 0 }, "more_now": 11 })
    );
    for bad in ["", "?rate_bps=0", "?rate_bps=-1", "?rate_bps=fast", "?rate_bps=99999999999", "?rate=1"] {
        server.get(&format!("/api/v1/capacity{bad}")).await.problem(400);
    }
}

#[tokio::test]
async fn a_refusal_names_the_resource_by_its_code() {
    let server = Server::new();
    let open = || send(&server, "POST", "/api/v1/sessions", json!({ "title": "film" }));
    open().await;
    open().await;
    let refused = open().await;
    assert!(refused.problem(503).contains("two are enough"));
    assert_eq!(refused.header("retry-after"), "7");
    let body = refused.json();
    assert_eq!(
        (&body["type"], &body["resource"], &body["member"]),
        (&json!("urn:reel:problem:not-admitted"), &json!("disk"), &json!(3))
    );
    assert_eq!((&body["asked"], &body["available"]), (&json!(800), &json!(200)));
    assert_eq!((&body["grantable_rate_bps"], &body["retry_after_s"]), (&json!(2_000_000), &json!(7)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scrub_is_a_job_alone_on_the_volume() {
    let server = Server::new();
    let begun = server.post("/api/v1/volume/scrub", "").await;
    assert_eq!(begun.status, 202);
    let location = begun.location();
    let job = begun.json();
    assert_eq!((&job["kind"], &job["state"]), (&json!("scrub"), &json!("running")));
    for work in ["scrub", "rebuild"] {
        let busy = server.post(&format!("/api/v1/volume/{work}"), "").await;
        let reason = busy.problem(409);
        assert!(reason.contains("scrub") && reason.contains(job["id"].as_str().expect("an id")), "{reason}");
        assert_eq!(busy.json()["job"], job["id"]);
    }
    *server.volume_jobs.gate.lock().expect("lock") = true;
    let job = ended(&server, &location).await;
    assert_eq!((&job["state"], &job["result"]), (&json!("done"), &json!("all is well")));
    assert_eq!((&job["total_bytes"], &job["warnings"]), (&json!(100), &json!(["one row"])));
    server.call("DELETE", &location).await.problem(409);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_on_the_volume_is_cancelled_and_ends_with_the_server() {
    let server = Server::new();
    let location = server.post("/api/v1/volume/scrub", "").await.location();
    assert_eq!(server.call("DELETE", &location).await.status, 202);
    assert_eq!(ended(&server, &location).await["state"], "cancelled");
    server.call("DELETE", "/api/v1/jobs/none").await.problem(404);
    let location = server.post("/api/v1/volume/scrub", "").await.location();
    server.control.stop();
    assert_eq!(ended(&server, &location).await["error"], "it was told to end");
    server.post("/api/v1/volume/scrub", "").await.problem(503);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_be_done_says_why() {
    let server = Server::new();
    let location = server.post("/api/v1/volume/rebuild", "").await.location();
    let job = ended(&server, &location).await;
    assert_eq!((&job["state"], &job["error"]), (&json!("failed"), &json!("no member lacks anything")));
    for (body, status) in [
        (json!({ "member": 1, "path": "/m1" }), 422),
        (json!({ "member": 0, "path": "m1" }), 422),
        (json!({ "member": 0 }), 400),
        (json!({ "member": -1, "path": "/m1" }), 400),
    ] {
        send(&server, "POST", "/api/v1/volume/replace", body).await.problem(status);
    }
    let begun = send(&server, "POST", "/api/v1/volume/replace", json!({ "member": 0, "path": "/m9" })).await;
    let job = ended(&server, &begun.location()).await;
    assert_eq!((&job["file_name"], &job["result"]), (&json!("member 0: /m9"), &json!("0 is /m9 now")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_waits_to_be_stored_is_cancelled() {
    let server = Server::new();
    let held = server.library.gate.lock().await;
    let location = server.post("/api/v1/titles?filename=a.mp4", "FILM").await.location();
    assert_eq!(server.call("DELETE", &location).await.status, 202);
    drop(held);
    for _ in 0..5000 {
        if server.get(&location).await.json()["state"] == "cancelled" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{}", server.get(&location).await.text());
}
