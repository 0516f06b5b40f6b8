//! `POST /api/v1/titles/{id}/subtitles`: a stored title gets subtitles, without the film being sent
//! again.

use crate::ControlPlane;
use crate::below::Below;
use crate::body::QueryOf;
use crate::problem::Problem;
use crate::upload::{content_length, receive_small, refuse_forms, refuse_while_stopping, too_large_for};
use crate::wire::{AddedSubtitles, Title};
use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use reel_library::limits::SIDECAR_BYTES_MAX;
use reel_library::{IngestError, SubtitleError, SubtitleFile, clean_file_name};
use schemars::JsonSchema;
use serde::Deserialize;

/// The query of `POST /api/v1/titles/{id}/subtitles`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SubtitleQuery {
    /// The file's name. What follows the name of the film in it says the language, if language is
    /// not given: film.de.srt
    filename: Option<String>,
    /// Their language: en, deu or pt-BR
    language: Option<String>,
    /// What players show for them; without it, the language
    label: Option<String>,
    /// Shown even if no subtitles are chosen
    #[serde(default)]
    forced: bool,
}

/// `POST /api/v1/titles/{id}/subtitles?filename=&language=&label=&forced=`: the body is the file.
pub(super) async fn add(
    State(control): State<ControlPlane>,
    Path(id): Path<String>,
    QueryOf(query): QueryOf<SubtitleQuery>,
    below: Below,
    request: Request,
) -> Result<(StatusCode, Json<AddedSubtitles>), Problem> {
    refuse_forms(request.headers())?;
    refuse_while_stopping(&control)?;
    let limit = SIDECAR_BYTES_MAX as usize;
    if content_length(request.headers()).is_some_and(|bytes| bytes > SIDECAR_BYTES_MAX) {
        return Err(too_large_for(limit));
    }
    if !control.library().has(&id) {
        return Err(Problem::no_such_title(&id));
    }
    let place = control.upload_place(request.extensions().get()).await?;
    let SubtitleQuery { filename, language, label, forced } = query;
    let file_name = filename.map_or_else(|| "the file".to_owned(), |name| clean_file_name(&name));
    let bytes = receive_small(&control, request.into_body(), limit, &place).await?;
    let file = SubtitleFile { file_name, bytes, language, label, forced };
    let adding = control.clone();
    let added = control.look(move || {
        let control = adding;
        let warnings = control.library().add_subtitles(&id, &file)?;
        let title = control.library().title(&id).map_err(SubtitleError::from)?;
        // A shutdown waits for this work.
        drop(place);
        Ok::<_, SubtitleError>(AddedSubtitles { title: Title::seen(&title, &below), warnings })
    });
    Ok((StatusCode::CREATED, Json(added.await??)))
}

impl From<SubtitleError> for Problem {
    fn from(error: SubtitleError) -> Problem {
        let refused = |status, kind, title, error: &SubtitleError| {
            let (text, help) = (error.to_string(), error.help());
            let problem = |detail: &str| Problem::new(status, kind, title, detail);
            match help {
                Some(help) => problem(text.trim_end_matches(&*help).trim_end_matches("; ")).help(help),
                None => problem(&text),
            }
        };
        match error {
            SubtitleError::Unusable { .. }
            | SubtitleError::Store(IngestError::Pack { .. } | IngestError::Index { .. }) => {
                let title = "The file cannot be taken as subtitles";
                refused(StatusCode::UNPROCESSABLE_ENTITY, "unusable-subtitles", title, &error)
            }
            SubtitleError::Language { .. } => {
                let title = "The language cannot be understood";
                refused(StatusCode::UNPROCESSABLE_ENTITY, "no-language", title, &error)
            }
            SubtitleError::Taken { .. } => {
                refused(StatusCode::CONFLICT, "subtitles-exist", "The title has such subtitles", &error)
            }
            SubtitleError::Store(error) => error.into(),
            SubtitleError::Title(error) => error.into(),
            _ => Problem::internal(error.to_string()),
        }
    }
}
