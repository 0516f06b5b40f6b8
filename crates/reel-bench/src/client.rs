//! The receiver: plain sockets, each fetching one range of a file and counting what arrives.

use crate::secured::{Stream, Way};
use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Write};
use std::ops::Range;
use std::time::{Duration, Instant};
use std::{str, thread};

/// What one fetch brought.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) bytes: u64,
    pub(crate) took_s: f64,
    /// XOR of all 8-byte words and the length: enough to see that two servers sent the same bytes. Zero unless asked for.
    pub(crate) sum: u64,
}

/// Fetches `path` over `connections` sockets at once, each its share of `bytes`; time counts until the last byte.
pub(crate) fn fetch(
    server: impl Into<Way>,
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
    let received: u64 = shares.iter().map(|share| share.0).sum();
    ensure!(received == bytes, "asked for {bytes} bytes and received {received}");
    let sum = shares.iter().fold(0, |sum, share| sum ^ share.1);
    Ok(Fetched { bytes, took_s: started.elapsed().as_secs_f64(), sum })
}

/// Where `path` leads when it is a redirect, else `path` itself.
pub(crate) fn resolve(server: impl Into<Way>, path: &str) -> Result<String> {
    let (head, _) = request(&server.into(), path, 0..1, &mut vec![0; 4096])?.0;
    match head.lines().find_map(|line| line.strip_prefix("Location: ")) {
        Some(location) => Ok(location.trim().to_owned()),
        None => Ok(path.to_owned()),
    }
}

/// The length of the file at `path`.
pub(crate) fn length(server: impl Into<Way>, path: &str) -> Result<u64> {
    let (head, _) = request(&server.into(), path, 0..1, &mut vec![0; 4096])?.0;
    let line = head.lines().find_map(|line| line.strip_prefix("Content-Range: bytes 0-0/"));
    line.context("no Content-Range in the answer to a range request")?
        .trim()
        .parse()
        .context("a length that is no number")
}

fn fetch_range(server: &Way, path: &str, range: Range<u64>, sum: bool) -> Result<(u64, u64)> {
    let mut buffer = vec![0; 256 * 1024];
    let wanted = range.end - range.start;
    let ((head, body_start), mut stream, filled) = {
        let (parsed, stream, filled) = request_stream(server, path, range, &mut buffer)?;
        (parsed, stream, filled)
    };
    ensure!(
        head.starts_with("HTTP/1.1 206"),
        "the server answered {}",
        head.lines().next().unwrap_or_default()
    );
    let mut total = Summed::default();
    total.add(&buffer[body_start..filled], sum);
    while total.bytes < wanted {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            bail!("the server closed after {} of {wanted} bytes", total.bytes);
        }
        total.add(&buffer[..count], sum);
    }
    Ok((total.bytes, total.sum))
}

type Head = (String, usize);

fn request(server: &Way, path: &str, range: Range<u64>, buffer: &mut [u8]) -> Result<(Head, Stream)> {
    let (head, stream, _) = request_stream(server, path, range, buffer)?;
    Ok((head, stream))
}

/// Sends a request and reads until its head is complete: the head, where the body starts in `buffer`, and how far it is filled.
fn request_stream(
    server: &Way,
    path: &str,
    range: Range<u64>,
    buffer: &mut [u8],
) -> Result<(Head, Stream, usize)> {
    let mut stream = server.connect()?;
    stream.socket().set_read_timeout(Some(Duration::from_secs(60)))?;
    let last = range.end - 1;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {}\r\nRange: bytes={}-{last}\r\nConnection: close\r\n\r\n",
        server.address, range.start
    )?;
    let mut filled = 0;
    loop {
        let count = stream.read(&mut buffer[filled..])?;
        ensure!(count > 0, "the server closed the connection before its answer was complete");
        filled += count;
        if let Some(end) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") {
            let head = str::from_utf8(&buffer[..end])?.to_owned();
            return Ok(((head, end + 4), stream, filled));
        }
    }
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
