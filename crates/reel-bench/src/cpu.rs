//! Processor time, as the kernel accounts for it.

use anyhow::{Context, Result};
use std::fs;

/// Seconds of processor time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuTime {
    /// The whole system: user, nice, system, irq and softirq.
    pub(crate) system_s: f64,
    /// This process, the client.
    pub(crate) client_s: f64,
    /// The server's processes.
    pub(crate) server_s: f64,
}

impl CpuTime {
    /// What was used up to now; `server` are the server's process ids.
    pub(crate) fn now(server: &[u32]) -> Result<Self> {
        let mut server_s = 0.0;
        for pid in server {
            server_s += process_s(&format!("/proc/{pid}/stat"))?;
        }
        Ok(Self { system_s: system_s()?, client_s: process_s("/proc/self/stat")?, server_s })
    }

    /// What was used since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            system_s: self.system_s - earlier.system_s,
            client_s: self.client_s - earlier.client_s,
            server_s: self.server_s - earlier.server_s,
        }
    }
}

/// A process and its children, one level down (nginx's workers).
pub(crate) fn family(pid: u32) -> Result<Vec<u32>> {
    let mut family = vec![pid];
    for entry in fs::read_dir("/proc")? {
        let Some(child) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process may end while the list is read.
        let Ok(stat) = fs::read_to_string(format!("/proc/{child}/stat")) else { continue };
        if fields(&stat).and_then(|fields| fields.get(1)?.parse().ok()) == Some(pid) {
            family.push(child);
        }
    }
    Ok(family)
}

/// What a process has used, with its threads.
pub(crate) fn process_s(path: &str) -> Result<f64> {
    let stat = fs::read_to_string(path).with_context(|| format!("reading {path}: did the process end?"))?;
    let fields = fields(&stat).context("an unexpected form of a process's stat")?;
    // proc(5): utime and stime are fields 14 and 15; the list starts at field 3.
    let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// The fields after the command, whose name may contain anything.
fn fields(stat: &str) -> Option<Vec<&str>> {
    Some(stat[stat.rfind(')')? + 2..].split_ascii_whitespace().collect())
}

fn system_s() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().next().context("an empty /proc/stat")?;
    let ticks: Vec<f64> =
        line.split_ascii_whitespace().skip(1).map(|field| field.parse().unwrap_or(0.0)).collect();
    // proc(5): user nice system idle iowait irq softirq
    let busy: f64 = [0, 1, 2, 5, 6].iter().filter_map(|&index| ticks.get(index)).sum();
    Ok(busy / rustix::param::clock_ticks_per_second() as f64)
}
