//! The access log. A thread of its own writes it, so that a slow terminal never holds a core.

use crate::limits::ACCESS_LOG_LINES_MAX;
use reel_qos::Class;
use reel_rt::RtError;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// One answered request.
pub(crate) struct AccessRecord {
    pub(crate) client: SocketAddr,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) range: Option<String>,
    pub(crate) user_agent: Option<String>,
    pub(crate) class: Class,
    pub(crate) status: u16,
    /// Body bytes that the client has accepted.
    pub(crate) sent_bytes: u64,
    /// From the end of the request head to the last accepted byte.
    pub(crate) took_ns: u64,
    /// The client has accepted the whole response.
    pub(crate) complete: bool,
}

/// The sender of records to the log's thread. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AccessLog {
    lines: Option<SyncSender<AccessRecord>>,
    dropped: Arc<AtomicU64>,
}

impl AccessLog {
    /// Starts a log that writes to the `access` target of tracing, or nowhere.
    /// Also returns its thread, which ends when the last line is written.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(enabled: bool) -> Result<(Self, Option<JoinHandle<()>>), RtError> {
        let dropped = Arc::new(AtomicU64::new(0));
        if !enabled {
            return Ok((Self { lines: None, dropped }, None));
        }
        let (lines, records) = sync_channel(ACCESS_LOG_LINES_MAX);
        let lost = Arc::clone(&dropped);
        let name = "reel-access-log".to_owned();
        let writer = thread::Builder::new()
            .name(name.clone())
            .spawn(move || write(&records, &lost))
            .map_err(|source| RtError::Thread { name, source })?;
        Ok((Self { lines: Some(lines), dropped }, Some(writer)))
    }

    /// Logs a record. It never waits: a line for which there is no room is counted instead.
    pub(crate) fn record(&self, record: AccessRecord) {
        if let Some(lines) = &self.lines
            && lines.try_send(record).is_err()
        {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write(records: &Receiver<AccessRecord>, dropped: &AtomicU64) {
    while let Ok(record) = records.recv() {
        tracing::info!(
            target: "access",
            client = %record.client,
            method = %record.method,
            path = %redacted(&record.path),
            range = record.range.as_deref().unwrap_or("-"),
            status = record.status,
            bytes = record.sent_bytes,
            ms = record.took_ns / 1_000_000,
            class = ?record.class,
            complete = record.complete,
            agent = record.user_agent.as_deref().unwrap_or("-"),
        );
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!(target: "access", lost, "the log could not keep up; lines were dropped");
        }
    }
}

/// A session key gives access to its session: the log keeps only its first digits.
fn redacted(path: &str) -> String {
    match path.strip_prefix("/s/").and_then(|rest| rest.split_once('/')) {
        Some((key, file)) => format!("/s/{}../{file}", key.get(..4).unwrap_or(key)),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_not_reach_the_log() {
        let path = "/s/00112233445566778899aabbccddeeff/0/1.m4s";
        assert_eq!(redacted(path), "/s/0011../0/1.m4s");
        assert_eq!(redacted("/files/a.mp4"), "/files/a.mp4");
        assert_eq!(redacted("/s/é/x"), "/s/é../x");
    }
}
