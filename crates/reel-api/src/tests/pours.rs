//! Sessions on poured streams.

use super::fake::{Answer, Server};
use axum::body::Body;
use axum::http::{Request, StatusCode};

async fn open(server: &Server, name: &str, body: &str) -> Answer {
    let request = Request::post(format!("/api/v1/pours/{name}/sessions"));
    let request = request.header("content-type", "application/json");
    server.send(request.body(Body::from(body.to_owned())).expect("a request")).await
}

#[tokio::test]
async fn a_session_on_a_poured_stream_has_outlets() {
    let server = Server::new();
    let opened = open(&server, "live", "{}").await;
    assert_eq!(opened.status, StatusCode::CREATED, "{}", opened.text());
    assert_eq!(opened.location(), "/api/v1/sessions/k0");
    let session = opened.json();
    assert_eq!(
        (&session["outlets"], &session["class"]),
        (&"/api/v1/sessions/k0/outlets".into(), &"periodic".into())
    );
    for (name, body, status) in [
        ("none", "{}", StatusCode::NOT_FOUND),
        ("live", r#"{"class":"royal"}"#, StatusCode::BAD_REQUEST),
        ("live", r#"{"clas":"periodic"}"#, StatusCode::BAD_REQUEST),
        ("live", "{", StatusCode::BAD_REQUEST),
    ] {
        let refused = open(&server, name, body).await;
        assert_eq!(refused.status, status, "{name} {body}: {}", refused.text());
    }
}
