//! A proxy whose clients find a server below a path, as behind `location /reel/` of nginx.

use crate::server::rig::patient;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// The path.
pub(super) const BELOW: &str = "/reel";

/// What the proxy does with a request.
#[derive(Clone, Copy)]
pub(super) struct Passing {
    /// Whether the server gets paths without the one of the proxy.
    pub(super) strips: bool,
    /// Fields that are added, with a line break each.
    pub(super) adds: &'static str,
}

/// The address of a proxy in front of a server. Its threads end with the test program.
pub(super) fn start(server: SocketAddr, passing: Passing) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.expect("accepted");
            thread::spawn(move || pass(client, server, passing));
        }
    });
    address
}

/// Passes one request on, and everything that follows in both directions.
fn pass(client: TcpStream, server: SocketAddr, passing: Passing) {
    let mut from_client = BufReader::new(client.try_clone().expect("cloned"));
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if from_client.read_until(b'\n', &mut head).expect("a request") == 0 {
            return;
        }
    }
    let head = String::from_utf8(head).expect("text");
    let Some(head) = passed_on(&head, passing) else {
        let elsewhere = "HTTP/1.1 404 Elsewhere\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        (&client).write_all(elsewhere.as_bytes()).expect("answered");
        return;
    };
    let server = patient(TcpStream::connect(server).expect("connected"));
    (&server).write_all(head.as_bytes()).expect("passed on");
    let to_server = server.try_clone().expect("cloned");
    thread::spawn(move || copy(from_client, to_server));
    copy(server, client);
}

/// The head as the server gets it; `None` if it is not below the path.
fn passed_on(head: &str, passing: Passing) -> Option<String> {
    let (line, fields) = head.split_once("\r\n")?;
    let (method, rest) = line.split_once(' ')?;
    let below = rest.strip_prefix(BELOW).filter(|rest| rest.starts_with(['/', ' ']))?;
    let target = if passing.strips { below } else { rest };
    Some(format!("{method} {target}\r\nConnection: close\r\n{}{fields}", passing.adds))
}

/// Until one of both sides has ended, which the other one then sees.
fn copy(mut from: impl Read, mut to: TcpStream) {
    // A client that has what it wants may leave.
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
