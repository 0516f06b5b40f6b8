//! Long jobs and how far they are: what `GET /api/v1/jobs` shows.
//!
//! A job is the ingest of a file, or work on the volume. One job at a time works on the volume.

use crate::limits::{JOBS_ENDED_MAX, JOBS_RUNNING_MAX};
use reel_library::Stop;
use reel_rt::lock;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A rate is measured over at least this long: shorter spans measure how the operating system
/// buffers.
const RATE_SPAN: Duration = Duration::from_millis(500);

/// What a job is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobKind {
    /// A file becomes a title, or a title gets another form.
    Ingest,
    /// All that is stored is read, and silent damage repaired.
    Scrub,
    /// What a member lacks is computed from the others and written to it.
    Rebuild,
    /// A member gets a replacement.
    Replace,
}

/// What a job is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// The file is being received.
    Receiving,
    /// It is being stored, or waits for others to be stored.
    Ingesting,
    /// Work on the volume continues.
    Running,
    /// The file is a title, or the work is done.
    Done,
    /// The file did not become a title, or the work was not done; `error` says why.
    Failed,
    /// It was ended before it was done.
    Cancelled,
}

impl JobState {
    /// Whether nothing more will happen.
    pub const fn is_over(self) -> bool {
        matches!(self, JobState::Done | JobState::Failed | JobState::Cancelled)
    }
}

/// Why a job on the volume did not begin.
#[derive(Clone, Debug, PartialEq)]
pub enum VolumeJobRefused {
    /// Another one is running.
    Busy(Box<JobStatus>),
    /// The list is full.
    TooMany,
}

/// A job as the API shows it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Job")]
pub struct JobStatus {
    /// Names it in `/api/v1/jobs/{id}`.
    pub id: String,
    /// What it is for.
    pub kind: JobKind,
    /// The file being taken; of work on the volume, what is worked on.
    pub file_name: String,
    /// What is being done.
    pub state: JobState,
    /// Bytes of the current state's work done.
    pub done_bytes: u64,
    /// All of them, if known.
    pub total_bytes: Option<u64>,
    /// Bytes per second, recently.
    pub rate_bytes_per_s: u64,
    /// Seconds until the current state's work is done, if it can be estimated.
    pub eta_s: Option<u64>,
    /// The title made.
    pub title_id: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// What came of work on the volume, in words.
    pub result: Option<String>,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

/// All jobs of a server: those running, and the last ones that ended. Clones are the same list.
#[derive(Clone)]
pub struct Jobs {
    /// A panic while it is locked leaves at worst one stale number in it.
    list: Arc<Mutex<VecDeque<Entry>>>,
    next: Arc<AtomicU64>,
    /// Makes ids differ from those before a restart, so that no client follows another job by an
    /// old id.
    epoch: u64,
}

struct Entry {
    status: JobStatus,
    stop: Stop,
    mark: Instant,
    mark_bytes: u64,
}

/// A running job; its owner reports its progress. A job that is dropped without an end has failed.
pub struct Job {
    jobs: Jobs,
    id: String,
    stop: Stop,
    ended: bool,
}

impl Default for Jobs {
    fn default() -> Jobs {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Jobs { list: Arc::default(), next: Arc::new(AtomicU64::new(1)), epoch }
    }
}

impl Jobs {
    /// Starts to take a file. `None` when too many jobs are running.
    pub fn start(&self, file_name: &str, state: JobState, total_bytes: Option<u64>) -> Option<Job> {
        self.begin(&mut lock(&self.list), JobKind::Ingest, file_name, state, total_bytes)
    }

    /// Starts work on the volume, unless other work is running.
    ///
    /// # Errors
    /// Other work is running, or the list is full.
    pub fn start_on_volume(&self, kind: JobKind, subject: &str) -> Result<Job, VolumeJobRefused> {
        let mut list = lock(&self.list);
        let under_way = |entry: &&Entry| entry.status.state == JobState::Running;
        if let Some(entry) = list.iter().find(under_way) {
            return Err(VolumeJobRefused::Busy(Box::new(entry.status.clone())));
        }
        self.begin(&mut list, kind, subject, JobState::Running, None).ok_or(VolumeJobRefused::TooMany)
    }

    /// Asks a job to end, and returns it as it was before; `None` if there is no such job. One that
    /// is over is not changed.
    pub fn cancel(&self, id: &str) -> Option<JobStatus> {
        let list = lock(&self.list);
        let entry = list.iter().find(|entry| entry.status.id == id)?;
        entry.stop.stop();
        Some(entry.status.clone())
    }

    /// Asks work on the volume to end.
    pub(super) fn cancel_volume_jobs(&self) {
        let list = lock(&self.list);
        let running = list.iter().filter(|entry| entry.status.state == JobState::Running);
        running.for_each(|entry| entry.stop.stop());
    }

    /// Asks all of them to end: the server stops.
    pub fn cancel_all(&self) {
        lock(&self.list).iter().for_each(|entry| entry.stop.stop());
    }

