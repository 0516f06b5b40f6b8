//! Poured streams of a server that is asked by HTTP: a response that grows (chunks; RFC 9112,
//! section 7.1) on a connection of its own, which can be ended while it is read.

use crate::http::{Asking, HttpServer, escaped, of_http, parsed};
use crate::http_media::{refusal, refused};
use crate::limits::{HEAD_BYTES_MAX, HEAD_FIELDS_MAX, NAMES_MAX, POURED_SILENCE, REFUSAL_BYTES_MAX};
use crate::media::{Connection, MediaSession, NotOpened, OpenAs, PouredStream};
use crate::server::AskError;
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};
use serde::Deserialize;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};
use ureq::http::Uri;

/// When a server whose machine is gone is noticed: after four questions, ten seconds apart.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const KEEP_ALIVES: u32 = 4;

impl HttpServer {
    pub(crate) fn rate_of_poured(&self, name: &str, until: Instant) -> Result<Option<u64>, AskError> {
        let path = "/api/v1/pours";
        let list: PourList = parsed(path, self.asked(Asking::get(path), until)?)?;
        let found = list.pours.into_iter().take(NAMES_MAX).find(|pour| pour.name == name);
        Ok(found.map(|pour| pour.rate_bps))
    }

    pub(crate) fn poured_session(
        &self,
        name: &str,
        as_of: OpenAs<'_>,
        until: Instant,
    ) -> Result<MediaSession, NotOpened> {
        let path = format!("/api/v1/pours/{}/sessions", escaped(name));
        let asking = Asking { method: "POST", ..Asking::get(&path).of(as_of.user) };
        let mut response = self.told(asking, &serde_json::json!({ "class": as_of.class }), until)?;
        if response.status().as_u16() != 201 {
            return Err(refusal(&path, response));
        }
        let body = response.body_mut().with_config().limit(REFUSAL_BYTES_MAX).read_to_vec();
        let session: serde_json::Result<Session> = serde_json::from_slice(&body.map_err(of_http)?);
        let session = session.map_err(|error| AskError::Unusable(format!("{path}: {error}")))?;
        // It is played by no request of its own.
        Ok(MediaSession { user: as_of.user, key: session.key, path: String::new() })
    }

    pub(crate) fn poured_stream(
        &self,
        name: &str,
        as_of: OpenAs<'_>,
        until: Instant,
    ) -> Result<PouredStream, NotOpened> {
        let path = format!("/live/{}?class={}", escaped(name), escaped(as_of.class));
        let address = Address::of(&self.url)?;
        let socket = address.connect(until)?;
        let connection = Box::new(Ending(socket.try_clone().map_err(|error| of_io(&error))?));
        let Address { host, port, prefix } = &address;
        let user = self.user_field(Some(as_of.user));
        let user = user.map_or(String::new(), |(name, user)| format!("{name}: {user}\r\n"));
        let request =
            format!("GET {prefix}{path} HTTP/1.1\r\nHost: {host}:{port}\r\n{user}Connection: close\r\n\r\n");
        (&socket).write_all(request.as_bytes()).map_err(|error| of_io(&error))?;
        let mut from = BufReader::new(Until { socket, until: Some(until) });
        let head = Head::read(&mut from, &path)?;
        if head.status != 200 {
            return Err(head.refusal(&mut from, &path));
        }
        if !head.is_in_chunks {
            return Err(AskError::Unusable(format!("{path}: not in chunks")).into());
        }
        from.get_mut().until = None;
        from.get_ref().socket.set_read_timeout(Some(POURED_SILENCE)).map_err(|error| of_io(&error))?;
        Ok(PouredStream { bytes: Box::new(Chunks { from, left: 0, is_over: false }), connection })
    }
}

#[derive(Deserialize)]
struct PourList {
    pours: Vec<Pour>,
}

#[derive(Deserialize)]
struct Session {
    key: String,
}

#[derive(Deserialize)]
struct Pour {
    name: String,
    rate_bps: u64,
}

/// A connection that is shut down when this is dropped. The other end, and a thread that reads it,
/// notice.
#[derive(Debug)]
struct Ending(TcpStream);

