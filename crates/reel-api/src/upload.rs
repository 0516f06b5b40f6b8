//! `POST /api/v1/titles`: files arrive, wait in the spool directory, and become a title.

use crate::background::in_background;
use crate::below::Below;
use crate::body::QueryOf;
use crate::jobs::{Job, JobState};
use crate::limits::{
    JOB_LOOK_EVERY, SPOOL_RESERVE_BYTES, STOPPING_RETRY_S, UPLOAD_CRAWL_BYTES, UPLOAD_CRAWL_SPAN,
    UPLOAD_STEP_BYTES, UPLOAD_STEP_MAX,
};
use crate::problem::Problem;
use crate::spool::{LARGER_SPOOL, Part, Spool, Spooled};
use crate::upload_places::UploadPlace;
use crate::wire::Title;
use crate::{ControlPlane, ShutdownStage, on_blocking_thread};
use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use reel_library::limits::{RENDITIONS_MAX, SIDECARS_MAX};
use reel_library::{IngestError, IngestOptions, Ingested, Input, SUBTITLE_EXTENSIONS, Stop, clean_file_name};
use reel_volume::VolumeError;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout_at};

/// The query of `POST /api/v1/titles`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UploadQuery {
    /// The file's name
    filename: Option<String>,
    /// In place of filename: the files of which the body consists, one after the other, as
    /// NAME/BYTES/NAME/BYTES. The first is the film, further films are renditions of it, and files
    /// of subtitles (srt, vtt, ass) are its own
    files: Option<String>,
    /// The title's name; without it, made from filename
    name: Option<String>,
    /// The id of a title that the new one takes the place of. It keeps its name, unless another one
    /// is given
    replaces: Option<String>,
    /// Answer only when the title can be played
    #[serde(default)]
    wait: bool,
}

/// `POST /api/v1/titles?filename=&name=&replaces=&wait=`: the body is the file itself.
pub(super) async fn upload(
    State(control): State<ControlPlane>,
    QueryOf(query): QueryOf<UploadQuery>,
    below: Below,
    request: Request,
) -> Result<Response, Problem> {
    refuse_forms(request.headers())?;
    let bytes = content_length(request.headers());
    check_room(&control, bytes)?;
    if let Some(id) = query.replaces.clone() {
        let control = control.clone();
        on_blocking_thread(move || control.library().title(&id).map(drop)).await??;
    }
    let place = control.upload_place(request.extensions().get()).await?;
    let waits = query.wait;
    let parts = parts(&query, bytes)?;
    let job = start_job(&control, &parts[0].name, JobState::Receiving, bytes)?;

    let received = async {
        let spooled = receive(&control, request.into_body(), parts, (&job, &place)).await?;
        probe(&control, &spooled, &job).await.map(|()| spooled)
    };
    let spooled = match received.await {
        Ok(spooled) => spooled,
        Err(problem) => {
            job.failed(&problem.to_string());
            return Err(problem);
        }
    };
    let job_address = format!("/api/v1/jobs/{}", job.id());
    let job_id = job.id().to_owned();
    job.ingesting(spooled.iter().map(|file| file.bytes).sum());
    let UploadQuery { name, replaces, .. } = query;
    let (sidecars, inputs): (Vec<Input>, Vec<Input>) =
        spooled.iter().map(Spooled::input).partition(is_subtitle);
    let stop = job.stop_flag().clone();
    let options =
        IngestOptions { name, replaces, no_sidecars: true, sidecars, stop, ..IngestOptions::default() };
    // A separate task: it continues when the client does not wait for it or disconnects.
    let ingest = tokio::spawn(ingest_spooled(control.clone(), job, spooled, inputs, options, place));
    if !waits {
        let status = control.jobs().find(&job_id);
        return Ok(with_location(&job_address, (StatusCode::ACCEPTED, Json(status)).into_response()));
    }
    let ingested = ingest.await.map_err(|e| Problem::internal(format!("the ingest broke off: {e}")))?;
    // An ingest that was cancelled because of the shutdown is reported as that.
    let ingested = ingested.map_err(|problem| if control.is_ending() { broken_off() } else { problem })?;
    let id = ingested.id.clone();
    let title = on_blocking_thread(move || control.library().title(&id)).await??;
    let address = format!("/api/v1/titles/{}", ingested.id);
    let title = Json(Title::seen(&title, &below));
    Ok(with_location(&address, (StatusCode::CREATED, title).into_response()))
}

