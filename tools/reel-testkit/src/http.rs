//! A plain HTTP/1.1 client that blocks: for tests and for questions to a server's API.
//!
//! It knows a body by its length or by the end of the connection. The load generator has its own
//! client, because thousands of those share a thread, and so has the wire, because its viewers see
//! heads and counts of bytes only.

use crate::limits::{ANSWER_BYTES_MAX, HEAD_BYTES_MAX};
use anyhow::{Context, Result, ensure};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// What is taken from a socket at once: all that its buffer usually holds.
const READ_BYTES: usize = 256 << 10;

/// A server that sends nothing for this long has failed.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A connection to a server; `S` is a socket or what encrypts over one.
pub struct Client<S: Read + Write = TcpStream> {
    stream: BufReader<S>,
}

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its status code.
    pub status: u16,
    /// The status line and all fields, each with its line end.
    pub text: String,
}

/// A response with its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Its head.
    pub head: Head,
    /// Its body.
    pub body: Vec<u8>,
}

impl Client {
    /// Connects to a server. Reads and writes fail after a minute of silence.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn connect(server: impl ToSocketAddrs) -> Result<Self> {
        let stream = TcpStream::connect(server)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        Ok(Self::on(stream))
    }
}

impl<S: Read + Write> Client<S> {
    /// A client on a stream that is connected.
    pub fn on(stream: S) -> Self {
        Self { stream: BufReader::with_capacity(READ_BYTES, stream) }
    }

    /// The stream below, for its settings and for what is no request.
    pub fn stream(&mut self) -> &mut S {
        self.stream.get_mut()
    }

    /// Sends the head of a request, for example `GET /a HTTP/1.1`; each of `fields` ends with
    /// `\r\n`.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn request(&mut self, line: &str, fields: &str) -> Result<()> {
        self.stream().write_all(format!("{line}\r\n{fields}\r\n").as_bytes())?;
        Ok(())
    }

    /// Reads the head of a response and leaves its body.
    ///
    /// # Errors
    /// Those of the stream; a connection that ends early; what is no head.
    pub fn head(&mut self) -> Result<Head> {
        let mut text = String::new();
        let mut lines = (&mut self.stream).take(HEAD_BYTES_MAX);
        while !text.ends_with("\r\n\r\n") {
            let bytes = lines.read_line(&mut text).context("reading the head of a response")?;
            ensure!(bytes > 0, "the server closed the connection before its answer was complete");
        }
        text.truncate(text.len() - 2);
        let status = text.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.with_context(|| format!("a response without a status: {text}"))?;
        Ok(Head { status, text })
    }

    /// Reads on in the body; 0 at the end of the connection.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn read(&mut self, piece: &mut [u8]) -> Result<usize> {
        loop {
            match self.stream.read(piece) {
                // A signal has interrupted the call, not the stream.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                bytes => return Ok(bytes?),
            }
        }
    }

    /// Reads the body that belongs to `head`: as long as it says, or until the connection ends.
    ///
    /// # Errors
    /// Those of the stream; a body that ends early or exceeds [`ANSWER_BYTES_MAX`].
    pub fn body(&mut self, head: &Head) -> Result<Vec<u8>> {
        let length = head.length()?;
        let most = length.unwrap_or(ANSWER_BYTES_MAX + 1);
        ensure!(most <= ANSWER_BYTES_MAX + 1, "a body of {most} bytes is too long to be kept");
        let mut body = Vec::new();
        (&mut self.stream).take(most).read_to_end(&mut body)?;
        let bytes = body.len() as u64;
        ensure!(bytes <= ANSWER_BYTES_MAX, "a body of more than {ANSWER_BYTES_MAX} bytes");
        ensure!(length.is_none_or(|length| length == bytes), "the body ended after {bytes} bytes");
        Ok(body)
    }
}

impl Head {
    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.text.lines().find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    /// The length of the body, if the head says it.
    ///
    /// # Errors
    /// A length that is not a number.
    pub fn length(&self) -> Result<Option<u64>> {
        let length = self.field("Content-Length").map(str::parse).transpose();
        length.context("a Content-Length that is not a number")
    }
}

impl Response {
    /// The body as text.
    ///
    /// # Errors
    /// A body that is no UTF-8.
    pub fn text(&self) -> Result<&str> {
        std::str::from_utf8(&self.body).context("a body that is no text")
    }
}

/// One request with its response, over a connection of its own: `body` is a content type and the
/// content.
///
/// Version 1.0, so that the response ends with the connection.
///
/// # Errors
/// Those of [`Client`]. A status of any kind is none.
pub fn exchange(
    server: impl ToSocketAddrs + std::fmt::Display,
    method: &str,
    path: &str,
    body: Option<(&str, &[u8])>,
) -> Result<Response> {
    let mut client = Client::connect(&server)?;
    let mut fields = format!("Host: {server}\r\nConnection: close\r\n");
    if let Some((kind, content)) = body {
        fields += &format!("Content-Type: {kind}\r\nContent-Length: {}\r\n", content.len());
    }
    client.request(&format!("{method} {path} HTTP/1.0"), &fields)?;
    if let Some((_, content)) = body {
        client.stream().write_all(content)?;
    }
    let head = client.head()?;
    let body = if method == "HEAD" { Vec::new() } else { client.body(&head)? };
    Ok(Response { head, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that has sent its bytes already, and keeps what it is sent.
    struct RecordedServer(io::Cursor<&'static str>, Vec<u8>);

    impl Read for RecordedServer {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.0.read(out)
        }
    }

    impl Write for RecordedServer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn client(text: &'static str) -> Client<RecordedServer> {
        Client::on(RecordedServer(io::Cursor::new(text), Vec::new()))
    }

    #[test]
    fn responses_follow_each_other_on_one_connection() {
        let mut client =
            client("HTTP/1.1 206 Part\r\ncontent-length: 3\r\n\r\nabcHTTP/1.1 404 No\r\n\r\nrest");
        client.request("GET /a HTTP/1.1", "Range: bytes=0-2\r\n").unwrap();
        assert_eq!(client.stream().1, b"GET /a HTTP/1.1\r\nRange: bytes=0-2\r\n\r\n");
        let head = client.head().unwrap();
        assert_eq!((head.status, head.field("Content-Length")), (206, Some("3")));
        assert_eq!(client.body(&head).unwrap(), b"abc");
        let head = client.head().unwrap();
        assert_eq!((head.status, head.length().unwrap()), (404, None));
        assert_eq!(client.body(&head).unwrap(), b"rest");
    }

    #[test]
    fn what_ends_early_is_an_error() {
        assert!(client("HTTP/1.1 200 OK\r\nContent").head().is_err());
        assert!(client("nonsense\r\n\r\n").head().is_err());
        let mut short = client("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort");
        let head = short.head().unwrap();
        assert!(short.body(&head).is_err());
    }
}
