//! Ends the parsing of a file that is no longer wanted, or that takes too much of a processor.

use crate::error::IngestError;
use crate::input::Stop;
use crate::limits::{PARSE_BYTES_A_SECOND, PARSE_SECONDS};
use reel_media::MediaError;
use reel_rt::thread_cpu_ns;
use std::io;
use std::thread::{self, ThreadId};

/// Asked between the steps of parsing a file.
pub(crate) struct Guard {
    stop: Stop,
    /// Processor time that the file may take, and has taken.
    allowed_ns: u64,
    spent_ns: u64,
    /// The thread that asked last, and its processor time then: a file is opened and read by
    /// different threads.
    seen: Option<(ThreadId, u64)>,
}

/// Why parsing was ended.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum Ended {
    #[error("it is not wanted any more")]
    Stopped,
    #[error("it takes more than {seconds} s of a processor")]
    Costly { seconds: u64 },
}

const NS_PER_S: u64 = 1_000_000_000;

impl Guard {
    /// For a file of this length.
    pub(crate) fn new(stop: &Stop, file_bytes: u64) -> Guard {
        let allowed_ns = (PARSE_SECONDS + file_bytes / PARSE_BYTES_A_SECOND).saturating_mul(NS_PER_S);
        Guard { stop: stop.clone(), allowed_ns, spent_ns: 0, seen: None }
    }

    /// Whether the file is still wanted.
    pub(crate) fn wanted(&self) -> io::Result<()> {
        if self.stop.is_stopped() { Err(io::Error::other(Ended::Stopped)) } else { Ok(()) }
    }

    /// The same, and whether its time is not used up.
    pub(crate) fn check(&mut self) -> io::Result<()> {
        self.wanted()?;
        self.spend(thread::current().id(), thread_cpu_ns())
    }

    fn spend(&mut self, thread: ThreadId, cpu_ns: u64) -> io::Result<()> {
        if let Some((_, before_ns)) = self.seen.filter(|(before, _)| *before == thread) {
            self.spent_ns += cpu_ns.saturating_sub(before_ns);
        }
        self.seen = Some((thread, cpu_ns));
        if self.spent_ns <= self.allowed_ns {
            return Ok(());
        }
        Err(io::Error::other(Ended::Costly { seconds: self.allowed_ns / NS_PER_S }))
    }
}

/// The error of an ingest for what a demuxer says of a file.
pub(crate) fn media_error(file: &str, error: MediaError) -> IngestError {
    let file = file.to_owned();
    let ended = match &error {
        MediaError::Io(io) => io.get_ref().and_then(|inner| inner.downcast_ref::<Ended>()).copied(),
        _ => None,
    };
    match ended {
        Some(Ended::Stopped) => IngestError::Cancelled,
        Some(Ended::Costly { seconds }) => IngestError::Costly { file, seconds },
        None => IngestError::Media { file, source: error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_counted_for_each_thread_that_parses() {
        let mut guard = Guard::new(&Stop::default(), 0);
        let other = thread::spawn(|| ()).thread().id();
        let limit = PARSE_SECONDS * NS_PER_S;
        let here = thread::current().id();
        guard.spend(here, 5 * limit).expect("what the thread did before is not counted");
        guard.spend(here, 5 * limit + limit / 2).expect("half");
        guard.spend(other, 9 * limit).expect("another thread began elsewhere");
        guard.spend(other, 9 * limit + limit / 2).expect("all of it");
        let error = guard.spend(other, 10 * limit).expect_err("too much");
        let error = media_error("a.mp4", error.into());
        assert!(matches!(error, IngestError::Costly { seconds: PARSE_SECONDS, .. }), "{error}");
        assert!(error.to_string().contains("ffmpeg"), "{error}");
    }

    #[test]
    fn a_stopped_file_is_cancelled() {
        let stop = Stop::default();
        let mut guard = Guard::new(&stop, 0);
        guard.check().expect("wanted");
        stop.stop();
        let error = guard.check().expect_err("not wanted");
        assert!(matches!(media_error("a.mp4", error.into()), IngestError::Cancelled));
    }
}
