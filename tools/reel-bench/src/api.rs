//! Requests to a server's API: small responses, one connection each.

use anyhow::{Context, Result};
use reel_testkit::http::exchange;
use serde_json::Value;
use std::fmt;
use std::net::SocketAddr;

/// A response that is no success.
#[derive(Debug)]
pub(crate) struct Unsuccessful {
    request: String,
    /// The status of the response.
    pub(crate) status: u16,
    text: String,
}

impl fmt::Display for Unsuccessful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unsuccessful { request, status, text } = self;
        write!(f, "{request} was answered {status}: {text}")
    }
}

impl std::error::Error for Unsuccessful {}

/// GET; the JSON of the response.
pub(crate) fn get(server: SocketAddr, path: &str) -> Result<Value> {
    json(server, "GET", path, None)
}

/// GET; the text of the response.
pub(crate) fn text(server: SocketAddr, path: &str) -> Result<String> {
    request(server, "GET", path, None)
}

/// POST of `body`; the JSON of the response.
pub(crate) fn post(server: SocketAddr, path: &str, body: &Value) -> Result<Value> {
    json(server, "POST", path, Some(body))
}

/// DELETE; the response is not looked at.
pub(crate) fn delete(server: SocketAddr, path: &str) -> Result<()> {
    request(server, "DELETE", path, None).map(drop)
}

fn json(server: SocketAddr, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
    let text = request(server, method, path, body)?;
    serde_json::from_str(&text).with_context(|| format!("{method} {path} was not answered with JSON: {text}"))
}

fn request(server: SocketAddr, method: &str, path: &str, body: Option<&Value>) -> Result<String> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let response = exchange(server, method, path, Some(("application/json", body.as_bytes())))?;
    let (status, text) = (response.head.status, response.text()?);
    if !(200..300).contains(&status) {
        let (request, text) = (format!("{method} {path}"), text.to_owned());
        return Err(Unsuccessful { request, status, text }.into());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn the_status_of_a_refusal_is_known_to_the_caller() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let server = listener.local_addr().expect("bound");
        let answering = thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("a client");
            let _ = client.read(&mut [0; 4096]).expect("a request");
            let answer =
                b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfull";
            client.write_all(answer).expect("answered");
        });
        let refused = post(server, "/casts", &Value::Null).context("a cast").expect_err("refused");
        answering.join().expect("no panic");
        let refused = refused.downcast_ref::<Unsuccessful>().expect("a response");
        assert_eq!(
            (refused.status, refused.to_string().as_str()),
            (503, "POST /casts was answered 503: full")
        );
    }
}
