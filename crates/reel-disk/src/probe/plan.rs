//! How the time of a measurement is divided. Pure.
//!
//! Everything has its time on a clock that all members share, so that they do the same at the same time: beside the small requests
//! of one member, the large ones of another would look faster than they are.

use super::Probe;
use crate::limits::{DEVICE_REQUESTS_MAX, PROBE_SIZES, PROBE_WINDOW_NS, PROBE_WINDOWS};
use crate::profile::{Locality, WindowKind};
use std::ops::Range;

/// What is measured when, in nanoseconds from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Cells, each with the time at which it ends; none when there is little time.
    pub(super) cells: Vec<(CellPlan, u64)>,
    /// Windows in the order of their times.
    pub(super) windows: Vec<WindowPlan>,
    /// When all is over.
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
    pub(super) bytes: usize,
    /// Eighths of what was written.
    pub(super) zone: Range<u64>,
    /// When, from the start.
    pub(super) time_ns: Range<u64>,
    /// Shows how many requests make a window, and is not counted itself.
    pub(super) is_trial: bool,
}

impl Plan {
    pub(super) fn new(probe: &Probe) -> Plan {
        let Probe { time_ns, quick, writes, .. } = *probe;
        let sizes: &[usize] = if quick { &PROBE_SIZES[..3] } else { &PROBE_SIZES };
        // In thousandths of the time: cells, windows of reads, of reads beside writes, of writes.
        let [cells_share, reads_share, beside_share, writes_share] = match (quick, writes) {
            (true, false) => [0, 1000, 0, 0],
            (false, false) => [350, 650, 0, 0],
            (true, true) => [0, 600, 200, 200],
            (false, true) => [300, 350, 150, 200],
        };
        let part = |permille: u64| (u128::from(time_ns) * u128::from(permille) / 1000) as u64;
        let cells = if quick { Vec::new() } else { cells(writes) };
        let each_ns = part(cells_share) / cells.len().max(1) as u64;
        let ends = (1..).map(|number| each_ns * number);
        let [shortest, longest] = PROBE_WINDOW_NS;
        let window_ns = (part(reads_share) / (PROBE_WINDOWS * sizes.len() as u64)).clamp(shortest, longest);
        let mut windows = Windows { all: Vec::new(), at_ns: each_ns * cells.len() as u64, window_ns };
        windows.add(WindowKind::Read, sizes, part(reads_share));
        if writes {
            windows.add(WindowKind::ReadBesideWrites, sizes, part(beside_share));
            windows.add(WindowKind::Write, sizes, part(writes_share));
        }
        Plan {
            cells: cells.into_iter().zip(ends).collect(),
            time_ns: windows.at_ns,
            windows: windows.all,
            window_ns,
        }
    }
}

struct Windows {
    all: Vec<WindowPlan>,
    at_ns: u64,
    window_ns: u64,
}

impl Windows {
    /// As many as fit into the time, and at least one of each size. Sizes take turns, so that a disturbance meets all of them.
    fn add(&mut self, kind: WindowKind, sizes: &[usize], time_ns: u64) {
        let trial_ns = self.window_ns / 4;
        for &bytes in sizes {
            self.push(kind, bytes, 0..8, trial_ns, true);
        }
        let left_ns = time_ns.saturating_sub(trial_ns * sizes.len() as u64);
        let count = usize::try_from(left_ns / self.window_ns).unwrap_or(usize::MAX).max(sizes.len());
        for number in 0..count {
            // A title lies together: a round of a hard disk may be all in its slow zone, or jump over all of it.
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

    fn plan(time_s: u64, quick: bool, writes: bool) -> Plan {
        let time_ns = time_s * 1_000_000_000;
        Plan::new(&Probe { time_ns, quick, writes, driver: DriverChoice::Auto })
    }

    #[test]
    fn one_thing_at_a_time_and_no_gaps() {
        for (quick, writes) in [(true, false), (false, false), (true, true), (false, true)] {
            for time_s in [0, 1, 3, 600] {
                let plan = plan(time_s, quick, writes);
                let ends: Vec<u64> = plan.cells.iter().map(|(_, end_ns)| *end_ns).collect();
                assert!(ends.is_sorted(), "{plan:?}");
                let mut at_ns = ends.last().copied().unwrap_or(0);
                for window in &plan.windows {
                    assert_eq!(window.time_ns.start, at_ns);
                    at_ns = window.time_ns.end;
                }
                assert_eq!(at_ns, plan.time_ns);
                // Longer than asked for only where every size must have its window.
                let kinds = if writes { 3 } else { 1 };
                assert!(
                    plan.time_ns
                        <= (time_s * 1_000_000_000)
                            .max(kinds * 5 * plan.window_ns + ends.last().copied().unwrap_or(0))
                );
            }
        }
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
        assert!(plan(1, true, false).cells.is_empty());
    }

    #[test]
    fn a_second_in_a_hurry_has_several_windows_of_each_size() {
        let windows = plan(1, true, false).windows;
        for bytes in &PROBE_SIZES[..3] {
            let count = windows.iter().filter(|window| !window.is_trial && window.bytes == *bytes).count();
            assert!(count >= 3, "{count}");
        }
    }
}
