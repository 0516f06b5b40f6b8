//! Outlets of sessions by the API.

use super::fake::{Answer, Server};
use axum::body::Body;
use axum::http::{Request, StatusCode};

/// A server with one session, `k0`.
async fn with_a_session() -> Server {
    let server = Server::new();
    let request = Request::post("/api/v1/sessions").header("content-type", "application/json");
    let opened = server.send(request.body(Body::from(r#"{"title":"film"}"#)).expect("a request")).await;
    assert_eq!((opened.status, &opened.json()["key"]), (StatusCode::CREATED, &"k0".into()));
    server
}

async fn add(server: &Server, key: &str, body: &str) -> Answer {
    let request = Request::post(format!("/api/v1/sessions/{key}/outlets"));
    let request = request.header("content-type", "application/json");
    server.send(request.body(Body::from(body.to_owned())).expect("a request")).await
}

#[tokio::test]
async fn outlets_are_added_listed_and_removed() {
    let server = with_a_session().await;
    let added = add(&server, "k0", r#"{"to":"file:copy.mp4","from_byte":7}"#).await;
    assert_eq!(added.status, StatusCode::CREATED, "{}", added.text());
    assert_eq!(added.location(), "/api/v1/sessions/k0/outlets/0");
    let one = server.get("/api/v1/sessions/k0/outlets/0").await.json();
    assert_eq!((&one["to"], &one["state"]), (&"file:copy.mp4".into(), &"joined".into()));
    assert_eq!(one["from_byte"], 7);
    assert_eq!(server.get("/api/v1/sessions/k0/outlets").await.json()["outlets"][0], one);
    let removed = server.call("DELETE", "/api/v1/sessions/k0/outlets/0").await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT);
    for (method, path) in [
        ("DELETE", "/api/v1/sessions/k0/outlets/0"),
        ("GET", "/api/v1/sessions/k0/outlets/0"),
        ("GET", "/api/v1/sessions/other/outlets"),
        ("GET", "/api/v1/sessions/other/outlets/0"),
    ] {
        assert_eq!(server.call(method, path).await.status, StatusCode::NOT_FOUND, "{method} {path}");
    }
}

#[tokio::test]
async fn the_destination_of_an_outlet_is_replaced() {
    let server = with_a_session().await;
    assert_eq!(add(&server, "k0", r#"{"to":"file:copy.mp4"}"#).await.status, StatusCode::CREATED);
    let put = async |path: &str, body: &str| {
        let request = Request::put(format!("/api/v1/sessions/{path}"));
        let request = request.header("content-type", "application/json");
        server.send(request.body(Body::from(body.to_owned())).expect("a request")).await
    };
    let replaced = put("k0/outlets/0", r#"{"to":"file:other.mp4"}"#).await;
    assert_eq!((replaced.status, &replaced.json()["to"]), (StatusCode::OK, &"file:other.mp4".into()));
    let one = server.get("/api/v1/sessions/k0/outlets/0").await.json();
    assert_eq!((&one["to"], &one["number"]), (&"file:other.mp4".into(), &0.into()));
    for (path, body, status) in [
        ("k0/outlets/1", r#"{"to":"file:a"}"#, StatusCode::NOT_FOUND),
        ("other/outlets/0", r#"{"to":"file:a"}"#, StatusCode::NOT_FOUND),
        ("k0/outlets/0", r#"{"to":"taken"}"#, StatusCode::CONFLICT),
        // Where it begins is where the other one ends.
        ("k0/outlets/0", r#"{"to":"file:a","from_byte":7}"#, StatusCode::BAD_REQUEST),
        ("k0/outlets/0", "{}", StatusCode::BAD_REQUEST),
    ] {
        let refused = put(path, body).await;
        assert_eq!(refused.status, status, "{path} {body}: {}", refused.text());
    }
}

#[tokio::test]
async fn refusals_say_why() {
    let server = with_a_session().await;
    for (key, to, status) in [
        ("other", "file:a", StatusCode::NOT_FOUND),
        ("k0", "impossible", StatusCode::UNPROCESSABLE_ENTITY),
        ("k0", "denied", StatusCode::FORBIDDEN),
        ("k0", "taken", StatusCode::CONFLICT),
        ("k0", "many", StatusCode::TOO_MANY_REQUESTS),
        ("k0", "busy", StatusCode::SERVICE_UNAVAILABLE),
        ("k0", "full", StatusCode::INSUFFICIENT_STORAGE),
    ] {
        let refused = add(&server, key, &format!(r#"{{"to":"{to}"}}"#)).await;
        assert_eq!(refused.status, status, "{to}: {}", refused.text());
    }
    for body in [r#"{"to":"file:a","from":1}"#, r#"{"to":7}"#, r#"{"from_byte":1}"#, "{"] {
        let refused = add(&server, "k0", body).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{body}: {}", refused.text());
    }
}

/// A page of another site has a visitor's browser write no files.
#[tokio::test]
async fn pages_of_other_sites_add_no_outlets() {
    let server = with_a_session().await;
    let request = Request::post("/api/v1/sessions/k0/outlets")
        .header("content-type", "application/json")
        .header("origin", "http://evil.example")
        .header("sec-fetch-site", "cross-site");
    let answer = server.send(request.body(Body::from(r#"{"to":"file:a"}"#)).expect("a request")).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.text());
    assert_eq!(server.get("/api/v1/sessions/k0/outlets").await.json()["outlets"], serde_json::json!([]));
}
