//! Answers packed with gzip (RFC 9110 section 8.4.1.3) for clients that take it: lists and pages.
//!
//! What is packed is kept for a while, by its address and entity tag: pages that ask for the same
//! list of titles cost the processor once.

use crate::limits::{PACKED_AT_ONCE_BYTES_MAX, PACKED_BYTES_MAX, PACKED_BYTES_MIN, PACKED_KEPT_BYTES_MAX};
use crate::on_blocking_thread;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt;
use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// Packed answers, the newest last.
#[derive(Default)]
pub(super) struct Packing(Mutex<VecDeque<(Key, Bytes)>>);

/// What names one content: the path of the request, and the entity tag.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    path: String,
    tag: HeaderValue,
}

/// The middleware.
pub(super) async fn pack(State(packing): State<Arc<Packing>>, request: Request, next: Next) -> Response {
    // Keys of sessions are secrets, and how well they pack would tell of them.
    let path = request.uri().path().to_owned();
    let has_keys = path.starts_with("/api/v1/sessions");
    let is_taken = request.method() != Method::HEAD && takes_gzip(request.headers());
    let mut response = next.run(request).await;
    if has_keys || !is_packable(&response) {
        return response;
    }
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if is_taken { packing.packed(path, response).await } else { response }
}

impl Packing {
    async fn packed(&self, path: String, response: Response) -> Response {
        let (mut head, body) = response.into_parts();
        let tag = head.headers.get(header::ETAG).cloned();
        let key = tag.clone().map(|tag| Key { path, tag });
        let packed = match key.as_ref().and_then(|key| self.kept(key)) {
            Some(packed) => packed,
            None => {
                // It is in memory already.
                let Ok(whole) = body.collect().await else {
                    return StatusCode::INTERNAL_SERVER_ERROR.into_response();
                };
                let whole = whole.to_bytes();
                let packed = if whole.len() <= PACKED_AT_ONCE_BYTES_MAX {
                    gzip(&whole)
                } else {
                    match on_blocking_thread(move || gzip(&whole)).await {
                        Ok(packed) => packed,
                        Err(problem) => return problem.into_response(),
                    }
                };
                if let Some(key) = key {
                    self.keep(key, &packed);
                }
                packed
            }
        };
        head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        head.headers.remove(header::CONTENT_LENGTH);
        // Other bytes than those of the strong tag, with the same meaning (RFC 9110 section 8.8.1).
        if let Some(weak) = tag.and_then(|tag| weak(&tag)) {
            head.headers.insert(header::ETAG, weak);
        }
        Response::from_parts(head, Body::from(packed))
    }

    fn kept(&self, key: &Key) -> Option<Bytes> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(other, _)| other == key).map(|(_, packed)| packed.clone())
    }

    fn keep(&self, key: Key, packed: &Bytes) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(other, _)| *other != key);
        kept.push_back((key, packed.clone()));
        let mut bytes: usize = kept.iter().map(|(_, packed)| packed.len()).sum();
        while bytes > PACKED_KEPT_BYTES_MAX {
            let Some((_, oldest)) = kept.pop_front() else { break };
            bytes -= oldest.len();
        }
    }
}

/// Whether an answer is text of a size that is worth it.
fn is_packable(response: &Response) -> bool {
    let fields = response.headers();
    let kind = fields.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let is_text = [
        &b"text/"[..],
        b"application/json",
        b"application/manifest+json",
        b"application/xml",
        b"audio/x-mpegurl",
    ]
    .iter()
    .any(|text| kind.starts_with(text))
        || kind == b"image/svg+xml";
    let bytes = response.body().size_hint().exact();
    matches!(response.status(), StatusCode::OK | StatusCode::MULTI_STATUS | StatusCode::NOT_FOUND)
        && is_text
        && !fields.contains_key(header::CONTENT_ENCODING)
        && bytes.is_some_and(|bytes| (PACKED_BYTES_MIN..=PACKED_BYTES_MAX).contains(&bytes))
}

/// Whether a client takes gzip (RFC 9110 section 12.5.3).
fn takes_gzip(headers: &HeaderMap) -> bool {
    let weight = |name: &str| {
        let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).find_map(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            let is_it = parts.next()?.eq_ignore_ascii_case(name);
            let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
            is_it.then(|| weight.map_or(Ok(1.0), str::parse::<f32>).unwrap_or(0.0))
        })
    };
    weight("gzip").or_else(|| weight("*")).is_some_and(|weight| weight > 0.0)
}

fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default().into()
}

fn weak(tag: &HeaderValue) -> Option<HeaderValue> {
    let tag = tag.to_str().ok()?;
    if tag.starts_with("W/") { None } else { HeaderValue::try_from(format!("W/{tag}")).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_for_clients_that_ask_for_it() {
        for (value, takes) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("*", true),
            ("identity, *;q=0.1", true),
            ("gzip;q=0, *", false),
            ("gzip; q=0.000", false),
            ("gzip;q=nonsense", false),
            ("br, deflate", false),
            ("x-gzip-like", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, value.parse().expect("a header value"));
            assert_eq!(takes_gzip(&headers), takes, "{value}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let packing = Packing::default();
        let tag = |number: usize| {
            let tag = HeaderValue::try_from(format!("\"{number}\"")).expect("a tag");
            Key { path: "/".to_owned(), tag }
        };
        let packed = Bytes::from(vec![0; PACKED_KEPT_BYTES_MAX / 4]);
        for number in [0, 1, 1, 2, 3, 4] {
            packing.keep(tag(number), &packed);
        }
        let kept: Vec<bool> = (0..6).map(|number| packing.kept(&tag(number)).is_some()).collect();
        assert_eq!(kept, [false, true, true, true, true, false]);
        packing.keep(tag(9), &Bytes::from(vec![0; PACKED_KEPT_BYTES_MAX + 1]));
        assert!(packing.kept(&tag(9)).is_none());
        packing.keep(tag(1), &packed);
        assert!(packing.kept(&Key { path: "/other".to_owned(), ..tag(1) }).is_none());
    }
}
