//! From windows to a price.

use super::{Window, WindowKind};
use crate::limits::WRITE_READ_RATIO;
use reel_qos::DiskPrice;

/// What one request of so many bytes costs at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) bytes: u64,
    pub(super) ns: u64,
}

/// The price of requests that is nowhere below a measured window; `None` without reads of two sizes.
///
/// Writes are charged with what they took from the reads beside them, too: the sum of a round that holds both must not be
/// less than the round takes.
pub(crate) fn price_of(windows: &[Window]) -> Option<DiskPrice> {
    price_by(windows, |window| window.p99_ns)
}

/// The price that a long time is expected to have: slow rounds and fast ones make up for each other. Half of the windows took no longer than their p50, but
/// that is not known better than a handful of windows tells, so it is the middle between that and the slow ones.
pub(crate) fn expected_price_of(windows: &[Window]) -> Option<DiskPrice> {
    price_by(windows, |window| window.p50_ns.midpoint(window.p99_ns))
}

fn price_by(windows: &[Window], window_ns: impl Fn(&Window) -> u64) -> Option<DiskPrice> {
    let of = |kind: WindowKind| windows.iter().filter(move |window| window.kind == kind);
    let point = |window: &Window| Point {
        bytes: window.bytes,
        ns: window_ns(window).div_ceil(u64::from(window.requests.max(1))),
    };
    let reads: Vec<Point> = of(WindowKind::Read).map(point).collect();
    let first = reads.first()?;
    if reads.iter().all(|read| read.bytes == first.bytes) {
        return None;
    }
    let mut price = DiskPrice { read_request_ns: 0, read_mib_ns: 0, write_request_ns: 0, write_mib_ns: 0 };
    (price.read_request_ns, price.read_mib_ns) = cover(&reads)?;
    if price.has_arm() {
        // What lies behind one another is counted as one request then. A throttle takes as long for requests as an arm for its ways, and
        // as long for the second of a run as for the first.
        let all: Vec<Point> = reads.into_iter().chain(of(WindowKind::ReadRun).map(point)).collect();
        (price.read_request_ns, price.read_mib_ns) = cover(&all)?;
    }
    let DiskPrice { read_request_ns, read_mib_ns, .. } = price;
    let mut writes: Vec<Point> = of(WindowKind::Write).map(point).collect();
    let largest = writes.iter().map(|write| write.bytes).max();
    for beside in of(WindowKind::ReadBesideWrites).filter(|beside| beside.writes > 0) {
        let reads_ns = price.read_ns(beside.bytes).saturating_mul(beside.requests.into());
        let ns = window_ns(beside).saturating_sub(reads_ns) / u64::from(beside.writes);
        // The writes beside are of the largest size.
        writes.extend(largest.filter(|_| ns > 0).map(|bytes| Point { bytes, ns }));
    }
    (price.write_request_ns, price.write_mib_ns) = match cover(&writes) {
        Some(covered) => covered,
        None => {
            (read_request_ns.saturating_mul(WRITE_READ_RATIO), read_mib_ns.saturating_mul(WRITE_READ_RATIO))
        }
    };
    Some(price)
}

/// Whether reads that lie behind one another are one way of an arm: a run of them takes clearly less than as many by themselves. Taken for granted where runs
/// were not measured.
pub(super) fn runs_are_ways(windows: &[Window]) -> bool {
    let of = |kind: WindowKind| windows.iter().filter(move |window| window.kind == kind);
    let unit = of(WindowKind::Read).max_by_key(|window| window.bytes);
    let run = of(WindowKind::ReadRun).max_by_key(|window| window.bytes);
    let (Some(unit), Some(run)) = (unit, run) else { return true };
    let units = run.bytes / unit.bytes.max(1);
    let each_ns = |window: &Window| window.p50_ns / u64::from(window.requests.max(1));
    each_ns(run).saturating_mul(4) < each_ns(unit).saturating_mul(units).saturating_mul(3)
}

