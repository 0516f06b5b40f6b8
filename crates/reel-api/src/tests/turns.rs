//! What the control plane sends through a link that is limited. Over pipes, in tokio's simulated
//! time.

use super::fake::Server;
use crate::limits::{HTTP2_PING_EVERY, HTTP2_PONG_WITHIN, RESPONSE_SECONDS_MAX, TURNS_WAIT_MAX};
use crate::path::ShowsPath;
use crate::serve::serve_http1;
use crate::serve_http2::serve_http2;
use crate::turns::{TurnStream, Turns};
use axum::http::Request;
use bytes::Bytes;
use reel_play::{Uplink, UplinkRate};
use reel_ring::TcpStatus;
use reel_serve::Proxies;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// The bits of a slow line in a second, and the bytes that are granted of it.
const LINK_BPS: u64 = 20_000_000;
const GRANTED: u64 = LINK_BPS / 8 * 940 / 1000;

/// More than any wait here: what has not arrived by then never arrives.
const NEVER: Duration = Duration::from_secs(3600);

fn client(number: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, number])
}

fn on_a_link(bps: u64) -> (Server, Arc<Uplink>) {
    let uplink = Uplink::of(UplinkRate::Known(bps));
    (Server::on(&uplink, |config| config.proxies = proxies()), uplink)
}

fn proxies() -> Proxies {
    Proxies::new(vec!["127.0.0.1".parse().expect("a range")])
}

/// A pipe shows nothing of a way.
impl ShowsPath for DuplexStream {
    fn peer(&self) -> Option<IpAddr> {
        None
    }

    fn status(&self) -> Option<TcpStatus> {
        None
    }
}

/// A socket that takes all, and counts how often it is looked at.
struct Socket(Arc<AtomicU64>);

impl ShowsPath for Socket {
    fn peer(&self) -> Option<IpAddr> {
        // The kernel forgets it.
        (self.0.load(Ordering::Relaxed) == 0).then(|| client(1))
    }

