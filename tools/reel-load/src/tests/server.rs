//! A small HTTP server that does what a test wants.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// It answers until the test ends; its threads end with their connections.
pub(crate) struct Server {
    address: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    paths: Mutex<HashMap<String, usize>>,
    connections: AtomicUsize,
}

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) path: String,
    /// First and last byte.
    range: Option<(usize, usize)>,
}

/// What is answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    status: u16,
    fields: String,
    body: Vec<u8>,
    after: Duration,
    behaviour: Behaviour,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    KeepAlive,
    Chunked,
    /// `Connection: close`, with a length.
    Closing,
    /// Without a length.
    UntilClosed,
    BrokenOff,
}

impl Server {
    pub(crate) fn start(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let (answer, shared) = (Arc::new(answer), Arc::clone(&seen));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, seen) = (Arc::clone(&answer), Arc::clone(&shared));
                seen.connections.fetch_add(1, Ordering::SeqCst);
                // A client that is gone ends its connection; that is all there is to say.
                thread::spawn(move || stream.map(|stream| serve(&stream, &seen, &*answer)));
            }
        });
        Self { address, seen }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How often this was asked for.
    pub(crate) fn asked(&self, path: &str) -> usize {
        self.seen.paths.lock().unwrap().get(path).copied().unwrap_or(0)
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }
}

fn serve(stream: &TcpStream, seen: &Seen, answer: &dyn Fn(&Request) -> Answer) -> Option<()> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    loop {
        let first = lines.next()?;
        let path = first.split(' ').nth(1)?.to_owned();
        let fields: Vec<_> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        let range = fields.iter().find_map(|line| {
            let (start, end) = line.strip_prefix("Range: bytes=")?.split_once('-')?;
            Some((start.parse().ok()?, end.parse().ok()?))
        });
        *seen.paths.lock().unwrap().entry(path.clone()).or_default() += 1;
        let request = Request { path, range };
        let answer = answer(&request);
        thread::sleep(answer.after);
        answer.send(stream, request.range)?;
        if !matches!(answer.behaviour, Behaviour::KeepAlive | Behaviour::Chunked) {
            return None;
        }
    }
}

impl Request {
    pub(crate) fn is_range_from(&self, start: usize) -> bool {
        self.range.is_some_and(|range| range.0 == start)
    }
}

impl Answer {
    fn new(status: u16, fields: &str, body: Vec<u8>) -> Self {
        Self {
            status,
            fields: fields.to_owned(),
            body,
            after: Duration::ZERO,
            behaviour: Behaviour::KeepAlive,
        }
    }

    pub(crate) fn text(text: &str) -> Self {
        Self::new(200, "", text.as_bytes().to_vec())
    }

    pub(crate) fn bytes(count: usize) -> Self {
        Self::new(200, "", vec![b'x'; count])
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::new(status, "", b"no".to_vec())
    }

    pub(crate) fn redirect(to: &str) -> Self {
        Self::new(307, &format!("Location: {to}\r\n"), Vec::new())
    }

    pub(crate) fn problem(json: &str) -> Self {
        Self::new(503, "Content-Type: application/problem+json\r\n", json.as_bytes().to_vec())
    }

    pub(crate) fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    pub(crate) fn chunked(self) -> Self {
        Self { behaviour: Behaviour::Chunked, ..self }
    }

    pub(crate) fn closing(self) -> Self {
        Self { behaviour: Behaviour::Closing, ..self }
    }

    pub(crate) fn until_closed(self) -> Self {
        Self { behaviour: Behaviour::UntilClosed, ..self }
    }

    pub(crate) fn broken_off(self) -> Self {
        Self { behaviour: Behaviour::BrokenOff, ..self }
    }

    fn send(&self, mut stream: &TcpStream, range: Option<(usize, usize)>) -> Option<()> {
        let (mut status, mut fields, mut body) = (self.status, self.fields.clone(), &self.body[..]);
        if let (200, Some((start, end))) = (status, range) {
            let total = body.len();
            body = &body[start..(end + 1).min(total)];
            status = 206;
            fields += &format!("Content-Range: bytes {start}-{end}/{total}\r\n");
        }
        match self.behaviour {
            Behaviour::Chunked => fields += "Transfer-Encoding: chunked\r\n",
            Behaviour::UntilClosed => fields += "Connection: close\r\n",
            Behaviour::Closing => {
                fields += &format!("Connection: close\r\nContent-Length: {}\r\n", body.len())
            }
            _ => fields += &format!("Content-Length: {}\r\n", body.len()),
        }
        let mut all = format!("HTTP/1.1 {status} -\r\n{fields}\r\n").into_bytes();
        match self.behaviour {
            Behaviour::Chunked => {
                for piece in body.chunks(3000) {
                    all.extend(format!("{:x}\r\n", piece.len()).bytes());
                    all.extend_from_slice(piece);
                    all.extend(b"\r\n");
                }
                all.extend(b"0\r\n\r\n");
            }
            Behaviour::BrokenOff => all.extend_from_slice(&body[..body.len() / 2]),
            _ => all.extend_from_slice(body),
        }
        stream.write_all(&all).ok()
    }
}
