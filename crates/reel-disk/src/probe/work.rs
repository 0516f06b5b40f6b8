//! One member being measured, by the plan.

use super::Probe;
use super::batch::{Batch, BatchResult, Bench};
use super::block_ranges::{BlockRanges, Random};
use super::error::ProbeError;
use super::mixture::Mixture;
use super::plan::{CellPlan, Plan, WindowPlan};
use super::repeats::Repeats;
use super::rounds::Participant;
use super::scratch::Scratch;
use super::series::{
    Series, Sweep, disturbances, left_out, measured, percentile, requests_of_run, settle, worth_mixing,
};
use crate::limits::{DEVICE_NS_MAX, DEVICE_REQUESTS_MAX, PROBE_WINDOW_REQUESTS_MAX, SEEKING_REQUESTS_MAX};
use crate::member::MemberFile;
use crate::profile::{Cell, DeviceIdentity, Locality, Measured, Profile, WindowKind};
use reel_qos::limits::ROTATIONAL_REQUEST_NS;
use reel_rt::now_ns;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A member that can be measured.
pub(super) struct Subject {
    pub(super) path: PathBuf,
    pub(super) member: MemberFile,
    pub(super) device: DeviceIdentity,
    pub(super) block_ranges: BlockRanges,
    pub(super) scratch: Option<Scratch>,
}

/// New places are chosen after this many: a sweep of them is sorted, as a round is.
const SWEEP_REQUESTS: usize = 64;

/// The part of a window in which a device gets into step: a fifth.
const WARM_UP_PART: u64 = 5;

/// A measurement in progress.
struct Work<'a> {
    subject: &'a mut Subject,
    bench: Bench,
    random: Random,
    begun_ns: u64,
    /// Whether seeks take so long that the scheduler will treat the member as rotational. Known
    /// from the first trial on.
    is_rotational: Option<bool>,
    stop: &'a AtomicBool,
}

