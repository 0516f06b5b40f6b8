//! Refuses changes that a page of another site makes a visitor's browser ask for.
//!
//! There are no accounts yet: a client that reaches the port may change things. But a page of
//! another site must not do it through a visitor's browser. A browser says where a request comes
//! from: `Sec-Fetch-Site` (Fetch Metadata, W3C) in all current ones, `Origin` (RFC 6454) in older
//! ones. Other programs send neither.
//!
//! A site may also have its own name resolve to this server's address once its page is loaded (DNS
//! rebinding). To the browser that page then belongs to this server. So the host that a request
//! names has to be one that another site cannot own.
//!
//! A reverse proxy may name another host than the browser did. The origin of a page under a name
//! that the operator configured is this server's, whatever host the proxy names.

use crate::problem::Problem;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;

/// Suffixes of private networks, which cannot be registered: RFC 6762 section 3 and appendix G, RFC
/// 8375, and `internal`, which ICANN set aside in 2024.
const PRIVATE_SUFFIXES: [&str; 9] =
    ["local", "lan", "home", "home.arpa", "internal", "localdomain", "intranet", "private", "corp"];

/// The hosts that a browser may name when it requests a change, besides the server's addresses and
/// `localhost`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnNames {
    /// The machine's own name.
    pub machine: String,
    /// The names that the operator configured.
    pub others: Vec<String>,
}

impl OwnNames {
    /// Whether a host can only be this server.
    fn include(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&host);
        if address.parse::<IpAddr>().is_ok() || host == "localhost" || host.ends_with(".localhost") {
            return true;
        }
        let machine = self.machine.to_ascii_lowercase();
        let first = machine.split('.').next().unwrap_or_default();
        let is_machine = !first.is_empty()
            && (host == machine
                || match host.split_once('.') {
                    None => host == first,
                    // Not any suffix: `nas.example` may belong to another owner.
                    Some((name, suffix)) => name == first && PRIVATE_SUFFIXES.contains(&suffix),
                });
        is_machine || self.are_configured(&host)
    }

    fn are_configured(&self, host: &str) -> bool {
        self.others.iter().any(|other| other.eq_ignore_ascii_case(host))
    }

    /// Whether an origin is that of a page under a name that the operator configured.
    fn include_origin(&self, origin: &str) -> bool {
        let authority = match origin.split_once("://") {
            Some(("http" | "https", authority)) => authority,
            _ => return false,
        };
        authority.parse::<Authority>().is_ok_and(|authority| self.are_configured(authority.host()))
    }
}

/// The middleware: refuses requests that [`foreign_origin`] or [`unknown_host`] finds.
pub(super) async fn refuse_foreign(
    State(names): State<Arc<OwnNames>>,
    request: Request,
    next: Next,
) -> Response {
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    if let Some(origin) = foreign_origin(&names, method, uri, headers) {
        return Problem::new(
            StatusCode::FORBIDDEN,
            "foreign-origin",
            "Another site may not change anything here",
            format!("a browser sent this {method} on behalf of {origin}"),
        )
        .help(
            "make changes from this server's own pages, or with a program that is not a browser. If a reverse proxy serves \
             these pages, put the name that browsers use into `hosts` in reel.toml, or have the proxy pass on the Host field",
        )
        .into_response();
    }
    if let Some(host) = unknown_host(&names, method, uri, headers) {
        return Problem::new(
            StatusCode::FORBIDDEN,
            "unknown-host",
            "Browsers may not change anything here under this name",
            format!("a browser sent this {method} to {host}, and any site can have such a name resolve to this server"),
        )
        .help("put the name into `hosts` in reel.toml if it is yours, or use this machine's address or name")
        .into_response();
    }
    next.run(request).await
}

/// Whether the method changes nothing. PROPFIND is safe, too (RFC 4918 section 9.1).
fn is_reading(method: &Method) -> bool {
    method.is_safe() || method.as_str() == "PROPFIND"
}

