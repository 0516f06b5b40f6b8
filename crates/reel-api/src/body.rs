//! Request bodies and queries as typed values, their faults as problems.

use crate::limits::{BODY_BYTES_MAX, BODY_SECONDS_MAX};
use crate::problem::Problem;
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

/// A small JSON body.
pub(super) struct JsonBody<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<JsonBody<T>, Problem> {
        let media_type =
            request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        if !is_json(media_type) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "not-json",
                "The body must be JSON",
                format!("this request says that its body is {media_type:?}"),
            )
            .help("send it with \"Content-Type: application/json\""));
        }
        let bytes = small_body(request.into_body()).await?;
        serde_json::from_slice(&bytes)
            .map(JsonBody)
            .map_err(|e| Problem::bad_request(format!("the body is not what this address takes: {e}")))
    }
}

/// A body that is not an upload, once all of it is here.
pub(super) async fn small_body(body: Body) -> Result<Bytes, Problem> {
    timeout(BODY_SECONDS_MAX, axum::body::to_bytes(body, BODY_BYTES_MAX))
        .await
        .map_err(|_| {
            Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                "too-slow",
                "The body did not arrive in time",
                format!("it must be here within {} s", BODY_SECONDS_MAX.as_secs()),
            )
        })?
        .map_err(|e| {
            // The only two ways it can fail: the limit, or the connection; the latter gets no
            // answer anyway.
            Problem::too_large(format!("the body could not be read: {e}"))
                .help(format!("send at most {BODY_BYTES_MAX} bytes to this address"))
        })
}

/// A query string.
pub(super) struct QueryOf<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryOf<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<QueryOf<T>, Problem> {
        Query::try_from_uri(&parts.uri)
            .map(|Query(value)| QueryOf(value))
            .map_err(|rejection| Problem::bad_request(rejection.body_text()))
    }
}

fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}
