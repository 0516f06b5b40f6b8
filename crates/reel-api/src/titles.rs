//! `/api/v1/titles`: lists, one title, removal. Uploads are in `upload`.

use crate::problem::Problem;
use crate::wire::{Title, TitleList};
use crate::{ControlPlane, on_blocking_thread};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use reel_library::LibraryError;
use reel_volume::VolumeError;

/// `GET /api/v1/titles`: with an entity tag, so that a client which asks repeatedly is sent
/// the list only when it has changed.
pub(super) async fn list(
    State(control): State<ControlPlane>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let library = control.clone();
    let titles = on_blocking_thread(move || library.library().titles()).await?;
    let list = TitleList { titles: titles.iter().map(|title| Title::from(&**title)).collect() };
    let body = serde_json::to_vec(&list)
        .map_err(|error| Problem::internal(format!("the list could not be written: {error}")))?;
    Ok(control.tags().tagged_json(body, &headers))
}

/// `GET /api/v1/titles/{id}`
pub(super) async fn one(
    State(control): State<ControlPlane>,
    Path(id): Path<String>,
) -> Result<Json<Title>, Problem> {
    let title = on_blocking_thread(move || control.library().title(&id)).await??;
    Ok(Json(Title::from(&*title)))
}

/// `DELETE /api/v1/titles/{id}`
pub(super) async fn remove(
    State(control): State<ControlPlane>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    on_blocking_thread(move || control.library().remove(&id)).await??;
    Ok(StatusCode::NO_CONTENT)
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
