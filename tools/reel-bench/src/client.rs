//! The receiver: plain sockets, each fetching one range of a file and counting what arrives.

use crate::secured::{Endpoint, Stream};
use anyhow::{Context, Result, bail, ensure};
use reel_testkit::Url;
use reel_testkit::http::{Client, Head};
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

/// What one fetch brought.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) bytes: u64,
    pub(crate) took_s: f64,
    /// XOR of all 8-byte words: enough to see that two servers sent the same bytes. Zero unless
    /// asked for.
    pub(crate) sum: u64,
}

/// Fetches `path` over `connections` sockets at once, each its share of `bytes`; time counts until
/// the last byte.
pub(crate) fn fetch(
    server: impl Into<Endpoint>,
    path: &str,
    bytes: u64,
    connections: usize,
    sum: bool,
) -> Result<Fetched> {
    let server = &server.into();
    let started = Instant::now();
    let share = bytes.div_ceil(connections as u64);
    let shares = thread::scope(|scope| {
        let receivers: Vec<_> = (0..connections as u64)
            .map(|number| {
                let range = number * share..((number + 1) * share).min(bytes);
                scope.spawn(move || fetch_range(server, path, range, sum))
            })
            .collect();
        receivers
            .into_iter()
            .map(|receiver| receiver.join().expect("a receiver panicked"))
            .collect::<Result<Vec<_>>>()
    })?;
    let received: u64 = shares.iter().map(|share| share.bytes).sum();
    ensure!(received == bytes, "asked for {bytes} bytes and received {received}");
    let sum = shares.iter().fold(0, |sum, share| sum ^ share.sum);
    Ok(Fetched { bytes, took_s: started.elapsed().as_secs_f64(), sum })
}

/// Where `path` leads when it is a redirect, else `path` itself.
pub(crate) fn resolve(server: impl Into<Endpoint>, path: &str) -> Result<String> {
    let server = server.into();
    let (head, _) = request(&server, path, 0..1)?;
    let Some(location) = head.field("Location") else { return Ok(path.to_owned()) };
    Ok(Url::parse(&format!("http://{}{path}", server.address))?.join(location)?.target)
}

/// The length of the file at `path`.
pub(crate) fn length(server: impl Into<Endpoint>, path: &str) -> Result<u64> {
    let (head, _) = request(&server.into(), path, 0..1)?;
    let total = head.field("Content-Range").and_then(|value| value.strip_prefix("bytes 0-0/"));
    let total = total.context("no Content-Range in the answer to a range request")?;
    total.parse().context("a length that is not a number")
}

fn fetch_range(server: &Endpoint, path: &str, range: Range<u64>, sum: bool) -> Result<Summed> {
    let wanted = range.end - range.start;
    let (head, mut client) = request(server, path, range)?;
    ensure!(head.status == 206, "the server answered {}", head.status);
    let mut buffer = vec![0; 256 * 1024];
    let mut total = Summed::default();
    while total.bytes < wanted {
        let count = client.read(&mut buffer)?;
        if count == 0 {
            bail!("the server closed after {} of {wanted} bytes", total.bytes);
        }
        total.add(&buffer[..count], sum);
    }
    Ok(total)
}

/// Asks for a range; the head of the response, and the connection that brings its body.
fn request(server: &Endpoint, path: &str, range: Range<u64>) -> Result<(Head, Client<Stream>)> {
    let stream = server.connect()?;
    stream.socket().set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut client = Client::on(stream);
    let (first, last, host) = (range.start, range.end - 1, server.address);
    client.request(
        &format!("GET {path} HTTP/1.1"),
        &format!("Host: {host}\r\nRange: bytes={first}-{last}\r\nConnection: close\r\n"),
    )?;
    Ok((client.head()?, client))
}

/// A sum that does not depend on how the bytes are cut.
#[derive(Default)]
struct Summed {
    bytes: u64,
    sum: u64,
}

impl Summed {
    fn add(&mut self, bytes: &[u8], sum: bool) {
        if sum {
            for (index, &byte) in bytes.iter().enumerate() {
                let place = (self.bytes + index as u64) % 8 * 8;
                self.sum ^= u64::from(byte) << place;
            }
        }
        self.bytes += bytes.len() as u64;
    }
}
