//! How the time of a measurement is divided. Pure.
//!
//! Everything has its time on a clock that all members share, so that they do the same at the same
//! time. Beside small requests to one member, large ones to another would look faster than they
//! are.

use super::Probe;
use crate::limits::{
    BLOCK_BYTES, DEVICE_REQUESTS_MAX, PROBE_MIXTURES, PROBE_QUICK_TIMES_MAX, PROBE_RUN_UNITS, PROBE_SIZES,
    PROBE_TIMES_MAX, PROBE_WINDOW_NS, PROBE_WINDOWS,
};
use crate::profile::{Locality, WindowKind};
use std::ops::Range;

/// What is measured when, in nanoseconds from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Windows in the order of their times.
    pub(super) windows: Vec<WindowPlan>,
    /// Cells, each with the time at which it ends. They come after all windows, which make the
    /// price. When there is little time, only those that limit how far a price may fall.
    pub(super) cells: Vec<(CellPlan, u64)>,
    /// Whether there is little time.
    pub(super) quick: bool,
    /// When the windows are over.
    pub(super) windows_ns: u64,
    /// How often windows are measured at most, if they do not agree.
    pub(super) rounds_max: u64,
    /// When everything is over, if they agree at once.
    pub(super) time_ns: u64,
    /// Length of a window.
    pub(super) window_ns: u64,
}

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CellPlan {
    pub(super) bytes: usize,
    pub(super) depth: usize,
    pub(super) locality: Locality,
    pub(super) beside_writes: bool,
}

/// One window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WindowPlan {
    pub(super) kind: WindowKind,
    /// Of a request, of a run, or of the largest of a mixture.
    pub(super) bytes: usize,
    /// Which eighths of the written parts.
    pub(super) zone: Range<u64>,
    /// When, from the start.
    pub(super) time_ns: Range<u64>,
    /// Finds how many requests make a window; its own time does not count.
    pub(super) is_trial: bool,
}

impl Plan {
    pub(super) fn new(probe: &Probe) -> Plan {
        let Probe { time_ns, quick, writes, unit_bytes, .. } = *probe;
        let sizes = sizes(unit_bytes, quick);
        // In thousandths of the time: cells, windows of reads, of reads beside writes, of writes.
        let [cells_share, reads_share, beside_share, writes_share] = match (quick, writes) {
            (true, false) => [250, 750, 0, 0],
            (false, false) => [350, 650, 0, 0],
            (true, true) => [200, 480, 160, 160],
            (false, true) => [300, 350, 150, 200],
        };
        let part = |permille: u64| (u128::from(time_ns) * u128::from(permille) / 1000) as u64;
        let cells = if quick { quick_cells(&sizes) } else { cells(writes) };
        let [shortest, longest] = PROBE_WINDOW_NS;
        // Runs, and mixtures where there is time. Without mixtures a price adds up requests and
        // bytes that may have independent limits, and is too high.
        let mixtures = if quick { 0 } else { PROBE_MIXTURES };
        let others = 1 + mixtures;
        let series = sizes.len() as u64 + others;
        let window_ns = (part(reads_share) / (PROBE_WINDOWS * series)).clamp(shortest, longest);
        let mut windows = Windows { all: Vec::new(), at_ns: 0, window_ns };
        windows.add(WindowKind::Read, &sizes, part(reads_share) / series * (series - others));
        windows.add(WindowKind::ReadRun, &[PROBE_RUN_UNITS * unit(unit_bytes)], part(reads_share) / series);
        for _ in 0..mixtures {
            // After the windows that determine the mixture: single sizes, then the mixture before.
            windows.add(WindowKind::ReadMixed, &[unit(unit_bytes)], part(reads_share) / series);
        }
        if writes {
            windows.add(WindowKind::ReadBesideWrites, &sizes, part(beside_share));
            windows.add(WindowKind::Write, &sizes, part(writes_share));
        }
        let Windows { all: windows, at_ns: windows_ns, .. } = windows;
        let each_ns = part(cells_share) / cells.len().max(1) as u64;
        let time_ns = windows_ns + each_ns * cells.len() as u64;
        let ends = (1..).map(|number| windows_ns + each_ns * number);
        let times_max = if quick { PROBE_QUICK_TIMES_MAX } else { PROBE_TIMES_MAX };
        let rounds_max = (probe.time_ns.saturating_mul(times_max) / windows_ns.max(1)).max(1);
        let cells = cells.into_iter().zip(ends).collect();
        Plan { windows, cells, quick, windows_ns, rounds_max, time_ns, window_ns }
    }
}

struct Windows {
    all: Vec<WindowPlan>,
    at_ns: u64,
    window_ns: u64,
}

impl Windows {
    /// As many as fit into the time, and at least one of each size. Sizes alternate, so that a
    /// disturbance meets all of them.
    fn add(&mut self, kind: WindowKind, sizes: &[usize], time_ns: u64) {
        let trial_ns = self.window_ns / 4;
        for &bytes in sizes {
            self.push(kind, bytes, 0..8, trial_ns, true);
        }
        let left_ns = time_ns.saturating_sub(trial_ns * sizes.len() as u64);
        let count = usize::try_from(left_ns / self.window_ns).unwrap_or(usize::MAX).max(sizes.len());
        for number in 0..count {
            // A title is stored in one area: a round of a hard disk may be all in its slow zone, or
            // never touch it.
            let zone = match number / sizes.len() % 4 {
                1 => 7..8,
                3 => 0..1,
                _ => 0..8,
            };
            self.push(kind, sizes[number % sizes.len()], zone, self.window_ns, false);
        }
    }