/// The line `request + bytes x mib` that is below none of the points and above them by the least sum of shares. An average line
/// would be too cheap for half of the sizes, and a round may hold requests of one size only. `None` without points.
pub(super) fn cover(points: &[Point]) -> Option<(u64, u64)> {
    // The best line goes through two points, or through one and has no part of one kind: the corners of a linear program in two
    // unknowns.
    let flat = (points.iter().map(|point| point.ns).max()?, 0);
    let steep = (0, points.iter().map(|point| slope(point.ns, point.bytes)).max()?);
    let through = points.iter().flat_map(|low| {
        let high = points.iter().filter(|high| high.bytes > low.bytes && high.ns >= low.ns);
        high.filter_map(|high| {
            let mib_ns = slope(high.ns - low.ns, high.bytes - low.bytes);
            Some((low.ns.checked_sub(part(low.bytes, mib_ns))?, mib_ns))
        })
    });
    let candidates = [flat, steep].into_iter().chain(through).map(|line| raise(line, points));
    candidates.min_by(|a, b| excess(*a, points).total_cmp(&excess(*b, points)))
}

/// Lifts a line until it is below no point.
fn raise((request_ns, mib_ns): (u64, u64), points: &[Point]) -> (u64, u64) {
    let missing =
        |point: &Point| point.ns.saturating_sub(request_ns.saturating_add(part(point.bytes, mib_ns)));
    (request_ns.saturating_add(points.iter().map(missing).max().unwrap_or(0)), mib_ns)
}

fn excess((request_ns, mib_ns): (u64, u64), points: &[Point]) -> f64 {
    let share =
        |point: &Point| request_ns.saturating_add(part(point.bytes, mib_ns)) as f64 / point.ns.max(1) as f64;
    points.iter().map(share).sum()
}

/// Nanoseconds for each MiB, rounded up.
fn slope(ns: u64, bytes: u64) -> u64 {
    let mib_ns = (u128::from(ns) << 20).div_ceil(u128::from(bytes.max(1)));
    u64::try_from(mib_ns).unwrap_or(u64::MAX)
}