impl ControlPlane {
    /// Takes a file of this machine, as a job in the list; it waits its turn among the uploads.
    /// `replaces` is the id of the title that it takes the place of.
    ///
    /// # Errors
    /// The server is shutting down, there are too many jobs, the job was cancelled, or the file
    /// cannot be taken.
    pub async fn ingest_file(&self, path: PathBuf, replaces: Option<String>) -> Result<Ingested, Problem> {
        let file_name =
            path.file_name().map(|name| clean_file_name(&name.to_string_lossy())).unwrap_or_default();
        let job = start_job(self, &file_name, JobState::Ingesting, None)?;
        let inputs = [Input::new(path)];
        let stop = job.stop_flag().clone();
        let options = IngestOptions { stop, replaces, ..IngestOptions::default() };
        let (job, turn) = self.turn(job).await?;
        let control = self.clone();
        let result = in_background("reel-ingest", turn, move || control.run_ingest(job, &inputs, &options));
        Ok(result.await??)
    }

    /// Waits until a job may store its file, or is asked to end, which ends it.
    pub(super) async fn turn(&self, job: Job) -> Result<(Job, OwnedSemaphorePermit), Problem> {
        let turn = tokio::select! {
            // Never closed.
            turn = self.ingest_slots().acquire_owned() => turn.ok(),
            () = asked_to_end(job.stop_flag()) => None,
        };
        match turn {
            Some(turn) => Ok((job, turn)),
            None => {
                let problem = Problem::from(IngestError::Cancelled);
                job.failed(&problem.to_string());
                Err(problem)
            }
        }
    }

    fn run_ingest(
        &self,
        job: Job,
        inputs: &[Input],
        options: &IngestOptions,
    ) -> Result<Ingested, IngestError> {
        let mut told_total = false;
        let result = self.library().ingest(inputs, options, &mut |progress| {
            if !told_total {
                told_total = true;
                job.ingesting(progress.total_bytes);
            }
            job.progress(progress.done_bytes);
        });
        match &result {
            Ok(ingested) => job.done(&ingested.id, ingested.warnings.clone()),
            Err(error) => job.failed(&error.to_string()),
        }
        result
    }
}

async fn ingest_spooled(
    control: ControlPlane,
    job: Job,
    spooled: Vec<Spooled>,
    inputs: Vec<Input>,
    options: IngestOptions,
    place: UploadPlace,
) -> Result<Ingested, Problem> {
    let (job, turn) = control.turn(job).await?;
    let result = in_background("reel-ingest", turn, move || {
        let result = control.run_ingest(job, &inputs, &options);
        // The spool files and their slot are needed until here.
        drop((spooled, place));
        result
    });
    Ok(result.await??)
}

/// Checks whether the films of an upload can be taken: one that cannot is refused in the answer to
/// the upload, not in a job that has to be looked at later. Ends when the job is asked to end, or
/// dropped because its client has left.
async fn probe(control: &ControlPlane, spooled: &[Spooled], job: &Job) -> Result<(), Problem> {
    for input in spooled.iter().map(Spooled::input).filter(|input| !is_subtitle(input)) {
        let stop = job.stop_flag().clone();
        let probed = control.clone();
        control.look(move || probed.library().probe(&input, &stop)).await??;
    }
    Ok(())
}