    fn push(&mut self, kind: WindowKind, bytes: usize, zone: Range<u64>, length_ns: u64, is_trial: bool) {
        let time_ns = self.at_ns..self.at_ns + length_ns;
        self.at_ns = time_ns.end;
        self.all.push(WindowPlan { kind, bytes, zone, time_ns, is_trial });
    }
}

/// A block, a quarter of a unit and a unit: all reads of members are of sizes in between. A larger
/// size would only raise the price.
fn sizes(unit_bytes: usize, quick: bool) -> Vec<usize> {
    let block = BLOCK_BYTES as usize;
    let unit = unit(unit_bytes);
    let mut sizes = vec![block, (unit / 4).next_multiple_of(block), unit];
    sizes.dedup();
    if quick {
        sizes.retain(|&size| size == block || size == unit);
    }
    sizes
}

/// Whole blocks, and more than one.
fn unit(unit_bytes: usize) -> usize {
    unit_bytes.next_multiple_of(BLOCK_BYTES as usize).max(2 * BLOCK_BYTES as usize)
}

/// What single requests of the sizes that make the price take, with as many as possible in the
/// device.
fn quick_cells(sizes: &[usize]) -> Vec<CellPlan> {
    let (depth, locality, beside_writes) = (DEVICE_REQUESTS_MAX, Locality::Random, false);
    sizes.iter().map(|&bytes| CellPlan { bytes, depth, locality, beside_writes }).collect()
}

fn cells(writes: bool) -> Vec<CellPlan> {
    let mut cells = Vec::new();
    for beside_writes in [false, true].into_iter().take(1 + usize::from(writes)) {
        for bytes in PROBE_SIZES {
            for depth in [1, DEVICE_REQUESTS_MAX] {
                for locality in [Locality::Sequential, Locality::Sorted, Locality::Random] {
                    cells.push(CellPlan { bytes, depth, locality, beside_writes });
                }
            }
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_ring::DriverChoice;

    const UNIT_BYTES: usize = 264 << 10;

    fn plan(time_s: u64, quick: bool, writes: bool) -> Plan {
        plan_of(time_s * 1_000_000_000, quick, writes)
    }

    fn plan_of(time_ns: u64, quick: bool, writes: bool) -> Plan {
        let (unit_bytes, driver, huge_pages) = (UNIT_BYTES, DriverChoice::Auto, true);
        Plan::new(&Probe { time_ns, quick, writes, unit_bytes, driver, huge_pages })
    }

    #[test]
    fn one_thing_at_a_time_and_no_gaps() {
        for (quick, writes) in [(true, false), (false, false), (true, true), (false, true)] {
            for time_s in [0, 1, 3, 600] {
                let plan = plan(time_s, quick, writes);
                let mut at_ns = 0;
                for window in &plan.windows {
                    assert_eq!(window.time_ns.start, at_ns);
                    at_ns = window.time_ns.end;
                }
                let ends: Vec<u64> = plan.cells.iter().map(|(_, end_ns)| *end_ns).collect();
                assert!(ends.is_sorted() && ends.iter().all(|&end_ns| end_ns >= at_ns), "{plan:?}");
                assert_eq!(ends.last().copied().unwrap_or(at_ns), plan.time_ns);
                // Longer than requested only where every size must have its window.
                let least = (if writes { 9 } else { 3 } + 3) * 5 * plan.window_ns / 4;
                assert!(
                    plan.time_ns <= time_s * 1_000_000_000 * 7 / 10 + least.max(time_s * 300_000_000),
                    "{plan:?}"
                );
            }
        }
    }

    #[test]
    fn sizes_are_those_of_reads_of_the_volume() {
        assert_eq!(sizes(UNIT_BYTES, false), [4 << 10, 68 << 10, 264 << 10]);
        assert_eq!(sizes(UNIT_BYTES, true), [4 << 10, 264 << 10]);
        assert_eq!(sizes(1, false), [4 << 10, 8 << 10]);
        assert_eq!(sizes(16 << 20, false), [4 << 10, 4 << 20, 16 << 20]);
    }

    #[test]
    fn every_size_has_a_trial_before_its_first_window() {
        for plan in [plan(1, true, false), plan(3, false, true)] {
            for (at, window) in plan.windows.iter().enumerate().filter(|(_, window)| !window.is_trial) {
                assert!(plan.windows[..at].iter().any(|earlier| {
                    earlier.is_trial && earlier.kind == window.kind && earlier.bytes == window.bytes
                }));
            }
        }
        assert_eq!(plan(3, false, true).cells.len(), 4 * 2 * 3 * 2);
        let quick: Vec<usize> = plan(1, true, false).cells.iter().map(|(cell, _)| cell.bytes).collect();
        assert_eq!(quick, [4 << 10, UNIT_BYTES]);
    }

    #[test]
    fn a_quick_measurement_has_several_windows_of_each_size() {
        let windows = plan_of(2_000_000_000, true, false).windows;
        for bytes in [4096, UNIT_BYTES, 4 * UNIT_BYTES] {
            let count = windows.iter().filter(|window| !window.is_trial && window.bytes == bytes).count();
            assert!(count >= 2, "{count}");
        }
    }
}
