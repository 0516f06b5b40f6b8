//! Addresses for clients that see the server below a path of a proxy.

use super::fake::{Answer, Server};
use crate::below::place;
use axum::body::Body;
use axum::http::Request;
use reel_serve::Proxies;
use serde_json::Value;
use std::net::IpAddr;

const PROXY: &str = "127.0.0.1";

/// A server that believes one proxy, with this path in its configuration.
async fn server(base_path: &str) -> Server {
    let server = Server::with(|config| {
        config.proxies = Proxies::new(vec![PROXY.parse().expect("a range")]);
        config.base_path = base_path.parse().expect("a path");
    });
    server.add("film").await;
    server
}

/// The answer to a request that came from `peer` with these values of `X-Forwarded-Prefix`.
async fn ask(server: &Server, peer: &str, said: &[&str], request: &str, body: &str) -> Answer {
    let (method, path) = request.split_once(' ').expect("a method and a path");
    let asked = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let asked = said.iter().fold(asked, |asked, value| asked.header("x-forwarded-prefix", *value));
    let mut asked = asked.body(Body::from(body.to_owned())).expect("a request");
    let peer: IpAddr = peer.parse().expect("an address");
    place(&mut asked, peer, server.control.config());
    server.send(asked).await
}

/// Every text in JSON that is a path.
fn paths(json: &Value) -> Vec<&str> {
    match json {
        Value::String(text) if text.starts_with('/') => vec![text],
        Value::Array(items) => items.iter().flat_map(paths).collect(),
        Value::Object(fields) => fields.values().flat_map(paths).collect(),
        _ => Vec::new(),
    }
}

/// Requests whose answers give addresses, in an order in which each of them succeeds, and how many
/// they give.
const GIVING: [(&str, &str, usize); 10] = [
    ("GET /api/v1/titles", "", 5),
    ("GET /api/v1/titles/film", "", 5),
    ("PATCH /api/v1/titles/film", r#"{"name":"Film"}"#, 5),
    ("POST /api/v1/titles?filename=b.mp4&wait=true", "FILM", 5),
    ("POST /api/v1/sessions", r#"{"title":"film"}"#, 3),
    ("GET /api/v1/sessions/k0", "", 3),
    ("POST /api/v1/casts", r#"{"title":"film","group":"239.1.1.1:5000"}"#, 1),
    ("GET /api/v1/casts", "", 1),
    ("GET /api/v1/casts/film", "", 1),
    ("POST /api/v1/pours/live/sessions", "{}", 1),
];

/// Fails unless every address that the server gives begins with `below`, for requests that begin
/// with `sent`.
async fn assert_all_begin(server: &Server, said: (&str, &[&str]), sent: &str, below: &str) {
    for (request, body, count) in GIVING {
        let request = request.replacen(' ', &format!(" {sent}"), 1);
        let answer = ask(server, said.0, said.1, &request, body).await;
        assert!(answer.status.is_success(), "{request}: {}", answer.text());
        let json = answer.json();
        let paths = paths(&json);
        assert_eq!(paths.len(), count, "{request}: {json}");
        let is_right = |path: &str| {
            let rest = path.strip_prefix(below).unwrap_or_default().split('/').nth(1).unwrap_or_default();
            ["watch", "files", "img", "s", "casts", "api"].contains(&rest)
        };
        assert!(paths.iter().all(|path| is_right(path)), "{request}: {paths:?}");
    }
    let list = ask(server, said.0, said.1, &format!("GET {sent}/casts.m3u"), "").await;
    assert!(list.text().contains(&format!("\n# {below}/casts/film.sdp\n")), "{}", list.text());
    let page = ask(server, said.0, said.1, &format!("GET {sent}/dav/"), "").await;
    assert!(page.text().contains(&format!("href=\"{below}/dav/play/\"")), "{}", page.text());
    let request = format!("PROPFIND {sent}/dav/");
    let found = ask(server, said.0, said.1, &request, "").await;
    assert_eq!(found.status, 403, "of no finite depth");
}

#[tokio::test]
async fn addresses_are_below_the_path_that_a_proxy_names() {
    for (said, below) in [(&["/reel"][..], "/reel"), (&["/outer", "/inner/"], "/outer/inner"), (&["/"], "")] {
        assert_all_begin(&server("").await, (PROXY, said), "", below).await;
    }
}

#[tokio::test]
async fn nothing_is_believed_of_others_and_nothing_that_is_no_path() {
    let server = server("").await;
    for (peer, said) in [
        ("192.0.2.7", "/reel"),
        (PROXY, "//evil.example"),
        (PROXY, "/../x"),
        (PROXY, "/a\"><script>"),
        (PROXY, "https://evil.example/"),
        (PROXY, "reel"),
        (PROXY, "/a,b"),
    ] {
        let answer = ask(&server, peer, &[said], "GET /api/v1/titles/film", "").await.json();
        assert_eq!(answer["download"], "/files/film.mp4?download", "{said} of {peer}");
    }
}

#[tokio::test]
async fn a_configured_path_may_stand_in_requests_or_not_and_stands_in_addresses() {
    for sent in ["/reel", ""] {
        assert_all_begin(&server("/reel").await, ("192.0.2.7", &[]), sent, "/reel").await;
        assert_all_begin(&server("/reel").await, (PROXY, &["/other"]), sent, "/other").await;
    }
    let server = server("/films/reel").await;
    let ask = async |path: &str| ask(&server, PROXY, &[], &format!("GET {path}"), "").await;
    let home = ask("/films/reel").await;
    assert_eq!((home.status.as_u16(), &*home.location()), (308, "/films/reel/"));
    // `%72` is an r.
    assert_eq!(ask("/films/%72eel/healthz").await.text(), "ok\n");
    for elsewhere in ["/films/reels/healthz", "/films/healthz", "/films", "/films/reel/films/reel/healthz"] {
        ask(elsewhere).await.problem(404);
    }
}

/// A cache asks again with the tag before it uses the list.
#[tokio::test]
async fn lists_with_other_addresses_have_other_tags() {
    let server = server("").await;
    let tag = async |said: &[&str]| {
        let answer = ask(&server, PROXY, said, "GET /api/v1/titles", "").await;
        assert_eq!(answer.header("cache-control"), "no-cache");
        answer.header("etag").to_owned()
    };
    assert_ne!(tag(&["/reel"]).await, tag(&[]).await);
    assert_eq!(tag(&["/reel"]).await, tag(&["/reel/"]).await);
}
