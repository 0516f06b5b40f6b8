//! Connections with HTTP/2, and those beyond the number that is served. Over pipes, in tokio's
//! simulated time.

use super::fake::Server;
use crate::limits::{
    CONNECTIONS_MAX, HTTP2_IDLE_WHEN_FULL_MAX, HTTP2_REQUESTS_MAX, REFUSED_CONNECTIONS_MAX,
    TOLD_FULL_TIME_MAX,
};
use crate::serve::serve_http1;
use crate::serve_http2::serve_http2;
use crate::slots::ConnectionSlot;
use crate::turns::Turns;
use axum::http::{Request, StatusCode};
use bytes::Bytes;
use reel_qos::ClientShare;
use reel_serve::Proxies;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// More than any wait here: what has not arrived by then never arrives.
const NEVER: Duration = Duration::from_secs(600);

/// A client, and the tasks of both ends of its connection.
struct Client {
    requests: h2::client::SendRequest<Bytes>,
    served: JoinHandle<()>,
    ended: JoinHandle<Result<(), h2::Error>>,
}

impl Client {
    async fn new(server: &Server) -> Client {
        let (ours, served) = pipe(server);
        let (requests, connection) = h2::client::handshake(ours).await.expect("a connection");
        Client { requests, served, ended: tokio::spawn(connection) }
    }

    /// Asks, and says what is answered and when it is to come back.
    async fn ask(&self) -> (StatusCode, Option<String>) {
        self.ask_for("/api/v1/jobs").await
    }

    async fn ask_for(&self, path: &str) -> (StatusCode, Option<String>) {
        let request = Request::get(format!("http://reel{path}")).body(()).expect("a request");
        let mut requests = self.requests.clone().ready().await.expect("open");
        let (answer, _) = requests.send_request(request, true).expect("sent");
        let mut answer = answer.await.expect("an answer");
        while let Some(bytes) = answer.body_mut().data().await {
            bytes.expect("a body");
        }
        let retry_after = answer.headers().get("retry-after").map(|at| at.to_str().expect("text").to_owned());
        (answer.status(), retry_after)
    }
}

/// A connection with HTTP/2 on which nothing was sent yet.
fn pipe(server: &Server) -> (DuplexStream, JoinHandle<()>) {
    let (ours, theirs) = duplex(64 << 10);
    (ours, tokio::spawn(serve_http2(theirs, Turns::of(PEER), server.control.clone())))
}

async fn ask_http1(server: &Server) -> String {
    ask_as(server, PEER, "/api/v1/jobs", "").await
}

/// Asks with HTTP/1.1 as this client.
async fn ask_as(server: &Server, peer: IpAddr, path: &str, fields: &str) -> String {
    let (mut ours, theirs) = duplex(64 << 10);
    let served = tokio::spawn(serve_http1(theirs, Turns::of(peer), server.control.clone()));
    // Whether this is still heard is what is asked.
    let _ = ours.write_all(format!("GET {path} HTTP/1.1\r\nHost: reel\r\n{fields}\r\n").as_bytes()).await;
    let _ = ours.shutdown().await;
    let mut text = String::new();
    let _ = ours.read_to_string(&mut text).await;
    served.await.expect("ended");
    text
}

fn take(server: &Server, slots: usize) -> Vec<ConnectionSlot> {
    server.control.take_slots(PEER, slots)
}

