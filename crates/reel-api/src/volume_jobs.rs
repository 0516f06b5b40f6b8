//! `POST /api/v1/volume/scrub`, `rebuild`, `replace`: long work on the volume, as jobs, one at a
//! time.

use crate::ControlPlane;
use crate::body::JsonBody;
use crate::jobs::{Job, JobKind, VolumeJobRefused};
use crate::problem::Problem;
use crate::wire::Replacement;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::fmt;
use std::path::Path;

/// Work on the volume that takes long. Every call blocks until the work is done, and is made on a
/// blocking thread. `watch` is called with the progress, and returns `false` to end the work soon.
///
/// # Errors
/// Every call fails with what happened and what to do about it: the work is not possible, was
/// ended, or a disk failed.
pub trait VolumeJobs: Send + Sync + 'static {
    /// Reads all that is stored and repairs what is damaged.
    ///
    /// # Errors
    /// As every call of this trait.
    fn scrub(
        &self,
        watch: &mut dyn FnMut(VolumeJobProgress) -> bool,
    ) -> Result<VolumeJobDone, VolumeJobFailed>;

    /// Computes what members lack from the others, and writes it to them.
    ///
    /// # Errors
    /// Like every call of this trait; also if no member lacks data.
    fn rebuild(
        &self,
        watch: &mut dyn FnMut(VolumeJobProgress) -> bool,
    ) -> Result<VolumeJobDone, VolumeJobFailed>;

    /// Puts another file or device in the place of a member, and fills it. `create`: a new file may
    /// be made outside of the volume's directory, too.
    ///
    /// # Errors
    /// As every call of this trait; also if the member is healthy, or the file or device is too
    /// short or not empty.
    fn replace(
        &self,
        member: usize,
        path: &Path,
        create: bool,
        watch: &mut dyn FnMut(VolumeJobProgress) -> bool,
    ) -> Result<VolumeJobDone, VolumeJobFailed>;

    /// Whether a rebuild was begun and has not come to its end.
    fn is_rebuild_unfinished(&self) -> bool;
}

/// The progress of work on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeJobProgress {
    /// Bytes of units that are done.
    pub done_bytes: u64,
    /// Bytes of units in all.
    pub total_bytes: u64,
}

/// What came of work on the volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeJobDone {
    /// In a sentence.
    pub text: String,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

/// Why work on the volume was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeJobFailed {
    what: String,
    help: Option<&'static str>,
}

impl VolumeJobFailed {
    /// `what` says what happened, and why.
    pub fn new(what: impl Into<String>) -> VolumeJobFailed {
        VolumeJobFailed { what: what.into(), help: None }
    }

    /// Says what to do about it.
    pub fn help(mut self, help: &'static str) -> VolumeJobFailed {
        self.help = Some(help);
        self
    }
}

/// What happened, and what to do.
impl fmt::Display for VolumeJobFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for VolumeJobFailed {}

/// `POST /api/v1/volume/scrub`
pub(super) async fn scrub(State(control): State<ControlPlane>) -> Result<Response, Problem> {
    start(&control, JobKind::Scrub, "the volume", |work, watch| work.scrub(watch))
}

/// `POST /api/v1/volume/rebuild`
pub(super) async fn rebuild(State(control): State<ControlPlane>) -> Result<Response, Problem> {
    start(&control, JobKind::Rebuild, "the volume", |work, watch| work.rebuild(watch))
}

/// `POST /api/v1/volume/replace`
pub(super) async fn replace(
    State(control): State<ControlPlane>,
    JsonBody(Replacement { member, path, create }): JsonBody<Replacement>,
) -> Result<Response, Problem> {
    let members = control.library().volume().members.len();
    let unusable = |detail: String| {
        let title = "This member cannot be replaced like this";
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "unusable-replacement", title, detail)
    };
    if member >= members {
        return Err(unusable(format!("there is no member {member}"))
            .help(format!("the members are 0 to {}", members - 1)));
    }
    if !path.is_absolute() {
        return Err(unusable(format!("{} is not an absolute path", path.display()))
            .help("name the file or device as it is called on the server"));
    }
    let subject = format!("member {member}: {}", path.display());
    start(&control, JobKind::Replace, &subject, move |work, watch| work.replace(member, &path, create, watch))
}

