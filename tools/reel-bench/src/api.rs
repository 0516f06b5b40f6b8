//! Requests to a server's API: small responses, one connection each.

use anyhow::{Context, Result, bail};
use reel_testkit::http::exchange;
use serde_json::Value;
use std::net::SocketAddr;

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
        bail!("{method} {path} was answered {status}: {text}");
    }
    Ok(text.to_owned())
}
