//! Questions to a server's API: small answers, one connection each.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer larger than this is none that we asked for.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
const PATIENCE: Duration = Duration::from_secs(30);

/// GET; the JSON of the answer.
pub(crate) fn get(server: SocketAddr, path: &str) -> Result<Value> {
    ask(server, "GET", path, None)
}

/// GET; the text of the answer.
pub(crate) fn text(server: SocketAddr, path: &str) -> Result<String> {
    exchange(server, "GET", path, None)
}

/// POST of `body`; the JSON of the answer.
pub(crate) fn post(server: SocketAddr, path: &str, body: &Value) -> Result<Value> {
    ask(server, "POST", path, Some(body))
}

/// DELETE; the answer is nobody's business.
pub(crate) fn delete(server: SocketAddr, path: &str) -> Result<()> {
    exchange(server, "DELETE", path, None).map(drop)
}

fn ask(server: SocketAddr, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
    let answer = exchange(server, method, path, body)?;
    serde_json::from_str(&answer)
        .with_context(|| format!("{method} {path} was not answered with JSON: {answer}"))
}

fn exchange(server: SocketAddr, method: &str, path: &str, body: Option<&Value>) -> Result<String> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let body = body.map(Value::to_string).unwrap_or_default();
    // Version 1.0, so that the answer ends with the connection.
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: {server}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let answer = String::from_utf8(answer).context("an answer that is no text")?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without a head")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if !status.starts_with('2') {
        bail!("{method} {path} was answered {status}: {body}");
    }
    Ok(body.to_owned())
}