impl Connection for Ending {}

impl Drop for Ending {
    fn drop(&mut self) {
        // The server may have closed it before.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A socket whose reads all together end by a time.
#[derive(Debug)]
struct Until {
    socket: TcpStream,
    /// `None`: each read may take as long as is set.
    until: Option<Instant>,
}

impl Read for Until {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(until) = self.until {
            match until.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return Err(io::ErrorKind::TimedOut.into()),
                left => self.socket.set_read_timeout(Some(left))?,
            }
        }
        self.socket.read(into)
    }
}

/// Where a server is.
struct Address {
    host: String,
    port: u16,
    /// The beginning of all paths, without a slash at its end.
    prefix: String,
}

impl Address {
    fn of(url: &str) -> Result<Address, AskError> {
        let unusable = || AskError::Unusable(format!("{url:?} is no address http://HOST:PORT"));
        let uri: Uri = url.parse().map_err(|_| unusable())?;
        let host = uri.host().ok_or_else(unusable)?.to_owned();
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Address { host, port: uri.port_u16().unwrap_or(80), prefix })
    }

    /// A connection whose reads and writes end by `until`.
    fn connect(&self, until: Instant) -> Result<TcpStream, AskError> {
        let left = || match until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(AskError::Late),
            left => Ok(left),
        };
        let addresses = format!("{}:{}", self.host, self.port).to_socket_addrs();
        let mut failed = AskError::Unreachable(format!("{} has no address", self.host));
        for address in addresses.map_err(|error| of_io(&error))? {
            match TcpStream::connect_timeout(&address, left()?) {
                Ok(socket) => {
                    let left = left()?;
                    let set = [socket.set_read_timeout(Some(left)), socket.set_write_timeout(Some(left))];
                    set.into_iter().collect::<io::Result<()>>().map_err(|error| of_io(&error))?;
                    kept_alive(&socket).map_err(|error| of_io(&error.into()))?;
                    return Ok(socket);
                }
                Err(error) => failed = of_io(&error),
            }
        }
        Err(failed)
    }
}

fn kept_alive(socket: &TcpStream) -> rustix::io::Result<()> {
    set_socket_keepalive(socket, true)?;
    set_tcp_keepidle(socket, KEEP_ALIVE)?;
    set_tcp_keepintvl(socket, KEEP_ALIVE)?;
    set_tcp_keepcnt(socket, KEEP_ALIVES)
}

/// What the head of a response says.
struct Head {
    status: u16,
    is_in_chunks: bool,
    bytes: Option<u64>,
}

impl Head {
    fn read(from: &mut impl BufRead, path: &str) -> Result<Head, AskError> {
        let unusable = || AskError::Unusable(format!("{path}: no answer of HTTP"));
        let (mut text, mut limited) = (Vec::new(), from.take(HEAD_BYTES_MAX));
        while !text.ends_with(b"\r\n\r\n") {
            let bytes = limited.read_until(b'\n', &mut text).map_err(|error| of_io(&error))?;
            if bytes == 0 {
                return Err(unusable());
            }
        }
        let mut fields = [httparse::EMPTY_HEADER; HEAD_FIELDS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        response.parse(&text).map_err(|_| unusable())?;
        let field = |name: &str| {
            let field = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
            str::from_utf8(field.value).ok()
        };
        Ok(Head {
            status: response.code.ok_or_else(unusable)?,
            is_in_chunks: field("transfer-encoding").is_some_and(|how| how.eq_ignore_ascii_case("chunked")),
            bytes: field("content-length").and_then(|bytes| bytes.parse().ok()),
        })
    }

    /// What a server says that refuses.
    fn refusal(&self, from: &mut impl Read, path: &str) -> NotOpened {
        if !(400..600).contains(&self.status) {
            return AskError::Unusable(format!("{path}: status {}", self.status)).into();
        }
        let mut text = Vec::new();
        let bytes = self.bytes.unwrap_or(REFUSAL_BYTES_MAX).min(REFUSAL_BYTES_MAX);
        match from.take(bytes).read_to_end(&mut text) {
            Ok(_) => refused(self.status, &text),
            Err(error) => of_io(&error).into(),
        }
    }
}

/// A body in chunks. It ends after the last chunk; a body that ends before is an error.
#[derive(Debug)]
struct Chunks<R> {
    from: R,
    /// Bytes of this chunk that were not read.
    left: u64,
    is_over: bool,
}

impl<R: BufRead> Read for Chunks<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.is_over {
            self.left = self.next_size()?;
            self.is_over = self.left == 0;
            if self.is_over {
                self.end_of_chunk()?;
            }
        }
        let most = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        let bytes = self.from.read(&mut into[..most])?;
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= bytes as u64;
        if self.left == 0 {
            self.end_of_chunk()?;
        }
        Ok(bytes)
    }
}

