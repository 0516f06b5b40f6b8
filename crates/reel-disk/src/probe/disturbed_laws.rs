//! A neighbour that stalls a disk while it is measured changes its price by little. Simulated.

use super::agreement::{Taken, agreement, are_settled};
use crate::limits::PROBE_TIMES_MAX;
use crate::profile::{Window, WindowKind, price_of};
use reel_qos::DiskPrice;
use reel_testkit::Rng;

const SECOND_NS: u64 = 1_000_000_000;
const WINDOW_NS: u64 = SECOND_NS / 5;
/// Windows of each kind and size in a round.
const WINDOWS: usize = 4;
const UNIT: u64 = 264 << 10;
const READS: [(WindowKind, u64); 4] = [
    (WindowKind::Read, 4 << 10),
    (WindowKind::Read, 68 << 10),
    (WindowKind::Read, UNIT),
    (WindowKind::ReadRun, 4 * UNIT),
];

/// A disk, and what else uses it.
struct Disk {
    rng: Rng,
    /// One in so many windows has a stall in it; none if 0.
    one_in: u64,
    stall_ns: u64,
}

impl Disk {
    /// Nanoseconds of a read: 60 us, and 0.5 us a KiB.
    fn read_ns(bytes: u64) -> u64 {
        60_000 + bytes / 2
    }

    /// What a window says in which so many reads take the time of one. It ends by the clock, and
    /// counts as if it had done all of them.
    fn window(&mut self, requests: u64) -> Taken {
        // Windows differ by up to 4 %.
        let quiet_ns = WINDOW_NS + WINDOW_NS * self.rng.below(40) / 1000;
        let none = Taken { zone: None, time_ns: quiet_ns, longest_ns: quiet_ns / requests };
        if self.one_in == 0 || self.rng.below(self.one_in) > 0 {
            return none;
        }
        let before_ns = self.rng.below(quiet_ns);
        let after_ns = quiet_ns.saturating_sub(before_ns + self.stall_ns);
        let done = ((before_ns + after_ns) * requests / quiet_ns).max(1);
        let elapsed_ns = before_ns + self.stall_ns + after_ns;
        Taken { time_ns: elapsed_ns * requests / done, longest_ns: self.stall_ns, ..none }
    }

    /// The price by a measurement, and how many windows were left out.
    fn probe(&mut self) -> (DiskPrice, usize) {
        let requests = READS.map(|(_, bytes)| WINDOW_NS / Self::read_ns(bytes));
        let mut taken: [Vec<Taken>; 4] = Default::default();
        for _ in 0..PROBE_TIMES_MAX {
            let settled = are_settled(&taken.each_ref().map(|series| agreement(series)));
            for ((series, requests), is_settled) in taken.iter_mut().zip(requests).zip(settled) {
                if !is_settled {
                    series.extend((0..WINDOWS).map(|_| self.window(requests)));
                }
            }
        }
        let mut left_out = 0;
        let windows: Vec<Window> = (taken.iter().zip(READS).zip(requests))
            .map(|((series, (kind, bytes)), requests)| {
                let found = agreement(series);
                left_out += found.disturbed;
                let (windows, p50_ns) = (found.kept_ns.len() as u32, found.kept_ns[found.kept_ns.len() / 2]);
                let p99_ns = *found.kept_ns.last().unwrap();
                Window { kind, bytes, requests: requests as u32, writes: 0, windows, p50_ns, p99_ns }
            })
            .collect();
        (price_of(&windows).unwrap(), left_out)
    }
}

#[test]
fn stalls_of_a_neighbour_change_what_is_promised_by_less_than_a_tenth() {
    let quiet = Disk { rng: Rng::new(1), one_in: 0, stall_ns: 0 }.probe();
    assert_eq!(quiet.1, 0);
    let mut beyond = Vec::new();
    for one_in in [100, 10, 3] {
        for stall_ms in [100, 400, 3_000, 80_000] {
            for seed in 1..=10 {
                let mut disk = Disk { rng: Rng::new(seed), one_in, stall_ns: stall_ms * 1_000_000 };
                let (price, _) = disk.probe();
                for bytes in [4 << 10, UNIT] {
                    let (ns, quiet_ns) = (price.read_ns(bytes), quiet.0.read_ns(bytes));
                    if ns.abs_diff(quiet_ns) * 10 > quiet_ns {
                        beyond.push((one_in, stall_ms, seed, bytes, 100 * ns / quiet_ns));
                    }
                }
            }
        }
    }
    assert!(beyond.is_empty(), "{beyond:?}");
}