    fn begin(
        &self,
        list: &mut VecDeque<Entry>,
        kind: JobKind,
        file_name: &str,
        state: JobState,
        total_bytes: Option<u64>,
    ) -> Option<Job> {
        if list.len() >= JOBS_RUNNING_MAX {
            return None;
        }
        let id = format!("{:x}-{}", self.epoch, self.next.fetch_add(1, Ordering::Relaxed));
        let status = JobStatus {
            id: id.clone(),
            kind,
            file_name: file_name.to_owned(),
            state,
            done_bytes: 0,
            total_bytes,
            rate_bytes_per_s: 0,
            eta_s: None,
            title_id: None,
            error: None,
            result: None,
            warnings: Vec::new(),
        };
        let stop = Stop::default();
        list.push_back(Entry { status, stop: stop.clone(), mark: Instant::now(), mark_bytes: 0 });
        Some(Job { jobs: self.clone(), id, stop, ended: false })
    }

    /// All of them, newest first.
    pub fn list(&self) -> Vec<JobStatus> {
        lock(&self.list).iter().rev().map(|entry| entry.status.clone()).collect()
    }

    /// One of them.
    pub fn find(&self, id: &str) -> Option<JobStatus> {
        lock(&self.list).iter().find(|entry| entry.status.id == id).map(|entry| entry.status.clone())
    }

    /// How many are in a state (those that are over, as far as they are remembered).
    pub fn count(&self, state: JobState) -> usize {
        lock(&self.list).iter().filter(|entry| entry.status.state == state).count()
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Entry)) {
        let mut list = lock(&self.list);
        if let Some(entry) = list.iter_mut().find(|entry| entry.status.id == id) {
            change(entry);
        }
        let is_ended = |entry: &Entry| entry.status.state.is_over();
        if list.iter().filter(|entry| is_ended(entry)).count() > JOBS_ENDED_MAX
            && let Some(oldest) = list.iter().position(is_ended)
        {
            list.remove(oldest);
        }
    }
}

impl Job {
    /// The id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Raised when it is to end.
    pub fn stop_flag(&self) -> &Stop {
        &self.stop
    }

    /// The file is here; storing begins.
    pub fn ingesting(&self, total_bytes: u64) {
        self.jobs.change(&self.id, |entry| {
            entry.mark = Instant::now();
            entry.mark_bytes = 0;
            entry.status.state = JobState::Ingesting;
            entry.status.done_bytes = 0;
            entry.status.total_bytes = Some(total_bytes);
            entry.status.rate_bytes_per_s = 0;
            entry.status.eta_s = None;
        });
    }

    /// Reports how much of the current state's work is done.
    pub fn progress(&self, done_bytes: u64) {
        self.jobs.change(&self.id, |entry| entry.progress(done_bytes, Instant::now()));
    }

    /// Reports how much work on the volume is done, and how much there is.
    pub fn worked(&self, done_bytes: u64, total_bytes: u64) {
        self.jobs.change(&self.id, |entry| {
            entry.status.total_bytes = Some(total_bytes);
            entry.progress(done_bytes, Instant::now());
        });
    }

    /// Work on the volume is done; `result` says what came of it.
    pub fn finished(mut self, result: &str, warnings: Vec<String>) {
        self.ended = true;
        self.jobs.change(&self.id, |entry| {
            entry.status.state = JobState::Done;
            entry.status.eta_s = Some(0);
            entry.status.result = Some(result.to_owned());
            entry.status.warnings = warnings;
        });
    }

    /// It is a title now.
    pub fn done(mut self, title_id: &str, warnings: Vec<String>) {
        self.ended = true;
        self.jobs.change(&self.id, |entry| {
            entry.status.state = JobState::Done;
            entry.status.done_bytes = entry.status.total_bytes.unwrap_or(entry.status.done_bytes);
            entry.status.eta_s = Some(0);
            entry.status.title_id = Some(title_id.to_owned());
            entry.status.warnings = warnings;
        });
    }

    /// It failed. A job that was asked to end was cancelled.
    pub fn failed(mut self, error: &str) {
        self.fail(error);
    }

    fn fail(&mut self, error: &str) {
        self.ended = true;
        self.jobs.change(&self.id, |entry| {
            let cancelled = entry.stop.is_stopped();
            entry.status.state = if cancelled { JobState::Cancelled } else { JobState::Failed };
            entry.status.eta_s = None;
            entry.status.error = Some(error.to_owned());
        });
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.ended {
            let receives = self.jobs.find(&self.id).is_some_and(|status| status.state == JobState::Receiving);
            self.fail(if receives {
                "the connection closed before the file was complete"
            } else {
                "the work was not finished; the log says why"
            });
            // Whatever still works for it ends.
            self.stop.stop();
        }
    }
}

