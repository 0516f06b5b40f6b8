//! What the figures were measured on.

use serde::Serialize;
use std::fs;

/// The machine, and what it cannot show.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    cpu: String,
    cores: usize,
    memory_gib: f64,
    kernel: String,
    limits: &'static str,
}

impl Machine {
    /// The machine that this program runs on.
    pub fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
        };
        let memory_kib: f64 = field(&read("/proc/meminfo"), "MemTotal")
            .and_then(|value| value.split(' ').next()?.parse().ok())
            .unwrap_or(0.0);
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: (memory_kib / 1024.0 / 1024.0 * 10.0).round() / 10.0,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            limits: "loopback copies every byte at the receiver and flatters sendfile; client and server share the cores; \
                     on a virtual machine the host may cache the disk",
        }
    }

    /// The same in a line.
    pub fn line(&self) -> String {
        let Self { cpu, cores, memory_gib, kernel, limits } = self;
        format!("{cpu}, {cores} cores, {memory_gib} GiB, Linux {kernel}. Limits: {limits}.")
    }
}
