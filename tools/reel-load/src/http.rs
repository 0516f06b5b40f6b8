//! A client's connection: HTTP/1.1 with keep-alive, ranges and redirects (RFC 9112). Content is
//! counted as it arrives and thrown away.

use super::body::{Body, Chunked};
use super::limits::{
    HEAD_BYTES_MAX, HEADERS_MAX, READ_BYTES, REDIRECTS_MAX, RETRY_AFTER_MAX_S, SILENCE_MAX_NS, TEXT_BYTES_MAX,
};
use super::origin::Origin;
use super::request_error::{Refusal, RequestError};
use super::thread::Thread;
use reel_testkit::Url;
use rustix::net::{RecvFlags, recv};
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// One client's connection to whatever server it asks; opened when needed, kept as long as the
/// server keeps it.
pub(crate) struct Connection {
    thread: Rc<Thread>,
    from: Origin,
    open: Option<Open>,
    body: Body,
    keep_alive: bool,
    /// Bytes of the body that came with the head.
    with_head: Vec<u8>,
    limiter: Option<Limiter>,
}

/// The head of a response.
#[derive(Debug, Default, Clone)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Length of the body, if the server says it.
    pub(crate) length: Option<u64>,
    /// Length of the whole file, from `Content-Range`.
    pub(crate) total: Option<u64>,
    location: Option<String>,
    retry_after_s: Option<u64>,
    chunked: bool,
    keep_alive: bool,
}

/// Some bytes of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyBytes {
    pub(crate) now_ns: u64,
    pub(crate) bytes: u64,
}

struct Open {
    authority: String,
    stream: TcpStream,
}

impl Connection {
    pub(crate) fn new(thread: &Rc<Thread>, from: Origin) -> Self {
        let limiter = thread.plan.rate_limit_bps.map(Limiter::new);
        Self {
            thread: Rc::clone(thread),
            from,
            open: None,
            body: Body::Over,
            keep_alive: false,
            with_head: Vec::new(),
            limiter,
        }
    }

