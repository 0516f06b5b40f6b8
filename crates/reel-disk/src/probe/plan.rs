//! How the time of a measurement is divided. Pure.

use super::Probe;
use crate::limits::{DEVICE_REQUESTS_MAX, PROBE_SIZES, PROBE_WINDOW_NS, PROBE_WINDOWS};
use crate::profile::Locality;

/// What is measured when, in nanoseconds from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Cells, each with the time at which it ends; none when there is little time.
    pub(super) cells: Vec<(CellPlan, u64)>,
    /// Windows of reads, until then.
    pub(super) reads_until_ns: u64,
    /// Windows of reads beside writes, until then.
    pub(super) beside_until_ns: u64,
    /// When all is over.
    pub(super) time_ns: u64,
    /// Length that a window aims at.
    pub(super) window_ns: u64,
    /// Sizes of windows.
    pub(super) sizes: Vec<usize>,
    /// Whether writes are measured.
    pub(super) writes: bool,
}

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CellPlan {
    pub(super) bytes: usize,
    pub(super) depth: usize,
    pub(super) locality: Locality,
    pub(super) beside_writes: bool,
}

impl Plan {
    pub(super) fn new(probe: &Probe) -> Plan {
        let Probe { time_ns, quick, writes, .. } = *probe;
        let sizes: Vec<usize> =
            PROBE_SIZES.into_iter().take(if quick { 3 } else { PROBE_SIZES.len() }).collect();
        let cells = if quick { Vec::new() } else { cells(&sizes, writes) };
        // In thousandths: cells, windows of reads, reads beside writes, the rest writes.
        let (cells_share, reads_share, beside_share) = match (quick, writes) {
            (true, false) => (0, 1000, 0),
            (false, false) => (350, 650, 0),
            (true, true) => (0, 500, 200),
            (false, true) => (300, 350, 150),
        };
        let after = |permille: u64| (u128::from(time_ns) * u128::from(permille) / 1000) as u64;
        let reads_ns = after(reads_share);
        let [shortest, longest] = PROBE_WINDOW_NS;
        let count = cells.len() as u64;
        let ends = (1..=count).map(|number| after(cells_share) / count * number);
        Plan {
            cells: cells.into_iter().zip(ends).collect(),
            reads_until_ns: after(cells_share + reads_share),
            beside_until_ns: after(cells_share + reads_share + beside_share),
            time_ns,
            window_ns: (reads_ns / (PROBE_WINDOWS * sizes.len() as u64)).clamp(shortest, longest),
            sizes,
            writes,
        }
    }
}

fn cells(sizes: &[usize], writes: bool) -> Vec<CellPlan> {
    let mut cells = Vec::new();
    for beside_writes in [false, true].into_iter().take(1 + usize::from(writes)) {
        for &bytes in sizes {
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

    #[test]
    fn the_time_is_used_up_and_not_more() {
        for (quick, writes) in [(true, false), (false, false), (true, true), (false, true)] {
            for time_ns in [0, 1_000_000_000, 3_000_000_000, 600_000_000_000] {
                let plan = Plan::new(&Probe { time_ns, quick, writes, driver: DriverChoice::Auto });
                let ends: Vec<u64> = plan.cells.iter().map(|(_, end)| *end).collect();
                assert!(ends.is_sorted(), "{plan:?}");
                let cells_end = ends.last().copied().unwrap_or(0);
                assert!(cells_end <= plan.reads_until_ns && plan.reads_until_ns <= plan.beside_until_ns);
                assert!(plan.beside_until_ns <= time_ns);
                assert_eq!(plan.beside_until_ns < time_ns, writes && time_ns > 0);
            }
        }
    }

    #[test]
    fn everything_is_measured_in_every_combination() {
        let probe = Probe { time_ns: 1, quick: false, writes: true, driver: DriverChoice::Auto };
        assert_eq!(Plan::new(&probe).cells.len(), 4 * 2 * 3 * 2);
    }
}
