//! Errors as RFC 9457 problem documents.

use crate::wire::{ProblemBody, ResourceCode};
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use reel_qos::Refusal;
use std::fmt;

/// Media type of a problem document (RFC 9457 section 3).
pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";

/// The kind of problem that the deadlines of a stream cannot be reserved; the data plane answers
/// with the same.
const NOT_ADMITTED: &str = "not-admitted";

/// The kind of problem that a title is too long to be reserved, now or later; the data plane
/// answers with the same.
const TOO_LONG: &str = "too-long";

/// An error as the client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    body: Box<ProblemBody>,
}

impl Problem {
    /// A problem. `kind` becomes `urn:reel:problem:{kind}`; `title` is the same for all of its
    /// kind; `detail` says what happened this time, and why.
    pub fn new(
        status: StatusCode,
        kind: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Problem {
        let body = ProblemBody {
            r#type: format!("urn:reel:problem:{kind}"),
            title,
            status: status.as_u16(),
            detail: detail.into(),
            ..ProblemBody::default()
        };
        Problem { status, body: Box::new(body) }
    }

    /// 400: the request cannot be understood.
    pub fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "bad-request", "The request cannot be understood", detail)
    }

    /// 404: nothing has this address.
    pub fn no_such_address(path: &str) -> Problem {
        let detail = format!("nothing is at {path:?}");
        Problem::new(StatusCode::NOT_FOUND, "no-such-address", "Nothing is at this address", detail)
            .help("the API is described at /api/v1/openapi.json")
    }

    /// 404: there is no such title.
    pub fn no_such_title(id: &str) -> Problem {
        let detail = format!("there is no title {id:?}");
        Problem::new(StatusCode::NOT_FOUND, "no-such-title", "No such title", detail)
            .help("GET /api/v1/titles lists the titles there are")
    }

    /// 404: a title is not played in this form, or two titles cannot be merged.
    pub fn no_such_form(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "no-such-form", "The title is not played so", detail)
    }

    /// 404: there is no such session.
    pub fn no_such_session() -> Problem {
        let detail = "there is no session with this key: it has ended, or never was";
        Problem::new(StatusCode::NOT_FOUND, "no-such-session", "No such session", detail)
    }

    /// 409: the title is not what it was when a change of it began.
    pub fn title_changed(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, "title-changed", "The title was changed meanwhile", detail)
    }

    /// 500: the server failed.
    pub fn internal(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "The server failed", detail)
    }

    /// 507: no space.
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

    /// 503: the deadlines of a stream cannot be reserved now; 429 if its client has too much.
    /// `refusal` says of which resource there is too little.
    pub fn not_admitted(
        status: StatusCode,
        detail: String,
        retry_after_s: u64,
        refusal: Option<&Refusal>,
    ) -> Problem {
        let title = "The deadlines of this stream cannot be promised";
        let mut problem = Problem::new(status, NOT_ADMITTED, title, detail).retry_after_s(retry_after_s);
        // A session that is refused without a resource is one too many.
        problem.body.resource = Some(refusal.map_or(ResourceCode::Sessions, |of| of.resource.into()));
        if let Some(refusal) = refusal {
            problem.body.member = refusal.resource.member();
            problem.body.asked = Some(refusal.asked);
            problem.body.available = Some(refusal.available);
            problem.body.grantable_rate_bps = Some(refusal.grantable_bps);
            problem.body.never = refusal.retry_after_s.is_none().then_some(true);
        }
        problem
    }

    /// 503: it ends later than anything can be reserved. Without a time to ask again: it will be as
    /// long tomorrow.
    pub fn too_long(detail: impl Into<String>) -> Problem {
        let title = "This title is longer than what can be promised ahead";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, TOO_LONG, title, detail)
    }

    /// Adds when to try again.
    pub fn retry_after_s(mut self, seconds: u64) -> Problem {
        self.body.retry_after_s = Some(seconds);
        self
    }

    /// Adds what to do about it.
    pub fn help(mut self, help: impl Into<String>) -> Problem {
        self.body.help = Some(help.into());
        self
    }

    /// Names the job that prevents the request.
    pub fn job(mut self, id: String) -> Problem {
        self.body.job = Some(id);
        self
    }

    /// The status code.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// What happened this time.
    pub fn detail(&self) -> &str {
        &self.body.detail
    }
}

/// What happened, and what to do.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.body.detail)?;
        match &self.body.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Problem { status, body } = self;
        let retry_after_s = body.retry_after_s;
        let mut response = (status, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_MEDIA_TYPE));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
