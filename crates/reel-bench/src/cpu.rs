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
    /// All processors while they were not idle, by the clock of the idle loop, which does not sample.
    pub(crate) busy_s: f64,
    /// Programs that are neither the server nor the client. What they did within the time is no concern of the measurement; interrupts
    /// that happened to hit them are counted as theirs.
    pub(crate) others_s: f64,
}

impl CpuTime {
    /// What was used up to now; `server` are the server's process ids.
    pub(crate) fn now(server: &[u32]) -> Result<Self> {
        let mut server_s = 0.0;
        for pid in server {
            server_s += process_s(&format!("/proc/{pid}/stat"))?;
        }
        let (busy_s, client_s) = (busy_s()?, process_s("/proc/self/stat")?);
        Ok(Self { system_s: system_s()?, client_s, server_s, busy_s, others_s: others_s(server)? })
    }

    /// What the work cost the machine: everything but the client and strangers. The kernel's own threads and interrupts are in it.
    pub(crate) fn sender_s(&self) -> f64 {
        self.busy_s - self.client_s - self.others_s
    }

    /// What was used since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            system_s: self.system_s - earlier.system_s,
            client_s: self.client_s - earlier.client_s,
            server_s: self.server_s - earlier.server_s,
            busy_s: self.busy_s - earlier.busy_s,
            others_s: self.others_s - earlier.others_s,
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

fn process_s(path: &str) -> Result<f64> {
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

/// What all other programs used, and what those of their children used that have ended. Threads of the kernel are left out.
fn others_s(server: &[u32]) -> Result<f64> {
    const KERNEL: &str = "2";
    let own = std::process::id();
    let mut ticks = 0.0;
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if pid == own || pid == 2 || server.contains(&pid) {
            continue;
        }
        // A process may end while the list is read; its time is then its parent's.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let Some(fields) = fields(&stat).filter(|fields| fields.len() > 14 && fields[1] != KERNEL) else { continue };
        // proc(5): utime, stime, cutime and cstime are fields 14 to 17; the list starts at field 3.
        ticks += fields[11..15].iter().filter_map(|field| field.parse::<f64>().ok()).sum::<f64>();
    }
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}

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

fn system_s() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().next().context("an empty /proc/stat")?;
    let ticks: Vec<f64> =
        line.split_ascii_whitespace().skip(1).map(|field| field.parse().unwrap_or(0.0)).collect();
    // proc(5): user nice system idle iowait irq softirq
    let busy: f64 = [0, 1, 2, 5, 6].iter().filter_map(|&index| ticks.get(index)).sum();
    Ok(busy / rustix::param::clock_ticks_per_second() as f64)
}
