//! Errors as RFC 9457 problem documents.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use reel_qos::Refusal;
use serde_json::{Map, Value, json};
use std::fmt;

/// Media type of a problem document (RFC 9457 section 3).
pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";

/// The kind of problem that a stream cannot be promised its deadlines; the data plane tells of the same.
const NOT_ADMITTED: &str = "not-admitted";

/// The kind of problem that a title is too long to be promised, now or later; the data plane tells of the same.
const TOO_LONG: &str = "too-long";

/// An error as the client sees it: `{type, title, status, detail}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    kind: &'static str,
    title: &'static str,
    detail: String,
    retry_after_s: Option<u64>,
    /// Members beyond those that every problem has (RFC 9457 section 3.2).
    more: Map<String, Value>,
}

impl Problem {
    /// A problem. `kind` becomes `urn:reel:problem:{kind}`; `title` is the same for all of its kind; `detail` says
    /// what happened this time and what to do.
    pub fn new(
        status: StatusCode,
        kind: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Problem {
        Problem { status, kind, title, detail: detail.into(), retry_after_s: None, more: Map::new() }
    }

    /// 400: the request cannot be understood.
    pub fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "bad-request", "The request cannot be understood", detail)
    }

    /// 404: nothing has this address.
    pub fn no_such_address(path: &str) -> Problem {
        let detail = format!("nothing is at {path:?}; the API is described at /api/v1/openapi.json");
        Problem::new(StatusCode::NOT_FOUND, "no-such-address", "Nothing is at this address", detail)
    }

    /// 404: there is no such title.
    pub fn no_such_title(id: &str) -> Problem {
        let detail = format!("there is no title {id:?}; GET /api/v1/titles lists those there are");
        Problem::new(StatusCode::NOT_FOUND, "no-such-title", "No such title", detail)
    }

    /// 500: our fault.
    pub fn internal(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "The server failed", detail)
    }

    /// 507: no room.
    pub fn no_space(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::INSUFFICIENT_STORAGE, "no-space", "There is no room for this", detail)
    }

    /// 413: larger than is taken.
    pub fn too_large(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "The body is too large", detail)
    }

    /// 503: not now.
    pub fn unavailable(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Not possible at the moment", detail)
    }

    /// 503: its deadlines cannot be promised; when to ask again, and if it is for want of a resource, of which.
    pub fn not_admitted(detail: String, retry_after_s: u64, refusal: Option<&Refusal>) -> Problem {
        let title = "The deadlines of this stream cannot be promised";
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, NOT_ADMITTED, title, detail)
            .retry_after_s(retry_after_s)
            .with("retry_after_s", retry_after_s);
        let Some(refusal) = refusal else { return problem };
        problem
            .with("resource", refusal.resource.to_string())
            .with("asked", refusal.asked)
            .with("available", refusal.available)
            .with("grantable_rate_bps", refusal.grantable_bps)
    }

    /// 503: it ends later than anything can be promised. Without a time to ask again: it will be as long tomorrow.
    pub fn too_long(detail: impl Into<String>) -> Problem {
        let title = "This title is longer than what can be promised ahead";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, TOO_LONG, title, detail)
    }

    /// Tells the client when to try again.
    pub fn retry_after_s(mut self, seconds: u64) -> Problem {
        self.retry_after_s = Some(seconds);
        self
    }

    /// Adds a member of its own to the document.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Problem {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// The status code.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// What happened this time.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = json!({
            "type": format!("urn:reel:problem:{}", self.kind),
            "title": self.title,
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        if let Some(body) = body.as_object_mut() {
            body.extend(self.more);
        }
        let mut response = (self.status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_MEDIA_TYPE));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
