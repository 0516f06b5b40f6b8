//! One member being measured, by the plan.

use super::batch::{Batch, Bench, Ran};
use super::error::ProbeError;
use super::places::{Places, Random};
use super::plan::{CellPlan, Plan};
use super::scratch::Scratch;
use crate::limits::{DEVICE_REQUESTS_MAX, PROBE_WINDOW_REQUESTS_MAX};
use crate::member::MemberFile;
use crate::profile::{Cell, DeviceIdentity, Locality, Measured, Profile, Window, WindowKind};
use reel_ring::DriverChoice;
use reel_rt::now_ns;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A member that can be measured.
pub(super) struct Subject {
    pub(super) path: PathBuf,
    pub(super) member: MemberFile,
    pub(super) device: DeviceIdentity,
    pub(super) places: Places,
    pub(super) scratch: Option<Scratch>,
}

/// Places are chosen anew after so many: a sweep of them is sorted, as a round is.
const SWEEP_REQUESTS: usize = 64;

/// Requests of a cell, at least: on a hard disk they take more than the time there is for it.
const CELL_REQUESTS_MIN: usize = 4;

/// Windows of one kind and size while they are measured.
struct Series {
    bytes: usize,
    places: Places,
    /// Of each window.
    requests: usize,
    times_ns: Vec<u64>,
    least_writes: u32,
}

/// A measurement under way.
struct Work<'a> {
    subject: &'a mut Subject,
    bench: Bench,
    random: Random,
    begun_ns: u64,
    stop: &'a AtomicBool,
}

impl Subject {
    /// Everything that takes time and is not measured. On the thread that measures.
    pub(super) fn prepare(&self, driver: DriverChoice) -> Result<Bench, ProbeError> {
        let mut bench = Bench::new(driver, &self.path)?;
        if let Some(scratch) = &self.scratch {
            bench.fill(scratch)?;
        }
        Ok(bench)
    }

    pub(super) fn measure(
        &mut self,
        bench: Bench,
        plan: &Plan,
        now_unix_s: u64,
        together: u32,
        stop: &AtomicBool,
    ) -> Result<Profile, ProbeError> {
        // Another seed every time: places that were read a moment ago may be in the drive's memory.
        let random = Random::new(now_ns() ^ self.device.inode.rotate_left(32));
        let mut work = Work { subject: self, bench, random, begun_ns: now_ns(), stop };
        let cells = work.cells(plan)?;
        let mut windows = work.windows(plan, WindowKind::Read, plan.reads_until_ns)?;
        if plan.writes {
            windows.extend(work.windows(plan, WindowKind::ReadBesideWrites, plan.beside_until_ns)?);
            windows.extend(work.windows(plan, WindowKind::Write, plan.time_ns)?);
        }
        let measured = Measured {
            measured_unix_s: now_unix_s,
            quick: plan.cells.is_empty(),
            together,
            data_bytes: self.places.bytes(),
            device: self.device.clone(),
            cells,
            windows,
        };
        Profile::new(measured).map_err(|source| ProbeError::Profile { path: self.path.clone(), source })
    }
}

