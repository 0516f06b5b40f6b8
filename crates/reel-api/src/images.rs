//! `/img/{id}.jpg` and `/img/{id}.svg`: posters.

use crate::etag::{if_none_match, not_modified};
use crate::problem::Problem;
use crate::{ControlPlane, on_blocking_thread};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use reel_library::{Poster, PosterKind};

/// A poster may change when a title is removed and another of its name added; ten minutes of the
/// old one are harmless.
const CACHE: HeaderValue = HeaderValue::from_static("public, max-age=600");

/// A card shows the name of its title, which can be changed.
const CACHE_CARD: HeaderValue = HeaderValue::from_static("public, no-cache");

/// A picture loads nothing and runs nothing, whatever it contains.
const POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; sandbox");

/// `GET /img/{file}`
pub(super) async fn poster(
    State(control): State<ControlPlane>,
    Path(file): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let no_such = || Problem::no_such_address(&format!("/img/{file}"));
    let (id, extension) = file.rsplit_once('.').ok_or_else(no_such)?;
    let (kind, mark) = control.library().poster_mark(id)?;
    if kind.extension() != extension {
        return Err(no_such());
    }
    let etag = format!("\"{mark}\"");
    let cache = if kind == PosterKind::Svg { CACHE_CARD } else { CACHE };
    if if_none_match(&headers, &etag) {
        return Ok(not_modified(&etag, cache));
    }
    let id = id.to_owned();
    let Poster { kind, bytes } = on_blocking_thread(move || control.library().poster(&id)).await??;
    let mut response = bytes.into_response();
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind.media_type()));
    fields.insert(header::CACHE_CONTROL, cache);
    fields.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    if let Ok(etag) = HeaderValue::try_from(etag) {
        fields.insert(header::ETAG, etag);
    }
    Ok(response)
}
