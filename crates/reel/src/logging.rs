//! Logging to standard error.

use std::io::IsTerminal;

use reel_volume::MEMBERS_LOG;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use crate::config::{LogConfig, LogFormat, LogLevel};

/// Installs the log of this process; the first call wins.
pub(crate) fn start(config: &LogConfig) {
    start_for_command(config, false);
}

/// The same for a command. If it prints the state of the members itself, the log omits that.
pub(crate) fn start_for_command(config: &LogConfig, shows_members: bool) {
    let filter = EnvFilter::new(directives(config, shows_members));
    let writer = BoxMakeWriter::new(std::io::stderr);
    let colours = std::io::stderr().is_terminal();
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(colours);
    let installed = match config.format {
        LogFormat::Text => subscriber.with_target(false).try_init(),
        LogFormat::Json => subscriber.json().flatten_event(true).try_init(),
    };
    if installed.is_err() {
        tracing::debug!("a log is already installed");
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
    format!("{others},{own},{access},{OF_CLIENTS}{members}")
}

/// Libraries whose warnings tell only what a client does: it could fill the log with them. HTTP/2
/// has one for each connection on which a client resets its requests at once.
const OF_CLIENTS: &str = "h2=error";

/// Log targets with one line per request: of the data plane and of the control plane.
const ACCESS: [&str; 2] = ["access", "reel_http::access"];

/// Log targets of this workspace.
const OWN: [&str; 18] = [
    "reel",
    "reel_admit",
    "reel_api",
    "reel_arena",
    "reel_cache",
    "reel_client",
    "reel_code",
    "reel_disk",
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
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

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