/// The files that the query names.
fn parts(query: &UploadQuery, body_bytes: Option<u64>) -> Result<Vec<Part>, Problem> {
    let Some(files) = &query.files else {
        let name = query.filename.as_deref().or(query.name.as_deref()).unwrap_or("upload");
        return Ok(vec![Part { name: clean_file_name(name), bytes: None }]);
    };
    let wrong = |what: String| {
        Problem::bad_request(what).help("write files as NAME/BYTES/NAME/BYTES, the film first")
    };
    let words: Vec<&str> = files.split('/').collect();
    let mut parts = Vec::new();
    for pair in words.chunks(2) {
        let bytes = pair.get(1).and_then(|bytes| bytes.parse::<u64>().ok()).filter(|bytes| *bytes > 0);
        let Some(bytes) = bytes else {
            return Err(wrong(format!("the size of {:?} is missing or no number", pair[0])));
        };
        parts.push(Part { name: clean_file_name(pair[0]), bytes: Some(bytes) });
    }
    if parts.len() > RENDITIONS_MAX + SIDECARS_MAX {
        return Err(wrong(format!("{} files are too many for one title", parts.len())));
    }
    if is_subtitle_name(&parts[0].name) {
        return Err(wrong(format!("the first file, {:?}, is no film", parts[0].name)));
    }
    let sum = parts.iter().filter_map(|part| part.bytes).fold(0, u64::saturating_add);
    match body_bytes {
        Some(bytes) if bytes != sum => Err(wrong(other_length(bytes, sum))),
        _ => Ok(parts),
    }
}

fn other_length(bytes: u64, wanted_bytes: u64) -> String {
    format!("the body has {bytes} bytes, and the files {wanted_bytes}")
}

fn is_subtitle(input: &Input) -> bool {
    input.file_name.as_deref().is_some_and(is_subtitle_name)
}

fn is_subtitle_name(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| SUBTITLE_EXTENSIONS.contains(&extension.to_ascii_lowercase().as_str()))
}

async fn receive(
    control: &ControlPlane,
    mut body: Body,
    parts: Vec<Part>,
    (job, place): (&Job, &UploadPlace),
) -> Result<Vec<Spooled>, Problem> {
    let limit = control.config().upload_bytes_max;
    let mut spool = Spool::begin(control, parts).await?;
    let mut bytes: u64 = 0;
    let mut deadline = UploadDeadline::new(Instant::now());
    loop {
        let frame = tokio::select! {
            frame = timeout_at(deadline.ends, body.frame()) => frame,
            () = control.entered(ShutdownStage::Ending) => return Err(broken_off()),
            () = asked_to_end(job.stop_flag()) => return Err(ended(control)),
            () = place.makes_room() => return Err(made_room(bytes)),
        };
        let Some(frame) = frame.map_err(|_| stood_still(bytes))? else { break };
        let frame = frame.map_err(|e| interrupted(bytes, &e))?;
        let Ok(chunk) = frame.into_data() else { continue };
        if job.stop_flag().is_stopped() {
            return Err(ended(control));
        }
        bytes += chunk.len() as u64;
        deadline.arrived(bytes, Instant::now());
        place.arrived(chunk.len());
        if bytes > limit {
            return Err(too_large(limit));
        }
        let writing = Instant::now();
        spool.write(control, &chunk).await?;
        // The time that the server's own disk takes is not the client's.
        deadline.ends += writing.elapsed();
        place.awaits(writing.elapsed());
        job.progress(bytes);
    }
    if !place.has_arrived() {
        return Err(made_room(bytes));
    }
    if bytes == 0 {
        return Err(Problem::from(IngestError::Media {
            file: "the upload".to_owned(),
            source: reel_media::MediaError::Empty,
        }));
    }
    spool.end(control).await
}

