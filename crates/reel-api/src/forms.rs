//! `POST /api/v1/titles/{id}/forms/ts`: a stored title gets the form `ts`, as a job.

use crate::ControlPlane;
use crate::background::in_background;
use crate::jobs::{Job, JobState};
use crate::on_blocking_thread;
use crate::problem::Problem;
use crate::upload::{start_job, with_location};
use crate::upload_places::UploadPlace;
use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use reel_library::{Form, StreamError};

/// `POST /api/v1/titles/{id}/forms/ts`: has no body.
pub(super) async fn add_stream(
    State(control): State<ControlPlane>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (of, asked) = (control.clone(), id.clone());
    let title = on_blocking_thread(move || of.library().title(&asked)).await??;
    if title.forms.iter().any(|form| form.form == Form::Ts) {
        return Err(StreamError::Exists { id }.into());
    }
    if let Some(reason) = control.library().volume().read_only {
        return Err(Problem::unavailable(format!("the volume is read-only: {reason}")));
    }
    let place = control.upload_place(request.extensions().get()).await?;
    let job = start_job(&control, &format!("{id}: form ts"), JobState::Ingesting, Some(title.bytes))?;
    let status = control.jobs().find(job.id());
    let address = format!("/api/v1/jobs/{}", job.id());
    // A separate task: it continues when the client disconnects.
    drop(tokio::spawn(run(control, job, id, title.bytes, place)));
    Ok(with_location(&address, (StatusCode::ACCEPTED, Json(status)).into_response()))
}

/// Waits for a turn among the ingests, and makes the form. `bytes` are those of the title, for the
/// progress.
async fn run(control: ControlPlane, job: Job, id: String, bytes: u64, place: UploadPlace) {
    // A job that is not given a turn has ended, and says why.
    let Ok((job, turn)) = control.turn(job).await else { return };
    let worker = control.clone();
    let made = in_background("reel-form", turn, move || {
        let stop = job.stop_flag().clone();
        let mut progress = |done_ns: u64, all_ns: u64| {
            let part = u128::from(bytes) * u128::from(done_ns) / u128::from(all_ns.max(1));
            job.progress(u64::try_from(part).unwrap_or(bytes));
        };
        match worker.library().add_stream(&id, &stop, &mut progress) {
            Ok(added) => job.done(&id, added.warnings),
            Err(error) => job.failed(&error.to_string()),
        }
        // A shutdown waits for this work.
        drop(place);
    });
    if let Err(problem) = made.await {
        tracing::warn!("the form ts of a title was not made: {problem}");
    }
}

impl From<StreamError> for Problem {
    fn from(error: StreamError) -> Problem {
        let help = error.help();
        let text = error.to_string();
        match error {
            StreamError::Exists { .. } => {
                let what = text.trim_end_matches(&*help.unwrap_or_default()).trim_end_matches("; ");
                Problem::new(StatusCode::CONFLICT, "form-exists", "The title has this form", what)
            }
            StreamError::Changed { .. } => Problem::title_changed(text),
            StreamError::Store(error) => error.into(),
            StreamError::Title(error) => error.into(),
            _ => Problem::internal(text),
        }
    }
}
