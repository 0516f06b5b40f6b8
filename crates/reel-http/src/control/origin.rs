//! Refuses changes that a page of another site makes a visitor's browser ask for.
//!
//! There are no accounts yet, so whoever reaches the port may change things; but a web page somewhere else must
//! not do it through a browser that happens to reach us. Browsers say where a request comes from: `Sec-Fetch-Site`
//! (Fetch Metadata, W3C) in all current ones, `Origin` (RFC 6454) in older ones. Other programs send neither.

use super::problem::Problem;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// The middleware: passes on what [`foreign_origin`] has no objection to.
pub(super) async fn refuse_foreign(request: Request, next: Next) -> Response {
    match foreign_origin(request.method(), request.uri(), request.headers()) {
        Some(origin) => Problem::new(
            StatusCode::FORBIDDEN,
            "foreign-origin",
            "Another site may not change anything here",
            format!(
                "a browser sent this {} on behalf of {origin}; changes are taken only from this server's own pages, or from \
                 programs that are not browsers",
                request.method()
            ),
        )
        .into_response(),
        None => next.run(request).await,
    }
}

/// Whose page asks for a change, if it is not one of ours.
fn foreign_origin(method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<String> {
    if method.is_safe() {
        return None;
    }
    let origin =
        headers.get(header::ORIGIN).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    if let Some(site) = headers.get("sec-fetch-site") {
        return match site.as_bytes() {
            b"same-origin" | b"none" => None,
            _ => Some(origin.unwrap_or_else(|| "another site".to_owned())),
        };
    }
    let origin = origin?;
    let host = headers
        .get(header::HOST)
        .and_then(|v| v.to_str().ok())
        .or_else(|| uri.authority().map(|a| a.as_str()));
    match (origin.split_once("://"), host) {
        (Some((scheme, authority)), Some(host)) if same_authority(scheme, authority, host) => None,
        _ => Some(origin),
    }
}

/// Whether an origin's authority is the host asked for; the scheme's own port may be left out on either side.
fn same_authority(scheme: &str, authority: &str, host: &str) -> bool {
    let default = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return false,
    };
    let strip = |text: &str| text.strip_suffix(default).unwrap_or(text).to_ascii_lowercase();
    strip(authority) == strip(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(method: Method, headers: &[(&'static str, &str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().expect("a header value"));
        }
        foreign_origin(&method, &Uri::from_static("/api/v1/titles"), &map).is_none()
    }

    #[test]
    fn only_our_own_pages_and_programs_may_change_things() {
        let post = Method::POST;
        let host = ("host", "reel.lan:8080");
        assert!(verdict(post.clone(), &[host]), "curl");
        assert!(verdict(post.clone(), &[host, ("origin", "http://reel.lan:8080")]));
        assert!(verdict(post.clone(), &[("host", "reel.lan"), ("origin", "https://Reel.lan:443")]));
        assert!(verdict(
            post.clone(),
            &[host, ("sec-fetch-site", "same-origin"), ("origin", "https://proxied")]
        ));
        for (name, value) in [
            ("origin", "http://evil.example"),
            ("origin", "http://reel.lan"),
            ("origin", "http://reel.lan:8080.evil.example"),
            ("origin", "null"),
            ("origin", "ftp://reel.lan:8080"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert!(!verdict(post.clone(), &[host, (name, value)]), "{name}: {value}");
            assert!(!verdict(Method::DELETE, &[host, (name, value)]));
            assert!(verdict(Method::GET, &[host, (name, value)]), "reading is free");
        }
        assert!(!verdict(
            post,
            &[host, ("sec-fetch-site", "cross-site"), ("origin", "http://reel.lan:8080")]
        ));
    }
}