/// Reads a body of at most `limit` bytes into memory.
pub(super) async fn receive_small(
    control: &ControlPlane,
    mut body: Body,
    limit: usize,
    place: &UploadPlace,
) -> Result<Vec<u8>, Problem> {
    let mut received = Vec::new();
    let mut deadline = UploadDeadline::new(Instant::now());
    loop {
        let frame = tokio::select! {
            frame = timeout_at(deadline.ends, body.frame()) => frame,
            () = control.entered(ShutdownStage::Ending) => return Err(broken_off()),
            () = place.makes_room() => return Err(made_room(received.len() as u64)),
        };
        let bytes = received.len() as u64;
        let Some(frame) = frame.map_err(|_| stood_still(bytes))? else {
            return if place.has_arrived() { Ok(received) } else { Err(made_room(bytes)) };
        };
        let frame = frame.map_err(|e| interrupted(bytes, &e))?;
        let Ok(chunk) = frame.into_data() else { continue };
        if chunk.len() > limit - received.len() {
            return Err(too_large_for(limit));
        }
        received.extend_from_slice(&chunk);
        deadline.arrived(received.len() as u64, Instant::now());
        place.arrived(chunk.len());
        place.awaits(Duration::ZERO);
    }
}

/// The answer to an upload that crawled while others waited for its place.
fn made_room(bytes: u64) -> Problem {
    let detail = format!(
        "others wait for the place of this upload, and less than {UPLOAD_CRAWL_BYTES} bytes arrived in {} s, after {bytes} \
         in all",
        UPLOAD_CRAWL_SPAN.as_secs()
    );
    Problem::new(StatusCode::REQUEST_TIMEOUT, "made-room", "A slow upload made room for others", detail)
        .help("send the file over a faster line, or when fewer files are sent")
        .retry_after_s(60)
}

fn stood_still(bytes: u64) -> Problem {
    let detail = format!(
        "less than {UPLOAD_STEP_BYTES} bytes arrived in {} s, after {bytes} in all",
        UPLOAD_STEP_MAX.as_secs()
    );
    Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "The upload stood still", detail)
        .help("send the file over a faster line")
}

fn interrupted(bytes: u64, error: &axum::Error) -> Problem {
    Problem::bad_request(format!("the upload was interrupted after {bytes} bytes: {error}"))
}

/// When an upload is given up.
struct UploadDeadline {
    ends: Instant,
    /// Bytes that must have arrived by then.
    wanted_bytes: u64,
}

impl UploadDeadline {
    fn new(now: Instant) -> Self {
        Self { ends: now + UPLOAD_STEP_MAX, wanted_bytes: UPLOAD_STEP_BYTES }
    }

    /// Moves the deadline when enough bytes have arrived in all.
    fn arrived(&mut self, bytes: u64, now: Instant) {
        if bytes >= self.wanted_bytes {
            *self = Self { ends: now + UPLOAD_STEP_MAX, wanted_bytes: bytes + UPLOAD_STEP_BYTES };
        }
    }
}

fn check_room(control: &ControlPlane, bytes: Option<u64>) -> Result<(), Problem> {
    let limit = control.config().upload_bytes_max;
    let Some(bytes) = bytes else { return Ok(()) };
    if bytes > limit {
        return Err(too_large(limit));
    }
    let free = control.library().free_bytes();
    if bytes > free {
        return Err(Problem::from(IngestError::NoSpace { needed_bytes: bytes, free_bytes: free }));
    }
    let dir = &control.config().spool_dir;
    // A directory not made yet is on its parent's file system.
    let existing = dir.ancestors().find(|dir| dir.exists()).unwrap_or(dir);
    if let Ok(stat) = rustix::fs::statvfs(existing) {
        let available = stat.f_bavail.saturating_mul(stat.f_frsize);
        if bytes.saturating_add(SPOOL_RESERVE_BYTES) > available {
            return Err(Problem::no_space(format!(
                "the file has {bytes} bytes and the spool directory {} has space for {}",
                dir.display(),
                available.saturating_sub(SPOOL_RESERVE_BYTES)
            ))
            .help(LARGER_SPOOL));
        }
    }
    Ok(())
}

/// Begins a job that takes a file or makes a form.
pub(super) fn start_job(
    control: &ControlPlane,
    file_name: &str,
    state: JobState,
    bytes: Option<u64>,
) -> Result<Job, Problem> {
    refuse_while_stopping(control)?;
    let job = control
        .jobs()
        .start(file_name, state, bytes)
        .ok_or_else(|| Problem::unavailable("too many jobs are running").retry_after_s(30))?;
    // A shutdown that began meanwhile has asked only the jobs before this one to end.
    if control.is_ending() {
        job.stop_flag().stop();
    }
    Ok(job)
}

