//! Connections with HTTP/2, and those beyond the number that is served. Over pipes, in tokio's
//! simulated time.

use super::fake::Server;
use crate::limits::{CONNECTIONS_MAX, HTTP2_IDLE_WHEN_FULL_MAX, REFUSED_CONNECTIONS_MAX, TOLD_FULL_TIME_MAX};
use crate::serve::serve_http1;
use crate::serve_http2::serve_http2;
use axum::http::{Request, StatusCode};
use bytes::Bytes;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::OwnedSemaphorePermit;
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
        let request = Request::get("http://reel/healthz").body(()).expect("a request");
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
    (ours, tokio::spawn(serve_http2(theirs, PEER, server.control.clone())))
}

async fn ask_http1(server: &Server) -> String {
    let (mut ours, theirs) = duplex(64 << 10);
    let served = tokio::spawn(serve_http1(theirs, PEER, server.control.clone()));
    // Whether this is still heard is what is asked.
    let _ = ours.write_all(b"GET /healthz HTTP/1.1\r\nHost: reel\r\n\r\n").await;
    let _ = ours.shutdown().await;
    let mut text = String::new();
    let _ = ours.read_to_string(&mut text).await;
    served.await.expect("ended");
    text
}

fn take(server: &Server, slots: usize) -> OwnedSemaphorePermit {
    server.control.connection_slots().try_acquire_many_owned(slots as u32).expect("they are free")
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
