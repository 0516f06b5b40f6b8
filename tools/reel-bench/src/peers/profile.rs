//! Where a server's time goes, by function: `perf` beside a run.

use anyhow::{Context, Result, ensure};
use reel_report::output;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Functions in a profile.
const FUNCTIONS_MAX: usize = 16;
/// Samples a second; odd, so that it does not beat with timers.
const RATE: &str = "1999";

/// A profile that is being taken.
pub(super) struct Profile {
    perf: Child,
    file: PathBuf,
}

impl Profile {
    /// Of these processes for so many seconds, the first `ahead` left out.
    pub(super) fn take(processes: &[u32], (ahead, seconds): (Duration, u64), dir: &Path) -> Result<Self> {
        let file = dir.join("perf.data");
        let list = processes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let mut command = Command::new("perf");
        command
            .args(["record", "-q", "-e", "cpu-clock", "-F", RATE, "-p", &list])
            .args(["-D", &ahead.as_millis().to_string(), "-o"])
            .arg(&file);
        let seconds = ahead.as_secs() + seconds;
        command.args(["--", "sleep", &seconds.to_string()]).stdin(Stdio::null());
        let perf = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Self { perf: perf.context("is perf installed? (apt install linux-perf)")?, file })
    }

    /// The functions in which most samples fell, with their shares in percent.
    pub(super) fn top_functions(mut self) -> Result<String> {
        ensure!(self.perf.wait()?.success(), "perf did not take a profile");
        let mut command = Command::new("perf");
        command.args(["report", "--stdio", "-q", "--sort", "symbol", "-i"]).arg(&self.file);
        let printed = output(&mut command)?;
        let text = String::from_utf8_lossy(&printed);
        let shares = text.lines().filter_map(|line| {
            let (share, symbol) = line.trim().split_once('%')?;
            let symbol = symbol.trim().trim_start_matches("[k] ").trim_start_matches("[.] ");
            Some(format!("{} {share}", symbol.split_whitespace().next()?))
        });
        let functions = shares.take(FUNCTIONS_MAX).collect::<Vec<_>>().join(", ");
        std::fs::remove_file(&self.file)?;
        Ok(functions)
    }
}
