//! What is measured while the server is besieged: answers about its health, its memory and its
//! processor time.

use super::cable::{Cable, Who, http};
use super::sockets::get;
use anyhow::{Context, Result};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(10);
const EVERY: Duration = Duration::from_secs(1);

/// The answers about health.
#[derive(Debug, Default)]
pub(super) struct Health {
    pub(super) answers: u64,
    pub(super) failed: u64,
    pub(super) longest_s: f64,
    /// Answers of `/readyz` that it is not ready.
    pub(super) not_ready: u64,
    /// The first failure.
    pub(super) failure: Option<String>,
}

/// Asks once a second until `stop`.
pub(super) fn health(cable: &Cable, stop: &AtomicBool) -> Result<Health> {
    cable.far.inside(|| {
        let mut health = Health::default();
        while !stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            health.ask("/healthz");
            health.ask("/readyz");
            health.ask("/metrics");
            sleep(EVERY.saturating_sub(begun.elapsed()));
        }
        Ok(health)
    })
}

impl Health {
    fn ask(&mut self, path: &str) {
        let begun = Instant::now();
        match get(Who::Watcher.address(0), http(), path, PATIENCE) {
            Ok(response) if response.head.status == 200 => self.answers += 1,
            Ok(response) if path == "/readyz" && response.head.status == 503 => {
                self.answers += 1;
                self.not_ready += 1;
            }
            Ok(response) => self.fails(format!("{path}: {}", response.head.status)),
            Err(error) => self.fails(format!("{path}: {error:#}")),
        }
        self.longest_s = self.longest_s.max(begun.elapsed().as_secs_f64());
    }

    fn fails(&mut self, why: String) {
        self.failed += 1;
        self.failure.get_or_insert(why);
    }
}

/// The most memory that a process has had in RAM, in bytes.
pub(super) fn memory_bytes(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib << 10)
}

/// What the server printed about memory at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Printed {
    /// The most that it may use, with all parts.
    pub(super) most_bytes: u64,
    pub(super) media_bytes: u64,
}

impl Printed {
    pub(super) fn of(log: &str) -> Result<Self> {
        Ok(Self {
            most_bytes: size_after(log, "memory at most: ")?,
            media_bytes: size_after(log, "media memory: ")?,
        })
    }
}

/// The size that follows some words.
fn size_after(log: &str, words: &str) -> Result<u64> {
    let text = log.split_once(words).with_context(|| format!("the log does not say {words:?}"))?.1;
    let mut words = text.split(' ');
    let number: f64 = words.next().context("no number")?.parse()?;
    let scale = match words.next() {
        Some("KiB") => 1_u64 << 10,
        Some("MiB") => 1 << 20,
        Some("GiB") => 1 << 30,
        other => anyhow::bail!("memory in {other:?}"),
    };
    Ok((number * scale as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_memory_is_read() {
        let media = "INFO reel: media memory: 600.5 MiB in 2327 buffers of 264.0 KiB\n";
        let log =
            format!("{media}INFO reel: memory at most: 5.5 GiB if all limits are reached: media 600.5 MiB");
        let printed = Printed { most_bytes: 5_905_580_032, media_bytes: 629_669_888 };
        assert_eq!(Printed::of(&log).unwrap(), printed);
        assert!(Printed::of(media).is_err());
    }
}