    /// Asks for a file or a range of it (first byte, number of bytes), follows redirects, and
    /// returns where it was found. A 503 or 429 is a refusal, every other status than 200 and 206 a
    /// failure.
    pub(crate) async fn get(
        &mut self,
        url: &Url,
        range: Option<(u64, u64)>,
    ) -> Result<(Url, Head), RequestError> {
        let mut url = url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let head = self.request(&url, range).await?;
            match (head.status, &head.location) {
                (200, _) if range.is_some_and(|(start, _)| start > 0) => {
                    return Err(RequestError::failed("the server does not know ranges"));
                }
                (200 | 206, _) => return Ok((url, head)),
                (301 | 302 | 303 | 307 | 308, Some(location)) => {
                    let next = url
                        .join(location)
                        .map_err(|error| RequestError::failed(format!("a redirect: {error}")))?;
                    self.text().await?;
                    url = next;
                }
                (503 | 429, _) => {
                    let body = self.text().await?;
                    return Err(RequestError::Refused(Refusal::parse(&body, head.retry_after_s)));
                }
                (status, _) => {
                    // Read to its end, so that the connection can be used again.
                    self.text().await?;
                    return Err(RequestError::failed(format!("status {status}")));
                }
            }
        }
        Err(RequestError::failed(format!("more than {REDIRECTS_MAX} redirects")))
    }

    /// The next bytes of the body; `None` at its end.
    pub(crate) async fn next(&mut self) -> Result<Option<BodyBytes>, RequestError> {
        self.next_into(|_| {}, true).await
    }

    /// The rest of the body as text.
    pub(crate) async fn text(&mut self) -> Result<String, RequestError> {
        let mut all = Vec::new();
        loop {
            let got = self.next_into(|bytes| all.extend_from_slice(bytes), false).await?;
            if all.len() > TEXT_BYTES_MAX {
                self.close();
                return Err(RequestError::failed(format!("a text of more than {TEXT_BYTES_MAX} bytes")));
            }
            if got.is_none() {
                return Ok(String::from_utf8_lossy(&all).into_owned());
            }
        }
    }

    /// Ends the connection: what is still to come is not wanted.
    pub(crate) fn close(&mut self) {
        self.open = None;
        self.body = Body::Over;
        self.with_head.clear();
    }

    async fn request(&mut self, url: &Url, range: Option<(u64, u64)>) -> Result<Head, RequestError> {
        if !self.body.is_over() || !self.keep_alive {
            self.close();
        }
        let kept = self.open.take().filter(|open| open.authority == url.authority);
        if let Some(open) = kept {
            // The server may have closed a connection that was idle: that is no fault.
            match self.ask(open, url, range).await {
                Err(RequestError::Closed) => {}
                other => return other,
            }
        }
        let stream = self.connect(url).await?;
        let open = Open { authority: url.authority.clone(), stream };
        self.ask(open, url, range).await.map_err(|error| match error {
            RequestError::Closed => {
                RequestError::failed("the server closed the connection without an answer")
            }
            other => other,
        })
    }

    async fn connect(&self, url: &Url) -> Result<TcpStream, RequestError> {
        let address = self.thread.address(&url.host_and_port()).await?;
        let silence = Duration::from_nanos(SILENCE_MAX_NS);
        let stream = match timeout(silence, self.from.connect(address)).await {
            Ok(connected) => connected.map_err(|error| RequestError::io("connecting", &error))?,
            Err(_) => return Err(RequestError::failed("connecting: no answer")),
        };
        // Requests are small and must not wait for each other.
        stream.set_nodelay(true).map_err(|error| RequestError::io("connecting", &error))?;
        Ok(stream)
    }

    async fn ask(
        &mut self,
        mut open: Open,
        url: &Url,
        range: Option<(u64, u64)>,
    ) -> Result<Head, RequestError> {
        let mut request =
            format!("GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: reel-load\r\n", url.target, url.authority);
        if let Some((start, bytes)) = range {
            request += &format!("Range: bytes={start}-{}\r\n", start + bytes.max(1) - 1);
        }
        request += "\r\n";
        if open.stream.write_all(request.as_bytes()).await.is_err() {
            return Err(RequestError::Closed);
        }
        let mut received = Vec::new();
        loop {
            let most = self.may_read().await;
            let got = self.thread.read(&open.stream, most, |bytes| received.extend_from_slice(bytes)).await;
            match got {
                Ok(0) if received.is_empty() => return Err(RequestError::Closed),
                Ok(0) => return Err(RequestError::failed("the server closed the connection inside a head")),
                Ok(bytes) => self.took(self.thread.now_ns(), bytes),
                Err(error) if error.kind() == ErrorKind::ConnectionReset && received.is_empty() => {
                    return Err(RequestError::Closed);
                }
                Err(error) => return Err(RequestError::io("reading", &error)),
            }
            let Some((head, head_bytes)) = Head::parse(&received)? else {
                if received.len() > HEAD_BYTES_MAX {
                    return Err(RequestError::failed(format!(
                        "a response head of more than {HEAD_BYTES_MAX} bytes"
                    )));
                }
                continue;
            };
            received.drain(..head_bytes);
            if (100..200).contains(&head.status) {
                continue;
            }
            self.body = match (head.status, head.chunked, head.length) {
                (204 | 304, ..) => Body::Over,
                (_, true, _) => Body::Chunked(Chunked::default()),
                (_, _, Some(length)) => Body::Length(length),
                _ => Body::UntilClosed,
            };
            self.keep_alive = head.keep_alive;
            self.with_head = received;
            self.open = Some(open);
            return Ok(head);
        }
    }

    /// Waits until the client may read on: how much.
    async fn may_read(&mut self) -> usize {
        match &mut self.limiter {
            Some(limiter) => limiter.wait(&self.thread).await,
            None => READ_BYTES,
        }
    }

    fn took(&mut self, now_ns: u64, bytes: usize) {
        if let Some(limiter) = &mut self.limiter {
            limiter.took(now_ns, bytes as u64);
        }
    }

    async fn next_into(
        &mut self,
        mut keep: impl FnMut(&[u8]),
        discard: bool,
    ) -> Result<Option<BodyBytes>, RequestError> {
        let broken = |error: anyhow::Error| RequestError::failed(error.to_string());
        if !self.with_head.is_empty() {
            let with_head = std::mem::take(&mut self.with_head);
            let bytes = self.body.take(&with_head, &mut keep).map_err(broken)?;
            if bytes > 0 {
                return Ok(Some(BodyBytes { now_ns: self.thread.now_ns(), bytes }));
            }
        }
        loop {
            if self.body.is_over() {
                return Ok(None);
            }
            let most = self.may_read().await;
            let Some(open) = &self.open else { return Ok(None) };
            let (read, content) = match self.body.may_discard().filter(|_| discard) {
                Some(left) => {
                    let most = most.min(usize::try_from(left).unwrap_or(usize::MAX));
                    let read = self.thread.discard(&open.stream, most).await;
                    let bytes = *read.as_ref().unwrap_or(&0) as u64;
                    self.body.discarded(bytes);
                    (read, Ok(bytes))
                }
                None => {
                    let mut content = Ok(0);
                    let body = &mut self.body;
                    let take = |bytes: &[u8]| content = body.take(bytes, &mut keep);
                    (self.thread.read(&open.stream, most, take).await, content)
                }
            };
            let now_ns = self.thread.now_ns();
            let bytes = match read {
                Ok(0) => {
                    let complete = matches!(self.body, Body::UntilClosed);
                    self.close();
                    let broke = RequestError::failed("the server closed the connection inside a body");
                    return if complete { Ok(None) } else { Err(broke) };
                }
                Ok(bytes) => bytes,
                Err(error) => {
                    self.close();
                    return Err(RequestError::io("reading", &error));
                }
            };
            let content = content.map_err(broken)?;
            self.took(now_ns, bytes);
            if content > 0 {
                return Ok(Some(BodyBytes { now_ns, bytes: content }));
            }
        }
    }
}

