//! A parsed request head (RFC 9112). The data plane accepts no bodies: media is only read.

use crate::limits::{HEAD_BYTES_MAX, HEADERS_MAX, TARGET_BYTES_MAX};
use crate::normal_path;
use reel_serve::{BasePath, ForwardedFor, USER_FIELD};

/// The parts of a request that the data plane uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub(crate) method: String,
    /// Path without query, in its normal form.
    pub path: String,
    /// The class asked for with `?class=`, in its normal form.
    pub(crate) class: Option<String>,
    /// `?download` is in the query: a client that copies says so.
    pub(crate) is_download: bool,
    pub(crate) keep_alive: bool,
    /// The client is one of HTTP/1.1, which takes bodies in chunks.
    pub(crate) takes_chunks: bool,
    /// Announces a body.
    pub(crate) has_body: bool,
    pub(crate) range: Option<String>,
    pub(crate) if_match: Option<String>,
    pub(crate) if_unmodified_since: Option<String>,
    pub(crate) if_none_match: Option<String>,
    pub(crate) if_modified_since: Option<String>,
    pub(crate) if_range: Option<String>,
    pub(crate) origin: bool,
    pub(crate) user_agent: Option<String>,
    pub(crate) x_forwarded_for: Option<String>,
    pub(crate) forwarded: Option<String>,
    /// The user of this machine that the request names.
    pub(crate) user: Option<String>,
}

impl Request {
    /// Who the client is, as proxies say.
    pub(crate) fn forwarded_for(&self) -> ForwardedFor<'_> {
        let (x_forwarded_for, forwarded) = (self.x_forwarded_for.as_deref(), self.forwarded.as_deref());
        ForwardedFor { x_forwarded_for, forwarded }
    }
}

/// The outcome of parsing the bytes received so far.
#[derive(Debug, PartialEq, Eq)]
pub enum Head {
    /// More bytes are needed.
    Partial,
    /// A request, and the length of its head in bytes.
    Complete(Box<Request>, usize),
    /// Not a request this server answers; the connection must be closed after the answer.
    Bad(u16, &'static str),
}

impl Head {
    /// Reads the head of a request from the bytes received so far.
    pub fn parse(input: &[u8]) -> Head {
        // RFC 9112 section 2.2: empty lines before a request are skipped.
        let blank = input.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let input = &input[blank..];
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut headers);
        let bytes = match parsed.parse(input) {
            Ok(httparse::Status::Complete(bytes)) => bytes + blank,
            // The empty lines count, because otherwise a client could send them without end.
            Ok(httparse::Status::Partial) if blank + input.len() < HEAD_BYTES_MAX => return Head::Partial,
            Ok(httparse::Status::Partial) => return too_long(input),
            Err(httparse::Error::TooManyHeaders) => {
                return Head::Bad(431, "the request has more than 100 header fields");
            }
            Err(httparse::Error::Version) => {
                return Head::Bad(505, "this server speaks HTTP/1.1 and HTTP/1.0");
            }
            Err(_) => return Head::Bad(400, "this is not an HTTP request"),
        };
        if bytes > HEAD_BYTES_MAX {
            return too_long(input);
        }
        match Request::from_parsed(&parsed) {
            Ok(request) => Head::Complete(Box::new(request), bytes),
            Err((status, why)) => Head::Bad(status, why),
        }
    }
}

impl Request {
    /// Takes a path that stands in front of all others off the path. A proxy may have done so.
    pub(crate) fn enter(&mut self, base_path: &BasePath) {
        if let Some(path) = base_path.below(&self.path).filter(|path| path.len() < self.path.len()) {
            self.path = path.to_owned();
        }
    }

    fn from_parsed(parsed: &httparse::Request<'_, '_>) -> Result<Self, (u16, &'static str)> {
        // httparse gives all three once the head is complete.
        let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version) else {
            return Err((400, "this is not an HTTP request"));
        };
        if target.len() > TARGET_BYTES_MAX {
            return Err((414, "the request target is longer than 4096 bytes"));
        }
        let mut request = Request {
            method: method.to_owned(),
            keep_alive: version == 1,
            takes_chunks: version == 1,
            ..Request::default()
        };
        let mut hosts = 0;
        for header in parsed.headers.iter() {
            let text = || String::from_utf8_lossy(header.value).trim().to_owned();
            match header.name.to_ascii_lowercase().as_str() {
                "host" => hosts += 1,
                "connection" => {
                    for option in text().split(',') {
                        match option.trim().to_ascii_lowercase().as_str() {
                            "close" => request.keep_alive = false,
                            "keep-alive" if version == 0 => request.keep_alive = true,
                            _ => {}
                        }
                    }
                }
                "content-length" => request.has_body |= text() != "0",
                "transfer-encoding" => request.has_body = true,
                "range" => join(&mut request.range, text()),
                "if-match" => join(&mut request.if_match, text()),
                "if-unmodified-since" => join(&mut request.if_unmodified_since, text()),
                "if-none-match" => join(&mut request.if_none_match, text()),
                "if-modified-since" => join(&mut request.if_modified_since, text()),
                "if-range" => join(&mut request.if_range, text()),
                "origin" => request.origin = true,
                "user-agent" => request.user_agent = Some(text()),
                "x-forwarded-for" => join(&mut request.x_forwarded_for, text()),
                "forwarded" => join(&mut request.forwarded, text()),
                USER_FIELD => join(&mut request.user, text()),
                _ => {}
            }
        }
        // RFC 9112 section 3.2: exactly one Host field in HTTP/1.1.
        if hosts > 1 || (version == 1 && hosts == 0) {
            return Err((400, "a request needs exactly one Host field"));
        }
        let path = path_of(target).ok_or((400, "the request target must be a path or an http URL"))?;
        request.path = normal_path(path).into_owned();
        request.is_download = is_download(target);
        request.class = class_of(target).map(|class| normal_path(class).into_owned());
        Ok(request)
    }
}

