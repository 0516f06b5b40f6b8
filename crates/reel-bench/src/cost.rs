//! What sending cost the machine, however busy others keep it.

use crate::cpu::process_s;
use crate::interrupts::Interrupts;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

/// Measures cost from one reading to the next.
pub(crate) struct Meter {
    interrupts: Arc<Interrupts>,
    server: Vec<u32>,
    receivers: Vec<i32>,
}

/// Seconds of processor time.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    /// The server's processes, with the interrupts that hit them.
    pub(crate) server_s: f64,
    /// The kernel's threads that receive for the server.
    pub(crate) receiving_s: f64,
    /// Soft interrupts of the measured network, and of disks, that hit the idle loop or somebody who has nothing to do with it.
    pub(crate) interrupts_s: f64,
    /// This process: the client.
    pub(crate) client_s: f64,
    /// All processors while they were not idle.
    busy_s: f64,
    by_process: BTreeMap<u32, f64>,
}

impl Meter {
    pub(crate) fn new(interrupts: Arc<Interrupts>, server: Vec<u32>, receivers: Vec<i32>) -> Self {
        Self { interrupts, server, receivers }
    }

    /// What was used until now.
    pub(crate) fn read(&self) -> Result<Cost> {
        let mut by_process = self.interrupts.seconds()?;
        let mut server_s = 0.0;
        for &pid in &self.server {
            server_s += process_s(&format!("/proc/{pid}/stat"))?;
            by_process.remove(&pid);
        }
        let receiving_s = self.receivers.iter().map(|&receiver| scheduled_s(receiver)).sum();
        for receiver in &self.receivers {
            by_process.remove(&receiver.cast_unsigned());
        }
        by_process.remove(&std::process::id());
        let client_s = process_s("/proc/self/stat")?;
        Ok(Cost { server_s, receiving_s, interrupts_s: 0.0, client_s, busy_s: busy_s()?, by_process })
    }
}

impl Cost {
    /// What was used since `earlier`.
    pub(crate) fn since(self, earlier: &Self) -> Self {
        let interrupts_s = self.by_process.iter().map(|(process, &seconds)| {
            // A process that is new to the list was hit for the first time.
            seconds - earlier.by_process.get(process).copied().unwrap_or(0.0)
        });
        Self {
            interrupts_s: interrupts_s.sum(),
            server_s: self.server_s - earlier.server_s,
            receiving_s: self.receiving_s - earlier.receiving_s,
            client_s: self.client_s - earlier.client_s,
            busy_s: self.busy_s - earlier.busy_s,
            by_process: BTreeMap::new(),
        }
    }

    /// All that the work cost but the client.
    pub(crate) fn sender_s(&self) -> f64 {
        self.server_s + self.receiving_s + self.interrupts_s
    }

    /// Everybody else. The more there is of it, the less the rest is worth.
    pub(crate) fn others_s(&self) -> f64 {
        self.busy_s - self.sender_s() - self.client_s
    }
}

/// Time on a processor, finer than in ticks.
fn scheduled_s(pid: i32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// By the clock of the idle loop, which does not sample.
fn busy_s() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let second = rustix::param::clock_ticks_per_second() as f64;
    let processors = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count();
    let line = stat.lines().next().context("an empty /proc/stat")?;
    let ticks: Vec<f64> =
        line.split_ascii_whitespace().skip(1).map(|field| field.parse().unwrap_or(0.0)).collect();
    // proc(5): user nice system idle iowait irq softirq steal
    let idle: f64 = [3, 4, 7].iter().filter_map(|&index| ticks.get(index)).sum();
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let now_s = now.tv_sec as f64 + now.tv_nsec as f64 / 1e9;
    Ok(now_s * processors as f64 - idle / second)
}
