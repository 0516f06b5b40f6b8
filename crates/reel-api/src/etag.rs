//! Conditional requests (RFC 9110 section 13.1.2).

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Whether `If-None-Match` names this entity tag (weak comparison), so that the client has the bytes already.
pub(super) fn if_none_match(headers: &HeaderMap, etag: &str) -> bool {
    headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
    })
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
