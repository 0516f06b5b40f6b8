//! Conditional requests (RFC 9110 section 13.1.2).

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::hash::{BuildHasher, RandomState};

/// May be kept, and is used again only after the server said that it is still right.
pub(super) const ASK_FIRST: HeaderValue = HeaderValue::from_static("no-cache");

/// Whether `If-None-Match` names this entity tag (weak comparison), so that the client has the
/// bytes already.
pub(super) fn if_none_match(headers: &HeaderMap, etag: &str) -> bool {
    headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
    })
}

/// Makes entity tags of answers that are generated for each request. Its tags hold until the server
/// ends: their key is a random one, so that no title can be named to have the tag of another list.
#[derive(Debug, Default)]
pub(super) struct Tags {
    key: RandomState,
}

impl Tags {
    /// A JSON answer with its tag; 304 if the client has it already.
    pub(super) fn tagged_json(&self, body: Vec<u8>, headers: &HeaderMap) -> Response {
        let etag = format!("\"{:016x}\"", self.key.hash_one(&body));
        if if_none_match(headers, &etag) {
            return not_modified(&etag, ASK_FIRST);
        }
        let fields = [
            (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (header::CACHE_CONTROL, ASK_FIRST),
        ];
        let mut response = (fields, body).into_response();
        if let Ok(etag) = HeaderValue::try_from(etag) {
            response.headers_mut().insert(header::ETAG, etag);
        }
        response
    }
}

/// 304 with the fields RFC 9110 section 15.4.5 asks for.
pub(super) fn not_modified(etag: &str, cache: HeaderValue) -> Response {
    let mut response = StatusCode::NOT_MODIFIED.into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, cache);
    if let Ok(etag) = HeaderValue::from_str(etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_weakly() {
        let matches = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, value.parse().expect("a header value"));
            if_none_match(&headers, "\"a\"")
        };
        assert!(matches("\"a\"") && matches("W/\"a\"") && matches("\"b\", \"a\"") && matches("*"));
        assert!(!matches("\"b\"") && !matches("a") && !matches(""));
        assert!(!if_none_match(&HeaderMap::new(), "\"a\""));
    }
}
