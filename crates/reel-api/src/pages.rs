//! The web pages, embedded in the binary.

use crate::ControlPlane;
use crate::etag::{ASK_FIRST, if_none_match, not_modified};
use crate::problem::Problem;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use reel_serve::relative_address;
use rust_embed::RustEmbed;
use std::borrow::Cow;
use std::fmt::Write as _;

/// The files that `npm run build` made. If they were missing when this crate was compiled, the
/// pages say so.
#[derive(RustEmbed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct Web;

const INDEX: &str = "index.html";

/// How the addresses of files begin in [`INDEX`] and [`NOT_BUILT`], which are written as if they
/// were at the root.
const HERE: &str = "=\"./";

/// Only files of this server; media and workers may also be blobs made by the player (Media Source
/// Extensions).
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; media-src 'self' blob:; worker-src 'self' blob:; img-src 'self' data:; frame-ancestors 'self'",
);

/// The names of built files contain a hash of their content.
const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

const NOT_BUILT: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>Reel</title>\
<h1>Reel is running, its pages are not built in</h1>\
<p>This binary was compiled before the web pages were. Build them and compile again:\
<pre>npm --prefix web ci &amp;&amp; npm --prefix web run build &amp;&amp; cargo build --release</pre>\
<p>The rest works: <a href=\"./api/v1/titles\">titles</a>, <a href=\"./api/v1/openapi.json\">the API</a>, \
<a href=\"./metrics\">metrics</a>.";

/// `GET /`
pub(super) async fn library(uri: Uri, headers: HeaderMap) -> Response {
    page(StatusCode::OK, &uri, &headers)
}

/// `GET /dashboard`: the same program.
pub(super) async fn dashboard(uri: Uri, headers: HeaderMap) -> Response {
    page(StatusCode::OK, &uri, &headers)
}

/// `GET /casts`: the same program.
pub(super) async fn casts(uri: Uri, headers: HeaderMap) -> Response {
    page(StatusCode::OK, &uri, &headers)
}

/// `GET /title/{id}`: the same program; the status says whether the title exists, also to clients
/// that do not run the program.
pub(super) async fn player(
    State(control): State<ControlPlane>,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let status = if control.library().has(&id) { StatusCode::OK } else { StatusCode::NOT_FOUND };
    page(status, &uri, &headers)
}

/// `GET /assets/{*file}`
pub(super) async fn asset(Path(file): Path<String>, headers: HeaderMap) -> Response {
    let path = format!("assets/{file}");
    match Web::get(&path) {
        Some(found) => built(&path, found, FOREVER, &headers),
        None => Problem::no_such_address(&format!("/{path}")).into_response(),
    }
}

/// Addresses without a route: the built files beside the page (icons), else a page or a problem
/// that says that nothing is there, as the client prefers.
pub(super) async fn fallback(State(control): State<ControlPlane>, request: Request) -> Response {
    let path = request.uri().path();
    if !path.is_empty() && path == control.config().base_path.as_str() {
        let library = [(header::LOCATION, format!("{path}/"))];
        return (StatusCode::PERMANENT_REDIRECT, library).into_response();
    }
    // It asks the server, not an address.
    if request.method() == Method::OPTIONS && path == "*" {
        return (StatusCode::NO_CONTENT, [(header::ALLOW, "GET, HEAD, OPTIONS")]).into_response();
    }
    let reading = matches!(*request.method(), Method::GET | Method::HEAD);
    if reading
        && let Some(name) = path.strip_prefix('/')
        && name != INDEX
        && let Some(found) = Web::get(name)
    {
        return built(name, found, ASK_FIRST, request.headers());
    }
    let wants_page =
        request.headers().get(header::ACCEPT).is_some_and(|v| v.as_bytes().starts_with(b"text/html"));
    if reading && wants_page && !path.starts_with("/api/") {
        return page(StatusCode::NOT_FOUND, request.uri(), request.headers());
    }
    Problem::no_such_address(path).into_response()
}

