//! `/api/v1/titles`: lists, one title, renaming, removal. Uploads are in `upload`.

use crate::below::Below;
use crate::body::JsonBody;
use crate::problem::Problem;
use crate::wire::{Title, TitleChange, TitleList};
use crate::{ControlPlane, on_blocking_thread};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use reel_library::{LibraryError, is_blank};
use reel_volume::VolumeError;
use std::collections::BTreeMap;

/// `GET /api/v1/titles`: with an entity tag, so that a client which asks repeatedly is sent
/// the list only when it has changed. Disks that may sleep are woken, but not by HEAD.
pub(super) async fn list(
    State(control): State<ControlPlane>,
    below: Below,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if method == Method::GET {
        control.library().looked_at();
    }
    let library = control.clone();
    let titles = on_blocking_thread(move || library.library().titles()).await?;
    let set_aside = control.sessions().set_aside();
    let titles = titles.iter().map(|title| with_panics(Title::seen(title, &below), &set_aside));
    let list = TitleList { titles: titles.collect() };
    let body = serde_json::to_vec(&list)
        .map_err(|error| Problem::internal(format!("the list could not be written: {error}")))?;
    Ok(control.tags().tagged_json(body, &headers))
}

/// `GET /api/v1/titles/{id}`
pub(super) async fn one(
    State(control): State<ControlPlane>,
    Path(id): Path<String>,
    below: Below,
) -> Result<Json<Title>, Problem> {
    let set_aside = control.sessions().set_aside();
    let title = on_blocking_thread(move || control.library().title(&id)).await??;
    Ok(Json(with_panics(Title::seen(&title, &below), &set_aside)))
}

/// A title that is set aside cannot be played.
fn with_panics(title: Title, set_aside: &BTreeMap<String, String>) -> Title {
    let problem = title.problem.or_else(|| set_aside.get(&title.id).cloned());
    Title { problem, ..title }
}

/// `PATCH /api/v1/titles/{id}`
pub(super) async fn change(
    State(control): State<ControlPlane>,
    Path(id): Path<String>,
    below: Below,
    JsonBody(TitleChange { name }): JsonBody<TitleChange>,
) -> Result<Json<Title>, Problem> {
    if is_blank(&name) {
        let detail = "the new name has no visible character".to_owned();
        let title = "A title needs a name";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "no-name", title, detail));
    }
    let title = on_blocking_thread(move || {
        control.library().rename(&id, &name)?;
        control.library().title(&id)
    });
    Ok(Json(Title::seen(&*title.await??, &below)))
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
            LibraryError::TooManyMerged { .. } => Problem::unavailable(error.to_string()),
            LibraryError::NotMerged { .. } => Problem::no_such_form(error.to_string()),
            LibraryError::NoStream { .. } | LibraryError::OnlyStream { .. } => {
                Problem::bad_request(error.to_string())
            }
            LibraryError::Volume(VolumeError::TitleChanged { .. }) => {
                Problem::title_changed(error.to_string())
            }
            LibraryError::Volume(VolumeError::ReadOnly { .. }) => Problem::unavailable(error.to_string()),
            _ => Problem::internal(error.to_string()),
        }
    }
}