/// Several fields of one name count as one field whose values form a list (RFC 9110 section 5.3). A
/// range or a date with several values is malformed, and is treated as such.
fn join(field: &mut Option<String>, value: String) {
    match field {
        None => *field = Some(value),
        Some(before) => *before = format!("{before}, {value}"),
    }
}

/// The value of `class` in the query of a request target.
fn class_of(target: &str) -> Option<&str> {
    pairs_of(target)?.find_map(|pair| pair.strip_prefix("class="))
}

fn is_download(target: &str) -> bool {
    pairs_of(target)
        .is_some_and(|mut pairs| pairs.any(|pair| pair == "download" || pair.starts_with("download=")))
}

fn pairs_of(target: &str) -> Option<impl Iterator<Item = &str>> {
    Some(target.split('#').next()?.split_once('?')?.1.split('&'))
}

/// The path of a request target in origin or absolute form (RFC 9112 section 3.2), without its
/// query.
fn path_of(target: &str) -> Option<&str> {
    let path = if target.starts_with('/') {
        target
    } else if target == "*" {
        return Some(target);
    } else {
        // A scheme is the same in any case (RFC 3986 section 3.1).
        let (scheme, rest) = target.split_once("://")?;
        if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return None;
        }
        // The authority ends at any of these (RFC 3986 section 3.2).
        &rest[rest.find(['/', '?', '#']).unwrap_or(rest.len())..]
    };
    path.split(['?', '#']).next()
}

fn too_long(input: &[u8]) -> Head {
    if input.is_empty() || input.contains(&b'\n') {
        Head::Bad(431, "the request head is longer than 16 KiB")
    } else {
        Head::Bad(414, "the request target is longer than 4096 bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(head: &str) -> Request {
        match Head::parse(head.as_bytes()) {
            Head::Complete(request, bytes) => {
                assert_eq!(bytes, head.len());
                *request
            }
            other => panic!("{other:?}"),
        }
    }

    fn status(head: &[u8]) -> u16 {
        match Head::parse(head) {
            Head::Bad(status, _) => status,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn keep_alive_follows_the_version_and_the_field() {
        assert!(request("GET /a HTTP/1.1\r\nHost: x\r\n\r\n").keep_alive);
        assert!(!request("GET /a HTTP/1.1\r\nHost: x\r\nConnection: foo, Close\r\n\r\n").keep_alive);
        assert!(!request("GET /a HTTP/1.0\r\n\r\n").keep_alive);
        assert!(request("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep_alive);
    }

    #[test]
    fn finds_the_path_in_both_forms() {
        assert_eq!(request("GET /a/b?c=d HTTP/1.1\r\nHost: x\r\n\r\n").path, "/a/b");
        assert_eq!(request("GET http://x:80/a?b HTTP/1.1\r\nHost: x\r\n\r\n").path, "/a");
        assert_eq!(request("GET HttpS://x/%61%2fb?b HTTP/1.1\r\nHost: x\r\n\r\n").path, "/a%2fb");
        assert_eq!(request("GET /a?class=%61b HTTP/1.1\r\nHost: x\r\n\r\n").class.as_deref(), Some("ab"));
        assert_eq!(
            request("GET http://x:80?b=/a HTTP/1.1\r\nHost: x\r\n\r\n").path,
            "",
            "a query is no path"
        );
        assert_eq!(request("\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").path, "*");
    }

    #[test]
    fn fields_of_one_name_are_a_list() {
        let request = request(
            "GET /a HTTP/1.1\r\nHost: x\r\nRange: bytes=0-1\r\nIf-Match: \"a\"\r\nrange: bytes=2-3\r\nif-match: \"b\"\r\n\r\n",
        );
        assert_eq!(request.range.as_deref(), Some("bytes=0-1, bytes=2-3"));
        assert_eq!(request.if_match.as_deref(), Some("\"a\", \"b\""));
    }

    #[test]
    fn malformed_requests_are_refused() {
        assert_eq!(status(b"GET /a HTTP/1.1\r\n\r\n"), 400, "no Host");
        assert_eq!(status(b"GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
        assert_eq!(status(b"GET /a HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
        assert_eq!(status(b"GET ftp://x/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
        assert_eq!(status(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), 400, "a TLS hello");
        assert_eq!(status(format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(5000)).as_bytes()), 414);
        assert_eq!(status(format!("GET /{}", "a".repeat(HEAD_BYTES_MAX)).as_bytes()), 414);
        let fields = "A: b\r\n".repeat(101);
        assert_eq!(status(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes()), 431);
        assert_eq!(status("\r\n".repeat(HEAD_BYTES_MAX / 2).as_bytes()), 431, "nothing but empty lines");
        let field = "b".repeat(HEAD_BYTES_MAX);
        assert_eq!(status(format!("GET / HTTP/1.1\r\nHost: a\r\nA: {field}\r\n\r\n").as_bytes()), 431);
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(input in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Head::parse(&input);
        }

        #[test]
        fn a_cut_head_is_partial(cut in 0usize..47) {
            let head = b"GET /a/b.m4s HTTP/1.1\r\nHost: x\r\nRange: a=0-\r\n\r\n";
            prop_assert_eq!(Head::parse(&head[..cut.min(head.len() - 1)]), Head::Partial);
        }
    }
}