/// The origin of a page that requests a change, if it is not this server.
fn foreign_origin(names: &OwnNames, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<String> {
    if is_reading(method) {
        return None;
    }
    let origin = origin_of(headers);
    if let Some(site) = headers.get("sec-fetch-site") {
        return match site.as_bytes() {
            b"same-origin" | b"none" => None,
            _ => Some(origin.unwrap_or_else(|| "another site".to_owned())),
        };
    }
    let origin = origin.filter(|origin| !names.include_origin(origin))?;
    match (origin.split_once("://"), host_of(uri, headers)) {
        (Some((scheme, authority)), Some(host)) if same_authority(scheme, authority, host) => None,
        _ => Some(origin),
    }
}

/// The host that a browser named when it requested a change, if it is not one of this server.
fn unknown_host(names: &OwnNames, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let is_browser = headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site");
    if is_reading(method) || !is_browser {
        return None;
    }
    if origin_of(headers).is_some_and(|origin| names.include_origin(&origin)) {
        return None;
    }
    let host = host_of(uri, headers).unwrap_or_default();
    let is_own = host.parse::<Authority>().is_ok_and(|authority| names.include(authority.host()));
    (!is_own).then(|| host.to_owned())
}

fn origin_of(headers: &HeaderMap) -> Option<String> {
    headers.get(header::ORIGIN).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn host_of<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let field = headers.get(header::HOST).and_then(|value| value.to_str().ok());
    field.or_else(|| uri.authority().map(Authority::as_str))
}

/// Whether an origin's authority is the host asked for; the scheme's own port may be left out on
/// either side.
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
        foreign_origin(&OwnNames::default(), &method, &Uri::from_static("/api/v1/titles"), &map).is_none()
    }

    #[test]
    fn only_pages_of_this_server_and_programs_may_change_things() {
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

    /// The proxy names the host of this server, as nginx does unless told otherwise.
    #[test]
    fn pages_under_a_configured_name_may_change_things_whatever_host_a_proxy_names() {
        let names = OwnNames { others: vec!["Media.example.org".to_owned()], ..OwnNames::default() };
        for host in ["127.0.0.1:8080", "backend", "media.example.org"] {
            for (origin, is_allowed) in [
                ("http://media.example.org", true),
                ("https://media.EXAMPLE.org:8443", true),
                ("https://media.example.org.evil.example", false),
                ("https://media.example.org@evil.example", false),
                ("https://evil.example/media.example.org", false),
                ("ftp://media.example.org", false),
                ("null", false),
            ] {
                let mut map = HeaderMap::new();
                map.insert("host", host.parse().expect("a header value"));
                map.insert("origin", origin.parse().expect("a header value"));
                let (method, uri) = (Method::POST, Uri::from_static("/api/v1/sessions"));
                let is_refused = foreign_origin(&names, &method, &uri, &map).is_some()
                    || unknown_host(&names, &method, &uri, &map).is_some();
                assert_eq!(!is_refused, is_allowed, "{origin} by way of {host}");
                map.insert("sec-fetch-site", "cross-site".parse().expect("a header value"));
                assert!(foreign_origin(&names, &method, &uri, &map).is_some(), "a browser says so");
            }
        }
    }

    #[test]
    fn browsers_change_things_only_under_names_of_this_server() {
        let names = OwnNames { machine: "Nas".to_owned(), others: vec!["Media.example.org".to_owned()] };
        let own = |host: &str, fields: &[(&'static str, &str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in [("host", host)].iter().chain(fields) {
                map.insert(*name, value.parse().expect("a header value"));
            }
            unknown_host(&names, &Method::DELETE, &Uri::from_static("/x"), &map).is_none()
        };
        for host in [
            "192.168.1.2:8080",
            "[fe80::1]:8080",
            "localhost",
            "a.localhost:80",
            "nas:8080",
            "NAS.lan:8080",
            "nas.local.",
            "nas.home.arpa",
            "media.example.org",
            "MEDIA.example.org:443",
        ] {
            assert!(own(host, &[("origin", "http://x")]), "{host}");
        }
        for host in [
            "evil.example:8080",
            "nas.evil.example",
            "nas.com",
            "lan",
            "x.lan",
            "localhost.evil.example",
            "1.2.3.4.evil.example",
            "media.example.org.evil.example",
            "",
        ] {
            assert!(!own(host, &[("origin", "http://x")]), "{host}");
            assert!(!own(host, &[("sec-fetch-site", "same-origin")]), "{host}");
            assert!(own(host, &[]), "not a browser: {host}");
        }
        assert!(!OwnNames::default().include(""));
    }
}
