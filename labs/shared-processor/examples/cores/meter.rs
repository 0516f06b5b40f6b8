//! Clocks and counters.

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use std::fs;
use std::hint::black_box;
use std::mem::zeroed;
use std::os::fd::{FromRawFd, OwnedFd};

pub(crate) type Measured = Result<Value, String>;

/// Pins the calling thread, and those it will start, to one processor, and makes their timers
/// precise.
pub(crate) fn pin(cpu: u64) -> Result<(), String> {
    // Every compared program gets this; the default of 50 us would hide what is measured.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    sched_setaffinity(None, &set).map_err(|error| format!("cannot stay on processor {cpu}: {error}"))
}

/// SCHED_FIFO for the calling thread if `priority` is above 0. An error if it is refused, because a
/// measurement must not claim a priority that it did not have.
pub(crate) fn fifo(priority: u64) -> Result<(), String> {
    if priority == 0 {
        return Ok(());
    }
    match reel_rt::real_time("cores", priority as u8) {
        reel_rt::Scheduling::Fifo(_) => Ok(()),
        reel_rt::Scheduling::Ordinary => Err("SCHED_FIFO is not permitted".to_owned()),
    }
}

/// Processor time of the calling thread.
pub(crate) fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A fixed amount of work for each round, in registers.
pub(crate) fn work(rounds: u64) {
    let mut value = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..rounds {
        value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    black_box(value);
}

/// Processor time of `work(rounds)` on this processor: the median of many.
pub(crate) fn work_ns(rounds: u64) -> f64 {
    let mut each = Vec::new();
    for _ in 0..201 {
        let before = thread_cpu_ns();
        (0..100).for_each(|_| work(rounds));
        each.push((thread_cpu_ns() - before) as f64 / 100.0);
    }
    each.sort_by(f64::total_cmp);
    each[each.len() / 2]
}

/// The time of one reading of the clock: the median of many, one right after another.
pub(crate) fn clock_ns() -> f64 {
    let mut each: Vec<u64> =
        (0..1001).map(|_| (reel_rt::now_ns(), reel_rt::now_ns())).map(|(a, b)| b - a).collect();
    each.sort_unstable();
    percentile(&each, 0.5) as f64
}

/// How many rounds of work take `ns`.
pub(crate) fn rounds_of(ns: u64) -> u64 {
    (ns as f64 * 1_000.0 / work_ns(1_000)) as u64
}

/// Works without end: a busy process beside the measured one.
pub(crate) fn hog() -> Measured {
    loop {
        work(1_000_000);
    }
}

/// System calls and context switches from now on, of the calling thread and all threads that it
/// will start.
pub(crate) struct Calls {
    counter: Option<OwnedFd>,
}

impl Calls {
    /// Counts by the kernel's own tracepoint at the entry of every system call
    /// (`raw_syscalls:sys_enter`), so none can be missed. Calls that the vDSO answers without the
    /// kernel are not counted. Where the tracepoint cannot be used, there is no count.
    pub(crate) fn begin(wanted: bool) -> Calls {
        Calls { counter: wanted.then(open_counter).flatten() }
    }

    /// The number so far, minus the calls for reading the counter.
    pub(crate) fn so_far(&self) -> Option<u64> {
        let mut bytes = [0; 8];
        rustix::io::read(self.counter.as_ref()?, &mut bytes).ok()?;
        Some(u64::from_ne_bytes(bytes))
    }
}

fn open_counter() -> Option<OwnedFd> {
    const TRACEPOINT: u32 = 2;
    const INHERIT: u64 = 1 << 1;
    let id = fs::read_to_string("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id").ok()?;
    /// The first fields of `perf_event_attr`, as long as its first version (PERF_ATTR_SIZE_VER0, 64
    /// bytes).
    #[repr(C)]
    struct Attributes {
        kind: u32,
        size: u32,
        config: u64,
        sample_period: u64,
        sample_type: u64,
        read_format: u64,
        flags: u64,
        wakeup: u32,
        breakpoint: u32,
        config1: u64,
    }
    // SAFETY: all-zero is a valid value of a structure of integers.
    let mut attributes: Attributes = unsafe { zeroed() };
    attributes.kind = TRACEPOINT;
    attributes.size = size_of::<Attributes>() as u32;
    attributes.config = id.trim().parse().ok()?;
    attributes.flags = INHERIT;
    // SAFETY: the structure outlives the call and states its size; 0 and -1 mean the calling thread
    // on any processor.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &attributes, 0, -1, -1, 0) };
    // SAFETY: a fresh descriptor that nothing else owns, if it is not negative.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The value below which the share `part` of the sorted values lies.
pub(crate) fn percentile(sorted: &[u64], part: f64) -> u64 {
    let index = (sorted.len() as f64 * part) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
}
