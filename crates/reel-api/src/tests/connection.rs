//! Whole connections over real sockets.

use super::fake::Server;
use crate::serve_connection;
use reel_play::{Uplink, UplinkRate};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// A client's socket and the task that serves its other end.
async fn connected(server: &Server, already_read: &[u8]) -> (TcpStream, JoinHandle<()>) {
    connected_from(server, IpAddr::V4(Ipv4Addr::LOCALHOST), already_read).await
}

/// The same for a client that the data plane has named.
async fn connected_from(server: &Server, peer: IpAddr, already_read: &[u8]) -> (TcpStream, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("connected");
    let (stream, _) = listener.accept().await.expect("accepted");
    // As it comes from the data plane: new to this runtime, which does not know yet that it can be
    // written to.
    let stream = TcpStream::from_std(stream.into_std().expect("a socket")).expect("registered");
    let task =
        tokio::spawn(serve_connection(stream, None, already_read.to_vec(), peer, server.control.clone()));
    (client, task)
}

async fn rest(mut client: TcpStream) -> String {
    let mut text = String::new();
    client.read_to_string(&mut text).await.expect("a response");
    text
}

#[tokio::test]
async fn the_bytes_already_read_come_first() {
    let server = Server::new();
    let head = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    for split in [0, 5, head.len()] {
        let (mut client, task) = connected(&server, &head[..split]).await;
        client.write_all(&head[split..]).await.expect("sent");
        let text = rest(client).await;
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("ok\n"), "{text}");
        assert_eq!(text.to_lowercase().matches("connection: close").count(), 1, "{text}");
        task.await.expect("ended");
    }
}

/// The first piece keeps a link of 100 bytes a second busy for minutes.
#[tokio::test]
async fn a_connection_from_elsewhere_asks_the_uplink_and_leaves_no_turn_behind() {
    let uplink = Uplink::of(UplinkRate::Known(851));
    let server = Server::on(&uplink, |_| ());
    let head = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n";
    let (mut client, task) = connected_from(&server, IpAddr::from([192, 0, 2, 1]), head).await;
    client.read_exact(&mut [0; 16 << 10]).await.expect("the first piece");
    let waits = async {
        while uplink.waiting() == 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(120), waits).await.expect("the rest waits for its turn");
    task.abort();
    assert!(task.await.is_err_and(|error| error.is_cancelled()));
    assert_eq!(uplink.waiting(), 0);
}

#[tokio::test]
async fn an_upload_continues_over_the_hand_over() {
    let server = Server::new();
    let body = format!("FILM{}", "x".repeat(300_000));
    let request = format!(
        "POST /api/v1/titles?name=a&wait=true HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (mut client, task) = connected(&server, &request.as_bytes()[..1000]).await;
    client.write_all(&request.as_bytes()[1000..]).await.expect("sent");
    let text = rest(client).await;
    assert!(text.starts_with("HTTP/1.1 201 Created\r\n"), "{text}");
    assert!(text.contains("\"bytes\":300004"), "{text}");
    task.await.expect("ended");
}

#[tokio::test]
async fn a_refused_upload_still_gets_its_answer() {
    let server = Server::with_limit(10);
    let (client, task) =
        connected(&server, b"POST /api/v1/titles HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n")
            .await;
    // A client like a browser: it sends everything and only then looks for the answer.
    let (mut reader, mut writer) = client.into_split();
    let sending = tokio::spawn(async move {
        let sent = writer.write_all(&vec![b'x'; 50_000_000]).await;
        (writer, sent)
    });
    let (_writer, sent) = sending.await.expect("ended");
    sent.expect("everything was taken");
    let mut text = String::new();
    reader.read_to_string(&mut text).await.expect("a response");
    assert!(text.starts_with("HTTP/1.1 413 "), "{text}");
    task.abort();
}

#[tokio::test]
async fn a_client_that_disconnects_leaves_nothing() {
    let server = Server::new();
    let (mut client, task) = connected(
        &server,
        b"POST /api/v1/titles?filename=a.mp4 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nFILM",
    )
    .await;
    client.write_all(b"more").await.expect("sent");
    drop(client);
    task.await.expect("ended");
    let jobs = server.control.jobs().list();
    assert_eq!(jobs.len(), 1);
    assert!(jobs[0].error.is_some(), "{jobs:?}");
    assert_eq!(server.spool_files(), 0);
}

#[tokio::test]
async fn what_is_not_http_is_closed() {
    let server = Server::new();
    let (client, task) = connected(&server, b"\x16\x03\x01 this is not HTTP\r\n\r\n").await;
    let text = rest(client).await;
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 400 "), "{text}");
    task.await.expect("ended");
}

#[tokio::test(start_paused = true)]
async fn a_head_that_never_ends_is_cut_off() {
    let server = Server::new();
    // Time is tokio's own here and jumps to the next timer when nothing else can happen.
    let (client, task) = connected(&server, b"GET /healthz HTTP/1.1\r\nHost: x\r\n").await;
    task.await.expect("ended");
    drop(client);
}

/// A response that is ready before the socket is must not be lost when the request's body is of no
/// interest.
#[tokio::test]
async fn every_refusal_arrives() {
    let server = Server::with_limit(10);
    for (head, status) in [
        ("Content-Length: 5\r\nContent-Length: 6", "400"),
        ("Content-Length: 99999999999999999999999", "400"),
        ("Content-Length: 50000000", "413"),
    ] {
        for _ in 0..50 {
            let request = format!("POST /api/v1/titles HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n");
            let (client, task) = connected(&server, request.as_bytes()).await;
            let text = rest(client).await;
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {text:?}");
            task.await.expect("ended");
        }
    }
}
