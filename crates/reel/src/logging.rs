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

/// The same for a command, which may show the state of the members itself: then the log leaves it out.
pub(crate) fn start_for_command(config: &LogConfig, shows_members: bool) {
    let level = match config.level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    // Reel's own crates at the level that was asked for; the libraries under it only speak of trouble.
    let own = OWN.map(|name| format!("{name}={level}")).join(",");
    let access = if config.access { "info" } else { "warn" };
    let access = ACCESS.map(|name| format!("{name}={access}")).join(",");
    let others = if config.level == LogLevel::Error { "error" } else { "warn" };
    let members = if shows_members { format!(",{MEMBERS_LOG}=error") } else { String::new() };
    let filter = EnvFilter::new(format!("{others},{own},{access}{members}"));
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

/// Log targets with a line for every request: of the data plane, of the control plane.
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