pub(super) fn refuse_while_stopping(control: &ControlPlane) -> Result<(), Problem> {
    if control.stop_flag().is_stopped() { Err(stopping()) } else { Ok(()) }
}

/// The answer to a file that comes while the server shuts down.
pub(super) fn stopping() -> Problem {
    Problem::unavailable("the server is shutting down and begins nothing new")
        .help("send the file when the server is back")
        .retry_after_s(STOPPING_RETRY_S)
}

/// Waits until a job is asked to end, by looking now and then.
async fn asked_to_end(stop: &Stop) {
    while !stop.is_stopped() {
        sleep(JOB_LOOK_EVERY).await;
    }
}

/// The answer to an upload that was asked to end: by the shutdown, or by a request to cancel it.
fn ended(control: &ControlPlane) -> Problem {
    if control.is_ending() { broken_off() } else { IngestError::Cancelled.into() }
}

/// The answer to an upload that [`ControlPlane::stop`] ended.
fn broken_off() -> Problem {
    Problem::unavailable("the server stopped before this upload was a title, and nothing of it was kept")
        .help("send it again when the server is back")
        .retry_after_s(STOPPING_RETRY_S)
}

fn too_large(limit: u64) -> Problem {
    Problem::too_large(format!("at most {limit} bytes are taken by upload (upload.max_bytes)"))
        .help("use `reel ingest` on the server itself for larger files")
}

/// The answer to a file that is larger than the largest of its kind.
pub(super) fn too_large_for(limit: usize) -> Problem {
    Problem::too_large(format!("at most {limit} bytes are taken here"))
}

/// A form wraps the file in boundaries; taken as it is, it would be an unknown container.
pub(super) fn refuse_forms(headers: &HeaderMap) -> Result<(), Problem> {
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    if media_type.trim_start().to_ascii_lowercase().starts_with("multipart/") {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "form-upload",
            "The body must be the file itself",
            "this is a form",
        )
        .help(
            "send the bytes as they are: curl --data-binary @film.mp4 'http://.../api/v1/titles?filename=film.mp4'",
        ));
    }
    Ok(())
}

pub(super) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The answer with the address of what was made.
pub(super) fn with_location(address: &str, mut response: Response) -> Response {
    if let Ok(address) = HeaderValue::from_str(address) {
        response.headers_mut().insert(header::LOCATION, address);
    }
    response
}

impl From<IngestError> for Problem {
    fn from(error: IngestError) -> Problem {
        let detail = error.to_string();
        match error {
            IngestError::NoSpace { .. }
            | IngestError::Volume(VolumeError::Full { .. } | VolumeError::CatalogueFull { .. }) => {
                Problem::no_space(detail)
            }
            IngestError::Volume(VolumeError::ReadOnly { .. }) => Problem::unavailable(detail),
            IngestError::Volume(VolumeError::NoSuchTitle { id }) => Problem::no_such_title(&id),
            IngestError::Volume(VolumeError::TitleChanged { .. }) => Problem::title_changed(detail),
            IngestError::Cancelled => Problem::unavailable(detail).retry_after_s(10),
            IngestError::Costly { .. }
            | IngestError::Media { .. }
            | IngestError::Pack { .. }
            | IngestError::Index { .. }
            | IngestError::Ladder { .. }
            | IngestError::Multiplex { .. }
            | IngestError::SmallSymbols { .. }
            | IngestError::NoInput
            | IngestError::TooManyInputs { .. } => Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "unusable-file",
                "The file cannot be taken",
                detail,
            ),
            IngestError::Stored(error) => error.into(),
            IngestError::IdsExhausted => {
                Problem::new(StatusCode::CONFLICT, "ids-exhausted", "The name is used up", detail)
            }
            _ => Problem::internal(detail),
        }
    }
}