impl Subject {
    /// Everything that takes time and is not measured. On the thread that measures.
    pub(super) fn prepare(&self, probe: &Probe) -> Result<Bench, ProbeError> {
        let mut bench = Bench::new(probe, &self.path)?;
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
        (together, participant): (u32, Participant<'_>),
        stop: &AtomicBool,
    ) -> Result<Profile, ProbeError> {
        // Another seed every time: places that were read a moment ago may be in the drive's memory.
        let huge_pages = bench.has_huge_pages();
        let random = Random::new(now_ns() ^ self.device.inode.rotate_left(32));
        let mut work = Work { subject: self, bench, random, begun_ns: now_ns(), is_rotational: None, stop };
        let mut repeats = Repeats::default();
        loop {
            let all = work.rounds(plan, &participant)?;
            let measured = Measured {
                measured_unix_s: now_unix_s,
                quick: plan.quick,
                huge_pages,
                together,
                data_bytes: work.subject.block_ranges.bytes(),
                device: work.subject.device.clone(),
                cells: work.cells(plan)?,
                windows: measured(&all),
                disturbances: Some(repeats.with(disturbances(&all))),
            };
            let found = Profile::new(measured);
            // Members are measured at the same time, the repeated ones too.
            if !participant.another(repeats.are_wanted(&found)) {
                let path = work.subject.path.clone();
                return found.map_err(|source| ProbeError::Profile { path, source });
            }
            repeats.add(left_out(&all));
            work.begun_ns = now_ns();
        }
    }
}

impl Work<'_> {
    fn cells(&mut self, plan: &Plan) -> Result<Vec<Cell>, ProbeError> {
        let mut cells = Vec::new();
        for (cell, end_ns) in &plan.cells {
            self.proceed()?;
            let Some(block_ranges) = self.subject.block_ranges.holding(cell.bytes) else { continue };
            let end_ns = self.begun_ns + end_ns;
            // On a slow disk the cells before took all of its time.
            if now_ns() >= end_ns {
                continue;
            }
            let mut times_ns = self.cell(cell, &block_ranges, end_ns)?.service_ns;
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

    fn cell(
        &mut self,
        cell: &CellPlan,
        block_ranges: &BlockRanges,
        until_ns: u64,
    ) -> Result<BatchResult, ProbeError> {
        let Self { subject, bench, random, stop, .. } = self;
        let bytes = cell.bytes;
        let batch = Batch {
            file: subject.member.ring_file(),
            bytes,
            mixture: None,
            depth: cell.depth,
            least: 1,
            until_ns,
            warm_at_ns: 0,
            stop,
            beside: subject.scratch.as_mut().filter(|_| cell.beside_writes),
            write: false,
        };
        match cell.locality {
            Locality::Sequential => bench.run(batch, &mut block_ranges.sequence(bytes, random)),
            Locality::Random => {
                bench.run(batch, &mut std::iter::repeat_with(|| block_ranges.random(bytes, random)))
            }
            Locality::Sorted => {
                let sweeps = std::iter::repeat_with(|| sorted(block_ranges, SWEEP_REQUESTS, bytes, random));
                bench.run(batch, &mut sweeps.flatten())
            }
        }
    }

    /// Windows by the plan, and again while they do not agree.
    fn rounds(&mut self, plan: &Plan, participant: &Participant<'_>) -> Result<Vec<Series>, ProbeError> {
        let mut all = Vec::new();
        let mut left = plan.rounds_max;
        loop {
            self.windows(plan, &mut all)?;
            left -= 1;
            let is_settled = settle(&mut all);
            if !participant.another(left > 0 && !is_settled) {
                // Cells have their times on the same clock.
                self.begun_ns = now_ns().saturating_sub(plan.windows_ns);
                return Ok(all);
            }
            self.begun_ns = now_ns();
        }
    }

    fn windows(&mut self, plan: &Plan, all: &mut Vec<Series>) -> Result<(), ProbeError> {
        let is_first = all.is_empty();
        let mut is_mixed = all.iter().any(|series| series.kind == WindowKind::ReadMixed);
        let mut turn = 0;
        for window in &plan.windows {
            self.proceed()?;
            let mixes = window.kind == WindowKind::ReadMixed;
            if window.is_trial {
                if is_first {
                    let mixture = if mixes { worth_mixing(all) } else { None };
                    is_mixed = mixture.is_some();
                    if !mixes || is_mixed {
                        all.extend(self.trial(plan, window, mixture)?);
                    }
                }
                continue;
            }
            let series = if mixes && !is_mixed {
                // Nothing is worth mixing: single sizes are known the better for it.
                turn += 1;
                let is_read = |series: &Series| series.kind == WindowKind::Read;
                let sizes = all.iter().filter(|series| is_read(series)).count().max(1);
                all.iter_mut().filter(|series| is_read(series)).nth(turn % sizes)
            } else {
                // Of mixtures the last one.
                all.iter_mut().rfind(|series| (series.kind, series.bytes) == (window.kind, window.bytes))
            };
            if let Some(series) = series {
                let window = WindowPlan { kind: series.kind, bytes: series.bytes, ..window.clone() };
                self.window(&window, series)?;
            }
        }
        Ok(())
    }

    /// How many requests make a window of the planned length; nothing if the member has no place
    /// for such requests.
    fn trial(
        &mut self,
        plan: &Plan,
        window: &WindowPlan,
        mixture: Option<Mixture>,
    ) -> Result<Option<Series>, ProbeError> {
        let WindowPlan { kind, bytes, .. } = *window;
        let Some(block_ranges) = self.block_ranges(kind).holding(bytes) else { return Ok(None) };
        let depth_max =
            if self.is_rotational == Some(true) { SEEKING_REQUESTS_MAX } else { DEVICE_REQUESTS_MAX };
        let sweep = Sweep { requests: SWEEP_REQUESTS, depth: depth_max, mixture };
        let Some(result) = self.run(window, &block_ranges, sweep, true)? else { return Ok(None) };
        let each_ns = (result.elapsed_ns / result.service_ns.len().max(1) as u64).max(1);
        let requests = usize::try_from(plan.window_ns / each_ns).unwrap_or(usize::MAX);
        let requests = requests.clamp(DEVICE_REQUESTS_MAX, PROBE_WINDOW_REQUESTS_MAX);
        let requests = requests.next_multiple_of(requests_of_run(kind));
        // As the scheduler bounds it, by requests, bytes and time.
        let depth = usize::try_from(DEVICE_NS_MAX / each_ns).unwrap_or(usize::MAX);
        let is_rotational = *self.is_rotational.get_or_insert(each_ns >= ROTATIONAL_REQUEST_NS);
        let depth_max = if is_rotational { SEEKING_REQUESTS_MAX } else { DEVICE_REQUESTS_MAX };
        let sweep = Sweep { requests, depth: depth.clamp(1, depth_max), mixture };
        Ok(Some(Series::new(kind, bytes, block_ranges, sweep)))
    }

    fn window(&mut self, window: &WindowPlan, series: &mut Series) -> Result<(), ProbeError> {
        let zone = series.block_ranges.eighths(window.zone.start, window.zone.end, window.bytes);
        let is_first = series.is_empty();
        if let Some(result) = self.run(window, &zone, series.sweep, is_first)? {
            series.add(window, &result, self.is_rotational == Some(true));
        }
        Ok(())
    }

    /// Sweeps of this many requests until the time is over. Nothing if most of it is over already,
    /// unless it must be.
    fn run(
        &mut self,
        window: &WindowPlan,
        block_ranges: &BlockRanges,
        sweep: Sweep,
        must_be: bool,
    ) -> Result<Option<BatchResult>, ProbeError> {
        let WindowPlan { kind, bytes, .. } = *window;
        let Self { subject, bench, random, stop, begun_ns, .. } = self;
        let (from_ns, mut until_ns) = (*begun_ns + window.time_ns.start, *begun_ns + window.time_ns.end);
        let file = match &subject.scratch {
            Some(scratch) if kind == WindowKind::Write => Arc::clone(scratch.file()),
            _ => Arc::clone(subject.member.ring_file()),
        };
        // Sorted before the time begins.
        let of_run = requests_of_run(kind);
        let unit_bytes = bytes / of_run;
        let first = sorted_runs(block_ranges, sweep.requests, (bytes, of_run), random);
        let now = now_ns();
        if now > from_ns + (until_ns - from_ns) / 2 {
            if !must_be {
                return Ok(None);
            }
            until_ns = now + (until_ns - from_ns);
        }
        std::thread::sleep(Duration::from_nanos(from_ns.saturating_sub(now)));
        let batch = Batch {
            file: &file,
            bytes: unit_bytes,
            mixture: sweep.mixture,
            depth: sweep.depth,
            least: sweep.depth,
            until_ns,
            warm_at_ns: from_ns.max(now) + (until_ns - from_ns) / WARM_UP_PART,
            stop,
            beside: subject.scratch.as_mut().filter(|_| kind == WindowKind::ReadBesideWrites),
            write: kind == WindowKind::Write,
        };
        let others =
            std::iter::repeat_with(|| sorted_runs(block_ranges, sweep.requests, (bytes, of_run), random))
                .flatten();
        bench.run(batch, &mut first.into_iter().chain(others)).map(Some)
    }

    fn block_ranges(&self, kind: WindowKind) -> &BlockRanges {
        match &self.subject.scratch {
            Some(scratch) if kind == WindowKind::Write => scratch.block_ranges(),
            _ => &self.subject.block_ranges,
        }
    }

    fn proceed(&self) -> Result<(), ProbeError> {
        if self.stop.load(Ordering::Relaxed) { Err(ProbeError::Stopped) } else { Ok(()) }
    }
}

/// As [`sorted`], with `count` requests in all. Groups of `of_run` are behind one another and have
/// `bytes` together.
fn sorted_runs(
    block_ranges: &BlockRanges,
    count: usize,
    (bytes, of_run): (usize, usize),
    random: &mut Random,
) -> Vec<u64> {
    let runs = sorted(block_ranges, count / of_run, bytes, random);
    let each = (bytes / of_run) as u64;
    runs.into_iter().flat_map(|run| (0..of_run as u64).map(move |number| run + number * each)).collect()
}

/// Random places in the order in which a sweep meets them.
fn sorted(block_ranges: &BlockRanges, count: usize, bytes: usize, random: &mut Random) -> Vec<u64> {
    let mut sweep: Vec<u64> = (0..count).map(|_| block_ranges.random(bytes, random)).collect();
    sweep.sort_unstable();
    sweep
}
