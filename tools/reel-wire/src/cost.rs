//! What sending cost the machine, whatever other programs do meanwhile.

use crate::interrupts::Interrupts;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

/// Measures what a server costs from one reading to the next.
pub struct CostMeter {
    /// Without root there is no meter of interrupts; then they are not measured.
    interrupts: Option<Arc<Interrupts>>,
    server: Vec<u32>,
    receivers: Vec<i32>,
}

/// Seconds of processor time.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The server's processes, with the interrupts that hit them.
    pub server_s: f64,
    /// The kernel's threads that receive for the server.
    pub receiving_s: f64,
    /// Soft interrupts of the measured network, and of disks, that interrupted the idle loop or an
    /// unrelated process.
    pub interrupts_s: f64,
    /// This process: the client.
    pub client_s: f64,
    /// All processors while they were not idle.
    busy_s: f64,
    by_process: BTreeMap<u32, f64>,
}

impl CostMeter {
    pub(crate) fn new(interrupts: Option<Arc<Interrupts>>, server: Vec<u32>, receivers: Vec<i32>) -> Self {
        Self { interrupts, server, receivers }
    }

    /// A meter for a server on a network that is not the wire's: soft interrupts are not told from
    /// other work.
    pub fn of_processes(server: Vec<u32>) -> Self {
        Self::new(None, server, Vec::new())
    }

    /// What was used until now.
    ///
    /// # Errors
    /// A server that has ended, and those of reading `/proc`.
    pub fn read(&self) -> Result<Cost> {
        let interrupts = self.interrupts.as_ref().map(|interrupts| interrupts.seconds());
        let mut by_process = interrupts.transpose()?.unwrap_or_default();
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
    pub fn since(self, earlier: &Self) -> Self {
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

    /// All that the work cost, without the client.
    pub fn sender_s(&self) -> f64 {
        self.server_s + self.receiving_s + self.interrupts_s
    }

    /// The whole machine without the client.
    pub fn system_s(&self) -> f64 {
        self.busy_s - self.client_s
    }

    /// The figures of a report, for so many GB in so many seconds.
    pub fn values(&self, gb: f64, took_s: f64) -> [(&'static str, f64); 6] {
        [
            ("cpu_s_per_gb", self.sender_s() / gb),
            ("server_cpu_s_per_gb", self.server_s / gb),
            ("receiving_s_per_gb", self.receiving_s / gb),
            ("interrupts_s_per_gb", self.interrupts_s / gb),
            ("client_cpu_s_per_gb", self.client_s / gb),
            // Of one processor: figures of a machine on which others worked are worth less.
            ("others_cpus", self.others_s() / took_s),
        ]
    }

    /// All other programs. The more of it there is, the less the measurement is worth.
    pub fn others_s(&self) -> f64 {
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

/// A process and its children, one level down (the workers of nginx).
///
/// # Errors
/// Those of reading `/proc`.
pub fn family(pid: u32) -> Result<Vec<u32>> {
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
