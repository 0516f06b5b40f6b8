//! `/api/v1/titles`: lists, one title, removal. Uploads are in `upload`.

use super::problem::Problem;
use super::rfc3339::rfc3339;
use super::{ControlPlane, on_blocking_thread};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use reel_library::{LibraryError, TitleSummary};
use reel_volume::VolumeError;
use serde_json::{Value, json};

/// `GET /api/v1/titles`
pub(super) async fn list(State(control): State<ControlPlane>) -> Result<Json<Value>, Problem> {
    let titles = on_blocking_thread(move || control.library().titles()).await?;
    let titles: Vec<Value> = titles.iter().map(|title| title_body(title)).collect();
    Ok(Json(json!({ "titles": titles })))
}

/// `GET /api/v1/titles/{id}`
pub(super) async fn one(
    State(control): State<ControlPlane>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let title = on_blocking_thread(move || control.library().title(&id)).await?;
    Ok(Json(title_body(&*title.map_err(Problem::from)?)))
}

/// `DELETE /api/v1/titles/{id}`
pub(super) async fn remove(
    State(control): State<ControlPlane>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    on_blocking_thread(move || control.library().remove(&id)).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// A title as the API shows it.
pub(super) fn title_body(title: &TitleSummary) -> Value {
    let id = &title.id;
    let mut body = json!({
        "id": id,
        "name": title.name,
        "duration_s": rounded(title.duration_s),
        "added": rfc3339(title.added_unix_s),
        "bytes": title.bytes,
        "video": title.video.iter().map(|v| json!({
            "track": v.track,
            "width": v.width,
            "height": v.height,
            "codec": v.codec,
            "frame_rate": rounded(v.frame_rate),
            "bitrate_bps": v.bitrate_bps,
        })).collect::<Vec<_>>(),
        "audio": title.audio.iter().map(|a| json!({
            "track": a.track,
            "language": a.language.as_deref().unwrap_or_default(),
            "name": a.name.as_deref().unwrap_or_default(),
            "codec": a.codec,
            "channels": a.channels,
            "sample_rate": a.sample_rate,
            "default": a.default,
        })).collect::<Vec<_>>(),
        "subtitles": title.subtitles.iter().map(|s| json!({
            "track": s.track,
            "language": s.language.as_deref().unwrap_or_default(),
            "name": s.name.as_deref().unwrap_or_default(),
            "forced": s.forced,
        })).collect::<Vec<_>>(),
        "poster": format!("/img/{id}.{}", title.poster.extension()),
        "watch": {
            "hls": format!("/watch/{id}/master.m3u8"),
            "dash": format!("/watch/{id}/manifest.mpd"),
            "progressive": format!("/watch/{id}/{id}.mp4"),
        },
        "download": format!("/files/{id}.mp4"),
    });
    if let (Some(problem), Some(object)) = (&title.problem, body.as_object_mut()) {
        object.insert("problem".to_owned(), json!(problem));
    }
    body
}

impl From<LibraryError> for Problem {
    fn from(error: LibraryError) -> Problem {
        match &error {
            LibraryError::NoSuchTitle { id } | LibraryError::Volume(VolumeError::NoSuchTitle { id }) => {
                Problem::no_such_title(id)
            }
            LibraryError::Volume(VolumeError::ReadOnly { .. }) => Problem::unavailable(error.to_string()),
            _ => Problem::internal(error.to_string()),
        }
    }
}

/// Three digits behind the point: milliseconds, and 23.976 of 24000/1001.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
