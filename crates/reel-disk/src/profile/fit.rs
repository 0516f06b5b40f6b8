//! Lines over points, and two lines that meet over one of them. Pure.

use reel_qos::DiskPrice;

/// The least cost of one request of this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) bytes: u64,
    pub(super) ns: u64,
}

/// The line `request + bytes x mib` that is below none of the points and above them by the least
/// sum of shares. An average line would be too cheap for half of the sizes, and a round may hold
/// requests of one size only. `None` without points.
pub(super) fn cover(points: &[Point]) -> Option<(u64, u64)> {
    // The best line goes through two points, or through one with one of its parts 0: the corners of
    // a linear program in two unknowns.
    let flat = (points.iter().map(|point| point.ns).max()?, 0);
    let steep = (0, points.iter().map(|point| slope(point.ns, point.bytes)).max()?);
    let through = points.iter().flat_map(|low| {
        let high = points.iter().filter(|high| high.bytes > low.bytes && high.ns >= low.ns);
        high.filter_map(|high| {
            let mib_ns = slope(high.ns - low.ns, high.bytes - low.bytes);
            Some((low.ns.checked_sub(part(low.bytes, mib_ns))?, mib_ns))
        })
    });
    let line_ns = |(request_ns, mib_ns): (u64, u64), bytes| request_ns.saturating_add(part(bytes, mib_ns));
    let candidates = [flat, steep].into_iter().chain(through).map(|line| raise(line, points));
    least(candidates, line_ns, points)
}

/// The longer of `request` and `bytes x mib` that is below none of the points and above them by the
/// least sum of shares, of all whose two parts are equal at one of `bends`. `None` without bends.
///
/// Bends are where the cost of mixtures of the smallest and the largest reads is known. A mixture
/// of another average takes at most what is interpolated between the two around it, since the
/// device could do one and then the other. A price that is straight between two points and below
/// neither is not below that interpolation. With a bend between them it could be.
pub(super) fn knee(points: &[Point], bends: &[Point]) -> Option<(u64, u64)> {
    let bent_at = |knee: &Point| {
        let smaller = points.iter().filter(|point| point.bytes <= knee.bytes).map(|point| point.ns);
        let larger = points.iter().filter(|point| point.bytes >= knee.bytes);
        let at_knee = larger.map(|point| {
            let ns = (u128::from(point.ns) * u128::from(knee.bytes)).div_ceil(u128::from(point.bytes.max(1)));
            u64::try_from(ns).unwrap_or(u64::MAX)
        });
        let ns = smaller.chain(at_knee).max().unwrap_or(knee.ns);
        (ns, slope(ns, knee.bytes))
    };
    let longer_ns = |(request_ns, mib_ns): (u64, u64), bytes| request_ns.max(part(bytes, mib_ns));
    least(bends.iter().map(bent_at), longer_ns, points)
}

/// How many times the real cost of a point a price says, at most.
pub(super) fn worst(price_ns: impl Fn(u64) -> u64, points: &[Point]) -> f64 {
    shares(price_ns, points).fold(0.0, f64::max)
}

fn shares(price_ns: impl Fn(u64) -> u64, points: &[Point]) -> impl Iterator<Item = f64> {
    points.iter().map(move |point| price_ns(point.bytes) as f64 / point.ns.max(1) as f64)
}

/// Lifts a line until it is below no point.
fn raise((request_ns, mib_ns): (u64, u64), points: &[Point]) -> (u64, u64) {
    let missing =
        |point: &Point| point.ns.saturating_sub(request_ns.saturating_add(part(point.bytes, mib_ns)));
    (request_ns.saturating_add(points.iter().map(missing).max().unwrap_or(0)), mib_ns)
}

fn least(
    candidates: impl Iterator<Item = (u64, u64)>,
    price_ns: impl Fn((u64, u64), u64) -> u64,
    points: &[Point],
) -> Option<(u64, u64)> {
    let excess = |candidate: (u64, u64)| shares(|bytes| price_ns(candidate, bytes), points).sum::<f64>();
    candidates.min_by(|a, b| excess(*a).total_cmp(&excess(*b)))
}

/// Nanoseconds for each MiB, rounded up.
fn slope(ns: u64, bytes: u64) -> u64 {
    let mib_ns = (u128::from(ns) << 20).div_ceil(u128::from(bytes.max(1)));
    u64::try_from(mib_ns).unwrap_or(u64::MAX)
}

fn part(bytes: u64, mib_ns: u64) -> u64 {
    DiskPrice { read_mib_ns: mib_ns, ..DiskPrice::FREE }.read_ns(bytes)
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

    #[test]
    fn a_throttle_is_found_again_at_its_knee() {
        let ns = |bytes: u64| 10_000_000.max(bytes * 50);
        let all = points(&[4096, 69_632, 200_000, 270_336].map(|bytes| (bytes, ns(bytes))));
        let (request_ns, mib_ns) = knee(&all, &all).unwrap();
        assert_eq!((request_ns, part(270_336, mib_ns)), (10_000_000, ns(270_336)));
        // Bent at the largest size, smaller reads are charged with a request only.
        assert_eq!(knee(&all, &all[3..]).unwrap().0, ns(270_336));
        assert_eq!(knee(&all, &[]), None);
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
        fn a_bent_price_is_below_no_point_and_bends_at_a_given_place(
            all in prop::collection::vec((1u64..1 << 22, 1u64..1 << 40), 1..9), bend in any::<prop::sample::Index>(),
        ) {
            let points = points(&all);
            let bend = *bend.get(&points);
            let (request_ns, mib_ns) = knee(&points, &[bend]).unwrap();
            for point in &points {
                prop_assert!(request_ns.max(part(point.bytes, mib_ns)) >= point.ns);
            }
            prop_assert!(part(bend.bytes, mib_ns).abs_diff(request_ns) <= 1 + bend.bytes.div_ceil(1 << 20));
        }
    }
}