impl<R: BufRead> Chunks<R> {
    fn next_size(&mut self) -> io::Result<u64> {
        // The longest size, without extensions, which a Reel server does not write.
        let mut line = Vec::new();
        (&mut self.from).take(18).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match httparse::parse_chunk_size(&line) {
            Ok(httparse::Status::Complete((_, bytes))) => Ok(bytes),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn end_of_chunk(&mut self) -> io::Result<()> {
        let mut end = [0; 2];
        self.from.read_exact(&mut end)?;
        if end == *b"\r\n" { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

fn of_io(error: &io::Error) -> AskError {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => AskError::Late,
        _ => AskError::Unreachable(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> (Vec<u8>, Option<io::ErrorKind>) {
        let mut chunks = Chunks { from: body.as_bytes(), left: 0, is_over: false };
        let mut bytes = Vec::new();
        let ended = chunks.read_to_end(&mut bytes);
        (bytes, ended.err().map(|error| error.kind()))
    }

    #[test]
    fn a_body_is_whole_only_with_its_last_chunk() {
        use io::ErrorKind::{InvalidData, UnexpectedEof};
        let whole = "3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(read(whole), (b"abc0123456789".to_vec(), None));
        for end in 0..whole.len() {
            let (bytes, error) = read(&whole[..end]);
            assert!(b"abc0123456789".starts_with(&bytes[..]), "{end}");
            assert!(matches!(error, Some(UnexpectedEof | InvalidData)), "{end}: {error:?}");
        }
        for wrong in ["x\r\n", "3\r\nabcd\r\n", "-1\r\n", "fffffffffffffffff\r\nabc", "3abc\r\n"] {
            assert!(read(wrong).1.is_some(), "{wrong:?}");
        }
        assert_eq!(read("7fffffffffffffff\r\nab"), (b"ab".to_vec(), Some(UnexpectedEof)));
    }

    #[test]
    fn heads_are_read_and_bounded() {
        let head = |text: &str| Head::read(&mut text.as_bytes(), "/live/a");
        let chunked = head("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n").expect("a head");
        assert!(chunked.status == 200 && chunked.is_in_chunks);
        let refused = head("HTTP/1.1 503 no\r\nContent-Length: 7\r\n\r\n").expect("a head");
        assert_eq!((refused.status, refused.bytes, refused.is_in_chunks), (503, Some(7), false));
        let endless = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "a".repeat(HEAD_BYTES_MAX as usize));
        for text in ["", "HTTP/1.1 200 OK\r\n", "x\r\n\r\n", &endless] {
            assert!(head(text).is_err(), "{text:.40?}");
        }
        let short = Head { status: 404, is_in_chunks: false, bytes: Some(100) };
        let NotOpened::Refused(refused) = short.refusal(&mut &br#"{"detail":"no"}"#[..], "/live/a") else {
            panic!("it is refused");
        };
        assert_eq!((refused.status, &*refused.detail), (404, "no"));
    }

    #[test]
    fn addresses_have_a_host_and_a_port() {
        let address = |url: &str| Address::of(url).map(|it| (it.host, it.port, it.prefix));
        assert_eq!(address("http://[::1]:81").unwrap(), ("[::1]".to_owned(), 81, String::new()));
        assert_eq!(address("http://a/reel").unwrap(), ("a".to_owned(), 80, "/reel".to_owned()));
        assert!(address("/a").is_err());
    }
}