fn part(bytes: u64, mib_ns: u64) -> u64 {
    DiskPrice { read_request_ns: 0, read_mib_ns: mib_ns, write_request_ns: 0, write_mib_ns: 0 }.read_ns(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points(all: &[(u64, u64)]) -> Vec<Point> {
        all.iter().map(|&(bytes, ns)| Point { bytes, ns }).collect()
    }

    #[test]
    fn a_straight_line_is_found_again() {
        let line = |bytes: u64| (bytes, 100_000 + bytes);
        let (request_ns, mib_ns) = cover(&points(&[line(4096), line(65_536), line(1 << 20)])).unwrap();
        assert!((99_000..=100_001).contains(&request_ns), "{request_ns}");
        assert!((1 << 20..=(1 << 20) + 1_000).contains(&mib_ns), "{mib_ns}");
    }

    #[test]
    fn one_slow_size_lifts_the_line_and_no_fast_one_lowers_it() {
        let slow = cover(&points(&[(4096, 10_000), (65_536, 300_000), (1 << 20, 1_000_000)])).unwrap();
        assert!(slow.0 + part(65_536, slow.1) >= 300_000);
        let fast = cover(&points(&[(4096, 10_000), (65_536, 1), (1 << 20, 1_000_000)])).unwrap();
        assert!(fast.0 + part(4096, fast.1) >= 10_000 && fast.0 + part(1 << 20, fast.1) >= 1_000_000);
    }

    proptest! {
        #[test]
        fn a_price_is_below_no_point(all in prop::collection::vec((1u64..1 << 22, 1u64..1 << 40), 1..9)) {
            let points = points(&all);
            let (request_ns, mib_ns) = cover(&points).unwrap();
            for point in points {
                prop_assert!(request_ns + part(point.bytes, mib_ns) >= point.ns);
            }
        }

        #[test]
        fn a_round_is_never_counted_for_less_than_its_windows(
            ns in prop::collection::vec(1_000u64..1 << 34, 3), requests in 8u32..1000,
        ) {
            let sizes = [4096, 264 << 10, 1 << 20];
            let windows: Vec<Window> = sizes.iter().zip(&ns).map(|(&bytes, &p99_ns)| Window {
                kind: WindowKind::Read, bytes, requests, writes: 0, windows: 3, p50_ns: p99_ns, p99_ns,
            }).collect();
            let price = price_of(&windows).unwrap();
            for window in windows {
                prop_assert!(price.read_ns(window.bytes) * u64::from(requests) >= window.p99_ns);
            }
        }
    }

    /// Windows of a hundred reads of a block, a quarter of a unit, a unit, and runs of four units.
    fn windows_of(read_ns: impl Fn(u64) -> u64, run_ns: u64) -> Vec<Window> {
        let window = |kind, bytes, ns: u64| {
            let (requests, windows, p99_ns) = (100, 3, 100 * ns);
            Window { kind, bytes, requests, writes: 0, windows, p50_ns: p99_ns, p99_ns }
        };
        let reads =
            [4 << 10, 68 << 10, 264 << 10].map(|bytes| window(WindowKind::Read, bytes, read_ns(bytes)));
        [&reads[..], &[window(WindowKind::ReadRun, 4 * (264 << 10), run_ns)]].concat()
    }

    #[test]
    fn a_throttle_that_looks_like_an_arm_is_not_priced_as_one() {
        // 300 requests a second, or 40 MB: whichever is used up first.
        let read_ns = |bytes: u64| (1_000_000_000 / 300).max(bytes * 25);
        let unit_ns = read_ns(264 << 10);
        let windows = windows_of(read_ns, 4 * unit_ns);
        let price = price_of(&windows).unwrap();
        assert!(price.has_arm());
        for units in 1..=4 {
            let run_ns = price.read_ns(units * (264 << 10));
            assert!(run_ns >= units * unit_ns, "{units}: {run_ns}");
        }
        assert!(price.read_ns(3 * (264 << 10)) < 3 * unit_ns * 11 / 10, "{price:?}");
        assert!(!runs_are_ways(&windows));
        // Without the runs a second unit would cost half of what it does.
        let single = price_of(&windows[..3]).unwrap();
        assert!(single.read_ns(3 * (264 << 10)) < 3 * unit_ns * 7 / 10, "{single:?}");
    }

    #[test]
    fn runs_do_not_change_what_a_disk_costs_and_do_not_count_for_flash() {
        let disk = |bytes: u64| 6_700_000 + bytes * 7;
        let windows = windows_of(disk, disk(4 * (264 << 10)));
        let (with, without) = (price_of(&windows).unwrap(), price_of(&windows[..3]).unwrap());
        assert!(with.read_request_ns.abs_diff(without.read_request_ns) < 1_000, "{with:?} {without:?}");
        assert!(runs_are_ways(&windows) && runs_are_ways(&windows[..3]));
        let flash = |bytes: u64| 20_000 + bytes;
        let windows = windows_of(flash, 4 * flash(264 << 10));
        assert_eq!(price_of(&windows), price_of(&windows[..3]));
    }

    #[test]
    fn what_writes_take_from_reads_is_their_price() {
        let window = |kind, bytes, writes, p99_ns| Window {
            kind,
            bytes,
            requests: 100,
            writes,
            windows: 3,
            p50_ns: p99_ns,
            p99_ns,
        };
        let reads =
            [window(WindowKind::Read, 4096, 0, 1_000_000), window(WindowKind::Read, 1 << 20, 0, 100_000_000)];
        assert_eq!(price_of(&reads[..1]), None);
        let unmeasured = price_of(&reads).unwrap();
        assert_eq!(unmeasured.write_ns(1 << 20), 2 * unmeasured.read_ns(1 << 20));
        let writes = [
            window(WindowKind::Write, 65_536, 0, 10_000_000),
            window(WindowKind::Write, 1 << 20, 0, 50_000_000),
        ];
        let alone = price_of(&[reads, writes].concat()).unwrap();
        assert!((500_000..520_000).contains(&alone.write_ns(1 << 20)), "{alone:?}");
        let beside = window(WindowKind::ReadBesideWrites, 1 << 20, 10, 200_000_000);
        let both = price_of(&[&reads[..], &writes, &[beside]].concat()).unwrap();
        assert!(100 * both.read_ns(1 << 20) + 10 * both.write_ns(1 << 20) >= 200_000_000, "{both:?}");
    }
}
