//! Logging to standard error. A server writes to it by way of a queue, and so never waits for it; a
//! command writes to it at once.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, OnceLock};

use reel_metrics::MetricsSource;
use reel_volume::MEMBERS_LOG;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use crate::config::{LogConfig, LogFormat, LogLevel};
use crate::failure::Failure;
use crate::limits::LOG_FLUSH_TIME_MAX;
use crate::log_queue::LogQueue;

/// The queue of a server's log.
static QUEUE: OnceLock<LogQueue> = OnceLock::new();

/// Installs the log of a server; the first call wins. The end of [`FlushedAtEnd`] belongs to it.
///
/// # Errors
/// The system gives no thread.
pub(crate) fn start(config: &LogConfig) -> Result<(), Failure> {
    let format = config.format;
    let queue = LogQueue::start(io::stderr(), move |lost| notice(format, lost))
        .map_err(|error| Failure::failed(format!("cannot start the thread of the log: {error}")))?;
    let queue = QUEUE.get_or_init(|| queue);
    install(config, false, BoxMakeWriter::new(|| queue.clone()));
    Ok(())
}

/// The same for a command. If it prints the state of the members itself, the log omits that.
pub(crate) fn start_for_command(config: &LogConfig, shows_members: bool) {
    install(config, shows_members, BoxMakeWriter::new(io::stderr));
}

/// Writes a line to standard error. A reader that is gone, or a full disk, is no failure.
pub(crate) fn say(text: impl Display) {
    let line = format!("{text}\n");
    match QUEUE.get() {
        Some(queue) => queue.push(line.as_bytes()),
        None => drop(io::stderr().write_all(line.as_bytes())),
    }
}

/// Waits until the log is written, at most [`LOG_FLUSH_TIME_MAX`]. To be called before the process
/// ends.
pub(crate) fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(LOG_FLUSH_TIME_MAX);
    }
}

/// The metrics of a server's log.
pub(crate) fn metrics() -> Option<Arc<dyn MetricsSource>> {
    QUEUE.get().map(|queue| Arc::new(queue.clone()) as _)
}

/// Calls [`flush`] when it is dropped, also by a panic.
pub(crate) struct FlushedAtEnd;

impl Drop for FlushedAtEnd {
    fn drop(&mut self) {
        flush();
    }
}

fn install(config: &LogConfig, shows_members: bool, writer: BoxMakeWriter) {
    let filter = EnvFilter::new(directives(config, shows_members));
    let colours = io::stderr().is_terminal();
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(colours);
    // An error would be written to standard error, which panics if that fails.
    let subscriber = subscriber.log_internal_errors(false);
    let installed = match config.format {
        LogFormat::Text => subscriber.with_target(false).try_init(),
        LogFormat::Json => subscriber.json().flatten_event(true).try_init(),
    };
    if installed.is_err() {
        tracing::debug!("a log is already installed");
    }
}

/// The line that says how many lines were dropped. The thread that writes the log makes it, because
/// an event of its own would wait behind others.
fn notice(format: LogFormat, lost: u64) -> String {
    let mut time = String::new();
    // Without a time it says the same.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    let what = "lines of the log were dropped, because they could not be written or too many waited";
    match format {
        LogFormat::Text => format!("{time}  WARN {lost} {what}\n"),
        LogFormat::Json => {
            let line = serde_json::json!({
                "timestamp": time, "level": "WARN", "message": what, "lines": lost, "target": "reel::logging"
            });
            format!("{line}\n")
        }
    }
}

/// What is logged, by target.
fn directives(config: &LogConfig, shows_members: bool) -> String {
    let level = match config.level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    // Reel's own crates log at the configured level; libraries log only warnings and errors.
    let own = OWN.map(|name| format!("{name}={level}")).join(",");
    let access = if config.access { "info" } else { "warn" };
    let access = ACCESS.map(|name| format!("{name}={access}")).join(",");
    let others = if config.level == LogLevel::Error { "error" } else { "warn" };
    let members = if shows_members { format!(",{MEMBERS_LOG}=error") } else { String::new() };
    format!("{others},{own},{access},{OF_CLIENTS},{OF_FUSE}{members}")
}

/// Libraries whose warnings tell only what a client does: it could fill the log with them. HTTP/2
/// has one for each connection on which a client resets its requests at once.
const OF_CLIENTS: &str = "h2=error";

/// The library of FUSE warns of questions of the kernel that need no answer.
const OF_FUSE: &str = "fuser=error";

/// Log targets with one line per request: of the data plane and of the control plane.
const ACCESS: [&str; 2] = ["access", "reel_http::access"];

/// Log targets of this workspace.
const OWN: [&str; 19] = [
    "reel",
    "reel_admit",
    "reel_api",
    "reel_arena",
    "reel_cache",
    "reel_client",
    "reel_code",
    "reel_disk",
    "reel_files",
    "reel_http",
    "reel_library",
    "reel_local",
    "reel_media",
    "reel_metrics",
    "reel_play",
    "reel_qos",
    "reel_ring",
    "reel_rt",
    "reel_volume",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A log in memory.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_notice_has_the_format_of_the_log() {
        let text = notice(LogFormat::Text, 7);
        assert!(text.starts_with("20") && text.contains("  WARN 7 lines of the log were dropped"), "{text}");
        let json: serde_json::Value = serde_json::from_str(&notice(LogFormat::Json, 7)).unwrap();
        assert!(json["lines"] == 7 && json["timestamp"].as_str().unwrap().starts_with("20"), "{json}");
    }

    #[test]
    fn what_clients_do_with_http2_fills_no_log() {
        let kept = Kept::default();
        let writer = kept.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(directives(&LogConfig::default(), false)))
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(target: "h2::proto::streams::streams", "streams were reset");
            tracing::warn!(target: "hyper", "another library");
            tracing::info!(target: "reel", "one of ours");
        });
        let log = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert!(!log.contains("reset"), "{log}");
        assert!(log.contains("another library") && log.contains("one of ours"), "{log}");
    }
}