impl Work<'_> {
    fn cells(&mut self, plan: &Plan) -> Result<Vec<Cell>, ProbeError> {
        let mut cells = Vec::new();
        for (cell, end_ns) in &plan.cells {
            self.go_on()?;
            let Some(places) = self.subject.places.holding(cell.bytes) else { continue };
            let mut times_ns = self.cell(cell, &places, self.begun_ns + end_ns)?.service_ns;
            times_ns.sort_unstable();
            cells.push(Cell {
                bytes: cell.bytes as u64,
                depth: cell.depth as u32,
                locality: cell.locality,
                beside_writes: cell.beside_writes,
                requests: times_ns.len() as u32,
                p50_ns: percentile(&times_ns, 50),
                p99_ns: percentile(&times_ns, 99),
            });
        }
        Ok(cells)
    }

    fn cell(&mut self, cell: &CellPlan, places: &Places, until_ns: u64) -> Result<Ran, ProbeError> {
        let Self { subject, bench, random, stop, .. } = self;
        let bytes = cell.bytes;
        let batch = Batch {
            file: subject.member.ring_file(),
            bytes,
            depth: cell.depth,
            least: CELL_REQUESTS_MIN,
            until_ns,
            stop,
            beside: subject.scratch.as_mut().filter(|_| cell.beside_writes),
            write: false,
        };
        match cell.locality {
            Locality::Sequential => bench.run(batch, &mut places.sequence(bytes, random)),
            Locality::Random => {
                bench.run(batch, &mut std::iter::repeat_with(|| places.random(bytes, random)))
            }
            Locality::Sorted => {
                let sweeps = std::iter::repeat_with(|| sorted(places, SWEEP_REQUESTS, bytes, random));
                bench.run(batch, &mut sweeps.flatten())
            }
        }
    }

    fn windows(&mut self, plan: &Plan, kind: WindowKind, until_ns: u64) -> Result<Vec<Window>, ProbeError> {
        let mut all = Vec::new();
        for &bytes in &plan.sizes {
            if let Some(places) = self.places(kind).holding(bytes) {
                self.go_on()?;
                let requests = self.requests(plan, kind, bytes, &places)?;
                all.push(Series { bytes, places, requests, times_ns: Vec::new(), least_writes: u32::MAX });
            }
        }
        // Sizes take turns, so that a disturbance meets all of them and the end of the time none alone.
        for round in 0.. {
            for series in &mut all {
                self.go_on()?;
                let is_over = now_ns() + plan.window_ns / 2 > self.begun_ns + until_ns;
                if round > 0 && is_over {
                    return Ok(all_windows(kind, &all));
                }
                self.window(plan, kind, round, series)?;
            }
            if all.is_empty() {
                break;
            }
        }
        Ok(Vec::new())
    }

    /// How many requests make a window of the length that is aimed at.
    fn requests(
        &mut self,
        plan: &Plan,
        kind: WindowKind,
        bytes: usize,
        places: &Places,
    ) -> Result<usize, ProbeError> {
        let ran = self.run(kind, bytes, now_ns() + plan.window_ns / 4, |random| {
            sorted(places, PROBE_WINDOW_REQUESTS_MAX.min(SWEEP_REQUESTS * 16), bytes, random)
        })?;
        let each_ns = (ran.elapsed_ns / ran.service_ns.len().max(1) as u64).max(1);
        let requests = usize::try_from(plan.window_ns / each_ns).unwrap_or(usize::MAX);
        Ok(requests.clamp(2 * DEVICE_REQUESTS_MAX, PROBE_WINDOW_REQUESTS_MAX))
    }

    fn window(
        &mut self,
        plan: &Plan,
        kind: WindowKind,
        round: usize,
        series: &mut Series,
    ) -> Result<(), ProbeError> {
        let Series { bytes, requests, .. } = *series;
        // A title lies together: a round of a hard disk may be all in its slow zone, or jump over all of it.
        let places = match round % 4 {
            1 => series.places.eighths(7, 8, bytes),
            3 => series.places.eighths(0, 1, bytes),
            _ => series.places.clone(),
        };
        let ran = self.run(kind, bytes, now_ns() + 4 * plan.window_ns, |random| {
            sorted(&places, requests, bytes, random)
        })?;
        // One that was cut off counts as if it had gone on like this.
        let done = ran.service_ns.len().max(1) as u128;
        let whole_ns = (u128::from(ran.elapsed_ns) * requests as u128).div_ceil(done);
        series.times_ns.push(u64::try_from(whole_ns).unwrap_or(u64::MAX));
        series.least_writes = series.least_writes.min(ran.writes);
        Ok(())
    }

    fn run(
        &mut self,
        kind: WindowKind,
        bytes: usize,
        until_ns: u64,
        places: impl FnOnce(&mut Random) -> Vec<u64>,
    ) -> Result<Ran, ProbeError> {
        let Self { subject, bench, random, stop, .. } = self;
        let write = kind == WindowKind::Write;
        let scratch_file = subject.scratch.as_ref().map(|scratch| Arc::clone(scratch.file()));
        let file = scratch_file.filter(|_| write).unwrap_or_else(|| Arc::clone(subject.member.ring_file()));
        let batch = Batch {
            file: &file,
            bytes,
            depth: DEVICE_REQUESTS_MAX,
            least: DEVICE_REQUESTS_MAX,
            until_ns,
            stop,
            beside: subject.scratch.as_mut().filter(|_| kind == WindowKind::ReadBesideWrites),
            write,
        };
        bench.run(batch, &mut places(random).into_iter())
    }

    fn places(&self, kind: WindowKind) -> &Places {
        match &self.subject.scratch {
            Some(scratch) if kind == WindowKind::Write => scratch.places(),
            _ => &self.subject.places,
        }
    }

    fn go_on(&self) -> Result<(), ProbeError> {
        if self.stop.load(Ordering::Relaxed) { Err(ProbeError::Stopped) } else { Ok(()) }
    }
}

fn all_windows(kind: WindowKind, all: &[Series]) -> Vec<Window> {
    let window = |series: &Series| {
        let mut times_ns = series.times_ns.clone();
        times_ns.sort_unstable();
        Window {
            kind,
            bytes: series.bytes as u64,
            requests: series.requests as u32,
            writes: if kind == WindowKind::ReadBesideWrites { series.least_writes } else { 0 },
            windows: times_ns.len() as u32,
            p50_ns: percentile(&times_ns, 50),
            p99_ns: percentile(&times_ns, 99),
        }
    };
    all.iter().map(window).collect()
}

/// Random places in the order in which a sweep meets them.
fn sorted(places: &Places, count: usize, bytes: usize, random: &mut Random) -> Vec<u64> {
    let mut sweep: Vec<u64> = (0..count).map(|_| places.random(bytes, random)).collect();
    sweep.sort_unstable();
    sweep
}

/// The least of these, in ascending order, that so many per cent are not above; 0 of none.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}
