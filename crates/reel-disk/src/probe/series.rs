//! Windows of one kind and size, while they are measured.

use super::agreement::{Agreement, Taken, Zone, agreement, are_settled};
use super::batch::BatchResult;
use super::block_ranges::BlockRanges;
use super::mixture::Mixture;
use super::plan::WindowPlan;
use crate::limits::PROBE_RUN_UNITS;
use crate::profile::{Disturbances, Window, WindowKind, runs_need_one_seek};

/// Requests in step that make a window; if there are fewer, all of it counts.
const IN_STEP_MIN: usize = 8;

/// Windows of one kind and size.
pub(super) struct Series {
    pub(super) kind: WindowKind,
    /// Of each request or run, or of the largest that are mixed.
    pub(super) bytes: usize,
    pub(super) block_ranges: BlockRanges,
    pub(super) sweep: Sweep,
    taken: Vec<Taken>,
    least_writes: u32,
    /// Further windows only keep the load on what members share. They do not count.
    is_settled: bool,
}

/// Requests that are sorted together, and how they are handed over.
#[derive(Clone, Copy)]
pub(super) struct Sweep {
    /// A multiple of the requests of a run.
    pub(super) requests: usize,
    /// In the device at once, at most.
    pub(super) depth: usize,
    pub(super) mixture: Option<Mixture>,
}

impl Series {
    /// Nothing was measured yet.
    pub(super) fn new(kind: WindowKind, bytes: usize, block_ranges: BlockRanges, sweep: Sweep) -> Self {
        Self {
            kind,
            bytes,
            block_ranges,
            sweep,
            taken: Vec::new(),
            least_writes: u32::MAX,
            is_settled: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// Adds a window. Windows end by the clock; each counts as if it had as many requests as the
    /// others. The parts of a member differ if it is rotational.
    pub(super) fn add(&mut self, window: &WindowPlan, result: &BatchResult, is_rotational: bool) {
        if self.is_settled {
            return;
        }
        let (elapsed_ns, done, writes) = match result.in_step {
            // Writes are over when they are durable.
            step if step.requests >= IN_STEP_MIN && window.kind != WindowKind::Write => {
                (step.elapsed_ns(), step.requests, step.writes)
            }
            _ => (result.elapsed_ns, result.service_ns.len().max(1), result.writes),
        };
        let requests = self.sweep.requests as u128;
        let whole = |part: u128| u64::try_from(part * requests / done as u128).unwrap_or(u64::MAX);
        let zone = match window.zone {
            _ if !is_rotational => None,
            std::ops::Range { start: 0, end: 1 } => Some(Zone::First),
            std::ops::Range { start: 7, .. } => Some(Zone::Last),
            _ => None,
        };
        let longest_ns = result.service_ns.iter().copied().max().unwrap_or(0);
        self.taken.push(Taken { zone, time_ns: whole(elapsed_ns.into()).max(1), longest_ns });
        let writes = u32::try_from(whole(writes.into())).unwrap_or(u32::MAX);
        self.least_writes = self.least_writes.min(writes);
    }

    /// What its windows say. Those with writes all count: the memory of a drive makes the first
    /// ones fast, and others slow.
    fn agreement(&self) -> Agreement {
        if !self.only_reads() {
            let mut kept_ns: Vec<u64> = self.taken.iter().map(|window| window.time_ns).collect();
            kept_ns.sort_unstable();
            return Agreement { kept_ns, is_settled: true, ..Agreement::default() };
        }
        agreement(&self.taken)
    }

    fn only_reads(&self) -> bool {
        matches!(self.kind, WindowKind::Read | WindowKind::ReadRun | WindowKind::ReadMixed)
    }

    fn window(&self) -> Window {
        let times_ns = self.agreement().kept_ns;
        Window {
            kind: self.kind,
            bytes: self.sweep.mixture.map_or(self.bytes, |mixture| mixture.average_bytes()) as u64,
            requests: (self.sweep.requests / requests_of_run(self.kind)) as u32,
            writes: if self.kind == WindowKind::ReadBesideWrites { self.least_writes } else { 0 },
            windows: times_ns.len() as u32,
            p50_ns: percentile(&times_ns, 50),
            p99_ns: percentile(&times_ns, 99),
        }
    }
}

/// Whether the windows of each kind and size agree now. Of mixtures only the last one is measured
/// on.
pub(super) fn settle(all: &mut [Series]) -> bool {
    let last_mixed = all.iter().rposition(|series| series.kind == WindowKind::ReadMixed);
    let measured_on = all.iter_mut().enumerate().filter(|(place, series)| {
        let is_left = series.kind == WindowKind::ReadMixed && last_mixed != Some(*place);
        !series.is_empty() && series.only_reads() && !is_left
    });
    let mut measured_on: Vec<&mut Series> = measured_on.map(|(_, series)| series).collect();
    let settled = are_settled(&measured_on.iter().map(|series| series.agreement()).collect::<Vec<_>>());
    for (series, is_settled) in measured_on.iter_mut().zip(&settled) {
        series.is_settled = *is_settled;
    }
    settled.iter().all(|is_settled| *is_settled)
}

/// What all windows say.
pub(super) fn measured(all: &[Series]) -> Vec<Window> {
    all.iter().filter(|series| !series.is_empty()).map(Series::window).collect()
}

/// The windows of reads that do not count, and those that do not agree.
pub(super) fn disturbances(all: &[Series]) -> Disturbances {
    let mut sum = Disturbances::default();
    for series in all.iter().filter(|series| !series.is_empty() && series.only_reads()) {
        let agreement = series.agreement();
        sum.windows += series.taken.len() as u32;
        sum.left_out += agreement.disturbed as u32;
        sum.stall_ns = sum.stall_ns.max(agreement.stall_ns);
        sum.unsettled += u32::from(!agreement.is_settled);
    }
    sum
}

/// The windows of reads of a measurement that is not believed: none of them counts.
pub(super) fn left_out(all: &[Series]) -> Disturbances {
    let taken = || all.iter().filter(|series| series.only_reads()).flat_map(|series| &series.taken);
    let windows = taken().count() as u32;
    let stall_ns = taken().map(|window| window.longest_ns).max().unwrap_or(0);
    Disturbances { windows, left_out: windows, stall_ns, unsettled: 0 }
}

/// The mixture that is worth measuring: first by single sizes, then by the mixture before. None on
/// a rotational disk, where requests and bytes add up in any case.
pub(super) fn worth_mixing(all: &[Series]) -> Option<Mixture> {
    if runs_need_one_seek(&measured(all)) {
        return None;
    }
    let of = |kind| all.iter().filter(move |series| series.kind == kind && !series.is_empty());
    let each = |series: &Series| {
        let Window { bytes, p50_ns, requests, .. } = series.window();
        (bytes as usize, p50_ns / u64::from(requests.max(1)))
    };
    let smallest = of(WindowKind::Read).min_by_key(|series| series.bytes).map(each)?;
    let largest = of(WindowKind::Read).max_by_key(|series| series.bytes).map(each)?;
    let Some(mixed) = of(WindowKind::ReadMixed).next_back() else {
        return Mixture::at_the_knee(smallest, largest);
    };
    mixed.sweep.mixture?.nearer_the_knee(smallest.1, each(mixed).1)
}

/// Requests of a run.
pub(super) fn requests_of_run(kind: WindowKind) -> usize {
    if kind == WindowKind::ReadRun { PROBE_RUN_UNITS } else { 1 }
}

/// The least of these, in ascending order, that is not below this part of them, in per cent; 0 of
/// none.
pub(super) fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}