impl Entry {
    fn progress(&mut self, done_bytes: u64, now: Instant) {
        self.status.done_bytes = done_bytes;
        let span = now.saturating_duration_since(self.mark);
        if span >= RATE_SPAN {
            let recent = done_bytes.saturating_sub(self.mark_bytes) as f64 / span.as_secs_f64();
            let before = self.status.rate_bytes_per_s as f64;
            // Half of the old and half of the new: steady, and right within a few seconds.
            let rate = if before > 0.0 { (before + recent) / 2.0 } else { recent };
            self.status.rate_bytes_per_s = rate as u64;
            (self.mark, self.mark_bytes) = (now, done_bytes);
        }
        self.status.eta_s = match (self.status.total_bytes, self.status.rate_bytes_per_s) {
            (Some(total), rate @ 1..) => Some(total.saturating_sub(done_bytes).div_ceil(rate)),
            _ => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_from_start_to_end() {
        let jobs = Jobs::default();
        let job = jobs.start("a.mp4", JobState::Receiving, Some(100)).expect("started");
        job.progress(60);
        let status = jobs.find(job.id()).expect("listed");
        assert_eq!(
            (status.state, status.done_bytes, status.total_bytes),
            (JobState::Receiving, 60, Some(100))
        );
        job.ingesting(100);
        assert_eq!(jobs.find(job.id()).expect("listed").done_bytes, 0);
        let id = job.id().to_owned();
        job.done("a", vec!["x".to_owned()]);
        let status = jobs.find(&id).expect("listed");
        assert_eq!(
            (status.state, status.title_id.as_deref(), status.done_bytes),
            (JobState::Done, Some("a"), 100)
        );
    }

    #[test]
    fn a_dropped_job_has_failed() {
        let jobs = Jobs::default();
        let job = jobs.start("a.mp4", JobState::Receiving, None).expect("started");
        let id = job.id().to_owned();
        drop(job);
        let status = jobs.find(&id).expect("listed");
        assert_eq!(status.state, JobState::Failed);
        assert!(status.error.expect("a reason").contains("closed"));
        let id = jobs.start("a", JobState::Ingesting, None).map(|job| job.id().to_owned());
        let status = jobs.find(&id.expect("started")).expect("listed");
        assert!(status.error.expect("a reason").contains("not finished"));
    }

    #[test]
    fn only_ended_jobs_are_forgotten() {
        let jobs = Jobs::default();
        let running = jobs.start("running", JobState::Ingesting, None).expect("started");
        for number in 0..JOBS_ENDED_MAX + 5 {
            jobs.start(&number.to_string(), JobState::Receiving, None).expect("started").failed("x");
        }
        let list = jobs.list();
        assert_eq!(list.len(), JOBS_ENDED_MAX + 1);
        assert_eq!(list[0].file_name, (JOBS_ENDED_MAX + 4).to_string(), "newest first");
        assert!(jobs.find(running.id()).is_some());
        assert_eq!(jobs.count(JobState::Ingesting), 1);
    }

    #[test]
    fn the_rate_is_smoothed_and_tells_the_time_left() {
        let jobs = Jobs::default();
        let job = jobs.start("a", JobState::Receiving, Some(10_000)).expect("started");
        jobs.change(job.id(), |entry| {
            let start = entry.mark;
            entry.progress(1000, start + Duration::from_millis(100));
            assert_eq!((entry.status.rate_bytes_per_s, entry.status.eta_s), (0, None), "too early to tell");
            entry.progress(2000, start + Duration::from_secs(1));
            assert_eq!((entry.status.rate_bytes_per_s, entry.status.eta_s), (2000, Some(4)));
            entry.progress(3000, start + Duration::from_secs(2));
            assert_eq!((entry.status.rate_bytes_per_s, entry.status.eta_s), (1500, Some(5)));
        });
    }
    #[test]
    fn there_is_one_job_on_the_volume_at_a_time_and_it_can_be_cancelled() {
        let jobs = Jobs::default();
        let _upload = jobs.start("a.mp4", JobState::Ingesting, None).expect("started");
        let scrub = jobs.start_on_volume(JobKind::Scrub, "the volume").expect("started");
        scrub.worked(10, 100);
        let Err(VolumeJobRefused::Busy(busy)) = jobs.start_on_volume(JobKind::Rebuild, "x") else {
            panic!("two at once");
        };
        assert_eq!((busy.id.as_str(), busy.total_bytes), (scrub.id(), Some(100)));
        assert!(!scrub.stop_flag().is_stopped());
        let id = scrub.id().to_owned();
        assert_eq!(jobs.cancel(&id).expect("known").state, JobState::Running);
        assert!(scrub.stop_flag().is_stopped() && jobs.cancel("none").is_none());
        scrub.failed("it was cancelled");
        assert_eq!(jobs.find(&id).expect("listed").state, JobState::Cancelled);
        let again = jobs.start_on_volume(JobKind::Rebuild, "x").expect("the other one is over");
        let id = again.id().to_owned();
        again.finished("all is well", Vec::new());
        assert_eq!(jobs.find(&id).expect("listed").result.as_deref(), Some("all is well"));
    }
}