impl Head {
    /// The head at the start of `received` and its length; `None` if it is not complete.
    fn parse(received: &[u8]) -> Result<Option<(Self, usize)>, RequestError> {
        let mut fields = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        let parsed = response.parse(received);
        let status = parsed.map_err(|error| RequestError::failed(format!("no HTTP response: {error}")))?;
        let httparse::Status::Complete(head_bytes) = status else { return Ok(None) };
        let mut head = Self {
            status: response.code.unwrap_or(0),
            keep_alive: response.version == Some(1),
            ..Self::default()
        };
        for field in response.headers.iter() {
            let value = String::from_utf8_lossy(field.value);
            let value = value.trim();
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                let length = value
                    .parse()
                    .map_err(|_| RequestError::failed("a Content-Length that is not a number"))?;
                head.length = Some(length);
            } else if is("transfer-encoding") {
                head.chunked = value.to_ascii_lowercase().contains("chunked");
            } else if is("content-range") {
                head.total = value.rsplit_once('/').and_then(|(_, total)| total.parse().ok());
            } else if is("location") {
                head.location = Some(value.to_owned());
            } else if is("retry-after") {
                head.retry_after_s = value.parse().ok().map(|s: u64| s.min(RETRY_AFTER_MAX_S));
            } else if is("connection") {
                let value = value.to_ascii_lowercase();
                head.keep_alive =
                    (head.keep_alive && !value.contains("close")) || value.contains("keep-alive");
            }
        }
        Ok(Some((head, head_bytes)))
    }
}

/// Holds a client to a rate.
#[derive(Debug)]
struct Limiter {
    bytes_per_s: f64,
    free_at_ns: u64,
}

impl Limiter {
    /// A client that was slow for a moment may make up for so much time.
    const BURST_NS: u64 = 50_000_000;

    fn new(rate_bps: u64) -> Self {
        Self { bytes_per_s: (rate_bps as f64 / 8.0).max(1.0), free_at_ns: 0 }
    }

    /// Waits until something may be read: how much.
    async fn wait(&mut self, thread: &Thread) -> usize {
        thread.sleep_until(self.free_at_ns).await;
        let most = self.bytes_per_s * Self::BURST_NS as f64 / 1e9;
        (most as usize).clamp(1024, READ_BYTES)
    }

    fn took(&mut self, now_ns: u64, bytes: u64) {
        let from_ns = self.free_at_ns.max(now_ns.saturating_sub(Self::BURST_NS));
        self.free_at_ns = from_ns + (bytes as f64 / self.bytes_per_s * 1e9) as u64;
    }
}

/// Waits until the socket has something for `operation`, and does it.
pub(super) async fn when_readable<T>(
    stream: &TcpStream,
    mut operation: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let silence = Duration::from_nanos(SILENCE_MAX_NS);
    loop {
        match timeout(silence, stream.readable()).await {
            Ok(ready) => ready?,
            Err(_) => return Err(ErrorKind::TimedOut.into()),
        }
        match stream.try_io(Interest::READABLE, &mut operation) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            done => return done,
        }
    }
}

/// Throws away up to `scratch.len()` bytes that have arrived, without copying them here
/// (`MSG_TRUNC`, tcp(7)).
pub(super) fn discard(stream: &TcpStream, scratch: &mut [u8]) -> io::Result<usize> {
    let (_, bytes) = recv(stream, scratch, RecvFlags::TRUNC)?;
    Ok(bytes)
}