    fn status(&self) -> Option<TcpStatus> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Some(TcpStatus::default())
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_sends_shows_its_way_ten_times_a_second_and_at_its_end() {
    let (learnt, unlimited) = (UplinkRate::Learnt, UplinkRate::Unlimited);
    // What is sent to a proxy shows nothing of the client behind it.
    for (rate, named, expected) in [(learnt, 1, 11), (learnt, 2, 0), (unlimited, 1, 0)] {
        let server = Server::on(&Uplink::of(rate), |_| ());
        let looks = Arc::new(AtomicU64::new(0));
        let turns = Turns::of(client(named));
        let mut stream = TurnStream::new(Socket(Arc::clone(&looks)), server.control.uplink(), turns);
        for _ in 0..1000 {
            stream.write_all(b"x").await.expect("taken");
            sleep(Duration::from_millis(1)).await;
        }
        drop(stream);
        assert!(looks.load(Ordering::Relaxed).abs_diff(expected) <= expected / 10, "{rate:?}: {looks:?}");
    }
}

/// A connection with HTTP/1.1 from this client.
fn connect(server: &Server, peer: IpAddr) -> (DuplexStream, JoinHandle<()>) {
    let (ours, theirs) = duplex(64 << 10);
    let turns = Turns::of(peer);
    let stream = TurnStream::new(theirs, server.control.uplink(), turns.clone());
    (ours, tokio::spawn(serve_http1(stream, turns, server.control.clone())))
}

/// Asks with HTTP/1.1 and returns the bytes of the answer.
async fn ask(server: &Server, peer: IpAddr, path: &str, fields: &str) -> Vec<u8> {
    let (mut ours, served) = connect(server, peer);
    let head = format!("GET {path} HTTP/1.1\r\nHost: reel\r\n{fields}\r\n");
    ours.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    ours.read_to_end(&mut answer).await.expect("an answer");
    drop(ours);
    served.await.expect("ended");
    answer
}

/// Connections of one client that fetch the largest answer without end; the bytes that they got.
fn flood(server: &Arc<Server>, peer: IpAddr, connections: usize) -> (Arc<AtomicU64>, Vec<JoinHandle<()>>) {
    let fetched = Arc::new(AtomicU64::new(0));
    let connection = |_| {
        let (server, fetched) = (Arc::clone(server), Arc::clone(&fetched));
        tokio::spawn(async move {
            loop {
                let answer = ask(&server, peer, "/api/v1/openapi.json", "").await;
                assert!(answer.starts_with(b"HTTP/1.1 200 "));
                fetched.fetch_add(answer.len() as u64, Ordering::Relaxed);
            }
        })
    };
    let tasks = (0..connections).map(connection).collect();
    (fetched, tasks)
}

#[tokio::test(start_paused = true)]
async fn a_flood_gets_no_more_than_the_link_and_health_is_answered_beside_it() {
    let (server, uplink) = on_a_link(LINK_BPS);
    let server = Arc::new(server);
    let from = Instant::now();
    let (fetched, tasks) = flood(&server, client(1), 30);
    for path in ["/healthz", "/readyz", "/metrics"].into_iter().cycle().take(30) {
        sleep(Duration::from_millis(300)).await;
        let asked = Instant::now();
        let answer = timeout(NEVER, ask(&server, client(2), path, "")).await.expect("in time");
        assert!(answer.starts_with(b"HTTP/1.1 "));
        assert!(asked.elapsed() < Duration::from_secs(1), "{path} after {:?}", asked.elapsed());
    }
    let (fetched, seconds) = (fetched.load(Ordering::Relaxed), from.elapsed().as_secs_f64());
    assert!(fetched as f64 <= GRANTED as f64 * seconds, "{fetched} in {seconds} s");
    assert!(fetched as f64 >= GRANTED as f64 * seconds / 2.0, "an idle link is lent: {fetched}");
    tasks.iter().for_each(JoinHandle::abort);
    for task in tasks {
        let _ = task.await;
    }
    // The other ends of their connections see that, and leave.
    timeout(NEVER, async {
        while uplink.waiting() > 0 {
            sleep(Duration::from_millis(100)).await;
        }
    })
    .await
    .expect("no turn is left behind");
}

#[tokio::test(start_paused = true)]
async fn what_stays_on_this_machine_takes_no_turn_unless_a_proxy_names_its_client() {
    // 100 bytes a second.
    let (server, uplink) = on_a_link(851);
    // What is granted first keeps the link busy for seconds.
    ask(&server, client(1), "/healthz", "").await;
    let from = Instant::now();
    let local = IpAddr::from([127, 0, 0, 1]);
    ask(&server, local, "/api/v1/openapi.json", "").await;
    assert_eq!((from.elapsed(), uplink.waiting()), (Duration::ZERO, 0));
    ask(&server, local, "/healthz", "X-Forwarded-For: 192.0.2.9\r\n").await;
    assert!(from.elapsed() > Duration::from_secs(1), "{:?}", from.elapsed());
}

/// The answer takes longer than a client may take for it. Only its connection's turn is awaited.
#[tokio::test(start_paused = true)]
async fn a_client_that_waits_for_its_turn_is_not_cut_off() {
    let bytes = ask(&Server::new(), client(1), "/api/v1/openapi.json", "").await.len() as u64;
    let takes = 2 * RESPONSE_SECONDS_MAX.as_secs();
    let (server, _) = on_a_link(bytes * 8 * 1000 / 940 / takes);
    let from = Instant::now();
    let answer = ask(&server, client(1), "/api/v1/openapi.json", "").await;
    assert_eq!(answer.len() as u64, bytes);
    assert!(from.elapsed() > RESPONSE_SECONDS_MAX, "{:?}", from.elapsed());
}

/// The same with HTTP/2, where each side also asks whether the other one is there.
#[tokio::test(start_paused = true)]
async fn a_client_with_http2_that_waits_for_its_turn_is_not_cut_off() {
    let takes = 2 * RESPONSE_SECONDS_MAX.as_secs();
    let (server, _) = on_a_link(200_000 * 8 / takes);
    let (ours, theirs) = duplex(64 << 10);
    let turns = Turns::of(client(1));
    let stream = TurnStream::new(theirs, server.control.uplink(), turns.clone());
    let served = tokio::spawn(serve_http2(stream, turns, server.control.clone()));
    let (requests, connection) = h2::client::handshake(ours).await.expect("a connection");
    let ended = tokio::spawn(connection);
    let from = Instant::now();
    let request = Request::get("http://reel/api/v1/openapi.json").body(()).expect("a request");
    let mut requests = requests.ready().await.expect("open");
    let (answer, _) = requests.send_request(request, true).expect("sent");
    let mut body = answer.await.expect("an answer").into_body();
    let mut bytes = 0;
    while let Some(piece) = body.data().await {
        let piece: Bytes = piece.expect("a body");
        bytes += piece.len();
        body.flow_control().release_capacity(piece.len()).expect("released");
    }
    assert!(bytes > 50_000 && from.elapsed() > HTTP2_PING_EVERY, "{bytes} in {:?}", from.elapsed());
    drop((requests, body));
    ended.await.expect("ended").expect("no broken connection");
    served.await.expect("ended");
}

/// A link on which no turn ever comes: the time that is not counted has an end as well.
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_turn_that_never_comes_has_an_end() {
    let (server, uplink) = on_a_link(1);
    let from = Instant::now();
    let (mut ours, served) = connect(&server, client(1));
    ours.write_all(b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: reel\r\n\r\n").await.expect("sent");
    timeout(NEVER, served).await.expect("it ends").expect("ended");
    assert!(from.elapsed() <= RESPONSE_SECONDS_MAX + TURNS_WAIT_MAX, "{:?}", from.elapsed());
    assert!(from.elapsed() > TURNS_WAIT_MAX, "{:?}", from.elapsed());
    assert_eq!(uplink.waiting(), 0);
    assert!(HTTP2_PONG_WITHIN >= RESPONSE_SECONDS_MAX);
}

/// A client that takes nothing is cut off as before: its connection waits for the client.
#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_cut_off_and_keeps_no_grant() {
    let (server, uplink) = on_a_link(LINK_BPS);
    let from = Instant::now();
    let (mut ours, served) = connect(&server, client(1));
    ours.write_all(b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: reel\r\n\r\n").await.expect("sent");
    timeout(NEVER, served).await.expect("it ends").expect("ended");
    let over = from.elapsed().saturating_sub(RESPONSE_SECONDS_MAX);
    assert!(over < Duration::from_secs(1), "{:?}", from.elapsed());
    assert_eq!(uplink.waiting(), 0);
}
