//! What processes use of the processors, and what leaves by the interface.

use super::site::DEVICE;
use anyhow::{Context, Result};
use reel_wire::family;
use reel_wire::space::Space;
use std::fs;
use std::time::Instant;

/// A reading of both.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meter {
    cpu_s: f64,
    bytes: u64,
    at: Instant,
}

/// What was used and sent between two readings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    pub(super) cpu_s: f64,
    pub(super) gbit: f64,
    pub(super) seconds: f64,
}

impl Meter {
    /// Reads both, for a process with its children.
    ///
    /// # Errors
    /// A process that has ended.
    pub(super) fn read(space: &Space, pid: u32) -> Result<Meter> {
        let mut cpu_s = 0.0;
        for process in family(pid)? {
            cpu_s += threads_s(process)?;
        }
        Ok(Meter { cpu_s, bytes: sent_bytes(space)?, at: Instant::now() })
    }

    /// What was used and sent since an earlier reading.
    pub(super) fn since(&self, earlier: &Meter) -> Spent {
        Spent {
            cpu_s: self.cpu_s - earlier.cpu_s,
            gbit: (self.bytes - earlier.bytes) as f64 * 8.0 / 1e9,
            seconds: (self.at - earlier.at).as_secs_f64(),
        }
    }
}

impl Spent {
    /// Processor seconds for each Gbit that was sent.
    pub(super) fn cpu_s_per_gbit(&self) -> f64 {
        self.cpu_s / self.gbit
    }

    /// The rate at which it was sent.
    pub(super) fn mbit_per_s(&self) -> f64 {
        self.gbit * 1000.0 / self.seconds
    }
}

/// The time of all threads on processors, finer than in ticks.
fn threads_s(pid: u32) -> Result<f64> {
    let mut ns = 0.0;
    let tasks = format!("/proc/{pid}/task");
    for task in fs::read_dir(&tasks).with_context(|| format!("reading {tasks}: did the process end?"))? {
        // A thread may end while the list is read.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        ns += text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0);
    }
    Ok(ns / 1e9)
}

/// Bytes that the interface took. An `ifb` counts them as received. A train has one set of headers
/// of Ethernet, IP and UDP.
fn sent_bytes(space: &Space) -> Result<u64> {
    let path = format!("/proc/{}/root/sys/class/net/{DEVICE}/statistics/rx_bytes", space.holder());
    let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    text.trim().parse().context("a count that is not a number")
}