impl ControlPlane {
    /// Continues with a rebuild that the previous run of the server did not finish, or brings back
    /// a member that was missing then. To be called where tokio runs.
    pub fn resume_rebuild(&self) {
        if !self.volume_jobs().is_rebuild_unfinished() {
            return;
        }
        match start(self, JobKind::Rebuild, "the volume", |work, watch| work.rebuild(watch)) {
            Ok(_) => tracing::info!("rebuilding a member, or bringing back one that was missing"),
            Err(problem) => tracing::warn!("a member is not rebuilt yet: {problem}"),
        }
    }
}

/// Begins a job, if no other is running on the volume, and answers with it.
fn start(
    control: &ControlPlane,
    kind: JobKind,
    subject: &str,
    work: impl FnOnce(
        &dyn VolumeJobs,
        &mut dyn FnMut(VolumeJobProgress) -> bool,
    ) -> Result<VolumeJobDone, VolumeJobFailed>
    + Send
    + 'static,
) -> Result<Response, Problem> {
    if control.stop_flag().is_stopped() {
        return Err(Problem::unavailable("the server is shutting down"));
    }
    if let Some(reason) = control.library().volume().read_only {
        return Err(Problem::unavailable(format!(
            "the volume is read-only, so nothing can be repaired on it: {reason}"
        )));
    }
    let job = control.jobs().start_on_volume(kind, subject).map_err(|refused| match refused {
        VolumeJobRefused::Busy(busy) => Problem::new(
            StatusCode::CONFLICT,
            "volume-busy",
            "The volume is being worked on",
            format!("the job {} ({}) is running", busy.id, name(busy.kind)),
        )
        .help(format!("wait for it, or end it with DELETE /api/v1/jobs/{}", busy.id))
        .job(busy.id),
        VolumeJobRefused::TooMany => Problem::unavailable("too many jobs are running").retry_after_s(30),
    })?;
    let status = control.jobs().find(job.id());
    let address = format!("/api/v1/jobs/{}", job.id());
    let control = control.clone();
    drop(tokio::task::spawn_blocking(move || run(&control, job, kind, work)));
    let mut response = (StatusCode::ACCEPTED, Json(status)).into_response();
    if let Ok(address) = HeaderValue::from_str(&address) {
        response.headers_mut().insert(header::LOCATION, address);
    }
    Ok(response)
}

fn run(
    control: &ControlPlane,
    job: Job,
    kind: JobKind,
    work: impl FnOnce(
        &dyn VolumeJobs,
        &mut dyn FnMut(VolumeJobProgress) -> bool,
    ) -> Result<VolumeJobDone, VolumeJobFailed>,
) {
    let stop = job.stop_flag().clone();
    let done = work(control.volume_jobs(), &mut |VolumeJobProgress { done_bytes, total_bytes }| {
        job.worked(done_bytes, total_bytes);
        !stop.is_stopped() && !control.stop_flag().is_stopped()
    });
    match done {
        Ok(VolumeJobDone { text, warnings }) => {
            tracing::info!(job = job.id(), kind = name(kind), "{text}");
            job.finished(&text, warnings);
        }
        Err(error) => {
            tracing::warn!(job = job.id(), kind = name(kind), %error, "not done");
            job.failed(&error.to_string());
        }
    }
}

fn name(kind: JobKind) -> &'static str {
    match kind {
        JobKind::Ingest => "ingest",
        JobKind::Scrub => "scrub",
        JobKind::Rebuild => "rebuild",
        JobKind::Replace => "replace",
    }
}
