//! `POST /api/v1/titles`: a file arrives, waits in the spool directory, and becomes a title.

use crate::body::QueryOf;
use crate::jobs::{Job, JobState};
use crate::limits::{
    JOB_LOOK_EVERY, SPOOL_RESERVE_BYTES, STOPPING_RETRY_S, UPLOAD_STEP_BYTES, UPLOAD_STEP_MAX,
};
use crate::problem::Problem;
use crate::wire::Title;
use crate::{ControlPlane, ShutdownStage, on_blocking_thread};
use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use reel_library::{IngestError, IngestOptions, Ingested, Input, Stop, clean_file_name};
use reel_volume::VolumeError;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout_at};

/// The query of `POST /api/v1/titles`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UploadQuery {
    /// The file's name
    filename: Option<String>,
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
    request: Request,
) -> Result<Response, Problem> {
    refuse_forms(request.headers())?;
    let bytes = content_length(request.headers());
    check_room(&control, bytes)?;
    if let Some(id) = query.replaces.clone() {
        let control = control.clone();
        on_blocking_thread(move || control.library().title(&id).map(drop)).await??;
    }
    let place = control.upload_slots().try_acquire_owned().map_err(|_| {
        Problem::unavailable("too many uploads are under way; this one was not begun").retry_after_s(30)
    })?;
    let waits = query.wait;
    let file_name = clean_file_name(query.filename.as_deref().or(query.name.as_deref()).unwrap_or("upload"));
    let job = start_job(&control, &file_name, JobState::Receiving, bytes)?;

    let received = receive(&control, request.into_body(), &job).await;
    let spooled = match received {
        Ok(spooled) => spooled,
        Err(problem) => {
            job.failed(&problem.to_string());
            return Err(problem);
        }
    };
    let input = Input { path: spooled.path.clone(), file_name: Some(file_name) };
    // A file that is no title is refused in this answer, not in a job that has to be looked at
    // later.
    let (probed, control_of_probe) = (input.clone(), control.clone());
    if let Err(error) = on_blocking_thread(move || control_of_probe.library().probe(&probed)).await? {
        let problem = Problem::from(error);
        job.failed(&problem.to_string());
        return Err(problem);
    }
    let job_address = format!("/api/v1/jobs/{}", job.id());
    let job_id = job.id().to_owned();
    job.ingesting(spooled.bytes);
    let UploadQuery { name, replaces, .. } = query;
    let options = IngestOptions { name, replaces, no_sidecars: true, stop: job.stop_flag().clone() };
    // A separate task: it continues when the client does not wait for it or disconnects.
    let ingest = tokio::spawn(ingest_spooled(control.clone(), job, spooled, input, options, place));
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
    Ok(with_location(&address, (StatusCode::CREATED, Json(Title::from(&*title))).into_response()))
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
        let input = Input::new(path);
        let stop = job.stop_flag().clone();
        let options = IngestOptions { stop, replaces, ..IngestOptions::default() };
        let (job, turn) = self.turn(job).await?;
        let control = self.clone();
        let result = on_blocking_thread(move || {
            let result = control.run_ingest(job, &input, &options);
            drop(turn);
            result
        });
        Ok(result.await??)
    }

    /// Waits until a job may store its file, or is asked to end, which ends it.
    async fn turn(&self, job: Job) -> Result<(Job, OwnedSemaphorePermit), Problem> {
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

    fn run_ingest(&self, job: Job, input: &Input, options: &IngestOptions) -> Result<Ingested, IngestError> {
        let mut told_total = false;
        let result = self.library().ingest(input, options, &mut |progress| {
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
    spooled: Spooled,
    input: Input,
    options: IngestOptions,
    place: OwnedSemaphorePermit,
) -> Result<Ingested, Problem> {
    let (job, turn) = control.turn(job).await?;
    let result = on_blocking_thread(move || {
        let result = control.run_ingest(job, &input, &options);
        // The spool file and its slot are needed until here.
        drop((spooled, turn, place));
        result
    })
    .await?;
    Ok(result?)
}

/// A file in the spool directory without a name: it is gone when closed, however the process ends.
struct Spooled {
    path: PathBuf,
    bytes: u64,
    _file: Arc<File>,
}

async fn receive(control: &ControlPlane, mut body: Body, job: &Job) -> Result<Spooled, Problem> {
    let limit = control.config().upload_bytes_max;
    let dir = control.config().spool_dir.clone();
    let opened = on_blocking_thread(move || open_spool(&dir)).await?;
    let file = opened.map_err(|e| spool_problem(control, &e))?;
    // The demuxer opens the same bytes again, and so does ffmpeg for the poster: /proc/self would
    // be ffmpeg's own directory.
    let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
    let file = Arc::new(file);
    let writer = file.try_clone().map_err(|e| spool_problem(control, &e))?;
    let mut writer = tokio::fs::File::from_std(writer);
    writer.set_max_buf_size(1 << 20);
    let mut bytes: u64 = 0;
    let mut deadline = UploadDeadline::new(Instant::now());
    loop {
        let frame = tokio::select! {
            frame = timeout_at(deadline.ends, body.frame()) => frame,
            () = control.entered(ShutdownStage::Ending) => return Err(broken_off()),
            () = asked_to_end(job.stop_flag()) => return Err(ended(control)),
        };
        let frame = frame.map_err(|_| {
            Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                "too-slow",
                "The upload stood still",
                format!(
                    "less than {UPLOAD_STEP_BYTES} bytes arrived in {} s, after {bytes} in all",
                    UPLOAD_STEP_MAX.as_secs()
                ),
            )
            .help("send the file over a faster line")
        })?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|e| {
            Problem::bad_request(format!("the upload was interrupted after {bytes} bytes: {e}"))
        })?;
        let Ok(chunk) = frame.into_data() else { continue };
        if job.stop_flag().is_stopped() {
            return Err(ended(control));
        }
        bytes += chunk.len() as u64;
        deadline.arrived(bytes, Instant::now());
        if bytes > limit {
            return Err(too_large(limit));
        }
        let writing = Instant::now();
        writer.write_all(&chunk).await.map_err(|e| spool_problem(control, &e))?;
        // The time that the server's own disk takes is not the client's.
        deadline.ends += writing.elapsed();
        job.progress(bytes);
    }
    writer.flush().await.map_err(|e| spool_problem(control, &e))?;
    if bytes == 0 {
        return Err(Problem::from(IngestError::Media {
            file: "the upload".to_owned(),
            source: reel_media::MediaError::Empty,
        }));
    }
    Ok(Spooled { path, bytes, _file: file })
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

/// Makes the spool directory if it is missing and its parent is not, and checks that files can be
/// written there.
///
/// # Errors
/// Its parent is missing: a disk that is not mounted, or a misspelt path. Or it cannot be written.
pub fn prepare_spool(dir: &Path) -> io::Result<()> {
    open_spool(dir).map(drop)
}

fn open_spool(dir: &Path) -> io::Result<File> {
    match std::fs::create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => tempfile::tempfile_in(dir),
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

fn start_job(
    control: &ControlPlane,
    file_name: &str,
    state: JobState,
    bytes: Option<u64>,
) -> Result<Job, Problem> {
    if control.stop_flag().is_stopped() {
        return Err(Problem::unavailable("the server is shutting down and begins nothing new")
            .help("send the file when the server is back")
            .retry_after_s(STOPPING_RETRY_S));
    }
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

const LARGER_SPOOL: &str = "free some space there, or set upload.spool_dir to a larger file system";

fn spool_problem(control: &ControlPlane, error: &io::Error) -> Problem {
    let dir = control.config().spool_dir.display();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Problem::no_space(format!("the spool directory {dir} is full")).help(LARGER_SPOOL)
        }
        _ => Problem::internal(format!("the spool directory {dir} cannot be written: {error}"))
            .help("set upload.spool_dir to a directory that can be written"),
    }
}

fn too_large(limit: u64) -> Problem {
    Problem::too_large(format!("at most {limit} bytes are taken by upload (upload.max_bytes)"))
        .help("use `reel ingest` on the server itself for larger files")
}

/// A form wraps the file in boundaries; taken as it is, it would be an unknown container.
fn refuse_forms(headers: &HeaderMap) -> Result<(), Problem> {
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

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn with_location(address: &str, mut response: Response) -> Response {
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
            IngestError::Cancelled => Problem::unavailable(detail).retry_after_s(10),
            IngestError::Media { .. }
            | IngestError::Pack { .. }
            | IngestError::Index { .. }
            | IngestError::Ladder { .. }
            | IngestError::NoInput
            | IngestError::TooManyInputs { .. } => Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "unusable-file",
                "The file cannot be taken",
                detail,
            ),
            IngestError::IdsExhausted => {
                Problem::new(StatusCode::CONFLICT, "ids-exhausted", "The name is used up", detail)
            }
            _ => Problem::internal(detail),
        }
    }
}
