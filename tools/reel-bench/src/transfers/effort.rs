//! What a server uses of the processors, and how often its threads are switched.

use anyhow::{Context, Result};
use reel_wire::family;
use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// What was used in a window of time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Effort {
    /// Processor time of its own, and of the kernel for it.
    pub(super) user_s: f64,
    pub(super) system_s: f64,
    /// Switches of threads that waited, and of threads that were stopped.
    pub(super) voluntary: u64,
    pub(super) involuntary: u64,
}

/// How often threads are looked at: what one does after the last look before it ends is not seen.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Ticks of the times in `/proc` in a second.
const TICKS_PER_S: f64 = 100.0;

/// Watches a process and its children until it is over.
pub(super) fn watch(process: u32, over: &AtomicBool) -> Result<Effort> {
    let mut threads = HashMap::new();
    look(process, &mut threads, None)?;
    let (user_s, system_s) = times_s(process)?;
    let mut effort = Effort::default();
    while !over.load(Ordering::Relaxed) {
        sleep(LOOK_EVERY);
        look(process, &mut threads, Some(&mut effort))?;
    }
    let (user_after_s, system_after_s) = times_s(process)?;
    (effort.user_s, effort.system_s) = (user_after_s - user_s, system_after_s - system_s);
    Ok(effort)
}

/// Adds the switches since the last look. Threads that are new have had none before.
fn look(process: u32, threads: &mut HashMap<String, [u64; 2]>, effort: Option<&mut Effort>) -> Result<()> {
    let mut more = [0, 0];
    for process in family(process)? {
        let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
        for task in tasks.flatten() {
            // A thread that ended in between.
            let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
            let now = ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"].map(|name| {
                let value = status.lines().find_map(|line| line.strip_prefix(name));
                value.and_then(|value| value.trim().parse::<u64>().ok()).unwrap_or(0)
            });
            let name = task.file_name().to_string_lossy().into_owned();
            let before = threads.insert(name, now).unwrap_or([0, 0]);
            more.iter_mut().zip(now).zip(before).for_each(|((more, now), before)| {
                *more += now.saturating_sub(before);
            });
        }
    }
    if let Some(effort) = effort {
        effort.voluntary += more[0];
        effort.involuntary += more[1];
    }
    Ok(())
}

/// Processor time of a process with its children, threads that ended included.
fn times_s(process: u32) -> Result<(f64, f64)> {
    let mut ticks = [0, 0];
    for process in family(process)? {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        let (_, fields) = stat.rsplit_once(") ").context("a process without times")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        for (ticks, at) in ticks.iter_mut().zip([11, 12]) {
            *ticks += fields.get(at).context("a process without times")?.parse::<u64>()?;
        }
    }
    Ok((ticks[0] as f64 / TICKS_PER_S, ticks[1] as f64 / TICKS_PER_S))
}
