//! From windows to a price.

use super::fit::{Point, cover, knee, worst};
use super::{Cell, Locality, Window, WindowKind};
use crate::limits::{
    DEVICE_REQUESTS_MAX, PRICE_INDEPENDENT_PERMILLE, PROFILE_COMPARED_REQUESTS_MIN, WRITE_READ_RATIO,
};
use reel_qos::DiskPrice;

/// The price of requests that is below no measured window; `None` without reads of two sizes.
///
/// Writes are also charged with what they took from the reads beside them: the sum of a round that
/// holds both must not be less than the round takes.
pub(crate) fn price_of(windows: &[Window]) -> Option<DiskPrice> {
    price_by(windows, |window| window.p99_ns)
}

/// The price that is expected over a long time: slow rounds and fast ones compensate each other.
/// Half of the windows took no longer than their p50, but a handful of windows does not determine
/// that well. So it is the middle between that and the slow ones.
pub(crate) fn expected_price_of(windows: &[Window]) -> Option<DiskPrice> {
    price_by(windows, |window| window.p50_ns.midpoint(window.p99_ns))
}

/// What half of the single requests kept to, as a part of the price in thousandths: of the size for
/// which that part is largest, at random places, with as many in the device as there ever are. 1000
/// at most, and if no such requests were measured.
///
/// Cells are measured after the windows. What disturbed these has rarely disturbed half of each
/// cell too. A throttle has spent by then what it had saved.
pub(crate) fn floor_permille(cells: &[Cell], price: &DiskPrice) -> u32 {
    let counts = |cell: &&Cell| {
        cell.locality == Locality::Random
            && !cell.beside_writes
            && cell.depth as usize >= DEVICE_REQUESTS_MAX
            && cell.requests >= PROFILE_COMPARED_REQUESTS_MIN
    };
    let part = |cell: &Cell| {
        let each_ns = cell.p50_ns.div_ceil(u64::from(cell.depth));
        (u128::from(each_ns) * 1000).div_ceil(u128::from(price.read_ns(cell.bytes).max(1)))
    };
    let largest = cells.iter().filter(counts).map(part).max();
    // Fits: it is at most 1000.
    largest.unwrap_or(1000).min(1000) as u32
}

fn price_by(windows: &[Window], window_ns: impl Fn(&Window) -> u64) -> Option<DiskPrice> {
    let reads = Reads::of(windows, &window_ns)?;
    let price = if has_independent_limits(windows) { reads.independent()? } else { reads.sum()? };
    let DiskPrice { read_request_ns, read_mib_ns, .. } = price;
    let of = |kind: WindowKind| windows.iter().filter(move |window| window.kind == kind);
    let mut writes: Vec<Point> = of(WindowKind::Write).map(|window| point(window, &window_ns)).collect();
    let largest = writes.iter().map(|write| write.bytes).max();
    for beside in of(WindowKind::ReadBesideWrites).filter(|beside| beside.writes > 0) {
        let reads_ns = price.read_ns(beside.bytes).saturating_mul(beside.requests.into());
        let ns = window_ns(beside).saturating_sub(reads_ns) / u64::from(beside.writes);
        // The writes beside are of the largest size.
        writes.extend(largest.filter(|_| ns > 0).map(|bytes| Point { bytes, ns }));
    }
    let (write_request_ns, write_mib_ns) = cover(&writes).unwrap_or_else(|| {
        (read_request_ns.saturating_mul(WRITE_READ_RATIO), read_mib_ns.saturating_mul(WRITE_READ_RATIO))
    });
    Some(DiskPrice { write_request_ns, write_mib_ns, ..price })
}

/// Whether requests and bytes have independent limits. Windows of mixed sizes included, the worst
/// overestimate by such a price must be clearly smaller than the worst one by a sum. By half of the
/// windows, so that one disturbance does not decide.
///
/// Without windows of mixed sizes this is not known, and the parts add up. They also do on a
/// rotational disk, for which a run is one request.
fn has_independent_limits(windows: &[Window]) -> bool {
    let Some(reads) = Reads::of(windows, |window| window.p50_ns) else { return false };
    let all = reads.singles();
    let (Some(sum), Some(independent)) = (sum(&all), reads.independent()) else { return false };
    let worst = |price: DiskPrice| worst(|bytes| price.read_ns(bytes), &all);
    !reads.mixed.is_empty()
        && !runs_need_one_seek(windows)
        && worst(independent) * 1000.0 < worst(sum) * f64::from(PRICE_INDEPENDENT_PERMILLE)
}

/// The time of reads, at one quantile of their windows.
struct Reads {
    /// Of one size each.
    sizes: Vec<Point>,
    /// Of two sizes, by their average: at least one of `sizes` is smaller and one larger.
    mixed: Vec<Point>,
    /// Whole runs.
    runs: Vec<Point>,
}

impl Reads {
    fn of(windows: &[Window], window_ns: impl Fn(&Window) -> u64) -> Option<Reads> {
        let of = |kind: WindowKind| windows.iter().filter(move |window| window.kind == kind);
        let sizes: Vec<Point> = of(WindowKind::Read).map(|window| point(window, &window_ns)).collect();
        let first = sizes.first()?;
        if sizes.iter().all(|read| read.bytes == first.bytes) {
            return None;
        }
        let all = |kind| of(kind).map(|window| point(window, &window_ns)).collect();
        Some(Reads { mixed: all(WindowKind::ReadMixed), runs: all(WindowKind::ReadRun), sizes })
    }