#[tokio::test(start_paused = true)]
async fn a_connection_too_many_is_answered_so_and_its_client_is_served_over_another() {
    let server = Server::new();
    let all = take(&server, CONNECTIONS_MAX);
    let client = Client::new(&server).await;
    let from = Instant::now();
    let (status, retry_after) = client.ask().await;
    assert_eq!((status, retry_after.as_deref()), (StatusCode::SERVICE_UNAVAILABLE, Some("5")));
    timeout(NEVER, client.served).await.expect("it ends").expect("ended");
    assert!(from.elapsed() < TOLD_FULL_TIME_MAX, "it was told to leave with its answer");
    client.ended.await.expect("ended").expect("a farewell, and not a broken connection");
    drop(all);
    assert_eq!(Client::new(&server).await.ask().await, (StatusCode::OK, None));
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_too_many_is_closed_too() {
    let server = Server::new();
    let _all = take(&server, CONNECTIONS_MAX);
    let (_silent, served) = pipe(&server);
    let from = Instant::now();
    timeout(NEVER, served).await.expect("it ends").expect("ended");
    assert!(from.elapsed() <= TOLD_FULL_TIME_MAX + Duration::from_secs(1), "{:?}", from.elapsed());
}

#[tokio::test(start_paused = true)]
async fn only_so_many_connections_too_many_are_answered() {
    let server = Server::new();
    let all = take(&server, CONNECTIONS_MAX);
    let pipes: Vec<_> = (0..REFUSED_CONNECTIONS_MAX).map(|_| pipe(&server)).collect();
    tokio::task::yield_now().await;
    let (_ours, dropped) = pipe(&server);
    let from = Instant::now();
    timeout(NEVER, dropped).await.expect("it ends").expect("ended");
    assert_eq!(from.elapsed(), Duration::ZERO);
    assert_eq!(ask_http1(&server).await, "", "with HTTP/1.1 as well");
    drop(pipes);
    tokio::time::sleep(TOLD_FULL_TIME_MAX).await;
    let text = ask_http1(&server).await;
    assert!(text.starts_with("HTTP/1.1 503 ") && text.contains("retry-after: 5\r\n"), "{text}");
    drop(all);
    assert!(ask_http1(&server).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_gives_way_when_all_are_open() {
    let server = Server::new();
    let quiet = Client::new(&server).await;
    assert_eq!(quiet.ask().await.0, StatusCode::OK);
    let _others = take(&server, CONNECTIONS_MAX - 1);
    let from = Instant::now();
    timeout(NEVER, quiet.served).await.expect("it ends").expect("ended");
    assert!(from.elapsed() < HTTP2_IDLE_WHEN_FULL_MAX * 2, "{:?}", from.elapsed());
    assert_eq!(Client::new(&server).await.ask().await.0, StatusCode::OK);
}

/// A server on which one client may hold three times what it leaves free, behind a proxy at
/// [`PEER`].
fn sharing() -> Server {
    Server::with(|config| {
        config.shares.share = ClientShare::permille(750);
        config.proxies = Proxies::new(vec!["127.0.0.1".parse().expect("a range")]);
    })
}

#[tokio::test(start_paused = true)]
async fn a_client_has_its_share_of_the_connections_and_others_are_served() {
    let server = sharing();
    let client = |number| IpAddr::from([192, 0, 2, number]);
    let held = server.control.take_slots(client(7), CONNECTIONS_MAX * 3 / 4);
    let refused = ask_as(&server, client(7), "/api/v1/titles", "").await;
    assert!(refused.starts_with("HTTP/1.1 429 ") && refused.contains("retry-after: 5\r\n"), "{refused}");
    assert!(refused.contains("this client has 384 requests under way"), "{refused}");
    let other = ask_as(&server, client(8), "/api/v1/titles", "").await;
    assert!(other.starts_with("HTTP/1.1 200 "), "{other}");
    drop(held);
    let again = ask_as(&server, client(7), "/api/v1/titles", "").await;
    assert!(again.starts_with("HTTP/1.1 200 "), "{again}");
}

/// Requests with HTTP/2 hold memory, so there are only so many, whatever the connections allow.
#[test]
fn requests_over_http2_are_bounded_over_all_connections() {
    let server = sharing();
    let client = |number| IpAddr::from([192, 0, 2, number]);
    let slots: Vec<_> = server.control.take_slots(client(7), 8);
    let ask = |number: u8| server.control.request_place(&slots[0], client(number), "/api/v1/titles");
    let held: Vec<_> = std::iter::from_fn(|| ask(7).ok()).collect();
    assert_eq!(held.len(), HTTP2_REQUESTS_MAX * 3 / 4);
    let Err(refused) = ask(7) else { panic!("more than its share") };
    assert!(refused.to_string().contains("1536 requests under way"), "{refused}");
    assert!(server.control.request_place(&slots[0], client(7), "/healthz").is_ok());
    assert!(ask(8).is_ok(), "others are served");
    drop(held);
    assert!(ask(7).is_ok());
}

#[tokio::test(start_paused = true)]
async fn clients_behind_a_proxy_have_shares_of_their_own() {
    let server = sharing();
    let _held = server.control.take_slots(IpAddr::from([192, 0, 2, 7]), CONNECTIONS_MAX * 3 / 4);
    for (client, status) in [("192.0.2.7", "429"), ("192.0.2.8", "200")] {
        let answer = ask_as(&server, PEER, "/api/v1/titles", &format!("X-Forwarded-For: {client}\r\n")).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{client}: {answer}");
    }
    let own = ask_as(&server, PEER, "/api/v1/titles", "").await;
    assert!(own.starts_with("HTTP/1.1 200 "), "the proxy itself is not bound: {own}");
}

/// One client that may hold everything holds it with bodies that never come.
#[tokio::test(start_paused = true)]
async fn health_is_answered_when_slow_bodies_hold_all_slots() {
    let server = Server::new();
    let attacker = IpAddr::from([192, 0, 2, 7]);
    let mut slow = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        let (mut ours, theirs) = duplex(64 << 10);
        tokio::spawn(serve_http1(theirs, Turns::of(attacker), server.control.clone()));
        let head = b"POST /api/v1/sessions HTTP/1.1\r\nHost: reel\r\nContent-Length: 100\r\n\r\n";
        ours.write_all(head).await.expect("sent");
        slow.push(ours);
    }
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(server.control.is_full());
    for path in ["/healthz", "/readyz", "/metrics"] {
        let answer = ask_as(&server, PEER, path, "").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    }
    assert!(ask_as(&server, PEER, "/api/v1/jobs", "").await.starts_with("HTTP/1.1 503 "));
    let client = Client::new(&server).await;
    assert_eq!(client.ask_for("/readyz").await.0, StatusCode::OK, "with HTTP/2 as well");
    assert!(server.control.is_full(), "until then the bodies had time");
}

/// A client behind a proxy that is refused holds none of the proxy's slots.
#[tokio::test(start_paused = true)]
async fn refused_clients_behind_a_proxy_hold_no_slots() {
    let server = sharing();
    let client = IpAddr::from([192, 0, 2, 7]);
    let _held = server.control.take_slots(client, CONNECTIONS_MAX * 3 / 4);
    let mut slow = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        let (mut ours, theirs) = duplex(64 << 10);
        tokio::spawn(serve_http1(theirs, Turns::of(PEER), server.control.clone()));
        let fields = "Host: reel\r\nX-Forwarded-For: 192.0.2.7\r\nContent-Length: 100\r\n";
        ours.write_all(format!("POST /api/v1/sessions HTTP/1.1\r\n{fields}\r\n").as_bytes())
            .await
            .expect("sent");
        tokio::task::yield_now().await;
        slow.push(ours);
    }
    let other = ask_as(&server, PEER, "/api/v1/jobs", "X-Forwarded-For: 192.0.2.8\r\n").await;
    assert!(other.starts_with("HTTP/1.1 200 "), "{other}");
}

#[tokio::test(start_paused = true)]
async fn the_path_of_the_configuration_is_taken_off_with_http2_too() {
    let server = Server::with(|config| config.base_path = "/reel".parse().expect("a path"));
    let client = Client::new(&server).await;
    for path in ["/reel/healthz", "/healthz"] {
        assert_eq!(client.ask_for(path).await.0, StatusCode::OK, "{path}");
    }
    assert_eq!(client.ask_for("/reels/healthz").await.0, StatusCode::NOT_FOUND);
    // The data plane has what is below it.
    for path in ["/reel/watch/a/master.m3u8", "/watch/a/master.m3u8"] {
        let request = Request::get(format!("http://reel{path}")).body(()).expect("a request");
        let mut requests = client.requests.clone().ready().await.expect("open");
        let (answer, _) = requests.send_request(request, true).expect("sent");
        let refused = answer.await.expect_err("it is media");
        assert_eq!(refused.reason(), Some(h2::Reason::HTTP_1_1_REQUIRED), "{path}");
    }
}
