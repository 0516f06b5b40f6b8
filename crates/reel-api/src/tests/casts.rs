//! Casts by the API.

use super::fake::Server;
use axum::body::Body;
use axum::http::{Request, StatusCode};

async fn add(server: &Server, body: &str) -> super::fake::Answer {
    let request = Request::post("/api/v1/casts").header("content-type", "application/json");
    server.send(request.body(Body::from(body.to_owned())).expect("a request")).await
}

#[tokio::test]
async fn casts_are_added_listed_described_and_stopped() {
    let server = Server::new();
    let added = add(&server, r#"{"title":"film","group":"239.1.1.1:5000","loop":true}"#).await;
    assert_eq!(added.status, StatusCode::CREATED, "{}", added.text());
    assert_eq!(added.location(), "/api/v1/casts/film");
    let one = server.get("/api/v1/casts/film").await.json();
    assert_eq!((&one["group"], &one["loop"]), (&"239.1.1.1:5000".into(), &true.into()));
    assert_eq!(server.get("/api/v1/casts").await.json()["casts"][0], one);
    let sdp = server.get("/casts/film.sdp").await;
    assert_eq!(sdp.header("content-type"), "application/sdp");
    assert!(sdp.text().starts_with("v=0\r\n"));
    let playlist = server.get("/casts.m3u").await;
    assert_eq!(playlist.header("content-type"), "audio/x-mpegurl");
    assert_eq!(playlist.text(), "#EXTM3U\n#EXTINF:-1,film\n# /casts/film.sdp\nrtp://@239.1.1.1:5000\n");
    assert_eq!(server.get("/casts/film").await.status, StatusCode::NOT_FOUND);
    assert_eq!(server.call("DELETE", "/api/v1/casts/film").await.status, StatusCode::NO_CONTENT);
    for (method, path) in
        [("DELETE", "/api/v1/casts/film"), ("GET", "/api/v1/casts/film"), ("GET", "/casts/film.sdp")]
    {
        assert_eq!(server.call(method, path).await.status, StatusCode::NOT_FOUND, "{method} {path}");
    }
}

#[tokio::test]
async fn refusals_say_why() {
    let server = Server::new();
    for (body, status) in [
        (r#"{"title":"none","group":"239.1.1.1:5000"}"#, StatusCode::NOT_FOUND),
        (r#"{"title":"full","group":"239.1.1.1:5000"}"#, StatusCode::SERVICE_UNAVAILABLE),
        (r#"{"title":"film","group":"239.1.1.1"}"#, StatusCode::BAD_REQUEST),
        (r#"{"title":"film","group":"239.1.1.1:5000","fec":"rs"}"#, StatusCode::BAD_REQUEST),
        (r#"{"title":"film","group":"239.1.1.1:5000","colour":"red"}"#, StatusCode::BAD_REQUEST),
        (r#"{"title":"film""#, StatusCode::BAD_REQUEST),
    ] {
        let refused = add(&server, body).await;
        assert_eq!(refused.status, status, "{body}: {}", refused.text());
    }
    let full = add(&server, r#"{"title":"full","group":"239.1.1.1:5000"}"#).await;
    assert_eq!(full.header("retry-after"), "7");
    let film = r#"{"title":"film","group":"239.1.1.1:5000"}"#;
    add(&server, film).await;
    let taken = add(&server, film).await;
    assert_eq!(taken.status, StatusCode::CONFLICT, "{}", taken.text());
}

#[tokio::test]
async fn slots_of_a_schedule_are_bounded() {
    let server = Server::new();
    add(&server, r#"{"title":"film","group":"239.1.1.1:5000"}"#).await;
    add(&server, r#"{"title":"plain","group":"239.1.1.2:5000"}"#).await;
    let slots = server.get("/api/v1/casts/film/schedule?from=7&slots=9").await.json();
    assert_eq!((&slots["first_slot"], &slots["segments"]), (&7.into(), &9.into()));
    assert_eq!(slots["now_slot"], serde_json::Value::Null);
    assert_eq!(server.get("/api/v1/casts/film/schedule").await.json()["segments"], 48);
    for (path, status) in [
        ("film/schedule?slots=0", 400),
        ("film/schedule?slots=201", 400),
        ("film/schedule?slots=-1", 400),
        ("film/schedule?slots=NaN", 400),
        ("film/schedule?slots=99999999999", 400),
        ("film/schedule?from=9007199254740993", 400),
        ("film/schedule?from=18446744073709551615&slots=200", 400),
        ("film/schedule?from=-1", 400),
        ("film/schedule?until=3", 400),
        ("plain/schedule", 404),
        ("none/schedule", 404),
    ] {
        server.get(&format!("/api/v1/casts/{path}")).await.problem(status);
    }
}

#[tokio::test]
async fn plans_of_what_is_not_there_are_refused() {
    let server = Server::new();
    let plans = server.get("/api/v1/cast-plans?title=film&wait_s=30").await.json();
    assert_eq!(plans["rate_bps"], 4_000_000);
    for (query, status) in [
        ("title=none&wait_s=30", 404),
        ("title=film&wait_s=NaN", 422),
        ("title=film&wait_s=long", 400),
        ("title=film&bandwidth_bps=-1", 400),
        ("title=film&colour=red", 400),
        ("wait_s=30", 400),
    ] {
        server.get(&format!("/api/v1/cast-plans?{query}")).await.problem(status);
    }
}

#[tokio::test]
async fn the_dashboard_counts_casts() {
    let server = Server::new();
    add(&server, r#"{"title":"film","group":"239.1.1.1:5000"}"#).await;
    let casts = &server.get("/api/v1/dashboard").await.json()["casts"];
    assert_eq!((&casts["on_air"], &casts["rate_bps"]), (&1.into(), &4_000_000.into()), "{casts}");
    assert_eq!((&casts["waiting"], &casts["late_packets"]), (&0.into(), &0.into()), "{casts}");
}