    /// The price of a device that does one part after the other.
    ///
    /// A line that is not below the cost of two sizes is not below that of any mixture of them:
    /// doing one after the other is always possible.
    fn sum(&self) -> Option<DiskPrice> {
        let mut all = self.singles();
        let price = sum(&all)?;
        if !price.is_rotational() {
            return Some(price);
        }
        // Then reads behind one another count as one request. A throttle takes as long for requests
        // as a rotational disk for its seeks, and as long for the second of a run as for the first.
        all.extend(&self.runs);
        sum(&all)
    }

    /// The price of a device with independent limits of requests and bytes.
    fn independent(&self) -> Option<DiskPrice> {
        let smallest = self.sizes.iter().min_by_key(|read| read.bytes);
        let largest = self.sizes.iter().max_by_key(|read| read.bytes);
        let bends: Vec<Point> = self.mixed.iter().chain(smallest).chain(largest).copied().collect();
        let (read_request_ns, read_mib_ns) = knee(&self.singles(), &bends)?;
        Some(DiskPrice { read_request_ns, read_mib_ns, independent_limits: true, ..DiskPrice::FREE })
    }

    fn singles(&self) -> Vec<Point> {
        [&self.sizes[..], &self.mixed].concat()
    }
}

fn sum(points: &[Point]) -> Option<DiskPrice> {
    let (read_request_ns, read_mib_ns) = cover(points)?;
    Some(DiskPrice { read_request_ns, read_mib_ns, ..DiskPrice::FREE })
}

fn point(window: &Window, window_ns: impl Fn(&Window) -> u64) -> Point {
    Point { bytes: window.bytes, ns: window_ns(window).div_ceil(u64::from(window.requests.max(1))) }
}

/// Whether reads behind one another need one seek: a run of them takes clearly less than as many
/// single ones. Assumed where runs were not measured.
pub(crate) fn runs_need_one_seek(windows: &[Window]) -> bool {
    let of = |kind: WindowKind| windows.iter().filter(move |window| window.kind == kind);
    let unit = of(WindowKind::Read).max_by_key(|window| window.bytes);
    let run = of(WindowKind::ReadRun).max_by_key(|window| window.bytes);
    let (Some(unit), Some(run)) = (unit, run) else { return true };
    let units = run.bytes / unit.bytes.max(1);
    let each_ns = |window: &Window| window.p50_ns / u64::from(window.requests.max(1));
    each_ns(run).saturating_mul(4) < each_ns(unit).saturating_mul(units).saturating_mul(3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cell(bytes: u64, depth: u32, locality: Locality, p50_ns: u64) -> Cell {
        Cell { bytes, depth, locality, beside_writes: false, requests: 100, p50_ns, p99_ns: 2 * p50_ns }
    }

    #[test]
    fn a_price_may_fall_to_what_single_requests_took_side_by_side() {
        // As found on a virtual disk: 0.14 ms for single requests, 23.2 ms by its windows.
        let price = DiskPrice { read_request_ns: 23_200_000, read_mib_ns: 0, ..DiskPrice::FREE };
        let (random, depth) = (Locality::Random, DEVICE_REQUESTS_MAX as u32);
        let small = cell(4096, depth, random, 140_000 * u64::from(depth));
        assert_eq!(floor_permille(&[small], &price), 7);
        // The size counts that costs most by its price; one after another says nothing.
        let large = cell(1 << 20, depth, random, 2_320_000 * u64::from(depth));
        let sequential = cell(1 << 20, depth, Locality::Sequential, 23_200_000 * u64::from(depth));
        assert_eq!(floor_permille(&[small, large, sequential], &price), 100);
        // Single requests that were as slow, none, one at a time, too few, beside writes.
        let alone = cell(4096, 1, random, 140_000);
        assert_eq!(floor_permille(&[cell(4096, depth, random, u64::from(u32::MAX))], &price), 1000);
        for useless in [None, Some(alone), Some(Cell { requests: 3, ..small })] {
            assert_eq!(floor_permille(useless.as_slice(), &price), 1000);
        }
        assert_eq!(floor_permille(&[Cell { beside_writes: true, ..small }], &price), 1000);
    }

    proptest! {
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
    fn a_throttle_that_looks_rotational_is_not_priced_as_rotational() {
        // 300 requests a second, or 40 MB: whichever is used up first.
        let read_ns = |bytes: u64| (1_000_000_000 / 300).max(bytes * 25);
        let unit_ns = read_ns(264 << 10);
        let windows = windows_of(read_ns, 4 * unit_ns);
        let price = price_of(&windows).unwrap();
        assert!(price.is_rotational());
        for units in 1..=4 {
            let run_ns = price.read_ns(units * (264 << 10));
            assert!(run_ns >= units * unit_ns, "{units}: {run_ns}");
        }
        assert!(price.read_ns(3 * (264 << 10)) < 3 * unit_ns * 11 / 10, "{price:?}");
        assert!(!runs_need_one_seek(&windows));
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
        assert!(runs_need_one_seek(&windows) && runs_need_one_seek(&windows[..3]));
        let flash = |bytes: u64| 20_000 + bytes;
        let windows = windows_of(flash, 4 * flash(264 << 10));
        assert_eq!(price_of(&windows), price_of(&windows[..3]));
    }

    #[test]
    fn writes_are_charged_with_what_they_take_from_reads() {
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