/// The page, as it is at the path of this address.
fn page(status: StatusCode, uri: &Uri, headers: &HeaderMap) -> Response {
    let Some(found) = Web::get(INDEX) else {
        let text = at_path(NOT_BUILT, uri.path());
        let mut response = (StatusCode::SERVICE_UNAVAILABLE, text.into_owned()).into_response();
        let fields = response.headers_mut();
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        fields.insert(header::CONTENT_SECURITY_POLICY, POLICY);
        return response;
    };
    let text = String::from_utf8_lossy(&found.data);
    let etag = etag(&found.metadata.sha256_hash(), names_above(uri.path()));
    let data = at_path(&text, uri.path()).into_owned().into_bytes();
    respond(status, INDEX, (data.into(), etag), ASK_FIRST, headers)
}

/// A text of the root as it is at a path: its files are where they were.
fn at_path<'a>(text: &'a str, path: &str) -> Cow<'a, str> {
    match names_above(path) {
        0 => Cow::Borrowed(text),
        _ => Cow::Owned(text.replace(HERE, &format!("=\"{}", relative_address(path, "/")))),
    }
}

/// How many directories a path is below the root.
fn names_above(path: &str) -> usize {
    path.bytes().filter(|byte| *byte == b'/').count().saturating_sub(1)
}

fn built(path: &str, found: rust_embed::EmbeddedFile, cache: HeaderValue, headers: &HeaderMap) -> Response {
    let etag = etag(&found.metadata.sha256_hash(), 0);
    respond(StatusCode::OK, path, (found.data, etag), cache, headers)
}

fn respond(
    status: StatusCode,
    path: &str,
    (data, etag): (Cow<'static, [u8]>, String),
    cache: HeaderValue,
    headers: &HeaderMap,
) -> Response {
    if status == StatusCode::OK && if_none_match(headers, &etag) {
        return not_modified(&etag, cache);
    }
    let mut response = (status, data).into_response();
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type(path)));
    fields.insert(header::CACHE_CONTROL, cache);
    fields.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    if let Ok(etag) = HeaderValue::try_from(etag) {
        fields.insert(header::ETAG, etag);
    }
    response
}

/// The tag of a file, which is another one so many directories below the root.
fn etag(hash: &[u8; 32], below: usize) -> String {
    let mut etag = String::from("\"");
    for byte in &hash[..16] {
        let _ = write!(etag, "{byte:02x}");
    }
    if below > 0 {
        let _ = write!(etag, "-{below}");
    }
    etag.push('"');
    etag
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "css" => "text/css; charset=utf-8",
        "html" => "text/html; charset=utf-8",
        "ico" => "image/x-icon",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" | "map" => "application/json",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "txt" => "text/plain; charset=utf-8",
        "webmanifest" => "application/manifest+json",
        "webp" => "image/webp",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_vite_makes_has_a_media_type() {
        for (path, wanted) in [
            ("assets/index-abc.js", "text/javascript; charset=utf-8"),
            ("assets/index-abc.css", "text/css; charset=utf-8"),
            ("icon.svg", "image/svg+xml"),
            ("odd", "application/octet-stream"),
        ] {
            assert_eq!(media_type(path), wanted);
        }
        assert_eq!(etag(&[0xab; 32], 0), format!("\"{}\"", "ab".repeat(16)));
    }

    #[test]
    fn the_page_finds_its_files_from_every_path() {
        let text = r#"<link href="./a.css"><script src="./assets/a.js">"#;
        for (path, begin) in [("/", "./"), ("/casts", "./"), ("/title/a", "../"), ("/title/a/", "../../")] {
            let expected = format!(r#"<link href="{begin}a.css"><script src="{begin}assets/a.js">"#);
            assert_eq!(at_path(text, path), expected, "{path}");
        }
        assert_ne!(etag(&[0xab; 32], 0), etag(&[0xab; 32], names_above("/title/a")), "it has other bytes");
        assert!(!NOT_BUILT.contains("=/"), "no address is from the root");
    }
}
